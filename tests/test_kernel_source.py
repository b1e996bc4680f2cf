"""Users' sources and the names of their kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import InputError
from tilewright.kernel_source import compiled, is_ptx, plain_name, read_source, symbol_named

SYMBOLS = (
    "_Z4gemmILi64EEvPf",  # gemm<64>(float*)
    "_Z4gemmILi128EEvPf",  # gemm<128>(float*)
    "_ZN2ns4gemmIfLi128EEEvPKT_PS1_i",  # ns::gemm<float, 128>(float const*, float*, int)
    "_ZN2ns4gemmI6__halfLi64EEEvPKT_PS2_i",  # ns::gemm<__half, 64>(…)
    "_ZN2ns5inner5plainEv",  # ns::inner::plain()
    "_Z5countILj5ELb1EEvPj",  # count<5u, true>(unsigned int*)
    "_Z3sumPf",  # sum(float*)
    "_Z3sumPd",  # sum(double*)
    "c_name",
    "c_name_fast",
    "_Z8c_name_2v",
)


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        *((symbol, symbol) for symbol in SYMBOLS),
        ("gemm<64>", 0),
        ("gemm<128>", 1),
        (" gemm < 128 > ", 1),
        ("::gemm<128>", 1),
        ("gemm<128>(float*)", 1),
        ("void gemm<128>(float *)", 1),
        ("ns::gemm<float, 128>", 2),
        ("ns::gemm<float,128>", 2),
        ("gemm<float, 128>", 2),
        ("gemm<float>", 2),
        ("ns::gemm<float", 2),
        ("gemm<__half", 3),
        ("ns::gemm<float, 128>(const float*, float*, int)", 2),
        ("plain", 4),
        ("inner::plain", 4),
        ("ns::inner::plain", 4),
        ("inner", 4),
        ("count", 5),
        ("count<5, true>", 5),
        ("count<5u>", 5),
        ("count<5u, true>(unsigned*)", 5),
        ("sum(float*)", 6),
        ("sum(double *)", 7),
        ("c_name", 8),
        ("name_fast", 9),
        ("fast", 9),
        ("c_name_2", 10),
    ],
)
def test_a_unique_part_of_a_name_finds_its_kernel(name: str, symbol: Any) -> None:
    wanted = SYMBOLS[symbol] if isinstance(symbol, int) else symbol
    assert symbol_named(SYMBOLS, name) == wanted


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gemm", r"^kernel='gemm' is not unique; it has: gemm<64>\(float\*\), gemm<128>\("),
        ("ns::gemm", r"is not unique; it has: ns::gemm<.*, ns::gemm<.*\)\.$"),
        ("sum", r"is not unique; it has: sum\(float\*\), sum\(double\*\)\."),
        ("gem", r"is not in the module; it has: gemm<64>.*; did you mean gemm\?$"),
        ("inner::gemm", r"is not in the module; it has: "),
        ("gemm<32>", r"is not in the module; it has: gemm<128>\(float\*\), gemm<64>\(.*\)\.$"),
        ("pliant", r"is not in the module; it has: ns::inner::plain\(\), "),
        ("SUM", r"is not in the module; it has: sum\(float\*\), sum\(double\*\), .*mean sum\?$"),
        ("", "kernel='' is not in the module"),
        ("   ", "is not in the module"),
        ("<", "is not unique"),
        ("x" * 100_000, r"kernel='x{118}… is not in the module"),
        (None, r"kernel=None must be a kernel's name, as the module has 11: gemm<64>"),
        (5, "kernel=5 must be a kernel's name"),
        (b"gemm", "must be a kernel's name"),
        ("\n(((", "is not in the module"),
    ],
)  # fmt: skip
def test_a_name_that_leads_nowhere_lists_what_there_is(name: Any, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        symbol_named(SYMBOLS, name)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_the_only_kernel_needs_no_name() -> None:
    assert symbol_named(SYMBOLS[:1], None) == SYMBOLS[0]
    with pytest.raises(InputError, match="has 0: none"):
        symbol_named((), None)


def test_many_candidates_are_not_all_listed() -> None:
    many = tuple(f"k{index}" for index in range(300))
    with pytest.raises(InputError, match=r"it has: k299, .* and 288 more"):
        symbol_named(many, "k2999")


def test_two_symbols_with_one_cpp_name_are_told_by_the_symbol() -> None:
    twins = ("_Z4gemmPf", "_ZL4gemmPf")
    with pytest.raises(InputError, match="it has: _Z4gemmPf, _ZL4gemmPf"):
        symbol_named(twins, "gemm")
    assert symbol_named(twins, "_ZL4gemmPf") == "_ZL4gemmPf"


@pytest.mark.parametrize(
    ("symbol", "plain"),
    [("gemm", "gemm"), ("_Z4gemmPf", "gemm"), ("_ZN2ns4gemmILi1EEEvPf", "gemm"), ("", ""),
     ("ns::gemm<a::b, 3>", "gemm"), ("gemm<128>", "gemm"), ("$x", "$x"), ("_Znope", "_Znope")],
)  # fmt: skip
def test_plain_names(symbol: str, plain: str) -> None:
    assert plain_name(symbol) == plain


# --- sources ------------------------------------------------------------------------------


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_bytes(b"\xef\xbb\xbf__global__ void k() {}\n")
    assert read_source(tmp_path / "k.cu") == ("__global__ void k() {}\n", "k.cu")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full"])
def test_devices_are_no_sources(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"there is no {path}")
    with pytest.raises(InputError, match="is a device"):
        read_source(path)


def test_ptx_is_told_from_cpp() -> None:
    assert is_ptx("// made by nvcc\n.version 8.0\n")
    assert not is_ptx("// .version 8.0\n/*\n.version 8.0\n*/ __global__ void k() {}\n")


@pytest.mark.parametrize(
    ("defines", "include_path", "why"),
    [
        ("N=1", (), "must be a mapping"),
        ({1: 2}, (), "defines: 1 is not the name of a macro"),
        ({"N": "1\n#define M"}, (), "defines must not hold a newline"),
        (None, "/usr", "must be a list of folders"),
        (None, ["no/such"], "holds 'no/such', which is not a folder"),
        (None, [1], "include_path holds 1; give folders"),
        (None, ["\0"], "include_path must not hold a NUL"),
    ],
)
def test_options_that_are_none(defines: Any, include_path: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        compiled("__global__ void k() {}\n", "k.cu", "sm_80", defines, include_path)


@pytest.mark.parametrize(("text", "why"), [("a;\0", "NUL"), ("a;\ud800", "surrogate")])
def test_texts_that_are_none(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        compiled(text, "k.cu", "sm_80", None, ())


def test_a_template_is_launched_by_its_cpp_name(compiler: str) -> None:
    text = """
    namespace ns { template <class T, int N> __global__ void fill(T* x) { x[threadIdx.x] = N; } }
    template __global__ void ns::fill<float, 3>(float*);
    template __global__ void ns::fill<float, 4>(float*);
    """
    out = np.zeros(4, np.float32)
    for name, value in (("ns::fill<float, 3>", 3), ("fill<float, 4>", 4)):
        assert tilewright.emulate(text, name, (1,), (4,), [out]).completed
        assert out.tolist() == [value] * 4
    with pytest.raises(InputError, match=r"it has: ns::fill<float, 3>\(float\*\), ns::fill"):
        tilewright.emulate(text, "fill", (1,), (4,), [out])


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x7fELF\x02\x01\x01\x41", r"is an ELF file.*cuobjdump -ptx"),
        (b"\x50\xed\x55\xba\x01\0\x10\0", "is a fat binary"),
        (b"BC\xc0\xde5\x14", "is LLVM bitcode"),
        (b"\x1f\x8b\x08\0\xff", "is not a text file"),
        (b".version 8.0\n// caf\xe9\n", "is not a text file"),
        (b"\xff\xfe", "is not a text file"),
    ],
)
def test_files_that_hold_no_source(tmp_path: Path, raw: bytes, why: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(raw)
    with pytest.raises(InputError, match=why):
        read_source(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_encodings_and_line_ends(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(".version 8.0\r\n// é\r.target sm_80\n".encode(encoding))
    assert read_source(path) == (".version 8.0\n// é\n.target sm_80\n", "k.ptx")


def test_ptx_without_its_first_lines_is_not_given_to_a_compiler() -> None:
    with pytest.raises(InputError, match=r"looks like PTX, which begins with \.version"):
        tilewright.emulate(".visible .entry k() { ret; }", "k", (1,), (1,), [])


@pytest.mark.parametrize("raw", [b"", b" \n\t", b"\xef\xbb\xbf"])
def test_empty_files_hold_no_kernel(tmp_path: Path, raw: bytes, compiler: str) -> None:
    path = tmp_path / "k.ptx"
    path.write_bytes(raw)
    with pytest.raises(InputError, match="kernel"):
        tilewright.emulate(path, None, (1,), (1,), [])

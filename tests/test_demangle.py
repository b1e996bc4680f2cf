"""C++ names from symbols: as NVRTC emits them and as c++filt reads them."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.build import Source, build
from tilewright.demangle import demangle

NAMES = Path(__file__).parent / "data" / "kernel_names.cu"

READ = [  # symbols of NVRTC 13.5.37 and the words of c++filt 2.40, without the result type
    ("_Z4gemmILi128EEvPf", "gemm<128>(float*)"),
    ("_Z4gemmILin3EEvPf", "gemm<-3>(float*)"),
    ("_Z4packIJiPfN2ns4ArgsEEEvDpT_", "pack<int, float*, ns::Args>(int, float*, ns::Args)"),
    ("_Z4packIJEEvDpT_", "pack<>()"),
    ("_Z4intsIJLi1ELi2ELi3EEEvi", "ints<1, 2, 3>(int)"),
    ("_Z2ttIN2ns3OneEEvT_IiEPS2_IfE", "tt<ns::One>(ns::One<int>, ns::One<float>*)"),
    ("_Z7nothingv", "nothing()"),
    ("_ZL6hiddenPi", "hidden(int*)"),
    ("_Z5applyIRA4_fEvT_", "apply<float (&) [4]>(float (&) [4])"),
    ("_Z5applyIPFviEEvT_", "apply<void (*)(int)>(void (*)(int))"),
    ("_Z3arrRA4_fPA3_S_RA2_Ki", "arr(float (&) [4], float (*) [3][4], int const (&) [2])"),
    ("_Z4refsIRfEvRT_RKS1_", "refs<float&>(float&, float& const&)"),
    ("_Z3depIiLi3EEvN3BoxIT_E2InIXT0_EEES1_", "dep<int, 3>(Box<int>::In<3>, int)"),
    ("_ZN2ns4gemmIfLi128EEEvPKT_PS1_i", "ns::gemm<float, 128>(float const*, float*, int)"),
    ("_ZN12_GLOBAL__N_16secretEPi", "(anonymous namespace)::secret(int*)"),
    ("_Z1kILb1ELj5ELl7EEvSt4pairIifE", "k<true, 5u, 7l>(std::pair<int, float>)"),
    ("_Z1kiPKvz", "k(int, void const*, ...)"),
]


@pytest.mark.parametrize(("symbol", "name"), READ)
def test_symbols(symbol: str, name: str) -> None:
    assert str(demangle(symbol)) == name


def test_the_parts_of_a_name() -> None:
    name = demangle("_ZN2ns5inner4gemmIfLi128EEEvPKT_PS2_i")
    assert (name.plain, name.scoped) == ("gemm", "ns::inner::gemm")
    assert (name.name, name.arguments) == ("ns::inner::gemm<float, 128>", "<float, 128>")
    assert name.parameters == "(float const*, float*, int)"
    assert demangle("gemm").plain == demangle("gemm").name == str(demangle("gemm")) == "gemm"


def test_parameters_that_are_expressions_leave_the_name() -> None:
    name = demangle("_Z5exprdIfEvN2ns4TileIT_XmlstS2_Li2EEEE")
    assert str(name) == "exprd<float>(…)"


@pytest.mark.parametrize(
    "symbol",
    ["", "gemm", "_Z", "_Z4", "_Z4gem", "_ZN", "_ZNE", "_Z0", "_Z99999gemm", "_ZS_", "_ZT_", "_ZL",
     "_Z1kILi", "_Z1kIL", "_Z1kILiE", "_Z1kIX", "_Z1kIXadL_Z3dbliEEEvi", "_ZN1aS", "$x",
     "_Z" + "9" * 5000, "_Z1kI" + "J" * 5000, "_ZN" * 5000, "é", "_Zé", "_ZGVN1a"],
)  # fmt: skip
def test_what_is_not_understood_stays(symbol: str) -> None:
    assert str(demangle(symbol)) == symbol


def test_texts_that_grow_without_bound_end() -> None:
    bomb = "_Z1kI" + "1aIiE" + "".join(f"1bIS{i}_S{i}_S{i}_E" for i in "0123456789ABCDEF") + "Ev"
    deep = "_Z1k" + "P" * 100_000 + "i"
    assert len(str(demangle(bomb))) < 100_000
    assert len(str(demangle(deep))) <= len(deep)


def test_damaged_symbols_never_raise() -> None:
    draw = random.Random(0)
    for _ in range(5000):
        letters = list(draw.choice(READ)[0])
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(2, len(letters))
            letters[at : at + draw.randint(0, 1)] = draw.choice("ZNEISTLJXPRKFAu_0139abvDpnt")
        name = demangle("".join(letters))
        assert str(name).startswith(name.name)
        assert isinstance(name.plain, str)


def test_what_nvrtc_emits_is_what_cppfilt_reads(compiler: str) -> None:
    made = build(Source(NAMES.name, NAMES.read_text(encoding="utf-8")), "sm_80")
    symbols = re.findall(r"\.entry ([\w$]+)", made.ptx)
    assert len(symbols) >= 25
    names = [demangle(symbol) for symbol in symbols]
    for symbol, name in zip(symbols, names, strict=True):
        assert (str(name) == symbol) == (not symbol.startswith("_Z")), symbol
    if shutil.which("c++filt") is None:
        pytest.skip("c++filt is not installed")
    run = subprocess.run(
        ["c++filt"], input="\n".join(symbols), text=True, capture_output=True, check=True
    )
    read = [line.removeprefix("void ") for line in run.stdout.splitlines()]
    assert [str(name) for name in names] == read

"""Messages in the words of the command line: options as typed, parameters by their C++ types."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.__main__ import run
from tilewright.cli.emulate_words import as_typed, with_extents

from .conftest import SCALE, Emulate

KERNELS = """
struct Box { float a, b, c; };
template <typename T> __global__ void sgemm(int n, T alpha, const T* x, T* y) { y[n] = alpha; }
template __global__ void sgemm(int, float, const float*, float*);
template __global__ void sgemm(int, double, const double*, double*);
__global__ void boxed(Box box, float* y) { y[0] = box.a; }
extern "C" __global__ void __launch_bounds__(64) ints(const int* a, int* o, int n) { o[n] = a[n]; }
extern "C" __global__ void dynamic(int* o) {
  extern __shared__ int sm[];
  sm[threadIdx.x] = 1; __syncthreads(); o[threadIdx.x] = sm[threadIdx.x ^ 1];
}
"""
INTS = "--kernel ints --grid 4 --block 32 --arg a=zeros:8:i32 --arg o=zeros:8:i32 --arg n=1"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("kernel='sgem' is not unique", "--kernel sgem is not unique"),
        ("blocks=[9] must be ids", "--blocks 0,9 must be ids"),
        ("schedule='foo' is not known", "--schedule foo is not known"),
        ("and shared_bytes is 0: address", "and --shared-bytes is 0: address"),
        ("shared_bytes=7 must be 0", "--shared-bytes 7 must be 0"),
        ("the folder of x.h in include_path.", "the folder of x.h in --include."),
        ("cluster=(2, 1, 1) is not", "--cluster (2, 1, 1) is not"),
        ("seed=-1 must", "--seed -1 must"),
        ("blockDim, a.block=3 and --blocks x", "blockDim, a.block=3 and --blocks x"),
    ],
)
def test_as_typed(message: str, shown: str) -> None:
    typed = {"kernel": "sgem", "blocks": "0,9", "schedule": "foo", "cluster": None}
    assert as_typed(message, typed) == shown


def test_extents() -> None:
    assert with_extents("k needs (32, 8, 1).") == "k needs 32,8,1."
    assert with_extents("f(int, int, int)") == "f(int, int, int)"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--blocks 64,65", "--blocks 64,65 must be ids from 0 to 0"),
        ("--schedule foo", "--schedule foo is not known; use lockstep or random."),
        ("--seed -1", "--seed -1 must be a whole number"),
        ("--shared-bytes 999999", "--shared-bytes 999999 must be 0 to "),
        (
            "--kernel scalee",
            "--kernel scalee is not in the module; it has: scale; did you mean scale?",
        ),
    ],
)
def test_ptx(emulate: Emulate, words: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate(SCALE, *words.split()) == 2
    assert f"tilewright: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--grid 1 --block 1 --kernel sgem",
         "double*), ints, boxed(Box, float*), dynamic; did you mean sgemm?"),
        ("--grid 1 --block 1 --kernel sgemm", "--kernel sgemm is not unique; it has: sgemm<"),
        ("--grid 1 --block 1 --kernel sgemm<float --arg n=1",
         "sgemm takes 4 parameters (int n, float alpha, float const* x, float* y)."),
        ("--grid 1 --block 1 --kernel boxed --arg box=3 --arg y=zeros:1",
         "--arg box is for Box box, a struct of 12 bytes; give bytes:HEX, not a number."),
        (INTS.replace("n=1", "n=ones:4"), "--arg n is for int n, of 4 bytes, which takes no "
         "pointer; give a number or bytes:HEX, not an array."),
        (INTS.replace("n=1", "n=null"), "bytes:HEX, not null."),
        (INTS.replace("a=zeros:8:i32", "a=1.5"), "--arg a is for const int* a, not 1.5; give an "),
        (INTS.replace("block 32", "block 96"),
         "--block 96 has 96 threads; the launch bounds of ints"),
    ],
)  # fmt: skip
def test_cuda(
    words: str, said: str, compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text(KERNELS)
    assert run(["emulate", str(tmp_path / "k.cu"), *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_findings(compiler: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cu").write_text(KERNELS)
    words = "--kernel dynamic --grid 1 --block 32 --arg o=zeros:32:i32"
    assert run(["emulate", str(tmp_path / "k.cu"), *words.split()]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "and --shared-bytes is 0" in said
    assert "shared_bytes" not in said


def test_one_more_opcode(emulate: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .b32 %r<2>;\nmov.u32 %r0, 1; add.u32 %r0, %r0, 1; sub.u32 %r0, %r0, 1;\n"
        "xor.b32 %r0, %r0, 1; or.b32 %r0, %r0, 1; and.b32 %r0, %r0, 1; ret;\n}\n"
    )
    assert emulate("--grid 1 --block 32", file="k.ptx") == 0
    assert "and 1 more opcode\n" in capsys.readouterr().out


def test_the_width_holds_for_all_that_is_printed(
    emulate: Emulate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert emulate(SCALE, "--order", "source", "--check", "out ~ 0.1 * in") == 0
    said = capsys.readouterr().out
    assert "Most issued" in said
    assert max(map(len, said.splitlines())) <= 60

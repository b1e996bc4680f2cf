"""Reading machine code: what nvdisasm prints, and where it is found."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from tilewright import sass
from tilewright.errors import ToolchainError

LISTING = """\
\t.target\tsm_90
\t.section\t.nv.info.gemm,"",@"SHT_CUDA_INFO"
\t.section\t.text.gemm,"ax",@progbits
gemm:
.text.gemm:
\t//## File "/there/kernel.cu", line 12
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/there/ptx/copy.cuh", line 9 inlined at "/there/kernel.cu", line 30
\t//## File "/there/kernel.cu", line 30 inlined at "/there/kernel.cu", line 41
\t//## File "/there/kernel.cu", line 41
        /*0010*/              @!PT LDS RZ, [RZ] ;
        /*0020*/               @P0 LDGSTS.E.BYPASS.LTC128B.128 [R15], desc[UR8][R10.64] ;
        /*0030*/                   BRA `(.L_x_2) ;
\t.section\t.text._Z5otherPf,"ax",@progbits
        /*0000*/             @!UPT UMOV UR4, URZ ;
        /*0010*/                   EXIT ;
"""


def test_instructions_of_each_kernel_with_the_users_line() -> None:
    kernels = sass.read(LISTING)
    assert list(kernels) == ["gemm", "_Z5otherPf"]
    load, copy, branch = kernels["gemm"]
    assert (load.opcode, load.file, load.line) == ("LDC", "/there/kernel.cu", 12)
    assert (copy.mnemonic, copy.line) == ("LDGSTS", 41)
    assert copy.opcode == "LDGSTS.E.BYPASS.LTC128B.128"
    assert branch.mnemonic == "BRA"


def test_a_kernel_without_line_information_has_none() -> None:
    assert [it.line for it in sass.read(LISTING)["_Z5otherPf"]] == [None, None]


def test_the_program_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sass.find_nvdisasm() is None
    assert sass.disassemble(b"") is None
    program = _program(tmp_path / "nvdisasm", "exit 0")
    assert sass.find_nvdisasm() == program


def test_the_wheels_program_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(tmp_path / "site/nvidia/cu99/bin/nvdisasm", "exit 0")
    info = tmp_path / "site/nvidia_cuda_nvdisasm-99.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nvidia-cuda-nvdisasm\n")
    (info / "RECORD").write_text("nvidia/cu99/bin/nvdisasm,,\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    _program(tmp_path / "path/nvdisasm", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert sass.find_nvdisasm() == program


def test_a_cubin_that_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(tmp_path / "nvdisasm", "echo 'fatal: not a cubin' >&2; exit 1")
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: program)
    with pytest.raises(ToolchainError, match="it says: fatal: not a cubin"):
        sass.disassemble(b"no cubin")


def _program(path: Path, does: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return path

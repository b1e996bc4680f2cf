"""source: the text of a kernel with its epilogue, and the struct that its fields make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tilewright.gemm.kernels.source import columns, epilogue_struct, kernel_source
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Wide
from tilewright.gemm.step import Address, Value


@dataclass(frozen=True)
class Named:
    """A part with one pointer, or none."""

    cpp: str
    header: str
    operand: str = ""
    columns: int = 1

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {}

    @property
    def fields(self) -> tuple[tuple[str, str, Value], ...]:
        return (("at", "u8", Address(self.operand)),) if self.operand else ()

    def numpy(self, x: Wide, operands: Mapping[str, npt.NDArray[Any]]) -> Wide:
        return x


CHAIN = (Named("X<2>", "x.cuh", "bias"), Named("Y", "y.cuh"), Named("Z", "x.cuh", "scale"))


def test_no_epilogue_is_the_plain_one() -> None:
    source = kernel_source("mma.cu", {"BM": "64"}, ())
    assert source.name == "gemm/kernels/mma.cu"
    assert "#define EPILOGUE tile::Plain\n" in source.text
    assert source.defines == (("BM", "64"), ("EPILOGUE_BYTES", "1"))
    assert epilogue_struct(()).param({}) == b"\0"


def test_a_chain_becomes_one_type_and_one_struct() -> None:
    """Each header once; lines of the file keep their numbers in messages."""
    source = kernel_source("mma.cu", {}, CHAIN)
    prefix, _, rest = source.text.partition("#line 1\n")
    assert prefix.count('#include "x.cuh"\n') == prefix.count('#include "y.cuh"\n') == 1
    assert prefix.endswith("#define EPILOGUE tile::Chain<X<2>, Y, Z>\n")
    assert rest == kernel_source("mma.cu", {}).text
    assert ("EPILOGUE_BYTES", "16") in source.defines
    struct = epilogue_struct(CHAIN)
    raw = struct.param({"bias": 1, "scale": 2})
    assert raw == (1).to_bytes(8, "little") + (2).to_bytes(8, "little")


def test_columns_are_those_of_a_gate() -> None:
    assert columns(()) == 1
    assert columns((*CHAIN, Named("G", "g.cuh", columns=2))) == 2

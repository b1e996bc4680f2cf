"""Step: one launch of a plan, whose addresses are still names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.artifact import Artifact, Source
from tilewright.launch import Dim3, Launch, Param, Record
from tilewright.tensormap import TensorMap

WORKSPACE = "workspace"  # the name of the memory that a plan asks for beside its operands
ANYWHERE = 256  # the base of a map whose place is not known yet: an address that any map may have

# By their names: device addresses of operands and of the workspace, and scalars such as alpha.
Bindings = Mapping[str, int | float]


@dataclass(frozen=True)
class Address:
    """`offset` bytes behind the beginning of an operand: "a", "b", "c", "out", a part's operand
    such as "bias", or the workspace."""

    operand: str
    offset: int = 0

    def among(self, bindings: Bindings) -> int:
        return int(bindings[self.operand]) + self.offset


@dataclass(frozen=True)
class Scalar:
    """A number of the call, "alpha" or "beta": one plan serves all its values."""

    name: str

    def among(self, bindings: Bindings) -> float:
        return float(bindings[self.name])


@dataclass(frozen=True)
class MapAt:
    """A tensor map whose base is an address that is still a name; `form.base` is ANYWHERE."""

    address: Address
    form: TensorMap

    def among(self, bindings: Bindings) -> TensorMap:
        return self.form.at(self.address.among(bindings))


Value = int | float | Address | Scalar | MapAt


@dataclass(frozen=True)
class Struct:
    """A kernel parameter: a record's fields (as in `launch.Record`) and what is in each.

    One without fields is an empty struct, which takes a byte in C++.
    """

    name: str
    fields: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Value], ...]

    @property
    def record(self) -> Record:
        return Record(self.name, **dict(self.fields))

    def param(self, bindings: Bindings) -> Param:
        if not self.fields:
            return b"\0"
        filled = {
            field: value if isinstance(value, int | float) else value.among(bindings)
            for field, value in self.values
        }
        packed = self.record.pack(**filled)
        return packed if packed.maps else packed.raw


@dataclass(frozen=True)
class Step:
    """What is compiled, and how it is launched. Grid and cluster count blocks."""

    source: Source
    arch: str
    kernel: str
    grid: Dim3
    block: Dim3
    params: tuple[Struct, ...]
    shared_bytes: int = 0
    cluster: Dim3 = (1, 1, 1)
    overlap: bool = False

    def launch(self, artifact: Artifact, bindings: Bindings) -> Launch:
        """The launch, for operands at these addresses. `artifact` is what `source` became."""
        return Launch(
            artifact,
            self.kernel,
            self.grid,
            self.block,
            tuple(struct.param(bindings) for struct in self.params),
            self.shared_bytes,
            self.cluster,
            self.overlap,
        )

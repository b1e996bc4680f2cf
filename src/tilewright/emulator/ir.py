"""What a PTX module is made of once it is read: kernels, instructions, operands, places.

Operands as text are as PTX writes them, for messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import UnsupportedError

_SHOWN = 160  # characters of an instruction in a message
CODE_BASE = 0x7E00_0000_0000  # where functions lie, for who takes their addresses

TYPE_BYTES: dict[str, int] = {
    **dict.fromkeys(("b8", "u8", "s8"), 1),
    **dict.fromkeys(("b16", "u16", "s16", "f16", "bf16"), 2),
    **dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2", "tf32"), 4),
    **dict.fromkeys(("b64", "u64", "s64", "f64"), 8),
    "b128": 16,
    "pred": 1,
}


@dataclass(frozen=True, slots=True)
class Register:
    name: str
    negated: bool = False  # a predicate source written !%p

    def __str__(self) -> str:
        return f"{'!' * self.negated}{self.name}"


@dataclass(frozen=True, slots=True)
class Immediate:
    """An integer, or the bits of a float literal (`float_bytes` 4 or 8, else 0)."""

    value: int
    float_bytes: int = 0

    def __str__(self) -> str:
        if not self.float_bytes:
            return str(self.value)
        return f"0{'fd'[self.float_bytes == 8]}{self.value:0{2 * self.float_bytes}X}"


@dataclass(frozen=True, slots=True)
class Special:
    """A special register: %tid.x, %laneid, …"""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Symbol:
    """A label, a parameter or a variable."""

    name: str
    offset: int = 0

    def __str__(self) -> str:
        return self.name + (f"{self.offset:+}" if self.offset else "")


@dataclass(frozen=True, slots=True)
class Vector:
    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.items))}}}"


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset]"""

    base: Register | Symbol | Immediate
    offset: int = 0

    def __str__(self) -> str:
        return f"[{self.base}{f'{self.offset:+}' if self.offset else ''}]"


@dataclass(frozen=True, slots=True)
class Coordinates:
    """[t, {x, y}]: a texture, surface or tensor map, and a place in it."""

    items: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.items))}]"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations written d|p."""

    first: Operand
    second: Operand

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True, slots=True)
class Sink:
    """The destination _, whose value nobody wants."""

    def __str__(self) -> str:
        return "_"


Operand = Register | Immediate | Special | Symbol | Vector | Address | Coordinates | Pair | Sink


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a source file; `file` is the name that the compiler was given."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement. `places` runs from the innermost inlined function to the outermost caller."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    places: tuple[Place, ...]
    line: int  # in the PTX text
    text: str
    mnemonic: str = field(init=False, repr=False, compare=False)  # the opcode's first word

    def __post_init__(self) -> None:
        object.__setattr__(self, "mnemonic", self.opcode.partition(".")[0])

    @property
    def shown(self) -> str:
        """The text for a message: without the hundred registers that some have."""
        return self.text if len(self.text) <= _SHOWN else f"{self.opcode} …"

    @property
    def place(self) -> Place:
        """The outermost line, the one in the user's own file; the PTX line where there is none."""
        return self.places[-1] if self.places else Place("<ptx>", self.line)

    @property
    def inlined_from(self) -> tuple[str, ...]:
        """The lines of inlined functions, as "copy.cuh:12", the innermost first."""
        return tuple(f"{place.file}:{place.line}" for place in self.places[:-1])


@dataclass(frozen=True, slots=True)
class Link:
    """An address in an initial value: `nbytes` at `at` hold that of `name`, plus `offset`.

    `shift` is how many bits of it a mask as 0xff00(name) drops first.
    """

    at: int
    nbytes: int
    name: str
    offset: int
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A .shared, .global, .const or .local variable; `data` is its initial content, if any.

    The addresses in that are `links`.
    """

    space: str
    name: str
    kind: str  # the PTX type of its elements
    nbytes: int
    align: int
    data: bytes | None = None
    links: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kind: str  # its PTX type
    offset: int
    nbytes: int
    is_register: bool = False  # of a function; else it lies in .param space


@dataclass(slots=True)
class Kernel:
    name: str
    params: list[Parameter] = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)  # name → type
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # name → index into instructions
    variables: dict[str, Variable] = field(default_factory=dict)
    required_threads: tuple[int, int, int] | None = None  # .reqntid
    most_threads: int | None = None  # the product of .maxntid
    most_registers: int | None = None  # .maxnreg, of a thread
    least_blocks: int | None = None  # .minnctapersm, of a multiprocessor
    required_cluster: tuple[int, int, int] | None = None  # .reqnctapercluster
    problem: UnsupportedError | None = None  # the first thing in it that was not understood
    returns: list[Parameter] = field(default_factory=list)  # of a function


@dataclass(slots=True)
class Module:
    version: str = ""
    target: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    functions: dict[str, Kernel] = field(default_factory=dict)  # .func, for kernels to call
    variables: dict[str, Variable] = field(default_factory=dict)
    refused: dict[str, UnsupportedError] = field(default_factory=dict)  # variables not modelled

    def code_address(self, name: str) -> int | None:
        """Where a function or kernel would lie: addresses of code can be told apart, no more."""
        names = [*self.functions, *self.kernels]
        return CODE_BASE + 128 * names.index(name) if name in names else None

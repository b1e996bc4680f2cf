"""The rivals of the GPU tables: what a peer is, and which are here.

A peer works in the engine's own buffers and on its stream, so that it is timed like a kernel of
ours. One that is not installed is left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, TypeVar

from tilewright.errors import EngineError, InputError
from tilewright.problem import LAYOUTS

if TYPE_CHECKING:
    from tilewright.dtypes import DType
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

T = TypeVar("T")
Enqueue = Callable[[int], None]

_HERE = "tilewright.bench"
# Where each is made. A module is imported when its peer is wanted: each imports a library.
_ALWAYS = {
    "torch": f"{_HERE}.torch_peers:TorchPeer",
    "hgemm_cublas": f"{_HERE}.cublas:hgemm_cublas",
    "sgemm_cublas": f"{_HERE}.cublas:sgemm_cublas",
    "lt_first": f"{_HERE}.cublaslt:lt_first",
    "lt_best": f"{_HERE}.cublaslt:lt_best",
}
_WHEN_NAMED = {  # they compile or tune for seconds to minutes a shape
    "inductor": f"{_HERE}.torch_peers:inductor",
    "inductor_triton": f"{_HERE}.torch_peers:inductor_triton",
    "triton": f"{_HERE}.triton_rungs:TritonPeer",
    "quack": f"{_HERE}.cute_peers:quack",
    "cute": f"{_HERE}.cute_peers:CutePeer",
}
PEERS = (*_ALWAYS, *_WHEN_NAMED)
_DTYPES = {"hgemm_cublas": ("bf16", "fp16"), "sgemm_cublas": ("fp32",)}  # others take all


class GemmProblem(Protocol):
    """What a peer must know: C[m, n] = A[m, k] · B[k, n], C row-major.

    `layout` says for A and B in turn whether it lies as written (n) or transposed (t): "nt" is B
    stored [n, k], as in torch.nn.Linear.
    """

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def layout(self) -> str: ...
    @property
    def dtype(self) -> DType: ...


@dataclass(frozen=True)
class Bound:
    """A peer ready for one problem.

    `enqueue(i)` enqueues run number i, on the i-th buffers counted around. `version` names the
    library's version and, where there is a choice, what was chosen. A peer that makes an output
    of its own copies that of its last run into C in `deliver(i)`, which is not timed.
    """

    enqueue: Enqueue
    version: str
    deliver: Enqueue | None = None


class Peer(Protocol):
    """A rival."""

    name: str

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Bound:
        """Raises: InputError for a problem that it does not take; EngineError when it fails."""
        ...


def check_names(names: Iterable[str]) -> None:
    """Raises: InputError for a name that no peer has."""
    if unknown := [name for name in names if name not in PEERS]:
        raise InputError(f"against={unknown[0]!r} is not known; use {', '.join(PEERS)}.")


def takes(name: str, dtype: DType) -> bool:
    """Whether the peer of this name is one for products of this type."""
    return name not in _DTYPES or dtype.name in _DTYPES[name]


def found_peers(
    engine: GpuEngine, dtype: DType, names: Sequence[str] = ()
) -> tuple[list[Peer], list[str]]:
    """The peers of these names that work here, and for each other one a sentence saying why not.

    No names mean those for this type that need no tuning or little of it.
    Raises: InputError for an unknown name.
    """
    check_names(names)
    makers = _ALWAYS | _WHEN_NAMED
    peers: list[Peer] = []
    reasons: list[str] = []
    for name in names or (name for name in _ALWAYS if takes(name, dtype)):
        module, maker = makers[name].split(":")
        try:
            peers.append(getattr(import_module(module), maker)(engine))
        except EngineError as error:
            reasons.append(f"{name} is left out: {error}")
    return peers, reasons


def stored_shapes(problem: GemmProblem) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """The row-major shapes in which A, B and C lie in memory."""
    check_layout(problem.layout)
    m, n, k = problem.m, problem.n, problem.k
    a = (k, m) if problem.layout[0] == "t" else (m, k)
    b = (n, k) if problem.layout[1] == "t" else (k, n)
    return a, b, (m, n)


def named(names: dict[str, T], dtype: DType) -> T:
    """What a peer calls this type. Raises: InputError for a type that it does not know."""
    if dtype.name not in names:
        raise InputError(f"dtype={dtype.name} has no peer; measure one of {', '.join(names)}.")
    return names[dtype.name]


def check_layout(layout: str) -> None:
    """Raises: InputError for an unknown layout."""
    if layout not in LAYOUTS:
        raise InputError(f"layout={layout!r} must be one of {', '.join(LAYOUTS)}.")

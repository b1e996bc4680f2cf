"""All plans for a request on a GPU, best first by what the models expect, and who refused it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from tilewright.errors import InputError
from tilewright.gemm.chain import chain_columns
from tilewright.gemm.matrix import LARGEST_VECTOR, Matrix
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import ANYWHERE, WORKSPACE, Address, MapAt, Step, Struct, Value
from tilewright.gpus import Gpu

if TYPE_CHECKING:
    from tilewright.gemm.family import Family

# Where each family is, module:attribute; loaded when the first product is planned.
FAMILIES: dict[str, str] = {
    "wgmma": "tilewright.gemm.kernels.wgmma:FAMILY",
    "mma": "tilewright.gemm.kernels.mma:FAMILY",
    "simt": "tilewright.gemm.kernels.simt:FAMILY",
}

_CROOKED = "the second half of a gate's columns begins between multiples of 16 bytes"
_LAUNCH_US = 2.0  # a further kernel behind another one, as the families' models count it
_OF_BANDWIDTH = 0.8  # what a copy reaches of the datasheet's figure


@dataclass(frozen=True)
class Ranking:
    """`plans`, the one expected to end first ahead; `refused` has a sentence for each family that
    takes the request in no form, by its name."""

    plans: tuple[Plan, ...]
    refused: tuple[tuple[str, str], ...]


@lru_cache(maxsize=4096)
def rank(request: Request, gpu: Gpu) -> Ranking:
    """Operands that TMA does not reach are also tried as copies that it does: all such plans of a
    family that takes nothing else, of others those that are expected to be faster than without.
    `batch_invariant` takes the first family that takes the request in any form, whatever m is.

    Raises: InputError, with every family's sentence, where none takes the request.

    Cost: milliseconds the first time, a look-up afterwards.
    """
    plans: list[Plan] = []
    refused: list[tuple[str, str]] = []
    for family in families():
        if plans and request.batch_invariant:
            break  # each adds in an order of its own, and which is faster depends on m
        sentence = family.refusal(request, gpu)
        found = list(family.plans(request, gpu)) if sentence is None else []
        least = min(map(_expected_us, found), default=inf)
        for plan in _plans_of_copies(family, request, gpu):
            if sentence is not None or _expected_us(plan) < least:
                found.append(plan)
        plans += found
        if sentence is not None and not found:
            refused.append((family.name, sentence))
    if not plans:
        said = "; ".join(f"{name}: {sentence}" for name, sentence in refused)
        raise InputError(f"no kernel takes this product on {gpu.title} ({gpu.arch}): {said}.")
    plans.sort(key=_expected_us)
    return Ranking(tuple(plans), tuple(refused))


def _expected_us(plan: Plan) -> float:
    return inf if plan.us is None else plan.us


def families() -> list[Family]:
    found = []
    for place in FAMILIES.values():
        module, _, attribute = place.partition(":")
        family: Family = getattr(importlib.import_module(module), attribute)
        found.append(family)
    return found


@dataclass(frozen=True)
class _Repacked:
    """A request some of whose operands are read from the workspace, and the copies ahead of it."""

    request: Request
    steps: tuple[Step, ...]
    places: Mapping[str, int]  # of the copies, in bytes from the workspace's beginning
    nbytes: int
    us: float
    notes: tuple[str, ...]


def _repacked(request: Request, gpu: Gpu) -> Iterator[_Repacked]:
    """The request with a, b or both copied to where TMA reaches them, each where it does not."""
    beyond = [name for name in ("a", "b") if _out_of_reach(getattr(request, name))]
    if _gate_begins_within(request) and "b" not in beyond:
        beyond.append("b")
    for name in beyond:
        yield _with_copies(request, (name,), gpu)
    if len(beyond) == 2:
        yield _with_copies(request, ("a", "b"), gpu)


def _out_of_reach(matrix: Matrix) -> bool:
    return None not in (matrix.tma_refusal(), matrix.transposed.tma_refusal())


def _gate_begins_within(request: Request) -> bool:
    """Whether the second half of a gate's columns begins where no row of 16 bytes does: such a b is
    out of reach unless it lies column by column."""
    halves = chain_columns(request.epilogue)
    width = request.n // halves * request.b.dtype.bytes
    return halves > 1 and width % LARGEST_VECTOR != 0 and not _by_columns(request.b)


def _by_columns(matrix: Matrix) -> bool:
    return matrix.transposed.tma_refusal() is None


def _with_copies(request: Request, names: tuple[str, ...], gpu: Gpu) -> _Repacked:
    from tilewright.gemm.kernels.repack import repack_bytes, repack_step

    places: dict[str, int] = {}
    steps, notes, end = [], [], 0
    for name in names:
        matrix: Matrix = getattr(request, name)
        order = False if name == "b" and _gate_begins_within(request) else None
        why = (matrix.transposed if matrix.col_major else matrix).tma_refusal()
        places[name] = end
        to = Address(WORKSPACE, end)
        step, packed = repack_step(matrix, Address(name), to, gpu.arch, request.batch, order)
        nbytes = repack_bytes(matrix, request.batch, order)
        steps.append(step)
        notes.append(f"{name} is copied to {nbytes:,} bytes of workspace: {why or _CROOKED}")
        end += -(-nbytes // ANYWHERE) * ANYWHERE
        request = replace(request, a=packed) if name == "a" else replace(request, b=packed)
    us = len(names) * _LAUNCH_US + 2 * end / (gpu.memory_gbps * _OF_BANDWIDTH * 1e3)
    return _Repacked(request, tuple(steps), places, end, us, tuple(notes))


def _plans_of_copies(family: Family, request: Request, gpu: Gpu) -> Iterator[Plan]:
    """The family's plans for the request with operands copied, the copies ahead of them."""
    for made in _repacked(request, gpu):
        if family.refusal(made.request, gpu) is not None:
            continue
        for plan in family.plans(made.request, gpu):
            yield replace(
                plan,
                config=f"{plan.config}, {' and '.join(made.places)} repacked",
                steps=(*made.steps, *(_moved(step, made) for step in plan.steps)),
                workspace_bytes=made.nbytes + plan.workspace_bytes,
                us=None if plan.us is None else plan.us + made.us,
                notes=(*made.notes, *plan.notes),
            )


def _moved(step: Step, made: _Repacked) -> Step:
    """The step with the copies in place of the operands, its own workspace behind them."""
    params = tuple(
        Struct(
            struct.name,
            struct.fields,
            tuple((field, _moved_value(value, made)) for field, value in struct.values),
        )
        for struct in step.params
    )
    return replace(step, params=params)


def _moved_value(value: Value, made: _Repacked) -> Value:
    if isinstance(value, MapAt):
        return replace(value, address=_moved_address(value.address, made))
    return _moved_address(value, made) if isinstance(value, Address) else value


def _moved_address(address: Address, made: _Repacked) -> Address:
    if address.operand == WORKSPACE:
        return replace(address, offset=address.offset + made.nbytes)
    if address.operand in made.places:
        return Address(WORKSPACE, made.places[address.operand] + address.offset)
    return address

"""One access of a warp by name, its price, and which lane each wavefront serves at which bank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from tilewright.errors import InputError
from tilewright.model.banks import (
    MATRIX_ROW,
    ROW,
    SECTOR,
    WARP,
    Cost,
    Lanes,
    copies,
    cp_async_ca,
    cp_async_cg,
    global_access,
    ldmatrix,
    neighbours_agree,
    shared_load,
    shared_store,
)

WORD = 4


@dataclass(frozen=True, slots=True)
class Access:
    """`family` is ld, st, ld.global, st.global, ldmatrix, stmatrix, cp.async.ca or cp.async.cg.

    `width` is the bytes of a lane (of a row for matrices), `lanes` how many give an address.
    """

    name: str
    family: str
    width: int
    lanes: int = WARP

    @property
    def is_matrix(self) -> bool:
        return self.family.endswith("matrix")

    @property
    def is_copy(self) -> bool:
        return self.family.startswith("cp.async")

    @property
    def is_global(self) -> bool:
        """Of global memory alone; cp.async reads it and writes shared memory."""
        return self.family.endswith("global")

    def cost(self, shared: Lanes, global_: Lanes = ()) -> Cost:
        """As model.banks prices it; `global_` holds the addresses of global memory."""
        match self.family:
            case "ld":
                return shared_load(shared, self.width)
            case "st":
                return shared_store(shared, self.width)
            case "ldmatrix" | "stmatrix":
                return ldmatrix(shared, self.lanes // 8)
            case "cp.async.ca":
                return cp_async_ca(shared, global_, self.width)
            case "cp.async.cg":
                return cp_async_cg(shared, global_)
        return global_access(global_, self.width)


def _table() -> dict[str, Access]:
    every = [
        Access(f"{family}.{width}", family, width)
        for family in ("ld", "st", "ld.global", "st.global")
        for width in (1, 2, 4, 8, 16)
    ]
    every += [
        Access(f"{family}.x{many}{trans}", family, MATRIX_ROW, 8 * many)
        for family in ("ldmatrix", "stmatrix")
        for many in (1, 2, 4)
        for trans in ("", ".trans")
    ]
    every += [Access(f"cp.async.ca.{width}", "cp.async.ca", width) for width in (4, 8, 16)]
    every.append(Access("cp.async.cg.16", "cp.async.cg", 16))
    return {access.name: access for access in every}


ACCESSES = _table()
_SHORT = {
    "ld": "ld.4", "st": "st.4", "ldmatrix": "ldmatrix.x4", "stmatrix": "stmatrix.x4",
    "ldmatrix.trans": "ldmatrix.x4.trans", "cp.async.cg": "cp.async.cg.16",
    "cp.async.ca": "cp.async.ca.16", "cp.async": "cp.async.cg.16",
}  # fmt: skip


_PTX = re.compile(r"(ld|st)(\.global)?(?:\.v([24]))?\.[bufs](8|16|32|64)", re.ASCII)
_SASS = re.compile(r"(ld|st)s(?:\.[us]?(8|16|64|128))?", re.ASCII)
_UNSAID = {"shared", "sync", "aligned", "m8n8", "b16", "global"}  # of ldmatrix and cp.async in PTX


def access_named(name: str) -> Access:
    """ld.16 (bytes of a lane), st.4, ldmatrix.x4, cp.async.cg.16, ld.global.4 and their like.

    Also as PTX (ld.shared.v4.f32, ldmatrix.sync.aligned.m8n8.x4.shared.b16) and SASS (LDS.128)
    have it. Raises: InputError for others, with the nearest.
    """
    word = name.strip().lower().replace("::cta", "").replace(".shared", "")
    if match := _PTX.fullmatch(word):
        bytes_ = int(match[4]) // 8 * int(match[3] or 1)
        word = f"{match[1]}{match[2] or ''}.{bytes_}"
    elif match := _SASS.fullmatch(word):
        word = f"{match[1]}.{int(match[2] or 32) // 8}"
    elif word.startswith(("ldmatrix", "stmatrix", "cp.async")):
        word = ".".join(part for part in word.split(".") if part not in _UNSAID)
    word = _SHORT.get(word, word)
    if word in ACCESSES:
        return ACCESSES[word]
    family, _, width = word.rpartition(".")
    known = [name for name in ACCESSES if name.rpartition(".")[0] == family]
    if known and (width.isdigit() or width[:1] == "x"):  # the nearest number is nobody's intention
        raise InputError(f"access={name!r} is not known; of {family} use {', '.join(known)}.")
    near = get_close_matches(word, ACCESSES, n=1, cutoff=0.75)
    hint = f"did you mean {near[0]}?" if near else (
        "use ld or st with the bytes of a lane (ld.4, st.16), ldmatrix.x4, stmatrix.x2, "
        "cp.async.cg.16, cp.async.ca.4 or ld.global.4."
    )  # fmt: skip
    raise InputError(f"access={name!r} is not known; {hint}")


def is_exact(access: Access, shared: Lanes, global_: Lanes = ()) -> bool:
    """Whether the price is one that counters confirmed for every such pattern that was measured.

    Not where a cp.async.ca conflicts on both sides (an H200 took up to half as much again), nor
    where the lanes of a cp.async.cg read chunks twice (it took up to 3 wavefronts more).
    """
    if not access.is_copy:
        return True
    moves = copies(shared, global_)
    if access.family == "cp.async.cg":
        sources = [move[0] for move in moves if move]
        return len(set(sources)) == len(sources) or len(set(sources)) == 1
    columns = ROW // access.width
    for first in range(0, len(moves), columns):
        group = [move for move in moves[first : first + columns] if move]
        sides = [{at // access.width % columns for at in side} for side in zip(*group, strict=True)]
        if all(len(side) < len(group) for side in sides) and group:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Service:
    """Banks `bank` .. `bank + banks - 1` deliver (or take) `word` and on for these lanes.

    `word` is the address over 4.
    """

    bank: int
    banks: int
    word: int
    lanes: tuple[int, ...]


Wavefront = tuple[Service, ...]


def wavefronts(access: Access, shared: Lanes, global_: Lanes = ()) -> list[Wavefront]:
    """An order in which the banks can serve the access, in as many wavefronts as it costs.

    The number is measured, the order within a wavefront is one that fits: the hardware does not
    tell its own. Empty for accesses of global memory alone.
    """
    if access.is_global:
        return []
    if access.family == "cp.async.ca":
        return _by_both_sides(shared, global_, access.width)
    if access.family == "cp.async.cg":
        return _by_transfer(shared, global_)
    unit = max(access.width, WORD)
    lanes = ROW // unit
    if access.family == "ld" and unit > WORD and neighbours_agree(shared):
        lanes *= 2
    used = shared[: access.lanes]
    passes: list[Wavefront] = []
    for first in range(0, len(used), lanes):
        passes += _by_column(used[first : first + lanes], first, unit)
    return passes


def _by_column(group: Lanes, first: int, unit: int) -> list[Wavefront]:
    """A group of lanes: each column of banks serves its distinct units one after the other."""
    sharing: defaultdict[int, list[int]] = defaultdict(list)
    for lane, address in enumerate(group, first):
        if address is not None:
            sharing[address // unit].append(lane)
    columns = ROW // unit
    queues: defaultdict[int, list[Service]] = defaultdict(list)
    for number, lanes in sharing.items():
        column, words = number % columns, unit // WORD
        queues[column].append(Service(column * words, words, number * words, tuple(lanes)))
    most = max(map(len, queues.values()), default=0)
    return [
        tuple(queue[turn] for _, queue in sorted(queues.items()) if turn < len(queue))
        for turn in range(most)
    ]


def _by_both_sides(shared: Lanes, global_: Lanes, width: int) -> list[Wavefront]:
    """cp.async.ca: in one wavefront no two lanes share a bank on either side.

    So lanes are edges between banks of the source and banks of the target, and wavefronts are
    their colours: as many as the busiest bank has lanes are enough (König 1916).
    """
    columns, words = ROW // width, width // WORD
    passes: list[Wavefront] = []
    moves = copies(shared, global_)
    for first in range(0, len(moves), columns):
        lanes = [n for n in range(first, min(first + columns, len(moves))) if moves[n]]
        pairs = [move for move in moves[first : first + columns] if move]
        sides = [(source // width % columns, target // width % columns) for source, target in pairs]
        colours = _colours(sides)
        slots: list[list[Service]] = [[] for _ in range(max(colours, default=-1) + 1)]
        for at, (_, target) in enumerate(sides):
            one = Service(target * words, words, pairs[at][1] // WORD, (lanes[at],))
            slots[colours[at]].append(one)
        passes += [tuple(sorted(slot, key=lambda one: one.bank)) for slot in slots]
    return passes


def _colours(edges: Sequence[tuple[int, int]]) -> list[int]:
    """A colour for each edge of a bipartite graph, edges that meet differing, with the fewest."""
    colour_of = [0] * len(edges)
    used: list[dict[tuple[int, int], int]] = [{}, {}]  # of each side: (node, colour) -> edge

    def free(side: int, node: int) -> int:
        return next(c for c in range(len(edges)) if (node, c) not in used[side])

    for edge, (left, right) in enumerate(edges):
        a, b = free(0, left), free(1, right)
        if a != b:  # turn the path a, b, a, ... that starts at the right node
            path, side, node, colour = [], 1, right, a
            while (node, colour) in used[side]:
                path.append(used[side][node, colour])
                side ^= 1
                node, colour = edges[path[-1]][side], a + b - colour
            for one in path:
                for side in (0, 1):
                    del used[side][edges[one][side], colour_of[one]]
            for one in path:
                colour_of[one] = a + b - colour_of[one]
                for side in (0, 1):
                    used[side][edges[one][side], colour_of[one]] = one
        colour_of[edge] = a
        used[0][left, a] = used[1][right, a] = edge
    return colour_of


def _by_transfer(shared: Lanes, global_: Lanes) -> list[Wavefront]:
    """cp.async.cg: the passes of `banks.cp_async_cg`, which says what they may hold."""
    halves: defaultdict[tuple[int, int, int], dict[int, int]] = defaultdict(dict)
    targets = set()
    for lane, move in enumerate(copies(shared, global_)):
        if move is not None and move[1] not in targets:
            source, target = move
            targets.add(target)
            key = (source // SECTOR, target // SECTOR, (source ^ target) & MATRIX_ROW)
            halves[key][target] = lane
    classes: defaultdict[tuple[object, ...], tuple[dict[int, list[Service]], ...]]
    classes = defaultdict(lambda: ({}, {}))
    for (source, target, swap), lanes in halves.items():
        flip, which = source ^ target, tuple(at & MATRIX_ROW for at in sorted(lanes))
        sides = classes[source // 4, target // 4, swap, which, flip & 1]
        sides[source & 1].setdefault(flip & 2, []).extend(
            Service(at // WORD % 32, 4, at // WORD, (lane,)) for at, lane in sorted(lanes.items())
        )
    passes: list[Wavefront] = []
    for even, odd in classes.values():
        queues = [list(even.values()), list(odd.values())]
        for turn in range(max(map(len, queues))):
            served = [one for queue in queues if turn < len(queue) for one in queue[turn]]
            passes.append(tuple(sorted(served, key=lambda one: one.bank)))
    return passes

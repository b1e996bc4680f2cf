"""What one access of a warp costs in shared memory (wavefronts) and in global memory (sectors).

Shared memory is 32 banks, side by side, each 4 bytes wide: word w lies in bank w % 32, and one
row across all banks is 128 bytes. A *wavefront* is one pass over the banks; in it every bank
delivers one word. How many passes an access needs follows from three facts:

1. A warp is served in groups of lanes that ask for 128 bytes together: 32 lanes of up to 4 bytes,
   16 of 8, 8 of 16. ldmatrix and stmatrix go by 8x8 matrices, which is 8 rows of 16 bytes.
   Lanes of different groups never conflict.
2. Inside a group, lanes that name the *same* word share it, and *different* words of one bank
   queue up: a bank conflict. The group costs as many wavefronts as its busiest bank has words.
3. A load of 8 or 16 bytes whose neighbouring lanes agree on their addresses is served in groups
   twice as large. Stores never are.

Global memory moves in *sectors* of 32 bytes, four to a *line* of 128 bytes. cp.async reads one
memory and writes the other, and has rules of its own.

Lanes: up to 32 byte addresses, lane 0 first; None is a lane that takes no part. Addresses are
multiples of the access width, as the hardware demands, and count from an address that is a
multiple of 128. An access in which no lane takes part costs nothing.
Raises: InputError for a width, a number of matrices or a number of lanes that does not exist.
Cost: 5 to 40 us a call, linear in the lanes.
Source: hardware counters of an H200 (sm_90) read with Nsight Compute 2025.3 on 2026-11-30, one
warp and one access a launch; the tests hold these rules to them. Other chips are not verified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from tilewright.errors import InputError

Lanes = Sequence[int | None]

WARP = 32
ROW = 128  # bytes across the 32 banks, and bytes of a line
SECTOR = 32
MATRIX_ROW = 16  # bytes of a row of ldmatrix's 8x8 16-bit elements, and of a cp.async.cg


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one access of a warp; `wavefronts - wavefronts_ideal` are its bank conflicts.

    Ideal is what the lanes that take part would need at the best addresses of their own: as many
    wavefronts as there are groups among them, as many sectors as their bytes fill. Lanes that
    share addresses can need less; then the ideal is no more than what is needed.
    """

    wavefronts: int = 0
    wavefronts_ideal: int = 0
    sectors: int = 0
    sectors_ideal: int = 0


def shared_load(addresses: Lanes, width: int) -> Cost:
    """ld.shared of `width` bytes a lane: 1, 2, 4, 8 or 16."""
    _check("width", width, (1, 2, 4, 8, 16))
    groups = _groups(addresses, max(width, 4))
    if width < 8 or not neighbours_agree(addresses):
        return Cost(_passes(groups, max(width, 4)), len(groups))
    doubled = _passes(_groups(addresses, width, 2 * ROW // width), width)
    return Cost(doubled, min(doubled, len(groups)))


def shared_store(addresses: Lanes, width: int) -> Cost:
    """st.shared of `width` bytes a lane: 1, 2, 4, 8 or 16; lanes that write one word share it."""
    _check("width", width, (1, 2, 4, 8, 16))
    groups = _groups(addresses, max(width, 4))
    return Cost(_passes(groups, max(width, 4)), len(groups))


def ldmatrix(addresses: Lanes, matrices: int) -> Cost:
    """ldmatrix.m8n8.x1, .x2 or .x4, with .trans or without: lanes 8i..8i+7 name matrix i's rows.

    Only the first 8 * `matrices` addresses are used; rows of different matrices never conflict.
    """
    _check("matrices", matrices, (1, 2, 4))
    groups = _groups(addresses[: 8 * matrices], MATRIX_ROW)
    return Cost(_passes(groups, MATRIX_ROW), len(groups))


def stmatrix(addresses: Lanes, matrices: int) -> Cost:
    """stmatrix.m8n8.x1, .x2 or .x4: the same rule as ldmatrix (measured for .x4)."""
    return ldmatrix(addresses, matrices)


def global_access(addresses: Lanes, width: int) -> Cost:
    """ld.global or st.global of `width` bytes a lane: the distinct sectors that it touches."""
    _check("width", width, (1, 2, 4, 8, 16))
    _check_lanes(addresses)
    active = [address for address in addresses if address is not None]
    sectors = len({address // SECTOR for address in active})
    return Cost(sectors=sectors, sectors_ideal=min(sectors, _ceil(len(active) * width, SECTOR)))


def cp_async_ca(shared: Lanes, global_: Lanes, width: int) -> Cost:
    """cp.async.ca of 4, 8 or 16 bytes a lane, from `global_` through the L1 cache to `shared`.

    The cache is the same 32 banks, so a group reads its source from banks too, and costs the
    larger conflict of the two sides. Nothing is shared here: lanes that name the same word queue
    like lanes that name different words of one bank.

    Exact where one of the two sides is free of conflicts. Lanes scattered on both sides cost an
    H200 up to half as much again, for no closed rule is known in which order they get through.
    """
    _check("width", width, (4, 8, 16))
    moves = copies(shared, global_)
    wavefronts = groups = 0
    for first in range(0, len(moves), ROW // width):
        group = [copy for copy in moves[first : first + ROW // width] if copy is not None]
        if group:
            groups += 1
            sides = zip(*group, strict=True)
            wavefronts += max(_busiest((a // width for a in side), width) for side in sides)
    moved = global_access(global_, width)
    return Cost(wavefronts, groups, moved.sectors, moved.sectors_ideal)


def cp_async_zfill(shared: Lanes, copied: Lanes, width: int, past: bool) -> Cost:
    """cp.async with a source size, 0 in the lanes without an address in `copied`: these fill.

    All lanes wait for their banks of shared memory, those that fill like those that copy. The
    source's banks count for .ca alone (`past` is .cg), of the lanes that copy.
    Measured with some 200 patterns of sizes that are 0 or the width, as
    `there ? 16 : 0`. A size that the compiler knows nothing of makes another instruction of .cg,
    which takes up to twice as long; so do copies of several warps at once, up to half as much.
    """
    _check("width", width, (4, 8, 16))
    _check_lanes(shared)
    wavefronts = groups = 0
    for first in range(0, len(shared), ROW // width):
        group = slice(first, first + ROW // width)
        sides = [[a // width for a in side[group] if a is not None] for side in (shared, copied)]
        if sides[0]:
            groups += 1
            wavefronts += max(_busiest(side, width) for side in sides[: 1 if past else 2] if side)
    moved = global_access(copied, width)
    if past:
        targets = [None if a is None else b for a, b in zip(copied, shared, strict=True)]
        moved = cp_async_cg(targets, copied)
    return Cost(wavefronts, groups, moved.sectors, moved.sectors_ideal)


def cp_async_cg(shared: Lanes, global_: Lanes) -> Cost:
    """cp.async.cg of 16 bytes a lane, from `global_` past the L1 cache to `shared`.

    Lanes form no groups. The L2 cache sends *transfers*: one source sector to one target sector,
    whole or one half of it, as it is or with its 16-byte halves swapped. `sectors` counts them,
    so a sector sent to two places counts twice. Of lanes with the same target the lowest wins.

    A wavefront carries transfers between one source line and one target line, all with the same
    halves and the same swap, whose sectors (0..3 within the line) can be permuted in one pass:
    bit 0 of the sector flips for all of them or for none, bit 1 flips for all even source
    sectors or none, and for all odd ones or none. Hence rows of 64 bytes, two of which share a
    shared-memory line, cost twice as much as rows of 128 bytes, however they are swizzled.

    Found by measuring some 180 patterns, also scattered ones and partly active warps; it misses
    six, by 1 to 3 wavefronts of 24 to 29, in which all lanes read the same 2 to 16 chunks.
    """
    halves: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    targets = set()
    for copy in copies(shared, global_):
        if copy is not None and copy[1] not in targets:
            source, target = copy
            targets.add(target)
            swap = (source ^ target) & MATRIX_ROW
            halves[source // SECTOR, target // SECTOR, swap] |= 2 if target & MATRIX_ROW else 1

    passes: defaultdict[tuple[int, ...], tuple[set[int], set[int]]]
    passes = defaultdict(lambda: (set(), set()))
    for (source, target, swap), which in halves.items():
        flip = source ^ target
        one_pass = passes[source // 4, target // 4, swap, which, flip & 1]
        one_pass[source & 1].add(flip & 2)
    wavefronts = sum(max(len(even), len(odd)) for even, odd in passes.values())
    moved = len(targets) * MATRIX_ROW
    return Cost(wavefronts, _ceil(moved, ROW), len(halves), _ceil(moved, SECTOR))


def _groups(addresses: Lanes, unit: int, lanes: int = 0) -> list[set[int]]:
    """Each group's distinct units of `unit` bytes; groups in which no lane takes part left out."""
    _check_lanes(addresses)
    lanes = lanes or ROW // unit
    groups = (
        {address // unit for address in addresses[first : first + lanes] if address is not None}
        for first in range(0, len(addresses), lanes)
    )
    return [group for group in groups if group]


def _passes(groups: Iterable[set[int]], unit: int) -> int:
    return sum(_busiest(group, unit) for group in groups)


def _busiest(units: Iterable[int], unit: int) -> int:
    """How many of the units meet in one place of the row.

    A unit of 8 bytes fills two neighbouring banks and one of 16 fills four, always the same ones
    together, so that counting units by their place in the row counts words by bank.
    """
    columns = ROW // unit
    count = [0] * columns
    for number in units:
        count[number % columns] += 1
    return max(count)


def neighbours_agree(addresses: Lanes) -> bool:
    """All lanes n and n^1, or all lanes n and n^2, have one address, or one of them takes no part.

    NVIDIA describes it for CC 7.0 to 7.5 (developer forum, topic 77228); sm_90 does the same.
    """
    by_one = zip(addresses[0::2], addresses[1::2], strict=False)
    if all(a is None or b is None or a == b for a, b in by_one):
        return True
    by_two = chain(
        zip(addresses[0::4], addresses[2::4], strict=False),
        zip(addresses[1::4], addresses[3::4], strict=False),
    )
    return all(a is None or b is None or a == b for a, b in by_two)


def copies(shared: Lanes, global_: Lanes) -> list[tuple[int, int] | None]:
    """(source, target) of each lane of a cp.async."""
    _check_lanes(shared)
    if len(shared) != len(global_):
        raise InputError(
            f"shared has {len(shared)} lanes and global_ has {len(global_)}; they must agree."
        )
    copies: list[tuple[int, int] | None] = []
    for lane, (target, source) in enumerate(zip(shared, global_, strict=True)):
        if (source is None) != (target is None):
            raise InputError(f"lane {lane} has only one of a shared and a global address.")
        copies.append(None if source is None or target is None else (source, target))
    return copies


def _ceil(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _check(name: str, value: int, accepted: tuple[int, ...]) -> None:
    if value not in accepted:
        *most, last = map(str, accepted)
        raise InputError(f"{name}={value} must be {', '.join(most)} or {last}.")


def _check_lanes(addresses: Lanes) -> None:
    if len(addresses) > WARP:
        raise InputError(f"{len(addresses)} lanes were given; a warp has at most {WARP}.")

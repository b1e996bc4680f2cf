"""Matrix, block, warp, instruction, thread: what each level works on, and from which memory.

Every level cuts the one above into tiles of C, and reads its operands from a memory that is
faster and smaller. The wider its tile, the fewer bytes it reads for each operation.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32


@dataclass(frozen=True, slots=True)
class Level:
    """`count` tiles [m, n] of C at this level in one of the level `within`, in steps of `k`.

    `memory` is where operands are read from, `read_bytes` those of one step of one tile,
    `flops` its operations. `held_bytes` are what the level keeps: tiles or accumulators.
    """

    name: str
    within: str
    count: int
    m: int
    n: int
    k: int
    memory: str
    read_bytes: int
    held_bytes: int

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def intensity(self) -> float:
        return self.flops / self.read_bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a kernel: tiles of a block, of a warp (None where warps have none) and of a thread.

    `buffers` is 0 where no tile lies in shared memory; `pad_m` elements follow each K column of
    A's. `mma` is (m, n, k) of the instruction, None for FMA kernels; sums are 4 bytes.
    """

    block: tuple[int, int, int]
    threads: int
    buffers: int
    warp: tuple[int, int] | None
    mma: tuple[int, int, int] | None
    thread: tuple[int, int] | None
    pad_m: int = 0


def levels(mnk: tuple[int, int, int], shape: Shape, element_bytes: int) -> list[Level]:
    """From the whole product down to what one thread does."""
    (m, n, k), (bm, bn, bk), e = mnk, shape.block, element_bytes
    blocks = -(-m // bm) * -(-n // bn)
    found = [
        Level("matrix", "", 1, m, n, k, "DRAM", e * k * (m + n), e * m * n),
        Level(
            "block", "matrix", blocks, bm, bn, bk, "L2 and DRAM",
            e * bk * (bm + bn), shape.buffers * e * bk * (bm + shape.pad_m + bn),
        ),
    ]  # fmt: skip
    if shape.warp is not None:
        wm, wn = shape.warp
        warps, held = bm // wm * (bn // wn), 4 * wm * wn
        read = e * bk * (wm + wn)
        found.append(Level("warp", "block", warps, wm, wn, bk, "shared memory", read, held))
    if shape.mma is not None and shape.warp is not None:
        found += _tensor_core_levels(shape.mma, shape.warp, bk, e)
    elif shape.thread is not None:
        tm, tn = shape.thread
        many, within = (WARP, "warp") if shape.warp is not None else (shape.threads, "block")
        read, memory = e * (tm + tn), "shared memory" if shape.buffers else "L1 and L2"
        found.append(Level("thread", within, many, tm, tn, 1, memory, read, 4 * tm * tn))
    return found


def _tensor_core_levels(
    mma: tuple[int, int, int], warp: tuple[int, int], bk: int, e: int
) -> list[Level]:
    """The instruction, and a thread's share of the warp: of each 8 rows one, of 4 columns one."""
    (im, in_, ik), (wm, wn) = mma, warp
    count = wm // im * (wn // in_) * (bk // ik)
    read, held = e * ik * (im + in_), 4 * im * in_
    thread_read, thread_held = e * ik * (wm + wn) // WARP, 4 * wm * wn // WARP
    return [
        Level("instruction", "warp", count, im, in_, ik, "registers", read, held),
        Level(
            "thread", "warp", WARP, wm // 8, wn // 4, ik, "shared memory", thread_read, thread_held
        ),
    ]

"""The kinds of findings: a title, what each means, and whether it is an error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`level` is error or warning, in SARIF's words."""

    name: str
    title: str
    meaning: str
    level: str = "error"


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "out-of-bounds",
            "Access out of bounds",
            "A lane touches memory that belongs to no array, variable or parameter of the launch. "
            "In the emulator the load gives poison and the store is dropped; on a GPU it is an "
            "illegal access, or silently someone else's data.",
        ),
        Kind(
            "misaligned",
            "Misaligned access",
            "An address is no multiple of the access's width. A GPU stops the kernel at it.",
        ),
        Kind(
            "uninitialised",
            "Read of something that was never written",
            "Shared memory, a register or an element of an output is read before anything wrote "
            "it: the result depends on what was there.",
        ),
        Kind(
            "unwritten",
            "Output never written",
            "Elements of an output have no value when the kernel ends.",
        ),
        Kind(
            "race",
            "Data race",
            "Two threads touch the same bytes, at least one of them writes, and no barrier, "
            "__syncwarp or fence with an atomic orders them: the result depends on which comes "
            "first, also where this run happened to be right.",
        ),
        Kind(
            "async-read",
            "Copy read before its wait",
            "Shared memory is read that a cp.async or a bulk copy has not been waited for: it may "
            "still be on its way.",
        ),
        Kind(
            "ended-peer",
            "Shared memory of a block that has ended",
            "A block of a cluster touches the shared memory of another that has ended, or that "
            "nothing makes wait until this is over.",
        ),
        Kind(
            "proxy-fence",
            "No fence between threads and copies",
            "A copy or a wgmma uses shared memory or an mbarrier that threads wrote, without a "
            "fence.proxy.async (or fence.mbarrier_init) in between: it may not see the new values.",
        ),
        Kind(
            "copy-at-exit",
            "Copy that outlives its block",
            "A block ends while a bulk copy still reads or fills its shared memory.",
        ),
        Kind(
            "invalid-copy",
            "Copy that a GPU refuses",
            "A tensor map, a coordinate or a size of a bulk copy is one that stops the kernel on a "
            "GPU.",
        ),
        Kind(
            "wgmma-fence",
            "wgmma without its fence",
            "A warpgroup's first wgmma.mma_async has no wgmma.fence before it, or other "
            "instructions used its accumulators or wrote its registers of A since the last one.",
        ),
        Kind(
            "wgmma-registers",
            "Registers used while wgmma works on them",
            "An accumulator is read or written, or a register of A written, before the "
            "wgmma.wait_group that completes the wgmma.mma_async.",
        ),
        Kind(
            "wgmma-serialised",
            "wgmma that ptxas makes wait for each other",
            "The compiler put waits between wgmma instructions, as their registers are used "
            "where they may be in flight: results are right, but the Tensor Cores idle.",
            "warning",
        ),
        Kind(
            "overlap",
            "Lanes store over each other",
            "One instruction stores different values to one address: which one stays is undefined.",
        ),
        Kind(
            "divergent-barrier",
            "Barrier that not all threads reach",
            "Lanes of one warp wait at two barrier instructions at once, or threads of the block "
            "have ended without it: __syncthreads() stands in divergent code.",
        ),
        Kind(
            "invalid-barrier",
            "Barrier that does not exist",
            "The number of a barrier is not 0 to 15, or its count of threads is no multiple of 32; "
            "or there is no mbarrier at an address, or more arrive there than it was made for.",
        ),
        Kind(
            "divergent-aligned",
            "Collective instruction in divergent code",
            "An instruction that a whole warp must execute together (mma, ldmatrix), or four warps "
            "(wgmma), is executed by some of its lanes.",
        ),
        Kind(
            "inactive-lane",
            "Shuffle from a lane that takes no part",
            "A lane reads a value from a lane that has exited or is elsewhere: the value is "
            "undefined.",
        ),
        Kind(
            "deadlock",
            "Deadlock",
            "Threads wait for others that will never come, so that the launch never ends.",
        ),
        Kind(
            "endless-loop",
            "Endless loop",
            "A loop polls memory that nobody writes any more, or runs beyond all measure.",
        ),
        Kind("assert", "Assertion failed", "An assert() of the kernel does not hold."),
        Kind("trap", "Trap", "The kernel ran into its own trap instruction and stopped."),
    )
}


# What a launch was asked for and did not give; no findings of the emulator.
DEMANDS = {
    kind.name: kind
    for kind in (
        Kind(
            "check",
            "Failed check",
            "An array after the launch is not what --check says it should be.",
        ),
        Kind(
            "excess",
            "More traffic than allowed",
            "Wavefronts or sectors beyond the ideal are more than --max-excess or a test allows.",
        ),
    )
}


def kind_of(name: str) -> Kind:
    """The kind by its name; one that is not in the table is an error under its own words."""
    words = name.replace("_", "-")
    if words in KINDS:
        return KINDS[words]
    title = words.replace("-", " ").capitalize() or "Finding"
    return Kind(name, title, f"The emulator reports: {title.lower()}.")

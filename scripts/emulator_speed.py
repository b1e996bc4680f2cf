"""How fast the emulator is: time, instructions per second and peak memory of the hgemm rungs.

    python scripts/emulator_speed.py                # 256³, 1024³ and 2048³, checks on and off
    python scripts/emulator_speed.py --extents 256 --checks on --rungs hgemm_naive --json -
    python scripts/emulator_speed.py --profile 2048 # where the time goes, with checks on

A figure is the best of three launches, at 2048³ of one. Compiling CUDA and PTX does not count.
Every row runs in a process of its own, so that its peak memory, the interpreter included, is its
own too.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SCHEMA = "tilewright.emulator-speed/1"
EXTENTS = (256, 1024, 2048)
BUDGETS = {256: 0.1, 1024: 1.0, 2048: 6.0}  # seconds on two cores, checks on
BUDGET_BYTES = 1 << 30
_ONCE_FROM = 2048
_MIB = 1 << 20


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    if options.one:
        name, extent, checks = options.one
        print(json.dumps(measure(name, int(extent), checks == "on")))
        return 0
    if options.profile:
        profile(options.rungs[0] if options.rungs else "hgemm_naive", options.profile, options.top)
        return 0
    out = sys.stderr if options.json == "-" else sys.stdout
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f} before the start", file=out)
    print(HEADER, file=out)
    rows = []
    for extent in options.extents:
        for name in options.rungs or _rungs():
            for checks in options.checks:
                rows.append(_in_a_process(name, extent, checks))
                print(line(rows[-1]), file=out, flush=True)
    document = json.dumps({"schema": SCHEMA, "cores": cores, "rows": rows})
    if options.json == "-":
        print(document)
    elif options.json:
        Path(options.json).write_text(document + "\n", encoding="utf-8")
    return 0 if all(row["within_budget"] is not False for row in rows) else 1


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extents", type=int, nargs="+", default=EXTENTS, metavar="N")
    parser.add_argument("--rungs", nargs="+", metavar="NAME", help="all hgemm rungs unless given")
    parser.add_argument("--checks", nargs="+", choices=("on", "off"), default=("on", "off"))
    parser.add_argument("--json", metavar="FILE", help="write the rows there; - for stdout")
    parser.add_argument("--profile", type=int, metavar="N", help="profile one launch at N³")
    parser.add_argument("--top", type=int, default=25, help="functions that --profile shows")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _rungs() -> list[str]:
    from tilewright.ladder.rungs import KERNELS

    return [name for name, rung in KERNELS.items() if rung.family == "hgemm"]


def _in_a_process(name: str, extent: int, checks: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, str(extent), checks]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def measure(name: str, extent: int, checks: bool) -> dict[str, Any]:
    """One row: the best of several launches of this process."""
    launch = prepared(name, extent, checks)
    samples = []
    for _ in range(1 if extent >= _ONCE_FROM else 3):
        start = time.perf_counter()
        report = launch()
        samples.append(time.perf_counter() - start)
    seconds, peak = min(samples), _peak_bytes()
    issues = report.totals["instructions"]
    budget = BUDGETS.get(extent) if checks else None
    return {
        "name": name,
        "extent": extent,
        "checks": checks,
        "seconds": seconds,
        "seconds_samples": samples,
        "instructions": issues,
        "instructions_per_second": issues / seconds,
        "peak_bytes": peak,
        "findings": len(report.findings),
        "budget_seconds": budget,
        "within_budget": None if budget is None else seconds <= budget and peak <= BUDGET_BYTES,
    }


def prepared(name: str, extent: int, checks: bool) -> Callable[[], Any]:
    """A function that runs the launch again each time that it is called."""
    import numpy as np

    from tilewright.bench.ladder import build_rung, rung_launch
    from tilewright.dtypes import BF16
    from tilewright.emulator.arguments import pack
    from tilewright.emulator.arrays import POISON
    from tilewright.emulator.compiler import compile_kernel
    from tilewright.emulator.machine import Shape
    from tilewright.emulator.memory import GlobalMemory
    from tilewright.emulator.parse import parse
    from tilewright.emulator.run import How, run
    from tilewright.engines.emulator import EmulatorBuffer
    from tilewright.gpus import GPUS
    from tilewright.kernel_source import kernel_named
    from tilewright.ladder.rungs import KERNELS
    from tilewright.problem import Problem
    from tilewright.verify import random_operands

    problem = Problem(extent, extent, extent, BF16)
    a, b = random_operands(extent, extent, extent, BF16)
    out = np.empty((extent, extent), np.dtype(BF16.numpy()))
    memory = GlobalMemory()
    buffers = [
        EmulatorBuffer(array, memory.allocate(array, unset=array is out)) for array in (a, b, out)
    ]
    artifact = build_rung(KERNELS[name], problem, GPUS["h200"].arch)
    where = (buffers[0], buffers[1], buffers[2])
    planned = rung_launch(KERNELS[name], artifact, problem, where, GPUS["h200"].sms)
    module = parse(artifact.ptx)
    program = compile_kernel(module, kernel_named(module, planned.kernel))
    params = pack(program.kernel, planned.params)
    shape = Shape(planned.grid, planned.block, planned.shared_bytes, params)

    def launch() -> Any:
        out.reshape(-1).view(np.uint8).fill(POISON)
        return run(program, shape, memory, how=How(checks=checks))

    return launch


def profile(name: str, extent: int, top: int) -> None:
    launch = prepared(name, extent, checks=True)
    profiler = cProfile.Profile()
    profiler.runcall(launch)
    print(f"{name} at {extent}³, checks on")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(top)


def _peak_bytes() -> int:
    """The most memory that this process held; not what the one that started it held."""
    status = Path("/proc/self/status")
    if status.exists():
        for entry in status.read_text(encoding="ascii").splitlines():
            if entry.startswith("VmHWM:"):
                return int(entry.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


HEADER = "rung               extent checks  seconds  M instr/s  peak MiB  budget s"


def line(row: dict[str, Any]) -> str:
    budget = "–"
    if row["budget_seconds"] is not None:
        budget = f"{row['budget_seconds']:g} {'✓' if row['within_budget'] else '✗'}"
    return (
        f"{row['name']:<18} {row['extent']:>5}³ {'on' if row['checks'] else 'off':>6} "
        f"{row['seconds']:>8.3f} {row['instructions_per_second'] / 1e6:>10.2f} "
        f"{row['peak_bytes'] / _MIB:>9.0f}  {budget:>8}"
    )


if __name__ == "__main__":
    sys.exit(main())

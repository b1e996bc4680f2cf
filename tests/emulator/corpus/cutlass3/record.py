"""Kernels of CUTLASS 4.2.0 for Hopper: their PTX by nvcc 13.5, and what a launch passes them.

    pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cutlass
    python record.py [FILE.cu …]

writes the .ptx and .json files anew; it needs a C++ compiler of the host and no GPU. CUTLASS makes
the parameters on the host, where it calls the driver for tensor maps. launch.cuh has a function in
that one's place: in "params" of the JSON (bytes, in hexadecimal) stands "tensor map i" where the
map i of "maps" belongs. "tensor" is 1 for A, 2 for B, 3 for D.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = Path(sysconfig.get_paths()["purelib"])
CUDA = PACKAGES / "nvidia" / "cu13"
INCLUDE = [CUDA / "include/cccl", PACKAGES / "cutlass_library/source/include"]
OPTIONS = ["-std=c++17", "-arch=sm_90a", "--expt-relaxed-constexpr", "-DNDEBUG"]
HOST = ["-DHOST", "-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1", "-cudart=static", f"-L{CUDA}/lib"]
RUNS = 4  # of the host's program, whose padding holds what lay in its memory before


def compile_to(source: Path, target: Path, *options: str) -> None:
    command: list[str | Path] = [CUDA / "bin/nvcc", *OPTIONS, *options]
    command += [f"-I{folder}" for folder in INCLUDE]
    subprocess.run([*command, source.name, "-o", target], cwd=HERE, check=True)


def without_padding(runs: list[bytes]) -> str:
    """The bytes of all runs in hexadecimal, with zeros where they differ."""
    return bytes(one[0] if len(set(one)) == 1 else 0 for one in zip(*runs, strict=True)).hex()


def record(source: Path) -> None:
    target = source.with_suffix(".ptx")
    compile_to(source, target, "-ptx")
    text = "\n".join(line.rstrip() for line in target.read_text().splitlines()) + "\n"
    target.write_text(text, encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "launch"
        compile_to(source, program, *HOST)
        runs = [json.loads(subprocess.check_output([program])) for _ in range(RUNS)]
    found = runs[0] | {"params": without_padding([bytes.fromhex(run["params"]) for run in runs])}
    source.with_suffix(".json").write_text(json.dumps(found) + "\n", encoding="utf-8")
    print(f"{target.name}: {len(text) / 1024:.0f} KB")


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.name for path in HERE.glob("*.cu")):
        record(HERE / name)

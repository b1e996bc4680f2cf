"""PTX that nvcc 13.5 makes of the .cu files beside this file, with the headers of other people.

    pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-cutlass
    python record.py [FILE.cu …]

writes the .ptx files anew; it needs no GPU. The headers: CUTLASS and CuTe 4.2.0, CCCL 13.3.5
(CUB and libcu++), cooperative groups of CUDA 13.5. Each file is built for the oldest chip that
takes it, unless its name ends with another: `barrier_sm90.ptx` is of `barrier.cu`.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
PACKAGES = Path(sysconfig.get_paths()["purelib"])
CUDA = PACKAGES / "nvidia" / "cu13"
INCLUDE = [CUDA / "include/cccl", PACKAGES / "cutlass_library/source/include"]
OPTIONS = ["-ptx", "-std=c++17", "--expt-relaxed-constexpr", "-DNDEBUG"]
NEEDS = {
    "cutlass_simt": [75],
    "cutlass_volta": [75],
    "cutlass_turing": [75],
    "cutlass_int8": [75],
    "barrier_more": [90],
    "cub_block": [75],
    "cub_warp": [75],
    "cub_scan": [75],
}
NEEDS |= {"barrier": [80, 90], "pipeline": [80, 90], "memcpy_async": [80, 90]}


def record(source: Path, chip: int, target: Path) -> None:
    """Compiles one file, and takes names of this machine's folders out of the text."""
    paths = [f"-I{folder}" for folder in INCLUDE]
    command: list[str | Path] = [
        CUDA / "bin/nvcc",
        *OPTIONS,
        f"-arch=sm_{chip}",
        *paths,
        source.name,
        "-o",
        target,
    ]
    subprocess.run(command, cwd=HERE, check=True)
    text = "\n".join(line.rstrip() for line in target.read_text().splitlines()) + "\n"
    target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {len(text) / 1024:.0f} KB")


def main() -> None:
    sources = [HERE / name for name in sys.argv[1:]] or sorted(HERE.glob("*.cu"))
    for source in sources:
        chips = NEEDS.get(source.stem, [80])
        for chip in chips:
            name = source.stem if chip == chips[0] else f"{source.stem}_sm{chip}"
            record(source, chip, HERE / f"{name}.ptx")


if __name__ == "__main__":
    main()

"""`tilewright plot`: pictures of what was measured."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError


def plot(
    measurements: Path = Path("measurements"),
    /,
    *,
    out: Path,
    kind: str = "ladder",
    gpu: str | None = None,
    dtype: str = "bf16",
    json: JsonTarget = None,
) -> int:
    """Draw what was measured: the rungs of the ladder, sizes, ratios to the rival, a roofline.

    Everything comes from measurement lines (--record of `ladder` and `bench` writes them). The
    same lines give the same file; its description holds a digest of them, so that a stale
    picture can be told. Needs matplotlib: pip install "tilewright[plot]".

    Example: tilewright plot measurements --kind ladder --out ladder.svg

    Parameters
    ----------
    measurements
        A .jsonl file, or a folder: its *.jsonl files and those of its subfolders, except `tried`
        (kernels that were not kept). For ladder only the folder's own files, where they hold
        4096x4096x4096.
    out
        The picture to write: FILE.png or FILE.svg, over what is there.
    kind
        ladder (a bar a rung, beside the peers, of the newest run), size (TFLOP/s over n for
        m = n = k), ratio (each shape against the rival, p20 to p80, by suite) or roofline (TFLOP/s
        over FLOP per byte, under the roofs measured on this GPU, else its datasheet's).
    gpu
        Only this GPU, by its name or a part of it; the one measured last if none is named.
    dtype
        Type of A, B and C in the lines to show, such as bf16 or fp16.
    """
    from tilewright.bench.chart_files import read
    from tilewright.bench.charts import gather
    from tilewright.bench.plot import FORMATS, draw

    suffix = out.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"out={str(out)!r} must end in {' or '.join(FORMATS)}.")
    check_targets(out, json)
    lines, files = read(measurements, kind, dtype, gpu)
    chart = gather(lines, kind, dtype, gpu)
    picture = draw(chart, suffix)
    try:
        out.write_bytes(picture)
    except OSError as error:
        raise InputError(f"{out}: {error.strerror or error}.") from None
    left_out = f" Left out: {'; '.join(chart.left_out)}." if chart.left_out else ""
    roofs = f" Roofs: {chart.roofs}." if chart.roofs else ""
    said = f"{out}: {len(chart.points)} points. {chart.title}. {chart.facts}.{roofs}{left_out}"
    said += f" Read: {', '.join(map(str, files))}."
    emit("plot", [asdict(point) for point in chart.points], said, json)
    return 0

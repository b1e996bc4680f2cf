"""`tilewright explain`: the arithmetic behind every rung, one command a question."""

from __future__ import annotations

from cyclopts import App

from tilewright.cli.explain_banks import banks
from tilewright.cli.explain_formats import formats
from tilewright.cli.explain_fragment import fragment
from tilewright.cli.explain_hierarchy import hierarchy
from tilewright.cli.explain_limiter import limiter
from tilewright.cli.explain_matmul import matmul
from tilewright.cli.explain_myths import myths
from tilewright.cli.explain_pipeline import pipeline
from tilewright.cli.explain_raster import raster
from tilewright.cli.explain_roofline import roofline
from tilewright.cli.explain_swizzle import swizzle
from tilewright.cli.explain_tile import tile
from tilewright.cli.explain_tiling import tiling
from tilewright.cli.explain_waves import waves

app = App(name="explain")  # its help stands in __main__.py, which loads it late
for _command in (
    tile,
    tiling,
    hierarchy,
    banks,
    swizzle,
    fragment,
    pipeline,
    waves,
    raster,
    roofline,
    formats,
    limiter,
    matmul,
    myths,
):
    app.command(_command)

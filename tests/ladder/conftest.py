"""The two engines: a kernel test has one body and runs on both."""

from __future__ import annotations

import pytest

from tilewright.engines.base import Engine
from tilewright.engines.choose import open_engine
from tilewright.engines.probe import gpus_found


@pytest.fixture(params=["emulator", pytest.param("gpu", marks=pytest.mark.gpu)])
def engine(request: pytest.FixtureRequest) -> Engine:
    """An engine; the GPU's tests are skipped, and counted, where there is none."""
    if request.param == "gpu" and not gpus_found():
        pytest.skip("no NVIDIA GPU here")
    opened: Engine = open_engine(request.param)
    return opened

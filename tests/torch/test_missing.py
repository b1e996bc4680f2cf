"""Without PyTorch; in a process of its own, where it cannot be imported."""

from __future__ import annotations

import os
import subprocess
import sys


def test_the_package_is_whole_without_pytorch() -> None:
    code = """
import sys
sys.modules["torch"] = None
import tilewright
assert "tilewright.torch" not in sys.modules
tilewright.matmul
try:
    tilewright.torch
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tilewright.torch needs PyTorch, which is not installed: pip i")

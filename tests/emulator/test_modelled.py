"""docs/emulator.md says what the emulator models; the table comes from the registry."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "emulator_modelled.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("emulator_modelled", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_fresh(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, f"run {SCRIPT.name}"


def test_a_stale_page_is_told(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{script.BEGIN}\nold\n{script.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(script, "PAGE", page)
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith(f"{script.END}\nafter\n")
    assert "| add | " in text


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (r"\.lo\.(?P<type>[us](?:16|32|64))", ".lo.(u/s)(16/32/64)"),
        (r"(?:\.(?P<mode>rn|rz))?(?P<ftz>\.ftz)?\.(?P<type>f32)", "[.rn/rz][.ftz].f32"),
        (r"\.(?P<test>[a-z]+?)(?P<ftz>)\.f64", ".<test>.f64"),
        (r"\.m(?P<m>8|16)n8k(?P<k>\d+)\.row", ".m(8/16)n8k<k>.row"),
        (r"\.(?P<type>f16|f32)\.(?P=type)", ".(f16/f32).<same type>"),
        (r"(?:\.L2::[\w:]+)*\.b32", "[.L2::<…>].b32"),
        (r"\.relu\.s32|\.s32\.relu", ".relu.s32/.s32.relu"),
    ],
)
def test_patterns_as_the_page_shows_them(script: ModuleType, pattern: str, shown: str) -> None:
    assert script.readable(pattern) == shown


def test_a_pattern_that_the_page_cannot_show(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="not understood"):
        script.readable(r"\.b32)")

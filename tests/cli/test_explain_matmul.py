"""`tilewright explain matmul`: the ranking, what is copied, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest


def test_all_legal_configurations_in_order(explained: Any) -> None:
    rows = explained("matmul 4096x4096x4096:nt")
    legal = [row for row in rows if row["status"] == "legal"]
    assert [row["rank"] for row in legal] == list(range(1, len(legal) + 1))
    assert [row["us"] for row in legal] == sorted(row["us"] for row in legal)
    assert {row["kernel"] for row in legal} == {"wgmma", "mma"}
    first = legal[0]
    assert (first["kernel"], first["workspace_bytes"], first["notes"]) == ("wgmma", 0, [])
    assert first["tflops"] == pytest.approx(2 * 4096**3 / first["us"] / 1e6)
    (refused,) = (row for row in rows if row["status"] == "refused")
    assert (refused["kernel"], refused["rank"]) == ("simt", None)
    assert "bf16" in refused["reason"]


def test_odd_rows_are_copied_or_read_as_they_are(explained: Any, shown: Any) -> None:
    rows = [row for row in explained("matmul 4095x4097x4099:nt") if row["status"] == "legal"]
    copied = [row for row in rows if row["launches"] == 3]
    assert copied
    for row in copied:
        assert row["workspace_bytes"] >= 4095 * 4104 * 2 + 4097 * 4104 * 2
        assert len(row["notes"]) >= 2
    assert any(row["workspace_bytes"] == 0 for row in rows)
    said = " ".join(shown("matmul 4095x4097x4099:nt").split())
    assert "a is copied to 33,611,776 bytes of workspace: its rows are 8198 bytes apart" in said


def test_another_gpu_another_kernel(explained: Any, shown: Any) -> None:
    rows = explained("matmul 512x512x512 --gpu rtx4090 --dtype fp16")
    assert {row["kernel"] for row in rows if row["status"] == "legal"} == {"mma"}
    assert "wgmma does not take it" in shown("matmul 512x512x512 --gpu rtx4090")
    (first, *_) = explained("matmul 512x512x512 --dtype fp32")
    assert first["kernel"] == "simt"


def test_the_datasheet_s_bound(shown: Any) -> None:
    said = " ".join(shown("matmul 16x8192x8192").split())
    assert "Its bytes bound it: 28.1 µs by the datasheet (2.2 for the products, 28.1 for" in said
    assert "Its products bound it: 139.0 µs" in shown("matmul 4096x4096x4096")


def test_batches_gates_and_biases(explained: Any, shown: Any) -> None:
    (first, *_) = explained("matmul 256x512x64 --batch 7 --bias --activation swiglu")
    assert first["us"] > 0
    assert "256x512x64 bf16 to fp32, 7 of them" in shown(
        "matmul 256x512x64 --batch 7 --out-dtype fp32"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("matmul 4096x4096", "product='4096x4096' must look like 4096x4096x4096:nt"),
        ("matmul 64x64x64:xx", "must look like"),
        ("matmul 64x64x0", "every extent must be 1 or more"),
        ("matmul 64x64x64 --dtype fp64", "dtype is fp64; matmul takes bf16, fp16 and fp32"),
        ("matmul 64x64x64 --out-dtype int8", "out_dtype is int8"),
        ("matmul 64x64x64 --activation mish", "activation='mish' is not known"),
        ("matmul 64x65x64 --activation glu", "a gate takes pairs"),
        ("matmul 64x64x64 --batch 0", "batch=0 must be 1 or more"),
        ("matmul 64x64x64 --gpu rtx9999", "gpu='rtx9999' is not in the table"),
        ("matmul 9999999999x1x1", "m=9999999999 is above 2147483647"),
    ],
)
def test_refusals(refused: Any, words: str, said: str) -> None:
    assert said in refused(words)

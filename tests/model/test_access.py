"""Wavefront by wavefront: as many as an H200 counts, and no bank serves twice in one."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import InputError
from tilewright.model.access import ACCESSES, Access, access_named, is_exact, wavefronts
from tilewright.model.banks import Lanes

DATA = Path(__file__).parents[1] / "data"


def recorded() -> list[dict[str, Any]]:
    names = ("access_counts_h200.json", "access_counts_h200_partial.json")
    rows = [row for name in names for row in json.loads((DATA / name).read_text())["accesses"]]
    return [row for row in rows if row["kind"][:3] not in ("LDG", "STG")]


def access_of(kind: str) -> Access:
    number = int("".join(filter(str.isdigit, kind)))
    if kind.startswith(("LDSM", "STSM")):
        return access_named(f"{kind[:2].lower()}matrix.x{number}")
    if kind.startswith("CPA"):
        return access_named(f"cp.async.{'cg' if kind.endswith('CG') else 'ca'}.{number}")
    return access_named(f"{kind[:2].lower()}.{number // 8}")


@pytest.mark.parametrize("row", recorded(), ids=lambda row: f"{row['id']}-{row['kind']}")
def test_each_wavefront_serves_a_bank_once(row: dict[str, Any]) -> None:
    access, active = access_of(row["kind"]), row.get("active", 0xFFFFFFFF)

    def lanes(addresses: list[int]) -> Lanes:
        return [a if active >> lane & 1 else None for lane, a in enumerate(addresses)]

    shared, global_ = lanes(row["shared"]), lanes(row.get("global_", []))
    passes = wavefronts(access, shared, global_)
    assert len(passes) == access.cost(shared, global_).wavefronts
    for services in passes:
        banks = [b for one in services for b in range(one.bank, one.bank + one.banks)]
        assert len(banks) == len(set(banks))
    for one in (one for services in passes for one in services):
        for lane in one.lanes:
            address = shared[lane]
            assert address is not None
            assert one.word == address // 4
            assert one.bank == one.word % 32


@pytest.mark.parametrize("row", recorded(), ids=lambda row: f"{row['id']}-{row['kind']}")
def test_a_price_that_counters_contradict_is_not_called_exact(row: dict[str, Any]) -> None:
    access, active = access_of(row["kind"]), row.get("active", 0xFFFFFFFF)
    shared, global_ = (
        [a if active >> lane & 1 else None for lane, a in enumerate(row.get(side, []))]
        for side in ("shared", "global_")
    )
    right = access.cost(shared, global_).wavefronts == row["counts"]["wavefronts"]
    assert right or not is_exact(access, shared, global_)
    if not access.is_copy:
        assert is_exact(access, shared, global_)


@pytest.mark.parametrize("width", [4, 8, 16])
def test_cp_async_ca_shares_no_bank_on_either_side(width: int) -> None:
    """Every pair of strides, so that both sides queue in ways that get in each other's way."""
    access = access_named(f"cp.async.ca.{width}")
    for to, from_ in product((1, 2, 3, 4, 6, 8, 12, 17, 32), repeat=2):
        shared = [lane * to * width for lane in range(32)]
        global_ = [lane * from_ * width for lane in range(32)]
        passes = wavefronts(access, shared, global_)
        assert len(passes) == access.cost(shared, global_).wavefronts
        served = []
        for services in passes:
            lanes = [lane for one in services for lane in one.lanes]
            for side in (shared, global_):
                columns = [side[lane] // width % (128 // width) for lane in lanes]
                assert len(set(columns)) == len(columns)
            served += lanes
        assert sorted(served) == list(range(32))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("ld", "ld.4"),
        ("LD.SHARED.16", "ld.16"),
        ("ldmatrix", "ldmatrix.x4"),
        ("ldmatrix.x2.trans.shared", "ldmatrix.x2.trans"),
        ("cp.async", "cp.async.cg.16"),
        ("st.global.8", "st.global.8"),
        ("ld.shared.v4.f32", "ld.16"),
        ("st.shared.u16", "st.2"),
        ("ld.global.v2.b64", "ld.global.16"),
        ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "ldmatrix.x4.trans"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16", "ldmatrix.x2"),
        ("cp.async.cg.shared.global", "cp.async.cg.16"),
        ("cp.async.ca.shared.global.8", "cp.async.ca.8"),
        ("LDS.128", "ld.16"),
        ("LDS", "ld.4"),
        ("STS.U16", "st.2"),
    ],
)
def test_names(word: str, name: str) -> None:
    assert access_named(word).name == name


def test_an_unknown_access_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        InputError, match=r"access='ldmatrx.x4' is not known; did you mean ldmatrix"
    ):
        access_named("ldmatrx.x4")
    with pytest.raises(
        InputError, match=r"access='ldmatrix.x5' is not known; of ldmatrix use ldma"
    ):
        access_named("ldmatrix.x5")
    with pytest.raises(InputError, match=r"'ld.shared.v4.f64' is not known; of ld use ld.1, ld.2"):
        access_named("ld.shared.v4.f64")
    with pytest.raises(InputError, match=r"access='mov' is not known; use ld or st with"):
        access_named("mov")


def test_every_access_of_the_table_has_a_price() -> None:
    for access in ACCESSES.values():
        addresses = [lane * access.width for lane in range(32)]
        cost = access.cost(addresses, addresses)
        assert cost.wavefronts == cost.wavefronts_ideal
        assert cost.sectors == cost.sectors_ideal
        assert cost.wavefronts + cost.sectors > 0

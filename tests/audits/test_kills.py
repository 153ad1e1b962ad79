"""Spending processes, killed at random moments: 0 lost and 0 double charges (`benchmarks.audit_kills`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.audit_kills import KILLS, measure

NOTHING = {"lost": 0.0, "doubled": 0.0, "forked": 0.0, "broken": 0.0}


@pytest.mark.parametrize(("store", "kills"), [("sqlite", 6), pytest.param("postgresql", 3, marks=pytest.mark.postgres)])
def test_a_few_kills(store: str, kills: int) -> None:
    found = measure(kills=kills, seed=1, stores=(store,))
    if found["missing"]:
        pytest.skip("no PostgreSQL can be started here")
    assert found["kills"] == kills
    assert found["charges"] > 0
    assert {name: found[name] for name in NOTHING} == NOTHING


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_many_kills(record_property: Callable[[str, object], None]) -> None:
    found = measure()
    record_property(
        "audit",
        f"kills: {found['kills']:.0f} over SQLite and PostgreSQL, {found['charges']:.0f} charges in two sessions each; "
        f"{found['lost']:.0f} lost, {found['doubled']:.0f} doubled",
    )
    assert found["kills"] == (2 - found["missing"]) * KILLS
    assert found["charges"] > found["kills"]
    assert {name: found[name] for name in NOTHING} == NOTHING


@pytest.mark.slow
@pytest.mark.planted("data that is opened before the charge")
def test_data_that_is_opened_before_the_charge_is_found() -> None:
    assert measure(kills=25, seed=2, stores=("sqlite",), early=True)["lost"] > 0

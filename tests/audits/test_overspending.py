"""Budgets of a ledger under random interleavings of sessions, processes, forks and deaths (`benchmarks`)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.audit_overspending import INTERLEAVINGS, measure


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_interleaving_overspends(record_property: Callable[[str, object], None]) -> None:
    found = measure()
    record_property(
        "audit",
        f"budgets overspent: {found['interleavings']:.0f} random interleavings of open, close, fork, kill and release "
        f"over up to five processes with up to three sessions each, {found['granted']:.0f} charges granted; "
        f"{found['overspent']:.0f} overspent, {found['forgotten']:.0f} forgotten",
    )
    assert found["interleavings"] == INTERLEAVINGS >= 200
    assert found["granted"] > 3 * INTERLEAVINGS  # of four each: the ledgers were not merely stuck
    assert {name: found[name] for name in ("overspent", "forgotten", "stuck", "broken")} == dict.fromkeys(
        ("overspent", "forgotten", "stuck", "broken"), 0
    )


def test_a_few_interleavings() -> None:
    found = measure(interleavings=3, seed=1)
    assert (found["overspent"], found["forgotten"], found["stuck"], found["broken"]) == (0, 0, 0, 0)

"""How near a computed strength is to the true one, for any number of rows: a first-order bound would be too short."""

from __future__ import annotations

import math

import pytest

from sidelight.published.logistic_divergence import Precision

PENALTIES = (1.1, 2.0, 50.0)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("rows", [1.0, 1e3, 1e6, 1e9, 4e9, 1e11, 1e15])
def test_the_slack_covers_what_the_hessian_can_change(rows: float, penalty: float) -> None:
    known = Precision(rows, penalty)
    change = known.largest_eigenvalue * min(1.0, math.expm1(min(known.inexactness, 1.0)))
    assert math.isfinite(known.slack)
    assert known.slack >= change


def test_a_first_order_bound_would_be_too_short() -> None:
    """The negative control: without the exponential the largest tables are not covered."""
    known = Precision(4e9, 2.0)
    first_order = 1.01 * known.largest_eigenvalue * known.inexactness + 1e-9 * known.rows
    assert first_order < known.largest_eigenvalue * math.expm1(known.inexactness) <= known.slack


def test_usual_tables_lose_next_to_nothing() -> None:
    known = Precision(1e5, 20.0)
    assert known.slack < 1e-3

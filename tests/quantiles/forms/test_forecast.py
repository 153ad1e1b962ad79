"""The forecast of `cells`: the numbers of the specification, and refusals."""

from __future__ import annotations

import pytest

from sidelight.errors import RangeError
from sidelight.quantiles.forms.cells_plan import gap_forecast
from sidelight.quantiles.tree import even_levels


@pytest.mark.parametrize(
    ("count", "epsilon", "size", "expected"),
    [(49, 1, 10_000, 17.5), (199, 1, 10_000, 22.5), (999, 1, 10_000, 24), (49, 4, 10_000, 7.2), (999, 4, 10_000, 8.7)],
)
def test_the_numbers_of_the_specification(count: int, epsilon: int, size: int, expected: float) -> None:
    """The specification's forecasts at epsilon 1 and 4, with the larger share of coarse counts: 18.5, 25, 27, 7.3, 9.8.

    Measured on normal and lognormal data at epsilon 1: 17, 22, 26.
    """
    assert gap_forecast(even_levels(count), size=size, epsilon=epsilon).largest == pytest.approx(expected, rel=0.04)


def test_more_levels_more_records_and_less_budget_cost_more() -> None:
    def largest(**changed: object) -> float:
        asked = {"count": 99, "size": 10_000, "epsilon": "1", **changed}
        return gap_forecast(even_levels(asked.pop("count")), **asked).largest  # type: ignore[arg-type]

    assert largest() < largest(count=999)
    assert largest() < largest(size=100_000)
    assert 5 * largest() < largest(epsilon="0.1")


def test_the_middle_round_is_worth_it() -> None:
    """Beyond epsilon² n = 5e5 a third round of counts keeps the forecast from growing with the records' root."""
    one, six = (gap_forecast(even_levels(199), size=size, epsilon=1).largest for size in (1_000_000, 6_000_000))
    assert six < 1.8 * one


@pytest.mark.parametrize("size", [0, -3, 1.5, True])
def test_sizes_are_whole_numbers(size: object) -> None:
    with pytest.raises(RangeError, match="about how many records"):
        gap_forecast([0.5], size=size, epsilon=1)  # type: ignore[arg-type]


def test_one_currency() -> None:
    for wrong in ({}, {"epsilon": 1, "rho": 1}):
        with pytest.raises(RangeError, match="exactly one"):
            gap_forecast([0.5], size=9, **wrong)
    assert gap_forecast(even_levels(199), size=10_000, rho="0.1").largest > 0

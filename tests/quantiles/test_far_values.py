"""Values many steps from 0: nanoseconds since 1970 have codes of their own, and what has none is said so."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.quantiles.outcomes import step_grid
from sidelight.records import Schema
from sidelight.testing import seeded_release

LEVELS = [0.25, 0.5, 0.75]
NOW = 1_763_000_000_000_000_000
DAY = NOW + np.random.default_rng(0).integers(0, 86_400_000_000_000, 4000)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        ({"granularity": 1}, {}),
        ({"granularity": 1, "lower": -2.2e18, "upper": 2.2e18}, {}),
        ({"granularity": 1}, {"prediction": "uniform"}),
    ],
)
def test_nanoseconds_keep_their_ranks(sign: int, declared: dict[str, Any], asked: dict[str, Any]) -> None:
    rows = sign * DAY
    if "prediction" in asked:
        asked = {
            "prediction": sl.hedge(
                sl.priors.Uniform(*sorted((sign * 1.7e18, sign * 1.9e18))), with_=sl.priors.ScaleFree()
            )
        }
    table = sl.Table({"a": rows}, schema=[sl.Number("a", **declared)])
    release = seeded_release(sl.Quantiles(LEVELS, column="a", epsilon=1, **asked), table, seed=4)
    below = (rows.astype(float) < release.value[:, None]).sum(axis=1)
    assert (abs(below - np.array(LEVELS) * 4000) <= release.error_bound(1 - 1e-9)).all()
    assert all(value.is_integer() and 1.76e18 < abs(value) < 1.77e18 for value in release.value.tolist())


@pytest.mark.parametrize(("centre", "step"), [(1.16e16, "0.01"), (1.76e9, "1e-9"), (-1.76e9, "1e-9"), (2.3e18, 1)])
def test_a_value_far_out_is_found(centre: float, step: Any) -> None:
    query = sl.Quantiles([0.5], epsilon=1, granularity=step)
    assert seeded_release(query, np.full(3000, centre), seed=1).value[0] == pytest.approx(centre, rel=1e-15)


def test_bounds_far_from_zero_and_the_stable_median() -> None:
    number = sl.Number("a", lower=1.7e18, upper=1.9e18, granularity=1)
    table = sl.Table({"a": np.full(3000, NOW)}, schema=[number])
    assert seeded_release(sl.Quantiles([0.5], column="a", epsilon=1), table, seed=1).value[0] == NOW
    assert seeded_release(sl.StableMedian("a", epsilon=1, delta="1e-6"), table, seed=1).value == NOW


@pytest.mark.parametrize("bounds", [{"upper": 1e20}, {"lower": -1e20}, {"lower": 1e19, "upper": 2e19}])
def test_bounds_beyond_the_codes_are_refused_with_a_true_text(bounds: dict[str, Any]) -> None:
    text = r"more than 2\*\*61 steps of 1 from 0, up to 2.3e\+18 is possible"
    with pytest.raises(RangeError, match=text):
        sl.Number("a", granularity=1, **bounds)
    with pytest.raises(RangeError, match=text):
        step_grid(sl.Number("a", **bounds), resolution=Fraction(1))


@pytest.mark.parametrize(
    "prior", [sl.priors.Cauchy(-1e19, 1e15), sl.priors.Uniform(5e18, 6e18), sl.priors.Gaussian(1e20, 1.0)]
)
def test_a_prediction_beyond_the_codes_is_refused(prior: Any) -> None:
    schema = Schema([sl.Number("a", granularity=1)])
    for prediction in (prior, sl.hedge(prior, with_=sl.priors.ScaleFree())):
        with pytest.raises(RangeError, match=r"2\*\*61 steps of 1 from 0, where values are cut"):
            sl.Quantiles([0.5], column="a", epsilon=1, prediction=prediction).prepare(schema)
    sl.Quantiles([0.5], column="a", epsilon=1, prediction=prior).prepare(Schema([sl.Number("a")]))  # floats reach it


def test_without_bounds_the_stated_error_says_where_it_ends() -> None:
    def assumption(**declared: Any) -> str:
        number = sl.Number("a", granularity=1, **declared)
        return sl.Quantiles([0.5], column="a", epsilon=1).prepare(Schema([number])).error.assumption

    assert "below 2.3e+18 in size" in assumption()
    assert "below 2.3e+18 in size" in assumption(lower=0)
    assert "in size" not in assumption(lower=0, upper=100)


def test_bounds_of_a_column_are_within_the_floats() -> None:
    assert sl.Number("a", upper=1e301).upper == 10**301
    for bounds in ({"lower": 10**400}, {"upper": 1.7976931348623157e308}, {"lower": -1e302}):
        with pytest.raises(RangeError, match=r"must lie within 2\*\*1000 \(about 1.07e301\) of 0"):
            sl.Number("a", **bounds)

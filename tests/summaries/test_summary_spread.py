"""Variances and standard deviations by group."""

import math

import numpy as np
import pytest
from scipy.stats import beta

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.session import release_once
from sidelight.summaries.noise_choice import laplace_variance
from sidelight.testing import SeededEntropy

PRICES = [{"epsilon": 1}, {"rho": "0.1"}, {"mu": 1}]


def seeded(query, table, seed=0):
    return release_once(query, table, entropy=SeededEntropy(seed))


@pytest.fixture(scope="module")
def many():
    values = np.linspace(20, 90, 2000)
    names = [f"g{place}" for place in range(400)]
    table = sl.Table(
        {"x": np.tile(values, 400), "g": np.repeat(names, 2000)},
        schema=[sl.Number("x", lower=0, upper=100), sl.Category("g", names, other=None)],
    )
    return table, values


@pytest.mark.parametrize("price", PRICES)
def test_noise_levels_and_intervals(many, price):
    table, values = many
    for query, name, truth in (
        (sl.Variance("x", by="g", **price), "variance", values.var(ddof=1)),
        (sl.StandardDeviation("x", by="g", ddof=0, **price), "sd", values.std()),
    ):
        found = seeded(query, table).value
        z = (found[name] - truth) / found["noise_sd"]
        assert np.mean(z**2) == pytest.approx(1, abs=0.5)
        inside = np.mean((found["low"] <= truth) & (truth <= found["high"]))
        assert 0.88 < inside < 0.995
        assert found["mean"].mean() == pytest.approx(values.mean(), rel=0.01)
        assert found["count"].mean() == pytest.approx(2000, rel=0.01)


def test_counts_of_the_triple_have_the_noise_of_the_price_and_no_other(many):
    table, _ = many
    noise = seeded(sl.Variance("x", by="g", epsilon="0.5"), table, 3).value["count_unbiased"] - 2000

    def rejected(scale):
        variance = 3 * laplace_variance(scale * 2**20) / 2.0**40
        return abs(np.mean(noise**2) / variance - 1) / math.sqrt(3 / noise.size) > 5  # kurtosis 4

    assert not rejected(2.0)
    assert rejected(2.0 * 0.65)
    assert rejected(2.0 * 1.45)


def test_without_bounds():
    rng = np.random.default_rng(3)
    x = rng.normal(50, 10, 20_000)
    table = sl.Table({"x": x}, schema=[sl.Number("x")])
    for price in PRICES:
        assert seeded(sl.StandardDeviation("x", **price), table).value.sd == pytest.approx(10, rel=0.1)
    told = seeded(sl.StandardDeviation("x", epsilon="0.1", prediction=sl.priors.Cauchy(45, 10)), table)
    assert told.value.sd == pytest.approx(10, rel=0.2)
    assert told.prediction["origin"] == {"kind": "guess"}


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [[], [math.nan], [3.0], [1e308] * 9, [math.inf, -math.inf]])
@pytest.mark.parametrize("number", [{}, {"lower": 0}, {"lower": -5, "upper": 5}, {"granularity": 1}])
def test_nothing_about_rows_raises(price, rows, number):
    table = sl.Table({"x": np.array(rows, float)}, schema=[sl.Number("x", **number)])
    for query in (sl.Variance("x", **price), sl.StandardDeviation("x", **price)):
        value = seeded(query, table).value
        for name in value.columns:
            assert np.isfinite(value[name]).all(), name


def test_another_unit_gives_the_same_spread_in_it():
    x = np.random.default_rng(1).integers(0, 400, 3000)
    one, other = (
        seeded(
            sl.Variance("x", epsilon=1),
            sl.Table({"x": x * unit}, schema=[sl.Number("x", lower=0, upper=400 * unit, granularity=unit)]),
        ).value
        for unit in (1, 1000)
    )
    for name in ("variance", "noise_sd", "low", "high"):
        assert getattr(other, name) == pytest.approx(1e6 * getattr(one, name), rel=1e-9)


def test_an_attack_cannot_refute_the_claim_and_refutes_half_the_noise():
    names = [f"g{place}" for place in range(4000)]

    def count(rows, epsilon):
        table = sl.Table(
            {"x": np.full(4000 * rows, 100.0), "g": np.repeat(names, rows)},
            schema=[sl.Number("x", lower=0, upper=100), sl.Category("g", names, other=None)],
        )
        value = seeded(sl.Variance("x", by="g", epsilon=epsilon), table, rows).value
        return value["count_unbiased"] * ((value["mean"] - 50) / 50)  # Σt where it is not cut

    def exceeded(epsilon):
        more, less = int((count(21, epsilon) > 20.5).sum()), int((count(20, epsilon) > 20.5).sum())
        return math.log(beta.ppf(5e-8, more, 4001 - more) / beta.ppf(1 - 5e-8, less + 1, 4000 - less))

    assert exceeded(1) <= 1
    assert exceeded(4) > 1


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (lambda: sl.Variance("x", epsilon=1, ddof=2), RangeError, "ddof"),
        (lambda: sl.Variance(1, epsilon=1), SchemaError, "name of a column"),
        (lambda: sl.StandardDeviation("x", epsilon=1, prediction={"a": 1}), RangeError, "prediction of the values"),
    ],
)
def test_mistakes_are_found_before_any_charge(query, error, words):
    with pytest.raises(error, match=words):
        query().prepare(sl.Schema([sl.Number("x")]))


@pytest.mark.parametrize("rows", [0, 5])
@pytest.mark.parametrize(("kind", "name"), [(sl.Variance, "variance"), (sl.StandardDeviation, "sd")])
def test_noise_beyond_the_floats_is_released_as_the_largest_float(kind, name, rows):
    """JSON has no infinity: such a release failed after its charge."""
    table = sl.Table({"x": [1.0, 1e150, -1e150, 3.0, 4.0][:rows]}, schema=[sl.Number("x", lower=-1e150, upper=1e150)])
    for price in ({"epsilon": "1e-9"}, {"rho": "1e-18"}):
        value = seeded(kind("x", **price), table).value
        assert np.isfinite([value[each][0] for each in (name, "noise_sd", "low", "high")]).all()


@pytest.mark.parametrize("price", [{"epsilon": 10**6}, {"epsilon": 10**6, "delta": "1e-6"}])
@pytest.mark.parametrize("upper", [1, 2**31])
def test_intervals_hold_where_rounding_outweighs_noise(price, upper):
    """Squares are rounded down once per row, to 2^-30: at n·epsilon = 1e10 that is more than all noise."""
    x = np.random.default_rng(1).uniform(0.2, 0.9, 10**4) * upper
    table = sl.Table({"x": x}, schema=[sl.Number("x", lower=0, upper=upper)])
    for seed in range(6):
        value = seeded(sl.Variance("x", **price), table, seed).value
        assert value["low"][0] <= x.var(ddof=1) <= value["high"][0] <= value["low"][0] * (1 + 1e-6)

"""Means and proportions: how good they are, what they cost, and that nothing about rows raises."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

import sidelight as sl
from sidelight.accuracy.expected import expected
from sidelight.errors import RangeError, SchemaError
from sidelight.group_table import GroupTable
from sidelight.mechanisms.budget import Budget
from sidelight.release import outcome_from_json
from sidelight.session import release_once
from sidelight.summaries.clip_subject import subject_of
from sidelight.summaries.clipping import clipping_of
from sidelight.summaries.noise_choice import laplace_variance
from sidelight.testing import SeededEntropy, seeded_release

PRICES = [{"epsilon": 1}, {"rho": "0.1"}, {"mu": 1}, {"epsilon": 1, "delta": "1e-6"}]


def seeded(query, table, seed=0):
    return release_once(query, table, entropy=SeededEntropy(seed))


def labels(count):
    return [f"g{place}" for place in range(count)]


@pytest.fixture(scope="module")
def many():
    """A thousand groups of 100 rows each with the same values, so that their errors are those of a thousand runs."""
    values = np.linspace(10, 60, 100)
    names = labels(1000)
    table = sl.Table(
        {"x": np.tile(values, 1000), "g": np.repeat(names, 100)},
        schema=[sl.Number("x", lower=0, upper=100), sl.Category("g", names, other=None)],
    )
    return table, float(values.mean())


def test_the_pair_has_seven_tenths_of_the_error_of_the_usual_split(many):
    """To first order variances are w²(1+τ²)/(nε)² and twice that: held to 3 %, six standard errors of 20,000 means."""
    table, truth = many
    query = sl.Mean("x", by="g", epsilon=1)
    found = np.concatenate([seeded(query, table, seed=seed).value["mean_plain"] for seed in range(20)])
    error = math.sqrt(np.mean((found - truth) ** 2))
    assert error == pytest.approx(math.sqrt(1 + ((truth - 50) / 50) ** 2) * 100 / 100, rel=0.03)
    rng = np.random.default_rng(5)
    n, half = 100, 50.0
    # the usual way: epsilon/2 on the centred sum, epsilon/2 on the count
    sums = n * (truth - half) + rng.laplace(scale=2 * half, size=200_000)
    split = half + sums / (n + rng.laplace(scale=2, size=200_000))
    assert error / math.sqrt(np.mean((split - truth) ** 2)) == pytest.approx(math.sqrt(1 / 2), rel=0.03)


@pytest.mark.parametrize("price", PRICES)
def test_intervals_hold_the_mean(many, price):
    table, truth = many
    value = seeded(sl.Mean("x", by="g", **price), table).value
    inside = int(((value["low"] <= truth) & (truth <= value["high"])).sum())
    assert binomtest(inside, 1000, 0.95).pvalue > 1e-6
    z = (value["mean_plain"] - truth) / value["noise_sd"]
    assert np.mean(z**2) == pytest.approx(1, abs=0.3)
    assert value["supported"].all()


def test_counts_have_the_noise_of_the_price_and_no_other(many):
    """n̂ = (A + B)/M: two discrete Laplace variables of scale M/ε; a scale that is 30 % off is rejected."""
    table, _ = many
    value = seeded(sl.Mean("x", by="g", epsilon="0.5"), table, seed=3).value
    noise = value["count_unbiased"] - 100

    def rejected(scale):
        variance = 2 * laplace_variance(scale * 2**20) / 2.0**40
        z = (np.mean(noise**2) / variance - 1) / math.sqrt(3.5 / noise.size)  # kurtosis 4.5
        return abs(z) > 5

    assert not rejected(2.0)
    assert rejected(2.0 * 0.7)
    assert rejected(2.0 * 1.3)


def test_a_drawn_table_is_better_and_keeps_the_plain_means(many):
    table, truth = many
    for prediction in (None, dict.fromkeys(labels(1000), truth)):
        value = seeded(sl.Mean("x", by="g", epsilon="0.1", prediction=prediction), table).value
        drawn, plain = (np.sqrt(np.mean((value[name] - truth) ** 2)) for name in ("mean", "mean_plain"))
        assert drawn < 0.3 * plain


def test_a_stated_doubt_is_used(many):
    table, truth = many
    wrong = dict.fromkeys(labels(1000), 2 * truth)
    free = seeded(sl.Mean("x", by="g", epsilon=1, prediction=wrong), table).value["mean"]
    sure = seeded(sl.Mean("x", by="g", epsilon=1, prediction=sl.Predicted(wrong, sd=1e-6)), table).value["mean"]
    assert abs(np.mean(free) - truth) < 3
    assert np.mean(sure) == pytest.approx(2 * truth, rel=1e-3)
    one = sl.Table({"x": [30.0] * 100}, schema=[sl.Number("x", lower=0, upper=100)])
    told = seeded(sl.Mean("x", epsilon=1, prediction=sl.Predicted(40, sd=1e-6)), one).value
    assert told.mean == pytest.approx(40, abs=1e-3)
    with pytest.raises(RangeError, match="how far"):
        sl.Mean("x", epsilon=1, prediction=40).prepare(one.schema)


def test_an_earlier_release_is_no_worse_than_nothing_and_better_where_groups_are_large():
    """Small groups of an earlier release are only noise; taken as exact they made means five times worse."""
    sizes, names = np.repeat([2, 2000], [150, 50]), labels(200)
    centres = np.random.default_rng(1).normal(40, 5, 200)
    x = np.repeat(centres, sizes)
    table = sl.Table(
        {"x": x, "g": np.repeat(names, sizes)},
        schema=[sl.Number("x", lower=0, upper=200), sl.Category("g", names, other=None)],
    )
    errors = {"alone": [], "after": []}
    for seed in range(4):
        earlier = seeded(sl.Mean("x", by="g", epsilon=1), table, seed=seed)
        for name, prediction in (("alone", None), ("after", earlier)):
            query = sl.Mean("x", by="g", epsilon=1, prediction=prediction)
            errors[name].append(seeded(query, table, seed=100 + seed).value["mean"] - centres)
    small, large = (
        {name: float(np.sqrt(np.mean(np.square(np.array(each)[:, part])))) for name, each in errors.items()}
        for part in (sizes == 2, sizes == 2000)
    )
    assert small["after"] < 1.1 * small["alone"]
    assert large["after"] < 0.85 * large["alone"]  # two measurements of the same: 0.71
    frame = pd.DataFrame({"g": names, "mean": centres, "noise_sd": 1e-9})
    sure = seeded(sl.Mean("x", by="g", epsilon=1, prediction=frame), table).value["mean"]
    assert np.max(np.abs(sure - centres)) < 0.5


# --- without bounds ---------------------------------------------------------------------------------------------------


def error_of(x, low, high, *, epsilon):
    """Clipping bias and noise of a pair on an interval."""
    below, above = np.maximum(low - x, 0).mean(), np.maximum(x - high, 0).mean()
    mean, half = np.clip(x, low, high).mean(), (high - low) / 2
    tau = (mean - low - half) / half
    noise = 2 * half / (x.size * epsilon) * math.sqrt(1 + tau**2)
    return below, above, noise


def best_error(x, *, epsilon):
    """The least error of a fixed interval, chosen with the data in view; biases of both sides do not cancel."""
    ends = np.quantile(x, [*np.linspace(0, 0.03, 12), *np.linspace(0.97, 1, 12)])
    found = (error_of(x, low, high, epsilon=epsilon) for low in ends[:12] for high in ends[12:])
    return min(math.hypot(below + above, noise) for below, above, noise in found)


@pytest.mark.parametrize(
    ("family", "most"), [("normal", 3.0), ("gamma", 3.0), ("exponential", 3.0), ("lognormal", 3.5)]
)
def test_a_mean_without_bounds_is_near_the_best_interval(family, most):
    rng = np.random.default_rng(11)
    draw = {
        "normal": lambda n: rng.normal(50, 10, n),
        "gamma": lambda n: rng.gamma(6, 1, n),
        "exponential": lambda n: rng.exponential(1, n),
        "lognormal": lambda n: rng.lognormal(0, 1, n),
    }[family]
    x = draw(10_000)
    table = sl.Table({"x": x}, schema=[sl.Number("x")])
    squares = []
    for seed in range(12):
        release = seeded(sl.Mean("x", epsilon=1), table, seed)
        notes = release.value.notes
        below, above, _ = error_of(x, notes["clip_lower"], notes["clip_upper"], epsilon=1)
        squares.append((below - above) ** 2 + release.value.noise_sd**2)
    assert math.sqrt(np.mean(squares)) < most * best_error(x, epsilon=1)


def test_a_prediction_of_the_values_helps_where_rows_are_few():
    rng = np.random.default_rng(2)
    x = rng.normal(50, 10, 1000)
    table = sl.Table({"x": x}, schema=[sl.Number("x")])
    best = best_error(x, epsilon=0.3)
    query = sl.Mean("x", epsilon="0.3", prediction=sl.priors.Cauchy(45, 10))
    found = [seeded(query, table, seed).value for seed in range(15)]
    assert np.median([math.hypot(each.mean - x.mean(), each.noise_sd) for each in found]) < 3.5 * best


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize(
    ("number", "prediction"),
    [
        (sl.Number("x"), None),
        (sl.Number("x", lower=0), None),
        (sl.Number("x", upper=200), None),
        (sl.Number("x", granularity=1), None),
        (sl.Number("x"), sl.priors.Cauchy(40, 20)),
        (sl.Number("x", lower=0, upper=500), sl.priors.Cauchy(40, 20)),
    ],
)
def test_every_way_to_clip(price, number, prediction):
    rng = np.random.default_rng(3)
    x = np.round(rng.normal(50, 10, 20_000))
    release = seeded(sl.Mean("x", prediction=prediction, **price), sl.Table({"x": x}, schema=[number]), 1)
    assert release.value.mean == pytest.approx(x.mean(), abs=0.5)
    notes = release.value.notes
    assert notes["clip_lower"] < 30 < 70 < notes["clip_upper"]
    assert notes["clip_radius"] < 400


def test_shares_add_up_to_the_price():
    schema = sl.Schema([sl.Number("x"), sl.PersonId("who", max_rows=4)])
    for number, rows in ((sl.Schema([sl.Number("x")]), 1), (schema, 4)):
        pure = sl.Mean("x", epsilon="0.8").prepare(number)
        assert pure.claims.pure().epsilon == Fraction(8, 10)
        zcdp = sl.Mean("x", rho="0.02").prepare(number)
        assert Fraction(199, 10_000) < zcdp.claims.zcdp().rho <= Fraction(2, 100)
        gdp = sl.Mean("x", mu="0.3").prepare(number)
        assert Fraction(299, 1000) < gdp.claims.gdp().mu <= Fraction(3, 10)
        for prepared in (pure, zcdp, gdp):
            assert prepared.claims.unit == number.unit
            assert prepared.numerics == "exact"
            clipping = prepared.plan.clipping
            assert clipping.rows_per_unit == rows
            # the slope of one row is that of one unit divided by K
            nodes = clipping.tree.path_budgets[0]
            each = clipping.parts[0][1].pure().epsilon
            assert len(nodes) == clipping.parts[0][0] == 2
            assert all(node * rows <= each for node in nodes)


def test_persons_pay_for_all_their_rows():
    people = 4000
    data = {"x": np.tile([40.0, 60.0], people), "who": np.repeat([f"p{i}" for i in range(people)], 2).astype(str)}
    one, two = (
        sl.Table(data, schema=[sl.Number("x", lower=0, upper=100), sl.PersonId("who", max_rows=rows)])
        for rows in (1, 2)
    )
    first, second = (seeded(sl.Mean("x", epsilon=1), table).value for table in (one, two))
    assert first.count == pytest.approx(people, abs=50)
    assert second.count == pytest.approx(2 * people, abs=100)
    assert second.noise_sd == pytest.approx(first.noise_sd, rel=0.05)  # twice the rows, twice the noise


# --- laws -------------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.floats(-1e6, 1e6), min_size=1),
    st.one_of(st.none(), st.floats(1e-6, 1e6)),
    st.sampled_from(PRICES),
)
def test_a_prediction_never_changes_the_claims(values, doubt, price):
    schema = sl.Schema([sl.Number("x", lower=0, upper=1), sl.Category("g", ["a", "b", "c"], other=None)])
    plain = sl.Mean("x", by="g", **price).prepare(schema)
    told = sl.Mean("x", by="g", prediction=sl.Predicted(values, doubt=doubt), **price).prepare(schema)
    assert told.claims == plain.claims


@settings(max_examples=20, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.sampled_from(PRICES))
def test_a_prediction_of_values_never_costs_more_than_the_price(location, scale, price):
    schema = sl.Schema([sl.Number("x")])
    told = sl.Mean("x", prediction=sl.priors.Cauchy(location, scale), **price).prepare(schema)
    other = sl.Mean("x", prediction=sl.priors.Cauchy(0, 1), **price).prepare(schema)
    assert told.claims == other.claims


@pytest.mark.parametrize("price", PRICES)
def test_another_unit_gives_the_same_mean_in_it(price):
    rng = np.random.default_rng(1)
    names = labels(5)
    x, g = rng.integers(0, 400, 3000), rng.choice(names, 3000)
    found = []
    for unit in (1, 1000):
        table = sl.Table(
            {"x": x * unit, "g": g},
            schema=[
                sl.Number("x", lower=0, upper=400 * unit, granularity=unit),
                sl.Category("g", names, other=None),
            ],
        )
        found.append(seeded(sl.Mean("x", by="g", **price), table, 4).value)
    for name in ("mean", "mean_plain", "low", "high", "noise_sd"):
        np.testing.assert_allclose(found[1][name], 1000 * found[0][name], rtol=1e-9)
    np.testing.assert_array_equal(found[0]["count"], found[1]["count"])


def test_every_engine_releases_the_same_bits(tmp_path):
    rng = np.random.default_rng(8)
    data = {"x": rng.normal(50, 10, 500), "g": rng.choice(["a", "b", "c"], 500).astype(str)}
    data["x"][::50] = np.nan
    pd.DataFrame(data).to_parquet(tmp_path / "rows.parquet")
    schema = [sl.Number("x"), sl.Category("g", ["a", "b", "c"], other=None)]
    sources = [data, pd.DataFrame(data), pl.DataFrame(data), tmp_path / "rows.parquet"]
    query = sl.Mean("x", by="g", where=sl.col("g").isin(["a", "b"]), epsilon=1)
    found = [seeded(query, sl.Table(source, schema=schema), 6).value for source in sources]
    assert all(each == found[0] for each in found)
    assert found[0].row("c")["count"] < 30


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [[], [math.nan] * 3, [1.0], [math.inf, -math.inf], [1e308] * 50, [-1e-300] * 50])
@pytest.mark.parametrize("bounds", [{}, {"lower": 0}, {"lower": -5, "upper": 5}, {"granularity": 1}])
def test_nothing_about_rows_raises_and_everything_is_a_number(price, rows, bounds):
    names = labels(4)
    table = sl.Table(
        {"x": np.array(rows, float), "g": np.array(["g0"] * len(rows), str)},
        schema=[sl.Number("x", **bounds), sl.Category("g", names, other=None)],
    )
    for by in ((), "g"):
        release = seeded(sl.Mean("x", by=by, **price), table, 2)
        for name in release.value.columns:
            assert np.isfinite(release.value[name]).all(), name
        assert (release.value["low"] <= release.value["high"]).all()
        again = outcome_from_json(release.to_json())
        assert again.value == release.value
        assert isinstance(again.value, GroupTable)


# --- proportions ------------------------------------------------------------------------------------------------------


def test_a_proportion_counts_neither_what_is_unknown():
    table = sl.Table(
        {"age": [70.0] * 300 + [30.0] * 600 + [math.nan] * 5000},
        schema=[sl.Number("age", granularity=1)],
    )
    for price in PRICES:
        for condition in (sl.col("age") >= 65, "age >= 65"):
            value = seeded(sl.Proportion(condition, **price), table).value
            assert value.proportion == pytest.approx(1 / 3, abs=0.05)
            assert value.count == pytest.approx(900, abs=60)
            assert value.low <= 1 / 3 <= value.high or value.low - 0.01 < 1 / 3 < value.high + 0.01


def test_a_mean_of_an_expression():
    table = sl.Table(
        {"price": [2.0] * 1000, "pieces": [3.0] * 1000},
        schema=[
            sl.Number("price", lower=0, upper=10, granularity="0.01"),
            sl.Number("pieces", lower=0, upper=5, granularity=1),
        ],
    )
    for column in (sl.col("price") * sl.col("pieces"), "price * pieces"):
        assert seeded(sl.Mean(column, epsilon=5), table).value.mean == pytest.approx(6, abs=0.5)


def leaning(epsilon):
    """The first entry of the pair of many pairs of neighbours: 20 or 21 rows say yes, 20 say no."""
    names, found = labels(4000), []
    for yes in (20, 21):
        rows = ["yes"] * yes + ["no"] * 20
        table = sl.Table(
            {"says": np.tile(rows, 4000), "g": np.repeat(names, len(rows))},
            schema=[sl.Category("says", ["yes", "no"], other=None), sl.Category("g", names, other=None)],
        )
        value = seeded(sl.Proportion(sl.col("says") == "yes", by="g", epsilon=epsilon), table, yes).value
        found.append(value["count_unbiased"] * value["proportion_plain"])
    return found


def attacked(without, with_one):
    """The epsilon that is proven to be exceeded, by the event "more than 20.5", at 1 - 1e-7."""
    more, less = int((with_one > 20.5).sum()), int((without > 20.5).sum())
    low = beta.ppf(5e-8, more, with_one.size - more + 1)
    high = beta.ppf(1 - 5e-8, less + 1, without.size - less)
    return math.log(low / high)


def test_an_attack_cannot_refute_the_claim_and_refutes_half_the_noise():
    assert attacked(*leaning(1)) <= 1
    assert attacked(*leaning(2)) > 1  # what a query that adds half the noise and claims 1 would show


# --- mistakes of the user ---------------------------------------------------------------------------------------------

SCHEMA = sl.Schema(
    [sl.Number("x", lower=0, upper=10), sl.Number("free"), sl.Category("g", ["a", "b"]), sl.Label("firm")]
)


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (lambda: sl.Mean("y", epsilon=1), SchemaError, "y"),
        (lambda: sl.Mean("g", epsilon=1), SchemaError, "g"),
        (lambda: sl.Mean(3, epsilon=1), SchemaError, "name of a column"),
        (lambda: sl.Mean("x", by="free", epsilon=1), SchemaError, "bins"),
        (lambda: sl.Mean("x", by="firm", epsilon=1), SchemaError, "undeclared"),
        (lambda: sl.Mean("x", by="g", epsilon=1, prediction={"z": 1}), RangeError, "none of the"),
        (lambda: sl.Mean("x", epsilon=1, rho=1), RangeError, "exactly one"),
        (lambda: sl.Mean("x"), RangeError, "exactly one"),
        (lambda: sl.Mean("x", epsilon=-1), RangeError, "epsilon"),
        (lambda: sl.Mean("x", epsilon=1, clip=(3, 1)), RangeError, "lower < upper"),
        (lambda: sl.Mean("x", epsilon=1, clip=(20, 30)), RangeError, "outside"),
        (lambda: sl.Mean("x", epsilon=1, clip="wild"), RangeError, "clip"),
        (lambda: sl.Mean("free", epsilon=1, clip="declared"), SchemaError, "both bounds"),
        (lambda: sl.Mean("free", epsilon="1e-30"), RangeError, "epsilon"),
        (lambda: sl.Proportion("x", epsilon=1), SchemaError, "condition"),
        (lambda: sl.Proportion("x >= 2", epsilon=1, prediction=sl.priors.Cauchy(0, 1)), RangeError, "prior"),
        (lambda: sl.Mean("x", epsilon=1, confidence=1), RangeError, "confidence"),
    ],
)
def test_mistakes_are_found_before_any_charge(query, error, words):
    with pytest.raises(error, match=words):
        query().prepare(SCHEMA)


def test_public_intervals_are_used_as_they_are():
    table = sl.Table({"x": [4.0] * 1000}, schema=[sl.Number("x")])
    value = seeded(sl.Mean("x", epsilon=1, clip=(0, 3)), table).value
    assert value.mean == pytest.approx(3, abs=0.2)
    assert value.notes["clip_upper"] == 3
    plan = clipping_of(
        subject_of(table.schema, "x"), sl.Mean("x", epsilon=1).groups(table.schema), Budget.of(epsilon=1), clip=(0, 3)
    )
    assert plan.parts == ()
    assert plan.measure == Budget.of(epsilon=1)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("far", [1e90, -1e90, 5e-324])
def test_a_prediction_that_is_far_off_is_no_warning(far):
    for price in PRICES:
        table = sl.Table({"x": [], "g": []}, schema=[sl.Number("x"), sl.Category("g", ["a", "b", "c"], other=None)])
        for doubt in ({}, {"doubt": 1e9}, {"sd": 1e90}, {"sd": 1e-90}):
            told = sl.Predicted(dict.fromkeys("abc", far), **doubt)
            for query in (
                sl.Mean("x", by="g", prediction=told, **price),
                sl.Sum("x", by="g", prediction=told, **price),
            ):
                value = seeded(query, table).value
                assert all(np.isfinite(value[name]).all() for name in value.columns)


def test_an_interval_without_a_hint_wants_rows_and_says_so() -> None:
    rng = np.random.default_rng(3)
    schema = [sl.Number("x")]
    few, many = (sl.Table({"x": rng.gamma(6, 10, rows)}, schema=schema) for rows in (300, 30_000))
    query = sl.Mean("x", epsilon="0.1")
    for table, wanted in ((few, False), (many, True)):
        value = seeded_release(query, table, seed=5).value
        assert value.notes["rows_wanted"] == 10_000
        assert bool(value["supported"][0]) is wanted
    told = seeded_release(sl.Mean("x", epsilon="0.1", prediction=sl.priors.Cauchy(60, 25)), few, seed=5).value
    assert "rows_wanted" not in told.notes


@pytest.mark.parametrize("where", [lambda row: True, [True, False], np.array([True])])
def test_a_condition_is_no_function_and_no_column_of_rows(where: object) -> None:
    with pytest.raises(RangeError, match="where must be a condition on declared columns"):
        sl.Count(where=where, epsilon=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("query", [sl.Mean("x", by="g", epsilon=1), sl.Proportion("x > 35", by="g", epsilon=1)])
def test_the_error_is_known_before_where_bounds_are_declared(many, price, query):
    """By Theorem 5, for a group of 100 rows and the worst mean, which is an end of the interval."""
    table, truth = many
    query = replace(query, **({"epsilon": None} | price))
    prepared = query.prepare(table.schema)
    size, condition = prepared.error_of(100_000, confidence=0.95)
    assert condition == "the group has at least 100 rows"
    value = seeded(query, table, seed=4).value
    name = "mean" if isinstance(query, sl.Mean) and not isinstance(query, sl.Proportion) else "proportion"
    errors = np.abs(value[f"{name}_plain"] - (truth if name == "mean" else 0.5))
    assert binomtest(int((errors <= size).sum()), 1000, 0.95, alternative="less").pvalue > 1e-6
    # at an end the noise is up to twice that of the middle, and noise of 0/1 is a whole step coarser
    assert size < (3.5 if name == "mean" else 4.5) * np.quantile(errors, 0.95)
    far = np.quantile(errors, 0.999)
    assert prepared.error_of(100_000, confidence=0.9999)[0] > far
    assert prepared.error_of(100_000, confidence=0.5)[0] < size
    assert prepared.error_of(1000, confidence=0.95)[0] == (100 if name == "mean" else 1)  # a row: nothing is known
    found = expected(query, prepared, table.schema, confidence=0.95)
    assert found.basis == "bound"
    free = sl.Mean("y", epsilon=1).prepare(sl.Schema([sl.Number("y")]))
    assert free.error_of(1000, confidence=0.95) is None

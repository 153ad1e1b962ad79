"""Clipping each group to an interval of its own: what it costs rows and persons, that noise is as stated, audits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.collect_ranks import level_value, rows_by_group
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import LEVELS, total_of, value_of
from sidelight.audit import audit
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.summaries.clip_subject import ClipInterval, GroupIntervals, subject_of
from sidelight.summaries.clipping import Clipping, clipping_of
from sidelight.summaries.mean import PreparedMean, PreparedMeans
from sidelight.summaries.sum import PreparedSum
from sidelight.testing import SeededEntropy, seeded_release

PRICES = [{"epsilon": 1}, {"rho": "0.1"}, {"mu": 1}, {"epsilon": 1, "delta": "1e-6"}]
GROUPS = ["a", "b", "c", "d"]
WHERE = {"a": (10.0, 1.0), "b": (1000.0, 100.0), "c": (-50.0, 5.0), "d": (1e6, 1e5)}
JOB = sl.Category("job", GROUPS, other=None)


def far_apart(rows: int = 2000, seed: int = 1) -> dict[str, Any]:
    """Groups whose values have nothing in common: for these an interval of each is worth its rows."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(*WHERE[name], size=rows) for name in GROUPS])
    return {"job": np.repeat(GROUPS, rows), "x": x}


def plan_of(schema: sl.Schema, **more: Any) -> Clipping:
    budget = Budget.of(**more.pop("price"))
    groups = groups_of(schema, by="job", **more)
    return clipping_of(subject_of(schema, "x"), groups, budget, clip="by_group")


# --- what it costs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("limits", [{}, {"max_groups": 3}, {"max_groups": 3, "max_rows_per_group": 2}])
@pytest.mark.parametrize("kind", [sl.Mean, sl.Sum, sl.StandardDeviation])
def test_all_steps_cost_the_price(price: dict[str, Any], limits: dict[str, int], kind: Any) -> None:
    if kind is sl.Sum and limits:
        limits = {"max_rows_per_group": 6, **limits}
    person = [sl.PersonId("id", max_rows=6)] if limits else []
    schema = sl.Schema([JOB, sl.Number("x"), *person])
    claims = prepare_query(kind("x", by="job", clip="by_group", **price, **limits), schema).claims
    if "mu" in price:
        mu = Budget.of(**price).amount
        assert float(claims.gdp().mu) ** 2 == pytest.approx(float(mu), rel=1e-9)  # type: ignore[union-attr]
    elif "rho" in price:
        assert float(claims.zcdp().rho) == pytest.approx(0.1, rel=1e-9)  # type: ignore[union-attr]
        assert claims.zcdp().rho <= Fraction(1, 10)  # type: ignore[union-attr]
    else:
        assert claims.pure().epsilon == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("limits", "total", "square"),
    [({}, 1, 1), ({"max_groups": 3}, 10, 100), ({"max_groups": 3, "max_rows_per_group": 4}, 10, 36),
     ({"max_groups": 10, "max_rows_per_group": 1}, 10, 10)],
)  # fmt: skip
def test_a_row_has_the_slope_that_its_norm_leaves(limits: dict[str, int], total: int, square: int) -> None:
    """ε over all K rows; ρ and μ² over L2² of the counts by group, which is less than the K² of one table."""
    schema = sl.Schema([JOB, sl.Number("x"), *([sl.PersonId("id", max_rows=10)] if limits else [])])
    pure = plan_of(schema, price={"epsilon": 1}, **limits)
    assert (pure.radius_epsilon, pure.rows_per_unit) == (Fraction(1, 8 * total), 1)
    assert pure.tree is not None
    assert pure.tree.epsilon == Fraction(1, 8 * total)
    gaussian = plan_of(schema, price={"rho": "0.1"}, **limits)
    assert float(gaussian.radius_epsilon) == pytest.approx(math.sqrt(8 * 0.1 / 16 / square), rel=1e-12)
    assert gaussian.tree is not None
    assert float(gaussian.tree.epsilon) == pytest.approx(2 * math.sqrt(8 * 0.1 / 32 / square), rel=1e-12)


def radius_law(rows: tuple[int, ...], slope: float, masses: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the law of Theorem 4: mass of R times e^(-slope · rows beyond R)."""
    beyond = np.array([sum(row > radius for row in rows) for radius in range(len(masses))])
    weights = masses * np.exp(-slope * beyond)
    return np.asarray(weights / weights.sum())


def worst_of_a_person(slope: float, groups: int, rows: int, per_group: int) -> tuple[float, float]:
    """Return the largest privacy loss of the radii of all groups together, and the largest rho, over all tables.

    Groups are drawn independently, so each loss is a sum over groups; others have at most one row in each.
    """
    masses, cells = np.array([16.0, 8.0, 4.0, 2.0, 1.0]), range(6)
    by_size: dict[int, tuple[float, float]] = {}
    for size in range(per_group + 1):
        pure = rho = 0.0
        for own in combinations_with_replacement(cells, size):
            for others in [(), *((cell,) for cell in cells)]:
                p, q = (radius_law(each, slope, masses) for each in ((*others, *own), others))
                pure = max(pure, float(np.abs(np.log(p / q)).max()))
                for one, two in ((p, q), (q, p)):
                    for alpha in (1.01, 2.0, 8.0, 64.0):
                        divergence = math.log(float((one**alpha * two ** (1 - alpha)).sum())) / (alpha - 1)
                        rho = max(rho, divergence / alpha)
        by_size[size] = pure, rho
    shared = [each for each in product(range(per_group + 1), repeat=groups) if sum(each) <= rows]
    return (
        max(sum(by_size[size][0] for size in each) for each in shared),
        max(sum(by_size[size][1] for size in each) for each in shared),
    )


@pytest.mark.parametrize(("groups", "per_group"), [(1, 3), (3, 1), (2, 2)])
def test_radii_of_all_groups_keep_their_part_for_every_person(groups: int, per_group: int) -> None:
    """Brute force over all rows of a person with at most 3; a slope of 1/L∞ of the price is too steep."""
    schema = sl.Schema([JOB, sl.Number("x"), sl.PersonId("id", max_rows=3)])
    limits = {"max_groups": groups, "max_rows_per_group": per_group}
    pure = plan_of(schema, price={"epsilon": 8}, **limits)
    loss, _ = worst_of_a_person(float(pure.radius_epsilon), groups, 3, per_group)
    assert loss <= 1 + 1e-9  # an eighth of 8
    assert loss > 0.8
    gaussian = plan_of(schema, price={"rho": 2}, **limits)
    _, rho = worst_of_a_person(float(gaussian.radius_epsilon), groups, 3, per_group)
    assert rho <= 2 / 16 * (1 + 1e-9)
    assert rho > 0.5 * 2 / 16
    if groups > 1:
        loss, _ = worst_of_a_person(1 / per_group, groups, 3, per_group)
        assert loss > 1.3


# --- what is measured -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [sl.Number("x"), sl.Number("x", granularity="0.25"), sl.Number("x", lower=0)])
def test_codes_are_those_of_each_group_s_own_interval(number: sl.Number) -> None:
    schema = sl.Schema([JOB, number])
    jobs, x = ["a", "b", "a", "c", "b", "a"], [1.5, 40.0, 99.0, 7.25, -3.0, np.nan]
    table = sl.Table({"job": jobs, "x": x}, schema=list(schema.columns))
    groups, subject = groups_of(schema, by="job"), subject_of(schema, "x")
    rows = rows_by_group(table, groups, [subject.coding])
    lower, upper = np.array([0.0, 10.0, 7.0, 0.0]), np.array([2.0, 50.0, 8.0, 1.0])
    value = level_value(subject.coding)
    codes = rows.clipped(0, subject.grid, value, lower, upper)
    found = rows.statistics([value], [codes], kind="pair")
    assert np.asarray(found.counts.value).tolist() == [2, 2, 1, 0]
    exact = np.zeros((2, 4))
    for job, each in zip(jobs, x, strict=True):
        if not math.isnan(each):
            place = GROUPS.index(job)
            share = (min(max(each, lower[place]), upper[place]) - lower[place]) / (upper[place] - lower[place])
            exact[:, place] += share * LEVELS, (1 - share) * LEVELS
    np.testing.assert_allclose(np.asarray(found.values[0].value).astype(float), exact, atol=2)
    assert found.values[0].sensitivity == LEVELS
    signed = level_value(subject.coding, signed=True)
    whole = rows.statistics([signed], [rows.clipped(0, subject.grid, signed, -upper, upper)], kind="whole").values[0]
    assert whole.sensitivity == LEVELS // 2
    unit = upper / (LEVELS / 2)
    sums = np.zeros(4)
    for job, each in zip(jobs, x, strict=True):
        place = GROUPS.index(job)
        bounded = each if number.lower is None else max(each, 0.0)
        sums[place] += 0.0 if math.isnan(each) else min(max(bounded, -upper[place]), upper[place])
    np.testing.assert_allclose(np.asarray(whole.value).astype(float) * unit, sums, atol=1e-5)


def test_rows_are_those_of_one_pass_on_every_engine_and_by_labels_too() -> None:
    """The sums of `group_statistics` from equal intervals in all groups, for rows, persons and totals."""
    data = far_apart(50)
    data |= {"id": np.arange(200) // 7, "firm": data["job"]}
    number = sl.Number("x", lower=-100, upper=2000, granularity=1)
    person = sl.PersonId("id", max_rows=7)
    for more in ([], [person]):
        columns = [JOB, sl.Label("firm"), number, *more]
        table, schema = sl.Table(data, schema=columns), sl.Schema(columns)
        subject = subject_of(schema, "x")
        for by in ("job", "firm"):
            groups = groups_of(schema, by=by, **({"max_groups": 2, "max_rows_per_group": 2} if more else {}))
            only = None if by == "job" else [(name,) for name in GROUPS]
            rows = rows_by_group(table, groups, [subject.coding], only=only)
            value = value_of(schema, "x")
            found = rows.statistics([value], [value.clamped(rows.codes[0])], kind="pair")
            usual = group_statistics(table, groups, [value], kind="pair")
            usual = usual if only is None else usual.only(only)
            assert np.asarray(found.values[0].value).tolist() == np.asarray(usual.values[0].value).tolist()
            assert found.values[0].sensitivity == usual.values[0].sensitivity
    groups = groups_of(schema, by="job", max_groups=2, totals=True)
    total = total_of(schema, "x", lower=-500, upper=10_000)
    rows = rows_by_group(table, groups, [total.coding])
    found = rows.statistics([total], [total.clamped(rows.codes[0])], kind="whole")
    assert np.asarray(found.values[0].value).tolist() == (
        np.asarray(group_statistics(table, groups, [total], kind="whole").values[0].value).tolist()
    )


@pytest.mark.parametrize("price", PRICES)
def test_groups_far_apart_are_measured_each_in_its_unit(price: dict[str, Any]) -> None:
    data = far_apart(6000)
    table = sl.Table(data, schema=[JOB, sl.Number("x")])
    truth = np.array([data["x"][data["job"] == name].mean() for name in GROUPS])
    scale = np.array([WHERE[name][1] for name in GROUPS])
    found = seeded_release(sl.Mean("x", by="job", clip="by_group", **price), table, seed=2).value
    assert (np.abs(found["mean"] - truth) < scale / 5).all()
    assert ((found["clip_lower"] < truth) & (truth < found["clip_upper"])).all()
    assert (found["clip_upper"] - found["clip_lower"] < 100 * scale).all()
    one = seeded_release(sl.Mean("x", by="job", clip="private", **price), table, seed=2).value
    assert found["noise_sd"][0] < one["noise_sd"][0] / 100
    spread = seeded_release(sl.StandardDeviation("x", by="job", clip="by_group", **price), table, seed=2).value
    assert (np.abs(spread["sd"] / scale - 1) < 0.3).all()
    sums = seeded_release(sl.Sum("x", by="job", clip="by_group", **price), table, seed=2).value
    assert (np.abs(sums["sum"] / (6000 * truth) - 1) < 0.05).all()


@pytest.mark.parametrize("price", [{"epsilon": 4}, {"rho": 1}])
def test_several_columns_and_labels_that_nobody_declared(price: dict[str, Any]) -> None:
    data = far_apart(3000)
    data |= {"y": -2 * data["x"], "firm": data["job"]}
    table = sl.Table(data, schema=[JOB, sl.Number("x"), sl.Number("y"), sl.Label("firm")])
    query = sl.Mean(["x", "y"], by="job", clip="by_group", **price)
    assert isinstance(prepare_query(query, table.schema), PreparedMeans)
    found = seeded_release(query, table, seed=3).value
    for place, name in enumerate(GROUPS):
        centre, scale = WHERE[name]
        assert abs(found["mean_x"][place] - centre) < scale
        assert abs(found["mean_y"][place] + 2 * centre) < 2 * scale
        assert found["mean_y_clip_lower"][place] < -2 * centre < found["mean_y_clip_upper"][place]
    labels = sl.Mean("x", by="firm", clip="by_group", epsilon=6, delta="1e-6")
    found = seeded_release(labels, table, seed=3).value
    assert found["firm"] == GROUPS
    assert all(abs(found["mean"][at] - WHERE[name][0]) < WHERE[name][1] for at, name in enumerate(GROUPS))


# --- the noise --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alike() -> tuple[sl.Table, Any]:
    """400 groups of 40 rows, in 400 units: what is said of their noise must hold in each."""
    names = [f"g{n}" for n in range(400)]
    units = np.geomspace(1e-3, 1e6, 400)
    x = (units[:, None] * (5 + np.linspace(-1, 1, 40)[None, :])).ravel()
    table = sl.Table(
        {"g": np.repeat(names, 40), "x": x}, schema=[sl.Category("g", names, other=None), sl.Number("x", lower=0)]
    )
    return table, units


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_stated_noise_is_that_of_each_group_and_no_other(alike: tuple[sl.Table, Any], kind: str) -> None:
    """Around the clipped mean or sum, which the released interval tells; a scale that is 30 % off is rejected."""
    table, units = alike
    query: Any = sl.Sum("x", by="g", clip="by_group", epsilon=4)
    if kind == "mean":
        query = sl.Mean("x", by="g", clip="by_group", rho=2)
    value = seeded_release(query, table, seed=7).value
    rows = units[:, None] * (5 + np.linspace(-1, 1, 40)[None, :])
    clipped = np.clip(rows, value["clip_lower"][:, None], value["clip_upper"][:, None])
    truth, released = clipped.sum(axis=1), value.get("unbiased")
    if kind == "mean":
        truth, released = clipped.mean(axis=1), value["mean_plain"]
        # σ_n² = 4/μ² for seven eighths of ρ: 4/(2·7/4), and a twelfth of rounding
        counts = (value["count_unbiased"] - 40) / math.sqrt(4 / 3.5 + 1 / 12)
        assert not rejected(counts, 3)
        assert rejected(counts / 1.3, 3)
        assert rejected(counts / 0.7, 3)
    z = (released - truth) / value["noise_sd"]
    assert not rejected(z, 3 if kind == "mean" else 6)
    assert rejected(1.6 * z, 3 if kind == "mean" else 6)
    inside = (value["low"] <= truth + 1e-9 * units) & (truth <= value["high"] + 1e-9 * units)
    assert 0.89 < inside.mean() <= 1


def rejected(z: Any, kurtosis: float) -> bool:
    """Return whether squares of z do not average to one: five standard errors."""
    return bool(abs(np.mean(z**2) - 1) / math.sqrt((kurtosis - 1) / z.size) > 5)


# --- what is known helps, and never changes the guarantee -------------------------------------------------------------


def test_predictions_draw_groups_in_their_own_interval_and_cost_nothing() -> None:
    names, units = [f"g{n}" for n in range(30)], np.geomspace(1e-3, 1e6, 30)
    x = (units[:, None] * (5 + np.linspace(-1, 1, 300)[None, :])).ravel()
    columns = [sl.Category("g", names, other=None), sl.Number("x", lower=0)]
    table = sl.Table({"g": np.repeat(names, 300), "x": x}, schema=columns)
    base = sl.Mean("x", by="g", epsilon=4, clip="by_group")
    right, wrong = dict(zip(names, 5 * units, strict=True)), dict(zip(names, 15 * units, strict=True))
    for told in (right, sl.Predicted(right, doubt=0.05), sl.priors.Cauchy(5, 5), dict.fromkeys(names, 7.0)):
        query = replace(base, prediction=told)
        assert prepare_query(query, table.schema).claims == prepare_query(base, table.schema).claims

    def error(told: Any) -> float:
        value = seeded_release(replace(base, prediction=told), table, seed=1).value
        assert value["supported"].all()
        return float(np.sqrt(np.mean(((value["mean"] - 5 * units) / units) ** 2)))

    plain = seeded_release(base, table, seed=1).value["mean_plain"]
    nothing = float(np.sqrt(np.mean(((plain - 5 * units) / units) ** 2)))
    assert error(sl.Predicted(right, doubt=0.001)) < 0.5 * nothing
    assert error(wrong) < 1.1 * nothing  # without a stated error of the prediction, the groups determine it
    # too few rows to trust any interval: the prediction is kept, next to the measured mean
    small = seeded_release(replace(base, epsilon="0.1", prediction=right), table, seed=1).value
    assert not small["supported"].any()
    np.testing.assert_allclose(small["mean"], 5 * units)


def test_a_group_without_support_is_what_it_is_drawn_to() -> None:
    data = far_apart(3000)
    names = [*GROUPS, "nobody"]
    table = sl.Table(data, schema=[sl.Category("job", names, other=None), sl.Number("x", lower=-200, upper=1e7)])
    value = seeded_release(sl.Mean("x", by="job", epsilon=2, clip="by_group"), table, seed=1).value
    assert value["supported"].tolist() == [True] * 4 + [False]
    overall = np.sum(value["mean_plain"][:4] * value["count_unbiased"][:4]) / value["count_unbiased"][:4].sum()
    assert value["mean"][4] == pytest.approx(overall, rel=1e-6)
    told = sl.Predicted({"nobody": 123.0}, doubt=0.1)
    value = seeded_release(sl.Mean("x", by="job", epsilon=2, clip="by_group", prediction=told), table, seed=1).value
    assert value["mean"][4] == pytest.approx(123, rel=1e-6)
    far = sl.Predicted({"nobody": 3e7}, doubt=0.1)  # beyond what other groups have: as declared, no further
    value = seeded_release(sl.Mean("x", by="job", epsilon=2, clip="by_group", prediction=far), table, seed=1).value
    assert value["mean"][4] == 1e7


def test_a_measured_group_is_not_overwritten_by_its_prediction() -> None:
    """Too few rows for an interval of its own are still rows: a wrong prediction does not replace them."""
    rng = np.random.default_rng(7)
    names = ["a", "b", "c", "d"]
    x = rng.normal(33, 4, size=4 * 600)
    schema = [sl.Category("job", names, other=None), sl.Number("x")]
    table = sl.Table({"job": np.repeat(names, 600), "x": x}, schema=schema)
    base = sl.Mean("x", by="job", epsilon=1, clip="by_group", prediction=dict.fromkeys(names, 5.0))
    for seed in range(6):
        value = seeded_release(base, table, seed=seed).value
        if value["supported"].any():
            assert (np.abs(value["mean"] - 5) > 5).all()


def test_an_empty_group_takes_no_prediction_of_a_sum_away() -> None:
    """Its interval may lie anywhere, and its noise with it: it would outweigh all others."""
    rng = np.random.default_rng(2)
    names = [f"g{n}" for n in range(9)]
    x = rng.exponential(100, size=8 * 1500)
    told = sl.Predicted(
        {name: float(x[1500 * n : 1500 * (n + 1)].sum()) for n, name in enumerate(names[:8])}, doubt=0.1
    )
    schema = [sl.Category("job", names, other=None), sl.Number("x", lower=0)]
    table = sl.Table({"job": np.repeat(names[:8], 1500), "x": x}, schema=schema)
    query = sl.Sum("x", by="job", clip="by_group", epsilon=1, prediction=told)
    drawn = 0
    for seed in range(8):
        value = seeded_release(query, table, seed=seed).value
        drawn += bool((value["sum"][:8] != value["unbiased"][:8]).any())
        assert value["sum"][8] == max(value["unbiased"][8], 0)
    assert drawn >= 6


def test_sums_too_far_apart_to_compare_stay_as_they_are() -> None:
    names = ["a", "b", "c", "d"]
    far = np.repeat([-1e150, -1e150, -1e149, -1.0], 200)
    table = sl.Table(
        {"job": np.repeat(names, 200), "x": far},
        schema=[sl.Category("job", names, other=None), sl.Number("x", upper=0)],
    )
    told = sl.Predicted(dict.fromkeys(names, -1.0), doubt=0.1)
    query = sl.Sum("x", by="job", clip="by_group", epsilon=50, prediction=told)
    with np.errstate(all="raise"):
        value = seeded_release(query, table, seed=1).value
    assert np.isfinite(value["sum"]).all()


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("person", [False, True])
@pytest.mark.parametrize("x", [[], [np.nan] * 3, [np.inf, -np.inf, 1e308], [5e-324, -1e308, 0.0]])
def test_nothing_about_rows_raises(price: dict[str, Any], person: bool, x: list[float]) -> None:
    data = {"job": GROUPS[: len(x)], "x": np.array(x, float), "id": ["p"] * len(x)}
    more = [sl.PersonId("id", max_rows=2)] if person else []
    limits = {"max_groups": 2} if person else {}
    for number in (sl.Number("x"), sl.Number("x", lower=0), sl.Number("x", granularity=1)):
        table = sl.Table(data, schema=[JOB, number, *more])
        for kind in (sl.Mean, sl.Sum, sl.Variance):
            if kind is sl.Sum and person and number.granularity is None:
                continue  # totals need a step
            value = seeded_release(kind("x", by="job", clip="by_group", **price, **limits), table, seed=1).value
            assert np.isfinite(value[value.columns[0]]).all()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (lambda: sl.Mean("x", epsilon=1, clip="by_group"), "there are none"),
        (lambda: sl.Summary("x", by="job", epsilon=1, clip="by_group"), "in a summary"),
        (lambda: sl.Mean("x", by="job", epsilon=1, clip="by_groups"), "by_group"),
        (lambda: sl.Mean("x", by="clip_lower", epsilon=1, clip="by_group"), "clip_lower"),
    ],
)
def test_mistakes_are_found_before_any_charge(query: Callable[[], Any], said: str) -> None:
    schema = sl.Schema([JOB, sl.Category("clip_lower", ["u", "v"], other=None), sl.Number("x")])
    with pytest.raises((RangeError, SchemaError), match=said):
        prepare_query(query(), schema)


# --- audits -----------------------------------------------------------------------------------------------------------

RADIUS = Fraction(1, 2)


class _KnownCentre(Clipping):
    """Radii alone: the centre is given."""

    def _centre(self, ranks: Any, source: Source) -> tuple[float, float]:
        return 0.0, 1000.0


def radii_refuted(plan: Clipping, schema: sl.Schema, limits: dict[str, int], *, found: Any = None) -> bool:
    """Return whether a person with one far row in each of three groups shows in the radii more than their part says."""
    groups = groups_of(schema, by="job", **limits)
    others: dict[str, list[Any]] = {"id": [], "job": [], "x": []}
    more = {"id": ["t"] * 3, "job": ["a", "b", "c"], "x": [900.0, 900.0, 900.0]}
    known = _KnownCentre(**{each.name: getattr(plan, each.name) for each in fields(plan)})
    intervals = found or (lambda rows, source: known.each_group(rows, 0, source))

    def sampler(data: dict[str, list[Any]], seed: int) -> Callable[[int], list[int]]:
        source = Source(SeededEntropy(seed))
        table = sl.Table(data, schema=list(schema.columns))
        rows = rows_by_group(table, groups, [plan.subject.coding])
        return lambda count: [int((intervals(rows, source).upper > 850).sum()) for _ in range(count)]

    result = audit(sampler(more, 1), sampler(others, 2), draws=200)
    return bool(result.refutes(sl.PureDP(RADIUS, unit=schema.unit)))


def test_radii_of_a_person_in_three_groups_show_no_more_than_their_part() -> None:
    """Planted: the radii spend their part more than once, or are chosen by the exact largest value."""
    three = sl.Category("job", ["a", "b", "c"], other=None)
    schema = sl.Schema([sl.PersonId("id", max_rows=3), three, sl.Number("x", lower=0, upper=1000, granularity=1)])
    limits = {"max_groups": 3, "max_rows_per_group": 1}
    plan = plan_of(schema, price={"epsilon": 4}, **limits)
    assert plan.radius_epsilon == RADIUS / 3
    assert not radii_refuted(plan, schema, limits)
    # as if each group had a price of its own, and that of all three steps
    assert radii_refuted(replace(plan, radius_epsilon=Fraction(4)), schema, limits)

    def largest(rows: Any, source: Source) -> GroupIntervals:
        ends = [int(rows.codes[0][rows.places == place].max(initial=1)) for place in range(3)]
        return GroupIntervals(intervals=tuple(ClipInterval(lower=Fraction(0), upper=Fraction(end)) for end in ends))

    assert radii_refuted(plan, schema, limits, found=largest)


def test_sums_of_a_person_in_three_groups_show_no_more_than_the_price() -> None:
    """One person at the far end of three groups moves three sums; the noise of one group alone is refuted."""
    schema = sl.Schema([sl.PersonId("id", max_rows=3), JOB, sl.Number("x", lower=0, granularity=1)])
    prepared = prepare_query(sl.Sum("x", by="job", epsilon=1, max_groups=3, clip="by_group"), schema)
    assert isinstance(prepared, PreparedSum)
    plan, subject = prepared.plan, prepared.plan.clipping.subject
    value = level_value(subject.coding)
    others: dict[str, list[Any]] = {"id": ["p"], "job": ["d"], "x": [1.0]}
    more = {"id": ["p", *["t"] * 3], "job": ["d", "a", "b", "c"], "x": [1.0, 10.0, 1000.0, 1e6]}
    upper = np.array([10.0, 1000.0, 1e6, 1.0])

    def refuted(budget: Budget) -> bool:
        def sampler(data: dict[str, list[Any]], seed: int) -> Callable[[int], list[float]]:
            source, table = Source(SeededEntropy(seed)), sl.Table(data, schema=list(schema.columns))
            rows = rows_by_group(table, plan.groups, [subject.coding])
            codes = rows.clipped(0, subject.grid, value, np.zeros(4), upper)
            exact = rows.statistics([value], [codes], kind="pair").values[0]

            def draws(count: int) -> list[float]:
                often = replace(exact, value=np.repeat(np.asarray(exact.value)[:, :3], count, axis=1))
                noisy = np.asarray(budget.on(often).release(source))[0].astype(float).reshape(3, count) / LEVELS
                return list((np.abs(noisy) - np.abs(noisy - 1)).sum(axis=0).round(2).tolist())

            return draws

        return bool(audit(sampler(more, 1), sampler(others, 2), draws=4000).refutes(sl.PureDP(1, unit=schema.unit)))

    assert not refuted(plan.budget)
    assert refuted(Budget("epsilon", 3 * plan.budget.amount))  # as if a person were in one group


def test_plans_read_it() -> None:
    schema = sl.Schema([JOB, sl.Number("x")])
    prepared = prepare_query(sl.Mean("x", by="job", epsilon=1, clip="by_group"), schema)
    assert isinstance(prepared, PreparedMean)
    assert prepared.request["clip"] == "by_group"

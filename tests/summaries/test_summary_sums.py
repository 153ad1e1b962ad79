"""Sums of rows and of persons' totals."""

import math

import numpy as np
import pytest
from scipy.stats import beta, binomtest

import sidelight as sl
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import value_of
from sidelight.errors import RangeError, SchemaError
from sidelight.session import release_once
from sidelight.testing import SeededEntropy, seeded_release

PRICES = [{"epsilon": 1}, {"rho": "0.1"}, {"mu": 1}]


def seeded(query, table, seed=0):
    return release_once(query, table, entropy=SeededEntropy(seed))


def grouped(values, count, **number):
    names = [f"g{place}" for place in range(count)]
    return sl.Table(
        {"x": np.tile(values, count), "g": np.repeat(names, len(values))},
        schema=[sl.Number("x", **number), sl.Category("g", names, other=None)],
    )


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("bounds", [(0, 100), (-100, 0), (-50, 100), (10, 100), (99_900, 100_000)])
def test_a_sum_has_the_noise_of_its_farther_end(price, bounds):
    low, high = bounds
    values = np.linspace(low, high, 21)
    value = seeded(sl.Sum("x", by="g", **price), grouped(values, 1000, lower=low, upper=high)).value
    z = (value["unbiased"] - values.sum()) / value["noise_sd"]
    assert np.mean(z**2) == pytest.approx(1, abs=0.35)
    inside = int(((value["low"] <= values.sum()) & (values.sum() <= value["high"])).sum())
    assert binomtest(inside, 1000, 0.95).pvalue > 1e-6
    if "epsilon" in price:
        assert value["noise_sd"][0] == pytest.approx(math.sqrt(2) * max(abs(low), abs(high)), rel=1e-6)
    assert ("count" in value) == (0 in bounds)


def test_a_whole_sum_moves_by_at_most_its_farthest_value():
    """Rows far from 0 on a fine grid, floored to at most 2**30 units each."""
    schema = sl.Schema([sl.Number("x", lower=10**6, upper=10**6 + 1)])
    value, groups = value_of(schema, "x"), groups_of(schema)
    assert value.coarseness > 1
    assert value.farthest <= 2**30
    rng = np.random.default_rng(4)
    rows = list(10**6 + rng.random(40))

    def found(part):
        return group_statistics(sl.Table({"x": part}, schema=schema), groups, [value], kind="whole").values[0]

    assert float(found(rows).value * value.whole_step) == pytest.approx(sum(rows), rel=1e-8)
    for place in range(40):
        rest = rows[:place] + rows[place + 1 :]
        assert abs(int(found(rows).value) - int(found(rest).value)) <= found(rows).sensitivity


@pytest.fixture(scope="module")
def shoppers():
    """Two thousand people with five rows each of 10 to 20: totals of 50 to 100."""
    people, rows = 2000, 5
    spend = np.repeat(np.linspace(10, 20, people).round(2), rows)
    who = np.repeat([f"p{place}" for place in range(people)], rows).astype(str)
    return {"spend": spend, "who": who}, float(spend.sum())


def table_of(data, *, max_rows=5, **number):
    return sl.Table(data, schema=[sl.Number("spend", **number), sl.PersonId("who", max_rows=max_rows)])


@pytest.mark.parametrize("price", PRICES)
def test_totals_of_persons(shoppers, price):
    data, truth = shoppers
    for number in ({"granularity": "0.01"}, {"lower": 0, "upper": 1000}, {"granularity": "0.01", "lower": 0}):
        value = seeded(sl.Sum("spend", **price), table_of(data, **number)).value
        assert value.sum == pytest.approx(truth, rel=0.03)
        assert 90 < value.notes["clip_upper"] < 1000
    by_rows = seeded(sl.Sum("spend", max_rows_per_group=40, **price), table_of(data, lower=0, upper=1000)).value
    assert by_rows.noise_sd > 10 * value.noise_sd
    public = seeded(sl.Sum("spend", clip=(0, 100), **price), table_of(data, granularity="0.01")).value
    assert public.sum == pytest.approx(truth, rel=0.03)
    assert public.notes["clip_upper"] == 100
    assert public.count == pytest.approx(2000, abs=40)


def test_one_row_a_person_uses_its_declared_bounds(shoppers):
    data, _ = shoppers
    one = table_of(data, max_rows=1, lower=0, upper=50)
    prepared = sl.Sum("spend", epsilon=1).prepare(one.schema)
    assert prepared.plan.clipping.parts == ()
    assert sl.Sum("spend", epsilon=1).prepare(table_of(data, lower=0, upper=50).schema).plan.clipping.parts != ()


def test_persons_in_several_groups_pay_for_each(shoppers):
    data, _ = shoppers
    data = {**data, "shop": np.tile(list("abcde"), 2000)}
    schema = [
        sl.Number("spend", lower=0, upper=50),
        sl.PersonId("who", max_rows=5),
        sl.Category("shop", list("abcde"), other=None),
    ]
    table = sl.Table(data, schema=schema)
    one, three = (
        seeded(sl.Sum("spend", by="shop", max_groups=limit, clip=(0, 50), epsilon=1), table).value for limit in (1, 3)
    )
    assert three["noise_sd"][0] == pytest.approx(3 * one["noise_sd"][0], rel=1e-6)
    assert three["count"].sum() == pytest.approx(3 * one["count"].sum(), rel=0.1)
    with pytest.raises(SchemaError, match="max_groups"):
        sl.Sum("spend", by="shop", clip=(0, 50), epsilon=1).prepare(table.schema)


def test_sums_are_drawn_to_a_prediction_and_never_much_worse():
    table = grouped(np.full(4, 5.0), 300, lower=0, upper=10)
    raw = seeded(sl.Sum("x", by="g", epsilon="0.1"), table).value
    right = dict.fromkeys([f"g{place}" for place in range(300)], 20.0)
    good = seeded(sl.Sum("x", by="g", epsilon="0.1", prediction=right), table).value
    wrong = seeded(sl.Sum("x", by="g", epsilon="0.1", prediction=dict.fromkeys(right, 5000.0)), table).value
    np.testing.assert_array_equal(raw["unbiased"], good["unbiased"])

    def error(value, name="sum"):
        return math.sqrt(np.mean((value[name] - 20.0) ** 2))

    assert error(good) < 0.3 * error(raw, "unbiased")
    assert error(wrong) < 1.01 * error(raw, "unbiased")


def test_groups_whose_prediction_was_noise_are_not_drawn_to_it():
    names, noisy = [f"g{place}" for place in range(200)], np.arange(200) < 100
    table = grouped(np.linspace(0, 100, 11), 200, lower=0, upper=100)
    frame = {"g": names, "sum": np.where(noisy, 20_000.0, 550.0), "noise_sd": np.where(noisy, 1e7, 1.0)}
    value = seeded(sl.Sum("x", by="g", epsilon="0.1", prediction=frame), table).value
    moved = np.abs(value["sum"] - np.maximum(value["unbiased"], 0))
    assert moved[noisy].max() < 1 < 100 < moved[~noisy].mean()


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("rows", [[], [math.nan], [math.inf, -math.inf], [1e308] * 9, [-4.0]])
@pytest.mark.parametrize("number", [{}, {"lower": 0}, {"upper": 0}, {"granularity": 1}, {"lower": -1, "upper": 5}])
@pytest.mark.parametrize("persons", [False, True])
def test_nothing_about_rows_raises(price, rows, number, persons):
    if persons and "granularity" not in number and len(number) < 2:
        number = {**number, "granularity": "0.5"}
    data = {"x": np.array(rows, float), "who": np.array(["p"] * len(rows), str)}
    person = [sl.PersonId("who", max_rows=3)] if persons else []
    value = seeded(sl.Sum("x", **price), sl.Table(data, schema=[sl.Number("x", **number), *person])).value
    for name in value.columns:
        assert np.isfinite(value[name]).all(), name


def test_an_attack_on_totals_refutes_a_claim_by_rows_and_not_ours():
    """One person with 5 rows of 10: by totals clipped at 10 the sum moves by 10, by rows by 50."""
    runs = 3000
    names = [f"g{place}" for place in range(runs)]
    found = {}
    for rows in (0, 5):
        data = {
            "x": [10.0] * (rows * runs) + [0.0],
            "g": [*np.repeat(names, rows).tolist(), names[0]],
            "who": [*np.repeat([f"p{place}" for place in range(runs)], rows).tolist(), "other"],
        }
        table = sl.Table(
            data,
            schema=[
                sl.Number("x", lower=0, upper=10),
                sl.Category("g", names, other=None, per_person=1),
                sl.PersonId("who", max_rows=5),
            ],
        )
        found[rows] = seeded(sl.Sum("x", by="g", clip=(0, 10), epsilon=1), table, rows).value["unbiased"]

    def exceeded(more, less):
        low = beta.ppf(5e-8, max(more, 1), runs - more + 1)
        return math.log(low / beta.ppf(1 - 5e-8, less + 1, runs - less))

    assert exceeded(int((found[5] > 9.5).sum()), int((found[0] > 9.5).sum())) <= 1
    assert np.mean(found[5]) == pytest.approx(10, abs=2)
    bug = found[0] + 50  # rows added up without clipping the total
    assert exceeded(int((bug > 30).sum()), int((found[0] > 30).sum())) > 1


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        (lambda: sl.Sum("x", epsilon=1, per="row"), TypeError, "max_rows_per_group"),
        (lambda: sl.Sum("x", epsilon=1, max_rows_per_group=1), SchemaError, "PersonId"),
        (lambda: sl.Sum("x", epsilon=1, clip=(2, 2)), RangeError, "lower < upper"),
        (lambda: sl.Sum(None, epsilon=1), SchemaError, "name of a column"),
        (lambda: sl.Sum("z", epsilon=1), SchemaError, "z"),
    ],
)
def test_mistakes_are_found_before_any_charge(query, error, words):
    with pytest.raises(error, match=words):
        query().prepare(sl.Schema([sl.Number("x")]))


def test_totals_need_a_unit():
    schema = sl.Schema([sl.Number("x"), sl.PersonId("who", max_rows=3)])
    with pytest.raises(SchemaError, match="step"):
        sl.Sum("x", epsilon=1).prepare(schema)
    schema = sl.Schema([sl.Number("x", granularity="0.01"), sl.PersonId("who", max_rows=3)])
    assert sl.Sum("x", epsilon=1).prepare(schema).claims.pure().epsilon == 1


@pytest.mark.parametrize("price", [{"epsilon": 1}, {"rho": "0.1"}, {"mu": "0.5"}, {"epsilon": 1, "delta": "1e-6"}])
@pytest.mark.parametrize(("lower", "upper"), [(0, 50), (-20, 50), (10, 20)])
def test_the_error_of_sums_within_public_bounds_is_known_before_and_holds(price, lower, upper) -> None:
    """300 groups: at 95 % all of them are within it at once, and half of it would be too little."""
    labels = [f"g{n}" for n in range(300)]
    schema = [sl.Category("g", labels, other=None), sl.Number("x", lower=lower, upper=upper)]
    truth = 40 * 15.0
    table = sl.Table({"g": labels * 40, "x": [15.0] * 12_000}, schema=schema)
    outcome = seeded_release(sl.Sum("x", by="g", **price), table, seed=3)
    assert outcome.error is not None
    assert outcome.error.unit == "units of x"
    off = np.abs(outcome.value["unbiased"] - truth).max()
    bound = outcome.error.at(0.95)[0]
    assert bound / 2.5 < off < bound
    private = sl.Sum("x", by="g", clip="private", **price)
    assert private.prepare(sl.Schema(schema)).error is None  # where it clips is not known before

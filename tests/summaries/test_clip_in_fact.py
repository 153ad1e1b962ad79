"""The interval that a table names is the one that values were clipped to, also where it was found or rounded."""

import numpy as np
import pytest

import sidelight as sl
from sidelight.testing import seeded_release

ROWS, FAR = 40_000, 47
#: So that no seeded release misses by chance.
SURE = 1 - 1e-9
STEP = 1000

TRUTHS = {
    "mean": np.mean,
    "sum": np.sum,
    "variance": lambda x: x.var(ddof=1),
    "sd": lambda x: x.std(ddof=1),
}
ASKED = {
    "mean": lambda **more: sl.Mean("x", **more),
    "sum": lambda **more: sl.Sum("x", **more),
    "variance": lambda **more: sl.Variance("x", **more),
    "sd": lambda **more: sl.StandardDeviation("x", **more),
}
#: Declarations, and what few rows are where nearly all are 0 (or at the upper bound).
COLUMNS = {
    "from 0": (sl.Number("x", lower=0, granularity=STEP), 0, [200, 7]),
    "both sides": (sl.Number("x", granularity=STEP), 0, [-200, 150]),
    "below": (sl.Number("x", upper=0, granularity=STEP), 0, [-200, -9]),
    "at the upper bound": (sl.Number("x", lower=0, upper=100 * STEP, granularity=STEP), 100, [3, 40]),
    "bounds off the steps": (sl.Number("x", lower=0, upper=100.6 * STEP, granularity=STEP), 0, [100, 40]),
}


def nearly_equal(column, usual, far):
    x = np.full(ROWS, float(usual * STEP))
    x[:FAR] = np.resize(np.asarray(far, float) * STEP, FAR)
    return x, sl.Table({"x": x, "g": ["a"] * ROWS}, schema=[column, sl.Category("g", ["a"], other=None)])


def clipped(x, value, column=""):
    ends = {**value.notes, **{name: float(value[name][0]) for name in value.columns if "clip_" in name}}
    return np.clip(x, ends[f"{column}clip_lower"], ends[f"{column}clip_upper"])


def holds(value, truth, name=""):
    slack = 1e-9 * abs(truth) + 1e-6
    return value[f"{name}low"][0] - slack <= truth <= value[f"{name}high"][0] + slack


@pytest.mark.parametrize("clip", ["private", "by_group"])
@pytest.mark.parametrize("number", TRUTHS)
@pytest.mark.parametrize("kind", COLUMNS)
def test_intervals_are_of_values_clipped_where_the_table_says(kind, number, clip):
    """A radius of 0 is drawn in most of these releases; values are clipped to one step then."""
    column = COLUMNS[kind][0]
    x, table = nearly_equal(*COLUMNS[kind])
    groups = {"by": "g", "clip": clip} if clip == "by_group" else {"clip": clip}
    narrow = 0
    for seed in range(4):
        value = seeded_release(ASKED[number](epsilon=1, confidence=SURE, **groups), table, seed=seed).value
        assert holds(value, TRUTHS[number](clipped(x, value))), seed
        narrow += "clipped" in value.notes
        assert ("clipped: " in str(value)) == ("clipped" in value.notes)
        if number == "mean" and clip == "private":
            shown = value["mean"][0]
            assert column.lower is None or shown >= column.lower
            assert column.upper is None or shown <= column.upper
    assert narrow or (number, kind) == ("sum", "at the upper bound")  # the interval of a sum reaches from 0


def test_summaries_several_means_and_sql_name_the_interval_that_was_used():
    x, table = nearly_equal(*COLUMNS["from 0"])
    narrow = 0
    for seed in range(4):
        summary = seeded_release(sl.Summary("x", epsilon=1, confidence=SURE), table, seed=seed).value
        assert holds(summary, clipped(x, summary).mean())
        several = seeded_release(sl.Mean(["x"], epsilon=1, confidence=SURE), table, seed=seed).value
        assert holds(several, clipped(x, several, "x_").mean(), "mean_x_")
        asked = sl.SQL("SELECT AVG(x) AS m FROM t", epsilon=1, confidence=SURE)
        sql = seeded_release(asked, table, seed=seed).value
        assert holds(sql, clipped(x, sql).mean(), "m_")
        narrow += sum("clipped: " in str(each) for each in (summary, several, sql))
    assert narrow


@pytest.mark.parametrize("many", [False, True])
def test_totals_of_persons_name_the_interval_that_was_used(many):
    """Also those that are cut together over groups: `person_total` is at least a step."""
    x, _ = nearly_equal(*COLUMNS["from 0"])
    schema = [COLUMNS["from 0"][0], sl.PersonId("who", max_rows=2), sl.Category("g", ["a", "b"], other=None)]
    table = sl.Table({"x": x, "who": np.arange(ROWS), "g": ["a"] * ROWS}, schema=schema)
    query = sl.Sum("x", epsilon=1, confidence=SURE, clip="private", **({"by": "g"} if many else {}))
    narrow = 0
    for seed in range(4):
        value = seeded_release(query, table, seed=seed).value
        upper = value.notes["person_total" if many else "clip_upper"]
        assert holds(value, np.clip(x, 0, upper).sum()), seed
        assert upper >= STEP
        narrow += "clipped" in value.notes
    assert narrow


@pytest.mark.parametrize("ends", [(0, 0.4), (0.6, 2.4), (-1.6, 1.2), (2.4, 2.45)])
@pytest.mark.parametrize("number", TRUTHS)
def test_public_ends_between_two_steps_are_named_as_they_were_used(number, ends):
    x = np.resize(np.arange(-3.0, 6.0), 3000)
    table = sl.Table({"x": x}, schema=[sl.Number("x", granularity=1)])
    release = seeded_release(ASKED[number](epsilon=1000, confidence=SURE, clip=ends), table, seed=0)
    value = release.value
    assert holds(value, TRUTHS[number](clipped(x, value)))
    assert "clipped" not in value.notes
    if number == "sum":
        assert f"values lie within {value.notes['clip_lower']:g} to {value.notes['clip_upper']:g};" in str(
            release.error
        )


def test_ends_that_codes_only_round_stay_as_they_were_declared():
    table = sl.Table({"x": [0.2] * 100}, schema=[sl.Number("x", lower=0.1, upper=0.7)])
    notes = seeded_release(sl.Mean("x", epsilon=1), table, seed=0).value.notes
    assert (notes["clip_lower"], notes["clip_upper"]) == (0.1, 0.7)

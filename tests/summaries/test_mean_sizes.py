"""Means of groups whose sizes the owner declares: less noise at the same price, whatever is declared."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.summaries.mean import PreparedMean
from sidelight.testing import seeded_release

JOBS = ("cook", "driver", "nurse")
SIZES = {"cook": 40, "driver": 200, "nurse": 1000}
SCHEMA = [sl.Category("job", JOBS, other=None), sl.Number("hours", lower=0, upper=80)]


def people(seed: int = 0) -> tuple[sl.Table, np.ndarray]:
    rng = np.random.default_rng(seed)
    jobs = np.repeat(JOBS, [SIZES[job] for job in JOBS])
    hours = np.clip(rng.normal(np.repeat([30.0, 45.0, 60.0], [SIZES[job] for job in JOBS]), 8), 0, 80)
    truth = np.array([hours[jobs == job].mean() for job in JOBS])
    return sl.Table({"job": jobs, "hours": hours}, schema=SCHEMA), truth


def test_the_noise_is_that_of_the_centred_sum_alone() -> None:
    """A mean square of 1200 Laplace numbers is off by more than 30 % in scale less than once in a million."""
    table, truth = people()
    query, squares, held = sl.Mean("hours", by="job", epsilon=1, known=sl.GroupSizes(SIZES)), [], []
    for seed in range(400):
        value = seeded_release(query, table, seed=f"sizes {seed}").value
        squares.append((np.asarray(value["mean_plain"]) - truth) ** 2)
        held.append((value["low"] <= truth + 0.01) & (truth - 0.01 <= value["high"]))
    expected = math.sqrt(2) * 40 / np.array([SIZES[job] for job in JOBS])  # b = half the width over epsilon and size
    ratios = np.sqrt(np.mean(np.array(squares) / expected**2))
    assert 0.8 < ratios < 1.2
    assert np.allclose(value["noise_sd"], expected, rtol=1e-3)
    assert 1200 * 0.95 - 5.5 * math.sqrt(1200 * 0.95 * 0.05) < np.sum(held) < 1200 * 0.95 + 5.5 * math.sqrt(57)
    assert value["count"].tolist() == value["count_low"].tolist() == value["count_high"].tolist() == [40, 200, 1000]


def test_it_is_nearer_than_with_a_count_at_the_same_price() -> None:
    table, _ = people()
    plain, sized = (
        seeded_release(sl.Mean("hours", by="job", epsilon=1, **more), table, seed=1)
        for more in ({}, {"known": sl.GroupSizes(SIZES)})
    )
    assert sized.guarantee == plain.guarantee
    assert (np.asarray(plain.value["noise_sd"]) > 1.2 * np.asarray(sized.value["noise_sd"])).all()
    assert sized.query["sizes"] == [40, 200, 1000]
    assert "sizes" not in plain.query


def test_what_is_declared_does_not_change_what_meets_the_noise() -> None:
    """The draws of a release are the same for right and wrong sizes: the same statistic, scale and price."""
    table, _ = people()
    wrong = {job: 2 * size for job, size in SIZES.items()}
    right, off = (
        seeded_release(sl.Mean("hours", by="job", epsilon=1, known=sl.GroupSizes(sizes)), table, seed=7)
        for sizes in (SIZES, wrong)
    )
    assert right.spending == off.spending
    assert np.allclose(np.asarray(right.value["mean_plain"]) - 40, 2 * (np.asarray(off.value["mean_plain"]) - 40))


def test_one_row_moves_the_statistic_by_its_sensitivity_at_most() -> None:
    prepared = sl.Mean("hours", by="job", epsilon=1, known=sl.GroupSizes(SIZES)).prepare(sl.Schema(SCHEMA))
    assert isinstance(prepared, PreparedMean)
    rows = [("cook", 0.0), ("cook", 80.0), ("nurse", 33.3), ("driver", 40.0)]

    def pairs(kept: list[tuple[str, float]]) -> tuple[np.ndarray, Fraction]:
        table = sl.Table({"job": [job for job, _ in kept], "hours": [each for _, each in kept]}, schema=SCHEMA)
        from sidelight.aggregates.values import value_of

        plan = prepared.plan
        value = value_of(plan.groups.schema, plan.of, lower=0, upper=80)
        found = plan.statistics(table, plan.known, [value], kind="pair", norm="l1").values[0]
        first, second = np.asarray(found.value).reshape(2, 3)
        return first - second, found.sensitivity

    whole, sensitivity = pairs(rows)
    moved = [np.abs(whole - pairs(rows[:place] + rows[place + 1 :])[0]).sum() for place in range(len(rows))]
    assert max(moved) == sensitivity
    assert moved[3] <= 1


def test_without_groups_and_of_a_condition() -> None:
    table, _ = people()
    alone = seeded_release(sl.Mean("hours", epsilon=1, known=sl.GroupSizes(1240)), table, seed=1).value
    assert abs(float(alone["mean"][0]) - 56.5) < 2
    share = seeded_release(
        sl.Proportion(sl.col("hours") > 50, by="job", epsilon=1, known=sl.GroupSizes(SIZES)), table, seed=1
    ).value
    assert float(share["proportion"][2]) > 0.8


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"known": sl.GroupSizes({"cook": 40})}, "for every group"),
        ({"known": sl.GroupSizes({**SIZES, "cook": 0})}, "cook is not"),
        ({"known": sl.GroupSizes({**SIZES, "cook": 1.5})}, "cook is not"),
        ({"known": sl.GroupSizes(SIZES), "epsilon": None, "rho": "0.1"}, "epsilon alone"),
        ({"known": sl.GroupSizes(SIZES), "clip": "by_group"}, "one interval for all groups"),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_read(more: dict[str, object], words: str) -> None:
    asked = {"epsilon": 1, **more}
    with pytest.raises(RangeError, match=words):
        sl.Mean("hours", by="job", **asked).prepare(sl.Schema(SCHEMA))  # type: ignore[arg-type]


def test_what_is_no_declared_number_of_rows_that_count_is_refused() -> None:
    """A release has noise and may be seeded; caps drop rows of persons, which their numbers then do not fit."""
    table, _ = people()
    counted = seeded_release(sl.Count(by="job", epsilon=1), table, seed=3)
    for sizes in (counted, counted.value, sl.Predicted(SIZES, doubt=0.1), [40, 200, 1000], "many"):
        with pytest.raises(RangeError, match="declared as a whole number"):
            sl.Mean("hours", by="job", epsilon=1, known=sl.GroupSizes(sizes)).prepare(table.schema)
    persons = sl.Schema([*SCHEMA, sl.PersonId("who", max_rows=2)])
    with pytest.raises(RangeError, match="beyond the caps"):
        sl.Mean("hours", by="job", epsilon=1, max_groups=1, known=sl.GroupSizes(SIZES)).prepare(persons)
    single = sl.Mean("hours", epsilon=1, known=sl.GroupSizes(np.int64(1240)))
    assert single.prepare(table.schema).request["sizes"] == [1240]
    assert hash(single) == hash(sl.Mean("hours", epsilon=1))

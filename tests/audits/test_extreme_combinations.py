"""Extreme public parameters in combination: released, or refused before the charge in words; limits of what fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchmarks.audit_extremes import MAKERS, TRIES, failing, outcome
from benchmarks.audit_memory import OF_SEQUENCES, PLANS, labels, numbers

import sidelight as sl
from sidelight.aggregates.counts import MOST_GROUPS
from sidelight.aggregates.moments import MOST_COLUMNS
from sidelight.errors import RangeError
from sidelight.quantiles.by_group import MOST_RELEASED
from sidelight.registry import ENTRIES
from sidelight.testing import SeededSession

EIGHT = [f"0.{place}" for place in range(1, 9)]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_few_extreme_combinations_of_each_kind(kind: str) -> None:
    for number in range(1000, 1002):
        assert outcome(kind, number) in ("released", "refused")


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("covariance", 48),  # the square of the radius overflows
        ("gaussian", 0),  # a bound of 10**400
        ("gaussian_mixture", 3),  # a share of rho 1e-12, below what its own estimate takes
        ("gaussian_mixture", 17),  # public rows that differ by less than 1e-100
        ("variance", 7),  # mu 1e300
    ],
)
def test_what_the_fuzzer_found_is_refused(kind: str, number: int) -> None:
    assert outcome(kind, number) == "refused"


@pytest.mark.parametrize("form", ["auto", "tree", "select", "cells"])
@pytest.mark.parametrize(
    "levels",
    [
        [*EIGHT, "0.99999999999999999"],
        ["1e-20", *EIGHT],
        ["0.4", "0.5", "0.99999999999999999"],
        [f"0.5000000000000000{place}" for place in range(1, 10)],
    ],
)
def test_levels_that_floats_cannot_tell_apart_are_refused(levels: list[str], form: Any) -> None:
    """They overflowed after the charge, or left an IndexError before it."""
    with pytest.raises(RangeError, match="at least 2"):
        sl.Quantiles(levels, epsilon=1, form=form)


@pytest.mark.parametrize("levels", [["1e-9", "2e-9", *EIGHT], [*EIGHT, "0.999999998", "0.999999999"], ["1e-9"]])
def test_levels_at_the_limit_are_released(levels: list[str]) -> None:
    session = SeededSession(sl.Table({"a": [1.0, 2.0]}, schema=[sl.Number("a")]), budget=sl.PureDP(10), seed=1)
    for form in ("auto", "tree", "cells"):
        session.release(sl.Quantiles(levels, epsilon=1, column="a", form=form))


def test_groups_at_the_smallest_price_are_released() -> None:
    """Noise beyond 64 bits failed 15 of 20 times, after the charge."""
    schema = [sl.Number("a"), sl.Category("c", ["x", "y"], other=None)]
    for seed in range(10):
        session = SeededSession(sl.Table({"a": [], "c": []}, schema=schema), budget=sl.PureDP(1), seed=seed)
        session.release(sl.Quantiles([0.5], by="c", column="a", epsilon="1e-17"))


LIMITS: dict[str, Callable[[], Any]] = {
    "groups": lambda: sl.Count(by="c", epsilon=1).prepare(sl.Schema([labels(MOST_GROUPS + 1)])),
    "columns": lambda: sl.Covariance(radius=1, rho=1).prepare(sl.Schema(numbers(MOST_COLUMNS + 1))),
    "groups of levels": lambda: sl.Quantiles(sl.quantiles.even_levels(99), column="x0", by="c", epsilon=1).prepare(
        sl.Schema([*numbers(1), labels(MOST_RELEASED // 99 + 1)])
    ),
    "groups of codes": lambda: sl.Quantiles([0.5], column="x0", by="c", epsilon=1, form="codes").prepare(
        sl.Schema([*numbers(1, lower=0, upper=60_000, granularity=1), labels(5)])
    ),
    "summaries": lambda: sl.Summary("x0", by="c", epsilon=1).prepare(sl.Schema([*numbers(1), labels(2**14 + 1)])),
    "selected levels": lambda: sl.Quantiles(sl.quantiles.even_levels(1001), epsilon=1, form="select"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_what_would_not_fit_after_the_charge_is_refused_before_it(name: str) -> None:
    with pytest.raises(RangeError, match=r"at most|up to|must not exceed"):
        LIMITS[name]()


def test_every_query_has_a_largest_plan() -> None:
    assert {*PLANS, *OF_SEQUENCES} == {entry.kind for entry in ENTRIES}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_extreme_combination_fails(record_property: Any) -> None:
    found = list(failing())
    failed = [text for *_, text in found if text not in ("released", "refused")]
    record_property(
        "audit",
        f"extreme public parameters: {TRIES} combinations of each of {len(MAKERS)} queries on empty and tiny tables; "
        f"{sum(text == 'released' for *_, text in found)} released, {len(failed)} failed after the charge or with an "
        "error of Python",
    )
    assert not failed, "\n".join(failed)

"""Error bounds of the forms: coverage, also for points in gaps, and without assumptions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

import sidelight as sl
from sidelight.grid import FloatGrid
from sidelight.mechanisms.budget import Budget
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.forms import cells_bound as cells_bound_module
from sidelight.quantiles.forms.cells import CellsRelease
from sidelight.quantiles.forms.cells_bound import _crowded, _Ends, cells_bound
from sidelight.quantiles.forms.codes import CodesPlan, CountedRounds, codes_bound
from sidelight.quantiles.forms.count_noise import equal_shares, least_total
from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round, agreed_counts, ranks_of
from sidelight.quantiles.tree import even_levels
from sidelight.testing import seeded_release

Draw = Callable[[np.random.Generator], np.ndarray]
KINDS: dict[str, tuple[Draw, dict[str, object]]] = {
    "normal": (lambda rng: rng.standard_normal(6000), {}),
    "lognormal": (lambda rng: rng.lognormal(10, 1, 6000), {"bounds": (0, 1e9)}),
    "two modes": (lambda rng: np.where(rng.random(6000) < 0.5, -5.0, 5.0) + rng.standard_normal(6000), {}),
    "pareto": (lambda rng: 1 + rng.pareto(1.1, 6000), {}),
    "ages": (lambda rng: np.rint(rng.gamma(6, 6.4, 6000)), {"granularity": 1, "bounds": (0, 120)}),
}


def coverage(count: int, trials: int) -> tuple[float, float]:
    """Return the share of releases whose every level keeps its likely error at 95 %, and the median of it over gap."""
    covered, ratios = [], []
    for place, (draw, declared) in enumerate(KINDS.values()):
        rng = np.random.default_rng([count, place])
        query = sl.Quantiles(even_levels(count), epsilon=1, **declared)  # type: ignore[arg-type]
        for trial in range(trials):
            values = draw(rng)
            release = seeded_release(query, values, seed=f"coverage {count}, {place}, {trial}")
            gaps = nonprivate_gap(values, even_levels(count), release.value)
            counted = release.error is not None and release.error.likely is None  # codes: one bound
            bounds = release.error_bound(0.95, assuming=None if counted else "spread")
            covered.append(bool((gaps <= bounds + 1e-9).all()))
            ratios.append(bounds.max() / max(gaps.max(), 1.0))
    return float(np.mean(covered)), float(np.median(ratios))


@pytest.mark.parametrize("count", [9, 49])
def test_error_bounds_cover(count: int) -> None:
    """In 25 releases of five kinds; 95 % would fail this with probability below 1e-6 (more than nine of 25 misses)."""
    covered, ratio = coverage(count, trials=5)
    assert covered >= 0.64
    assert ratio < 6


@pytest.mark.slow
@pytest.mark.parametrize("count", [9, 49, 199, 999])
def test_error_bounds_cover_nearly_always(count: int) -> None:
    """In 200 releases: at least the nominal share less two percent, and four standard errors."""
    covered, ratio = coverage(count, trials=40)
    assert covered >= 0.93 - 4 * (0.95 * 0.05 / 200) ** 0.5
    assert ratio <= 4.5


#: Laws with gaps and edges, in which points are selected away from the records; with their sizes and epsilons.
HARD: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], int, str]] = {
    "a fifth beyond a gap, weak": (
        lambda rng, rows: rng.exponential(size=rows) - 50 * (rng.random(rows) < 0.2),
        3000,
        "0.3",
    ),
    "a fifth beyond a gap": (lambda rng, rows: rng.exponential(size=rows) - 50 * (rng.random(rows) < 0.2), 10_000, "1"),
    "three modes": (lambda rng, rows: rng.choice([-20.0, 0.0, 20.0], rows) + rng.standard_normal(rows), 3000, "0.3"),
    "U-shaped": (lambda rng, rows: rng.beta(0.5, 0.5, rows), 10_000, "1"),
    "U-shaped, weak": (lambda rng, rows: rng.beta(0.5, 0.5, rows), 10_000, "0.1"),
    "uniform": (lambda rng, rows: rng.random(rows), 10_000, "0.1"),
}
#: The same with enough records that whole cells next to a gap are finished by few points.
MANY_RECORDS: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], int, str]] = {
    f"{name}, many records": (HARD[name][0], 100_000, "0.1")
    for name in ("three modes", "a fifth beyond a gap", "U-shaped")
}


def misses(name: str, trials: int, *, assuming: Literal["nothing", "spread"] = "spread") -> int:
    """Return in how many seeded releases of 99 levels some level is off by more than its likely error at 95 %."""
    draw, rows, epsilon = {**HARD, **MANY_RECORDS}[name]
    found, levels = 0, even_levels(99)
    for trial in range(trials):
        values = draw(np.random.default_rng([rows, trial]), rows)
        release = seeded_release(sl.Quantiles(levels, epsilon=epsilon), values, seed=f"{name}, {trial}")
        spread = assuming == "spread" and release.error is not None and release.error.likely is not None
        bound = release.error_bound(0.95, assuming="spread" if spread else "nothing")
        found += bool((nonprivate_gap(values, levels, release.value) > bound + 1e-9).any())
    return found


def test_bounds_follow_released_counts_where_points_lie_beside_the_records() -> None:
    """In 48 seeded releases. Bounds by planned parts miss 22 times, and in every release of the first law."""
    found = {name: misses(name, 8) for name in HARD}
    assert sum(found.values()) <= 6, found
    assert max(found.values()) <= 3, found


def test_bounds_of_parts_follow_the_cells_beside_them_and_where_in_a_part_a_level_is() -> None:
    """18 seeded releases of 100,000 records, with points selected in gaps between records."""
    found = {name: misses(name, 6) for name in MANY_RECORDS}
    assert sum(found.values()) <= 4, found


def test_what_assumes_nothing_covers_whatever_the_records_do() -> None:
    """Nearly always, for it is a bound for all laws at once; that of "as interpolated" is smaller."""
    assert sum(misses(name, 5, assuming="nothing") for name in HARD) == 0


#: Laws that the curve fits, at budgets at which noise outweighs chance: counts are drawn far.
SMOOTH: dict[str, tuple[Callable[[np.random.Generator, int], np.ndarray], int, str]] = {
    "logistic": (lambda rng, rows: rng.logistic(size=rows), 10_000, "0.1"),
    "Gumbel": (lambda rng, rows: rng.gumbel(size=rows), 10_000, "0.1"),
    "gamma": (lambda rng, rows: rng.gamma(3, size=rows), 3000, "0.3"),
    "Student": (lambda rng, rows: rng.standard_t(4, rows), 3000, "0.3"),
}


def test_bounds_cover_where_counts_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds are those of the noise of counts that are not drawn, around ranks that are: measured in 32 releases."""
    drawn, missed, of_a_third = [], 0, 0
    for name in SMOOTH:
        for seed in range(8):
            values, release = released_by(monkeypatch, SMOOTH[name], seed)
            undrawn = ranks_of(agreed_counts(release.rounds)[-1])
            drawn.append(np.abs(undrawn - release.ranks).max() / np.sqrt(release.rounds[-1].variances.min()))
            found = np.array([FloatGrid().value(index) for index in release.indices])
            gaps, bound = nonprivate_gap(values, release.levels, found), cells_bound(release).likely
            assert bound is not None
            at_95 = np.array(bound.fixed) + np.log(20) * np.array(bound.per_log)
            missed += bool((gaps > at_95 + 1e-9).any())
            of_a_third += bool((gaps > at_95 / 3).any())
    assert np.median(drawn) > 0.5, "ranks are drawn by deviations of a count"
    assert missed <= 4
    assert of_a_third >= 8, "bounds of a third do not cover: the test can fail"


def caught(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> CellsRelease:
    """Return what `cells` released of a hard law."""
    return released_by(monkeypatch, HARD[name], seed)[1]


def released_by(
    monkeypatch: pytest.MonkeyPatch,
    law: tuple[Callable[[np.random.Generator, int], np.ndarray], int, str],
    seed: int,
) -> tuple[np.ndarray, CellsRelease]:
    """Return records of a law, and what `cells` released of them."""
    draw, rows, epsilon = law
    values = draw(np.random.default_rng(seed), rows)
    found: list[CellsRelease] = []

    def catch(release: CellsRelease) -> object:
        found.append(release)
        return cells_bound(release)

    with monkeypatch.context() as patched:
        patched.setattr(cells_bound_module, "cells_bound", catch)
        query = sl.Quantiles(even_levels(99), epsilon=epsilon)
        assert seeded_release(query, values, seed=seed).error is not None  # computed when it is asked for
    return values, found[0]


def test_the_noise_of_a_part_is_that_of_the_counts_that_its_rank_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients against differences: a rank in a finished cell, when one of the cell's counts is larger by one."""
    release = caught(monkeypatch, "three modes", 3)
    levels = np.arange(1, 100) / 100
    ends, every = _Ends.of(release, levels), np.arange(99)
    assert any(len(own.rounds) == 2 for own in release.parts.values()), "a part that was looked into twice"
    for side in (0, 1):
        local = iter(ends.noise(release, levels, np.full(99, float(side)), every)[len(release.rounds) :])
        for place, own in release.parts.items():
            for at, each in enumerate(own.rounds):
                matrix = next(local)
                for part in np.flatnonzero(each.variances < UNCOUNTED).tolist():
                    more = Round(each.counts + (np.arange(each.counts.size) == part), each.variances, each.parents)
                    changed = replace(own, rounds=(*own.rounds[:at], more, *own.rounds[at + 1 :]))
                    moved = _Ends.of(replace(release, parts={**release.parts, place: changed}), levels)
                    expected = (moved.raw[side] - ends.raw[side]) * math.sqrt(each.variances[part])
                    assert matrix[:, part] == pytest.approx(expected, abs=1e-6)
        assert next(local, None) is None


def test_the_bound_that_assumes_nothing_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    release = caught(monkeypatch, "uniform", 1)
    free = cells_bound(release)
    assumed = free.likely
    assert assumed is not None
    assert max(free.fixed) > max(assumed.fixed)
    assert "nothing is assumed about the data" in free.assumption
    assert "unless released counts contradict it" in assumed.assumption
    assert "as likely to lie at one place of what the counts allow as at another" in assumed.assumption


def test_a_cell_beyond_the_first_breakpoints_with_most_of_what_lies_there_is_not_smooth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = caught(monkeypatch, "uniform", 1)
    cells = release.ranks.size - 1
    sizes = np.full(cells, 50.0)
    outside = np.arange(cells) < 4
    sizes[:4] = 10, 300, 20, 20
    crowded = replace(release, ranks=np.concatenate([[0.0], np.cumsum(sizes)]), outside=outside)
    assert np.flatnonzero(_crowded(crowded, np.zeros(cells))).tolist() == [0, 1, cells - 1]


def test_shares_of_the_failure_probability_add_up_to_one() -> None:
    for selected in ([True, True], [False] * 7, [True, False, False, False]):
        assert (1 / equal_shares(np.array(selected))).sum() == pytest.approx(1)


def test_ranks_that_are_to_be_near_in_both_directions_pay_for_both() -> None:
    """The bound to both sides at 95 % is that to one side at 97.5 %, where a level lies at the end of its code."""
    plan = CodesPlan(codes=4, budget=Budget("epsilon", Fraction(1)))
    counted = CountedRounds((np.array([100, 100, 100, 100]),), (2.0,), np.zeros(0, np.intp))
    one, both = (codes_bound(plan, counted, [0.25, 0.5, 0.75], both_sides=each) for each in (False, True))
    at_both = np.array(both.fixed) + np.log(20) * np.array(both.per_log)
    for failures, least in ((20, 1.05), (40, 0.98)):
        assert (at_both > least * (np.array(one.fixed) + np.log(failures) * np.array(one.per_log))).all()


def test_the_least_total_is_two_deviations_below() -> None:
    rounds = [Round.of([40.0, 60.0], 2.0), Round.of([20.0, 20.0, 60.0], 2.0, [0, 0, 1])]
    own = (
        1 / (1 / 2 + 1 / 4),
        1 / (1 / 2 + 1 / 2),
    )  # two counts of each of the two sums, of variances 2 and 4, 2 and 2
    assert least_total(rounds, 100.0) == pytest.approx(100 - 2 * sum(own) ** 0.5)
    assert least_total(rounds, 3.0) == 1.0

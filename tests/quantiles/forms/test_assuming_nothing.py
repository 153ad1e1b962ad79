"""Bounds that assume nothing about the data: they hold when every record lies at the worse end of its cell."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.grid import FloatGrid
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.forms import cells_bound as cells_bound_module
from sidelight.quantiles.forms.cells import CellsRelease
from sidelight.quantiles.forms.cells_bound import _Ends, cells_bound
from sidelight.quantiles.forms.count_noise import CALIBRATED, counted_bound
from sidelight.quantiles.tree import even_levels
from sidelight.readable import at_most
from sidelight.release import NO_ASSUMPTION, Release, TailBound
from sidelight.testing import seeded_release

Law = Callable[[np.random.Generator, int], np.ndarray]
LAWS: dict[str, tuple[Law, int, dict[str, object]]] = {
    "normal": (lambda rng, rows: rng.standard_normal(rows), 10_000, {"epsilon": 1}),
    "three modes": (
        lambda rng, rows: rng.choice([-20.0, 0.0, 20.0], rows) + rng.standard_normal(rows),
        3000,
        {"epsilon": "0.3"},
    ),
    "clusters": (lambda rng, rows: rng.integers(0, 25, rows) + 0.35 * rng.random(rows), 10_000, {"epsilon": "0.3"}),
    "a gap": (
        lambda rng, rows: rng.exponential(size=rows) - 50 * (rng.random(rows) < 0.2),
        10_000,
        {"epsilon": 1},
    ),
    "normal, in rho": (lambda rng, rows: rng.standard_normal(rows), 30_000, {"rho": "0.05", "form": "cells"}),
}


def worst_gaps(values: np.ndarray, release: CellsRelease) -> np.ndarray:
    """Return how far off each released value would be with as many records in each cell, all at its worse end."""
    levels = np.array([float(level) for level in release.levels])
    ends, ordered, grid = _Ends.of(release, levels), np.sort(values), FloatGrid()
    found = []
    for place, level in enumerate(levels):
        cell, part = int(ends.cell[place]), int(ends.part[place])
        low, high = [None, *release.points][cell], [*release.points, None][cell]
        if part >= 0:
            inner = release.parts[cell].points
            low, high = [low, *inner][part], [*inner, high][part]
        before = 0 if low is None else np.searchsorted(ordered, grid.value(low))
        until = values.size if high is None else np.searchsorted(ordered, grid.value(high))
        found.append(max(level * values.size - before, until - level * values.size))
    return np.array(found)


def test_bounds_hold_when_all_records_lie_at_the_worse_end_of_their_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coverage of 95 % bounds over 40 seeded releases: at most eleven misses.

    Bounds with the stated coverage fail this with probability below 1e-6. Bounds reduced by a tenth are exceeded in 12
    or more releases, so the bounds are not much too wide.
    """
    caught: list[CellsRelease] = []

    def catch(release: CellsRelease) -> TailBound:
        caught.append(release)
        return cells_bound(release)

    monkeypatch.setattr(cells_bound_module, "cells_bound", catch)
    missed, of_less, stated = 0, 0, 0
    for name, (law, rows, price) in LAWS.items():
        for seed in range(8):
            values = law(np.random.default_rng([rows, seed]), rows)
            query = sl.Quantiles(even_levels(99), **price)  # type: ignore[arg-type]
            release = seeded_release(query, values, seed=f"{name}, {seed}")
            bound = release.error_bound(0.95, assuming="nothing")  # computed now, and caught
            worst = worst_gaps(values, caught.pop())
            missed += bool((worst > bound + 1e-9).any())
            of_less += bool((worst > 0.9 * bound).any())
            assert release.error is not None
            likely = release.error.likely  # None where released counts contradict it
            stated += likely is None or bool((worst > likely.at(0.95)).any())
    assert missed <= 11
    assert of_less >= 12
    assert stated >= 30, "what assumes that records lie as interpolated does not hold for them"


@pytest.mark.parametrize(("cells", "confidence"), [(10, 0.9), (10, 0.99), (9, 0.9), (9, 0.99)])
def test_the_bound_of_counted_cells_is_little_more_than_their_noise(cells: int, confidence: float) -> None:
    """Bounds for a median in the fifth cell; noise 30 % off fails."""
    counts, places = np.full(cells, 1000), np.arange(cells)
    bound = counted_bound(counts, 2 * 20.0**2, np.array([4]), [Fraction(1, 2)], gaussian=False).at(confidence)[0]
    noisy = counts + np.random.default_rng(cells).laplace(scale=20, size=(100_000, cells))
    total = noisy.sum(axis=1)
    off = np.maximum(total / 2 - noisy[:, places < 4].sum(axis=1), noisy[:, places <= 4].sum(axis=1) - total / 2)
    nearest = max(500 * cells - 4000, 5000 - 500 * cells)
    assert 1.0 < (bound - nearest) / (np.quantile(off, confidence) - nearest) < 1.3


def test_only_levels_that_counts_contradict_have_a_far_larger_likely_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The curve is least sure in the tails, where nothing contradicts it if the rows are normal."""
    caught: list[CellsRelease] = []
    monkeypatch.setattr(cells_bound_module, "cells_bound", lambda found: caught.append(found) or cells_bound(found))
    levels = even_levels(49)
    factors = []
    for name, gap in (("normal", 0.0), ("with a gap", 30.0)):
        values = np.random.default_rng(5).standard_normal(100_000)
        values += np.where(values > 0.5, gap, 0.0)
        assert seeded_release(sl.Quantiles(levels, epsilon="0.1"), values, seed=name).error is not None
        release = caught.pop()
        bound, ends = cells_bound(release), _Ends.of(release, np.array([float(each) for each in levels]))
        curve = cells_bound_module._bound(release, "as interpolated", ends)
        assert bound.likely is not None
        nearer = np.asarray(bound.likely.fixed) != np.asarray(bound.fixed)
        ratio = np.asarray(bound.likely.fixed) / np.asarray(curve.fixed)
        wanted = np.where(ends.contradicted & ~ends.unknown, 3.0, CALIBRATED)
        assert np.allclose(ratio[nearer], wanted[nearer])
        factors.append(set(wanted[nearer].tolist()))
        assert ((ends.off_curve > 0) & ~ends.contradicted & nearer).any()
    assert factors == [{CALIBRATED}, {CALIBRATED, 3.0}]


def test_nine_levels_carry_both_bounds() -> None:
    values = np.random.default_rng(3).standard_normal(10_000)
    release = seeded_release(sl.Quantiles(even_levels(9), epsilon=1), values, seed="both")
    free = release.error_bound(0.95, assuming="nothing")
    assert (release.details or {})["form"] == "select"
    assert (nonprivate_gap(values, even_levels(9), release.value) <= free).all()
    assert free.tolist() == release.error_bound(0.95).tolist()
    assert free.max() > release.error_bound(0.95, assuming="spread").max()


def test_counted_codes_have_one_bound_and_a_tree_both() -> None:
    ages = np.random.default_rng(4).integers(0, 90, 5000)
    counted = sl.Quantiles(even_levels(49), epsilon=1, granularity=1, bounds=(0, 120)).release(ages)
    assert counted.error_bound(0.95, assuming="nothing").tolist() == counted.error_bound(0.95).tolist()
    tree = sl.Quantiles([0.5], epsilon=1).release(ages.astype(float))
    assert tree.error_bound(0.95, assuming="nothing").tolist() == tree.error_bound(0.95).tolist()
    assert 5 * tree.error_bound(0.95, assuming="spread").max() < tree.error_bound(0.95).max()
    with pytest.raises(RangeError, match="carries no likely error"):
        counted.error_bound(0.95, assuming="spread")
    with pytest.raises(RangeError, match='assuming is "nothing", "spread", or left out'):
        tree.error_bound(0.95, assuming="little")  # type: ignore[arg-type]


def test_the_bound_is_said_and_kept_in_json() -> None:
    release = sl.Quantiles(even_levels(99), epsilon=1).release(np.random.default_rng(5).standard_normal(10_000))
    largest = release.error_bound(0.95, assuming="nothing").max()
    likely = release.error_bound(0.95, assuming="spread").max()
    for told in (str(release), release._repr_html_()):
        assert f"worst case at 95 %: off by {at_most(largest)} ranks of about" in told
        assert f"measured and not proved: {at_most(likely)} ranks of about" in told
        assert told.index("likely error") < told.index("worst case"), "what is likely is read first"
    assert list(release.to_dict()["values"][0]) == ["label", "value", "likely_95", "within_95"]
    again = Release.from_json(release.to_json())
    assert again == release
    assert again.error_bound(0.9, assuming="nothing").tolist() == release.error_bound(0.9, assuming="nothing").tolist()
    assert again.error is not None
    assert again.error.likely is not None
    assert again.error.assumption == NO_ASSUMPTION


def test_the_band_of_a_distribution_that_assumes_nothing() -> None:
    """Of clusters that are finer than the cells; wider than the band that takes them for smooth."""
    values = np.random.default_rng(6).integers(0, 25, 10_000) + 0.35 * np.random.default_rng(7).random(10_000)
    release = seeded_release(sl.Distribution(epsilon=1), values, seed="clusters")
    known, places = release.value, np.linspace(-1, 26, 500)
    truth = np.searchsorted(np.sort(values), places, "right") / values.size
    low, high = known.band(places, assuming="nothing")
    assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).all()
    assert [each.tolist() for each in known.band(places)] == [low.tolist(), high.tolist()]
    assert known.likely is None, "counts contradict the curve nearly everywhere"
    assert (release.error_bound(0.95, assuming="nothing") > 0).all()
    assert Release.from_json(release.to_json()) == release
    with pytest.raises(RangeError, match='assuming is "nothing"'):
        known.band(places, assuming="smooth")  # type: ignore[arg-type]
    few = seeded_release(sl.Distribution(epsilon="0.1", size=2000), values[:2000], seed="a tree").value
    low, high = few.band(places)
    truth = np.searchsorted(np.sort(values[:2000]), places, "right") / 2000
    assert ((low <= truth + 1e-9) & (truth - 1e-9 <= high)).all()
    old = {key: each for key, each in few.to_json().items() if key != "likely"}
    with pytest.raises(RangeError, match="without a bound on its error that assumes nothing"):
        type(known).from_json(old).band(places)  # it stated what is a likely error now
    assert type(known).from_json(old).band(places, assuming="spread")[0].shape == places.shape


def test_the_band_of_counted_codes_assumes_nothing_as_it_is() -> None:
    ages = np.random.default_rng(9).integers(0, 90, 5000)
    known = sl.Distribution(epsilon=1, granularity=1, bounds=(0, 120)).release(ages).value
    assert [each.tolist() for each in known.band([30, 60], assuming="nothing")] == [
        each.tolist() for each in known.band([30, 60])
    ]


def test_changed_numbers_change_in_both() -> None:
    likely = TailBound(unit="ranks", assumption="a", fixed=(1.0, 7.0), per_log=(1.0, 1.0))
    free = TailBound(unit="ranks", assumption=NO_ASSUMPTION, fixed=(5.0, 6.0), per_log=(1.0, 1.0), proved=False)
    bound = free.with_likely(likely)
    assert bound.likely is not None
    assert bound.likely.fixed == (1.0, 6.0), "a likely error is not more than what holds for all data"
    changed = bound.changed(lambda fixed, per_log: (fixed[1:], per_log[1:]))
    assert changed.likely is not None
    assert (changed.fixed, changed.likely.fixed, changed.proved) == ((6.0,), (6.0,), False)
    assert free.assumes_nothing
    assert bound.of_spread_data is bound.likely
    assert likely.of_spread_data is likely
    assert TailBound.from_json(bound.to_json()) == bound
    assert math.isclose(float(changed.at(0.95)[0]), 6 + math.log(20))


@pytest.mark.parametrize("rho", [2, 5])
def test_noise_that_was_rounded_has_the_variance_of_rounding_as_well(rho: int) -> None:
    """Two cells, so that nothing evens it out: 2000 times, with at most 5 % beyond the bound (and 5 errors)."""
    rng, sigma = np.random.default_rng(rho), math.sqrt(1 / (2 * rho))
    missed = 0
    for _ in range(2000):
        noisy = np.array([100, 100]) + np.rint(rng.normal(scale=sigma, size=2)).astype(int)
        bound = counted_bound(noisy, sigma**2, np.array([0]), [Fraction(1, 2)], gaussian=True).at(0.95)[0]
        missed += bool(bound < 100)
    assert missed <= 100 + 5 * 10


def test_bounds_of_different_lengths_or_that_assume_something_do_not_come_together() -> None:
    free = {"unit": "ranks", "assumption": NO_ASSUMPTION, "fixed": [5.0], "per_log": [1.0]}
    told = {"unit": "ranks", "assumption": "a", "fixed": [1.0], "per_log": [1.0]}
    assert TailBound.from_json({**free, "likely": told}).likely is not None
    for wrong in ({**free, "fixed": [5.0, 5.0], "per_log": [1.0, 1.0]}, {**free, "assumption": "no ties"}):
        with pytest.raises(RangeError, match="of the same entries that assumes nothing"):
            TailBound.from_json({**wrong, "likely": told})
    with pytest.raises(RangeError, match="as many fixed parts"):
        TailBound.from_json({**told, "per_log": [1.0, 2.0]})


def test_a_bound_of_before_has_what_assumes_nothing_first() -> None:
    free = {"unit": "ranks", "assumption": NO_ASSUMPTION, "fixed": [5.0], "per_log": [1.0]}
    told = {"unit": "ranks", "assumption": "a", "fixed": [1.0], "per_log": [1.0]}
    found = TailBound.from_json({**told, "regardless": free})
    assert found.assumes_nothing
    assert found.fixed == (5.0,)
    assert found.likely == replace(TailBound.from_json(told), proved=False)


def test_the_share_at_no_number_is_none() -> None:
    known = sl.Distribution(epsilon=1).release(np.random.default_rng(10).standard_normal(5000)).value
    assert np.isnan([known.cdf(math.nan), *known.band(math.nan)]).all()
    assert np.isnan(known.cdf([0.0, math.nan])).tolist() == [False, True]


@pytest.mark.parametrize("levels", [[0.5], [0.25, 0.5, 0.75], [place / 50 for place in range(1, 50)]])
def test_a_likely_error_is_not_proved_also_when_it_was_stored(levels: list[float]) -> None:
    ages = sl.Table({"age": np.arange(4000) % 90}, schema=[sl.Number("age", lower=0, upper=120, granularity=1)])
    release = sl.Quantiles(levels, column="age", epsilon=1).release(ages)
    for each in (release, sl.outcome_from_json(release.to_json())):
        if each.error.likely is not None:
            assert not each.error.likely.proved
            assert each.error.likely.to_json()["proved"] is False
        assert each.error.proved

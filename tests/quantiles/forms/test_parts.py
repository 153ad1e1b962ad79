"""Parts of a cell, counted: which are looked into again, what that costs, and what it tells."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from scripted_source import SCRIPTED
from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget, Kind
from sidelight.noise import Source
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.forms import refined_counts
from sidelight.quantiles.forms.least_squares import Round
from sidelight.quantiles.forms.refined_counts import Look, Parts, count_parts, crowded_cuts
from sidelight.quantiles.tree import even_levels
from sidelight.testing import SeededEntropy, seeded_release

KINDS: tuple[Kind, ...] = ("epsilon", "rho")


class EvenRecords:
    """A record at every index from some index on."""

    def __init__(self, first: int) -> None:
        self.first = first

    def below(self, index: int) -> int:
        return max(index - self.first, 0)


def look(points: list[int], *, planned: float = 100.0) -> Look:
    """Return a cell of a thousand indices."""
    return Look(
        cell=Cell(0, 999, 1000),
        points=points,
        levels=[0.01, 0.5, 0.99],
        planned=lambda ends: np.full(ends.size - 1, planned),
        forward=lambda indices: np.array(indices, float),
        back=int,
    )


class Spent:
    """What every draw cost, by the cells that it was made for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.amounts: list[tuple[int, Fraction]] = []
        right = Budget.on

        def on(budget: Budget, bounded: Bounded, law: object = None) -> object:
            noise = right(budget, bounded, law)  # type: ignore[arg-type]
            spent = self

            class Watched:
                deviation = noise.deviation

                def release(self, source: object) -> object:
                    spent.amounts.append((bounded.shape[0], budget.amount))
                    return np.asarray(bounded.value)

            return Watched()

        class Refinable:
            def __init__(self, counts: Bounded, *, epsilon: Fraction, **_: object) -> None:
                self.rough, self.rough_epsilon, self._all = np.asarray(counts.value), epsilon / 3, epsilon

            def refined(self, chosen: np.ndarray) -> np.ndarray:
                spent.amounts.append((int((~np.asarray(chosen)).sum()), self.rough_epsilon))
                spent.amounts.append((int(np.asarray(chosen).sum()), self._all))
                return self.rough

        spent = self
        monkeypatch.setattr(Budget, "on", on)
        monkeypatch.setattr(refined_counts, "RefinableCounts", Refinable)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("crowded", [False, True])
def test_every_record_pays_the_budget_of_the_counts_exactly(
    kind: str, crowded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent, budget = Spent(monkeypatch), Budget(kind, Fraction(7, 9))  # type: ignore[arg-type]
    monkeypatch.setattr(refined_counts, "_cuts", lambda *_: [[], [210, 250] if crowded else []])
    parts = count_parts(EvenRecords(300), look([200]), budget=budget, source=SCRIPTED)
    third = Fraction(7, 27)
    if kind == "epsilon":
        paid = {True: [(1, third), (1, 3 * third), (3, 2 * third)], False: [(0, third), (2, 3 * third)]}[crowded]
    else:
        paid = {True: [(2, third), (1, 2 * third), (3, 2 * third)], False: [(2, third), (2, 2 * third)]}[crowded]
    assert spent.amounts == paid
    assert parts.points == ((200, 210, 250) if crowded else (200,))
    assert parts.counts.tolist() == ([0, 0, 0, 700] if crowded else [0, 700])
    assert parts.widths.tolist() == ([200, 10, 40, 749] if crowded else [200, 799])


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_part_at_an_edge_is_cut_where_its_records_are_if_they_go_on_as_those_beside_it(mirrored: bool) -> None:
    """A thousand records in a part with room for ten thousand, next to denser parts."""
    counts, places = np.array([0.0, 1000.0, 1000.0, 1000.0]), np.array([-900.0, -200.0, 0.0, 20.0, 40.0])
    if mirrored:
        counts, places = counts[::-1], -places[::-1]
    found = crowded_cuts(counts, places, np.full(4, 1000.0), held=np.full(4, True), deviation=50.0)
    cuts = found[::-1] if mirrored else found
    assert [len(each) for each in cuts] == [0, 6, 0, 0]
    assert sorted(-abs(each) for each in cuts[1]) == [-50.0, -30.0, -20.0, -15.0, -10.0, -5.0]


def test_a_part_is_looked_into_again_only_where_that_tells_something() -> None:
    counts, places, planned = np.array([0.0, 1000.0, 1000.0]), np.array([0.0, 900.0, 920.0, 940.0]), np.full(3, 1000.0)
    edge = {"counts": np.array([0.0, 1000.0, 1000.0]), "places": np.array([0.0, 700.0, 920.0, 940.0])}
    held = np.full(3, True)
    assert crowded_cuts(counts, places, planned, held=held, deviation=50.0) == [[], [], []]
    assert crowded_cuts(**edge, planned=planned, held=held, deviation=50.0)[1]
    assert not crowded_cuts(**edge, planned=planned, held=~held, deviation=50.0)[1], "no target lies there"
    assert not crowded_cuts(**edge, planned=planned, held=held, deviation=200.0)[1], "counts would be noise"
    full = crowded_cuts(counts, places, planned / 3, held=held, deviation=50.0)
    assert full[1] == [915.0, 910.0, 905.0], "three times what it was to hold: even cuts"


@pytest.mark.filterwarnings("error")
def test_any_counts_and_places_have_cuts_inside_their_part() -> None:
    rng = np.random.default_rng(5)
    for trial in range(300):
        size = int(rng.integers(1, 8))
        counts = rng.choice([-1e18, -5.0, 0.0, 1.0, 900.0, 1e18], size)
        places = np.sort(rng.choice([-4e307, -691.0, -1e-300, 0.0, 1e-320, 3.0, 4e307], size + 1))
        found = crowded_cuts(counts, places, rng.choice([0.0, 1.0, 1e9], size), held=np.full(size, True), deviation=0.1)
        for part, cuts in enumerate(found):
            assert all(places[part] <= each <= places[part + 1] for each in cuts), trial


def test_counts_inside_a_part_agree_with_its_own() -> None:
    first = Round.of([100.0, 400.0], [8.0, 72.0])
    second = Round.of([90.0, 210.0], 18.0).among(np.array([False, True, True]), [0, 1, 1])
    parts = Parts((5, 7), (first, second), np.arange(4.0), np.ones(3))
    assert parts.counts.tolist() == pytest.approx([100.0, 90 + 50 / 3, 210 + 50 / 3])
    assert parts.deviations.tolist() == pytest.approx(np.sqrt([8.0, 18.0, 18.0]).tolist())


def test_records_beyond_a_gap_are_found_again() -> None:
    """An exponential with a fifth of it far below: half of the largest gaps of one look (2000 ranks) at the least."""
    largest = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        values = rng.exponential(size=100_000) - 50 * (rng.random(100_000) < 0.2)
        levels = even_levels(99)
        release = seeded_release(sl.Quantiles(levels, epsilon="0.1"), values, seed=seed)
        gaps = nonprivate_gap(values, levels, release.value)
        assert (gaps <= release.error_bound(0.95)).all()
        largest.append(float(gaps.max()))
    assert max(largest) < 900


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_refined_once(kind: Kind) -> None:
    """A second choice would measure again what the first one left to be spent elsewhere."""
    ranks, cells = EvenRecords(300), [Cell(0, 200, 200), Cell(200, 210, 210), Cell(210, 400, 400)]
    with Source(SeededEntropy("refined once")) as source:
        rough = refined_counts.fine_counts(ranks, cells, budget=Budget(kind, Fraction(1)), source=source)
        rough.refined(np.array([True, False, True]), (), source)
        with pytest.raises(RangeError, match="refined already"):
            rough.refined(np.array([False, True, False]), (), source)

"""Theorem 8: no transcript of a form loses more than epsilon, by brute force; and planted bugs lose more."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import form_transcripts as transcripts
import numpy as np
import pytest
from form_transcripts import IndependentSecondMeasurement, largest_loss, script

from scripted_source import SCRIPTED
from sidelight.grid import Grid
from sidelight.mechanisms.budget import Budget
from sidelight.predictions.compiled import CompiledPrior
from sidelight.predictions.pieces import FlooredLine
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms import cells as cells_module
from sidelight.quantiles.forms import finish as finish_module
from sidelight.quantiles.forms import refined_counts as parts_module
from sidelight.quantiles.forms.cell_selection import counts_of
from sidelight.quantiles.forms.cells_plan import CellsPlan, cells_plan
from sidelight.quantiles.forms.codes import CodesPlan, release_codes
from sidelight.quantiles.forms.select import SelectPlan, release_selected
from sidelight.quantiles.tree import even_levels

CODES = 6
GRID = Grid(resolution=Fraction(1), first=0, last=CODES - 1, dither_bits=0)
EPSILON = Fraction(2)
LEVELS = even_levels(8)


class Table:
    """A prior given index by index."""

    many = False

    def __init__(self, masses):
        self.heights = list(accumulate(masses, initial=0))

    def at(self, index):
        return self.heights[min(max(index, 0), CODES)]

    def line(self, index):
        return FlooredLine(index, index + 1, 0, self.at(index), 1)


class PublicPriors:
    """Any public function of levels and released numbers may be a prior: here uneven ones, in turn."""

    grid = GRID
    _all = tuple(
        CompiledPrior(0, CODES - 1, [Table(masses)])
        for masses in ([0] * 6, [900, 1, 1, 40, 1, 10**6], [10**6, 1, 40, 1, 1, 900])
    )

    def each(self, levels, *spots):
        return [self._all[int(64 * level) % 3] for level in levels]


def forced_plan(budget: Fraction, *, fine_count: int, three_rounds: bool = False) -> CellsPlan:
    """Return the plan of the specification's small example: few breakpoints and `fine_count` fine levels."""
    like = cells_plan(LEVELS, size=10**7 if three_rounds else 100, epsilon=budget)
    return CellsPlan(
        **{
            **vars(like),
            "breakpoint_levels": (Fraction(1, 8), Fraction(7, 8)),
            "breakpoint_count": 3,
            "fine_count": fine_count,
        }
    )


def by_cells(plan: CellsPlan):
    return lambda ranks: cells_module.release_cells(
        ranks, LEVELS, plan=plan, kind="epsilon", priors=PublicPriors(), source=SCRIPTED
    )


def by_selection(ranks):
    plan = SelectPlan.of(Budget("epsilon", EPSILON), size=1000)
    return release_selected(ranks, LEVELS, plan=plan, priors=PublicPriors(), source=SCRIPTED)


def by_codes(ranks):
    plan = CodesPlan(codes=CODES, budget=Budget("epsilon", EPSILON))
    return release_codes(ranks, LEVELS, grid=GRID, plan=plan, source=SCRIPTED)


SEARCH = {"codes": CODES, "most": 3, "rounds": 8, "climbs": 40, "seed": 11}
#: A minute or two of one core; and one that ends as soon as a planted bug is met.
LONG_SEARCH = {**SEARCH, "rounds": 50, "climbs": 120}
BUG_SEARCH = {**SEARCH, "rounds": 150, "climbs": 120}
PLANS = {
    "few cells": forced_plan(EPSILON, fine_count=2),
    "a cell a level": forced_plan(EPSILON, fine_count=8),
    "three rounds": forced_plan(EPSILON, fine_count=8, three_rounds=True),
}


@pytest.mark.parametrize("name", PLANS)
def test_no_transcript_of_cells_loses_more_than_epsilon(name, monkeypatch):
    script(monkeypatch)
    found = largest_loss(by_cells(PLANS[name]), **SEARCH)
    assert 0.7 * EPSILON < found <= EPSILON + 1e-9


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PLANS)
def test_no_transcript_of_cells_loses_more_than_epsilon_in_a_long_search(name, monkeypatch):
    script(monkeypatch)
    found = largest_loss(by_cells(PLANS[name]), **LONG_SEARCH)
    assert 0.9 * EPSILON < found <= EPSILON + 1e-9


@pytest.mark.parametrize("release", [by_selection, by_codes])
def test_no_transcript_of_select_and_codes_loses_more_than_epsilon(release, monkeypatch):
    script(monkeypatch)
    found = largest_loss(release, **SEARCH)
    assert 0.7 * EPSILON < found <= EPSILON + 1e-9


def test_two_rows_of_a_person_lose_at_most_twice_as_much(monkeypatch):
    script(monkeypatch)
    found = largest_loss(by_cells(PLANS["a cell a level"]), **SEARCH, added=2)
    assert EPSILON < found <= 2 * EPSILON + 1e-9


def test_every_draw_is_scripted(monkeypatch):
    """A source is never asked: a draw that the script does not know would be outside the proof."""
    script(monkeypatch)
    run = transcripts.play(by_cells(PLANS["a cell a level"]), [1, 4], [], transcripts.Random(3))
    kinds = {shape[0] for shape in run.shapes}
    assert {"select", "counts", "rough", "refined"} <= kinds


def sparse_by_any_public_rule(outline, levels):
    """The proof lets any function of released counts say which cells have no fine count: here one that often does."""
    return (np.diff(outline.ends).astype(int) % 3 - 1) * np.pad([1] * (len(outline.points) - 1), 1)


@pytest.mark.parametrize("name", ["few cells", "three rounds"])
def test_no_transcript_loses_more_whichever_cells_have_no_fine_count(name, monkeypatch):
    script(monkeypatch)
    monkeypatch.setattr(cells_module, "_sparse", sparse_by_any_public_rule)
    found = largest_loss(by_cells(PLANS[name]), **{**SEARCH, "rounds": 4})
    assert 0.7 * EPSILON < found <= EPSILON + 1e-9


def test_transcripts_reach_sparse_cells(monkeypatch):
    """What the search walks through: cells in which a gap begins are among it."""
    script(monkeypatch)
    found = set()

    def release(ranks):
        found.update(by_cells(PLANS["three rounds"])(ranks).sides[1:-1].tolist())

    for seed in range(150):
        transcripts.play(release, [1, 4], [], transcripts.Random(seed))
    assert found == {-1, 0, 1}


def crowded_by_any_public_rule(look, cells, places, rough, deviation):
    """The proof lets any function of rough counts say which parts are cut again, and where: one that often does."""
    cut = [range(cell.first + 1, cell.last) if count % 3 == 1 else () for cell, count in zip(cells, rough, strict=True)]
    return [list(inside) for inside in cut]


#: Parts are counted where targets are many for their cell's records: the small example has to be forced into this.
def many_parts(monkeypatch, cuts=crowded_by_any_public_rule):
    """Let every cell that is finished by itself be finished by points and counts, and its parts often be crowded."""
    script(monkeypatch)
    monkeypatch.setattr(finish_module.LocalTask, "by_selection", False)
    monkeypatch.setattr(parts_module, "_cuts", cuts)


@pytest.mark.parametrize("name", ["few cells", "three rounds"])
def test_no_transcript_loses_more_whichever_parts_are_looked_into_again(name, monkeypatch):
    many_parts(monkeypatch)
    found = largest_loss(by_cells(PLANS[name]), **{**SEARCH, "rounds": 4})
    assert 0.7 * EPSILON < found <= EPSILON + 1e-9


def by_parts(ranks):
    """The counts of parts alone, with all of epsilon: where a bug in them shows soonest."""
    look = parts_module.Look(
        cell=Cell(0, CODES - 1, CODES),
        points=[3],
        levels=[0.5],
        planned=lambda ends: np.ones(ends.size - 1),
        forward=lambda indices: np.array(indices, float),
        back=int,
    )
    return parts_module.count_parts(ranks, look, budget=Budget("epsilon", EPSILON), source=SCRIPTED)


def test_no_transcript_of_the_counts_of_parts_loses_more_than_epsilon(monkeypatch):
    many_parts(monkeypatch)
    assert largest_loss(by_parts, **{**SEARCH, "rounds": 20}) == pytest.approx(float(EPSILON))


def test_transcripts_reach_parts_that_are_looked_into_again(monkeypatch):
    """What the search walks through: by the product's own rule for crowded parts, too."""
    script(monkeypatch)
    monkeypatch.setattr(finish_module.LocalTask, "by_selection", False)
    found = []

    def release(ranks):
        found.extend(len(own.rounds) for own in by_cells(PLANS["few cells"])(ranks).parts.values())

    for seed in range(60):
        transcripts.play(release, [1, 4], [], transcripts.Random(seed))
    assert {1, 2} == set(found)


# --- planted bugs that must be found ----------------------------------------------------------------------------------


def worst(plan: CellsPlan, *, seed: int = 11) -> float:
    """Search long; seeds are such that the bug is met early."""
    return largest_loss(by_cells(plan), **{**BUG_SEARCH, "seed": seed}, until=float(EPSILON) + 0.1)


@pytest.mark.planted("an independent second measurement in the place of a refinement", of=("Quantiles", "Distribution"))
def test_an_independent_second_measurement_is_found(monkeypatch):
    """Instead of a refinement: the first look then costs its third on top."""
    script(monkeypatch, refinable=IndependentSecondMeasurement)
    assert worst(PLANS["a cell a level"], seed=11) > EPSILON + 0.1


@pytest.mark.planted("flags read from exact counts", of=("Quantiles", "Distribution"))
def test_flags_read_from_exact_counts_are_found(monkeypatch):
    script(monkeypatch)
    right = cells_module.fine_counts

    def leaking(ranks, cells, **rest):
        found = right(ranks, cells, **rest)
        exact = np.asarray(counts_of(ranks, cells).value)
        monkeypatch.setattr(
            cells_module, "flagged_leaves", lambda _, __, rough, **___: np.resize(exact > 1, len(rough))
        )
        return found

    monkeypatch.setattr(cells_module, "fine_counts", leaking)
    assert worst(PLANS["a cell a level"]) == math.inf


@pytest.mark.planted("cells that are closed at the last index", of=("Quantiles", "Distribution"))
def test_cells_that_are_closed_at_the_last_index_are_found(monkeypatch):
    """A released point may be the last index: the cell below it must stay half-open."""
    script(monkeypatch)
    right = cells_module.cells_between

    def closed(grid, points):
        return [
            cell._replace(end=grid.fine_last + 1) if cell.last == grid.fine_last else cell
            for cell in right(grid, points)
        ]

    monkeypatch.setattr(cells_module, "cells_between", closed)
    assert worst(PLANS["a cell a level"], seed=12) > EPSILON + 0.1


@pytest.mark.planted("a tail that overlaps a leaf", of=("Quantiles", "Distribution"))
def test_a_tail_that_overlaps_a_leaf_is_found(monkeypatch):
    """The record map of selections moved by one index against that of the counts."""
    script(monkeypatch)
    right = finish_module.select_in_cell

    def moved(ranks, cell, levels, **rest):
        return right(ranks, Cell(cell.first, cell.last, min(cell.end + 1, CODES)), levels, **rest)

    monkeypatch.setattr(finish_module, "select_in_cell", moved)
    assert worst(PLANS["a cell a level"], seed=1) > EPSILON + 0.1


@pytest.mark.planted("a leaf that is counted and spends all on its finish", of=("Quantiles", "Distribution"))
def test_a_leaf_that_is_counted_and_finished_as_a_sparse_one_is_found(monkeypatch):
    """Only a leaf that has no fine count may spend all of the fine budget on its finish."""
    script(monkeypatch)
    right = finish_module.side_of
    monkeypatch.setattr(finish_module, "side_of", lambda side: "above" if right(side) == "inside" else right(side))
    assert worst(PLANS["a cell a level"], seed=12) > EPSILON + 0.1


@pytest.mark.planted("cells left uncounted by exact counts", of=("Quantiles", "Distribution"))
def test_sparse_cells_that_follow_exact_counts_are_found(monkeypatch):
    """Which cells are sparse must follow from noisy counts."""
    script(monkeypatch)
    right = cells_module.coarse_counts

    def leaking(ranks, cells, *rest):
        exact = np.array([ranks.below(cell.end) - ranks.below(cell.first) for cell in cells])
        monkeypatch.setattr(cells_module, "_sparse", lambda at, _: np.resize(exact > 1, len(at.points) + 1) * 1)
        return right(ranks, cells, *rest)

    monkeypatch.setattr(cells_module, "coarse_counts", leaking)
    assert worst(PLANS["a cell a level"]) == math.inf


@pytest.mark.planted("a flagged leaf that is refined as well", of=("Quantiles", "Distribution"))
def test_refining_a_leaf_that_was_flagged_is_found(monkeypatch):
    """Never release the refined count of a flagged leaf: its records have spent the difference on a selection."""
    script(monkeypatch, refinable=RefinesAll)
    assert worst(PLANS["few cells"], seed=13) > EPSILON + 0.1


class RefinesAll(transcripts.ScriptedRefinable):
    def refined(self, chosen):
        return super().refined(np.ones_like(np.asarray(chosen, bool)))


def worst_of_parts() -> float:
    """Search the counts of parts alone."""
    return largest_loss(by_parts, **SEARCH, until=float(EPSILON) + 0.1)


@pytest.mark.planted("a second look with the whole budget of the counts", of=("Quantiles", "Distribution"))
def test_a_second_look_with_the_whole_budget_of_the_counts_is_found(monkeypatch):
    """The rough count of a crowded part has cost its third: only the rest is left for what is counted inside."""
    many_parts(monkeypatch)
    monkeypatch.setattr(parts_module, "REFINEMENT_RATIO", 10**9)
    assert worst_of_parts() > EPSILON + 0.1


@pytest.mark.planted("a crowded part that is refined as well", of=("Quantiles", "Distribution"))
def test_refining_a_part_that_is_looked_into_again_is_found(monkeypatch):
    many_parts(monkeypatch)
    script(monkeypatch, refinable=RefinesAll)
    assert worst_of_parts() > EPSILON + 0.1


@pytest.mark.planted("parts looked into by exact counts", of=("Quantiles", "Distribution"))
def test_crowded_parts_that_follow_exact_counts_are_found(monkeypatch):
    """Which parts are crowded must follow from noisy counts."""
    many_parts(monkeypatch)
    right = parts_module.fine_counts

    def leaking(ranks, cells, **rest):
        exact = np.asarray(counts_of(ranks, cells).value)
        monkeypatch.setattr(
            parts_module, "_cuts", lambda look, cells, *_: crowded_by_any_public_rule(look, cells, (), exact, 1.0)
        )
        return right(ranks, cells, **rest)

    monkeypatch.setattr(parts_module, "fine_counts", leaking)
    assert worst(PLANS["few cells"]) == math.inf


@pytest.mark.planted("cells of a part that overlap the next part", of=("Quantiles", "Distribution"))
def test_a_look_into_a_part_that_reaches_into_the_next_is_found(monkeypatch):
    """The cells of a part end where it does: its last one must not hold the next part's first records."""
    many_parts(monkeypatch)
    right = parts_module.cells_within

    def longer(cell, points):
        found = right(cell, points)
        found[-1] = found[-1]._replace(end=min(cell.end + 1, CODES))
        return found

    monkeypatch.setattr(parts_module, "cells_within", longer)
    assert worst_of_parts() > EPSILON + 0.1

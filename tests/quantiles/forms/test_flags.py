"""Flags: targets deep inside a leaf, by released numbers alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sidelight.quantiles.forms.cells_plan import cells_plan
from sidelight.quantiles.forms.least_squares import Structure, flagged_leaves, leaves_of, placement_error
from sidelight.quantiles.tree import even_levels

PLAN = cells_plan(even_levels(99), size=10_000, epsilon=Fraction(1))
SHAPE = Structure(coarse_cells=14, middle_cells=0, leaves=110)


def flags(targets: np.ndarray, ranks: np.ndarray, **changed: object) -> list[int]:
    rough = np.diff(ranks)
    found = flagged_leaves(targets, ranks, rough, plan=PLAN, structure=SHAPE, total=10_000.0, **changed)  # type: ignore[arg-type]
    return np.flatnonzero(found).tolist()


def test_smooth_cells_are_not_flagged() -> None:
    ranks = np.linspace(100, 9900, 99)
    assert flags(np.linspace(100, 9900, 99), ranks) == []


def test_a_target_deep_in_a_leaf_flags_it() -> None:
    ranks = np.array([100.0, 200.0, 300.0, 2000.0, 2100.0])
    assert flags(np.array([130.0, 1000.0, 2030.0]), ranks) == [2]
    assert flags(np.array([130.0, 310.0, 1990.0]), ranks) == [], "near an end"
    assert flags(np.array([50.0, 5000.0]), ranks) == [], "in the tails"
    assert flags(np.array([1000.0]), np.array([5.0])) == [], "no leaves"


def test_deep_is_two_and_a_half_errors_of_the_placement() -> None:
    error = placement_error(PLAN, SHAPE, 10_000)
    variance = 14 / (2 * float(PLAN.coarse) ** 2) + 10_000 / (6 * 14)
    assert error == np.sqrt(variance)
    edge = max(2.5 * error, 20 / float(PLAN.left))
    for depth, expected in ((edge * 1.01, [0]), (edge * 0.99, [])):
        assert flags(np.array([1000 + depth]), np.array([1000.0, 3000.0])) == expected


def test_with_many_levels_only_full_leaves_are_flagged() -> None:
    many = np.linspace(1, 9999, 4000)
    ranks = np.concatenate([np.arange(0, 5000, 50.0), [6000.0], np.arange(6050, 10_000, 50.0)])
    assert many.size > PLAN.fine_count
    assert flags(many, ranks) == [99]


def test_the_middle_round_places_better() -> None:
    plan = cells_plan(even_levels(99), size=6_000_000, epsilon=Fraction(1))
    two = placement_error(plan, Structure(coarse_cells=49, middle_cells=0, leaves=99), 6e6)
    three = placement_error(plan, Structure(coarse_cells=49, middle_cells=300, leaves=99), 6e6)
    assert three < two


def test_leaves_of_targets() -> None:
    ranks = np.array([10.0, 20.0, 20.0, 30.0])
    assert leaves_of([0, 10, 20, 29.9, 30, 99], ranks).tolist() == [-1, 0, 2, 2, 3, 3]

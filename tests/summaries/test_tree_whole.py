"""Whole counts on a tree: they add up, are not negative, favour no place, and keep exact sums of rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.noise import Source
from sidelight.records.hierarchy import Hierarchy
from sidelight.summaries.count_tables import onto_simplex
from sidelight.summaries.tree_whole import _onto_simplexes, nonnegative_tree, rounded_two_way, two_way, whole_tree
from sidelight.testing import SeededEntropy

TREE = Hierarchy("leaf", {"top": 1, "mid": 2}).tree(
    [f"{a}{b}{c:02}" for a in "abc" for b in "wxyz" for c in range(5 + (a == "b") * 6)]
)


def noisy(rng: np.random.Generator, cells: int, size: float) -> list[np.ndarray]:
    leaves = rng.normal(3.0, size, (TREE.sizes[-1], cells))
    found = [leaves]
    for level in range(TREE.depth, 0, -1):
        found.insert(0, TREE.up(found[0], level))
    return found


def every(cells: int) -> list[np.ndarray]:
    return [np.ones((size, cells), bool) for size in TREE.sizes]


@pytest.mark.parametrize("size", [0.1, 5.0, 1e3, 1e14])
def test_sums_hold_and_nothing_is_negative(size: float) -> None:
    rng = np.random.default_rng(4)
    sds = [np.full(3, size)] * 4
    with Source(SeededEntropy("whole")) as source:
        for _ in range(20):
            found = whole_tree(TREE, noisy(rng, 3, size), sds, every(3), source=source)
            for level in range(1, TREE.depth + 1):
                assert (TREE.up(found[level], level) == found[level - 1]).all()
                assert found[level].min() >= 0


def test_families_are_projected_as_one_simplex_each() -> None:
    rng = np.random.default_rng(5)
    sizes = [1, 4, 7, 2]
    family = np.repeat(np.arange(4), sizes)
    values, totals = rng.normal(0, 5, len(family)), np.array([3.0, 0.0, 11.0, 0.25])
    found = _onto_simplexes(values, family, totals)
    for each in range(4):
        assert found[family == each] == pytest.approx(onto_simplex(values[family == each], totals[each]), abs=1e-9)


def test_large_cells_stay() -> None:
    rng = np.random.default_rng(6)
    values = noisy(rng, 1, 4.0)
    values[3][0] += 1000.0
    values[0], values[1], values[2] = (
        TREE.up(TREE.up(TREE.up(values[3], 3), 2), 1),
        TREE.up(TREE.up(values[3], 3), 2),
        TREE.up(values[3], 3),
    )
    real = nonnegative_tree(TREE, values, [np.full(1, 4.0)] * 4, every(1))
    assert real[3][0, 0] == pytest.approx(values[3][0, 0], abs=5)


def test_no_place_of_a_family_is_favoured() -> None:
    """Equal siblings have equal remainders; in file order the first five of 25 were 0.30 too high."""
    tree = Hierarchy("leaf", {"top": 1}).tree([f"a{place:02}" for place in range(25)])
    rng, off = np.random.default_rng(7), []
    possible = [np.ones((size, 1), bool) for size in tree.sizes]
    with Source(SeededEntropy("ties")) as source:
        for _ in range(400):
            leaves = np.full((25, 1), 7.0) + rng.integers(-1, 2)
            top = np.array([[leaves.sum() + rng.normal(0, 9)]])
            found = whole_tree(tree, [top, top, leaves], [np.ones(1)] * 3, possible, source=source)
            off.append(found[2][:, 0] - found[2].mean())
    places = np.array(off).mean(axis=0).reshape(5, 5).mean(axis=1)
    assert np.abs(places).max() < 6 * np.std(off) / np.sqrt(5 * 400)


def test_two_exact_sums_hold_and_expectations_stay() -> None:
    rng = np.random.default_rng(8)
    with Source(SeededEntropy("two")) as source:
        for _ in range(60):
            truth = rng.poisson(3.0, (int(rng.integers(1, 6)), int(rng.integers(1, 7))))
            rows, columns = truth.sum(axis=1), truth.sum(axis=0)
            real = two_way(truth + rng.normal(0, 4, truth.shape), rows, columns)
            assert real.min() >= 0
            assert real.sum(axis=1) == pytest.approx(rows, abs=1e-6)
            found = rounded_two_way(real, rows, columns, source)
            assert (found.sum(axis=1) == rows).all()
            assert (found.sum(axis=0) == columns).all()
            assert found.min() >= 0
            assert np.abs(found - real).max() < 1 + 1e-6
        real = two_way(rng.normal(3, 3, (4, 5)), np.array([9, 14, 3, 20]), np.array([10, 8, 12, 6, 10]))
        draws = [
            rounded_two_way(real, np.array([9, 14, 3, 20]), np.array([10, 8, 12, 6, 10]), source) for _ in range(300)
        ]
    assert np.abs(np.mean(draws, axis=0) - real).max() < 6 * 0.5 / np.sqrt(300)

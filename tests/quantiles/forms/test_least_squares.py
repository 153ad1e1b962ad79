"""Counts in agreement: the weighted least squares of a dense solver, and ranks that never fall."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.quantiles.forms.least_squares import Round, agreed_counts, ranks_of


def dense(rounds: list[Round]) -> np.ndarray:
    """Return the counts of the smallest cells by ordinary weighted least squares on all equations."""
    memberships: list[np.ndarray] = []
    cells = [[i] for i in range(rounds[0].counts.size)]
    atoms: list[tuple[int, int]] = []  # (round, place) of cells without children
    for depth, each in enumerate(rounds):
        children = set(rounds[depth + 1].parents.tolist()) if depth + 1 < len(rounds) else set()
        atoms += [(depth, place) for place in range(each.counts.size) if place not in children]
    del cells

    def inside(atom: tuple[int, int], depth: int) -> int:
        at, place = atom
        while at > depth:
            place, at = int(rounds[at].parents[place]), at - 1
        return place if at == depth else -1

    rows, values, weights = [], [], []
    for depth, each in enumerate(rounds):
        for place in range(each.counts.size):
            rows.append([1.0 if inside(atom, depth) == place else 0.0 for atom in atoms])
            values.append(each.counts[place])
            weights.append(1 / np.sqrt(each.variances[place]))
    scaled = np.array(weights)[:, None] * np.array(rows)
    solution = np.linalg.lstsq(scaled, np.array(weights) * np.array(values), rcond=None)[0]
    memberships.append(solution)
    return np.array([dict(zip(atoms, solution, strict=True))[atom] for atom in atoms])


def atoms_of(rounds: list[Round], estimates: list[np.ndarray]) -> np.ndarray:
    out = []
    for depth in range(len(rounds)):
        children = set(rounds[depth + 1].parents.tolist()) if depth + 1 < len(rounds) else set()
        out += [estimates[depth][place] for place in range(rounds[depth].counts.size) if place not in children]
    return np.array(out)


@pytest.mark.parametrize("seed", range(6))
def test_agreement_is_the_dense_solution(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rounds = [Round.of(generator.normal(50, 9, 6), generator.uniform(1, 4, 6))]
    for cells in [9, 30] if seed % 2 else [14]:
        above = rounds[-1].counts.size
        parents = np.sort(generator.integers(1, above - 1, cells))  # the tails have no children
        rounds.append(Round.of(generator.normal(20, 9, cells), generator.uniform(1, 40, cells), parents))
    assert atoms_of(rounds, agreed_counts(rounds)) == pytest.approx(dense(rounds), rel=1e-9)


def test_children_add_up() -> None:
    rounds = [Round.of([4, 100, 50, 3], 8.0), Round.of([30, 40, 20, 60], [2.0, 2.0, 18.0, 2.0], [1, 1, 1, 2])]
    coarse, leaves = agreed_counts(rounds)
    assert leaves[:3].sum() == pytest.approx(coarse[1])
    assert leaves[3] == pytest.approx(coarse[2])
    assert (coarse[0], coarse[3]) == (4, 3), "nothing more is known of the tails"


def test_one_round_is_left_as_it_is() -> None:
    assert agreed_counts([Round.of([1, -2, 3], 1.0)])[0].tolist() == [1, -2, 3]


def test_no_leaves_at_all() -> None:
    coarse, leaves = agreed_counts([Round.of([5, 7], 1.0), Round.of([], 1.0, [])])
    assert coarse.tolist() == [5, 7]
    assert leaves.size == 0


@pytest.mark.parametrize("counts", [[-5.0], [0.0, 0.0], [-3, -4, 1], [1e9, -1e9, 0.5], [3, 4, 5]])
def test_ranks_rise_from_nothing_to_the_total(counts: list[float]) -> None:
    ranks = ranks_of(counts)
    assert ranks.size == len(counts) + 1
    assert ranks[0] == 0
    assert ranks[-1] == max(sum(counts), 1)
    assert (np.diff(ranks) >= 0).all()

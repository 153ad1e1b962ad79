"""The private learner of (w, m): the corrected sensitivity, its counterexample, and a sequence."""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.synthesis.fitting.learning import PrivateStart, divergence_jump, scaled_divergence
from sidelight.testing import SeededEntropy


def test_the_published_sensitivity_is_refuted_and_ours_holds() -> None:
    even = np.array([0.5, 0.5])
    jump = abs(scaled_divergence(np.array([1000, 0]), even) - scaled_divergence(np.array([999, 1]), even))
    assert jump == pytest.approx(7.907255, abs=5e-7)
    assert float(divergence_jump(cells=2, floor_weight=1, rows=1000)) == pytest.approx(8.600902, abs=5e-7)
    assert jump > 2 * log(2)  # what the published proof allows
    assert 8 * pi / sqrt(6) == pytest.approx(10.26, abs=5e-3)


def test_no_replacement_moves_the_divergence_further() -> None:
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(3000):
        cells, rows = int(rng.integers(2, 6)), int(rng.integers(2, 400))
        gamma = float(rng.uniform(0.05, 1))
        weights = (1 - gamma) * rng.dirichlet(np.full(cells, 0.1)) + gamma / cells
        x = rng.multinomial(rows, rng.dirichlet(np.full(cells, 0.1)))
        origin = int(rng.choice(np.flatnonzero(x)))
        y = x.copy()
        y[origin] -= 1
        y[rng.integers(cells)] += 1
        bound = float(divergence_jump(cells=cells, floor_weight=gamma, rows=rows))
        moved = abs(scaled_divergence(x, weights) - scaled_divergence(y, weights))
        assert moved <= bound
        largest = max(largest, moved / bound)
    assert largest > 0.6  # the search comes near: a bound that is half as large would be refuted


def test_a_record_that_loses_its_cell_moves_the_divergence_no_further() -> None:
    """Rows with missing values are dropped: under a public number of rows, one record more or less may have a cell."""
    for cells, gamma in ((2, 1.0), (3, 0.3), (4, 0.05)):
        for rows in (1, 2, 5, 9):
            bound = float(divergence_jump(cells=cells, floor_weight=gamma, rows=rows))
            weights = np.full(cells, gamma / cells)
            weights[0] += 1 - gamma
            for x in np.ndindex(*(rows + 1,) * cells):
                for origin in range(cells):
                    if sum(x) <= rows and x[origin]:
                        y = np.array(x) - (np.arange(cells) == origin)
                        assert abs(scaled_divergence(np.array(x), weights) - scaled_divergence(y, weights)) <= bound


def test_tables_of_one_row_are_priced() -> None:
    """The logarithm of 1 is 0, not a step above it of 10**15 digits: this never came back."""
    plan = PrivateStart(cells=2, steps=3, rows=1, queries=5, release_epsilon=1.0, rho=1, floor_weight=1)
    assert plan.claims.zcdp() is not None
    run = plan.start()
    with Source(SeededEntropy("one row")) as source:
        run.learn(np.array([1, 0]), source=source)
    assert run.weights.sum() == pytest.approx(1)


def test_no_replacement_moves_the_gradient_further() -> None:
    cells, gamma = 4, 0.2
    weights = np.full(cells, gamma / cells)
    weights[0] = 1 - (cells - 1) * gamma / cells
    before, after = np.array([5, 3, 0, 0]), np.array([5, 2, 1, 0])
    moved = float(np.linalg.norm(before / weights - after / weights))
    assert moved == pytest.approx(sqrt(2) * cells / gamma)
    plan = PrivateStart(cells=cells, steps=10, rows=8, queries=4, release_epsilon=1.0, rho=1, floor_weight="0.2")
    assert plan.weight_learner.sums.sensitivity is not None
    assert float(plan.weight_learner.sums.sensitivity) >= moved * (1 - 1e-12)


def test_a_sequence_learns_where_the_mass_is_and_few_rounds_then_do() -> None:
    plan = PrivateStart(cells=4, steps=60, rows=200_000, queries=100, release_epsilon=0.05, rho=50, floor_weight="0.5")
    claim = plan.claims.zcdp()
    assert claim is not None
    assert 49 < claim.rho <= 50
    assert plan.claims.numerics == "exact"
    run = plan.start()
    assert run.weights == pytest.approx([0.25] * 4)
    with Source(SeededEntropy(0), declared="exact") as source:
        assert 1 <= run.draw_rounds(source=source) <= plan.most_rounds
        for _ in range(60):
            run.learn(np.array([120_000, 40_000, 20_000, 20_000]), source=source)
    assert run.step == 60
    assert run.weights.min() >= 0.5 / 4 * (1 - 1e-12)
    assert run.weights[0] > 0.4
    assert run.round_masses.sum() == pytest.approx(1)
    flat = np.full(plan.most_rounds, 1 / plan.most_rounds)
    best = plan.round_losses(0.0, 60)
    assert float(run.round_masses @ best) < float(flat @ best)


def test_public_parameters_are_checked() -> None:
    with pytest.raises(RangeError, match="earlier releases"):
        PrivateStart(cells=10**6, steps=10, rows=10, queries=4, release_epsilon=1.0, rho=1)
    with pytest.raises(RangeError, match="floor_weight"):
        PrivateStart(cells=4, steps=10, rows=10, queries=4, release_epsilon=1.0, rho=1, floor_weight=2)

"""Consistent margins: closed form against dense least squares, and the shares of a budget."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sidelight.summaries.count_rollup import cell_variance, component_variances, pool_margins, rollup_shares


def dense(sizes, margins):
    """Generalised least squares by matrices: the estimate of the finest table and its covariance."""
    cells = math.prod(sizes)
    rows, values, weights = [], [], []
    for axes, (table, variance) in margins.items():
        shape = tuple(sizes[i] for i in axes)
        for place in itertools.product(*(range(n) for n in shape)):
            row = np.zeros(sizes)
            row[tuple(place[axes.index(i)] if i in axes else slice(None) for i in range(len(sizes)))] = 1
            rows.append(row.ravel())
            values.append(np.asarray(table)[place])
            weights.append(1 / variance)
    design, w = np.array(rows), np.array(weights)
    covariance = np.linalg.inv(design.T @ (w[:, None] * design))
    assert covariance.shape == (cells, cells)
    return (covariance @ design.T @ (w * np.array(values))).reshape(sizes), covariance


def test_reference():
    """R7 of the specification: 3×4, σ = 1.3, .7, .9, .4 for AB, A, B and the total."""
    rng = np.random.default_rng(1)
    sizes = (3, 4)
    margins = {
        (0, 1): (rng.normal(size=(3, 4)), 1.69),
        (0,): (rng.normal(size=3), 0.49),
        (1,): (rng.normal(size=4), 0.81),
        (): (rng.normal(size=()), 0.16),
    }
    pooled = pool_margins(sizes, margins)
    assert pooled.variance((0, 1)) == pytest.approx(0.923191, abs=1e-6)
    assert pooled.variance((0,)) == pytest.approx(0.319834, abs=1e-6)
    assert pooled.variance(()) == pytest.approx(0.137208, abs=1e-6)
    table, covariance = dense(sizes, margins)
    assert pooled.table((0, 1)) == pytest.approx(table, abs=1e-12)
    assert np.diag(covariance) == pytest.approx(np.full(12, pooled.variance((0, 1))), abs=1e-12)
    assert np.linalg.eigvalsh(covariance).max() == pytest.approx(pooled.largest_eigenvalue((0, 1)), abs=1e-12)
    sums = np.kron(np.eye(3), np.ones(4))
    assert np.diag(sums @ covariance @ sums.T) == pytest.approx(np.full(3, pooled.variance((0,))), abs=1e-12)


@pytest.mark.parametrize("sizes", [(4,), (2, 3), (2, 3, 2), (1, 3), (3, 1, 2)])
def test_some_margins_measured(sizes):
    rng = np.random.default_rng(len(sizes))
    finest = tuple(range(len(sizes)))
    every = [part for k in range(len(sizes)) for part in itertools.combinations(finest, k)]
    for chosen in (every, every[:1], every[1:2], []):
        margins = {finest: (rng.normal(size=sizes), 0.7)}
        for axes in chosen:
            margins[axes] = (rng.normal(size=tuple(sizes[i] for i in axes)), float(rng.uniform(0.2, 3)))
        pooled = pool_margins(sizes, margins)
        table, covariance = dense(sizes, margins)
        assert pooled.table(finest) == pytest.approx(table, abs=1e-10)
        assert np.diag(covariance) == pytest.approx(np.full(math.prod(sizes), pooled.variance(finest)), abs=1e-10)
        for axes in every:
            outside = tuple(i for i in finest if i not in axes)
            assert pooled.table(axes) == pytest.approx(pooled.table(finest).sum(axis=outside), abs=1e-10)


def test_a_measured_margin_never_hurts():
    sizes = (3, 4)
    alone = component_variances(sizes, {(0, 1): 1.0})
    more = component_variances(sizes, {(0, 1): 1.0, (): 5.0})
    for axes in ((0, 1), (0,), (1,), ()):
        assert cell_variance(sizes, more, axes) <= cell_variance(sizes, alone, axes)


@pytest.mark.parametrize(
    ("groups", "noise", "share", "total", "cell"),
    [
        (2, "gaussian", 0.26, 1.59, 1.07),
        (5, "gaussian", 0.22, 2.67, 1.13),
        (10, "gaussian", 0.18, 3.77, 1.14),
        (100, "gaussian", 0.083, 10.85, 1.08),
        (5, "laplace", 0.0, 5.0, 1.0),
        (10, "laplace", 0.0, 10.0, 1.0),
        (100, "laplace", 0.0, 100.0, 1.0),
    ],
)
def test_reference_shares(groups, noise, share, total, cell):
    shares = rollup_shares([groups], [(0,), ()], noise=noise)
    assert float(shares[()]) == pytest.approx(share, abs=0.011)
    assert sum(shares.values()) == 1
    power = 2 if noise == "laplace" else 1
    measured = {axes: float(1 / part) ** power for axes, part in shares.items() if part}
    components = component_variances([groups], measured)
    assert cell_variance([groups], components, ()) == pytest.approx(total, abs=0.06)
    assert cell_variance([groups], components, (0,)) == pytest.approx(cell, abs=0.06)


def test_shares_follow_sensitivities():
    dear = rollup_shares([10], [(0,), ()], noise="gaussian", sensitivities={(0,): 5.0, (): 25.0})
    assert dear[()] < rollup_shares([10], [(0,), ()], noise="gaussian")[()]


@pytest.mark.parametrize(("sizes", "most"), [([30], 1.12), ([1000], 1.03), ([6, 50], 1.26)])
def test_totals_do_not_take_the_price_from_the_cells(sizes, most):
    """With equal weights half of the price went to the total: cells had twice the variance of cells alone."""
    axes = tuple(range(len(sizes)))
    wanted = [part for size in range(len(sizes), -1, -1) for part in itertools.combinations(axes, size)]
    shares = rollup_shares(sizes, wanted, noise="gaussian")
    components = component_variances(sizes, {part: 1 / float(share) for part, share in shares.items() if share})
    assert cell_variance(sizes, components, axes) < most


def test_shares_of_many_margins_beat_equal_ones():
    sizes, margins = [5, 40], [(0, 1), (0,), (1,), ()]
    shares = rollup_shares(sizes, margins, noise="gaussian")
    assert sum(shares.values()) == Fraction(1)

    def badness(parts):
        components = component_variances(sizes, {axes: 1 / float(part) for axes, part in parts.items() if part})
        return sum(
            math.sqrt(math.prod(sizes[axis] for axis in axes)) * math.log(cell_variance(sizes, components, axes))
            for axes in margins
        )

    assert badness(shares) < badness(dict.fromkeys(margins, 0.25)) + 1e-4
    rng = np.random.default_rng(3)
    for _ in range(50):
        other = {axes: max(float(part) * math.exp(rng.normal() * 0.1), 1e-9) for axes, part in shares.items()}
        total = sum(other.values())
        assert badness(shares) <= badness({axes: part / total for axes, part in other.items()}) + 1e-3

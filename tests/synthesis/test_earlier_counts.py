"""What earlier releases say of the next table: an average by inverse variances; nothing of what was never measured."""

from __future__ import annotations

import numpy as np
import pytest

import sidelight as sl
from sidelight.synthesis.domain import CellNoise, Domain, cell_deviation
from sidelight.synthesis.pooling import EarlierCounts
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.workload import Marginal
from sidelight.testing import seeded_release

DOMAIN = Domain(("a", "b"), (2, 4))
WEIGHTS = np.arange(1.0, 9.0) / 36


def release(rows: float, weights: np.ndarray = WEIGHTS) -> Fitted:
    return Fitted(domain=DOMAIN, rows=rows, space=DenseSpace(DOMAIN), weights=weights, measurements=())


def test_the_variance_is_noise_and_two_samplings_by_hand() -> None:
    known = EarlierCounts([release(500.0)], [[CellNoise(("a", "b"), 3.0)]], rows=1000.0)
    found = known.counts(Marginal(("a",)))
    assert found.means == pytest.approx([1000 * 10 / 36, 1000 * 26 / 36])
    # 4 cells of deviation 3, scaled by 2; N p (1 + 2) rows of sampling; 1
    assert found.variances == pytest.approx(4 * 9 * 4 + 3 * found.means + 1)
    grouped = known.counts(Marginal(("a", "b"), (1, 2)))
    assert grouped.variances == pytest.approx(2 * 9 * 4 + 3 * grouped.means + 1)


def test_releases_are_averaged_by_what_they_know_and_silent_where_they_know_nothing() -> None:
    other = WEIGHTS[::-1].copy()
    noises = [[CellNoise(("a", "b"), 1.0)], [CellNoise(("a", "b"), 1e6)]]
    two = EarlierCounts([release(1000.0), release(1000.0, other)], noises, rows=1000.0)
    assert two.counts(Marginal(("a", "b"))).means.ravel() == pytest.approx(1000 * WEIGHTS, rel=1e-3)
    silent = EarlierCounts([release(1000.0)], [[CellNoise(("a",), 1.0)]], rows=1000.0)
    assert np.isfinite(silent.counts(Marginal(("a",))).variances).all()
    assert np.isinf(silent.counts(Marginal(("a", "b"))).variances).all()
    assert cell_deviation(("b",), DOMAIN, [CellNoise(("a",), 1.0)]) == np.inf


def table(seed: int, *, turned: bool = False) -> sl.Table:
    rng = np.random.default_rng(seed)
    shares = np.random.default_rng(0).dirichlet(np.full(6 * 5 * 4, 0.4))
    if turned:
        shares = shares[::-1]
    a, b, c = np.unravel_index(rng.choice(120, 4000, p=shares), (6, 5, 4))
    schema = [sl.Category(name, range(size), other=None) for name, size in (("a", 6), ("b", 5), ("c", 4))]
    return sl.Table({"a": a, "b": b, "c": c}, schema=schema)


def error(found: sl.Synthetic, truth: sl.Synthetic) -> float:
    pairs = (["a", "b"], ["a", "c"], ["b", "c"])
    return float(np.mean([np.abs(found.answer(p).shares - truth.answer(p).shares).sum() for p in pairs]))  # type: ignore[union-attr]


def test_last_year_helps_and_another_population_costs_little() -> None:
    alone, with_last, with_other = [], [], []
    for seed in range(6):
        last, other = table(seed), table(seed, turned=True)
        now = table(seed + 100)
        truth = sl.Synthetic(seeded_release(sl.SyntheticTable(epsilon=10_000), now, seed=seed))
        before, strange = (
            seeded_release(sl.SyntheticTable(epsilon="0.2"), each, seed=seed + 50) for each in (last, other)
        )
        for found, prediction in ((alone, None), (with_last, before), (with_other, strange)):
            query = sl.SyntheticTable(epsilon="0.2", prediction=prediction)
            found.append(error(sl.Synthetic(seeded_release(query, now, seed=seed)), truth))
    assert np.mean(with_last) < 0.95 * np.mean(alone)
    assert np.mean(with_other) < 1.15 * np.mean(alone)

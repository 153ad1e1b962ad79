"""Pooling measured counts with public ones: better where they agree, harmless where they do not; the rule of rounds."""

from __future__ import annotations

import numpy as np
import pytest

import sidelight as sl
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import WORTHWHILE, worthwhile_rounds
from sidelight.synthesis.measurement import MarginalMeasurement
from sidelight.synthesis.pooling import CalibratedRows, calibrated, pooled
from sidelight.synthesis.prior import uniform_weights
from sidelight.synthesis.refit import Fitted, Refit
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.workload import Marginal

DOMAIN = Domain(("a", "b"), (10, 10))
ROWS, PUBLIC, DEVIATION = 20_000, 5_000, 40.0


def errors(public_share: np.ndarray, *, seed: int, trust: float = 1.0) -> tuple[float, float]:
    """Return the squared errors of the measured and of the pooled counts."""
    rng = np.random.default_rng(seed)
    shares = np.random.default_rng(0).dirichlet(np.full(100, 0.3))
    truth = rng.multinomial(ROWS, shares).reshape(10, 10)
    noisy = truth + rng.normal(0, DEVIATION, truth.shape)
    codes = DOMAIN.unravel(rng.choice(100, PUBLIC, p=public_share if len(public_share) else shares))
    measured = MarginalMeasurement(
        marginal=Marginal(("a", "b")),
        values=noisy,
        law="gaussian",
        scale=DEVIATION,
        deviation=DEVIATION,
        mean_error=32.0,
    )
    space = DenseSpace(DOMAIN)
    model = Refit(space, uniform_weights(space), rows=ROWS)
    model.add(measured)
    model.fit(sweeps=5)
    fitted = Fitted(domain=DOMAIN, rows=ROWS, space=space, weights=model.weights, measurements=(measured,))
    (after,) = pooled(fitted, calibrated(fitted, codes, trust=trust), trust=trust)
    assert (after.deviation <= DEVIATION).all()
    return float(((noisy - truth) ** 2).sum()), float(((after.values - truth) ** 2).sum())


def test_public_rows_of_the_same_population_help() -> None:
    found = np.array([errors(np.empty(0), seed=seed) for seed in range(20)])
    assert found[:, 1].mean() < 0.6 * found[:, 0].mean()


def test_a_wrong_public_table_changes_next_to_nothing() -> None:
    wrong = np.random.default_rng(7).dirichlet(np.full(100, 0.3))
    found = np.array([errors(wrong, seed=seed) for seed in range(20)])
    assert found[:, 1].mean() < 1.15 * found[:, 0].mean()


def test_other_shares_with_the_same_relations_still_help() -> None:
    shares = np.random.default_rng(0).dirichlet(np.full(100, 0.3)).reshape(10, 10)
    tilted = shares * np.exp(np.random.default_rng(3).normal(0, 0.5, (10, 1)))
    found = np.array([errors((tilted / tilted.sum()).ravel(), seed=seed) for seed in range(20)])
    assert found[:, 1].mean() < 0.8 * found[:, 0].mean()


def test_calibrated_rows_have_the_wanted_shares_and_keep_the_table_s_size() -> None:
    rng = np.random.default_rng(0)
    codes = DOMAIN.unravel(rng.integers(0, 70, 500))  # the last three values of column a have no row
    wanted = rng.dirichlet(np.ones(10)) * ROWS
    public = CalibratedRows(DOMAIN, codes, rows=ROWS)
    public.calibrate([None, wanted])
    assert public.weights.sum() == pytest.approx(ROWS)
    assert public.counts(Marginal(("b",))).means == pytest.approx(wanted, rel=1e-6)
    empty = public.counts(Marginal(("a",)))
    assert (empty.means[7:] == 0).all()
    assert (empty.variances[7:] > 0).all()  # not certainly empty
    public.calibrate([np.r_[np.zeros(7), np.full(3, ROWS / 3)], None])  # all that the public rows have nothing of
    assert public.weights == pytest.approx(np.full(500, ROWS / 500))


def test_no_trust_is_no_pooling() -> None:
    before, after = errors(np.empty(0), seed=1, trust=0.0)
    assert before == after


def test_rounds_grow_with_the_table_and_keep_the_noise_worthwhile() -> None:
    schema = sl.Schema([sl.Category(name, range(4), other=None) for name in "abcdefgh"])
    for price in ({"epsilon": 1}, {"rho": "0.1"}):
        plan = sl.SyntheticTable(**price).prepare(schema).plan  # type: ignore[arg-type]
        rounds = [worthwhile_rounds(plan, 10.0**power) for power in range(1, 8)]  # type: ignore[arg-type]
        assert rounds == sorted(rounds)
        assert (rounds[0], rounds[-1]) == (8, 28)  # the columns; all pairs
        middle = sl.SyntheticTable(rounds=20, **price).prepare(schema).plan  # type: ignore[arg-type]
        rows = middle.mean_error * middle.mean_cells / (2 * WORTHWHILE)  # type: ignore[union-attr]
        assert worthwhile_rounds(plan, rows * 1.0001) == pytest.approx(20, abs=1)  # type: ignore[arg-type]

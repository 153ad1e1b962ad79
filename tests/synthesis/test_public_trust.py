"""Weights of public rows by columns, cells and relations, from released numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

from sidelight.synthesis.domain import Domain
from sidelight.synthesis.measurement import MarginalMeasurement
from sidelight.synthesis.pooling import Doubt, calibrated, pooled, relations_explained
from sidelight.synthesis.prior import StartingPoint, product, uniform_weights
from sidelight.synthesis.refit import Fitted, Refit
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.workload import Marginal

DOMAIN = Domain(("a", "b", "c"), (6, 5, 4))
SPACE = DenseSpace(DOMAIN)
ROWS, DEVIATION = 20_000.0, 15.0
ONE_WAY = [np.random.default_rng(0).dirichlet(np.ones(size)) for size in DOMAIN.sizes]


def measured(truth: np.ndarray, *columns: str, seed: int = 0) -> MarginalMeasurement:
    marginal = Marginal(columns)
    (mass,) = SPACE.marginals(truth, [marginal])
    noisy = ROWS * mass + np.random.default_rng(seed).normal(0, DEVIATION, mass.shape)
    return MarginalMeasurement(
        marginal=marginal, values=noisy, law="gaussian", scale=DEVIATION, deviation=DEVIATION, mean_error=12.0
    )


def start(smooth: np.ndarray) -> StartingPoint:
    return StartingPoint(space=SPACE, raw=smooth, smooth=smooth, most_raw=0.9, hedge=0.05)


def related(strength: float) -> np.ndarray:
    """Return a distribution in which a and b are related, with the same one-way marginal of c."""
    pair = np.multiply.outer(ONE_WAY[0], ONE_WAY[1]) * np.exp(strength * np.random.default_rng(5).normal(0, 1, (6, 5)))
    return np.multiply.outer(pair / pair.sum(), ONE_WAY[2]).ravel()


def test_columns_that_agree_keep_the_smooth_part_and_wrong_ones_lose_it() -> None:
    truth = product(SPACE, ONE_WAY)
    held = [measured(truth, "a", "b"), measured(truth, "b", "c")]
    assert start(truth).smooth_share(held, rows=ROWS) > 0.99
    wrong = product(SPACE, [each[::-1] for each in ONE_WAY])
    assert start(wrong).smooth_share(held, rows=ROWS) < 0.25
    assert start(wrong).smooth_share([], rows=ROWS) == 1.0


def test_related_columns_do_not_discredit_right_shares() -> None:
    truth = related(1.0)
    smooth = product(SPACE, [SPACE.marginals(truth, [Marginal((name,))])[0] for name in DOMAIN.columns])
    assert start(smooth).smooth_share([measured(truth, "a", "b")], rows=ROWS) > 0.99


def test_a_power_of_a_product_says_nothing_about_relations() -> None:
    point = StartingPoint(
        space=SPACE, raw=uniform_weights(SPACE), smooth=product(SPACE, ONE_WAY), most_raw=0.0, hedge=1e-12
    )
    for share in (1.0, 0.4, 0.0):
        mixed = point.mixed(private_error=1.0, other_error=1.0, smooth_share=share)
        pair, first, second = SPACE.marginals(mixed, [Marginal(("a", "b")), Marginal(("a",)), Marginal(("b",))])
        assert pair == pytest.approx(np.multiply.outer(first, second), rel=1e-6)


def fitted_to(*held: MarginalMeasurement) -> Fitted:
    model = Refit(SPACE, uniform_weights(SPACE), rows=ROWS)
    for each in held:
        model.add(each)
    model.fit(sweeps=30)
    return Fitted(domain=DOMAIN, rows=ROWS, space=SPACE, weights=model.weights, measurements=held)


def test_relations_are_told_by_rows_of_the_same_population_only() -> None:
    truth = related(1.0)
    fitted = fitted_to(measured(truth, "a", "b"))
    (same,) = SPACE.marginals(truth, [Marginal(("a", "b"))])
    alone = np.multiply.outer(*SPACE.marginals(truth, [Marginal(("a",)), Marginal(("b",))]))
    assert relations_explained(fitted, [ROWS * same]) > 0.95
    assert relations_explained(fitted, [ROWS * alone]) < 0.1
    assert relations_explained(fitted, [ROWS * (2 * alone - same)]) == 0.0
    hidden = fitted_to(measured(product(SPACE, ONE_WAY), "a", "b"))  # nothing is related: nothing can be judged
    assert relations_explained(hidden, [ROWS * alone]) == 0.0


def test_unmeasured_marginals_are_asked_of_rows_that_told_the_measured_ones() -> None:
    rng = np.random.default_rng(1)
    truth = related(1.0)
    fitted = fitted_to(measured(truth, "a", "b"), measured(truth, "c"))
    wanted = [Marginal(("b", "c"))]
    good = DOMAIN.unravel(rng.choice(DOMAIN.cells, 4000, p=truth))
    assert len(pooled(fitted, calibrated(fitted, good), wanted=wanted)) == 3
    assert len(pooled(fitted, calibrated(fitted, good), wanted=wanted, trust=0.0)) == 2
    wrong = rng.permuted(good, axis=0)
    assert len(pooled(fitted, calibrated(fitted, wrong), wanted=wanted)) == 2


def test_doubt_is_judged_by_cells_of_the_same_kind() -> None:
    noise, variances = np.full(400, 4.0), np.r_[np.full(200, 1.0), np.full(200, 1e6)]
    means = np.r_[np.full(200, 50.0), np.zeros(200)]  # precise by its own words, and wrong; the others hide nothing
    doubt = Doubt(np.zeros(400), noise, means, variances)
    assert doubt.added(np.array([1.0]))[0] == pytest.approx(2500 - 5)
    assert doubt.added(np.array([1e6]))[0] == 0.0

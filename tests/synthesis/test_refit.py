"""The refit finds the minimum that mirror descent finds, and revives what a prior forgot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from sidelight.synthesis.domain import Domain
from sidelight.synthesis.measurement import MarginalMeasurement
from sidelight.synthesis.newton import few_cells
from sidelight.synthesis.pooling import PooledCounts
from sidelight.synthesis.prior import (
    EarlierReleases,
    FitSetting,
    GivenWeights,
    PublicRowsPrior,
    current_weights,
    uniform_weights,
)
from sidelight.synthesis.refit import Evidence, Extrapolation, NearestMarginal, Refit
from sidelight.synthesis.spaces import DenseSpace, SupportSpace
from sidelight.synthesis.workload import Marginal, marginals

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))
SPACE = DenseSpace(DOMAIN)
ROWS = 2000.0


def measured(rng: np.random.Generator, deviation: float = 8.0) -> list[MarginalMeasurement]:
    x = rng.dirichlet(np.full(DOMAIN.cells, 0.3)) * ROWS
    wanted = [*marginals(2).partitions(DOMAIN), Marginal(("b",), (2,))]
    return [
        MarginalMeasurement(
            marginal=each,
            values=exact + rng.normal(0, deviation, exact.shape),
            law="gaussian",
            scale=deviation,
            deviation=deviation,
            mean_error=deviation * np.sqrt(2 / np.pi),
        )
        for each, exact in zip(wanted, SPACE.marginals(x, wanted), strict=True)
    ]


def objective(weights: np.ndarray, prior: np.ndarray, held: Sequence[Evidence], *, tau: float) -> float:
    """F(W) as the proof page has it."""
    fitted = SPACE.marginals(weights, [each.marginal for each in held])
    misfit = sum(
        float((((ROWS * mass - each.values) / each.deviation) ** 2).sum()) / 2
        for mass, each in zip(fitted, held, strict=True)
    )
    return misfit + tau * ROWS * float((weights * np.log(weights / prior)).sum())


def mirror_descent(prior: np.ndarray, held: Sequence[Evidence], *, tau: float, steps: int) -> np.ndarray:
    """The textbook method: W ← W·exp(-a·gradient), normalised, with a step that grows by 1.4 and halves."""

    def gradient(at: np.ndarray) -> np.ndarray:
        total = tau * ROWS * np.log(at / prior)
        for mass, each in zip(SPACE.marginals(at, [one.marginal for one in held]), held, strict=True):
            part = np.ones(DOMAIN.cells)
            SPACE.multiply(part, ROWS * (ROWS * mass - each.values) / each.deviation**2, each.marginal)
            total += part
        return total - total.min()

    weights, step = prior / prior.sum(), 1.0 / ROWS
    current, slope = objective(weights, prior, held, tau=tau), gradient(weights)
    for _ in range(steps):
        trial = weights * np.exp(-step * slope)
        trial /= trial.sum()
        reached = objective(trial, prior, held, tau=tau)
        if reached <= current:
            weights, current, step, slope = trial, reached, step * 1.4, gradient(trial)
        else:
            step *= 0.5
    return weights


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("tau", [0.05, 1.0])
@pytest.mark.parametrize("cellwise", [False, True])
def test_all_methods_find_the_same_minimum(tau: float, cellwise: bool, newton: bool) -> None:
    rng = np.random.default_rng(0)
    held: list[Evidence] = list(measured(rng))
    if cellwise:
        held = [
            PooledCounts(
                marginal=each.marginal,
                values=each.values,
                deviation=rng.uniform(2, 12, each.values.shape),
                mean_error=each.mean_error,
            )
            for each in held
        ]
    prior = rng.dirichlet(np.ones(DOMAIN.cells)) * 0.9 + 0.1 / DOMAIN.cells
    refit = Refit(SPACE, prior, rows=ROWS, prior_weight=tau)
    for each in held:
        refit.add(each)
    assert few_cells(SPACE, [each.marginal for each in held])
    if newton:
        refit.settle(sweeps=1)
    else:
        refit.fit(sweeps=1000, tolerance=0.0)
    descended = mirror_descent(prior, held, tau=tau, steps=2000)
    values = [objective(w, prior, held, tau=tau) for w in (refit.weights, descended)]
    assert values[0] == pytest.approx(values[1], rel=1e-6)
    assert np.abs(refit.weights - descended).sum() < 1e-3
    for _ in range(200):  # no distribution nearby is better
        other = np.abs(refit.weights * np.exp(rng.normal(0, 0.01, DOMAIN.cells)))
        assert objective(other / other.sum(), prior, held, tau=tau) >= values[0] - 1e-9


def test_the_small_problem_is_solved() -> None:
    rng = np.random.default_rng(1)
    reference, y, deviation = rng.dirichlet(np.ones(6)), rng.normal(300, 200, 6), rng.uniform(1, 30, 6)
    p = NearestMarginal(y, deviation, rows=ROWS, prior_weight=0.05).solve(np.log(reference))

    def value(q: np.ndarray) -> float:
        return float((((ROWS * q - y) / deviation) ** 2).sum() / 2 + 0.05 * ROWS * (q * np.log(q / reference)).sum())

    assert p.sum() == pytest.approx(1)
    for _ in range(300):
        q = p * np.exp(rng.normal(0, 0.02, 6))
        assert value(q / q.sum()) >= value(p) - 1e-9


def test_an_extrapolated_linear_iteration_ends_after_as_many_steps_as_it_has_dimensions() -> None:
    rng = np.random.default_rng(3)
    rates = np.array([0.99, 0.9, 0.5])  # plain, the first one needs 900 steps for four digits
    aim, path, place = rng.normal(size=3), Extrapolation(), np.zeros(3)
    for _ in range(5):
        place = path.ahead(place, aim + rates * (place - aim))
    assert np.abs(place - aim).max() < 1e-6  # rounding, amplified by 1/(1 - 0.99) and by the least-squares problem


@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("deviation", [1e-9, 1e-3, 1.0, 1e4, 1e12])
def test_no_noise_level_overflows(deviation: float, newton: bool) -> None:
    held = measured(np.random.default_rng(2), deviation)
    refit = Refit(SPACE, uniform_weights(SPACE), rows=ROWS)
    for each in held:
        refit.add(each)
    if newton:
        refit.settle(sweeps=1)
    else:
        refit.fit(sweeps=50)
    assert np.isfinite(refit.weights).all()
    assert refit.weights.min() > 0
    assert refit.weights.sum() == pytest.approx(1)


def test_newton_ends_where_many_sweeps_do_on_chosen_rows_as_on_all_cells() -> None:
    held = measured(np.random.default_rng(4), 0.5)
    everywhere = SupportSpace(DOMAIN, DOMAIN.unravel(np.arange(DOMAIN.cells)))
    found = []
    for space, newton in ((SPACE, False), (SPACE, True), (everywhere, True)):
        refit = Refit(space, uniform_weights(space), rows=ROWS)
        for each in held:
            refit.add(each)
        if newton:
            refit.settle(sweeps=1)
        else:
            refit.fit(sweeps=5000, tolerance=1e-6)
        found.append(refit.weights)
    few = Refit(SPACE, uniform_weights(SPACE), rows=ROWS)
    for each in held:
        few.add(each)
    few.fit(sweeps=20)
    aim = objective(found[0], uniform_weights(SPACE), held, tau=0.05)
    assert [objective(each, uniform_weights(SPACE), held, tau=0.05) - aim < 1e-3 for each in [*found, few.weights]] == [
        True,
        True,
        True,
        False,
    ]


def test_many_cells_are_left_to_sweeps() -> None:
    assert not few_cells(DenseSpace(Domain(("a", "b"), (40, 30))), [Marginal(("a", "b"))])
    wide = Domain(tuple(f"c{place}" for place in range(33)), (2,) * 33)
    assert not few_cells(SupportSpace(wide, np.zeros((1, 33), np.int64)), marginals(1).partitions(wide))


SETTING = FitSetting(mean_cells=10, deviation=20.0, rows=ROWS)


def test_a_prior_without_a_cell_can_be_revived() -> None:
    given = np.zeros(DOMAIN.cells)
    given[0] = 1.0
    weights = current_weights(GivenWeights(domain=DOMAIN, given=given).start(SPACE, SETTING), SETTING)
    assert weights.min() >= 0.05 / DOMAIN.cells * (1 - 1e-12)
    assert weights[0] == pytest.approx(0.95 + 0.05 / DOMAIN.cells)


@pytest.mark.parametrize(("public_rows", "share"), [(20, 0.0), (20_000, 0.9)])
def test_small_public_samples_are_smoothed(public_rows: int, share: float) -> None:
    codes = DOMAIN.unravel(np.random.default_rng(4).integers(0, DOMAIN.cells, public_rows))
    start = PublicRowsPrior(domain=DOMAIN, codes=codes).start(SPACE, SETTING)
    found = start.raw_share(private_error=SETTING.private_error, other_error=start.own_error)
    assert found == pytest.approx(share, abs=0.05)


def test_contradicted_predictions_lose_their_weight_by_released_numbers() -> None:
    rng = np.random.default_rng(5)
    held = measured(rng)
    wrong = GivenWeights(domain=DOMAIN, given=np.arange(DOMAIN.cells) + 0.01).start(SPACE, SETTING)
    before, after = (
        wrong.raw_share(
            private_error=SETTING.private_error,
            other_error=SETTING.mean_cells * wrong.squared_bias(list(given), rows=ROWS),
        )
        for given in ((), held)
    )
    assert before == pytest.approx(0.95)
    assert after < 0.1


def test_earlier_releases_are_averaged_by_rows() -> None:
    from sidelight.synthesis.refit import Fitted

    rng = np.random.default_rng(6)
    parts = [rng.dirichlet(np.ones(DOMAIN.cells)) for _ in range(2)]
    releases = tuple(
        Fitted(domain=DOMAIN, rows=rows, space=SPACE, weights=w, measurements=())
        for w, rows in zip(parts, (100.0, 300.0), strict=True)
    )
    start = EarlierReleases(releases=releases).start(SPACE, SETTING)
    assert np.allclose(start.raw, parts[0] / 4 + parts[1] * 3 / 4)
    once = EarlierReleases(releases=releases[:1]).start(SPACE, SETTING)
    shares = [s.raw_share(private_error=SETTING.private_error, other_error=s.own_error) for s in (once, start)]
    assert shares == pytest.approx([0.45, 0.72])


def test_an_extrapolation_without_an_answer_goes_on_as_it_was() -> None:
    path = Extrapolation()
    path.ahead(np.zeros(3), np.ones(3))
    with np.errstate(all="ignore"):
        assert np.isnan(path.ahead(np.ones(3), np.full(3, np.nan))).all()

"""Objectives with a public centre, quadratic form and public rows: their certificates hold, and every fit finds one."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from test_certificates import problem

from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.regression.curator import losses_at
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.fit_core import certified_point, private_fit
from sidelight.regression.losses import (
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    PoissonLoss,
    SmoothedHingeLoss,
    SoftmaxLoss,
)
from sidelight.regression.objective import _evaluate, certify, error_bound, fine_gradient
from sidelight.regression.plan import certified, plan_linear
from sidelight.regression.public_regulariser import PublicBounds, PublicRegulariser
from sidelight.regression.rows import BoundedArrays, RowPolicy, StreamedRows
from sidelight.regression.solver import minimise, refine
from sidelight.testing import SeededEntropy

RNG = np.random.default_rng(21)
LOSSES = [
    LogisticLoss(classes=(0, 1)),
    LogCoshLoss(scale="0.3"),
    HuberLoss(threshold="0.3"),
    SmoothedHingeLoss(classes=(0, 1)),
    SoftmaxLoss(classes=(0, 1, 2)),
    PoissonLoss(largest_count=3, clip=1),
]


def known(loss, *, d=6, m=40, factor="matrix", weight=1.0, centre=3.0, intercept=1.0, seed=3):
    rng = np.random.default_rng(seed)
    columns = d + (intercept is not None)
    policy = RowPolicy(loss=loss, features=d, data_norm=Fraction(1), intercept=intercept)
    labels = rng.integers(0, loss.outputs if loss.outputs > 1 else 2, m)
    shape = {"matrix": (columns, 4), "diagonal": (columns,)}
    return PublicRegulariser(
        centre=rng.normal(size=(columns, loss.outputs)) * centre,
        factor=None if factor is None else rng.normal(size=shape[factor]) * 2,
        block=policy.block(rng.normal(size=(m, d)), labels) if m else None,
        weight=weight,
    )


def with_public(loss, n=300, **more):
    return replace(problem(loss, n=n), public=known(loss, **more))


def gradient_in_forty_digits(objective, theta):
    """The logistic one."""
    with mpmath.workdps(40):
        public = objective.public
        lam = mpmath.mpf(objective.regularisation.numerator) / objective.regularisation.denominator
        away = [mpmath.mpf(t) - mpmath.mpf(c) for t, c in zip(theta[:, 0], public.centre[:, 0], strict=True)]
        total = [lam * a + mpmath.mpf(b) for a, b in zip(away, objective.linear[:, 0], strict=True)]
        if public.factor is not None:
            factor = np.diag(public.factor) if public.factor.ndim == 1 else public.factor
            along = [
                mpmath.fsum(mpmath.mpf(b) * a for b, a in zip(column, away, strict=True))
                for column in factor.T.tolist()
            ]
            for j, row in enumerate(factor.tolist()):
                total[j] += mpmath.fsum(mpmath.mpf(b) * a for b, a in zip(row, along, strict=True))
        blocks = [(block, 1.0) for block in objective.rows.blocks()]
        if public.block is not None:
            blocks.append((public.block, public.weight))
        for block, weight in blocks:
            for x, (y,) in zip(block.features.tolist(), block.targets.tolist(), strict=True):
                row = [*x, block.intercept]
                u = mpmath.fsum(mpmath.mpf(a) * mpmath.mpf(t) for a, t in zip(row, theta[:, 0].tolist(), strict=True))
                slope = -y * mpmath.mpf(weight) / (1 + mpmath.exp(y * u))
                total = [g + slope * mpmath.mpf(a) for g, a in zip(total, row, strict=True)]
        return total


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("factor", ["matrix", "diagonal", None])
@pytest.mark.parametrize(("weight", "centre", "m"), [(1.0, 3.0, 40), (250.5, 1e3, 300), (0.01, 0.0, 0)])
def test_the_error_bound_holds_against_forty_digits(exact, factor, weight, centre, m):
    objective = with_public(LogisticLoss(classes=(0, 1)), n=60, m=m, factor=factor, weight=weight, centre=centre)
    theta = objective.public.centre + RNG.normal(size=objective.linear.shape)
    found = _evaluate(objective, theta, exact=exact)
    ideal = gradient_in_forty_digits(objective, theta)
    true = float(mpmath.sqrt(mpmath.fsum(g * g for g in ideal)))
    assert true <= found.norm + found.error
    assert found.norm <= (true + found.error) * (1 + 20 * 2.0**-53)
    assert found.error <= (1e-11 if exact else 1e-5)
    if exact:
        gradient, rows = fine_gradient(objective, DoubleDouble.of(theta))
        assert rows == 60  # private ones alone are counted
        for got, g in zip(gradient[:, 0].tolist(), ideal, strict=True):
            assert abs(got - g) <= found.error + abs(g) * 2.0**-53


def test_the_error_bound_counts_what_is_public():
    """A planted bug: without the terms of the quadratic form and of the public rows the bound would be too small."""
    objective = with_public(LogisticLoss(classes=(0, 1)), n=5, m=300, weight=1e6, centre=1e4)
    theta = objective.public.centre + 1.0
    alone = error_bound(replace(objective, public=None), theta - objective.public.centre, rows=5)
    assert error_bound(objective, theta, rows=5) > 1e6 * alone
    ideal = gradient_in_forty_digits(objective, theta)
    gradient = objective.gradient(theta)
    off = max(abs(float(g - mpmath.mpf(float(found)))) for g, found in zip(ideal, gradient[:, 0], strict=True))
    assert alone < off <= error_bound(objective, theta, rows=5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("factor", ["matrix", "diagonal", None])
def test_gradient_and_hessian_belong_together(loss, factor):
    objective = with_public(loss, factor=factor, weight=2.5, centre=0.3)
    theta, vector = RNG.normal(size=(2, *objective.linear.shape)) * 0.4
    gradient, hessian = objective.gradient_and_hessian(theta)
    np.testing.assert_allclose(gradient, objective.gradient(theta), atol=1e-9)
    np.testing.assert_allclose(
        (hessian @ vector.ravel()).reshape(theta.shape), objective.hessian_times(theta, vector), atol=1e-9
    )
    # the certificates' gradients are the same, and the curvature is the derivative of the gradient
    np.testing.assert_allclose(fine_gradient(objective, DoubleDouble.of(theta))[0], gradient, atol=1e-9)
    step = 1e-6
    change = (objective.gradient(theta + step * vector) - objective.gradient(theta - step * vector)) / (2 * step)
    if loss.name in ("logistic", "softmax", "log_cosh"):  # the others have kinks
        np.testing.assert_allclose(change, objective.hessian_times(theta, vector), rtol=1e-4, atol=1e-4)
    assert np.linalg.eigvalsh(hessian)[0] >= float(objective.regularisation) * (1 - 1e-9)
    assert np.linalg.eigvalsh(hessian)[-1] <= objective.smoothness()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("how", ["auto", "newton_cg", "accelerated"])
def test_every_minimiser_finds_a_certified_point(loss, how):
    objective = with_public(loss, weight=3.0)
    tolerance = 1e-6
    point = certified_point(objective, tolerance=tolerance, exponent=-60, solver=how)
    assert certify(objective, point.high, tolerance=tolerance).proves(2 * tolerance)
    fine = refine(objective, np.full_like(objective.linear, np.nan), goal=tolerance / 4)
    np.testing.assert_allclose(fine.high, point.high, atol=1e-5)


def test_samples_and_streams_give_the_same_minimum():
    loss = LogisticLoss(classes=(0, 1))
    public = known(loss, weight=2.0)
    rng = np.random.default_rng(4)
    rows, labels = rng.normal(size=(40_000, 6)), rng.integers(0, 2, 40_000)
    policy = RowPolicy(loss=loss, features=6, data_norm=Fraction(1), intercept=1.0)
    memory = replace(problem(loss), rows=BoundedArrays(rows, labels, policy=policy), public=public)
    streamed = replace(
        memory,
        rows=StreamedRows(lambda: [(rows[:25_000], labels[:25_000]), (rows[25_000:], labels[25_000:])], policy=policy),
    )
    np.testing.assert_allclose(minimise(memory, goal=1e-8), minimise(streamed, goal=1e-8), atol=1e-9)


def test_public_rows_are_rows():
    """Pooled rows of weight 1 have the same minimum as private rows; a centre is a change of variable."""
    loss = LogisticLoss(classes=(0, 1))
    rng = np.random.default_rng(5)
    rows, labels = rng.normal(size=(500, 6)), rng.integers(0, 2, 500)
    policy = RowPolicy(loss=loss, features=6, data_norm=Fraction(1), intercept=1.0)
    whole = replace(problem(loss), rows=BoundedArrays(rows, labels, policy=policy))
    pooled = PublicRegulariser(centre=np.zeros_like(whole.linear), block=policy.block(rows[:200], labels[:200]))
    parted = replace(whole, rows=BoundedArrays(rows[200:], labels[200:], policy=policy), public=pooled)
    np.testing.assert_allclose(minimise(whole, goal=1e-9), minimise(parted, goal=1e-9), atol=1e-9)
    empty = BoundedArrays(rows[:0], labels[:0], policy=policy)
    centre = PublicRegulariser(centre=rng.normal(size=whole.linear.shape))
    found = minimise(replace(whole, rows=empty, public=centre), goal=1e-10)
    np.testing.assert_allclose(found, centre.centre - whole.linear / float(whole.regularisation), atol=1e-8)


def test_losses_of_people_know_the_public_curvature():
    """Formula (1) against the ratio of densities, by finite differences, with a public regulariser."""
    objective = with_public(LogisticLoss(classes=(0, 1)), n=30, weight=2.0, centre=0.5)
    theta = minimise(objective, goal=1e-11)
    objective = replace(objective, linear=objective.linear - objective.gradient(theta))  # theta is the minimum now
    policy = RowPolicy(loss=objective.loss, features=6, data_norm=Fraction(1), intercept=1.0)
    row = policy.block(RNG.normal(size=(1, 6)), np.array([1]))
    sigma = 4.0
    (told,) = losses_at(objective, theta, row, sigma=sigma, sign=1)

    def log_density(rows):
        pulled = replace(objective, rows=rows, linear=np.zeros_like(objective.linear))
        gradient, hessian = pulled.gradient_and_hessian(theta)
        return -float(np.sum(gradient**2)) / (2 * sigma**2) + np.linalg.slogdet(hessian)[1]

    class Both:
        in_memory = True

        def blocks(self):
            return iter([*objective.rows.blocks(), row])

    assert told == pytest.approx(log_density(objective.rows) - log_density(Both()), abs=1e-8)


def planned(loss, bounds):
    """Plan a fit whose coefficients are known within bounds."""
    plan = plan_linear(loss=loss, features=4, epsilon=1, delta="1e-6", data_norm=1)
    return certified(plan, tolerance_is_given=False, known=bounds)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_plans_certify_every_fit_within_their_bounds(loss):
    public = known(loss, d=4, m=50, factor="diagonal", weight=1.0, centre=10.0)
    plan = planned(loss, public.bounds)
    for n in (0, 1, 500):
        rows = BoundedArrays(RNG.normal(size=(n, 4)), RNG.integers(0, 2, n), policy=plan.policy)
        with Source(SeededEntropy(f"public {loss.name} {n}")) as source:
            fit = private_fit(plan, rows, source=source, public=public)
        certificate = certify(fit.objective, fit.point, tolerance=float(plan.mechanism.tolerance))
        assert certificate.norm <= float(plan.mechanism.tolerance) * 1.01
        assert np.isfinite(fit.released).all()


def test_the_claims_do_not_depend_on_what_is_public():
    loss = LogisticLoss(classes=(0, 1))
    plain = plan_linear(loss=loss, features=4, epsilon=1, delta="1e-6", data_norm=1)
    public = planned(loss, known(loss, d=4, m=50, factor=None).bounds)
    assert public.mechanism == plain.mechanism
    assert public.claims == plain.claims


def test_what_cannot_be_certified_is_refused_before_the_fit():
    loss = LogisticLoss(classes=(0, 1))
    far = replace(known(loss, d=4, m=0, factor=None), centre=np.full((5, 1), 1e29))
    heavy = replace(known(loss, d=4, m=50, factor=None), weight=1e28)
    for bounds in (far.bounds, heavy.bounds, PublicBounds(square=1e30, columns=5)):
        with pytest.raises(RangeError, match="cannot be certified"):
            planned(loss, bounds)
    for wrong in ({"weight": -1.0}, {"weight": float("nan")}, {"centre": np.full((5, 1), np.inf)}):
        with pytest.raises(RangeError, match="finite"):
            replace(known(loss, d=4), **wrong)

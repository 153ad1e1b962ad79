"""The certificate: its error bound holds, a stalled solver switches to the fallback, nothing uncertified leaves."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sidelight.errors import NotCertifiedError, ReleaseFailedError
from sidelight.mechanisms.objective_perturbation import grid_exponent
from sidelight.noise import Source
from sidelight.regression import fit_core, solver
from sidelight.regression.double_double import DoubleDouble
from sidelight.regression.fit_core import certified_minimum, certified_point, private_fit
from sidelight.regression.losses import HuberLoss, LogCoshLoss, LogisticLoss, SmoothedHingeLoss, SoftmaxLoss
from sidelight.regression.objective import Objective, _evaluate, certify, error_bound, fine_gradient
from sidelight.regression.plan import plan_linear
from sidelight.regression.rows import BoundedArrays, RowPolicy, StreamedRows
from sidelight.regression.solver import accelerated, minimise, newton, refine
from sidelight.testing import SeededEntropy


def problem(loss, n=500, d=6, seed=0, *, intercept=1.0, lam="1", scale=1.0, labels=None):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * scale
    if labels is None:
        labels = rng.integers(0, loss.outputs if loss.outputs > 1 else 2, n)
    policy = RowPolicy(loss=loss, features=d, data_norm=Fraction(1), intercept=intercept)
    row_norm = Fraction("1.41421356237309505") if intercept else Fraction(1)
    size = (d + (intercept is not None), loss.outputs)
    return Objective(
        rows=BoundedArrays(rows, labels, policy=policy),
        loss=loss,
        row_norm=row_norm,
        regularisation=Fraction(lam),
        linear=rng.normal(size=size) * 4,
    )


def true_gradient_logistic(objective, theta):
    """The gradient of the ideal objective in forty digits."""
    with mpmath.workdps(40):
        lam = mpmath.mpf(objective.regularisation.numerator) / objective.regularisation.denominator
        both = zip(theta[:, 0].tolist(), objective.linear[:, 0].tolist(), strict=True)
        total = [lam * mpmath.mpf(t) + mpmath.mpf(b) for t, b in both]
        for block in objective.rows.blocks():
            for x, (y,) in zip(block.features.tolist(), block.targets.tolist(), strict=True):
                row = [*x, block.intercept] if block.intercept is not None else x
                u = mpmath.fsum(mpmath.mpf(a) * mpmath.mpf(t) for a, t in zip(row, theta[:, 0].tolist(), strict=True))
                slope = -y / (1 + mpmath.exp(y * u))
                total = [g + slope * a for g, a in zip(total, row, strict=True)]
        return total


@pytest.mark.parametrize("intercept", [None, 0.5])
@pytest.mark.parametrize(
    "loss",
    [
        LogisticLoss(classes=(0, 1), class_weights=(1, 3)),
        SoftmaxLoss(classes=(0, 1, 2), class_weights=(1, 2, 3)),
        SoftmaxLoss(classes=(0, 1, 2)),
    ],
    ids=["logistic", "weighted_softmax", "softmax"],
)
def test_the_hessian_is_that_of_its_products(loss, intercept):
    objective = problem(loss, intercept=intercept)
    rng = np.random.default_rng(1)
    theta, vector = rng.normal(size=(2, *objective.linear.shape))
    gradient, hessian = objective.gradient_and_hessian(theta)
    np.testing.assert_allclose((hessian @ vector.ravel()).reshape(theta.shape), objective.hessian_times(theta, vector))
    np.testing.assert_allclose(gradient, objective.gradient(theta))
    np.testing.assert_array_equal(hessian, objective.hessian(theta))
    far = newton(objective, np.zeros_like(theta), goal=1e-9)
    assert np.linalg.norm(objective.gradient(far)) <= 1e-9


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("size", [0.0, 1.0, 300.0])
def test_error_bound_holds_against_forty_digits(exact, size):
    objective = problem(LogisticLoss(classes=(0, 1)), n=700)
    theta = np.random.default_rng(1).normal(size=objective.linear.shape) * size
    found = _evaluate(objective, theta, exact=exact)
    ideal = true_gradient_logistic(objective, theta)
    true = float(mpmath.sqrt(mpmath.fsum(g * g for g in ideal)))
    assert true <= found.norm + found.error
    assert found.norm <= (true + found.error) * (1 + 20 * 2.0**-53)
    assert found.error <= (1e-13 if exact else 1e-9)
    if exact:
        gradient, rows = fine_gradient(objective, DoubleDouble.of(theta))
        assert rows == 700
        for got, g in zip(gradient[:, 0].tolist(), ideal, strict=True):
            assert abs(got - g) <= found.error + abs(g) * 2.0**-53


def test_with_twice_the_digits_the_bound_hardly_grows_with_the_rows():
    objective = problem(LogisticLoss(classes=(0, 1)), d=60)
    theta = np.ones_like(objective.linear) * 50
    assert error_bound(objective, theta, rows=10**6, exact=True) < 1e-6 * error_bound(objective, theta, rows=10**6)
    assert error_bound(objective, theta, rows=10**9, exact=True) < 1e-12


def test_error_bound_at_the_reference_size():
    """n = 1e6, d = 100, |theta| = 10, logistic, R = 1: the specification's formula gives 3e-7."""
    objective = problem(LogisticLoss(classes=(0, 1)), d=100, intercept=None)
    theta = np.full((100, 1), 1.0)
    bound = error_bound(objective, theta, rows=10**6)
    assert 2e-8 < bound < 3e-7


@pytest.mark.parametrize(
    "loss",
    [
        LogisticLoss(classes=(0, 1)),
        LogCoshLoss(scale="0.3"),
        HuberLoss(threshold="0.3"),
        SmoothedHingeLoss(classes=(0, 1)),
        SoftmaxLoss(classes=(0, 1, 2)),
    ],
    ids=lambda loss: loss.name,
)
@pytest.mark.parametrize("how", ["auto", "newton_cg", "accelerated"])
def test_every_solver_reaches_the_same_certified_point(loss, how):
    objective = problem(loss, n=300)
    tolerance = 1e-6
    point = certified_minimum(objective, tolerance=tolerance, exponent=-52, solver=how)
    reference = accelerated(objective, np.zeros_like(point), goal=1e-9)
    assert certify(objective, point, tolerance=tolerance).proves(tolerance)
    assert np.linalg.norm(point - reference) <= 1.001 * tolerance / float(objective.regularisation) + 1e-9
    assert not certify(objective, point + 1e-3, tolerance=tolerance).proves(tolerance)


@pytest.mark.parametrize("broken", [np.nan, np.inf, 3.0, 1e12])
def test_a_solver_that_stalls_is_followed_by_one_that_does_not(monkeypatch, broken):
    objective = problem(LogisticLoss(classes=(0, 1)))
    monkeypatch.setattr(fit_core, "minimise", lambda objective, **_: np.full_like(objective.linear, broken))
    point = certified_point(objective, tolerance=1e-6, exponent=-52)
    assert certify(objective, point, tolerance=1e-6).proves(1e-6)
    floats = certified_minimum(objective, tolerance=1e-6, exponent=-52)
    assert certify(objective, floats, tolerance=1e-6).proves(1e-6)


def test_without_any_newton_step_the_last_stage_still_ends(monkeypatch):
    """The part that Theorem 5 rests on, alone: Nesterov's method with twice the digits, from far away."""
    objective = problem(HuberLoss(threshold="0.3"), n=60, d=2)
    monkeypatch.setattr(solver, "_MOST_STEPS", 0)
    point = refine(objective, np.full_like(objective.linear, 1e9), goal=1e-12)
    assert certify(objective, point, tolerance=2e-12).norm <= 1.01e-12


@pytest.mark.parametrize("broken", [np.nan, np.inf, 7.0])
def test_when_nothing_can_be_certified_nothing_is_released(monkeypatch, broken):
    """Both solvers sabotaged: an error without numbers, no coefficients, and exactly one draw of the linear term."""
    draws = []
    real = fit_core.linear_term

    def counted(*arguments):
        draws.append(1)
        return real(*arguments)

    monkeypatch.setattr(fit_core, "linear_term", counted)
    monkeypatch.setattr(fit_core, "minimise", lambda objective, **_: np.full_like(objective.linear, broken))
    lost = DoubleDouble.of(np.full((4, 1), broken))
    monkeypatch.setattr(fit_core, "refine", lambda *_, **__: lost)
    rows, labels = np.random.default_rng(0).normal(size=(50, 3)), np.arange(50) % 2
    plan = plan_linear(loss=LogisticLoss(classes=(0, 1)), features=3, epsilon=1, delta="1e-6", data_norm=1)
    with Source(SeededEntropy(0)) as source, pytest.raises(NotCertifiedError) as caught:
        private_fit(plan, BoundedArrays(rows, labels, policy=plan.policy), source=source)
    assert len(draws) == 1
    assert isinstance(caught.value, ReleaseFailedError)
    assert not any(character.isdigit() for character in str(caught.value))


def test_newton_may_stall_and_then_says_where_it_stands(monkeypatch):
    objective = problem(HuberLoss(threshold="0.3"))
    monkeypatch.setattr(solver, "_direction", lambda *_: None)
    start = np.zeros_like(objective.linear)
    assert (newton(objective, start, goal=1e-9) == start).all()
    assert (minimise(objective, goal=1e-9) == start).all()


def test_adversarial_rows_are_certified_with_twice_the_digits(monkeypatch):
    """Separable rows with hardly any regularisation: large coefficients, where the plain bound is too coarse."""
    from sidelight.regression import objective as certificate

    n, d = 1000, 120
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    labels = (rows[:, 0] > 0).astype(int)
    loss = LogisticLoss(classes=(0, 1))
    policy = RowPolicy(loss=loss, features=d, data_norm=Fraction(1), intercept=None)
    objective = Objective(
        rows=BoundedArrays(rows, labels, policy=policy),
        loss=loss,
        row_norm=Fraction(1),
        regularisation=Fraction(1, 100),
        linear=rng.normal(size=(d, 1)),
    )
    used = []
    real = certificate._evaluate

    def counted(objective, theta, *, exact):
        used.append(exact)
        return real(objective, theta, exact=exact)

    monkeypatch.setattr(certificate, "_evaluate", counted)
    tolerance = 5e-11
    point = certified_minimum(objective, tolerance=tolerance, exponent=-60)
    assert used == [False, True]
    assert certify(objective, point, tolerance=tolerance).proves(tolerance)


def test_no_records_at_all_still_gives_a_certified_point():
    loss = LogisticLoss(classes=(0, 1))
    plan = plan_linear(loss=loss, features=3, epsilon=1, delta="1e-6", data_norm=1)
    with Source(SeededEntropy(4)) as source:
        empty = private_fit(plan, BoundedArrays(np.zeros((0, 3)), np.zeros(0), policy=plan.policy), source=source)
    assert np.isfinite(empty.released).all()
    with Source(SeededEntropy(4)) as source:
        stream = private_fit(plan, StreamedRows(list, policy=plan.policy), source=source)
    assert (stream.released == empty.released).all()


def test_grid_is_fine_enough_for_the_certificate():
    plan = plan_linear(loss=LogisticLoss(classes=(0, 1)), features=3, epsilon="0.1", delta="1e-6", data_norm=1)
    assert math.ldexp(1.0, grid_exponent(plan.mechanism.output_noise_scale)) < 1e-15

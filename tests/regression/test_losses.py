"""Losses: slope and curvature against finite differences, and every constant that the privacy proof uses."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.regression.losses import (
    ClippedSquaredLoss,
    HuberLoss,
    LogCoshLoss,
    LogisticLoss,
    PoissonLoss,
    SmoothedHingeLoss,
    SoftmaxLoss,
)

LOSSES = {
    "logistic": LogisticLoss(classes=(0, 1)),
    "weighted": LogisticLoss(classes=(0, 1), class_weights=("0.5", 2)),
    "log_cosh": LogCoshLoss(scale="0.4"),
    "huber": HuberLoss(threshold="0.7"),
    "squared": ClippedSquaredLoss(clip="0.8"),
    "hinge": SmoothedHingeLoss(classes=(0, 1), width="0.5"),
    "poisson": PoissonLoss(largest_count=6, clip=2),
    "softmax": SoftmaxLoss(classes=("a", "b", "c", "d")),
    "weighted_softmax": SoftmaxLoss(classes=("a", "b", "c", "d"), class_weights=("0.5", 1, 2, 3)),
}
ROW_NORM = Fraction(3, 2)


def labels_for(name, n, rng):
    if name in ("logistic", "weighted", "hinge"):
        return rng.integers(0, 2, n)
    if name in ("softmax", "weighted_softmax"):
        return rng.choice(["a", "b", "c", "d"], n)
    return rng.uniform(-1, 8, n)


def sample(name, n, seed, *, spread=4.0):
    rng = np.random.default_rng(seed)
    loss = LOSSES[name]
    targets, keep = loss.admit(labels_for(name, n, rng))
    assert keep.all()
    predictor = rng.normal(size=(n, loss.outputs)) * spread
    norms = rng.uniform(0.05, 1.5, (n, 1))
    return loss, predictor, targets, norms


@pytest.mark.parametrize("name", LOSSES)
def test_slope_is_the_derivative_of_the_value(name):
    loss, u, t, norms = sample(name, 4000, 1)
    h = 1e-6
    slope = loss.first_derivative(u, t, norms)
    for k in range(loss.outputs):
        step = np.zeros_like(u)
        step[:, k] = h
        change = (loss.value(u + step, t, norms) - loss.value(u - step, t, norms)) / (2 * h)
        size = 1 + np.abs(loss.value(u, t, norms))
        assert np.abs(change - slope[:, k]).max(initial=0.0) <= 2e-8 * size.max()


@pytest.mark.parametrize("name", LOSSES)
def test_the_second_derivative_is_the_derivative_of_the_first(name):
    loss, u, t, norms = sample(name, 4000, 2)
    rng = np.random.default_rng(3)
    along = rng.normal(size=u.shape)
    h = 1e-6
    change = (loss.first_derivative(u + h * along, t, norms) - loss.first_derivative(u - h * along, t, norms)) / (2 * h)
    bend = loss.second_derivative(u, t, norms, along)
    # at a kink of the slope the difference is half; there are few records within 1e-6 of one
    off = np.abs(change - bend).max(axis=1) > 1e-7 * (1 + np.abs(bend).max(axis=1))
    assert off.sum() <= 2


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(LOSSES)), seed=st.integers(0, 10**6), spread=st.sampled_from([0.3, 3.0, 40.0]))
def test_constants_bound_slope_and_curvature(name, seed, spread):
    loss, u, t, norms = sample(name, 400, seed, spread=spread)
    shape = loss.shape(ROW_NORM)
    slope = np.linalg.norm(loss.first_derivative(u, t, norms), axis=1) * norms[:, 0]
    assert slope.max() <= float(shape.gradient) * (1 + 1e-12)
    if loss.outputs == 1:
        curvature = loss.second_derivative(u, t, norms, np.ones_like(u))[:, 0] * norms[:, 0] ** 2
    else:
        rng = np.random.default_rng(seed)
        along = rng.normal(size=u.shape)
        along /= np.linalg.norm(along, axis=1, keepdims=True)
        curvature = np.sum(along * loss.second_derivative(u, t, norms, along), axis=1) * norms[:, 0] ** 2
    assert curvature.min() >= -1e-12
    assert curvature.max() <= float(shape.curvature) * (1 + 1e-12)
    share = slope / float(shape.gradient)
    if shape.envelope == "logistic":
        assert (curvature <= 4 * float(shape.curvature) * share * (1 - share) + 1e-9).all()
    if shape.envelope == "log_cosh":
        assert (curvature <= float(shape.curvature) * (1 - share**2) + 1e-9).all()
    if shape.sign_definite:
        again = loss.first_derivative(u + 3.0, t, norms)
        assert (again * loss.first_derivative(u, t, norms) >= 0).all()


def test_the_bounds_are_reached():
    """A constant that nothing reaches would be too large: these are attained at the full norm."""
    norms = np.full((2001, 1), 1.5)
    grid = np.linspace(-12, 12, 2001)[:, None]
    for name, target in (("logistic", 1.0), ("log_cosh", 0.0), ("huber", 0.0), ("squared", 0.0), ("hinge", 1.0)):
        loss, t = LOSSES[name], np.full((2001, 1), target)
        shape = loss.shape(ROW_NORM)
        slope = np.abs(loss.first_derivative(grid, t, norms)).max() * 1.5
        bend = loss.second_derivative(grid, t, norms, np.ones_like(grid)).max() * 1.5**2
        assert slope == pytest.approx(float(shape.gradient), rel=1e-4)
        assert bend == pytest.approx(float(shape.curvature), rel=1e-3)


def test_clipped_squared_loss_reference():
    """|x| = 0.5, C = 1, y = 0.3: u_H = 2.3, f(4) = 5.4; the formula as printed gives 3.4 and a jump."""
    loss = ClippedSquaredLoss(clip=1)
    norm, target = np.array([[0.5]]), np.array([[0.3]])
    assert loss.value(np.array([[4.0]]), target, norm)[0] == pytest.approx(5.4)
    assert loss.first_derivative(np.array([[2.3 - 1e-9]]), target, norm)[0, 0] == pytest.approx(2.0)
    assert loss.first_derivative(np.array([[9.0]]), target, norm)[0, 0] == 2.0


def test_softmax_slope_near_certainty_keeps_its_digits():
    loss = SoftmaxLoss(classes=(0, 1))
    slope = loss.first_derivative(np.array([[40.0, 0.0]]), np.array([[0.0]]), np.ones((1, 1)))
    assert slope[0, 1] == pytest.approx(np.exp(-40.0), rel=1e-12)
    assert slope[0].sum() == 0


def test_unknown_labels_and_missing_numbers_drop_their_record():
    targets, keep = LogisticLoss(classes=("no", "yes")).admit(np.array(["yes", "perhaps", "no"]))
    assert keep.tolist() == [True, False, True]
    assert targets[[0, 2], 0].tolist() == [1.0, -1.0]
    _, keep = LogisticLoss(classes=("no", "yes")).admit(np.array([1, 2]))
    assert not keep.any()
    # one odd item in a list must not change how the others are read
    _, keep = LogisticLoss(classes=(0, 1)).admit([0, 1, "x", None])
    assert keep.tolist() == [True, True, False, False]
    targets, keep = HuberLoss().admit([1.0, float("nan"), float("inf"), -2.0])
    assert keep.tolist() == [True, False, False, True]
    _, keep = HuberLoss().admit(np.array([1.5, None, "x"], dtype=object))
    assert keep.tolist() == [True, False, False]
    targets, _ = HuberLoss(target_range=(-1, 1)).admit([5.0, -0.5])
    assert targets[:, 0].tolist() == [1.0, -0.5]
    targets, _ = PoissonLoss(largest_count=6).admit([9.0, -3.0])
    assert targets[:, 0].tolist() == [6.0, 0.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogisticLoss(classes=(1, 1)),
        lambda: LogisticLoss(classes=(0, 1), class_weights=(0, 1)),
        lambda: SmoothedHingeLoss(classes=(0, 1), width=0),
        lambda: SoftmaxLoss(classes=("a",)),
        lambda: HuberLoss(threshold=-1),
        lambda: HuberLoss(target_range=(1, 1)),
        lambda: PoissonLoss(largest_count=0),
        lambda: ClippedSquaredLoss(clip=0),
    ],
)
def test_parameters_without_a_finite_bound_are_refused(make):
    with pytest.raises(RangeError):
        make()


def test_constants_in_closed_form():
    r = Fraction(2)
    assert LogisticLoss(classes=(0, 1)).shape(r).curvature == 1
    assert LOSSES["weighted"].shape(r).gradient == 4
    assert HuberLoss(threshold="0.5").shape(r).gradient == 1
    assert ClippedSquaredLoss(clip=3).shape(r).gradient == 3
    assert SmoothedHingeLoss(classes=(0, 1), width="0.5").shape(r).curvature == 4
    assert PoissonLoss(largest_count=6, clip=2).shape(r).curvature == 28
    joint = SoftmaxLoss(classes=(0, 1, 2)).shape(r)
    assert joint.classes == 3
    assert joint.gradient**2 >= 8
    assert float(joint.gradient) == pytest.approx(2 * 2**0.5)


@pytest.mark.parametrize("name", LOSSES)
def test_public_parameters_are_strings(name):
    assert all(isinstance(v, str) for v in LOSSES[name].to_json().values())


def test_odd_labels_drop_their_record_and_raise_for_nobody() -> None:
    from sidelight.regression.losses.loss import numbers_of, positions_of

    class Incomparable:
        def __eq__(self, other: object) -> bool:
            raise TypeError("no")

        __hash__ = None  # type: ignore[assignment]

    _, kept = positions_of([0, 1, Incomparable(), None, "x", 1.0], (0, 1))
    assert kept.tolist() == [True, True, False, False, False, True]
    _, kept = numbers_of([1, 10**400, Incomparable(), None, "2", float("inf")])
    assert kept.tolist() == [True, False, False, False, True, False]


def test_a_softmax_of_ten_classes_needs_6_48_of_noise():
    """One model per class would need 11.80, the Gaussian mechanism's noise for the square root of ten gradients."""
    shape = SoftmaxLoss(classes=tuple(range(10))).shape(Fraction(1))
    found = calibrate_objective(shape, epsilon=1, delta=Fraction(1, 10**5), regularisation=10)
    assert float(found.noise_scale) == pytest.approx(6.48, abs=0.01)

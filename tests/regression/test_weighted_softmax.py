"""Weights of a softmax: the steps of the privacy proof, by random search, and that the weight is needed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.mechanisms.objective_perturbation import ObjectivePerturbation, curvature_shift
from sidelight.regression.losses import SoftmaxLoss

CLASSES = ("a", "b", "c", "d")
WEIGHTS = (Fraction(1, 2), 1, 3, 2)
WEIGHTED = SoftmaxLoss(classes=CLASSES, class_weights=WEIGHTS)
ROW_NORM = Fraction(3, 2)
SIGMA = 2.0


def records(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slopes of extreme records: rows of full length and predictors far out, where the bounds are reached."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(0, 4, (n, 1)).astype(float)
    predictor = rng.normal(size=(n, 4)) * rng.choice([0.5, 5.0, 60.0], (n, 1))
    length = float(ROW_NORM) * rng.choice([0.2, 1.0], (n, 1), p=[0.2, 0.8])
    return predictor, targets, length, rng.normal(size=(n, 4)) * SIGMA


def losses_over_bound(loss: SoftmaxLoss, shape_of: SoftmaxLoss, *, sign: int) -> float:
    """Give the largest excess of the linear and square part of the privacy loss over max(0, Z₁, …, Z_{K-1})."""
    predictor, targets, length, noise = records(20_000, 1)
    gradient = loss.first_derivative(predictor, targets, length) * length
    along = sign * np.sum(gradient * noise, axis=1)
    found = (np.sum(gradient**2, axis=1) + 2 * along) / (2 * SIGMA**2)
    reach = float(shape_of.shape(ROW_NORM).gradient) / np.sqrt(2)  # WR
    own = np.take_along_axis(noise, targets.astype(int), axis=1)
    others = (2 * reach**2 + 2 * reach * sign * (noise - own)) / (2 * SIGMA**2)
    np.put_along_axis(others, targets.astype(int), 0.0, axis=1)  # and the 0 of the maximum
    return float(np.max(found - others.max(axis=1)))


@pytest.mark.parametrize("sign", [1, -1])
def test_the_privacy_loss_is_below_its_bound(sign: int) -> None:
    assert losses_over_bound(WEIGHTED, WEIGHTED, sign=sign) <= 1e-9


@pytest.mark.parametrize("sign", [1, -1])
def test_the_control_without_its_weight_the_bound_fails(sign: int) -> None:
    assert losses_over_bound(WEIGHTED, SoftmaxLoss(classes=CLASSES), sign=sign) > 0.1


def test_the_log_determinant_is_below_its_bound() -> None:
    predictor, targets, length, _ = records(3000, 2)
    lam = Fraction(1, 2)
    bound = float(curvature_shift(WEIGHTED.shape(ROW_NORM), lam))
    unit = np.eye(4)
    bends = np.stack(
        [WEIGHTED.second_derivative(predictor, targets, length, np.tile(e, (3000, 1))) for e in unit], axis=2
    )
    found = np.linalg.slogdet(np.eye(4) + bends * (length**2 / float(lam))[:, :, None])[1]
    assert found.max() <= bound
    flat = SoftmaxLoss(classes=CLASSES, class_weights=(3,) * 4)  # reached where all classes are equally likely
    bends = np.stack(
        [flat.second_derivative(np.zeros((1, 4)), np.zeros((1, 1)), length[:1], e[None]) for e in unit], axis=2
    )
    full = np.linalg.slogdet(np.eye(4) + bends[0] * float(ROW_NORM**2 / lam))[1]
    assert full == pytest.approx(bound, rel=1e-9)
    assert full > float(curvature_shift(SoftmaxLoss(classes=CLASSES).shape(ROW_NORM), lam)) * 1.2  # the control


def test_weights_scale_both_constants() -> None:
    plain, weighted = (loss.shape(ROW_NORM) for loss in (SoftmaxLoss(classes=CLASSES), WEIGHTED))
    assert float(weighted.gradient) == pytest.approx(3 * float(plain.gradient), rel=1e-15)
    assert weighted.curvature == 3 * plain.curvature
    assert weighted.classes == plain.classes
    same = ObjectivePerturbation(shape=plain, noise_scale=Fraction(20), regularisation=Fraction(30))
    tripled = ObjectivePerturbation(shape=weighted, noise_scale=Fraction(60), regularisation=Fraction(90))
    for this, other in zip(same.deltas(1), tripled.deltas(1), strict=True):
        assert float(this) == pytest.approx(float(other), rel=1e-9)


def test_weights_that_make_no_sense() -> None:
    with pytest.raises(RangeError, match="weights"):
        SoftmaxLoss(classes=CLASSES, class_weights=(1, 2))
    with pytest.raises(RangeError, match="class weight"):
        SoftmaxLoss(classes=CLASSES, class_weights=(1, 2, 0, 1))

"""The privacy profile of objective perturbation in each direction: a record removed, a record added.

The directions differ: only the removal of a record pays for its curvature (objective-perturbation proof page,
Theorem 1). Everything here is a function of public numbers.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    EnvelopeCurve,
    HalfNormalCurve,
    HingedGaussianCurve,
    HingedGaussiansCurve,
    ProfileCurve,
    short_text,
)
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation.shape import LossShape

Bound = Literal["tight", "generic", "thesis"]


def remove_curve(
    shape: LossShape, *, mu: Fraction, regularisation: Fraction, output_mu: Fraction, bound: Bound
) -> ProfileCurve:
    """Bound the loss of the fit with a record against the fit without it."""
    if bound == "thesis":
        return HalfNormalCurve(mu, thesis_shift(shape, regularisation), output_mu)
    if bound == "tight" and shape.envelope != "flat":
        factor = 4 if shape.envelope == "logistic" else 1
        return EnvelopeCurve(mu, factor * shape.curvature / regularisation, shape.envelope, output_mu)
    return _hinged(mu, curvature_shift(shape, regularisation), shape, output_mu)


def add_curve(
    shape: LossShape, *, mu: Fraction, regularisation: Fraction, output_mu: Fraction, bound: Bound
) -> ProfileCurve:
    """Bound the loss of the fit without a record against the fit with it."""
    if bound == "thesis":
        return HalfNormalCurve(mu, thesis_shift(shape, regularisation), output_mu)
    if shape.sign_definite or shape.classes is not None:
        return _hinged(mu, Fraction(0), shape, output_mu)
    return HalfNormalCurve(mu, Fraction(0), output_mu)


def curvature_shift(shape: LossShape, regularisation: Fraction) -> Fraction:
    """Bound the log-determinant from above: log(1 + β/λ), or (K-1)·log(1 + 2β/(Kλ)) for K classes."""
    if shape.classes is None:
        return _log(1 + shape.curvature / regularisation)
    return (shape.classes - 1) * _log(1 + 2 * shape.curvature / (shape.classes * regularisation))


def thesis_shift(shape: LossShape, regularisation: Fraction) -> Fraction:
    """Return -log(1 - β/λ), the looser term of the thesis (its Theorem 4.3.1, with the sign of its proof)."""
    if shape.classes is not None:
        raise ClaimError("the thesis bound is for one linear predictor, not for a softmax; use bound='tight'")
    if regularisation <= shape.curvature:
        raise RangeError(
            f"the thesis bound needs a regularisation above the curvature bound {short_text(shape.curvature)}, got "
            f"{short_text(regularisation)}; bound='tight' takes any"
        )
    return _log(1 / (1 - shape.curvature / regularisation))


def _hinged(mu: Fraction, shift: Fraction, shape: LossShape, output_mu: Fraction) -> ProfileCurve:
    count = 1 if shape.classes is None else shape.classes - 1
    if count == 1 and not output_mu:
        return HingedGaussianCurve(mu, shift)
    return HingedGaussiansCurve(mu, shift, count, output_mu)


def _log(x: Fraction) -> Fraction:
    return round_up(Interval.of(x).log().upper)

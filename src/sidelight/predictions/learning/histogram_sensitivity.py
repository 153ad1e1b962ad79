"""How far one record can move the gradient of the histogram loss: proved, and exact up to rounding for one level."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees.intervals import Interval, round_up

#: Projections in floats may miss the floor by rounding: bounds use a floor that much smaller.
FLOOR_SLACK = Fraction(1, 10**9)


def gradient_bound(*, bins: int, floor_weight: Fraction) -> Fraction:
    """Return d/gamma, which bounds the l1 norm of every gradient, hence all its norms."""
    if not 0 < floor_weight <= 1:
        raise RangeError(f"floor_weight must lie in (0, 1], got {float(floor_weight):g}; 0.1 is a good choice")
    return bins / (floor_weight * (1 - FLOOR_SLACK))


def gradient_sensitivity(*, bins: int, floor_weight: Fraction, epsilons: Sequence[Fraction]) -> Fraction:
    """Return the l2 sensitivity for adding or removing one record, rounded up (learning proof page, Theorem 4).

    (d/gamma) sqrt(2) tanh(eps/4) for one level, attained; (d/gamma) sqrt(2) min(1, 2 tanh(max eps / 4)) for several.

    >>> one = gradient_sensitivity(bins=1, floor_weight=Fraction(1), epsilons=[Fraction(1)])
    >>> round(float(one), 8)
    0.34636729
    """
    if not epsilons or min(epsilons) <= 0:
        raise RangeError("every level needs a positive epsilon: what its release will spend")
    total_variation = Interval.of(max(epsilons) / 4).tanh()
    if len(epsilons) > 1:
        total_variation = (total_variation + total_variation).lowest(Interval.of(1))
    largest = round_up((Interval.of(2).sqrt() * total_variation).upper)
    return gradient_bound(bins=bins, floor_weight=floor_weight) * largest

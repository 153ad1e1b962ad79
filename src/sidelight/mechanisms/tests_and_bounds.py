"""Private tests of an integer distance, and private bounds of a real statistic.

A test passes only if the data is far from every data set where the proposal is wrong. A distance counts how many
records have to change until the proposal fails, so one record moves it by at most one; it is 0 exactly where the
proposal is wrong already. Both tests decide on integers with exact noise, and their thresholds are rounded up: wrong
data passes with at most the stated probability on the machine too (stability proof page, section 2).

A statistic that is bounded is rounded to a public grid and meets exact integer noise; the bound is moved by the
quantile of the noise and by the roundings, so that it fails with at most the stated probability on the machine, too
(stability proof page, section 6). Lower bounds are for eigenvalues and gaps, upper bounds for norms and losses; the
wrong one bounds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours, Row
from sidelight.guarantees.intervals import Interval
from sidelight.mechanisms.additive import LaplaceNoise
from sidelight.mechanisms.price import gaussian_price
from sidelight.noise import Source, rounded_gaussian, scale_up

_ONE = Interval.of(1)


@dataclass(frozen=True, kw_only=True)
class LaplaceTest:
    """Pass iff distance + N >= threshold, N discrete Laplace with P[N = k] in proportion to exp(-epsilon |k|).

    Guarantee: PureDP(epsilon); distance 0 passes with probability at most `false_pass`: P[N >= m] is
    exp(-epsilon m)/(1 + exp(-epsilon)) for m >= 1, and the threshold is the least such m, rounded up.

    >>> test = LaplaceTest(epsilon=Fraction(1, 2), false_pass=Fraction(1, 10**6))
    >>> test.threshold
    27
    """

    epsilon: Fraction
    false_pass: Fraction

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise RangeError(f"the test's epsilon must be positive, got {self.epsilon}")
        _check_probability(self.false_pass)

    @cached_property
    def threshold(self) -> int:
        """The least m with exp(-epsilon m)/(1 + exp(-epsilon)) <= false_pass, from above."""
        epsilon = Interval.of(self.epsilon)
        needed = -(Interval.of(self.false_pass) * (_ONE + (-epsilon).exp())).log() / epsilon
        return max(1, math.ceil(needed.upper))

    @property
    def cap(self) -> int:
        """Three thresholds beyond the threshold: refused there with probability below false_pass cubed."""
        return 4 * self.threshold

    def passes(self, distance: int, source: Source, *, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> bool:
        """Draw the noise and decide."""
        noisy = LaplaceNoise(_distance(min(distance, self.cap), neighbours), epsilon=self.epsilon).release(source)
        return int(noisy) >= self.threshold


@dataclass(frozen=True, kw_only=True)
class GaussianTest:
    """Pass iff distance + N >= threshold, N a Gaussian of standard deviation `scale`, rounded to integers.

    Guarantee: GDP(1/scale); distance 0 passes with probability at most `false_pass`, because N >= m needs a Gaussian of
    at least m - 1/2, and the threshold is scale z + 1/2, rounded up.

    >>> GaussianTest(scale=Fraction(10), false_pass=Fraction(1, 10**6)).threshold
    49
    """

    scale: Fraction
    false_pass: Fraction

    def __post_init__(self) -> None:
        if self.scale <= 0:
            raise RangeError(f"the test's noise scale must be positive, got {self.scale}")
        _check_probability(self.false_pass)

    @cached_property
    def threshold(self) -> int:
        """The least integer of at least scale z + 1/2, z the upper quantile of the false-pass probability."""
        return max(1, math.ceil(float(self.scale) * upper_quantile(self.false_pass) * (1 + 1e-12) + 0.5 + 1e-9))

    @property
    def cap(self) -> int:
        """Three thresholds beyond the threshold."""
        return 4 * self.threshold

    def passes(self, distance: int, source: Source, *, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> bool:
        """Draw the noise and decide."""
        bounded = _distance(min(distance, self.cap), neighbours)
        with source.paying(gaussian_price(bounded, self.scale)):
            noise = int(rounded_gaussian(1, self.scale, source)[0])
        return min(distance, self.cap) + noise >= self.threshold


#: A private decision about an integer of sensitivity 1.
DistanceTest: TypeAlias = LaplaceTest | GaussianTest


def _distance(value: int, neighbours: Neighbours) -> Bounded:
    """Return a distance with its sensitivity: one record moves it by at most one."""
    return Bounded(value, Fraction(1), "l1", neighbours, Row())


def upper_quantile(probability: Fraction | float) -> float:
    """Return z with P[N(0,1) > z] = probability, to double precision.

    >>> round(upper_quantile(1e-6), 6)
    4.753424
    """
    from scipy.special import ndtri_exp

    return -float(ndtri_exp(math.log(probability)))


def _check_probability(probability: Fraction) -> None:
    if not 0 < probability < 1:
        raise RangeError(f"the probability of a false pass must lie strictly between 0 and 1, got {probability}")


#: Steps of the grid in one sensitivity: rounding costs a millionth.
_FINE = 1 << 20

#: Beyond this a statistic is cut off (one record still moves it by no more than before).
_FURTHEST = 1 << 80


def private_lower_bound(value: float, *, sensitivity: float, mu: float, failure: float, source: Source) -> float:
    """Return a number that exceeds the value with probability at most `failure`; a NaN counts as minus infinity.

    Guarantee: GDP(mu), if one record moves the value by at most `sensitivity`, a public number.
    """
    noisy, scale, step = _noisy(-math.inf if math.isnan(value) else value, sensitivity, mu, source)
    return noisy - scale * _quantile(failure) - step


def private_upper_bound(
    value: float, *, sensitivity: float, mu: float, failure: float, source: Source, for_neighbours: float = 0.0
) -> float:
    """Return a number that is below the value with probability at most `failure`; a NaN counts as infinity.

    Guarantee: GDP(mu), as for `private_lower_bound`. `for_neighbours=1` moves it by one sensitivity more, so that what
    a neighbour's data would have returned is above this data's value as well: a private selection needs that.
    """
    noisy, scale, step = _noisy(math.inf if math.isnan(value) else value, sensitivity, mu, source)
    return noisy + scale * (_quantile(failure) + for_neighbours * mu) + step


def _noisy(value: float, sensitivity: float, mu: float, source: Source) -> tuple[float, float, float]:
    """Return the noisy value, the deviation of its noise, and the grid's step."""
    if not (sensitivity > 0 and math.isfinite(sensitivity) and mu > 0):
        raise RangeError("a private bound wants a positive sensitivity and a positive mu")
    step = math.ldexp(1.0, math.frexp(sensitivity)[1] - 1) / _FINE
    exact_step = Fraction(step)
    moved = (Fraction(sensitivity) + exact_step) / exact_step
    scale = scale_up(moved / Fraction(mu))
    price = gaussian_price(Bounded(0, moved, "l1", Neighbours.ADD_REMOVE, Row()), scale)
    with source.paying(replace(price, statistic=f"a bound, sensitivity {sensitivity:.6g}")):
        noise = int(rounded_gaussian(1, scale, source)[0])
    return float((_rounded(value / step) + noise) * exact_step), float(scale * exact_step), step


def _rounded(x: float) -> int:
    return math.floor(min(max(x, -float(_FURTHEST)), float(_FURTHEST)) + 0.5)


def _quantile(failure: float) -> float:
    return upper_quantile(failure) * (1 + 1e-12)

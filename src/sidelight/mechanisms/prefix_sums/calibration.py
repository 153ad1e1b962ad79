"""From a wanted guarantee to rho, and from rho to the noise of a stream; proved, rounded to the private side.

The closed formula of the literature, sqrt(2 levels log(1/delta)) / eps, is not used: it breaks its delta from eps near
8 on and wastes noise below (learning proof page, section 2.4).
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Literal

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, positive
from sidelight.guarantees.conversions import gdp_within, zcdp_within
from sidelight.noise import scale_up

NoiseLaw = Literal["rounded_gaussian", "discrete_gaussian"]
_ROOT_BITS = 256


def rho_for(
    *,
    rho: Amount | None = None,
    mu: Amount | None = None,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    noise: NoiseLaw = "rounded_gaussian",
) -> Fraction:
    """Read the wanted guarantee, given in exactly one way, as the largest rho that keeps it.

    Rounded Gaussian noise is Gaussian DP, so (epsilon, delta) is met by its exact curve; discrete Gaussian noise
    only by zero-concentrated DP.

    >>> float(rho_for(mu="0.2")), round(float(rho_for(epsilon=1, delta="1e-6")), 6)
    (0.02, 0.028014)
    """
    given = [name for name, value in (("rho", rho), ("mu", mu), ("epsilon", epsilon)) if value is not None]
    if len(given) != 1 or (delta is None) == ("epsilon" in given):
        raise RangeError("say what a stream may cost in one way: rho, or mu, or epsilon together with delta")
    if rho is not None:
        return positive(rho, name="rho")
    if mu is not None:
        return positive(mu, name="mu") ** 2 / 2
    assert epsilon is not None
    assert delta is not None
    target = ApproxDP(positive(epsilon, name="epsilon"), positive(delta, name="delta"))
    if noise == "discrete_gaussian":
        return zcdp_within(target.epsilon, target.delta)
    return gdp_within(target.epsilon, target.delta) ** 2 / 2


def noise_variance(squared_sensitivity: Fraction, rho: Fraction, noise: NoiseLaw) -> tuple[Fraction, Fraction]:
    """Return (scale, variance) of the integer noise; the claims are made for exactly these numbers.

    The variance is at least squared_sensitivity / (2 rho). Rounded Gaussian: the root is rounded up a little more than
    its claim will be. Discrete Gaussian: the variance is rounded up to an integer, and the scale only tells its root.
    """
    variance = squared_sensitivity / (2 * rho)
    if noise == "discrete_gaussian":
        whole = Fraction(variance.__ceil__())
        return _root_above(whole), whole
    scale = scale_up(_root_above(variance) * (1 + Fraction(1, 2**60)))
    return scale, scale**2


def _root_above(x: Fraction) -> Fraction:
    """Return a rational at or above the root, relatively at most 2^-200 above it."""
    shift = max(0, _ROOT_BITS - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    root = isqrt((x * (1 << 2 * shift)).__ceil__())
    return Fraction(root + 1, 1 << shift)

"""Additive noise: integer noise meets an integer statistic with a proven sensitivity, and says what that is worth."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, PureDP, exact, native_claims
from sidelight.noise import Source, discrete_laplace, rounded_gaussian, scale_up

#: A square root is taken with this many fractional bits before it is rounded up to a noise scale.
_ROOT_BITS = 256


def laplace(bounded: Bounded, *, epsilon: Amount, source: Source) -> NDArray[Any] | int:
    """Add discrete Laplace noise of scale Δ₁/ε to every entry.

    Guarantee: PureDP(epsilon) for the statistic's neighbours and unit, exact on the machine (noise proof page).

    Accuracy: an entry is off by more than t with probability 2 a^(t+1) / (1 + a), a = exp(-ε/Δ₁).
    """
    return _noisy(bounded, discrete_laplace(_entries(bounded), laplace_scale(bounded, epsilon=epsilon), source))


def laplace_scale(bounded: Bounded, *, epsilon: Amount) -> Fraction:
    """Return the noise scale Δ₁/ε, in units of the statistic."""
    return _sensitivity(bounded, noise="Laplace", norms=("l1",)) / _positive(epsilon, name="epsilon")


def laplace_claims(bounded: Bounded, *, epsilon: Amount) -> Claims:
    """Return what `laplace` proves; needs the public parts of the statistic only."""
    laplace_scale(bounded, epsilon=epsilon)
    claim = PureDP(epsilon, neighbours=bounded.neighbours, unit=bounded.unit)
    return native_claims(claim, mechanism="discrete_laplace")


def gaussian(
    bounded: Bounded, *, mu: Amount | None = None, rho: Amount | None = None, source: Source
) -> NDArray[Any] | int:
    """Add rounded Gaussian noise of standard deviation Δ₂/μ, or Δ₂/√(2ρ) rounded up, to every entry.

    Guarantee: GDP(Δ₂ / scale), at most the mu asked for, hence zCDP of at most rho; exact on the machine, because
    integer + rounded Gaussian is a rounding of integer + Gaussian (noise proof page).

    Accuracy: variance scale² + 1/12 an entry.
    """
    scale = gaussian_scale(bounded, mu=mu, rho=rho)
    return _noisy(bounded, rounded_gaussian(_entries(bounded), scale, source))


def gaussian_scale(bounded: Bounded, *, mu: Amount | None = None, rho: Amount | None = None) -> Fraction:
    """Return the standard deviation, in units of the statistic; the claim is made for exactly this number."""
    sensitivity = _sensitivity(bounded, noise="Gaussian", norms=("l2", "l1"))  # the l2 norm is at most the l1 norm
    if mu is not None and rho is None:
        return sensitivity / _positive(mu, name="mu")
    if rho is not None and mu is None:
        variance = sensitivity**2 / (2 * _positive(rho, name="rho"))
        root = isqrt(int(variance * (1 << 2 * _ROOT_BITS))) + 1  # above the root, by at most 2**-255
        return scale_up(Fraction(root, 1 << _ROOT_BITS))
    raise RangeError("Gaussian noise is set by exactly one of mu and rho; rho is mu**2 / 2")


def gaussian_claims(bounded: Bounded, *, mu: Amount | None = None, rho: Amount | None = None) -> Claims:
    """Return what `gaussian` proves; needs the public parts of the statistic only."""
    ratio = bounded.sensitivity / gaussian_scale(bounded, mu=mu, rho=rho)
    claim = GDP(ratio, neighbours=bounded.neighbours, unit=bounded.unit)
    return native_claims(claim, mechanism="rounded_gaussian")


def _positive(amount: Amount, *, name: str) -> Fraction:
    value = exact(amount, name=name)
    if value <= 0:
        raise RangeError(f"{name} must be positive, got {amount}; no noise at all would be no privacy at all")
    return value


def _sensitivity(bounded: Bounded, *, noise: str, norms: tuple[str, ...]) -> Fraction:
    """Return the sensitivity if it is in a norm that this noise can use; for a single number all norms agree."""
    if bounded.shape and bounded.norm not in norms:
        raise RangeError(
            f"{noise} noise on entries {bounded.shape} needs a sensitivity in {' or '.join(norms)}, got "
            f"{bounded.norm}; ask the aggregate for that norm"
        )
    if bounded.sensitivity == 0:
        raise RangeError("a statistic of sensitivity 0 depends on nobody; release it without noise")
    return bounded.sensitivity


def _entries(bounded: Bounded) -> int:
    return int(np.prod(bounded.shape, dtype=np.int64))


def _noisy(bounded: Bounded, noise: NDArray[Any]) -> NDArray[Any] | int:
    """Add; entries beyond int64 are Python integers, or wrap as a public function of the exact noisy integer."""
    if isinstance(bounded.value, int):
        return bounded.value + int(noise[0])
    return np.asarray(bounded.value + noise.reshape(bounded.shape))

"""Integer noise for an integer statistic with a proven sensitivity: a noise knows its law, its scale and its claims.

A noise is a frozen object of a `Bounded` and an amount of privacy. Everything but `release` is a function of the public
parts of the statistic, so that the noise of a statistic of no rows tells the cost of that of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod, sqrt
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT, Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, Context, Neighbours, Numerics, PureDP, Unit, exact, native_claims
from sidelight.guarantees.intervals import root_above
from sidelight.mechanisms.price import DrawPrice, gaussian_price, laplace_price
from sidelight.noise import Source, discrete_laplace, rounded_gaussian, scale_up, standard_normal

Law = Literal["laplace", "gaussian", "goe", "spherical", "wishart"]

#: A square root is taken with this many fractional bits before it is rounded up to a noise scale.
_ROOT_BITS = 256


class Noise(Protocol):
    """Noise on one statistic: what it costs and how large it is, before any row is read, and the draw itself."""

    @property
    def law(self) -> Law:
        """The law of the noise."""

    @property
    def claims(self) -> Claims:
        """What `release` proves."""

    @property
    def scale(self) -> Fraction:
        """The parameter of the law, in units of the statistic."""

    @property
    def deviation(self) -> float:
        """The standard deviation of an entry's noise; on the diagonal for symmetric matrices."""

    @property
    def numerics(self) -> Numerics:
        """Whether the claims hold for the released bits."""

    def release(self, source: Source) -> Any:
        """Return the statistic with fresh noise."""


@dataclass(frozen=True, eq=False)
class LaplaceNoise:
    """Discrete Laplace noise of scale Δ₁/ε on every entry.

    Guarantee: PureDP(epsilon) for the statistic's neighbours and unit, exact on the machine (noise proof page).

    Accuracy: an entry is off by more than t with probability 2 a^(t+1) / (1 + a), a = exp(-ε/Δ₁).

    Args:
        bounded: The statistic, with a sensitivity in l1; for a single number all norms agree.
        epsilon: The cost.

    >>> from sidelight.guarantees.claims import Neighbours
    >>> from sidelight.guarantees.units import Row
    >>> count = Bounded(41, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row())
    >>> noise = LaplaceNoise(count, epsilon="0.5")
    >>> noise.scale, str(noise.claims)
    (Fraction(2, 1), 'PureDP(ε = 0.5)')
    """

    bounded: Bounded
    epsilon: Amount
    law: ClassVar[Law] = "laplace"
    numerics: ClassVar[Numerics] = "exact"

    def __post_init__(self) -> None:
        _ = self.scale

    @cached_property
    def scale(self) -> Fraction:
        """The noise scale b = Δ₁/ε, in units of the statistic."""
        return _sensitivity(self.bounded, noise="Laplace", norms=("l1",)) / _positive(self.epsilon, name="epsilon")

    @property
    def deviation(self) -> float:
        """The standard deviation √2·b of the Laplace law; the discrete one has no more."""
        return sqrt(2) * float(self.scale)

    @property
    def claims(self) -> Claims:
        """What `release` proves."""
        claim = PureDP(self.epsilon, neighbours=self.bounded.neighbours, unit=self.bounded.unit)
        return native_claims(claim, mechanism="discrete_laplace")

    def release(self, source: Source) -> NDArray[Any] | int:
        """Return the statistic with fresh noise."""
        with source.paying(laplace_price(self.bounded, self.scale)):
            return _noisy(self.bounded, discrete_laplace(_entries(self.bounded), self.scale, source))


@dataclass(frozen=True, eq=False)
class GaussianNoise:
    """Rounded Gaussian noise of standard deviation Δ₂/μ, or Δ₂/√(2ρ) rounded up, on every entry.

    Guarantee: GDP(Δ₂ / scale), at most the mu asked for, hence zCDP of at most rho; exact on the machine, because
    integer + rounded Gaussian is a rounding of integer + Gaussian (noise proof page).

    Accuracy: variance scale² + 1/12 an entry.

    Args:
        bounded: The statistic, with a sensitivity in l2 (or in l1, which is no less).
        mu, rho: The cost, as one of the two; rho is mu²/2.
    """

    bounded: Bounded
    mu: Amount | None = None
    rho: Amount | None = None
    law: ClassVar[Law] = "gaussian"
    numerics: ClassVar[Numerics] = "exact"

    def __post_init__(self) -> None:
        _ = self.scale

    @cached_property
    def scale(self) -> Fraction:
        """The standard deviation, in units of the statistic; the claim is made for exactly this number."""
        sensitivity = _sensitivity(self.bounded, noise="Gaussian", norms=("l2", "l1"))  # the l2 norm is at most the l1
        if self.mu is not None and self.rho is None:
            return sensitivity / _positive(self.mu, name="mu")
        if self.rho is not None and self.mu is None:
            return _gaussian_scale(sensitivity, _positive(self.rho, name="rho"))
        raise RangeError("Gaussian noise is set by exactly one of mu and rho; rho is mu**2 / 2")

    @property
    def deviation(self) -> float:
        """The standard deviation before rounding."""
        return float(self.scale)

    @property
    def claims(self) -> Claims:
        """What `release` proves."""
        ratio = self.bounded.sensitivity / self.scale
        claim = GDP(ratio, neighbours=self.bounded.neighbours, unit=self.bounded.unit)
        return native_claims(claim, mechanism="rounded_gaussian")

    def release(self, source: Source) -> NDArray[Any] | int:
        """Return the statistic with fresh noise."""
        with source.paying(gaussian_price(self.bounded, self.scale)):
            return _noisy(self.bounded, rounded_gaussian(_entries(self.bounded), self.scale, source))


@dataclass(frozen=True, eq=False)
class SymmetricGaussianNoise(GaussianNoise):
    """Rounded Gaussian noise on a symmetric matrix: standard deviation σ on the diagonal, σ/√2 off it, mirrored.

    Guarantee: GDP(Δ_F/σ), as for `GaussianNoise` on the same statistic: a change D of a symmetric matrix costs
    Σ_i D_ii²/σ² + Σ_{i<j} D_ij²/(σ²/2) = ‖D‖_F²/σ². Noise of σ on every entry above the diagonal, which is common,
    has the same guarantee and √2 times the error. Exact on the machine (noise proof page).

    Accuracy: the noise has operator norm above σ(√(2d) + t) with probability at most 2 exp(-t²/2), rounding aside.

    Args:
        bounded: A symmetric matrix with its sensitivity in l2, the Frobenius norm.
        mu, rho: The cost, as one of the two.
    """

    law: ClassVar[Law] = "goe"

    def __post_init__(self) -> None:
        shape = self.bounded.shape
        if len(shape) != 2 or shape[0] != shape[1] or self.bounded.norm != "l2":
            raise RangeError(f"symmetric noise wants a square matrix with a sensitivity in l2, got shape {shape}")
        super().__post_init__()

    def release(self, source: Source) -> NDArray[Any]:
        """Return the matrix with fresh noise."""
        size = self.bounded.shape[0]
        off_scale = root_half_up(self.scale)
        with source.paying(gaussian_price(self.bounded, self.scale, off_diagonal=off_scale)):
            on = rounded_gaussian(size, self.scale, source)
            off = rounded_gaussian(size * (size - 1) // 2, off_scale, source)
        noisy = np.array(self.bounded.value)
        # int64 could not hold the sum
        if any(part.dtype == object or _largest(part) >= VALUE_LIMIT for part in (on, off)):
            noisy, on, off = noisy.astype(object), on.astype(object), off.astype(object)
        noisy[np.arange(size), np.arange(size)] += on
        start = 0
        for row in range(size - 1):  # row by row: a matrix of 1000 columns and more wants no copies
            noisy[row, row + 1 :] += off[start : start + size - 1 - row]
            noisy[row + 1 :, row] = noisy[row, row + 1 :]
            start += size - 1 - row
        return noisy


def root_half_up(scale: Fraction) -> Fraction:
    """Return scale/√2, rounded up to a dyadic number."""
    return _root_up(scale * scale / 2)


@lru_cache(maxsize=256)  # of public numbers: every step of a descent has the same noise
def _gaussian_scale(sensitivity: Fraction, rho: Fraction) -> Fraction:
    return _root_up(sensitivity**2 / (2 * rho))


def _root_up(square: Fraction) -> Fraction:
    """Return √square, rounded up to a noise scale: the integer root is above it by at most 2**-255."""
    return scale_up(root_above(square, bits=_ROOT_BITS))


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
        raise RangeError("a statistic of sensitivity 0 depends on no record; release it without noise")
    return bounded.sensitivity


def _entries(bounded: Bounded) -> int:
    return prod(bounded.shape)


def _noisy(bounded: Bounded, noise: NDArray[Any]) -> NDArray[Any] | int:
    """Add; entries beyond int64 are Python integers, or wrap as a public function of the exact noisy integer."""
    if isinstance(bounded.value, int):
        return bounded.value + int(noise[0])
    return np.asarray(bounded.value + noise.reshape(bounded.shape))


def in_int64(noisy: Any) -> NDArray[np.int64]:
    """Return noisy integers of any size as 64-bit ones; what lies beyond 2**62 is moved there.

    >>> in_int64([3, -(10**30)]).tolist()
    [3, -4611686018427387904]
    """
    return np.asarray(np.clip(np.asarray(noisy), -VALUE_LIMIT, VALUE_LIMIT), np.int64)


def _largest(noise: NDArray[Any]) -> int:
    return max(int(noise.max()), -int(noise.min())) if noise.size else 0


@dataclass(frozen=True, kw_only=True)
class SeveralGaussians:
    """Blocks of integers, each with its noise scale, that one unit moves together.

    Guarantee: GDP(mu), mu² the largest over the corners of Σ (distance_i/σ_i)²: a unit moves block i by at most
    corner[i] in l2, for one of the corners.

    Args:
        scales: The standard deviation σ_i of each block.
        corners: How far one unit can move the blocks, by squares: each corner is one way, and every way is below one.
        neighbours: For whom.
        unit: For whom.
        theorem: Which theorem bounds the distances.
    """

    scales: tuple[Fraction, ...]
    corners: tuple[tuple[Fraction, ...], ...]
    neighbours: Neighbours
    unit: Unit
    theorem: str

    def __post_init__(self) -> None:
        if not self.corners or any(len(corner) != len(self.scales) for corner in self.corners):
            raise RangeError("every corner says of each block how far a unit moves it")

    @property
    def claims(self) -> Claims:
        """What all blocks together prove."""
        context: Context = {"neighbours": self.neighbours, "unit": self.unit}
        square = max(
            sum((moved / scale**2 for moved, scale in zip(corner, self.scales, strict=True)), Fraction(0))
            for corner in self.corners
        )
        return native_claims(GDP.from_squares(square, **context), mechanism="rounded_gaussian")

    def release(self, blocks: Sequence[NDArray[Any]], source: Source) -> list[NDArray[Any]]:
        """Return each block of integers with fresh noise of its scale."""
        sizes = [block.size for block in blocks]
        price = DrawPrice(
            law="rounded Gaussian",
            claims=self.claims,
            samples=tuple(("rounded_gaussian", scale) for scale in self.scales),
            statistic=f"{sum(sizes)} numbers in {len(sizes)} blocks, scales "
            + ", ".join(f"{float(scale):.6g}" for scale in self.scales),
            theorem=self.theorem,
        )
        with source.paying(price):
            drawn = rounded_gaussian(sum(sizes), self.scales, source, which=np.repeat(np.arange(len(sizes)), sizes))
        parts = np.split(drawn, np.cumsum(sizes)[:-1])
        return [np.asarray(block + part.reshape(block.shape)) for block, part in zip(blocks, parts, strict=True)]


# Noise whose price a theorem of the caller computes from the scale that is drawn.


def priced_normals(size: int, *, price: DrawPrice, source: Source) -> NDArray[np.float64]:
    """Return standard normal variates, which the caller scales; idealized."""
    with source.paying(price):
        return standard_normal(size, source)


def priced_laplace(size: int, scale: Fraction, *, price: DrawPrice, source: Source) -> NDArray[Any]:
    """Return discrete Laplace noise of a scale; exact."""
    with source.paying(price):
        return discrete_laplace(size, scale, source)


def priced_gaussian(size: int, scale: Fraction, *, price: DrawPrice, source: Source) -> NDArray[Any]:
    """Return rounded Gaussian noise of a scale; exact."""
    with source.paying(price):
        return rounded_gaussian(size, scale, source)

"""Choose the noise of counts and sums: discrete Laplace or rounded Gaussian, by exact variance, from public numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sidelight.aggregates.bounded import Bounded, ContributionBounds, Norm
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, exact, positive
from sidelight.guarantees.amounts import largest
from sidelight.guarantees.conversions import gdp_within, pure_within_gdp, zcdp_from_pure
from sidelight.guarantees.intervals import root_down, root_up
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise
from sidelight.noise import scale_up
from sidelight.summaries.intervals import gaussian_bound, laplace_bound

Kind = Literal["laplace", "gaussian"]
#: Noise of a larger standard deviation hides every count, and might overflow with one.
_LARGEST_NOISE = 2.0**50
_SHARE_BITS = 20


@dataclass(frozen=True, kw_only=True)
class IntegerNoise:
    """The noise of every entry of an integer vector: `epsilon` is set for Laplace noise, `mu` for Gaussian noise.

    `scale` is Δ₁/ε, or Δ₂/μ rounded up; `variance` that of the integer noise itself.
    """

    kind: Kind
    scale: Fraction
    variance: float
    epsilon: Fraction | None = None
    mu: Fraction | None = None

    @property
    def sd(self) -> float:
        """The standard deviation of the integer noise."""
        return math.sqrt(self.variance)

    @property
    def norm(self) -> Norm:
        """The norm that a statistic's sensitivity must be stated in."""
        return "l1" if self.kind == "laplace" else "l2"

    def on(self, bounded: Bounded) -> LaplaceNoise | GaussianNoise:
        """Return this noise on a statistic: its claims are those of the price, whatever the statistic's sensitivity."""
        if self.epsilon is not None:
            return LaplaceNoise(bounded, epsilon=self.epsilon)
        assert self.mu is not None
        return GaussianNoise(bounded, rho=self.mu**2 / 2)

    def part(self, share: Fraction, norms: ContributionBounds) -> IntegerNoise:
        """Return the noise that a share of the same price buys for counts of these norms: of ε, or of μ²."""
        if self.epsilon is not None:
            return _laplace(norms, self.epsilon * share)
        assert self.mu is not None
        return _gaussian(norms, root_down(self.mu**2 * share))


def laplace_variance(scale: Fraction | float) -> float:
    """Return the variance 2a/(1-a)², a = exp(-1/scale), of discrete Laplace noise.

    >>> round(laplace_variance(1.0), 6)
    1.841347
    """
    half = 1 / (2 * float(scale))
    return 1 / (2 * math.sinh(half) ** 2) if half < 300 else 0.0


def gaussian_variance(scale: Fraction | float) -> float:
    """Return the variance of rounded Gaussian noise: scale² + 1/12, or the sum itself where the scale is small.

    >>> round(gaussian_variance(10.0), 6), round(gaussian_variance(0.25), 6)
    (100.083333, 0.0455)
    """
    b = float(scale)
    if b >= 2:  # the difference is below exp(-2 π² b²) (4 b² + 1), under 1e-33
        return b * b + 1 / 12
    # Σ k² P(k) = Σ over k >= 1 of (2k-1) P(|K| >= k)
    return math.fsum((2 * k - 1) * math.erfc((k - 0.5) / b / math.sqrt(2)) for k in range(1, 30))


def choose_noise(
    norms: ContributionBounds,
    law: Literal["auto"] | Kind = "auto",
    /,
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    mu: Amount | None = None,
) -> IntegerNoise:
    """Return the noise of smaller variance that a price allows; public numbers only.

    A pure price allows Laplace noise only. With (epsilon, delta), rho or mu both are compared: Gaussian noise by
    μ(ε, δ), √(2ρ) or μ, Laplace noise by the largest ε that the price implies.

    Args:
        norms: Of the integer vector that gets the noise.
        law: "laplace" or "gaussian" to insist on one.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.

    >>> from sidelight.aggregates.bounded import persons_in
    >>> one, ten = persons_in(1), persons_in(10)
    >>> choose_noise(one, epsilon=1, delta="1e-6").kind, choose_noise(ten, epsilon=1, delta="1e-6").kind
    ('laplace', 'gaussian')
    """
    by_epsilon, by_mu = _both_prices(epsilon, delta, rho, mu)
    if law == "gaussian" and by_mu is None:
        raise RangeError("Gaussian noise needs a delta, rho or mu; with epsilon alone noise is Laplace")
    laplace = None if law == "gaussian" else _laplace(norms, by_epsilon)
    gaussian = None if law == "laplace" or by_mu is None else _gaussian(norms, by_mu)
    if laplace is None:
        assert gaussian is not None
        return gaussian
    return gaussian if gaussian is not None and gaussian.variance < laplace.variance else laplace


def _both_prices(
    epsilon: Amount | None, delta: Amount | None, rho: Amount | None, mu: Amount | None
) -> tuple[Fraction, Fraction | None]:
    """Return the ε that Laplace noise may have and the μ that Gaussian noise may have."""
    if sum(price is not None for price in (epsilon, rho, mu)) != 1 or (delta is not None and epsilon is None):
        raise RangeError("the price is exactly one of epsilon, epsilon with delta, rho, and mu")
    if epsilon is not None:
        pure = positive(epsilon, name="epsilon")
        chance = Fraction(0) if delta is None else exact(delta, name="delta")
        if chance >= 1:
            raise RangeError(f"delta must be below 1, got {delta}; 1e-6 or less is usual")
        return pure, gdp_within(pure, chance) if chance else None
    if rho is not None:
        budget = positive(rho, name="rho")
        return _pure_within_zcdp(budget), root_down(2 * budget)
    assert mu is not None
    shift = positive(mu, name="mu")
    return pure_within_gdp(shift), shift


def _pure_within_zcdp(rho: Fraction) -> Fraction:
    """Return the largest ε of 12 digits with ε tanh(ε/2) <= ρ, which lies between √(2ρ) and √(2ρ) + ρ."""
    start = root_down(2 * rho)
    return largest(
        lambda e: zcdp_from_pure(e) <= rho, start=start, lower=start / 2, upper=2 * (start + rho), name="epsilon"
    )


def _laplace(norms: ContributionBounds, epsilon: Fraction) -> IntegerNoise:
    scale = Fraction(norms.l1) / epsilon
    return IntegerNoise(kind="laplace", scale=scale, variance=laplace_variance(scale), epsilon=epsilon)


def _gaussian(norms: ContributionBounds, mu: Fraction) -> IntegerNoise:
    scale = scale_up(norms.l2 / mu)
    return IntegerNoise(kind="gaussian", scale=scale, variance=gaussian_variance(scale), mu=mu)


def noise_bound(noise: IntegerNoise, confidence: float, cells: int = 1) -> int:
    """Return the simultaneous error bound of this many cells at a confidence: exact for the noise."""
    bound = laplace_bound if noise.kind == "laplace" else gaussian_bound
    return bound(noise.scale, confidence=confidence, cells=cells)


def check_noise(noise: IntegerNoise) -> IntegerNoise:
    """Refuse a price that buys nothing but noise, before it is paid."""
    if noise.sd > _LARGEST_NOISE:
        raise RangeError(
            f"this price adds noise of standard deviation {noise.sd:.2g} to every count, more than any table has rows; "
            "raise epsilon, rho or mu"
        )
    noise_bound(noise, 0.5)  # arithmetic that overflows for an absurd price fails now
    return noise


def count_share(columns: int) -> Fraction:
    """Return the share of μ² for the count next to the sums of some columns, which share the rest equally.

    The minimax share 1/(2(√d+1)): for every mean the variance is at most (2√d+2)/(2√d+1) times that of the best split
    for it, and no fixed split does better.

    >>> count_share(1), count_share(9)
    (Fraction(1, 4), Fraction(1, 8))
    """
    root = math.isqrt(columns)
    if root * root == columns:
        return Fraction(1, 2 * (root + 1))
    return Fraction(round(1 / (2 * (math.sqrt(columns) + 1)) * 2**_SHARE_BITS), 2**_SHARE_BITS)


@dataclass(frozen=True, kw_only=True)
class CountAndSumScales:
    """Noise scales of the integers n, and of Σt·T and Σ(1 - t²)·T of values t of -1..1: a disc of T levels."""

    count_scale: Fraction
    sum_scale: Fraction


def count_and_sums(*, mu: Amount, l2_squared: Fraction | int, levels: int, columns: int = 1) -> CountAndSumScales:
    """Return the noise scales of counts, sums and second moments by group under one GDP price.

    Guarantee: GDP(mu) for all of them together: the second moment costs nothing (summaries proof page, Theorem 7).

    Args:
        mu: The price of all of them together.
        l2_squared: Of the counts by group; four times that of adding a unit to replace one, because sums have signs.
        levels: T, the norm of one row (`Value.square_levels`).
        columns: How many columns share the count.

    >>> scales = count_and_sums(mu=1, l2_squared=1, levels=1)
    >>> float(scales.count_scale), round(float(scales.sum_scale) ** 2, 9)
    (2.0, 1.333333333)
    """
    shift, part = positive(mu, name="mu"), count_share(columns)
    # GDP(μ) iff L2² (1/σ_n² + Σ over columns of T²/σ_s²) <= μ²
    count_scale = scale_up(root_up(Fraction(l2_squared) / part) / shift)
    sum_scale = scale_up(levels * root_up(columns * Fraction(l2_squared) / (1 - part)) / shift)
    return CountAndSumScales(count_scale=count_scale, sum_scale=sum_scale)

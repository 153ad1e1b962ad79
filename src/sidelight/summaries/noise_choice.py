"""Which noise is smaller: discrete Laplace or rounded Gaussian, by their exact variances, before any data is opened."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, Unpack

from sidelight.aggregates.bounded import Bounded, ContributionBounds, Norm
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, Context, exact, native_claims, positive
from sidelight.guarantees.amounts import largest
from sidelight.guarantees.conversions import gdp_within, pure_within_gdp, zcdp_from_pure
from sidelight.guarantees.intervals import root_down, root_up
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise
from sidelight.mechanisms.exponential import peeling
from sidelight.noise import scale_up

Kind = Literal["laplace", "gaussian"]
_CENTRE_STEPS = 64


@dataclass(frozen=True, kw_only=True)
class Noise:
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

    def part(self, share: Fraction, norms: ContributionBounds) -> Noise:
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
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    mu: Amount | None = None,
    noise: Literal["auto"] | Kind = "auto",
) -> Noise:
    """Return the noise of smaller variance that a price allows; public numbers only.

    A pure price allows Laplace noise only. With (epsilon, delta), rho or mu both are compared: Gaussian noise by
    μ(ε, δ), √(2ρ) or μ, Laplace noise by the largest ε that the price implies.

    Args:
        norms: Of the integer vector that gets the noise.
        epsilon: With or without `delta`.
        delta: Only with `epsilon`.
        rho: Zero-concentrated price.
        mu: Gaussian price.
        noise: "laplace" or "gaussian" to insist on one.

    >>> from sidelight.aggregates.bounded import persons_in
    >>> one, ten = persons_in(1), persons_in(10)
    >>> choose_noise(one, epsilon=1, delta="1e-6").kind, choose_noise(ten, epsilon=1, delta="1e-6").kind
    ('laplace', 'gaussian')
    """
    by_epsilon, by_mu = _both_prices(epsilon, delta, rho, mu)
    if noise not in ("auto", "laplace", "gaussian"):
        raise RangeError(f"noise must be 'auto', 'laplace' or 'gaussian', got {noise!r}")
    if noise == "gaussian" and by_mu is None:
        raise RangeError("Gaussian noise needs a delta, rho or mu; with epsilon alone noise is Laplace")
    laplace = None if noise == "gaussian" else _laplace(norms, by_epsilon)
    gaussian = None if noise == "laplace" or by_mu is None else _gaussian(norms, by_mu)
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


def _laplace(norms: ContributionBounds, epsilon: Fraction) -> Noise:
    scale = Fraction(norms.l1) / epsilon
    return Noise(kind="laplace", scale=scale, variance=laplace_variance(scale), epsilon=epsilon)


def _gaussian(norms: ContributionBounds, mu: Fraction) -> Noise:
    scale = scale_up(norms.l2 / mu)
    return Noise(kind="gaussian", scale=scale, variance=gaussian_variance(scale), mu=mu)


def top_by_histogram(
    norms: ContributionBounds | None,
    draws: int,
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    mu: Amount | None = None,
) -> bool:
    """Return whether sorting noisy counts finds the top `draws` labels better than drawing them one by one (`peeling`).

    Laplace noise of scale L1/ε stands against Gumbel noise of scale draws/ε: L1 <= draws. Gaussian noise is compared
    with it by standard deviation: under ρ that is L2 < 0.641·√draws.

    Args:
        norms: Of the counts by label; None where a unit may have any number of labels, which only peeling allows.
        draws: k.
        epsilon: One price, as in `choose_noise`.
        delta: Only with `epsilon`.
        rho: Zero-concentrated price.
        mu: Gaussian price.

    >>> from sidelight.aggregates.bounded import persons_in
    >>> tuple(top_by_histogram(persons_in(labels), 10, epsilon=1) for labels in (10, 11))
    (True, False)
    """
    if norms is None:
        return False
    chosen = choose_noise(norms, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    step = peeling(draws, epsilon=epsilon, rho=rho, mu=mu).step_epsilon
    if chosen.kind == "laplace":
        return chosen.scale * step <= 1
    return float(chosen.scale) < math.pi / math.sqrt(6) / float(step)


@dataclass(frozen=True, kw_only=True)
class CentredCounts:
    """How to release many yes/no counts of which a unit says yes to nearly any number: less a share of all units.

    The integers released are n (units) and, for each cell, 64·count - steps·n. A cell is (that + steps·n̂)/64.

    Guarantee: GDP(mu) for adding or removing one unit that says yes in at most `groups` of `cells` cells.

    `count_scale` and `cell_scale` are noise scales of these integers; `variance` is that of a cell.
    """

    mu: Fraction
    steps: int
    count_scale: Fraction
    cell_scale: Fraction
    variance: float
    moved: int  # 64² D: by how much at most a unit moves the cells, squared

    def claims(self, **context: Unpack[Context]) -> Claims:
        """Return what the noisy count and cells prove together."""
        return native_claims(GDP(self.mu, **context), mechanism="rounded_gaussian")


def centred_counts(*, cells: int, groups: int, mu: Amount) -> CentredCounts:
    """Return the best centre for Gaussian counts of G = cells, g = groups; with groups << cells it is 0 (steps = 0).

    A cell has the standard deviation (√D + c)/μ instead of √g/μ, D = g(1-2c) + G c² (summaries proof page, section 2).

    >>> best = centred_counts(cells=100, groups=50, mu=1)
    >>> best.steps, round(best.variance ** 0.5, 2)
    (29, 5.48)
    """
    if not 1 <= groups <= cells:
        raise RangeError(f"a unit has from 1 to {cells} of {cells} cells, got groups={groups}")
    shift = positive(mu, name="mu")

    def spread(steps: int) -> int:
        """64² D: the most that a unit's cells move, squared."""
        return _CENTRE_STEPS**2 * groups - 2 * _CENTRE_STEPS * steps * groups + cells * steps * steps

    steps = min(range(_CENTRE_STEPS // 2 + 1), key=lambda s: math.sqrt(spread(s)) + s)
    if steps == 0:
        scale = scale_up(root_up(Fraction(spread(0))) / shift)
        return CentredCounts(
            mu=shift,
            steps=0,
            count_scale=Fraction(0),
            cell_scale=scale,
            variance=gaussian_variance(scale) / _CENTRE_STEPS**2,
            moved=spread(0),
        )
    # α² = c√D: the count's share of μ² is α²/(α² + D) = c/(c + √D)
    share = Fraction(round(steps / (steps + math.sqrt(spread(steps))) * 2**20), 2**20)
    count_scale = scale_up(root_up(1 / share) / shift)
    cell_scale = scale_up(root_up(spread(steps) / (1 - share)) / shift)
    noise = gaussian_variance(cell_scale) + steps**2 * gaussian_variance(count_scale)
    return CentredCounts(
        mu=shift,
        steps=steps,
        count_scale=count_scale,
        cell_scale=cell_scale,
        variance=noise / _CENTRE_STEPS**2,
        moved=spread(steps),
    )

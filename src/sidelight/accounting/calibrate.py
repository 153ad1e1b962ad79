"""From what is wanted to the parameter: noise for a guarantee, and the smallest guarantee for an accuracy.

Every answer is a decimal of 12 digits on the safe side, proved by a certified evaluation, never the last iterate of a
solver. Everything here is public: an error, a failure probability, a sensitivity. An array or a statistic is refused by
type, since a calibration that reads the data is a release of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from sidelight.accounting.remaining import Remaining
from sidelight.errors import RangeError
from sidelight.guarantees import (
    GDP,
    Amount,
    ApproxDP,
    BoundedRange,
    Claim,
    Claims,
    PureDP,
    exact,
    implies,
    positive,
    short_text,
)
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import grid_ceil, grid_floor, largest, smallest
from sidelight.guarantees.intervals import Interval, erfc, inverse_erfc_upper, round_up

_ROOT_2 = Interval.of(2).sqrt()
_LOWEST, _HIGHEST = Fraction(1, 10**12), Fraction(10**6)


@dataclass(frozen=True, init=False)
class Accuracy:
    """At most `error` off, except with probability `failure_probability`."""

    error: Fraction
    failure_probability: Fraction

    def __init__(self, error: Amount, *, failure_probability: Amount) -> None:
        chance = positive(failure_probability, name="failure_probability")
        if chance >= 1:
            raise RangeError(f"failure_probability must be below 1, got {short_text(chance)}")
        object.__setattr__(self, "error", exact(error, name="error"))
        object.__setattr__(self, "failure_probability", chance)


@dataclass(frozen=True, init=False)
class DiscreteLaplace:
    """Discrete Laplace noise on an integer statistic of this sensitivity."""

    sensitivity: Fraction

    def __init__(self, *, sensitivity: Amount = 1) -> None:
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))


@dataclass(frozen=True, init=False)
class RoundedGaussian:
    """Rounded Gaussian noise on an integer statistic of this sensitivity."""

    sensitivity: Fraction

    def __init__(self, *, sensitivity: Amount = 1) -> None:
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))


@dataclass(frozen=True, init=False)
class Selection:
    """An exponential mechanism whose good answers have prior mass `mass`; the error is the gap in score."""

    sensitivity: Fraction
    mass: Fraction

    def __init__(self, *, mass: Amount, sensitivity: Amount = 1) -> None:
        object.__setattr__(self, "sensitivity", positive(sensitivity, name="sensitivity"))
        share = positive(mass, name="mass")
        if share > 1:
            raise RangeError(f"mass is a share of the prior, at most 1, got {short_text(share)}")
        object.__setattr__(self, "mass", share)


Law = DiscreteLaplace | RoundedGaussian | Selection


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """The smallest claim that reaches the accuracy, its noise scale, and its share of what is left."""

    claim: Claim
    noise_scale: Fraction | None
    share: Fraction | None

    @property
    def claims(self) -> Claims:
        """The claim as a set."""
        return Claims.of(self.claim)

    @property
    def fits(self) -> bool | None:
        """Whether it fits what is left; None where nothing was said about that."""
        return None if self.share is None else self.share <= 1


def calibrate(law: Law, target: Accuracy, *, within: Claim | Remaining | None = None) -> Calibrated:
    """Turn "at most 10 off with 95 %" into the smallest epsilon or mu, and its share of a budget or of what is left.

    Accuracy: the stated failure probability is proved at the returned parameter (accounting proof page, section 7).

    >>> answer = calibrate(DiscreteLaplace(), Accuracy(10, failure_probability="0.05"))
    >>> print(answer.claim)
    PureDP(ε = 0.284349)
    """
    if isinstance(law, DiscreteLaplace):
        epsilon = laplace_epsilon(target.error, target.failure_probability, law.sensitivity)
        claim: Claim = PureDP(epsilon)
        scale: Fraction | None = law.sensitivity / epsilon
    elif isinstance(law, RoundedGaussian):
        scale = gaussian_scale_for_accuracy(target.error, target.failure_probability)
        claim = GDP(grid_ceil(law.sensitivity / scale))
    elif isinstance(law, Selection):
        claim = BoundedRange(selection_epsilon(target.error, target.failure_probability, law.mass, law.sensitivity))
        scale = None
    else:
        raise RangeError(f"calibrate takes a public noise law, got {type(law).__name__}; it never reads data")
    return Calibrated(claim=claim, noise_scale=scale, share=_share(claim, within))


def laplace_epsilon(error: Fraction, failure: Fraction, sensitivity: Fraction) -> Fraction:
    """Return the smallest epsilon with P(|noise| > error) = 2 q^(floor(error)+1)/(1+q) <= failure.

    Here q = e^(-eps/sens).
    """
    steps = error.__floor__() + 1

    def holds(epsilon: Fraction) -> bool:
        q = Interval.of(-epsilon / sensitivity).exp()
        power = Interval.of(-epsilon * steps / sensitivity).exp()
        return (Interval.of(2) * power / (Interval.of(1) + q)).upper <= failure

    guess = round_up(Interval.of(1 / failure).log().upper, digits=12) * sensitivity / steps
    return smallest(holds, start=max(guess, _LOWEST), lower=_LOWEST, upper=_HIGHEST, name="epsilon")


def gaussian_scale_for_accuracy(error: Fraction, failure: Fraction) -> Fraction:
    """Return the largest sigma: P(|round(sigma N)| > error) = erfc((floor(error)+1/2)/(sigma sqrt 2)) <= failure."""
    reach = error.__floor__() + Fraction(1, 2)
    z = inverse_erfc_upper(Interval.of(failure))  # erfc(z) <= failure
    sigma = grid_floor(reach / round_up((Interval(z, z) * _ROOT_2).upper))
    assert erfc(Interval.of(reach / sigma) / _ROOT_2).upper <= failure
    return sigma


def selection_epsilon(gap: Fraction, failure: Fraction, mass: Fraction, sensitivity: Fraction) -> Fraction:
    """Return epsilon = (2 sens/gap) log(1/(failure * mass)): worse by more than the gap at most that often."""
    if gap <= 0:
        raise RangeError("error must be positive: a gap in score of 0 cannot be promised")
    logarithm = Interval.of(1 / (failure * mass)).log()
    return grid_ceil(round_up((Interval.of(2 * sensitivity / gap) * logarithm).upper))


def gaussian_noise_scale(epsilon: Amount, delta: Amount, *, sensitivity: Amount = 1) -> Fraction:
    """Return the smallest sigma of 12 digits whose Gaussian noise is (epsilon, delta), proved.

    >>> float(gaussian_noise_scale(1, "1e-6"))
    4.22467888933
    """
    target = ApproxDP(epsilon, positive(delta, name="delta"))
    size = positive(sensitivity, name="sensitivity")
    mu = convert.gdp_within(target.epsilon, target.delta)
    return smallest(
        lambda sigma: convert.gdp_delta(size / sigma, target.epsilon) <= target.delta,
        start=grid_ceil(size / mu),
        lower=size / 10**9,
        upper=size * 10**12,
        name="noise scale",
    )


def _share(claim: Claim, within: Claim | Remaining | None) -> Fraction | None:
    """Return the claim's amount as a share of a budget or of what is left, in the same kind."""
    if within is None:
        return None
    amount = _amount(claim)
    if isinstance(within, Remaining):
        whole = within.mu if isinstance(claim, GDP) else within.epsilon
        if isinstance(claim, BoundedRange):
            whole = within.exponential_epsilon
        return None if whole is None else round_up(_up(amount / whole), digits=6)
    limit = _limit(claim, within)
    return None if limit is None else round_up(_up(amount / limit), digits=6)


def _amount(claim: Claim) -> Fraction:
    if isinstance(claim, GDP):
        return claim.mu
    assert isinstance(claim, PureDP | BoundedRange)
    return claim.epsilon


def _limit(claim: Claim, within: Claim) -> Fraction | None:
    """Return the largest amount of the claim's kind that implies the budget."""
    kind: type[PureDP] | type[BoundedRange] | type[GDP] = PureDP
    if isinstance(claim, BoundedRange | GDP):
        kind = type(claim)

    def implied(amount: Fraction) -> bool:
        return implies(kind(amount, **within.context), within)

    try:
        return largest(implied, start=Fraction(1), lower=_LOWEST, upper=_HIGHEST, name="amount", digits=6)
    except RangeError:
        return None


def _up(x: Fraction) -> Decimal:
    return Interval.of(x).upper

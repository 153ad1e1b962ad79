"""How often to try: laws of the random number of runs, drawn exactly, with a mean that is enclosed and not guessed.

Hand-made because the guarantee depends on it: the price of a selection is a theorem about the generating function of
this law, so the number must have this law and no other, without a cut-off and without a float. Every draw is a walk of
rational coins (tuning proof page, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import expm1, log
from typing import TypeAlias

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import Amount, decimal_text, exact, grid_floor, positive, short_text
from sidelight.guarantees.intervals import Interval
from sidelight.noise import Source, bernoulli

_ONE = Interval.of(1)
_LARGEST_ETA = 16
_SMALLEST_ETA = Fraction(1, 10**30)
_LARGEST_MEAN = 10**6
#: (1/γ - 1)/log(1/γ) at the smallest γ, 1e-6.
_LARGEST_LOGARITHMIC_MEAN = 72382


@dataclass(frozen=True, init=False)
class TruncatedNegativeBinomial:
    """P(K = k) ∝ (1-γ)^k · Π_{l<k} (l+η)/(l+1) on k = 1, 2, ...: geometric at η = 1, logarithmic at η = 0.

    A small η costs less privacy at the same mean and runs once more often: at mean 10, 27 % of the time for η = 0 and
    10 % for η = 1.

    >>> TruncatedNegativeBinomial(1, gamma="1/15").mean_text
    '15'
    """

    eta: Fraction
    gamma: Fraction

    def __init__(self, eta: Amount, *, gamma: Amount) -> None:
        order = _read_order(eta)
        stop = positive(gamma, name="gamma")
        if not -1 < order <= _LARGEST_ETA:
            raise RangeError(f"eta must be above -1 and at most {_LARGEST_ETA}, got {eta}; 1 is the geometric law")
        if 0 < abs(order) < _SMALLEST_ETA:
            raise RangeError(f"eta must be 0 or at least 1e-30 away from it, got {eta}; 0 is the logarithmic law")
        if not Fraction(1, _LARGEST_MEAN) <= stop < 1:
            raise RangeError(
                f"gamma must lie in 1e-6..1, below 1, got {short_text(stop)}; 1/15 tries 15 times at eta 1"
            )
        object.__setattr__(self, "eta", order)
        object.__setattr__(self, "gamma", stop)

    def mean(self) -> Interval:
        """Enclose E[K]: η(1-γ)/(γ(1-γ^η)), 1/γ at η = 1, (1/γ-1)/log(1/γ) at η = 0."""
        if self.eta == 1:
            return Interval.of(1 / self.gamma)
        more = Interval.of(1 / self.gamma - 1)
        logarithm = Interval.of(1 / self.gamma).log()
        if self.eta == 0:
            return more / logarithm
        return Interval.of(self.eta) * more / (_ONE - (-Interval.of(self.eta) * logarithm).exp())

    def mean_of_some(self) -> float:
        """Return E[K | K >= 1]: there is always a run."""
        return float(self.mean().upper)

    @property
    def mean_text(self) -> str:
        """The mean for people."""
        return f"{self.mean_of_some():.6g}"

    def draw(self, source: Source) -> int:
        """Draw K exactly. Secret: the number of runs, and the time it takes, may not be published.

        A walk stops at k with probability γ and otherwise goes on to k+1 with probability (k+η)/(k+1), else starts
        again; for η > 1 a sum of ⌈η⌉ geometric numbers is thinned in the same way.
        """
        return self._walk(source) if self.eta <= 1 else self._thinned(source)

    def _walk(self, source: Source) -> int:
        k = 1
        while not _coin(self.gamma, source):
            k = k + 1 if _coin((k + self.eta) / (k + 1), source) else 1
        return k

    def _thinned(self, source: Source) -> int:
        whole = self.eta.__ceil__()
        while True:
            k = sum(_failures(self.gamma, source) for _ in range(whole))
            # The factor at l = 0 is the same for every k >= 1: leaving it out only wastes fewer draws.
            if k and all(_coin((step + self.eta) / (step + whole), source) for step in range(1, k)):
                return k

    def to_json(self) -> dict[str, str]:
        """Write the law with strings only."""
        eta = "-" + decimal_text(-self.eta) if self.eta < 0 else decimal_text(self.eta)
        return {"law": "truncated negative binomial", "eta": eta, "gamma": decimal_text(self.gamma)}

    def __str__(self) -> str:
        name = {Fraction(1): "geometric", Fraction(0): "logarithmic"}.get(
            self.eta, f"negative binomial (η = {self.eta})"
        )
        return f"{name} number of runs, {self.mean_text} on average"


@dataclass(frozen=True, init=False)
class Poisson:
    """A Poisson number of runs. It may be zero: then nothing is run and the answer is a refusal that is paid for.

    >>> Poisson(10).mean_text
    '10'
    """

    rate: Fraction

    def __init__(self, mean: Amount) -> None:
        rate = positive(mean, name="mean")
        if rate > _LARGEST_MEAN:
            raise RangeError(f"mean must be at most 1e6 runs, got {short_text(rate)}")
        object.__setattr__(self, "rate", rate)

    def mean(self) -> Interval:
        """Enclose E[K]."""
        return Interval.of(self.rate)

    def mean_of_some(self) -> float:
        """Return E[K | K >= 1]: m/(1 - e^-m), 1.58 at m = 1."""
        mean = float(self.rate)
        return mean / -expm1(-mean) if mean else 1.0

    @property
    def mean_text(self) -> str:
        """The mean for people."""
        return short_text(self.rate)

    def draw(self, source: Source) -> int:
        """Draw K exactly, as a sum of Poisson numbers of mean at most 1/2. Secret, like every number of runs.

        A walk stops at k with probability 1/2 and otherwise goes on with probability 2λ/(k+1), else starts again: it
        ends at k with weight (1/2)(1/2)^k (2λ)^k/k!.
        """
        parts = (2 * self.rate).__ceil__()
        return sum(self._part(2 * self.rate / parts, source) for _ in range(parts))

    @staticmethod
    def _part(double: Fraction, source: Source) -> int:
        k = 0
        while not bernoulli(1, 2, source):
            k = k + 1 if _coin(double / (k + 1), source) else 0
        return k

    def to_json(self) -> dict[str, str]:
        """Write the law with strings only."""
        return {"law": "poisson", "mean": decimal_text(self.rate)}

    def __str__(self) -> str:
        return f"Poisson number of runs, {self.mean_text} on average"


Runs: TypeAlias = TruncatedNegativeBinomial | Poisson


def geometric(mean: Amount) -> TruncatedNegativeBinomial:
    """Return the geometric law with this mean (η = 1, γ = 1/mean).

    >>> str(geometric(15))
    'geometric number of runs, 15 on average'
    """
    return TruncatedNegativeBinomial(1, gamma=1 / _above_one(mean))


def logarithmic(mean: Amount) -> TruncatedNegativeBinomial:
    """Return the logarithmic law (η = 0) whose mean is this one, to nine digits: γ is rounded and then exact.

    >>> float(logarithmic(10).gamma)
    0.0269182596
    """
    goal = float(_above_one(mean))
    if goal > _LARGEST_LOGARITHMIC_MEAN:
        raise RangeError(f"mean of a logarithmic number must be at most {_LARGEST_LOGARITHMIC_MEAN}, got {goal:g}")
    low, high = 1e-6, 1 - 1e-9
    for _ in range(200):
        gamma = (low * high) ** 0.5
        low, high = (gamma, high) if (1 / gamma - 1) / log(1 / gamma) > goal else (low, gamma)
    return TruncatedNegativeBinomial(0, gamma=grid_floor(Fraction(low), digits=9))


def _read_order(eta: Amount) -> Fraction:
    """Read η, the one amount that may be negative."""
    written = eta if isinstance(eta, str) else str(eta)
    return -exact(written[1:], name="eta") if written.startswith("-") else exact(eta, name="eta")


def _above_one(mean: Amount) -> Fraction:
    value = exact(mean, name="mean")
    if not 1 < value <= _LARGEST_MEAN:
        raise RangeError(
            f"mean must be above 1 run and at most 1e6, got {short_text(value)}; one run needs no selection"
        )
    return value


def _coin(p: Fraction, source: Source) -> bool:
    return bernoulli(p.numerator, p.denominator, source)


def _failures(p: Fraction, source: Source) -> int:
    """Count the failures before the first success."""
    k = 0
    while not _coin(p, source):
        k += 1
    return k

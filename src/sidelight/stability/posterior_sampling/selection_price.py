"""What a private selection among posterior samples costs, and how much each sample may use: public numbers only.

One run releases a bound of the coefficients' length and a sample; it satisfies a Renyi bound of ρα at the orders up to
one public order, but for a small probability. That is a privacy profile, and the profile theorem of private selection
prices the best of a random number of runs (stability proof page, Theorem 11; tuning proof page, Theorem 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, RDP, ApproxDP, Claims, Profile, decimal_text
from sidelight.guarantees.conversions import gdp_within, renyi_delta, renyi_epsilon
from sidelight.guarantees.intervals import round_up
from sidelight.stability.budgets import order_budget
from sidelight.tuning.pricing import ratio_bound
from sidelight.tuning.runs import Poisson, Runs

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats

_ORDERS = 48
_ATTEMPTS = 8
#: Of epsilon and delta, what the eigenvalue's release takes (its failure takes as much of delta again).
_FIRST = Fraction(1, 10)
#: Of what one run may fail with, the part of its private bound.
_BOUND_FAILURE = Fraction(1, 3)
#: The order is chosen as if this share of epsilon was left to one run; a guess that costs accuracy only.
_GUESS = Fraction(3, 5)


@dataclass(frozen=True)
class RareRenyiCurve:
    """The profile of a mechanism that keeps Renyi bounds but for a probability: H_x <= failure + min over orders."""

    rho: Fraction
    orders: tuple[Fraction, ...]
    failure: Fraction

    def delta(self, x: Fraction) -> Fraction:
        at = float(x)
        order = min(self.orders, key=lambda a: _log_delta(float(a), float(self.rho), at))
        return min(Fraction(1), self.failure + renyi_delta(self.rho * order, order - 1, x))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        return np.array([float(self.delta(Fraction(float(each)))) * (1 + 1e-12) for each in x])

    def gaussian_tail_from(self, mu: float) -> float | None:
        return None

    def to_json(self) -> dict[str, Any]:
        return {"type": "rare_renyi", "rho": decimal_text(self.rho), "failure": decimal_text(self.failure)}


@dataclass(frozen=True, kw_only=True)
class SelectionPrice:
    """How (epsilon, delta) is divided: a tenth of both for the eigenvalue, a tenth of delta for its failure, then runs.

    Args:
        eigenvalue_mu: The Gaussian privacy of the eigenvalue's release.
        eigenvalue_failure: How often its bound is wrong, at most.
        order: The highest Renyi order of one run, at which samples are calibrated.
        rho: Renyi divergence per order of one run, bound and sample together.
        bound_failure: How often the bound of a run is wrong, at most.
        epsilon, delta: What everything may cost a row.
    """

    epsilon: Fraction
    delta: Fraction
    eigenvalue_mu: float
    eigenvalue_failure: float
    order: Fraction
    rho: Fraction
    bound_failure: Fraction

    @property
    def eigenvalue_claims(self) -> Claims:
        """What the release of the eigenvalue costs a row, with the probability that its bound is wrong."""
        found = Claims.of(GDP(Fraction(self.eigenvalue_mu), numerics="idealized")).approx_at(self.delta * _FIRST)
        assert found is not None
        failed = found.delta + Fraction(self.eigenvalue_failure)
        return Claims.of(ApproxDP(found.epsilon, failed, numerics="idealized"))

    @property
    def search_claims(self) -> Claims:
        """What the search costs a row: all that is left (Theorem 11)."""
        left = ApproxDP(self.epsilon * (1 - _FIRST), self.delta * (1 - 2 * _FIRST), numerics="idealized")
        return Claims.of(left)

    @property
    def run_claims(self) -> Claims:
        """What one run of the search may cost a row, but for the probability that its bound is wrong."""
        return Claims.of(RDP({self.order: self.rho * self.order}, numerics="idealized"))

    @cached_property
    def orders(self) -> tuple[Fraction, ...]:
        """The public orders at which one run is bounded."""
        return _orders(self.order)


@lru_cache(maxsize=64)
def selection_price(epsilon: Fraction, delta: Fraction, runs: Runs) -> SelectionPrice:
    """Divide a budget: the largest ρ of one run for which the whole search is proved to be (epsilon, delta)-private.

    Raises:
        RangeError: nothing is left for a run.
    """
    each = (1 - 2 * _FIRST) * delta / round_up(runs.mean().upper)
    failure = each * _BOUND_FAILURE
    order = order_budget(epsilon * _GUESS, each - failure).order
    first_mu = gdp_within(epsilon * _FIRST, delta * _FIRST)
    left = epsilon * (1 - _FIRST)

    most = order_budget(left, each - failure, order=order).divergence / order
    guess = _guessed_rho(float(left), float(each), float(failure), _orders(order), float(most), runs)
    rho = Fraction(0)
    for _ in range(_ATTEMPTS):  # the guess is made with floats; what is used is proved
        guess *= 1 - 1e-3
        tried = Fraction(math.floor(guess * 1e18), 10**18)
        if tried > 0 and search_epsilon(tried, order=order, each=each, failure=failure, runs=runs) <= left:
            rho = tried
            break
    if rho <= 0:
        raise RangeError(
            f"epsilon {float(epsilon):.4g} leaves nothing for a run of the search; use fewer runs, or AdaOPS"
        )
    return SelectionPrice(
        epsilon=epsilon,
        delta=delta,
        eigenvalue_mu=float(first_mu) * (1 - 1e-12),
        eigenvalue_failure=float(delta * _FIRST),
        order=order,
        rho=rho,
        bound_failure=failure,
    )


def search_epsilon(rho: Fraction, *, order: Fraction, each: Fraction, failure: Fraction, runs: Runs) -> Fraction:
    """Return the epsilon of the search where E[K] `each` is its delta: one run's at `each`, plus the tilt."""
    orders = _orders(order)
    one = min(renyi_epsilon(rho * a, a - 1, each - failure) for a in orders)
    curve = RareRenyiCurve(rho, orders, failure)
    return one + ratio_bound(Claims.of(Profile(curve, curve)), runs)


def _guessed_rho(
    left: float, each: float, failure: float, orders: tuple[Fraction, ...], most: float, runs: Runs
) -> float:
    """Bisect `search_epsilon` in floats."""
    grid = [float(a) for a in orders]

    def delta(rho: float, x: float) -> float:
        return min(1.0, failure + math.exp(min(0.0, min(_log_delta(a, rho, x) for a in grid))))

    def total(rho: float) -> float:
        one = min(rho * a + math.log1p(-1 / a) - (math.log(each - failure) + math.log(a)) / (a - 1) for a in grid)
        if isinstance(runs, Poisson):
            return one + float(runs.rate) * delta(rho, 0.0)
        low, high = 0.0, left
        for _ in range(40):
            x = (low + high) / 2
            enough = math.expm1(x) >= (1 / float(runs.gamma) - 1) * delta(rho, x)
            low, high = (low, x) if enough else (x, high)
        return one + (1 + float(runs.eta)) * high

    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= left else (low, middle)
    return low


def _orders(highest: Fraction) -> tuple[Fraction, ...]:
    grid = [2 * (float(highest) / 2) ** (place / (_ORDERS - 1)) for place in range(_ORDERS - 1)]
    return (*sorted({Fraction(round(a, 3)).limit_denominator(1000) for a in grid}), highest)


def _log_delta(order: float, rho: float, x: float) -> float:
    return (order - 1) * (rho * order - x) + order * math.log1p(-1 / order) - math.log(order - 1)

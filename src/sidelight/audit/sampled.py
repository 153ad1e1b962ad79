"""An audit by sampling: a lower confidence bound on what a mechanism gives away between two neighbouring inputs.

A quarter of the draws orders the outcomes, a quarter chooses an event, and the other half (test) bounds its two
probabilities. Because the event is fixed before the test half is looked at, the bound needs no correction for the
search. An audit can refute a claim; a claim that it does not refute is not thereby proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sidelight.audit.confidence import Counts, Floats, at_least, at_most, lower_bounds, upper_bounds
from sidelight.audit.events import Cells, Event, Outcomes, as_outcomes, best_event
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, Claim, Claims, PureDP

#: Runs the mechanism that many times, independently, and returns the outcomes: numbers, or anything hashable.
Sampler = Callable[[int], Sequence[Any]]

#: How often an honest mechanism may be accused wrongly, unless another number is asked for.
USUAL_FAILURE = 1e-7

_RENYI_ORDERS = 1 + np.geomspace(1e-3, 1e4, 141)


def one_by_one(draw: Callable[[], Any]) -> Sampler:
    """Turn a function that returns one outcome into a sampler."""
    return lambda count: [draw() for _ in range(count)]


@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What an event proves: with the stated confidence the mechanism has at least this epsilon, mu or rho."""

    value: float
    event: Event
    favoured_hits: int
    other_hits: int
    draws: int
    failure: float

    def __str__(self) -> str:
        favoured, other = ("first", "second") if self.event.favours_first else ("second", "first")
        return (
            f"at least {self.value:.6g} (confidence 1 - {self.failure:g}): {self.event} came {self.favoured_hits} "
            f"times on the {favoured} input and {self.other_hits} times on the {other}, of {self.draws} each"
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The counts of an audit: ask it for lower bounds, or whether it refutes a claim.

    Every single bound or verdict is wrong with probability at most `failure`.
    """

    cells: Cells = field(repr=False)
    ordering: tuple[Counts, Counts] = field(repr=False)
    choosing: tuple[Counts, Counts] = field(repr=False)
    test: tuple[Counts, Counts] = field(repr=False)
    draws: int  # of the test half, on each input
    failure: float

    def epsilon(self, delta: float = 0.0) -> LowerBound:
        """Bound epsilon from below: P[first in E] <= e^eps P[second in E] + delta for every event, both ways."""
        if not 0 <= delta < 1:
            raise RangeError(f"delta must lie in [0, 1), got {delta}")
        return self._bound(lambda p, q: np.log(np.maximum(p - delta, 1e-300) / q))

    def mu(self) -> LowerBound:
        """Bound mu of Gaussian DP from below: probit(P[first in E]) - probit(P[second in E]) <= mu for every event."""
        from scipy.special import ndtri

        return self._bound(lambda p, q: np.where((p > 0) & (q < 1), ndtri(p) - ndtri(q), -np.inf))

    def rho(self) -> LowerBound:
        """Bound rho of zero-concentrated DP from below: the Rényi divergence of an event is at most rho * order."""
        return self._bound(_concentrated)

    def refutes(self, claim: Claim | Claims) -> bool:
        """Return whether the claim is excluded with this audit's confidence; of several claims, whether any one is.

        For a set of claims the failure probability is shared out among them.
        """
        claims = list(claim) if isinstance(claim, Claims) else [claim]
        share = replace(self, failure=self.failure / max(len(claims), 1))
        return any(share._exceeds(each) for each in claims)

    def _exceeds(self, claim: Claim) -> bool:
        if isinstance(claim, PureDP | BoundedRange):
            return self.epsilon().value > float(claim.epsilon)
        if isinstance(claim, ApproxDP):
            return self.epsilon(float(claim.delta)).value > float(claim.epsilon)
        if isinstance(claim, GDP):
            return self.mu().value > float(claim.mu)
        if isinstance(claim, ZCDP):
            return self.rho().value > float(claim.rho)
        raise ClaimError(
            f"an audit tests PureDP, BoundedRange, ApproxDP, GDP and ZCDP, got {type(claim).__name__}; convert it first"
        )

    def _bound(self, strength: Callable[[Floats, Floats], Floats]) -> LowerBound:
        # Both one-sided bounds hold together with probability 1 - failure; `strength` grows in p and falls in q.
        half = self.failure / 2

        def judge(favoured: Counts, other: Counts) -> Floats:
            draws = int(self.choosing[0].sum())  # not of the test half: a search may choose on another number
            p, q = lower_bounds(favoured, draws, failure=half), upper_bounds(other, draws, failure=half)
            return strength(p, q)

        event = best_event(self.cells, self.ordering, self.choosing, judge=judge)
        counts = self.test if event.favours_first else self.test[::-1]
        favoured, other = (event.hits(each) for each in counts)
        p = at_least(favoured, self.draws, failure=half)
        q = at_most(other, self.draws, failure=half)
        value = max(0.0, float(strength(np.array(p), np.array(q))))
        return LowerBound(
            value=value, event=event, favoured_hits=favoured, other_hits=other, draws=self.draws, failure=self.failure
        )


def audit(first: Sampler, second: Sampler, *, draws: int, failure: float = USUAL_FAILURE) -> Audit:
    """Draw a mechanism on two neighbouring inputs and prepare what they tell apart.

    Arguments: `first` and `second` run the mechanism on one input each; `draws` runs of each, half for the search and
    half for the proof. `failure` is the probability with which a bound may wrongly exceed the truth; the draws must be
    independent for that.

    >>> coins = iter([0, 1, 1, 1] * 2000)
    >>> leaky = audit(lambda n: [next(coins) for _ in range(n)], lambda n: [0] * n, draws=4000)
    >>> leaky.refutes(PureDP(1))
    True
    """
    if draws < 4 or draws % 4:
        raise RangeError(f"draws must be a positive multiple of 4, got {draws}; half of them search for the event")
    if not 0 < failure < 1:
        raise RangeError(f"failure must lie strictly between 0 and 1, got {failure}; 1e-7 is a good choice for a test")
    quarter, half = draws // 4, draws // 2
    parts = [(_drawn(first, count), _drawn(second, count)) for count in (quarter, quarter, half)]
    cells = Cells.of(*parts[0])
    ordering, choosing, test = ((cells.count(one), cells.count(other)) for one, other in parts)
    return Audit(cells=cells, ordering=ordering, choosing=choosing, test=test, draws=half, failure=failure)


def _drawn(sampler: Sampler, count: int) -> Outcomes:
    outcomes = sampler(count)
    if len(outcomes) != count:
        raise RangeError(f"a sampler was asked for {count} outcomes and returned {len(outcomes)}")
    return as_outcomes(outcomes)


def _concentrated(p: Floats, q: Floats) -> Floats:
    """Return the smallest rho that allows an event of probability p against q: the largest D / order of all orders."""
    p, q = np.clip(p, 1e-300, 1 - 1e-16)[..., None], np.clip(q, 1e-300, 1 - 1e-16)[..., None]
    order = _RENYI_ORDERS
    inside = order * np.log(p) + (1 - order) * np.log(q)
    outside = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
    divergence = np.logaddexp(inside, outside) / (order - 1)
    rho: Floats = np.where((p > q)[..., 0], (divergence / order).max(axis=-1), -math.inf)
    return rho

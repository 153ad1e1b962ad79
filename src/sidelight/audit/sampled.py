"""An audit by sampling: a lower confidence bound on what a mechanism gives away between two neighbouring inputs.

A quarter of the draws orders the outcomes, a quarter chooses an event, and the other half (test) bounds its two
probabilities. Because the event is fixed before the test half is looked at, the bound needs no correction for the
search. An audit can refute a claim; a claim that it does not refute is not thereby proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import GDP, ZCDP, ApproxDP, BoundedRange, Claim, Claims, PureDP

#: More distinct real values than this are grouped into this many ranges.
MOST_RANGES = 512

#: Real outcomes as one float array, others as a list of things that can be hashed.
Outcomes = NDArray[np.float64] | list[Any]


def as_outcomes(given: Sequence[Any] | NDArray[Any]) -> Outcomes:
    """Bring what a sampler returned into one of the two forms."""
    if isinstance(given, np.ndarray):
        if given.ndim == 1 and given.dtype.kind in "iufb":
            return given.astype(np.float64)
        given = given.tolist()
    if all(isinstance(outcome, int | float | np.integer | np.floating) for outcome in given):
        return np.asarray(given, dtype=np.float64)  # integers beyond 2**53 may share a cell: only a coarser event
    return [tuple(outcome) if isinstance(outcome, list | np.ndarray) else outcome for outcome in given]


@dataclass(frozen=True)
class Cells:
    """A finite partition of the outcomes, fixed on training draws."""

    names: tuple[Any, ...]
    edges: NDArray[np.float64] | None = None  # ranges of real outcomes: cell i starts at edges[i]; cell 0 has no start
    _index: dict[Hashable, int] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, first: Outcomes, second: Outcomes) -> Cells:
        """Partition the outcomes: one cell a value, or ranges when they are real numbers with many values."""
        if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
            pooled = np.sort(np.concatenate([first, second]))
            values = np.unique(pooled)  # NaN, if any, comes last and once
            if len(values) > MOST_RANGES:
                values = np.unique(pooled[np.arange(MOST_RANGES) * len(pooled) // MOST_RANGES])
            return cls(names=tuple(values.tolist()), edges=values[1:])
        names = sorted(dict.fromkeys([*first, *second]), key=repr)
        return cls(names=tuple(names), _index={name: cell for cell, name in enumerate(names)})

    @property
    def size(self) -> int:
        """The number of cells; one more, of outcomes that training never saw, has the index `size`."""
        return len(self.names)

    def locate(self, outcomes: Outcomes) -> NDArray[np.int64]:
        """Return the cell of each outcome."""
        if self.edges is None:
            found: Iterable[int] = (self._index.get(outcome, self.size) for outcome in outcomes)
            return np.fromiter(found, dtype=np.int64, count=len(outcomes))
        if not isinstance(outcomes, np.ndarray):
            raise RangeError("a sampler returned numbers at first and something else later; return one kind of outcome")
        return np.searchsorted(self.edges, outcomes, side="right").astype(np.int64)

    def count(self, outcomes: Outcomes) -> Counts:
        """Return how many outcomes fall into each cell, unseen ones last."""
        return np.bincount(self.locate(outcomes), minlength=self.size + 1).astype(np.int64)


@dataclass(frozen=True)
class DistinguishingEvent:
    """A set of outcomes, and which of the two inputs it speaks for."""

    cells: Cells
    members: NDArray[np.bool_]
    favours_first: bool

    def hits(self, counts: Counts) -> int:
        """Return how many outcomes of a sample lie in the event, from its counts per cell."""
        return int(counts[self.members].sum())

    def __str__(self) -> str:
        inside = [name for name, member in zip(self.cells.names, self.members, strict=False) if member]
        inside += ["anything new"] if self.members[self.cells.size] else []
        if self.cells.edges is not None and len(inside) > 1:
            if self.members[: len(inside)].all() and len(inside) <= len(self.cells.edges):
                return f"outcome < {self.cells.edges[len(inside) - 1]:.6g}"
            if self.members[self.cells.size - len(inside) : self.cells.size].all():
                return f"outcome >= {inside[0]:.6g}"
        shown = ", ".join(str(name) for name in inside[:5])
        return f"outcome in {{{shown}{', ...' if len(inside) > 5 else ''}}}"


def best_event(
    cells: Cells, ordering: tuple[Counts, Counts], choosing: tuple[Counts, Counts], *, judge: Judge
) -> DistinguishingEvent:
    """Return the event that the judge likes best.

    The cells are ordered by one pair of counts and the event is chosen on another: chosen on the counts that made the
    order, rare outcomes would always look telling.
    """
    by_ratio = np.argsort(-(ordering[0] + 0.5) / (ordering[1] + 0.5), kind="stable")
    orders = [by_ratio, by_ratio[::-1]]
    if cells.edges is not None:
        natural = np.arange(cells.size)
        orders += [natural, natural[::-1]]
    best, best_worth = None, -np.inf
    for order in orders:
        sums = np.cumsum(choosing[0][order]), np.cumsum(choosing[1][order])
        for favours_first, (favoured, other) in ((True, sums), (False, sums[::-1])):
            worth = judge(favoured, other)
            at = int(np.argmax(worth))
            if best is None or worth[at] > best_worth:
                best, best_worth = (order[: at + 1], favours_first), float(worth[at])
    assert best is not None
    members = np.zeros(cells.size + 1, dtype=np.bool_)
    members[best[0]] = True
    return DistinguishingEvent(cells, members, best[1])


Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
#: Judges candidate events by their counts in the two samples (favoured, other): larger is better.
Judge = Callable[[Counts, Counts], Floats]


def lower_bounds(hits: Counts, draws: int, *, failure: float) -> Floats:
    """Return the lower bound for each count, unconfirmed: for the search among many events."""
    from scipy.special import betaincinv

    some = np.maximum(hits, 1)
    return np.where(hits == 0, 0.0, betaincinv(some, draws - some + 1, failure))


def upper_bounds(hits: Counts, draws: int, *, failure: float) -> Floats:
    """Return the upper bound for each count, unconfirmed: for the search among many events."""
    from scipy.special import betainccinv

    some = np.minimum(hits, draws - 1)
    return np.where(hits == draws, 1.0, betainccinv(some + 1, draws - some, failure))


def at_least(hits: int, draws: int, *, failure: float) -> float:
    """Return a number that exceeds the true probability with probability at most `failure`.

    >>> round(at_least(90, 100, failure=0.025), 4)
    0.8238
    """
    if hits == 0:
        return 0.0
    from scipy.special import betainc

    bound, step = float(lower_bounds(np.array(hits), draws, failure=failure)), 1e-12
    # At p = bound, P[Binomial(draws, p) >= hits] = I_p(hits, draws - hits + 1) must not exceed `failure`.
    while float(betainc(hits, draws - hits + 1, bound)) > failure:
        bound, step = bound * (1 - step), 2 * step
    return bound


def at_most(hits: int, draws: int, *, failure: float) -> float:
    """Return a number that lies below the true probability with probability at most `failure`.

    >>> round(at_most(0, 100, failure=0.05), 4)
    0.0295
    """
    if hits == draws:
        return 1.0
    from scipy.special import betaincc

    bound, step = float(upper_bounds(np.array(hits), draws, failure=failure)), 1e-12
    # At p = bound, P[Binomial(draws, p) <= hits] = 1 - I_p(hits + 1, draws - hits) must not exceed `failure`.
    while bound < 1 and float(betaincc(hits + 1, draws - hits, bound)) > failure:
        bound, step = min(1.0, bound * (1 + step)), 2 * step
    return bound


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
    event: DistinguishingEvent
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

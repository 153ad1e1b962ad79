"""What one event costs and what a scope has spent, per route, in whole quanta; and which (epsilon, delta) is counted.

Exact money: every total is a whole number of quanta of 10^-30, so sums never drift and no charge is ever lost. A charge
is rounded up and is at least one quantum; a capacity is rounded down; sums and comparisons are of integers, so they are
associative and the order of charges does not matter (accounting proof page, section 8).

Every (epsilon, delta) that an event proves may be charged, and the choice is a function of public numbers: the claims
and the rule (Theorem T8). An event that a sum of rhos or of mu squared counts too must not use up the pool of deltas
faster than it uses up that sum: its profile is read at a smaller delta, for a little more epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from sidelight.errors import LedgerError, RangeError
from sidelight.guarantees import GDP, RDP, ZCDP, ApproxDP, Claims, Profile, short_text
from sidelight.guarantees.amounts import grid_floor

Route: TypeAlias = Literal["basic", "gdp", "zcdp"]

#: The total that each route compares with its capacity.
NAMES: dict[Route, Literal["epsilon", "mu_squared", "rho"]] = {"basic": "epsilon", "gdp": "mu_squared", "zcdp": "rho"}
_COMPOSED: Final = "composed"
_BESIDE: Final = ("epsilon", "rho", "mu_squared", "delta")
DECIMALS = 30
QUANTA_PER_ONE: int = 10**DECIMALS
#: Deltas are tried from the pool down to this share of it: halves, and the round numbers that people declare.
_LEAST_SHARE = Fraction(1, 1024)
_DIGITS = tuple(Fraction(text) for text in ("1", "1.5", "2", "2.5", "3", "4", "5", "6", "7", "8", "9"))


@dataclass(frozen=True, kw_only=True)
class Charge:
    """The price of one event for every route; None where the event has no claim for it, which closes that route.

    In a rule that adds up epsilons first, `beside` is the delta that the other routes get from this event on (Theorem
    T12), and `composed` says that it is counted in the second stage (Theorem T10).
    """

    epsilon: int | None
    delta_items: int
    rho: int | None
    mu_squared: int | None
    beside: int = 0
    composed: bool = False
    may_begin: bool = field(default=False, compare=False)  # the claims prove its mu_squared without any delta

    def of(self, route: Route) -> int | None:
        """Return the price for one route."""
        return {"basic": self.epsilon, "gdp": self.mu_squared, "zcdp": self.rho}[route]

    def to_json(self) -> dict[str, str]:
        """Write the price in quanta, with strings only; what is not charged is left out."""
        amounts = {"epsilon": self.epsilon, "rho": self.rho, "mu_squared": self.mu_squared}
        shown = {name: str(value) for name, value in amounts.items() if value is not None}
        shown |= {"delta_items": str(self.delta_items)} if self.delta_items else {}
        shown |= {"beside": str(self.beside)} if self.beside else {}
        return shown | ({"stage": _COMPOSED} if self.composed else {})

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Charge:
        """Read a price back."""
        _only(data, {"epsilon", "rho", "mu_squared", "delta_items", "beside", "stage"}, "charge")
        if data.get("stage", _COMPOSED) != _COMPOSED:
            raise LedgerError(f"a charge names a stage that does not exist: {data['stage']}")

        def read(name: str) -> int | None:
            return quanta_from_text(data[name]) if name in data else None

        return cls(
            epsilon=read("epsilon"),
            delta_items=read("delta_items") or 0,
            rho=read("rho"),
            mu_squared=read("mu_squared"),
            beside=read("beside") or 0,
            composed="stage" in data,
        )

    def covers(self, other: Charge) -> bool:
        """Return whether this price is at least the other by every route: as a stored charge is to a recomputed."""
        pairs = ((self.of(route), other.of(route)) for route in NAMES)
        return (
            self.composed == other.composed
            and self.delta_items >= other.delta_items
            and all(mine is None or (theirs is not None and mine >= theirs) for mine, theirs in pairs)
        )


@dataclass(frozen=True, kw_only=True)
class Beside:
    """Where other routes began to count in parallel with the sum of epsilons: the totals then, and their delta."""

    epsilon: int
    rho: int
    mu_squared: int
    delta: int

    def to_json(self) -> dict[str, str]:
        """Write the amounts in quanta, with strings only."""
        return {name: str(getattr(self, name)) for name in _BESIDE}

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Beside:
        """Read the amounts back."""
        _only(data, set(_BESIDE), "totals")
        return cls(**{name: quanta_from_text(data[name]) for name in _BESIDE})


@dataclass(frozen=True, kw_only=True)
class Totals:
    """What was spent. Totals never decrease, and a route that was closed stays closed.

    In a rule that adds up epsilons first, `beside` says since when other routes count in parallel with that sum, and
    `composed` holds the totals of the second stage, once it was entered.
    """

    epsilon: int = 0
    delta_items: int = 0
    rho: int = 0
    mu_squared: int = 0
    closed: frozenset[Route] = frozenset()
    beside: Beside | None = None
    composed: Totals | None = None

    @classmethod
    def zero(cls) -> Totals:
        """Nothing spent yet."""
        return cls()

    def of(self, route: Route) -> int:
        """Return the total of one route."""
        return {"basic": self.epsilon, "gdp": self.mu_squared, "zcdp": self.rho}[route]

    def plus(self, charge: Charge) -> Totals:
        """Add one event; routes for which it has no claim close for good."""
        if charge.composed:
            stage = Totals.zero() if self.composed is None else self.composed
            return replace(self, composed=stage.plus(replace(charge, composed=False)))
        missing: set[Route] = {route for route in NAMES if charge.of(route) is None}
        began = self.beside
        if charge.beside and began is None:
            began = Beside(epsilon=self.epsilon, rho=self.rho, mu_squared=self.mu_squared, delta=charge.beside)
        return Totals(
            epsilon=self.epsilon + (charge.epsilon or 0),
            delta_items=self.delta_items + charge.delta_items,
            rho=self.rho + (charge.rho or 0),
            mu_squared=self.mu_squared + (charge.mu_squared or 0),
            closed=self.closed | missing,
            beside=began,
            composed=self.composed,
        )

    def plus_totals(self, other: Totals) -> Totals:
        """Add what another scope spent on the same records."""
        stages = [stage for stage in (self.composed, other.composed) if stage is not None]
        return Totals(
            epsilon=self.epsilon + other.epsilon,
            delta_items=self.delta_items + other.delta_items,
            rho=self.rho + other.rho,
            mu_squared=self.mu_squared + other.mu_squared,
            closed=self.closed | other.closed,
            beside=self.beside or other.beside,
            composed=stages[0].plus_totals(stages[1]) if len(stages) == 2 else next(iter(stages), None),
        )

    @classmethod
    def largest(cls, parts: Iterable[Totals]) -> Totals:
        """Return, for each total by itself, the largest over disjoint parts (parallel composition, add or remove)."""
        found = list(parts)
        stages = [t.composed for t in found if t.composed is not None]
        return cls(
            epsilon=max((t.epsilon for t in found), default=0),
            delta_items=max((t.delta_items for t in found), default=0),
            rho=max((t.rho for t in found), default=0),
            mu_squared=max((t.mu_squared for t in found), default=0),
            closed=frozenset[Route]().union(*(t.closed for t in found)),
            composed=cls.largest(stages) if stages else None,
        )

    def to_json(self) -> dict[str, Any]:
        """Write the totals in quanta, with strings only."""
        shown: dict[str, Any] = {
            "epsilon": str(self.epsilon),
            "delta_items": str(self.delta_items),
            "rho": str(self.rho),
            "mu_squared": str(self.mu_squared),
            "closed": sorted(self.closed),
        }
        shown |= {} if self.beside is None else {"beside": self.beside.to_json()}
        return shown if self.composed is None else shown | {_COMPOSED: self.composed.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Totals:
        """Read totals back."""
        _only(data, {"epsilon", "delta_items", "rho", "mu_squared", "closed", "beside", _COMPOSED}, "totals")
        closed = set(data["closed"])
        if not closed <= set(NAMES):
            raise LedgerError(f"totals name routes that do not exist: {', '.join(sorted(map(str, closed)))}")
        return cls(
            epsilon=quanta_from_text(data["epsilon"]),
            delta_items=quanta_from_text(data["delta_items"]),
            rho=quanta_from_text(data["rho"]),
            mu_squared=quanta_from_text(data["mu_squared"]),
            closed=frozenset(closed),
            beside=Beside.from_json(data["beside"]) if "beside" in data else None,
            composed=cls.from_json(data[_COMPOSED]) if _COMPOSED in data else None,
        )


def _only(data: Mapping[str, Any], known: set[str], what: str) -> None:
    if not set(data) <= known:
        raise LedgerError(f"{what} holds fields that are not known: {', '.join(sorted(set(data) - known))}")


def charge_quanta(x: Fraction) -> int:
    """Round a charge up to whole quanta; anything above zero costs at least one.

    >>> charge_quanta(Fraction(1, 10**40)), charge_quanta(Fraction(1, 10)) == 10**29
    (1, True)
    """
    _not_negative(x)
    return -(-x.numerator * QUANTA_PER_ONE // x.denominator)


def capacity_quanta(x: Fraction) -> int:
    """Round a capacity down to whole quanta.

    >>> capacity_quanta(Fraction(1, 10**40)), capacity_quanta(Fraction(2, 3)) % 10
    (0, 6)
    """
    _not_negative(x)
    return x.numerator * QUANTA_PER_ONE // x.denominator


def amount_of(quanta: int) -> Fraction:
    """Return the amount that a number of quanta is worth."""
    return Fraction(quanta, QUANTA_PER_ONE)


def quanta_from_text(text: str) -> int:
    """Read a count of quanta as a ledger stores it: decimal digits only."""
    if not isinstance(text, str) or not text.isascii() or not text.isdigit():
        raise RangeError(f"a count of quanta is written in decimal digits, got {text!r}")
    return int(text)


def _not_negative(x: Fraction) -> None:
    if x < 0:
        raise RangeError(f"an amount must not be negative, got {short_text(x)}; nothing is ever given back")


def chosen_item(
    claims: Claims,
    *,
    below: Fraction | None,
    pool: Fraction,
    epsilon: Fraction,
    served: Fraction | None,
    keep_open: bool = False,
) -> ApproxDP | None:
    """Pick the (epsilon, delta) to charge, if any.

    Args:
        claims: What the event proves.
        below: Its pure epsilon, if it has one; an item is of use only below it.
        pool: What the rule keeps of delta for items.
        epsilon: The budget's epsilon.
        served: The share of another route that the event takes by a claim of that route; None where no route has one.
        keep_open: Give an item to every event whose curve has one, so that none closes the sum of epsilons.
    """
    if not pool:
        return None
    useful = (i for i in claims.items if below is None or i.epsilon < below)
    declared = sorted(useful, key=lambda i: (i.epsilon, i.delta))
    limit = pool if served is None else pool * min(Fraction(1), served)
    fitting = next((i for i in declared if i.delta <= limit), None)
    if fitting is not None or below is not None:
        return fitting or next((i for i in declared if i.delta <= pool), None)
    if served is not None:
        return _at(claims, limit) if limit and (declared or keep_open) else None
    return _balanced(claims, pool=pool, epsilon=epsilon) or (declared[0] if declared else None)


def _balanced(claims: Claims, *, pool: Fraction, epsilon: Fraction) -> ApproxDP | None:
    """Read the claims at several deltas, and take the point that uses the smallest share of its scarcer budget.

    With a larger delta epsilon falls, so the two shares cross once: the best point is next to the crossing. Round
    deltas are among those tried, because a Gaussian release does not say at which one it was declared: so as many
    queries fit as their declared (epsilon, delta) add up to.
    """
    if not any(isinstance(claim, Profile | RDP | GDP | ZCDP) for claim in claims):
        return None
    deltas = _deltas(pool)
    read = {place: _at(claims, deltas[place]) for place in (0, len(deltas) - 1)}
    low, high = 0, len(deltas) - 1
    while high - low > 1:
        middle = (low + high) // 2
        point = read[middle] = _at(claims, deltas[middle])
        if point is not None and point.epsilon * pool <= point.delta * epsilon:
            high = middle
        else:
            low = middle
    points = [point for point in read.values() if point is not None]
    return min(points, key=lambda point: max(point.epsilon * pool, point.delta * epsilon), default=None)


def _deltas(pool: Fraction) -> list[Fraction]:
    """Return the deltas to try, in increasing order."""
    found = {pool / 2**k for k in range(11)}
    decade = Fraction(1)
    while decade * 10 > pool * _LEAST_SHARE:
        found.update(digit * decade for digit in _DIGITS if pool * _LEAST_SHARE <= digit * decade <= pool)
        decade /= 10
    return sorted(found)


def _at(claims: Claims, delta: Fraction) -> ApproxDP | None:
    return claims.approx_at(grid_floor(delta, digits=3))

"""The meter of a release: adds up what was drawn and compares it with what is claimed.

Every draw is counted before its first random bit (`noise.Source.paying`). At the end `settle` adds the prices up in the
kind of each claim, with exact fractions, and refuses the release where a sum exceeds its claim. It looks at prices and
parts alone, which are public or were released, so that a refusal says nothing about records.

A record pays for the draws whose part holds it: over disjoint groups, and disjoint spans of one column's grid, the
largest sum counts, not the sum of all (accounting proof page, section 5). A unit of several rows pays for each of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from sidelight.accounting import batch
from sidelight.errors import ClaimError, NoiseError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Claims,
    Neighbours,
    Person,
    PureDP,
    Row,
    claims_to_replace,
    for_group,
    for_person,
)
from sidelight.guarantees.claims import Claim
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.guarantees.implications import implies, renyi_of
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.price import Amounts, DrawPrice, amount_of
from sidelight.noise.source import EVERYTHING, Part, Price

#: What the user reads when a sum exceeds its claim: fixed, because the charge stands and nothing else may be said.
OVERDRAWN = (
    "this release drew more than it claims to cost, which is a defect of sidelight; nothing was released, and its "
    "charge stands. Please report the query"
)
#: What group privacy multiplies a draw by whose price is for the unit of the release.
_ALREADY = (Fraction(1), Fraction(1))
_Factors: TypeAlias = tuple[Fraction, Fraction]
_KINDS: tuple[Amounts, ...] = ("epsilon", "rho", "mu_squared")


class Drawn(NamedTuple):
    """One line of what a release spent: a price and the records that it is about."""

    price: DrawPrice
    part: Part

    @property
    def is_of_pairs(self) -> bool:
        """Whether adding or removing a row replaces a pair, which is not what the price is for."""
        return self.part.pairs and self.price.claims.neighbours is Neighbours.ADD_REMOVE

    @property
    def line(self) -> dict[str, str]:
        """What is shown of it: without the places of spans, which fill pages and tell nothing."""
        over = [] if self.part.group is None else ["rows of one group"]
        over += [] if self.part.spans is None else ["rows of one interval"]
        found = {
            "law": self.price.law,
            "statistic": self.price.statistic,
            "cost": self.price.cost,
            "over": ", ".join(over) or "all rows",
        }
        return found | ({"theorem": self.price.theorem} if self.price.theorem else {})


@dataclass(eq=False)
class Meter:
    """Counts the prices of one release and compares their sum with its claims.

    Args:
        claims: What the release promises; also the sub-budget of draws that one theorem prices together.

    >>> meter = Meter(Claims.of(PureDP(1)))
    >>> meter.add(DrawPrice(law="discrete Laplace", claims=Claims.of(PureDP("0.6"))), EVERYTHING)
    >>> meter.settle()
    >>> meter.add(DrawPrice(law="discrete Laplace", claims=Claims.of(PureDP("0.6"))), EVERYTHING)
    >>> meter.settle()
    Traceback (most recent call last):
    sidelight.errors.NoiseError: this release drew more than it claims to cost, ...
    """

    claims: Claims
    drawn: list[Drawn] = field(default_factory=list)
    _later: Meter | None = None

    def add(self, price: Price, part: Part, *, again: bool = False) -> None:
        """Count a price before anything is drawn for it; with `again`, only look that an equal one was counted."""
        if not isinstance(price, DrawPrice):
            raise NoiseError("a draw wants a price of the mechanisms; nothing was drawn")
        if self._later is not None:
            self._later.add(price, part, again=again)
            return
        if again:
            if all(each.price != price for each in self.drawn):
                raise NoiseError("a draw at a price that was not counted before; nothing was drawn")
            return
        self.drawn.append(Drawn(price, part))
        if price.covers is not None:
            self._later = Meter(price.covers)

    @property
    def spending(self) -> tuple[dict[str, str], ...]:
        """What was drawn, in order of the first of each kind, with how many times."""
        lines: dict[tuple[tuple[str, str], ...], int] = {}
        known: dict[tuple[int, bool, bool], tuple[tuple[str, str], ...]] = {}  # most draws have the same few prices
        for each in (*self.drawn, *(() if self._later is None else self._later.drawn)):
            seen = id(each.price), each.part.group is None, each.part.spans is None
            if (key := known.get(seen)) is None:
                key = known[seen] = tuple(each.line.items())
            lines[key] = lines.get(key, 0) + 1
        return tuple({**dict(line), "times": str(times)} for line, times in lines.items())

    def settle(self) -> None:
        """Refuse the release if the sum of what was drawn exceeds one of its claims."""
        if self._later is not None:
            self._later.settle()
        if self.drawn and not all(self._proves(claim) for claim in self.claims):
            raise NoiseError(OVERDRAWN)

    def _proves(self, claim: Claim) -> bool:
        alone = [each.price.claims for each in self.drawn]
        plain = not any(each.is_of_pairs for each in self.drawn)
        if plain and len(alone) == 1 and any(implies(each, claim) for each in _for_unit(alone[0], claim)):
            return True
        kinds: dict[type, Amounts] = {PureDP: "epsilon", ZCDP: "rho", GDP: "mu_squared"}
        if type(claim) in kinds:
            total = self.total(kinds[type(claim)])
            limit = {PureDP: "epsilon", ZCDP: "rho", GDP: "mu"}[type(claim)]
            amount: Fraction = getattr(claim, limit) ** (2 if isinstance(claim, GDP) else 1)
            if total is not None and total > amount and not isinstance(claim, PureDP):
                total = self.total(kinds[type(claim)], by_pure=True)
            return total is not None and total <= amount
        if isinstance(claim, RDP) and plain and self._renyi(claim):
            return True
        if any(implies(each, claim) for each in self.totals(claim)) or self._composed(claim):
            return True
        return isinstance(claim, ApproxDP) and self._by_group(claim)

    def _renyi(self, claim: RDP) -> bool:
        """Return whether the sums of Renyi divergences keep to a claim at every order of it."""
        for order, bound in claim.curve.points:
            total = Fraction(0)
            for each in self.drawn:
                ways = [renyi_of(one, order) for one in _for_unit(each.price.claims, claim)]
                if not (found := [way for way in ways if way is not None]):
                    return False
                total += min(found)
            if total > bound:
                return False
        return True

    def _composed(self, claim: Claim) -> bool:
        """Return whether fits that were planned beforehand prove a claim by the composition of a fixed batch."""
        if len(self.drawn) < 2 or any(each.part != EVERYTHING or not each.price.theorem for each in self.drawn):
            return False
        delta = claim.delta if isinstance(claim, ApproxDP) else None
        try:
            together = batch([each.price.claims for each in self.drawn], delta=delta)
        except ClaimError:
            return False
        return any(implies(each, claim) for each in _for_unit(together, claim))

    def _by_group(self, claim: ApproxDP) -> bool:
        """Return whether a claim is proved by groups of one partition, each summed in epsilon or in rho.

        What is not of a group is summed in epsilon. A unit with a share s of its rows in groups of the second kind pays
        s² of their rho for them, which is s of their epsilon (quantiles proof page, 5.3).
        """
        groups: dict[int | None, list[Drawn]] = defaultdict(list)
        for each in self.drawn:
            groups[each.part.group if each.price.claims.unit == Row() else None].append(each)
        rest = groups.pop(None, [])
        grouped = [each for group in groups.values() for each in group]
        common = {(each.part.partition, each.part.rows_of_unit) for each in grouped}
        epsilon = Meter(self.claims, rest).total("epsilon")
        if len(common) != 1 or epsilon is None or epsilon >= claim.epsilon:
            return False
        if any(each.part.pairs or each.price.claims.neighbours is not Neighbours.ADD_REMOVE for each in grouped):
            return False  # a replaced record leaves one group and enters another
        rows, squares = common.pop()[1] or _rows_of(self.claims)
        left, worst = claim.epsilon - epsilon, Fraction(0)
        for meter in (Meter(self.claims, group) for group in groups.values()):
            pure = meter.total("epsilon")
            if pure is None or pure > left:
                rho = meter.total("rho")
                if rho is None:
                    return False
                worst = max(worst, rho * rows**2 / squares)  # of all rows of a unit in one group
        return not worst or implies(ZCDP(worst, **claim.context), ApproxDP(left, claim.delta, **claim.context))

    def totals(self, like: Claim) -> Iterable[Claim]:
        """Return what all draws prove together, in each kind that all of them have."""
        context = like.context
        epsilon, rho, square = (self.total(kind) for kind in _KINDS)
        if epsilon is not None:
            yield PureDP(epsilon, **context)
        if rho is not None:
            yield ZCDP(rho, **context)
        if square is not None:
            yield GDP(root_of_sum_of_squares(square), **context)
        pures = [each for each in self.drawn if each.price.claims.pure() is not None]
        others = [each for each in self.drawn if each.price.claims.pure() is None]
        items = [_item(_for_unit(each.price.claims, like)) for each in others]
        epsilon = Meter(self.claims, pures).total("epsilon")
        if epsilon is not None and all(items) and all(each.part == EVERYTHING for each in others):
            loss, chance = (sum((item[place] for item in items if item), Fraction(0)) for place in (0, 1))
            if 0 < chance < 1:
                yield ApproxDP(epsilon + loss, chance, **context)

    def total(self, kind: Amounts, *, by_pure: bool = False) -> Fraction | None:
        """Return the most that one unit pays in a kind; None where a draw has no such amount.

        With `by_pure` a partition costs no more than its sum in epsilon proves, too.
        """
        row, own, usual = Row(), self.claims.unit, _rows_of(self.claims)  # made once: there may be thousands of draws
        costs: list[Fraction] = []
        known: dict[tuple[int, bool], Fraction | None] = {}  # thousands of draws have the same few prices
        for each in self.drawn:
            key = id(each.price), each.part.pairs
            if each.price.claims.unit not in (row, own):
                return None
            if each.price.beyond is not None:
                most, least = (
                    _own_cost(claims, kind, self.claims) for claims in (each.price.claims, each.price.beyond)
                )
                cost = None if most is None or least is None else most - least
            elif key in known:
                cost = known[key]
            else:
                claims = each.price.claims
                alike = not each.part.pairs and claims.neighbours is self.claims.neighbours
                cost = known[key] = (
                    each.price.amount(kind) if alike else _cost(claims, each.part.pairs, kind, self.claims)
                )
            if cost is None:
                return None
            costs.append(cost)
        total = Fraction(0)
        parts: dict[tuple[_Factors, int | None], dict[int | None, list[tuple[Drawn, Fraction]]]] = {}
        last: tuple[_Factors, int | None] | None = None
        for each, cost in zip(self.drawn, costs, strict=True):
            unit, part = each.price.claims.unit, each.part
            if unit == row and _moves(each.price.claims):
                # a replaced record leaves one part and enters another
                factors, part = usual, EVERYTHING
            elif unit == row:
                factors = each.part.rows_of_unit or usual
            elif each.part.group is not None and each.part.additive and not _moves(each.price.claims):
                factors = _ALREADY
            else:
                total += cost  # of the unit of the release: its rows may be in all parts
                continue
            if last is None or last[0] is not factors or last[1] != part.partition:  # a hash of fractions takes longer
                last = factors, part.partition
                groups = parts.setdefault(last, defaultdict(list))
            groups[part.group].append((each if part is each.part else Drawn(each.price, part), cost))
        for ((rows, squares), _), groups in parts.items():
            paths = [_worst_path([(each.part, cost) for each, cost in group]) for group in groups.values()]
            found = max(paths) * (rows if kind == "epsilon" else squares)
            if rows > 1 and kind != "epsilon":
                found = min(found, self._one_each(groups, int(rows), kind, otherwise=found))
            if by_pure:
                whole = Meter(self.claims, [each for group in groups.values() for each, _ in group]).total("epsilon")
                proved = Claims.of(PureDP(whole, **self.claims.context)) if whole else None
                pure = None if proved is None else _own_cost(proved, kind, self.claims)
                found = found if pure is None else min(found, pure)
            total += found
        return total

    def _one_each(
        self, groups: dict[int | None, list[tuple[Drawn, Fraction]]], rows: int, kind: Amounts, *, otherwise: Fraction
    ) -> Fraction:
        """Return what draws cost a unit if each of its rows meets at most one of them.

        Choices of bounded range e on disjoint records have a range of rows · e together, which costs less than group
        privacy of what e alone costs (summaries proof page, step A of a person).
        """
        drawn = [each for group in groups.values() for each, _ in group]
        if not _at_most_once([each.part for each in drawn]) or any(each.price.beyond is not None for each in drawn):
            return otherwise
        worst = Fraction(0)
        for claims in {each.price.claims for each in drawn}:
            grouped = claims.map(lambda claim: for_group(claim, rows))
            cost = _cost(grouped, False, kind, self.claims)  # noqa: FBT003
            if cost is None:
                return otherwise
            worst = max(worst, cost)
        return worst


def _moves(claims: Claims) -> bool:
    """Return whether neighbours differ by a unit that may leave one part and enter another."""
    return claims.neighbours in (Neighbours.REPLACE, Neighbours.KEPT)


def _cost(claims: Claims, pairs: bool, kind: Amounts, of: Claims) -> Fraction | None:  # noqa: FBT001
    """Return what a draw costs in a kind, for the neighbours of the release."""
    if pairs and claims.neighbours is Neighbours.ADD_REMOVE:
        claims = claims_to_replace(claims)  # adding or removing a row replaces a pair
    if claims.neighbours is not of.neighbours and not (pairs and claims.neighbours is Neighbours.REPLACE):
        if (claims.neighbours, of.neighbours) != (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            return None
        claims = claims_to_replace(claims)
    return _own_cost(claims, kind, claims)


def _own_cost(claims: Claims, kind: Amounts, of: Claims) -> Fraction | None:
    """Return what a draw costs in a kind, if it is for the neighbours of the release."""
    return amount_of(claims, kind) if claims.neighbours is of.neighbours else None


def _rows_of(claims: Claims) -> tuple[Fraction, Fraction]:
    """Return how many rows a unit has at most, and their square: what group privacy multiplies by."""
    rows = rows_of_unit(claims.unit)
    return Fraction(rows), Fraction(rows**2)


def _worst_path(draws: list[tuple[Part, Fraction]]) -> Fraction:
    """Return the largest sum that one record meets: on each axis, of the draws whose spans hold one place."""
    whole = math.lcm(*(cost.denominator for _, cost in draws))  # integers add up four times as fast as fractions
    total = 0
    axes: dict[int | None, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for part, cost in draws:
        amount = cost.numerator * (whole // cost.denominator)
        if part.spans is None:
            total += amount
            continue
        for low, high in part.spans:
            if low < high:
                axes[part.axis][low] += amount
                axes[part.axis][high] -= amount
    for steps in axes.values():
        here = most = 0
        for place in sorted(steps):
            here += steps[place]
            most = max(most, here)
        total += most
    return Fraction(total, whole)


def _at_most_once(parts: list[Part]) -> bool:
    """Return whether no record is in two parts."""
    if len(parts) <= 1:
        return True
    if any(part == EVERYTHING for part in parts):
        return False
    groups: dict[int | None, list[tuple[Part, Fraction]]] = defaultdict(list)
    for part in parts:
        groups[part.group].append((part, Fraction(1)))
    one = len({part.partition for part in parts}) == 1
    return one and all(_worst_path(each) <= 1 for each in groups.values())


def _item(claims: Sequence[Claim]) -> tuple[Fraction, Fraction] | None:
    """Return the (epsilon, delta) of a draw, that with the smallest delta."""
    items = [claim for claim in claims if isinstance(claim, ApproxDP)]
    item = min(items, key=lambda each: (each.delta, each.epsilon), default=None)
    return None if item is None else (item.epsilon, item.delta)


def _for_unit(claims: Claims, like: Claim) -> Sequence[Claim]:
    """Return the claims of a draw as claims for the unit, numerics and neighbours of another."""
    if claims.neighbours is not like.neighbours:
        if (claims.neighbours, like.neighbours) != (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            return ()
        claims = claims_to_replace(claims)
    if claims.unit == Row() and isinstance(like.unit, Person):
        claims = for_person(claims, like.unit)
    if claims.unit != like.unit:
        return ()
    return claims.under(**like.context).claims

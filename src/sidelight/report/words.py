"""A guarantee in words: what it means for one person, without a formula and without saying more than is proved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sidelight.guarantees import Claims, Neighbours, Person
from sidelight.guarantees.amounts import bound_text, grid_floor
from sidelight.report.numbers import at_most, shown

#: How sure someone may have been before; shown with how sure they can be afterwards.
BEFORE = (0.01, 0.1, 0.5)
#: Where a claim has no epsilon of its own it is read at this failure probability.
USUAL_DELTA = "1e-6"


@dataclass(frozen=True, kw_only=True)
class Belief:
    """How sure someone was that a person is in the data, and how sure they can have become at most."""

    before: float
    after: float


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One guarantee: for everybody, for the curious, and exactly."""

    plain: str
    beliefs: tuple[Belief, ...]
    caveat: str
    exact: tuple[str, ...]
    protects: str


def promise(claims: Claims) -> Promise:
    """Return what these claims mean for one protected unit."""
    protects = _protected(claims.unit)
    adds = claims.neighbours is Neighbours.ADD_REMOVE
    epsilon, caveat = _epsilon(claims)
    factor = math.exp(min(epsilon, 700.0))
    change = f"Adding {protects} to the data, or taking it away," if adds else f"Replacing {protects} by any other"
    plain = f"{change} makes no published result more than {_factor(factor)} times as likely or as unlikely."
    beliefs = tuple(Belief(before=p, after=_up(p * factor / (p * factor + 1 - p), 3)) for p in BEFORE)
    return Promise(
        plain=plain,
        beliefs=beliefs if adds and epsilon < 20 else (),
        caveat=caveat,
        exact=tuple(str(each) for each in claims),
        protects=f"one {claims.unit}; neighbouring data sets: {claims.neighbours}",
    )


def _epsilon(claims: Claims) -> tuple[float, str]:
    """Return an epsilon that the claims prove, and what to add when it does not hold surely."""
    pure = claims.pure()
    if pure is not None:
        return float(pure.epsilon), ""
    approx = claims.items[0] if claims.items else claims.approx_at(USUAL_DELTA)
    assert approx is not None, "every claim that the library makes has an (epsilon, delta) reading"
    odds = f"one in {shown(float(grid_floor(1 / approx.delta, digits=3)), digits=3)}"
    return float(approx.epsilon), f"This may fail with a chance of at most {bound_text(approx.delta)}, {odds}."


def _protected(unit: object) -> str:
    if isinstance(unit, Person):
        return f"any one person (with up to {unit.max_rows} rows)"
    return "any one report" if str(unit) == "event" else "any one row"


def _factor(factor: float) -> str:
    """Write a factor, rounded up: what is said must hold; near 1 with more digits, or all small epsilons were alike."""
    if factor >= 10:
        return at_most(factor)
    places = 2 if factor >= 1.05 else 4
    return f"{_up(factor, places):.{places}f}"


def _up(value: float, places: int) -> float:
    steps = 10.0**places
    return math.ceil(value * steps - 1e-9) / steps


def together(several: Sequence[Claims]) -> float | None:
    """Return the sum of epsilons when every release has one and all protect the same: what holds for them together.

    Guarantee: basic composition, valid however the queries were chosen (accounting proof page, 2.3).
    """
    whom = {(claims.unit, claims.neighbours) for claims in several}
    pures = [claims.pure() for claims in several]
    if len(whom) != 1 or any(pure is None for pure in pures):
        return None
    return float(sum(pure.epsilon for pure in pures if pure is not None))

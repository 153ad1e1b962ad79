"""What an (epsilon, delta) allows one row, and at one public Renyi order, which a certified chain is divided from.

The order is chosen from epsilon and delta before any data is opened; one order is enough (stability proof page, Theorem
2), and at that order a mechanism may use all that the conversion leaves.

A person's (epsilon, delta) is first divided over the rows that they may have: distances count rows, promises may be
about people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, Claims, Neighbours, decimal_text, exact, native_claims, positive
from sidelight.guarantees.claim_sets import for_person
from sidelight.guarantees.claims import Person, Unit
from sidelight.guarantees.intervals import Interval, round_down

LEAST_ORDER = 2
_POINTS = 400
_ONE = Interval.of(1)


@dataclass(frozen=True, kw_only=True)
class OrderBudget:
    """A Renyi divergence of `divergence` at `order` gives (epsilon, delta)."""

    order: Fraction
    divergence: Fraction

    @property
    def rho(self) -> float:
        """The divergence per order: μ²/2 of Gaussian noise that uses all of it."""
        return float(self.divergence / self.order)

    def mu(self, share: Fraction) -> float:
        """Return the μ of Gaussian noise that uses this share of the budget at this order."""
        return math.sqrt(2 * float(share) * self.rho) * (1 - 1e-12)


def order_budget(
    epsilon: Fraction, delta: Fraction, *, order: Amount | None = None, highest: float | None = None
) -> OrderBudget:
    """Return the order at which most is left, and what: ε + ln(α/(α-1)) + (ln δ + ln α)/(α-1), rounded down.

    "Most" counts per order, which is what Gaussian noise pays. The default highest order is max(3, 1 + 2 ln(1/δ)/ε).

    Raises:
        RangeError: an order below 2, which posterior sampling does not cover, or one that leaves nothing.

    >>> round(order_budget(Fraction(1), Fraction(1, 10**6)).rho, 6)
    0.024356
    """
    if order is not None:
        chosen = exact(order, name="order")
        if chosen < LEAST_ORDER:
            raise RangeError(f"the certificates cover Renyi orders of at least {LEAST_ORDER}, got {order}")
    else:
        logarithm = -math.log(delta)
        top = highest if highest is not None else max(3.0, 1 + 2 * logarithm / float(epsilon))
        ratio = math.log(top / LEAST_ORDER)
        grid = [LEAST_ORDER * math.exp(ratio * place / (_POINTS - 1)) for place in range(_POINTS)]
        best = max(grid, key=lambda a: _left(float(epsilon), logarithm, a) / a)
        chosen = Fraction(max(LEAST_ORDER, round(best, 3))).limit_denominator(1000)
    budget = Interval.of(epsilon) - Interval.of((chosen - 1) / chosen).log()
    budget = budget + (Interval.of(delta).log() + Interval.of(chosen).log()) / Interval.of(chosen - 1)
    divergence = round_down(budget.lower)
    if divergence <= 0:
        raise RangeError(
            f"order {decimal_text(chosen) if order is not None else float(chosen)} leaves nothing of epsilon "
            f"{float(epsilon):.6g} at delta {float(delta):.3g}; use a higher order, or a larger epsilon"
        )
    return OrderBudget(order=chosen, divergence=divergence)


def _left(epsilon: float, logarithm: float, order: float) -> float:
    return epsilon - math.log1p(-1 / order) - (logarithm - math.log(order)) / (order - 1)


@dataclass(frozen=True, kw_only=True)
class RowBudget:
    """What one row spends, and what is promised to the unit."""

    epsilon: Fraction
    delta: Fraction
    claims: Claims


def row_budget(epsilon: Amount, delta: Amount, *, unit: Unit, neighbours: Neighbours) -> RowBudget:
    """Divide a unit's budget over its rows by group privacy: epsilon/k, and delta over the geometric sum.

    >>> from sidelight.guarantees.claims import Row
    >>> print(row_budget(1, "1e-6", unit=Row(), neighbours=Neighbours.ADD_REMOVE).claims)
    ApproxDP(ε = 1, δ = 1e-6)
    """
    total, failure = positive(epsilon, name="epsilon"), exact(delta, name="delta")
    if not 0 < failure < 1:
        raise RangeError(f"delta must lie strictly between 0 and 1, got {delta}; well below 1/n is usual, such as 1e-6")
    rows = unit.max_rows if isinstance(unit, Person) else 1
    share = total / rows
    if rows > 1:
        step, power, steps = Interval.of(share).exp(), Interval.of(1), Interval.of(0)
        for _ in range(rows):
            steps, power = steps + power, power * step
        failure = round_down((Interval.of(failure) / steps).lower)
        if failure == 0:
            raise RangeError(f"epsilon {epsilon} leaves no delta for one of {rows} rows of a person; spend less")
    per_row = native_claims(ApproxDP(share, failure, neighbours=neighbours), mechanism="propose_test_release")
    claims = for_person(per_row, unit) if isinstance(unit, Person) else per_row.with_unit(unit)
    return RowBudget(epsilon=share, delta=failure, claims=claims)

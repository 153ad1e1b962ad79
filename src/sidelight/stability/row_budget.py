"""What one row may spend of a person's (epsilon, delta): distances count rows, promises may be about people."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, Claims, Neighbours, exact, native_claims, positive
from sidelight.guarantees.claim_sets import for_person
from sidelight.guarantees.claims import Person, Unit
from sidelight.guarantees.intervals import Interval, round_down


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

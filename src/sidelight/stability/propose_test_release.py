"""Propose, test, release: what the queries of this package share, and how they divide an (epsilon, delta).

A private test or bound is released first, a parameter is chosen from that alone, and the release follows with the
parameter, or a refusal. The release pipeline has charged before, and charges a refusal like a release.

A person's (epsilon, delta) is first divided over the rows that they may have: distances count rows, promises may be
about people. Certified chains are then divided at one public Renyi order, chosen from epsilon and delta before any data
is opened; one order is enough (stability proof page, Theorem 2).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import (
    Amount,
    ApproxDP,
    Claims,
    Neighbours,
    PureDP,
    decimal_text,
    exact,
    native_claims,
    positive,
)
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.claim_sets import for_unit
from sidelight.guarantees.intervals import Interval, round_down
from sidelight.guarantees.units import Unit, rows_of_unit
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import DistanceTest
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.release import Outcome
from sidelight.session.pipeline import release_once
from sidelight.session.query import Answer, Prepared, Refusal

Secret = TypeVar("Secret")
Certificate = TypeVar("Certificate")
Parameter = TypeVar("Parameter")
Passed: TypeAlias = Literal["passed"]

#: Floating-point eigenvalues are lowered by this share of the largest possible one, a public number.
EIGENVALUE_TOLERANCE = 1e-9
LEAST_ORDER = 2
_POINTS = 400


class ProposingQuery:
    """A query of a table with declared columns that may be refused."""

    _wanted: ClassVar[str]  # the table that it needs, for people who pass an array

    @abstractmethod
    def prepare(self, schema: Schema) -> Prepared:
        """Check the query against the schema and price it. Opens no data."""

    def release(self, data: Table) -> Outcome:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, data)

    def declare(self) -> Number:
        """Refuse a bare array: columns must be declared."""
        raise SchemaError(self._wanted)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedProposal(Prepared, Generic[Secret, Certificate, Parameter]):
    """A family of mechanisms with a private route to a bound of their loss.

    Args:
        refusal: The public text of its refusals.
        within: What all draws may cost a row.
    """

    refusal: str
    within: Claims
    _law: ClassVar[str] = "certify, choose, release"

    @abstractmethod
    def look(self, table: Table, source: Source) -> Secret:
        """Read what is needed of the rows, once. Secret."""

    @abstractmethod
    def certify(self, secret: Secret, source: Source) -> Certificate:
        """Release, with noise, numbers from which a bound of the loss follows."""

    @abstractmethod
    def choose(self, certificate: Certificate) -> Parameter | None:
        """Choose the parameter from the certificate alone; None if none is good enough."""

    @abstractmethod
    def answer(self, secret: Secret, parameter: Parameter, source: Source) -> Answer | Refusal:
        """Run the mechanism with this parameter; a private selection may come out empty."""

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Certify, choose, then release or refuse."""
        # The price of everything: the unit's (ε, δ), which includes what single draws cost a row.
        price = DrawPrice(
            law=self._law, claims=self.claims, theorem="stability proof page, section 2", covers=self.within
        )
        with source.paying(price):
            pass  # the draws that follow keep within it
        secret = self.look(table, source)
        parameter = self.choose(self.certify(secret, source))
        return Refusal(reason=self.refusal) if parameter is None else self.answer(secret, parameter, source)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTest(PreparedProposal[Secret, Passed | None, Passed]):
    """A proposal with an integer distance to the nearest data set where it is wrong: tested, then released or not.

    Test and mechanism cost a row the ε of the budget together; the probability of a false pass is its δ.
    """

    test: DistanceTest
    _law: ClassVar[str] = "propose, test, release"

    is_additive = True  # distances are of counts and ranks

    @abstractmethod
    def distance(self, secret: Secret, *, cap: int) -> int:
        """Return how many records must change until the proposal is wrong, at most `cap`. Secret; one record: one."""

    def certify(self, secret: Secret, source: Source) -> Passed | None:
        """Test the distance."""
        distance = self.distance(secret, cap=self.test.cap)
        return "passed" if self.test.passes(distance, source, neighbours=self.claims.neighbours) else None

    def choose(self, certificate: Passed | None) -> Passed | None:
        """Go on where the test passed."""
        return certificate


def amounts(query: Any, *names: str) -> dict[str, str]:
    """Return parameters of a query as its request has them: exact decimals."""
    return {name: decimal_text(exact(getattr(query, name), name=name)) for name in names}


def check_rows_at_most(query: Any) -> None:
    """Keep the public bound of a frozen query on the number of rows as an int."""
    object.__setattr__(query, "rows_at_most", whole(query.rows_at_most, name="rows_at_most", most=10**12))


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


def order_budget(epsilon: Fraction, delta: Fraction, *, order: Amount | None = None) -> OrderBudget:
    """Return the order at which most is left, and what: ε + ln(α/(α-1)) + (ln δ + ln α)/(α-1), rounded down.

    "Most" counts per order, which is what Gaussian noise pays. The highest order is max(3, 1 + 2 ln(1/δ)/ε).

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
        top = max(3.0, 1 + 2 * logarithm / float(epsilon))
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

    @property
    def pure(self) -> Claims:
        """What draws may cost a row where delta is the probability of a false pass."""
        return Claims.of(PureDP(self.epsilon, neighbours=self.claims.neighbours))

    @property
    def idealized(self) -> Claims:
        """What is promised where the law holds for real numbers only."""
        return self.claims.with_numerics("idealized")


def row_budget(
    epsilon: Amount, delta: Amount, *, unit: Unit, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> RowBudget:
    """Divide a unit's budget over its rows by group privacy: epsilon/k, and delta over the geometric sum.

    >>> from sidelight.guarantees.units import Row
    >>> print(row_budget(1, "1e-6", unit=Row()).claims)
    ApproxDP(ε = 1, δ = 1e-6)
    """
    total, failure = positive(epsilon, name="epsilon"), exact(delta, name="delta")
    if not 0 < failure < 1:
        raise RangeError(f"delta must lie strictly between 0 and 1, got {delta}; well below 1/n is usual, such as 1e-6")
    rows = rows_of_unit(unit)
    share = total / rows
    if rows > 1:
        step, power, steps = Interval.of(share).exp(), Interval.of(1), Interval.of(0)
        for _ in range(rows):
            steps, power = steps + power, power * step
        failure = round_down((Interval.of(failure) / steps).lower)
        if failure == 0:
            raise RangeError(f"epsilon {epsilon} leaves no delta for one of {rows} rows of a person; spend less")
    per_row = native_claims(ApproxDP(share, failure, neighbours=neighbours), mechanism="propose_test_release")
    claims = for_unit(per_row, unit)
    return RowBudget(epsilon=share, delta=failure, claims=claims)

"""Find the price that an accuracy needs, by bisection over expected errors. Opens no data, charges nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sidelight.accuracy.expected import Expected, expected_at
from sidelight.errors import RangeError
from sidelight.guarantees.amounts import exact
from sidelight.readable import at_most, number_text, percent
from sidelight.records import Column, Schema, Table
from sidelight.session.query import price_of

#: Prices that are tried, as epsilon or mu.
SMALLEST, LARGEST = Fraction(1, 10_000), Fraction(100)
#: Bisection ends at this relative difference.
_CLOSE = 0.005


@dataclass(frozen=True, kw_only=True)
class Needed:
    """The price that an accuracy needs, and the error that is expected at it."""

    name: str  # "epsilon", "mu" or "rho"
    amount: Fraction
    expected: Expected
    within: float
    confidence: float

    def __float__(self) -> float:
        return float(self.amount)

    def __str__(self) -> str:
        allowed = f"{number_text(self.within)} {self.expected.unit}".rstrip()
        allowed += " in every column" if len(self.expected.columns) > 1 else ""
        error = "an error" if self.expected.likely is None else "a likely error"
        text = (
            f"{self.name} = {at_most(float(self.amount))} is needed for {error} within {allowed} with "
            f"{percent(self.confidence)} confidence"
        )
        return text if self.expected.likely is None else f"{text} (for certain: ± {at_most(self.expected.size)})"

    __repr__ = __str__


def epsilon_for(
    query: Any, data: Schema | Table | Sequence[Column], *, within: float, confidence: float = 0.95
) -> Needed:
    """Return the smallest price at which a query is expected to be within an error. Opens no data, charges nothing.

    The error is the bound of a theorem where there is one, else what was measured on generated rows of the declared
    shape: the answer says which. Of quantiles it is the likely error, of data without undeclared ties: a price for the
    bound that assumes nothing would be about ten times as high; the answer says that bound, too. A query that is priced
    by mu or rho is answered in mu or rho.

    Args:
        query: The query, at any price; its delta stays as it is.
        data: The declarations: a schema, its columns, or a table, of which no row is read.
        within: The error, in the unit of `release.error`: ranks of quantiles, rows of counts, units of a mean; of a
            query for several numbers, the largest that any of them may have.
        confidence: With which probability the error is not larger.

    Returns:
        The price, which `float` reads, with the error that is expected at it.

    >>> import sidelight as sl
    >>> needed = epsilon_for(sl.Count(epsilon=1), sl.Schema([sl.Number("age")]), within=10)
    >>> needed.name, round(float(needed), 2)
    ('epsilon', 0.32)
    """
    if not (isinstance(within, int | float) and math.isfinite(within) and within > 0):
        raise RangeError(f"within must be a positive number, got {within!r}; it is an error in the unit of the answer")
    if not 0 < confidence < 1:
        raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
    schema = data.schema if isinstance(data, Table) else data if isinstance(data, Schema) else Schema(data)
    name, stated = price_of(query)
    unit = _linear(name, exact(stated, name=name))

    def at(price: float) -> Expected:
        return expected_at(query, schema, Fraction(price) / unit, confidence=confidence)

    low, high = float(SMALLEST), float(LARGEST)
    found = at(high)
    if found.basis == "nothing":
        raise RangeError(f"no price can be found: {found.condition}")
    if found.size == 0:
        raise RangeError(f"no price can be named: the answer is exact at every one, if {found.condition}")
    if found.usual > within:
        raise RangeError(
            f"no {name} up to {at_most(_paid(name, high))} gives an error within {number_text(within)}: "
            f"there it is {found}; allow more, ask for less at once, or predict the answer"
        )
    if at(low).usual <= within:
        high = low
    while high > low * (1 + _CLOSE):  # the error falls as the price rises
        middle = math.sqrt(low * high)
        tried = at(middle)
        if tried.usual <= within:
            high, found = middle, tried
        else:
            low = middle
    price = _rounded_up(high)
    asked = at(price)
    return Needed(
        name=name,
        amount=exact(_paid(name, price), name=name),
        expected=asked if asked.usual <= within else found,
        within=float(within),
        confidence=confidence,
    )


def swept(query: Any, schema: Schema, *, confidence: float = 0.95) -> list[tuple[str, float, Expected]]:
    """Return name, amount and expected error of prices around the query's own."""
    name, stated = price_of(query)
    amount = exact(stated, name=name)
    factors = [Fraction(1, 8), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(8)]
    return [
        (
            name,
            float(amount * (factor**2 if name == "rho" else factor)),
            expected_at(query, schema, factor, confidence=confidence),
        )
        for factor in factors
    ]


def _linear(name: str, amount: Fraction) -> Fraction:
    """Return a price on the scale on which errors fall as 1/price: the root of twice a rho is a mu."""
    return Fraction(math.sqrt(2 * amount)) if name == "rho" else amount


def _paid(name: str, price: float) -> float:
    return price**2 / 2 if name == "rho" else price


def _rounded_up(price: float) -> float:
    """Return the price with three digits, rounded up.

    >>> _rounded_up(0.30123), _rounded_up(12.0)
    (0.302, 12.0)
    """
    step = 10.0 ** (math.floor(math.log10(price)) - 2)
    return round(math.ceil(price / step - 1e-9) * step, 12)

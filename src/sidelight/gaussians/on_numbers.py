"""What the Gaussian queries share: a price, columns, public rows, and how bare data becomes a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.gaussians.estimate import spending_for
from sidelight.gaussians.public_rows import PublicPoints, as_public_points
from sidelight.gaussians.spending import Spending
from sidelight.gaussians.starts import MOST_STEPS
from sidelight.guarantees import Amount, decimal_text, positive
from sidelight.mechanisms.budget import Budget
from sidelight.records import Number, Schema, Table
from sidelight.records.bare_numbers import bare_number, bare_numbers
from sidelight.release import Outcome
from sidelight.session import release_once


class OnNumbers:
    """What both queries share: a price, columns, and how bare data becomes a table."""

    columns: Any
    rho: Any
    epsilon: Any
    delta: Any
    public: Any
    rows: Any
    noise: Any
    steps: Any

    def _check(self) -> None:
        if isinstance(self.columns, str):
            raise RangeError(f"columns must be a list of names, got the text {self.columns!r}")
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
        _ = self.budget
        if self.public is not None:
            object.__setattr__(self, "public", as_public_points(self.public))
        whole = isinstance(self.steps, int | np.integer) and not isinstance(self.steps, bool)
        if self.steps is not None and not (whole and 1 <= self.steps <= MOST_STEPS):
            raise RangeError(f"steps must be a whole number from 1 to {MOST_STEPS}, or None, got {self.steps!r}")

    @property
    def budget(self) -> Budget:
        """The whole budget."""
        return Budget.of(rho=self.rho, epsilon=self.epsilon, delta=self.delta)

    def _points(self, width: int) -> PublicPoints | None:
        return None if self.public is None else self.public.for_columns(width)

    def _spending(self, schema: Schema, columns: tuple[str, ...]) -> Spending:
        return spending_for(schema, columns, budget=self.budget, noise=self.noise, public_rows=self.rows)

    def _priced(self) -> Mapping[str, Any]:
        return {
            "rows": "private" if self.rows is None else str(self.rows),
            "noise": "default" if self.noise is None else self.noise,
            "public": "none" if self.public is None else self.public.digest,
            **self.budget.request,
        }

    def declare(self) -> Number:
        """Return the declaration of a bare one-dimensional array."""
        return bare_number(self.columns)

    def release(self, data: Any) -> Outcome:
        """Release from a table, a two-dimensional array, or a frame, with exactly this query's budget."""
        table = data if isinstance(data, Table) else self.table(data)
        outcome: Outcome = release_once(self, table)  # type: ignore[call-overload]
        return outcome

    def table(self, data: Any) -> Table:
        """Declare the columns of an array or a frame: numbers, and every row one protected unit."""
        return bare_numbers(data, self.columns)


def bound_of(value: Amount | None, *, name: str) -> float:
    """Read a declared range: a positive number of a size that arithmetic can hold."""
    assert value is not None
    bound = float(positive(value, name=name))
    if not 1e-20 <= bound <= 1e20:
        raise RangeError(f"{name} must lie between 1e-20 and 1e20, got {value}; change the unit of the columns")
    return bound


def amount_text(value: Amount | None) -> str:
    """Write an amount for the request."""
    return "none" if value is None else decimal_text(positive(value, name="bound"))

"""An additive model before any data: its public parameters, how mu² is divided, and its price.

The parts are a descent for the lines, a count, one-way counts, a Gram matrix of leading components, perhaps a choice,
and the steps. Every part costs the same whatever was released before it (additive-model proof page, Theorem A).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Unit, decimal_text, exact, positive, unit_to_text
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.additive import Noise
from sidelight.records import Category, Number
from sidelight.regression.additive.fine_codes import MOST_LABELS, fine_size
from sidelight.regression.descent.integer_rows import Integers
from sidelight.regression.descent.plan import DescentPlan, PricedFit, plan_descent, square_of
from sidelight.regression.descent.rules import odds_of
from sidelight.regression.descent.targets import Targets
from sidelight.regression.model_predictions import declared_rows

Lines = Literal["auto", "none"]
Monotone = Literal["increasing", "decreasing"]
MOST_COLUMNS = 1000
#: What a count of a column, and of the target, is multiplied by.
COLUMN_WEIGHT, TARGET_WEIGHT = 2, 5
#: Cells of the levels of a number's counts: where they are worth it, and else.
FINE_LEVELS, COARSE_LEVELS = (16, 128, 1024), (8, 64)


@dataclass(frozen=True, kw_only=True)
class AdditiveShares:
    """What each part gets of mu²; they add up to 1."""

    lines: Fraction
    count: Fraction
    counts: Fraction
    gram: Fraction
    choice: Fraction
    steps: Fraction


def additive_shares(*, lines: bool, candidates: bool, rows_declared: bool) -> AdditiveShares:
    """Return how mu² is divided; what a part does not need goes to the steps.

    >>> additive_shares(lines=True, candidates=False, rows_declared=False).steps
    Fraction(231, 400)
    >>> additive_shares(lines=False, candidates=True, rows_declared=True).steps
    Fraction(73, 100)
    """
    rest = Fraction(3, 4) if lines else Fraction(1)
    parts = {
        "lines": 1 - rest,
        "count": Fraction(0) if rows_declared else rest / 100,
        "counts": rest * Fraction(12, 100),
        "gram": rest / 10,
        "choice": Fraction(5, 100) if candidates else Fraction(0),
    }
    return AdditiveShares(**parts, steps=1 - sum(parts.values(), Fraction(0)))


@dataclass(frozen=True, kw_only=True, eq=False)
class AdditivePlan(PricedFit):
    """Everything public about one additive model; `claims` is its price, known before any data is opened.

    Args:
        columns: The declared columns.
        lines: The descent of the first stage, None where there is none.
    """

    columns: tuple[Number | Category, ...]
    lines: DescentPlan | None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of fine codes of each column."""
        return tuple(fine_size(column) for column in self.columns)

    @property
    def numbers(self) -> int:
        """How many columns are numbers."""
        return sum(isinstance(column, Number) for column in self.columns)

    @cached_property
    def shares(self) -> AdditiveShares:
        """How mu² is divided."""
        return additive_shares(
            lines=self.lines is not None, candidates=bool(self.candidates), rows_declared=self.rows is not None
        )

    def mu_of(self, share: Fraction) -> float:
        """Return what a share of the price costs."""
        return float(self.mu) * math.sqrt(share)

    def levels(self, rows: float) -> tuple[int, ...]:
        """Return the levels of a number's counts for a released number of rows."""
        entries = len(FINE_LEVELS) * self.numbers + (len(self.columns) - self.numbers) + 1
        signal = rows * self.mu_of(self.shares.counts) / (self.rows_per_unit * math.sqrt(entries))
        return FINE_LEVELS if signal > 60 else COARSE_LEVELS

    def counts_square(self, levels: tuple[int, ...]) -> int:
        """Return Δ_h², the squared length of what a row adds to the one-way counts."""
        entries = len(levels) * self.numbers + (len(self.columns) - self.numbers)
        return COLUMN_WEIGHT**2 * entries + TARGET_WEIGHT**2

    def counts_noise(self, value: Integers, levels: tuple[int, ...]) -> Noise:
        """Return the noise of the scaled one-way counts."""
        root = Fraction(math.isqrt(self.counts_square(levels) * 4**20 - 1) + 1, 2**20)  # at least the root
        return self.budget.part(self.shares.counts).on(self.bounded(value, root))

    def gram_noise(self, value: Integers, radius: int) -> Noise:
        """Return the noise of the Gram matrix of rows of length at most `radius`."""
        return self.budget.part(self.shares.gram).on(self.bounded(value, radius**2), "goe")

    @cached_property
    def squares(self) -> dict[str, Fraction]:
        """The square of what each part costs: of the noise scales that are used, the steps at their share."""
        found = {"steps": self.mu**2 * self.shares.steps}
        if self.lines is not None:
            found["lines"] = sum(self.lines.squares.values(), Fraction(0))
        if self.shares.count:
            found["count"] = square_of(self.count_noise(0).claims)
        nothing = np.zeros(1, np.int64)
        found["counts"] = max(
            square_of(self.counts_noise(nothing, levels).claims) for levels in (FINE_LEVELS, COARSE_LEVELS)
        )
        found["gram"] = self.mu**2 * self.shares.gram
        if self.choice is not None:
            found["choice"] = square_of(self.choice.claims)
        return found

    def request(self) -> dict[str, str]:
        """Describe the fit for a ledger, with strings only."""
        return {
            "kind": "additive_model",
            "features": str(len(self.columns)),
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "mu": decimal_text(self.mu),
            "lines": "none" if self.lines is None else "descent",
            "predictions": str(len(self.candidates)),
            "odds": decimal_text(self.odds),
            "rows": "none" if self.rows is None else str(self.rows),
            "unit": unit_to_text(self.unit),
            **self.targets.to_json(),
        }


def plan_additive(
    *,
    columns: tuple[Number | Category, ...],
    targets: Targets,
    line_features: int,
    epsilon: Amount,
    delta: Amount,
    unit: Unit,
    lines: Lines = "auto",
    candidates: tuple[Any, ...] = (),
    odds: Amount = 9,
    rows: int | None = None,
) -> AdditivePlan:
    """Plan an additive model: check and price it. Reads no private data.

    Args:
        columns: The declared columns.
        targets: What is learned: a number or two classes.
        line_features: The features of the line stage.
        epsilon, delta: The target; there is no default.
        unit: The protected unit; a person may have several rows.
        lines: "auto": lines first, unless there is a prediction; "none": never.
        candidates: Predictions as tables on fine codes.
        odds: Prior odds of each of them against none.
        rows: A public number of rows; a wrong one costs accuracy only.

    Raises:
        RangeError: a parameter makes no sense.
    """
    if not 1 <= len(columns) <= MOST_COLUMNS:
        raise RangeError(f"an additive model has 1 to {MOST_COLUMNS} columns, got {len(columns)}")
    for column in columns:
        if isinstance(column, Category) and len(column.labels) > MOST_LABELS:
            raise RangeError(
                f"column {column.name!r} declares {len(column.labels)} labels; an additive model takes up to "
                f"{MOST_LABELS}; declare fewer, and let the rest be 'other'"
            )
    at, chance = positive(epsilon, name="epsilon"), positive(delta, name="delta")
    mu, number = gdp_within(at, chance), declared_rows(rows)
    first = None
    if lines == "auto" and not candidates:
        whole = plan_descent(
            targets=targets, features=line_features, epsilon=at, delta=chance, data_norm=1, rows=number, unit=unit
        )
        first = replace(whole, mu=mu / 2)  # a quarter of mu²
        _ = first.claims
    plan = AdditivePlan(
        columns=columns,
        targets=targets,
        lines=first,
        candidates=candidates,
        odds=odds_of(odds),
        rows=number,
        epsilon=exact(at, name="epsilon"),
        delta=exact(chance, name="delta"),
        mu=mu,
        unit=unit,
    )
    _ = plan.claims
    return plan

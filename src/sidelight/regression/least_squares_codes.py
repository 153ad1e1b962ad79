"""Columns of a table as the integers of a least-squares problem, and its solution back in the units of the columns.

What every one-pass linear regression shares: the features clipped to a public length, a constant column for the
intercept, the target in steps of its public range. All of it is public; no data is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.regression_moments import LeastSquares, RegressionRow
from sidelight.errors import SchemaError
from sidelight.grid import Grid
from sidelight.guarantees import Amount, exact, positive
from sidelight.records import Number, Schema

#: Integer steps of the feature radius and of half the target's width.
LEVELS = 1 << 14
_LARGEST_TARGET_CODE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LeastSquaresCodes:
    """The statistics that a regression reads, in steps of `unit` (features) and `step` (target)."""

    features: tuple[str, ...]
    target: str
    statistics: LeastSquares
    unit: Fraction
    step: Fraction

    @property
    def labels(self) -> tuple[str, ...]:
        """The features, and the intercept last."""
        return (*self.features, "intercept")

    def in_units(self, solution: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return coefficients in the columns' units and the intercept, for a solution in steps by units."""
        unit, step = float(self.unit), float(self.step)
        scaled = solution * (step / unit)
        width = len(self.features)
        constant = self.statistics.constant * unit * float(scaled[width]) if self.statistics.constant else 0.0
        return scaled[:width], self.statistics.centre * step + constant


def least_squares_codes(
    schema: Schema, *, features: Sequence[str], target: str, feature_norm: Amount, intercept: Amount
) -> LeastSquaresCodes:
    """Code features and target by what the schema declares.

    Raises:
        SchemaError: a column is not a number, or the target has no range.
        RangeError: the norm is not positive, or the codes would be too large for exact sums.
    """
    radius = positive(feature_norm, name="feature_norm")
    constant = exact(intercept, name="intercept")
    numbers = tuple(schema.number(name) for name in features)
    unit = radius / LEVELS
    goal, step, centre = _target(schema.number(target), centred=constant > 0)
    statistics = LeastSquares(
        coding=RegressionRow(
            features=ClippedVector(
                columns=numbers, radius=radius, levels=LEVELS, centres=(Fraction(0),) * len(numbers)
            ),
            target=goal,
        ),
        constant=(constant / unit + Fraction(1, 2)).__floor__(),
        centre=centre,
        rows_per_unit=schema.rows_per_unit,
        unit=schema.unit,
    )
    return LeastSquaresCodes(features=tuple(features), target=target, statistics=statistics, unit=unit, step=step)


def _target(number: Number, *, centred: bool) -> tuple[NumberCoding, Fraction, int]:
    """Code the target in steps of half its width; with an intercept its public middle is subtracted."""
    if number.lower is None or number.upper is None or number.lower >= number.upper:
        raise SchemaError(
            f"the target {number.name!r} needs a lower and a larger upper bound; declare Number({number.name!r}, "
            "lower=..., upper=...)"
        )
    half = (number.upper - number.lower) / 2
    step = half / LEVELS
    first, last = ((bound / step + Fraction(1, 2)).__floor__() for bound in (number.lower, number.upper))
    if max(abs(first), abs(last)) > _LARGEST_TARGET_CODE:
        raise SchemaError(
            f"the bounds of the target {number.name!r} lie far from 0 for their width; subtract a public number from it"
        )
    grid = Grid(resolution=step, first=first, last=last, dither_bits=0, snap="nearest")
    return NumberCoding(number.name, FixedPoint.on_grid(number, grid)), step, (first + last) // 2 if centred else 0

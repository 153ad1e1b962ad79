"""Columns of a table as the integers of a least-squares problem, and its solution back in the units of the columns.

What every one-pass linear regression shares: the features centred by their public ranges and clipped to a public
length, a constant column for the intercept, the target in steps of its public range. All of it is public; no data is
opened.

The noise is the same in every direction and grows with the square of the longest possible row, so a constant column
must not be short compared with the features, or noise hides the intercept; nor need a row be longer than half the
diagonal of its declared ranges. Neither the centre nor the constant touches the proof: a row is moved by a public
vector before it is clipped, and the sensitivity (`LeastSquares`) is computed from the clipped length and the constant
that are used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.regression_moments import LeastSquares, RegressionRow
from sidelight.errors import SchemaError
from sidelight.grid import Grid
from sidelight.guarantees import Amount, exact, positive
from sidelight.guarantees.intervals import root_above
from sidelight.records import Number, Schema

#: Integer steps of the feature radius and of half the target's width.
LEVELS = 1 << 14
#: The constant column of a row of length 1, where none is given: the best of five on generated rows, by
#: `benchmarks/intercept_scale.py`.
INTERCEPT_SHARE = Fraction(1, 2)
_ROOT_BITS = 20
_LARGEST_TARGET_CODE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class LeastSquaresCodes:
    """The statistics that a regression reads, in steps of `unit` (features) and `step` (target).

    Rows are taken about `centres` and clipped to `radius`; `intercept` is the value of the constant column, 0 for none.
    """

    features: tuple[str, ...]
    statistics: LeastSquares
    radius: Fraction
    centres: tuple[Fraction, ...]
    intercept: Fraction
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
        if not self.statistics.constant:
            return scaled[:width], self.statistics.centre * step
        constant = self.statistics.constant * unit * float(scaled[width])
        moved = sum(float(centre) * float(each) for centre, each in zip(self.centres, scaled, strict=False))
        return scaled[:width], self.statistics.centre * step + constant - moved


def least_squares_codes(schema: Schema, query: Any) -> LeastSquaresCodes:
    """Code `features` and `target` of a query, with its `feature_norm` and `intercept`, by what the schema declares.

    Where every feature has both bounds, their box has half a diagonal that is no longer than `feature_norm`, and there
    is an intercept, rows are taken about the middle of the box, and no row is shortened. Otherwise they are taken about
    0 and shortened to `feature_norm`. Without an `intercept` it is half as long as a row can be.

    Raises:
        SchemaError: a column is not a number, the target has no range, or nothing bounds the features.
        RangeError: the norm is not positive, or the codes would be too large for exact sums.
    """
    numbers = tuple(schema.number(name) for name in query.features)
    given = None if query.intercept is None else exact(query.intercept, name="intercept")
    radius, centres = _ball(numbers, query.feature_norm, centred=given is None or given > 0)
    constant = INTERCEPT_SHARE * radius if given is None else given
    unit = radius / LEVELS
    goal, step, centre = _target(schema.number(query.target), centred=constant > 0)
    statistics = LeastSquares(
        coding=RegressionRow(
            features=ClippedVector(columns=numbers, radius=radius, levels=LEVELS, centres=centres),
            target=goal,
        ),
        constant=(constant / unit + Fraction(1, 2)).__floor__(),
        centre=centre,
        rows_per_unit=schema.rows_per_unit,
        unit=schema.unit,
    )
    return LeastSquaresCodes(
        features=tuple(query.features),
        statistics=statistics,
        radius=radius,
        centres=centres,
        intercept=constant,
        unit=unit,
        step=step,
    )


def _ball(
    numbers: Sequence[Number], feature_norm: Amount | None, *, centred: bool
) -> tuple[Fraction, tuple[Fraction, ...]]:
    """Return the radius and the centre of the ball to which rows are clipped."""
    origin = (Fraction(0),) * len(numbers)
    norm = None if feature_norm is None else positive(feature_norm, name="feature_norm")
    bounds = [(each.lower, each.upper) for each in numbers if each.lower is not None and each.upper is not None]
    if len(bounds) < len(numbers):
        if norm is None:
            open_ended = next(each.name for each in numbers if each.lower is None or each.upper is None)
            raise SchemaError(
                f"nothing bounds the feature {open_ended!r}; declare Number({open_ended!r}, lower=..., upper=...), or "
                "give feature_norm=..., a public bound of a row's Euclidean norm"
            )
        return norm, origin
    half = _root_up(sum(((high - low) / 2) ** 2 for low, high in bounds))
    if centred and half > 0 and (norm is None or half <= norm):
        return half, tuple((low + high) / 2 for low, high in bounds)
    if norm is not None:
        return norm, origin
    return positive(_root_up(sum(max(low**2, high**2) for low, high in bounds)), name="the features' bounds"), origin


def _root_up(square: Fraction | int) -> Fraction:
    """Return a number just above the square root: a row of the declared bounds is never shortened."""
    square = Fraction(square)
    shift = max(0, _ROOT_BITS + (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    return root_above(square, bits=shift) if square else Fraction(0)


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

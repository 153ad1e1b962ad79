"""What is known about an additive model before its rows: curves that somebody states or has published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any

import numpy as np

from sidelight.errors import RangeError, nearest
from sidelight.predictions.origin import Origin, guess, public
from sidelight.records import Category, Number
from sidelight.regression.additive.fine_codes import FINE_CELLS
from sidelight.regression.losses import Floats

_LARGEST = 1e100


@dataclass(frozen=True, eq=False, repr=False)
class CurvePrediction:
    """Hold what the curves of an additive model probably are: a guess, or what somebody published.

    Guarantee: none is changed. The numbers must not come from the rows that are fitted.

    Accuracy: a good prediction is worth as many rows as it was learned from; a bad one costs a twentieth of the budget
    and the line stage: the fit chooses privately between it and none, and believes it column by column.

    Args:
        curves: By column: of a number points (value, what it adds), linear between them and level beyond; of a
            category {label: what it adds}. Columns that are not named add nothing. In the target's unit, or log odds.
        intercept: What is added to all rows.
        scale: The root mean square by which a column's curve may be off, in the same unit; left out: nobody knows.
        origin: Where it came from: a text names a public source; a guess if left out.

    >>> CurvePrediction({"age": [(20, -1.0), (60, 1.0)]}, intercept=5.0, origin="a textbook")
    CurvePrediction(1 curve, public: a textbook)
    """

    curves: Mapping[str, Any]
    intercept: float = 0.0
    _: KW_ONLY
    scale: float | None = None
    origin: str | Origin | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.curves, Mapping):
            raise RangeError('curves maps columns to points, such as {"age": [(20, -1.0), (60, 1.0)]}')
        if not _is_number(self.intercept):
            raise RangeError(f"intercept must be a finite number, got {self.intercept!r}")
        if self.scale is not None and not (_is_number(self.scale) and self.scale > 0):
            raise RangeError(f"scale must be a positive number or None, got {self.scale!r}")
        if self.origin is not None and not isinstance(self.origin, str | Origin):
            raise RangeError(f"origin is a text that names the source, got {type(self.origin).__name__}")
        _ = self.source  # an empty text is found now

    @property
    def source(self) -> Origin:
        """Where it came from."""
        if isinstance(self.origin, Origin):
            return self.origin
        return guess() if self.origin is None else public(self.origin)

    def tables(self, columns: Sequence[Number | Category]) -> list[Floats]:
        """Return the curves on fine codes, in the stated unit."""
        names = [column.name for column in columns]
        for name in self.curves:
            if name not in names:
                raise RangeError(f"there is a curve of {name!r}, which is no column; {nearest(str(name), names)}")
        return [self._table(column) for column in columns]

    def _table(self, column: Number | Category) -> Floats:
        given = self.curves.get(column.name)
        if isinstance(column, Category):
            found = np.zeros(len(column.labels))
            if given is None:
                return found
            if not isinstance(given, Mapping) or not all(_is_number(value) for value in given.values()):
                raise RangeError(f"the curve of the category {column.name!r} must map its labels to finite numbers")
            for label, value in given.items():
                if str(label) not in column.labels:
                    hint = nearest(str(label), column.labels)
                    raise RangeError(f"column {column.name!r} has no label {label!r}; {hint}")
                found[column.labels.index(str(label))] = float(value)
            return found
        if given is None:
            return np.zeros(FINE_CELLS + 1)
        points = [tuple(point) for point in given] if isinstance(given, Sequence) else []
        if not points or not all(len(point) == 2 and all(map(_is_number, point)) for point in points):
            raise RangeError(f"the curve of {column.name!r} must be points (value, what it adds), finite numbers")
        points.sort()
        assert column.lower is not None
        assert column.upper is not None
        low, high = float(column.lower), float(column.upper)
        at = low + (high - low) * (np.arange(FINE_CELLS) + 0.5) / FINE_CELLS
        inside = np.interp(at, [float(x) for x, _ in points], [float(y) for _, y in points])
        return np.append(inside, inside[FINE_CELLS // 2])  # a missing value counts as the middle

    def __repr__(self) -> str:
        return f"CurvePrediction({len(self.curves)} curve{'s' * (len(self.curves) != 1)}, {self.source})"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and abs(float(value)) <= _LARGEST

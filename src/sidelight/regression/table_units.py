"""Between the features of a model and the table's columns that they come from.

A number becomes (x - middle)/half of its declared range, times its share of a row's length; a label becomes that share.
Coefficients are published for columns as they are, and fitted for features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidelight.regression.losses import Floats


@dataclass(frozen=True, eq=False)
class TableUnits:
    """The names of the features, what a column's unit is in features (share/half), and where each feature is 0."""

    names: tuple[str, ...]
    factors: Floats
    middles: Floats

    def own(self, weights: Floats, constants: Floats) -> Floats:
        """Return coefficients and intercept for the columns as they are, output by output, from (outputs, features)."""
        raw = weights * self.factors
        return np.column_stack([raw, constants - raw @ self.middles]).ravel()

    def scaled(self, value: Floats) -> tuple[Floats, Floats]:
        """Undo `own`."""
        both = np.asarray(value, np.float64).reshape(-1, len(self.names) + 1)
        raw, shifted = both[:, :-1], both[:, -1]
        return np.asarray(raw / self.factors), np.asarray(shifted + raw @ self.middles)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TableUnits)
            and self.names == other.names
            and bool((self.factors == other.factors).all() and (self.middles == other.middles).all())
        )

    __hash__ = None  # type: ignore[assignment]  # arrays

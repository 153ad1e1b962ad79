"""Where curves start: a sum of public tables on fine codes, from lines that were released or from a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidelight.records import Category, Number
from sidelight.regression.additive.basis import Coordinates
from sidelight.regression.additive.fine_codes import FINE_CELLS, LineEncoder
from sidelight.regression.additive.row_sums import U_BITS
from sidelight.regression.losses import Floats
from sidelight.regression.table_rows import LEVELS

#: The largest entry of an offset, in 2⁻²⁸.
_LARGEST = 2.0**40


@dataclass(frozen=True, kw_only=True, eq=False)
class Offset:
    """A sum of tables, one per column on its fine codes, and a constant: in half ranges, or log odds.

    Of several classes tables are (fine codes, classes) and the constant is one number a class.
    """

    tables: tuple[Floats, ...]
    constant: float | Floats

    def whole(self) -> tuple[tuple[Floats, ...], float | Floats]:
        """Return the tables and the constant in whole numbers of 2⁻²⁸, rounded once."""

        def rounded(values: Floats) -> Floats:
            return np.clip(np.rint(np.nan_to_num(values) * 2.0**U_BITS), -_LARGEST, _LARGEST)

        constant = rounded(np.array(self.constant))
        return tuple(rounded(table) for table in self.tables), constant if constant.ndim else float(constant)

    def explained(self, place: Coordinates) -> Floats:
        """Return θ⁰: the part of the offset that the coordinates can say, by the released masses of fine codes."""
        found = [np.zeros((1, *self.tables[0].shape[1:]))]
        for at, (table, basis, weights) in enumerate(zip(self.tables, place.bases, place.weights, strict=True)):
            mass = place.cells[at].fine / max(float(place.cells[at].fine.sum()), 1e-300)
            varied = np.nan_to_num(table) - mass @ np.nan_to_num(table)
            u = place.on_codes(at, basis.values)
            found.append(((mass * varied.T) @ u / np.sqrt(weights)).T)
        return np.concatenate(found)


def line_tables(columns: Sequence[Number | Category], coefficients: Floats, encoder: LineEncoder) -> tuple[Floats, ...]:
    """Return the tables of a linear model of the line encoding, coefficients in half ranges or log odds.

    Coefficients are one per feature, of several classes (features, classes).
    """
    middles = (np.arange(FINE_CELLS) * (LEVELS // 512) + LEVELS // 1024 - LEVELS) / LEVELS
    found, start = [], 0
    for column in columns:
        if isinstance(column, Number):
            ends = np.append(middles, 0.0)
            found.append(np.multiply.outer(ends, coefficients[start] * encoder.share))
            start += 1
        else:
            found.append(coefficients[start : start + len(column.labels)] * encoder.share)
            start += len(column.labels)
    return tuple(found)

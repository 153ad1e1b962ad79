"""Rows of a table as rows of a model: coded columns as features, targets, and coefficients back in the columns' units.

Arithmetic of single rows by public declarations. It needs only NumPy, and SciPy for sparse rows: workers of an engine
do this where the rows are, and need not load scikit-learn for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CategoryCoding, CodeArrays, Coding
from sidelight.errors import RangeError, SchemaError
from sidelight.records import Category, Date, Number, Schema
from sidelight.records.dates import Calendar, later_start
from sidelight.regression.losses import Floats

#: Steps from the middle of a range to its end.
LEVELS = 1 << 20
#: Cells of a block of rows: 4 MB.
_CELLS = 1 << 19
#: Rows with many more columns than entries stay sparse; hats up to where a descent still releases coordinates do not.
_SPARSE_FROM, _SPARSE_HATS_FROM = 256, 1001


@dataclass(frozen=True)
class RowEncoder:
    """Rows of features of coded columns: a number its share of half its range, a category one column per label.

    With `hats`, a number is that many hat functions over its range instead, at even distances: a value has weights
    1 - w and w at the two adjacent nodes, whose squares add up to at most 1. So a row is no longer than without.
    """

    columns: tuple[Number | Category, ...]
    hats: int | None = None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every feature: a number's column or column@node, a category's column=label."""
        found: list[str] = []
        for column in self.columns:
            if isinstance(column, Number):
                found += [column.name] if self.hats is None else _node_names(column, self.hats)
            else:
                found += [f"{column.name}={label}" for label in column.labels]
        return tuple(found)

    @cached_property
    def codings(self) -> tuple[Coding, ...]:
        """How each column becomes integers."""
        return tuple(coding_of(column) for column in self.columns)

    def rows(self, codes: CodeArrays) -> Iterator[Any]:
        """Return the rows of coded columns, dense or CSR, in blocks of bounded size."""
        width, length = len(self.names), len(codes[0])
        entries = len(self.columns) * (1 if self.hats is None else 2)
        sparse = width >= (_SPARSE_FROM if self.hats is None else _SPARSE_HATS_FROM) and width >= 8 * len(self.columns)
        step = max(1, _CELLS // (2 * entries if sparse else width))
        for start in range(0, length, step):
            part = tuple(code[start : start + step] for code in codes)
            yield self._sparse(part) if sparse else self._dense(part)

    def _dense(self, codes: CodeArrays) -> Floats:
        out = np.zeros((len(codes[0]), len(self.names)))
        every = np.arange(len(codes[0]))
        for places, values in self._entries(codes):
            out[slice(None) if isinstance(places, int) else every, places] = values
        return out

    def _sparse(self, codes: CodeArrays) -> Any:
        from scipy.sparse import csr_array

        entries = list(self._entries(codes))
        values, places = np.empty((len(codes[0]), len(entries))), np.empty((len(codes[0]), len(entries)), np.int64)
        for j, (at, value) in enumerate(entries):
            values[:, j], places[:, j] = value, at
        starts = np.arange(len(values) + 1) * len(entries)
        return csr_array((values.ravel(), places.ravel(), starts), shape=(len(values), len(self.names)))

    def _entries(self, codes: CodeArrays) -> Iterator[tuple[int | NDArray[np.int64], Floats]]:
        """Return places and values of the entries of rows; no place comes twice in a row."""
        for column, code, first in zip(self.columns, codes, self._places.tolist(), strict=True):
            if isinstance(column, Category):
                yield first + np.maximum(code, 0), np.where(code >= 0, self.share, 0.0)
            elif self.hats is None:
                yield first, np.asarray(code * (self.share / LEVELS), np.float64)
            else:
                scaled = (code + LEVELS) * (self.hats - 1)
                left = np.minimum(scaled // (2 * LEVELS), self.hats - 2)
                right = (scaled - left * (2 * LEVELS)) / (2 * LEVELS)  # exact, and so is 1 - right
                yield first + left, self.share * (1 - right)
                yield first + left + 1, self.share * right

    @property
    def share(self) -> float:
        """What a column counts: so little that no row is longer than 1."""
        # rounded down by more than its error: k squares of it are at most 1
        return (1 - 2.0**-50) / math.sqrt(len(self.columns))

    @cached_property
    def units(self) -> TableUnits:
        """What the features are in the columns' own units."""
        ranges: list[tuple[float, float]] = []
        calendars: list[Calendar | None] = []
        for column in self.columns:
            if isinstance(column, Category):
                ranges += [(1.0, 0.0)] * len(column.labels)
            elif self.hats is not None:
                ranges += [(1.0, 0.0)] * self.hats  # the curve's value at a node
            else:
                low, high = range_of(column)
                ranges.append((float((high - low) / 2), float((high + low) / 2)))
            calendar = column.calendar if isinstance(column, Date) else None
            calendars += [calendar] * (len(ranges) - len(calendars))
        factors = np.array([self.share / half for half, _ in ranges])
        return TableUnits(self.names, factors, np.array([middle for _, middle in ranges]), tuple(calendars))

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        number = 1 if self.hats is None else self.hats
        widths = [number if isinstance(column, Number) else len(column.labels) for column in self.columns]
        return np.concatenate([[0], np.cumsum(widths)[:-1]])


def declared_columns(request: Mapping[str, Any]) -> tuple[Number | Category, ...]:
    """Return the columns that the request of a model declares; none of arrays, and of versions that held none.

    Raises:
        SchemaError: they are none that a model can have, as of a stored release that was changed.
    """
    entries = [each for each in request.get("columns", ()) if isinstance(each, Mapping)]
    found = Schema.from_json({"columns": entries}).columns if entries else ()
    columns = tuple(column for column in found if isinstance(column, Number | Category))
    if len(columns) < len(found):
        raise SchemaError("the release declares columns that no model has: persons, or labels without a list")
    return columns


def node_values(number: Number, hats: int) -> list[Fraction]:
    """Return where the hat functions of a number have their tops."""
    low, high = range_of(number)
    return [low + (high - low) * Fraction(i, hats - 1) for i in range(hats)]


def _node_names(number: Number, hats: int) -> list[str]:
    found = [f"{number.name}@{float(value):.10g}" for value in node_values(number, hats)]
    return found if len(set(found)) == hats else [f"{number.name}@{place + 1}" for place in range(hats)]


def range_of(number: Number) -> tuple[Fraction, Fraction]:
    """Return the public range of a number; one without is refused."""
    if number.lower is None or number.upper is None:
        raise SchemaError(
            f"column {number.name!r} needs a public range; declare Number({number.name!r}, lower=..., upper=...) with "
            "bounds that you know without looking at the rows"
        )
    return number.lower, number.upper


def scaled_number(number: Number) -> ClippedVector:
    """Code a number of a public range by its share of half the range, from the middle: -LEVELS to LEVELS."""
    low, high = range_of(number)
    half, middle = (high - low) / 2, (high + low) / 2
    if not Fraction(2) ** -100 < half < Fraction(2) ** 100 or abs(middle) > 2**50 * half:
        raise RangeError(
            f"column {number.name!r} ranges from {float(low)} to {float(high)}; a model wants "
            "a range that is between 2**-99 and 2**101 wide (about 1.6e-30 and 2.5e30), and at least 2e-15 of its own "
            "size; count in other units, or from another zero"
        )
    return ClippedVector(columns=(number,), radius=half, levels=LEVELS, centres=(middle,))


def coding_of(column: Number | Category) -> Coding:
    """Return how a column becomes integers."""
    return scaled_number(column) if isinstance(column, Number) else CategoryCoding(column)


@dataclass(frozen=True, repr=False)
class ExampleDecoder:
    """Features and target of rows that are coded, the target last; each row by itself.

    `labels` holds what each code of a category stands for, None where its rows take no part; it is None for a number.
    """

    encoder: RowEncoder
    target: Number | Category
    labels: tuple[Any, ...] | None

    def __call__(self, coded: Iterable[CodeArrays]) -> Iterator[tuple[Any, NDArray[Any]]]:
        """Return rows of features and their targets, in blocks. Never raises for a value."""
        for *features, codes in coded:
            values = self._targets(codes)
            start = 0
            for rows in self.encoder.rows(tuple(features)):
                yield rows, values[start : start + rows.shape[0]]
                start += rows.shape[0]

    def _targets(self, codes: NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(self.target, Category):
            assert self.labels is not None
            known = np.array([label is not None for label in self.labels])
            # the labels are of one type where there are any, and -1, which is no place, marks the others
            sorts = np.array([label for label in self.labels if label is not None])
            places = np.where(known, np.cumsum(known) - 1, -1)[codes]
            if sorts.dtype.kind in "iufb":
                return np.where(places >= 0, sorts[places].astype(np.float64), np.nan)
            return np.where(places >= 0, sorts[places], "")
        low, high = range_of(self.target)
        return codes * (float((high - low) / 2) / LEVELS) + float((high + low) / 2)

    def __repr__(self) -> str:
        return "ExampleDecoder()"


@dataclass(frozen=True, eq=False)
class TableUnits:
    """The names of the features, what a column's unit is in features (share/half), where each is 0, and calendars."""

    names: tuple[str, ...]
    factors: Floats
    middles: Floats
    calendars: tuple[Calendar | None, ...]

    def later(self, other: TableUnits) -> Floats:
        """Return by how many days or hours each column starts later than it does there; refuse other units of time."""
        counted = zip(self.names, self.calendars, other.calendars, strict=True)
        return np.array([later_start(mine, theirs, name=name) for name, mine, theirs in counted], np.float64)

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
            and (self.names, self.calendars) == (other.names, other.calendars)
            and bool((self.factors == other.factors).all() and (self.middles == other.middles).all())
        )

    __hash__ = None  # type: ignore[assignment]  # arrays

"""Columns of a table as rows of a model, by what their schema declares: nothing is learned from the data.

A number goes from its public range to [-1, 1], a category to one column a label. All are divided by the square root of
the number of columns of the table, so that no row is longer than 1: `data_norm` is known without looking.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CategoryCoding, CodeArrays, Coding, SideBySide
from sidelight.errors import SchemaError, nearest
from sidelight.records import Category, Number, PersonId, Schema, Table
from sidelight.records.rows import Wanted
from sidelight.regression.losses import Floats

#: Steps from the middle of a range to its end.
LEVELS = 1 << 20
#: Cells of a block of rows: 4 MB.
_CELLS = 1 << 19
#: Rows with many more columns than entries stay sparse.
_SPARSE_FROM = 256


@dataclass(frozen=True)
class TableEncoding:
    """The features of a model that was fitted to a table: public declarations only.

    >>> from sidelight.records import Category, Number, Table
    >>> age, sex = Number("age", lower=0, upper=100), Category("sex", ["F", "M"], other=None)
    >>> encoding = TableEncoding((age, sex))
    >>> encoding.names
    ('age', 'sex=F', 'sex=M')
    >>> encoding.matrix(Table({"age": [50, 100], "sex": ["F", "M"]}, schema=[age, sex])).round(2).tolist()
    [[0.0, 0.71, 0.0], [0.71, 0.0, 0.71]]
    """

    columns: tuple[Number | Category, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every feature: of a number its column's, of a category column=label."""
        found: list[str] = []
        for column in self.columns:
            if isinstance(column, Number):
                found.append(column.name)
            else:
                found += [f"{column.name}={label}" for label in column.labels]
        return tuple(found)

    @cached_property
    def codings(self) -> tuple[Coding, ...]:
        """How each column becomes integers."""
        return tuple(_coding(column) for column in self.columns)

    def rows(self, codes: CodeArrays) -> Iterator[Any]:
        """Give the rows of coded columns, dense or CSR, in blocks of bounded size."""
        width, length = len(self.names), len(codes[0])
        sparse = width >= _SPARSE_FROM and width >= 8 * len(self.columns)
        step = max(1, _CELLS // (2 * len(self.columns) if sparse else width))
        for start in range(0, length, step):
            part = tuple(code[start : start + step] for code in codes)
            yield self._sparse(part) if sparse else self._dense(part)

    def matrix(self, table: Table) -> Any:
        """Give one row of features for each row of a table, in its order, for prediction.

        A missing number counts as the middle of its range, a label that is not listed as none.
        """
        coding = SideBySide(self.codings)
        wanted = Wanted(numbers=coding.numbers, texts=coding.texts)
        blocks: list[Any] = []
        for batch in table.rows.batches(wanted):
            codes = tuple(_prediction_codes(column, batch) for column in self.columns)
            blocks += self.rows(codes)
        if not blocks:
            return np.empty((0, len(self.names)))
        if isinstance(blocks[0], np.ndarray):
            return np.concatenate(blocks)
        from scipy.sparse import vstack

        return vstack(blocks, format="csr")

    def _dense(self, codes: CodeArrays) -> Floats:
        out = np.zeros((len(codes[0]), len(self.names)))
        every = np.arange(len(codes[0]))
        for column, code, first in zip(self.columns, codes, self._places, strict=True):
            if isinstance(column, Number):
                np.multiply(code, self._share / LEVELS, out=out[:, first])
            else:
                known = code >= 0
                out[every[known], first + code[known]] = self._share
        return out

    def _sparse(self, codes: CodeArrays) -> Any:
        from scipy.sparse import csr_array

        values = np.empty((len(codes[0]), len(self.columns)))
        places = np.empty(values.shape, np.int64)
        for j, (column, code, first) in enumerate(zip(self.columns, codes, self._places, strict=True)):
            if isinstance(column, Number):
                values[:, j], places[:, j] = code * (self._share / LEVELS), first
            else:
                values[:, j] = np.where(code >= 0, self._share, 0.0)
                places[:, j] = first + np.maximum(code, 0)
        starts = np.arange(len(values) + 1) * len(self.columns)
        return csr_array((values.ravel(), places.ravel(), starts), shape=(len(values), len(self.names)))

    @property
    def _share(self) -> float:
        # rounded down by more than its error: k squares of it are at most 1
        return (1 - 2.0**-50) / math.sqrt(len(self.columns))

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        widths = [1 if isinstance(column, Number) else len(column.labels) for column in self.columns]
        return np.concatenate([[0], np.cumsum(widths)[:-1]])


def encoding_for(schema: Schema, *, target: str, features: Sequence[str] | None) -> TableEncoding:
    """Choose the features of a table: the named ones, or all but the target and the person."""
    if isinstance(features, str):
        raise SchemaError(f"features must be a list of column names, got one text; write [{features!r}]")
    names = [column.name for column in schema.columns if not isinstance(column, PersonId) and column.name != target]
    chosen = names if features is None else list(features)
    if not chosen:
        raise SchemaError(f"a model needs at least one feature beside the target {target!r}")
    if target in chosen:
        raise SchemaError(f"the target {target!r} is among the features; leave it out")
    if len(set(chosen)) != len(chosen):
        raise SchemaError("features names one column twice")
    by_name = {column.name: column for column in schema.columns}
    found: list[Number | Category] = []
    for name in chosen:
        if name not in names:
            raise SchemaError(f"the schema has no feature {name!r}; {nearest(str(name), names)}")
        column = by_name[name]
        assert not isinstance(column, PersonId)
        if isinstance(column, Number):
            check_bounds(column)
        found.append(column)
    return TableEncoding(tuple(found))


def check_bounds(number: Number) -> None:
    """Refuse a number without a public range."""
    if number.lower is None or number.upper is None:
        raise SchemaError(
            f"column {number.name!r} needs a public range; declare Number({number.name!r}, lower=..., upper=...) with "
            "bounds that you know without looking at the rows"
        )


def scaled_number(number: Number) -> ClippedVector:
    """Code a number of a public range by its share of half the range, from the middle: -LEVELS to LEVELS."""
    check_bounds(number)
    assert number.lower is not None
    assert number.upper is not None
    half, middle = (number.upper - number.lower) / 2, (number.upper + number.lower) / 2
    return ClippedVector(columns=(number,), radius=half, levels=LEVELS, centres=(middle,))


def _coding(column: Number | Category) -> Coding:
    return scaled_number(column) if isinstance(column, Number) else CategoryCoding(column)


def _prediction_codes(column: Number | Category, batch: Any) -> NDArray[np.int64]:
    (code,), kept = _coding(column).kernel(batch)
    return code if kept is None or isinstance(column, Category) else np.where(kept, code, 0)

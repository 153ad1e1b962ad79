"""Columns of a table as rows of a model, by what their schema declares: nothing is learned from the data.

A number goes from its public range to [-1, 1], a category to one column a label. All are divided by the square root of
the number of columns of the table, so that no row is longer than 1: `data_norm` is known without looking.

It is a scikit-learn transformer, whose `fit` looks at names and types alone: in a pipeline it is a safe first step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CategoryCoding, CodeArrays, Coding, SideBySide
from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.records import Category, Number, Schema, Table
from sidelight.records.rows import Wanted
from sidelight.regression.losses import Floats
from sidelight.regression.table_units import TableUnits

#: Steps from the middle of a range to its end.
LEVELS = 1 << 20
#: Cells of a block of rows: 4 MB.
_CELLS = 1 << 19
#: Rows with many more columns than entries stay sparse.
_SPARSE_FROM = 256


class TableEncoding(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Encode a table as a model that was fitted to it does, as a scikit-learn transformer: public declarations only.

    Guarantee: each row becomes a row by itself, of length at most 1; `fit` reads no row.

    Args:
        columns: The declarations, `Number` with both bounds and `Category`, in the order of the features.

    >>> from sidelight.records import Category, Number, Table
    >>> age, sex = Number("age", lower=0, upper=100), Category("sex", ["F", "M"], other=None)
    >>> encoding = TableEncoding((age, sex))
    >>> encoding.names
    ('age', 'sex=F', 'sex=M')
    >>> encoding.transform({"age": [50, 100], "sex": ["F", "M"]}).round(2).tolist()
    [[0.0, 0.71, 0.0], [0.71, 0.0, 0.71]]
    """

    def __init__(self, columns: Sequence[Number | Category]) -> None:
        self.columns = columns

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Check that X has the declared columns, by name and type. No row is read, and nothing is learned."""
        del y
        self.table(X)
        self.n_features_in_ = len(self.columns)
        self.feature_names_in_ = np.array([column.name for column in self.columns], dtype=object)
        return self

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return one row of features for each row of a table, a frame, a mapping of columns or an array, in its order.

        A missing number counts as the middle of its range, a label that is not listed as none.
        """
        return self.matrix(self.table(X))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names for the columns of the result: never those of the table, so that it is not encoded twice."""
        del input_features
        numbers = {column.name for column in self.columns if isinstance(column, Number)}
        return np.array([f"{name} (scaled)" if name in numbers else name for name in self.names], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def table(self, rows: Any) -> Table:
        """Return rows as a table of the declared columns: by name, or those of an array in their order."""
        for column in self.columns:
            if not isinstance(column, Number | Category):
                raise SchemaError(
                    f"an encoding is made of Number and Category declarations, got {type(column).__name__}; give the "
                    "columns of a schema without the person"
                )
            if isinstance(column, Number):
                check_bounds(column)
        if isinstance(rows, Table):
            return rows
        if not has_names(rows):
            width = width_of(rows)
            if width != len(self.columns):
                names = ", ".join(column.name for column in self.columns)
                raise SchemaError(
                    f"rows must have the columns {names}; an array of "
                    f"{'no columns' if width is None else f'{width} column(s)'} has other ones"
                )
            cells = rows if hasattr(rows, "shape") else np.array(rows, dtype=object)
            rows = {column.name: cells[:, place] for place, column in enumerate(self.columns)}
        return Table(rows, schema=list(self.columns))

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
    def units(self) -> TableUnits:
        """What the features are in the columns' own units."""
        ranges: list[tuple[float, float]] = []
        for column in self.columns:
            if isinstance(column, Number):
                assert column.lower is not None
                assert column.upper is not None
                ranges.append((float((column.upper - column.lower) / 2), float((column.upper + column.lower) / 2)))
            else:
                ranges += [(1.0, 0.0)] * len(column.labels)
        factors = np.array([self._share / half for half, _ in ranges])
        return TableUnits(self.names, factors, np.array([middle for _, middle in ranges]))

    @cached_property
    def codings(self) -> tuple[Coding, ...]:
        """How each column becomes integers."""
        return tuple(_coding(column) for column in self.columns)

    def rows(self, codes: CodeArrays) -> Iterator[Any]:
        """Return the rows of coded columns, dense or CSR, in blocks of bounded size."""
        width, length = len(self.names), len(codes[0])
        sparse = width >= _SPARSE_FROM and width >= 8 * len(self.columns)
        step = max(1, _CELLS // (2 * len(self.columns) if sparse else width))
        for start in range(0, length, step):
            part = tuple(code[start : start + step] for code in codes)
            yield self._sparse(part) if sparse else self._dense(part)

    def matrix(self, table: Table) -> Any:
        """Return one row of features for each row of a table, in its order, for prediction.

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


def has_names(rows: Any) -> bool:
    """Return whether rows come with names of their columns: a frame or a mapping."""
    kind = type(rows)  # asked of the class: a lazy frame would have to find out
    return isinstance(rows, Mapping) or hasattr(kind, "columns") or hasattr(kind, "column_names")


def width_of(rows: Any) -> int | None:
    """Return the number of columns of an array or of a list of rows; None where it is neither."""
    if hasattr(rows, "shape"):
        return int(rows.shape[1]) if len(rows.shape) == 2 else None
    if not isinstance(rows, list | tuple) or not rows:
        return None
    widths = {len(row) if isinstance(row, list | tuple | np.ndarray) else None for row in rows}
    return widths.pop() if len(widths) == 1 else None


def encoding_for(schema: Schema, *, target: str, features: Sequence[str] | None) -> TableEncoding:
    """Choose the features of a table: the named ones, or all but the target and the person."""
    if isinstance(features, str):
        raise SchemaError(f"features must be a list of column names, got one text; write [{features!r}]")
    usable = {each.name: each for each in schema.columns if isinstance(each, Number | Category)}
    names = [name for name in usable if name != target]
    chosen = names if features is None else list(features)
    if not chosen:
        raise SchemaError(f"a model needs at least one feature beside the target {target!r}")
    if target in chosen:
        raise SchemaError(f"the target {target!r} is among the features; leave it out")
    if len(set(chosen)) != len(chosen):
        raise SchemaError("features names one column twice")
    found: list[Number | Category] = []
    for name in chosen:
        if name not in names:
            raise SchemaError(f"the schema has no feature {name!r}; {nearest(str(name), names)}")
        column = usable[name]
        if isinstance(column, Number):
            check_bounds(column)
        found.append(column)
    encoding = TableEncoding(tuple(found))
    _ = encoding.codings  # public work, done before anything is charged: a range that cannot be coded is refused
    return encoding


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
    if not Fraction(2) ** -100 < half < Fraction(2) ** 100 or abs(middle) > 2**50 * half:
        raise RangeError(
            f"column {number.name!r} ranges from {float(number.lower)} to {float(number.upper)}; a model wants "
            "a range that is between 2**-99 and 2**101 wide (about 1.6e-30 and 2.5e30), and at least 2e-15 of its own "
            "size; count in other units, or from another zero"
        )
    return ClippedVector(columns=(number,), radius=half, levels=LEVELS, centres=(middle,))


def _coding(column: Number | Category) -> Coding:
    return scaled_number(column) if isinstance(column, Number) else CategoryCoding(column)


def _prediction_codes(column: Number | Category, batch: Any) -> NDArray[np.int64]:
    (code,), kept = _coding(column).kernel(batch)
    return code if kept is None or isinstance(column, Category) else np.where(kept, code, 0)

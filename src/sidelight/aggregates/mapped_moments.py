"""Moments of rows seen through a fixed affine map, from a table or from an array in memory.

For one map: `mapped_moments`; for the cells of a partition: `moments_by_cell` (celled_moments.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.mapped_vector import MappedVector, RowMap, Unusable
from sidelight.aggregates.moments import ClippedMoments, Moments
from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours
from sidelight.records import Number, Table
from sidelight.records.numbers import Real


def mapped_moments(
    rows: Table | NDArray[Any],
    columns: Sequence[str] | None = None,
    *,
    radius: Real,
    centre: ArrayLike | None = None,
    matrix: ArrayLike | None = None,
    levels: int = 1 << 14,
    unusable: Unusable = "zero",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowering: Lowering = "auto",
) -> Moments:
    """Count, sum and second moment of clip(A(x - c), radius), for a public centre c and matrix A.

    Guarantee: that of `clipped_moments`, exactly. Rows with a number that is missing or infinite become zero vectors,
    or are left out with unusable="drop"; a column's bounds and fill value come first. Nothing about the values raises.

    Args:
        rows: a table, or an array with one row a record (its unit is the row).
        columns: the number columns of a table; None for all of its number columns, or all of an array's.
        radius: the length that mapped rows are clipped to.
        centre: what is subtracted first; 0 if left out.
        matrix: A, of any number of rows; the identity if left out.
        levels: how many integer steps the radius has.
        unusable: what becomes of rows that miss a number.
        neighbours: which data sets count as neighbours.
        lowering: for tests: "batches" or "engine".

    >>> mapped_moments(np.array([[3.0, 4.0], [np.nan, 1.0]]), radius=5, matrix=[[0, 1]], levels=10).total.value.tolist()
    [8]
    """
    table = as_table(rows)
    return collect(
        table,
        mapped_aggregate(
            table,
            columns,
            row_map=RowMap.of(len(_chosen(table, columns)), centre=centre, matrix=matrix, radius=radius),
            levels=levels,
            unusable=unusable,
            neighbours=neighbours,
        ),
        lowering=lowering,
    )


def mapped_aggregate(
    table: Table,
    columns: Sequence[str] | None,
    *,
    row_map: RowMap,
    levels: int = 1 << 14,
    unusable: Unusable = "zero",
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> ClippedMoments:
    """Return the aggregate that `mapped_moments` runs; `finish(empty())` tells sensitivities without any row."""
    coding = MappedVector(columns=_chosen(table, columns), row_map=row_map, levels=levels, unusable=unusable)
    schema = table.schema
    return ClippedMoments(coding=coding, rows_per_unit=schema.rows_per_unit, unit=schema.unit, neighbours=neighbours)


def as_table(rows: Table | NDArray[Any]) -> Table:
    """Return an array of records columns x0, x1, ... and the row as its unit; a table stays what it is."""
    if isinstance(rows, Table):
        return rows
    array = np.asarray(rows)
    if array.ndim != 2 or array.shape[1] < 1:
        raise RangeError(f"rows must be an array with one row a record and at least one column, got {array.ndim} axes")
    return Table(array, schema=[Number(f"x{place}") for place in range(array.shape[1])])


def _chosen(table: Table, columns: Sequence[str] | None) -> tuple[Number, ...]:
    if columns is None:
        return tuple(column for column in table.schema.columns if isinstance(column, Number))
    return tuple(table.schema.number(name) for name in columns)

"""The moments of mapped rows in one call, for tests: queries add the aggregate to the pass of their plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.collect import Lowering, collect
from sidelight.aggregates.mapped_vector import RowMap, as_table, mapped_aggregate
from sidelight.aggregates.moments import Moments
from sidelight.guarantees import Neighbours
from sidelight.records import Table


def mapped_moments(
    rows: Table | NDArray[Any],
    columns: Sequence[str] | None = None,
    *,
    radius: Any,
    centre: ArrayLike | None = None,
    matrix: ArrayLike | None = None,
    levels: int = 1 << 14,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    lowering: Lowering = "auto",
) -> Moments:
    """Return count, sum and second moment of clip(A(x - c), radius), for a public centre c and matrix A."""
    table = as_table(rows)
    width = len(table.schema.columns if columns is None else columns)
    row_map = RowMap.of(width, centre=centre, matrix=matrix, radius=radius)
    aggregate = mapped_aggregate(table, columns, row_map=row_map, levels=levels, neighbours=neighbours)
    return collect(table, aggregate, lowering=lowering)

"""Differences of randomly paired rows under a map: a covariance that needs no centre.

`covariance.pairs` clips rows before it takes differences, about a centre that is roughly known; here nothing is known
of the centre, so the differences themselves are mapped and clipped. The rows are read once and held. The order is drawn
once and serves all steps of an estimate (Gaussians proof page, Theorem 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sidelight.aggregates.mapped_moments import mapped_aggregate
from sidelight.aggregates.mapped_vector import MappedVector, RowMap, clean
from sidelight.aggregates.moments import Moments
from sidelight.errors import SchemaError
from sidelight.gaussians.public_rows import Floats
from sidelight.guarantees import Neighbours
from sidelight.noise import Source, random_order
from sidelight.records import Schema, Table
from sidelight.records.rows import Wanted


@dataclass(frozen=True, eq=False, repr=False)
class PairedRows:
    """The differences of one random pairing; PRIVATE."""

    table: Table
    columns: tuple[str, ...]
    differences: Floats

    @classmethod
    def read(cls, table: Table, columns: Sequence[str], source: Source) -> PairedRows:
        """Read all rows that miss no number, order them at random, and subtract the second half from the first."""
        numbers = tuple(table.schema.number(name) for name in columns)
        parts = [np.empty((len(numbers), 0))]
        for batch in table.rows.batches(Wanted(numbers=tuple(columns))):
            values, usable = clean(numbers, batch)
            stacked = np.stack(values)
            parts.append(stacked if usable is None else stacked[:, usable])
        rows = np.concatenate(parts, axis=1)
        order = random_order(rows.shape[1], source)
        half = len(order) // 2
        return cls(table, tuple(columns), rows[:, order[:half]] - rows[:, order[half : 2 * half]])

    def moments(self, row_map: RowMap) -> Moments:
        """Return the moments of clip(A(x - x')) for a map, with the constants for replacing a vector."""
        aggregate = mapped_aggregate(
            self.table, self.columns, row_map=row_map, unusable="drop", neighbours=Neighbours.REPLACE
        )
        assert isinstance(aggregate.coding, MappedVector)
        codes = aggregate.coding.codes(list(self.differences), None)
        return aggregate.finish(aggregate.fold(aggregate.empty(), codes))

    def __repr__(self) -> str:
        return "PairedRows(private)"


def check_pairs(schema: Schema) -> None:
    """Refuse schemas with persons: a person's rows would meet in pairs of their own."""
    if schema.person is not None:
        raise SchemaError(
            "differences of pairs protect single rows, and the schema declares persons; give public rows of the same "
            "population (without a gap), or one row for each person without a PersonId"
        )

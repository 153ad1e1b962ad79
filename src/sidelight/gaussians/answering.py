"""Answer the questions of an estimate from one table: a pass over the rows for each, or the pairs, read once."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from sidelight.aggregates.collect import collect
from sidelight.aggregates.mapped_moments import mapped_aggregate
from sidelight.aggregates.mapped_vector import RowMap
from sidelight.aggregates.moments import Moments
from sidelight.gaussians.paired_rows import PairedRows, PairMap
from sidelight.guarantees import Neighbours
from sidelight.noise import Source
from sidelight.records import Table

Result = TypeVar("Result")


def answered(
    asking: Generator[RowMap | PairMap, Moments, Result],
    table: Table,
    columns: Sequence[str],
    *,
    neighbours: Neighbours,
    source: Source,
) -> Result:
    """Run an estimate to its end."""
    pairs: PairedRows | None = None
    question = next(asking)
    while True:
        if isinstance(question, PairMap):
            pairs = PairedRows.read(table, columns, source) if pairs is None else pairs
            moments = pairs.moments(question)
        else:
            aggregate = mapped_aggregate(table, columns, row_map=question, unusable="drop", neighbours=neighbours)
            moments = collect(table, aggregate)
        try:
            question = asking.send(moments)
        except StopIteration as done:
            result: Result = done.value
            return result

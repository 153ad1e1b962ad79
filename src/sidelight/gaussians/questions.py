"""What an estimate may ask of its rows, and how one table answers: moments of clip(A(x - c), radius).

Of all rows, of a sample, or of differences of randomly paired rows, which need no centre. `covariance.pairs` clips rows
before it takes differences, about a centre that is roughly known; here nothing is known of the centre, so the
differences themselves are mapped and clipped. The rows are read once and held. The order is drawn once and serves all
steps of an estimate (Gaussians proof page, Theorem 5).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from sidelight.aggregates.mapped_vector import MappedVector, RowMap, clean, mapped_aggregate
from sidelight.aggregates.moments import Moments
from sidelight.errors import SchemaError
from sidelight.gaussians.point_cloud import Floats
from sidelight.gaussians.row_reader import RowReader
from sidelight.guarantees import Neighbours
from sidelight.noise import Source, random_order
from sidelight.records import Schema, Table
from sidelight.records.rows import Wanted

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Question:
    """A map, and of what: "count" wants the number of rows only, "sample" each row with probability `rate`.

    "pairs" are differences (x - x')/√2 of a random pairing. `second` is False where the sum alone is wanted: the second
    moment of the answer is then meaningless.
    """

    row_map: RowMap
    of: Literal["count", "rows", "sample", "pairs"] = "rows"
    rate: float = 1.0
    second: bool = True


#: An estimate is a generator of questions; it is sent their answers and returns what it found.
Asking: TypeAlias = Generator[Question, Moments, Result]


def about_rows(matrix: Floats, centre: Floats, clip: float, *, rate: float = 1.0, second: bool = True) -> Question:
    """Ask about rows, or about a sample of them."""
    row_map = RowMap.of(len(centre), centre=centre, matrix=matrix, radius=clip)
    return Question(row_map, "rows" if rate == 1 else "sample", rate, second)


def about_pairs(matrix: Floats, clip: float) -> Question:
    """Ask about differences of pairs, which need no centre."""
    return Question(RowMap.of(matrix.shape[1], centre=None, matrix=matrix / sqrt(2), radius=clip), "pairs")


def how_many(size: int) -> Question:
    """Ask for the number of rows."""
    return Question(RowMap.of(size, centre=None, matrix=None, radius=1), "count")


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
        with source.free("which rows are paired"):
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


class Answers:
    """One table as its estimate sees it; PRIVATE."""

    def __init__(self, table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source) -> None:
        self._table, self._columns, self._source = table, columns, source
        self._reader = RowReader(table, columns, neighbours=neighbours, source=source)
        self._pairs: PairedRows | None = None

    def moments(self, question: Question) -> Moments:
        """Answer one question."""
        if question.of == "count":
            return self._reader.count()
        if question.of == "sample":
            return self._reader.sampled(question.row_map, question.rate)
        if question.of == "rows":
            return self._reader.moments(question.row_map, second=question.second)
        if self._pairs is None:
            self._pairs = PairedRows.read(self._table, self._columns, self._source)
        return self._pairs.moments(question.row_map)

    def drop(self) -> None:
        """Let workers forget what they keep of the rows."""
        self._reader.drop()

    def __repr__(self) -> str:
        return "Answers(private)"


def answered(
    asking: Asking[Result], table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source
) -> Result:
    """Run an estimate to its end."""
    answers = Answers(table, columns, neighbours=neighbours, source=source)
    question = next(asking)
    try:
        while True:
            try:
                question = asking.send(answers.moments(question))
            except StopIteration as done:
                result: Result = done.value
                return result
    finally:
        answers.drop()

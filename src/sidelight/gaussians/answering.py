"""Answer the questions of an estimate from one table, to its end."""

from __future__ import annotations

from collections.abc import Sequence

from sidelight.aggregates.moments import Moments
from sidelight.gaussians.asked import Asking, Question, Result
from sidelight.gaussians.paired_rows import PairedRows
from sidelight.gaussians.row_reader import RowReader
from sidelight.guarantees import Neighbours
from sidelight.noise import Source
from sidelight.records import Table


class Answers:
    """One table as its estimate sees it; PRIVATE."""

    def __init__(self, table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source) -> None:
        self._table, self._columns, self._source = table, columns, source
        self._reader = RowReader(table, columns, neighbours=neighbours, source=source)
        self._pairs: PairedRows | None = None

    def to(self, question: Question) -> Moments:
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

    def __repr__(self) -> str:
        return "Answers(private)"


def answered(
    asking: Asking[Result], table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source
) -> Result:
    """Run an estimate to its end."""
    answers = Answers(table, columns, neighbours=neighbours, source=source)
    question = next(asking)
    while True:
        try:
            question = asking.send(answers.to(question))
        except StopIteration as done:
            result: Result = done.value
            return result

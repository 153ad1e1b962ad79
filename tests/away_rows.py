"""Rows that only workers may read: each part in a place of its own, some of them failing the first time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sidelight.records import Table
from sidelight.records.engines.arrow import ArrowRows
from sidelight.records.rows import Batch, Wanted


class AwayRows:
    """An engine that hands no row over: a step is pickled, sent to a part, and its bytes come back once."""

    name, streams, length = "away", True, None

    def __init__(self, table: pa.Table, *, parts: int, dates: Any = None) -> None:
        self._table, self._parts, self._dates = table, parts, dates
        self.types = ArrowRows(table).types
        self.asked = 0
        self.kept: list[Blocks] = []
        self.sent: list[bytes] = []

    def batches(self, wanted: Wanted, **more: Any) -> Iterator[Batch]:
        raise AssertionError("rows were pulled to the driver")

    def frame(self, wanted: Wanted) -> None:
        return None

    def stream(self, frame: Any, names: tuple[str, ...]) -> Any:
        raise AssertionError("rows were pulled to the driver")

    def _cut(self, wanted: Wanted) -> list[ArrowRows]:
        """Cut the rows in order, or by a hash of the person's id."""
        if wanted.person is None:
            ends = np.linspace(0, self._table.num_rows, self._parts + 1).astype(int)
            places = [np.arange(start, end) for start, end in pairwise(ends)]
        else:
            owner = np.array([hash(each) % self._parts for each in self._table.column(wanted.person).to_pylist()], int)
            places = [np.flatnonzero(owner == part) for part in range(self._parts)]
        return [ArrowRows(self._table.take(pa.array(each, pa.int64())), dates=self._dates) for each in places]

    def reduce(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        self.asked += 1
        for number, part in enumerate(self._cut(wanted)):
            sent = pickle.loads(pickle.dumps(step))
            if number % 3 == 0:  # this attempt is lost, whatever it found
                sent(part.batches(wanted, rows=64))
            yield sent(part.batches(wanted, rows=64))

    def pinned(self, wanted: Wanted, step: Callable[[Iterator[Batch]], Iterator[bytes]]) -> Blocks:
        self.sent.append(pickle.dumps(step))
        found = Blocks([list(pickle.loads(self.sent[-1])(part.batches(wanted))) for part in self._cut(wanted)])
        assert all(len(block) < 1 << 21 for part in found.parts for block in part)  # 10,000 of them may come at once
        self.kept.append(found)
        return found


class Blocks:
    """What the workers keep."""

    def __init__(self, parts: list[list[bytes]]) -> None:
        self.parts, self.asked, self.dropped = parts, 0, False
        self.sent: list[bytes] = []

    def drop(self) -> None:
        self.dropped = True

    def ask(self, step: Callable[[Iterator[bytes]], bytes]) -> Iterator[bytes]:
        assert not self.dropped
        self.asked += 1
        self.sent.append(pickle.dumps(step))
        return iter([pickle.loads(self.sent[-1])(iter(part)) for part in self.parts])


def away_table(cells: pa.Table, schema: Any, *, parts: int = 3) -> Table:
    """Return a table of such rows."""
    table = Table(cells, schema=schema)
    table._rows = AwayRows(cells, parts=parts, dates=table.rows._dates)  # type: ignore[attr-defined]
    return table

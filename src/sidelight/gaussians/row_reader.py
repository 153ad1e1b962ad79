"""Where an estimate's requests are answered: passes over a table, and a random sample of its rows that is kept.

Coarse steps need few rows, so they look at a sample: every row is in it by a coin of its own, whose result for one row
says nothing about another. The sample is kept from the pass that counts the rows. Its rate is chosen from the released
number of rows; what was kept is more, and is thinned. Where less was kept, the rows are read again, and each has the
coin that it had: with new coins a single row, by the number of kept ones, could decide which others are in the sample.

Remote rows (Spark) have no order that a coin could go by: there is no sample, and all steps look at all
rows, which workers clean once and keep as long as the estimate runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import sqrt
from typing import Literal, TypeAlias, TypeVar

import numpy as np

from sidelight.aggregates.coding import Keep
from sidelight.aggregates.collect import collect
from sidelight.aggregates.mapped_vector import MappedVector, RowMap, mapped_aggregate
from sidelight.aggregates.moments import ClippedMoments, Moments, MomentState
from sidelight.aggregates.state_bytes import state_from_bytes, state_to_bytes
from sidelight.errors import SchemaError
from sidelight.gaussians.exact_map import CleanRows, ExactMap, folded, together
from sidelight.gaussians.point_cloud import Floats
from sidelight.guarantees import Neighbours
from sidelight.noise import Source, random_order
from sidelight.records import Schema, Table
from sidelight.records.rows import KEPT_BLOCK_BYTES, Batch, Wanted
from sidelight.records.source_protocols import DistributedRows, Pinned

#: The fewest rows of a kept sample, if there are as many; twice as many are held.
SAMPLE_ROWS = 1 << 15
_LEVELS = 1 << 14


def sample_rows_of(table: Table) -> int | None:
    """Return how many rows a sample has; None where there is none: of persons, and of rows that are never handed over.

    Persons' rows are capped by the general path; what workers hold has no order that a second reading would find again.
    """
    return SAMPLE_ROWS if table.schema.person is None and table.hands_rows_over else None


@dataclass(frozen=True)
class CleanBlocks:
    """What a worker does first: keep the numbers of rows that miss none, one column behind the other."""

    rows: CleanRows

    def __call__(self, batches: Iterator[Batch]) -> Iterator[bytes]:
        """Return the blocks."""
        for columns, usable in self.rows(batches):
            stacked = np.stack(columns) if usable is None else np.stack(columns)[:, usable]
            step = max(1, KEPT_BLOCK_BYTES // (8 * len(columns)))
            for start in range(0, stacked.shape[1], step):
                yield np.ascontiguousarray(stacked[:, start : start + step], "<f8").tobytes()


@dataclass(frozen=True)
class MomentsOfBlocks:
    """Ask for the moments of rows by a public map; for their number alone without one."""

    width: int
    exact: ExactMap | None
    second: bool

    @property
    def answer_bytes(self) -> int:
        """How large an answer is: public."""
        return 8 * self.width**2

    def __call__(self, blocks: Iterator[bytes]) -> bytes:
        """Answer for the blocks of one part."""
        state = MomentState(0, np.zeros(self.width, np.int64), np.zeros((self.width, self.width), np.int64))
        for block in blocks:
            columns = np.frombuffer(block, "<f8").astype(np.float64, copy=False).reshape(self.width, -1)
            if self.exact is None:
                state = state._replace(rows=state.rows + columns.shape[1])
            else:
                state = folded(state, self.exact, list(columns), None, second=self.second)
        return state_to_bytes(state)


class RowReader:
    """The rows of a table, as an estimate asks for them; PRIVATE."""

    def __init__(self, table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source) -> None:
        self._table = table
        self._columns = tuple(columns)
        self._numbers = tuple(table.schema.number(name) for name in columns)
        self._neighbours = neighbours
        self._source = source
        self._kept: tuple[Floats, Floats] | None = None  # rows in columns, and their coins in [0, 1)
        self._kept_rate = 0.0
        self._capped = table.schema.person is not None
        self._blocks: Pinned | None = None  # what workers keep of rows that are elsewhere
        self._pairs: PairedRows | None = None

    def answer(self, request: MeasurementRequest) -> Moments:
        """Answer one request."""
        if request.of == "count":
            return self.count()
        if request.of == "sample":
            return self.sampled(request.row_map, request.rate)
        if request.of == "rows":
            return self.moments(request.row_map, second=request.second)
        if self._pairs is None:
            self._pairs = PairedRows.read(self._table, self._columns, self._source)
        return self._pairs.moments(request.row_map)

    @property
    def samples(self) -> bool:
        """Whether steps may look at a sample."""
        return sample_rows_of(self._table) is not None

    def drop(self) -> None:
        """Let workers forget what they keep."""
        if self._blocks is not None:
            self._blocks.drop()

    def count(self) -> Moments:
        """Count the rows that miss no number, and keep a sample of them."""
        if self._capped:
            return self.moments(RowMap.of(len(self._columns), centre=None, matrix=None, radius=1))
        _ = self._key  # drawn by all, also where there are no rows or no sample: seeded releases agree
        if isinstance(self._table.rows, DistributedRows):
            return self._moments_away(self._table.rows, self._aggregate(None), None, second=False)
        # Coins go by the place of a row. Where a second reading may find rows in another order (files), a row would get
        # another coin then; so nothing is kept before the rate is known, and every row has one coin ever.
        stable = self._table.rows.length is not None
        rows = self._keep(1.0, most=2 * SAMPLE_ROWS) if stable else self._counted()
        empty = self._aggregate(None).empty()
        return self._aggregate(None).finish(MomentState(rows, empty.total, empty.second))

    def sampled(self, row_map: RowMap, rate: float) -> Moments:
        """Return the moments of a random sample of the rows, each in it with this probability."""
        if not self.samples:
            return self.moments(row_map)
        if self._kept is None or self._kept_rate < rate:
            if rate == 1:  # all rows need not be held
                return self.moments(row_map)
            self._keep(rate, most=None)
        assert self._kept is not None
        if self._kept_rate > rate:  # thinned once: the rate is chosen once
            rows, coins = self._kept
            self._kept, self._kept_rate = (rows[:, coins < rate], coins[coins < rate]), rate
        return self._moments(row_map, [(list(self._kept[0]), None)], second=True)

    def moments(self, row_map: RowMap, *, second: bool = True) -> Moments:
        """Return the moments of all rows; without `second`, a matrix of zeros in its place saves half of the work."""
        if self._kept is not None and self._kept_rate == 1:  # few rows: all of them are held
            return self._moments(row_map, [(list(self._kept[0]), None)], second=second)
        exact = ExactMap.of(row_map, _LEVELS)
        if self._capped or exact is None:
            return collect(self._table, self._aggregate(row_map))
        if isinstance(self._table.rows, DistributedRows):
            return self._moments_away(self._table.rows, self._aggregate(row_map), exact, second=second)
        return self._moments(row_map, self._clean_batches(), second=second)

    def _moments(self, row_map: RowMap, batches: Iterable[tuple[list[Floats], Keep]], *, second: bool) -> Moments:
        aggregate = self._aggregate(row_map)
        exact = ExactMap.of(row_map, _LEVELS)
        state = aggregate.empty()
        for columns, usable in batches:
            if exact is None:
                assert isinstance(aggregate.coding, MappedVector)
                state = aggregate.fold(state, aggregate.coding.codes(columns, None))
            else:
                state = folded(state, exact, columns, usable, second=second)
        return aggregate.finish(state)

    def _moments_away(
        self, rows: DistributedRows, aggregate: ClippedMoments, exact: ExactMap | None, *, second: bool
    ) -> Moments:
        """Let workers add up what they keep; the map is made here, because another machine may round otherwise."""
        if self._blocks is None:
            self._blocks = rows.pinned(Wanted(numbers=self._columns), CleanBlocks(CleanRows(self._numbers)))
        parts = self._blocks.ask(MomentsOfBlocks(len(self._columns), exact, second))
        return aggregate.finish(reduce(aggregate.merge, map(state_from_bytes, parts), aggregate.empty()))

    def _aggregate(self, row_map: RowMap | None) -> ClippedMoments:
        chosen = RowMap.of(len(self._columns), centre=None, matrix=None, radius=1) if row_map is None else row_map
        return mapped_aggregate(self._table, self._columns, row_map=chosen, levels=_LEVELS, neighbours=self._neighbours)

    def _clean_batches(self) -> Iterator[tuple[list[Floats], Keep]]:
        """Return columns without missing numbers, and which rows stay (None: all)."""
        return CleanRows(self._numbers)(self._table.rows.batches(Wanted(numbers=self._columns)))

    def _counted(self) -> int:
        """Read all rows; count those that miss no number."""
        return sum(
            len(columns[0]) if usable is None else int(usable.sum()) for columns, usable in self._clean_batches()
        )

    def _keep(self, rate: float, *, most: int | None) -> int:
        """Read all rows; keep those whose coin is below the rate, which is halved whenever too many are held."""
        parts: list[Floats] = [np.empty((len(self._columns), 0))]
        coins: list[Floats] = [np.empty(0)]
        rows = held = 0
        for place, (columns, usable) in enumerate(self._clean_batches()):
            tossed = self._coins(place, len(columns[0]))
            stays = tossed < rate
            if usable is not None:
                stays &= usable
            rows += len(tossed) if usable is None else int(usable.sum())
            some = np.flatnonzero(stays)
            whole = together(columns)
            parts.append(np.stack([column[some] for column in columns]) if whole is None else whole[some].T)
            coins.append(tossed[some])
            held += len(some)
            while most is not None and held > most:
                rate /= 2
                stay = [each < rate for each in coins]
                parts = [part[:, here] for part, here in zip(parts, stay, strict=True)]
                coins = [each[here] for each, here in zip(coins, stay, strict=True)]
                held = sum(len(each) for each in coins)
        self._kept, self._kept_rate = (np.concatenate(parts, axis=1), np.concatenate(coins)), rate
        return rows

    @cached_property
    def _key(self) -> bytes:
        """What all coins follow from: 256 bits of the release's source, so that a second reading finds them again."""
        with self._source.free("which rows are paired"):
            return self._source.words(4).tobytes()

    def _coins(self, place: int, count: int) -> Floats:
        """Return the coins of a batch's rows, in [0, 1]."""
        stream = hashlib.shake_128(self._key + place.to_bytes(8, "little")).digest(8 * count)
        return np.asarray(np.frombuffer(stream, "<u8") * 2.0**-64, np.float64)

    def __repr__(self) -> str:
        return "RowReader(private)"


# Requests for moments of clip(A(x - c), radius) of all rows, of a sample, or of differences of randomly paired rows,
# which need no centre. The rows of pairs are read once and held, and one order serves all steps of an estimate
# (Gaussians proof page, Theorem 5).

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class MeasurementRequest:
    """A map, and of what: "count" wants the number of rows only, "sample" each row with probability `rate`.

    "pairs" are differences (x - x')/√2 of a random pairing. `second` is False where the sum alone is wanted: the second
    moment of the answer is then meaningless.
    """

    row_map: RowMap
    of: Literal["count", "rows", "sample", "pairs"] = "rows"
    rate: float = 1.0
    second: bool = True


#: An adaptive plan: a generator of requests that is sent their answers and returns an estimate.
MeasurementPlan: TypeAlias = Generator[MeasurementRequest, Moments, Result]


def request_rows(
    matrix: Floats, centre: Floats, clip: float, *, rate: float = 1.0, second: bool = True
) -> MeasurementRequest:
    """Ask about rows, or about a sample of them."""
    row_map = RowMap.of(len(centre), centre=centre, matrix=matrix, radius=clip)
    return MeasurementRequest(row_map, "rows" if rate == 1 else "sample", rate, second)


def request_pairs(matrix: Floats, clip: float) -> MeasurementRequest:
    """Ask about differences of pairs, which need no centre."""
    return MeasurementRequest(RowMap.of(matrix.shape[1], centre=None, matrix=matrix / sqrt(2), radius=clip), "pairs")


def request_count(size: int) -> MeasurementRequest:
    """Ask for the number of rows."""
    return MeasurementRequest(RowMap.of(size, centre=None, matrix=None, radius=1), "count")


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
        for values, usable in CleanRows(numbers)(table.rows.batches(Wanted(numbers=tuple(columns)))):
            stacked = np.stack(values)
            parts.append(stacked if usable is None else stacked[:, usable])
        rows = np.concatenate(parts, axis=1)
        with source.free("which rows are paired"):
            order = random_order(rows.shape[1], source)
        half = len(order) // 2
        return cls(table, tuple(columns), rows[:, order[:half]] - rows[:, order[half : 2 * half]])

    def moments(self, row_map: RowMap) -> Moments:
        """Return the moments of clip(A(x - x')) for a map, with the constants for replacing a vector."""
        aggregate = mapped_aggregate(self.table, self.columns, row_map=row_map, neighbours=Neighbours.REPLACE)
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


def run_plan(
    plan: MeasurementPlan[Result], table: Table, columns: Sequence[str], *, neighbours: Neighbours, source: Source
) -> Result:
    """Run an estimate to its end."""
    reader = RowReader(table, columns, neighbours=neighbours, source=source)
    request = next(plan)
    try:
        while True:
            try:
                request = plan.send(reader.answer(request))
            except StopIteration as done:
                result: Result = done.value
                return result
    finally:
        reader.drop()

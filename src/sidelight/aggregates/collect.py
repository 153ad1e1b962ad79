"""Run an aggregate over a table: code the rows, bound what a person contributes, fold or push down, finish.

There are two ways, with the same integers: batches of NumPy arrays folded one after the other, and one query that the
engine runs itself. "auto" takes the engine where that is cheaper: for labels, which are slow in Python, and where rows
would have to be held all at once. Numbers of an engine that streams are faster in batches (0.2 s against 0.6 s for a
histogram of 10 million rows; benchmarks/ranks_cost.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.coding import CodeArrays, Coding
from sidelight.aggregates.contributions import (
    UnitCap,
    cap_arrays,
    cap_frame,
    places_that_count,
    run_starts,
    sorted_by,
)
from sidelight.aggregates.persons import Persons
from sidelight.aggregates.states import state_from_bytes, state_to_bytes
from sidelight.errors import SourceError
from sidelight.records import Table
from sidelight.records.rows import (
    BATCH_ROWS,
    WORKERS,
    Batch,
    FitsInMemory,
    GroupsAlike,
    ReadsApart,
    ReducesAway,
    Wanted,
    quietly,
)

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

Lowering = Literal["auto", "batches", "engine"]
State = TypeVar("State")
Part = TypeVar("Part")
Result_co = TypeVar("Result_co", covariant=True)


class Aggregate(Protocol[State, Result_co]):
    """A statistic of coded rows: a monoid of states, and what one finished state says."""

    @property
    def coding(self) -> Coding:
        """How rows become integers."""

    @property
    def wide(self) -> bool:
        """Whether batches are cheaper than expressions even in an engine."""

    def empty(self) -> State:
        """Return the state of no rows."""

    def fold(self, state: State, codes: CodeArrays) -> State:
        """Add a batch of coded rows; the old state may be used up."""

    def merge(self, first: State, second: State) -> State:
        """Put the states of two sets of rows together."""

    def finish(self, state: State) -> Result_co:
        """Return the statistic with its sensitivity."""

    def query(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> State:
        """Return the state of all rows of a coded frame, computed by the engine."""


@runtime_checkable
class FoldsBatches(Protocol):
    """An aggregate that can also code and add batches in one go, to the same integers: for wide rows."""

    @property
    def folds_batches(self) -> bool:
        """Whether it can, with its coding."""

    @property
    def batch_rows(self) -> int:
        """How many rows it wants at once."""

    def fold_batches(self, state: Any, batches: Iterator[Batch]) -> Any:
        """Add the rows of batches, of which every row is a unit or one of its bounded number; the state is used up."""


@runtime_checkable
class FoldsApart(Protocol):
    """An aggregate whose states are small: several threads may have one each, which are merged at the end."""

    @property
    def folds_apart(self) -> bool:
        """Whether they are."""


@runtime_checkable
class CountsRows(Protocol):
    """An aggregate that may only count rows: those that are alike can come as one, with how many they are."""

    @property
    def counts_rows(self) -> bool:
        """Whether it does, with its coding."""

    def fold_alike(self, state: Any, codes: CodeArrays, times: NDArray[np.int64]) -> Any:
        """Add coded rows that stand for so many each; the state is used up."""


@runtime_checkable
class CapsUnits(Protocol):
    """An aggregate that limits a person's rows in its own way, instead of to the schema's `max_rows`."""

    @property
    def cap(self) -> UnitCap:
        """What of one person counts."""

    @property
    def totals(self) -> bool:
        """Whether the last code is added up for each person and group before it is counted."""


def collect(table: Table, aggregate: Aggregate[State, Result_co], *, lowering: Lowering = "auto") -> Result_co:
    """Read the rows in one pass and return the finished statistic. Nothing about the values raises."""
    cap, totals = (aggregate.cap, aggregate.totals) if isinstance(aggregate, CapsUnits) else (None, False)
    if isinstance(table.rows, ReducesAway):
        return aggregate.finish(
            _reduced_away(table.rows, aggregate, rows_that_count(table, aggregate.coding, cap=cap, totals=totals))
        )
    if _uses_engine(table, aggregate.coding, lowering, wide=aggregate.wide):
        frame, columns = coded_frame(table, aggregate.coding, cap=cap, totals=totals)
        return aggregate.finish(quietly(lambda: aggregate.query(frame, columns), rows=table.rows))
    if table.schema.person is None:
        return aggregate.finish(_reduced(table, aggregate))
    state = aggregate.empty()
    for codes in coded_rows(table, aggregate.coding, cap=cap, totals=totals):
        state = aggregate.fold(state, codes)
    return aggregate.finish(state)


@dataclass(frozen=True)
class RowsThatCount:
    """Code rows and leave out those that do not count; where units are persons, the rows of one come together."""

    wanted: Wanted
    coding: Coding
    cap: UnitCap | int
    totals: bool

    def __call__(self, batches: Iterator[Batch]) -> Iterator[CodeArrays]:
        """Return the coded rows that count, in batches; of persons in one, because their rows are held to be capped."""
        if self.wanted.person is None:
            return _coded(batches, self.coding)
        return iter((_capped(batches, self.coding, self.cap, totals=self.totals),))


def rows_that_count(table: Table, coding: Coding, *, cap: UnitCap | None = None, totals: bool = False) -> RowsThatCount:
    """Return what makes coded rows of the rows of a table, or of a part of it that holds all rows of its persons."""
    limit = table.schema.rows_per_unit if cap is None else cap
    return RowsThatCount(wanted_by(table, coding), coding, limit, totals)


@dataclass(frozen=True)
class FoldStep(Generic[State]):
    """What a worker does to the rows of its part: code them, add them up, and write the sums."""

    aggregate: Aggregate[State, Any]
    rows: RowsThatCount

    def __call__(self, batches: Iterator[Batch]) -> bytes:
        """Return the state of these rows as bytes."""
        return state_to_bytes(self.state(batches))

    @property
    def answer_bytes(self) -> int:
        """How large an answer is at least: public, from the shape of sums of no rows."""
        return len(state_to_bytes(self.aggregate.empty()))

    @property
    def whole_batches(self) -> bool:
        """Whether the aggregate codes and adds batches in one go."""
        return isinstance(self.aggregate, FoldsBatches) and self.aggregate.folds_batches

    def state(self, batches: Iterator[Batch]) -> State:
        """Return the state of these rows."""
        state = self.aggregate.empty()
        if self.whole_batches and self.rows.wanted.person is None:
            return self.aggregate.fold_batches(state, batches)  # type: ignore[attr-defined, no-any-return]
        for codes in self.rows(batches):
            state = self.aggregate.fold(state, codes)
        return state


@dataclass(frozen=True)
class CountStep:
    """What a worker does to rows of which some stand for several that are alike."""

    aggregate: Any  # an aggregate that counts rows
    coding: Coding

    @property
    def answer_bytes(self) -> int:
        """How large an answer is at least: public, from the shape of counts of no rows."""
        return len(state_to_bytes(self.aggregate.empty()))

    def __call__(self, batches: Iterator[Batch]) -> bytes:
        """Return the state of all rows as bytes."""
        state = self.aggregate.empty()
        for batch in batches:
            codes, kept = self.coding.kernel(batch)
            times = np.ones(batch.length, np.int64) if batch.times is None else batch.times
            if kept is not None:
                codes, times = tuple(code[kept] for code in codes), times[kept]
            state = self.aggregate.fold_alike(state, codes, times)
        return state_to_bytes(state)


def _reduced(table: Table, aggregate: Aggregate[State, Result_co]) -> State:
    """Add up the rows by threads that have a state each, or one batch after the other."""
    counted = rows_that_count(table, aggregate.coding)
    step, wanted = FoldStep(aggregate, counted), counted.wanted
    rows = aggregate.batch_rows if step.whole_batches else BATCH_ROWS  # type: ignore[attr-defined]
    small = isinstance(aggregate, FoldsApart) and aggregate.folds_apart
    if small and isinstance(table.rows, ReadsApart):
        return reduce(aggregate.merge, reduced_apart(table.rows.apart(wanted, rows=rows), step.state))
    return step.state(table.rows.batches(wanted, rows=rows))


def _reduced_away(rows: ReducesAway, aggregate: Aggregate[State, Any], counted: RowsThatCount) -> State:
    """Add up the rows where they are, and put the states together in whatever order they come."""
    counts = isinstance(aggregate, CountsRows) and aggregate.counts_rows and counted.wanted.person is None
    if counts and isinstance(rows, GroupsAlike):
        parts = rows.reduce_alike(counted.wanted, CountStep(aggregate, aggregate.coding))
    else:
        parts = rows.reduce(counted.wanted, FoldStep(aggregate, counted))
    return reduce(aggregate.merge, (state_from_bytes(part) for part in parts), aggregate.empty())


def reduced_apart(streams: Sequence[Iterator[Batch]], step: Callable[[Iterator[Batch]], Part]) -> list[Part]:
    """Run a step on each stream, on a thread of its own: sums of integers do not depend on who adds what."""
    if len(streams) == 1:
        return [step(streams[0])]
    stopped = Event()

    def until_stopped(stream: Iterator[Batch]) -> Iterator[Batch]:
        for batch in stream:
            if stopped.is_set():  # another thread failed, or the user interrupted
                return
            yield batch

    def worked(stream: Iterator[Batch]) -> Part:
        try:
            with np.errstate(all="ignore"):  # a thread has signals of its own, and rows must not decide about one
                return step(until_stopped(stream))
        except BaseException:
            stopped.set()
            raise

    with ThreadPoolExecutor(len(streams), thread_name_prefix=WORKERS) as pool:
        try:
            return list(pool.map(worked, streams))
        except BaseException:
            stopped.set()
            raise


def _uses_engine(table: Table, coding: Coding, lowering: Lowering, *, wide: bool) -> bool:
    """Decide which way to go, by facts that change time and memory only."""
    if lowering == "auto":
        cheaper = bool(coding.texts) or not table.rows.streams
        held = table.schema.person is not None and _slices_in_arrays(table, wanted_by(table, coding)) > 0
        return table.rows.length is None and cheaper and not wide and not held
    return lowering == "engine"


def _slices_in_arrays(table: Table, wanted: Wanted) -> int:
    """Return in how many slices the rows of persons are held in arrays; 0: the engine bounds them, which is slower."""
    if table.rows.length is not None:
        return 1
    return table.rows.slices_in_memory(wanted) if isinstance(table.rows, FitsInMemory) else 0


def wanted_by(table: Table, coding: Coding) -> Wanted:
    """Name the columns that a coding reads, and the person column if rows per person are bounded."""
    person = table.schema.person
    return Wanted(numbers=coding.numbers, texts=coding.texts, person=None if person is None else person.name)


def coded_frame(
    table: Table, coding: Coding, *, cap: UnitCap | None = None, totals: bool = False
) -> tuple[nw.LazyFrame[Any], tuple[str, ...]]:
    """Return the frame of coded rows that the engine will run, and the names of its code columns.

    `cap` says what of one person counts, at most `max_rows` rows if it is left out. With `totals` the rows of a person
    and group become one, whose last code is the sum of theirs.
    """
    import narwhals.stable.v2 as nw

    wanted = wanted_by(table, coding)
    frame = table.rows.frame(wanted)
    if frame is None:
        raise SourceError(f"the engine {table.engine!r} runs no expressions; use lowering='batches'")
    columns = tuple(f"x{place}" for place in range(len(coding.ranges)))
    frame, kept = coding.lower(frame, wanted, columns)
    if kept is not None:
        frame = frame.filter(kept)
    if wanted.person is not None:
        frame = frame.filter(~nw.col("person").is_null()).select("person", "person_key", *columns)
        frame = cap_frame(frame, columns, coding.ranges, table.schema.rows_per_unit if cap is None else cap)
        if totals:
            frame = frame.group_by("person", *columns[:-1]).agg(nw.col(columns[-1]).sum().alias("total"))
            # a sum of integers is a wider type in DuckDB; it fits 64 bits by the limits of rows and codes
            frame = frame.with_columns(nw.col("total").cast(nw.Int64).alias(columns[-1]))
    return frame.select(*columns), columns


def coded_rows(
    table: Table, coding: Coding, *, cap: UnitCap | None = None, totals: bool = False
) -> Iterator[CodeArrays]:
    """Return the coded rows that count, in batches; `cap` and `totals` as in `coded_frame`."""
    wanted = wanted_by(table, coding)
    if wanted.person is None:
        yield from _coded(table.rows.batches(wanted), coding)
        return
    slices = _slices_in_arrays(table, wanted)
    if not slices:
        # Elsewhere a person's rows may be far apart: the engine, which can work out of core, caps them.
        frame, columns = coded_frame(table, coding, cap=cap, totals=totals)
        yield from table.rows.stream(frame, columns)
    limit = table.schema.rows_per_unit if cap is None else cap
    for place in range(slices):  # all rows of a person are in one slice, by the id alone
        persons = Persons(place=place, slices=slices)
        yield _capped(table.rows.batches(wanted), coding, limit, totals=totals, persons=persons)


def _coded(batches: Iterator[Batch], coding: Coding) -> Iterator[CodeArrays]:
    for batch in batches:
        codes, kept = coding.kernel(batch)
        yield codes if kept is None or kept.all() else tuple(code[kept] for code in codes)


def _capped(
    batches: Iterator[Batch], coding: Coding, cap: UnitCap | int, *, totals: bool, persons: Persons | None = None
) -> CodeArrays:
    """Hold the coded rows of some persons and return those that count."""
    ids = Persons() if persons is None else persons
    parts: list[CodeArrays] = []
    for batch in batches:
        codes, kept = coding.kernel(batch)
        assert batch.person is not None
        stays = ids.fold(batch.person, kept)
        parts.append(tuple(code[stays] for code in codes))
    width = len(coding.ranges)
    none = np.empty(0, np.int64)
    person = ids.numbers()
    codes = tuple(np.concatenate([none, *(part[place] for part in parts)]) for place in range(width))
    del parts
    if isinstance(cap, int) or not totals:
        return cap_arrays((ids, person), codes, coding.ranges, cap)
    stays_at = places_that_count((ids, person), codes, codes, coding.ranges, cap)
    return totals_of(person[stays_at], tuple(code[stays_at] for code in codes))


def totals_of(person: NDArray[np.int64], codes: CodeArrays) -> CodeArrays:
    """Make one row of the rows of each person and group: the last code is the sum of theirs."""
    *groups, value = codes
    order = sorted_by([person, *groups])
    keys = [person[order], *(group[order] for group in groups)]
    starts = np.flatnonzero(run_starts(keys))
    sums = np.add.reduceat(value[order], starts) if len(starts) else value[:0]
    return (*(group[order][starts] for group in groups), sums)

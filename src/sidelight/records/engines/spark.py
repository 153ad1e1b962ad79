"""Spark data frames, plain and Connect: workers code and add up their rows, and only sums come to the driver.

Views of a database need rows of several tables together: for these, and for nothing else, rows come to the driver, a
partition at a time (`brought`).

Rows go from Spark to NumPy by Arrow (`mapInArrow`), and are read by the code that reads an Arrow table: no cast,
comparison or hash of Spark decides anything about a cell. Where rows are only counted, Spark groups rows whose cells
are equal bit by bit, and hands each group over once. The rows of a person are brought together by a shuffle on the id,
with a number of parts that no optimizer changes, and are capped there. Spark uses the result of one successful attempt
of each task, so a task that fails, is retried or runs twice counts once.

An error of a worker is withheld where it is raised, because Spark logs it and sends it to the driver. What the frame
itself raises (a failing cast of yours) Spark logs as for any job.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sidelight.errors import SourceError
from sidelight.fork_guard import finalize_here
from sidelight.records.cells import number_of
from sidelight.records.dates import Calendar
from sidelight.records.engines.arrow_cells import KnownTexts, batch_of_arrow, distinct_of_arrow
from sidelight.records.engines.spark_frames import check_deterministic, frame_of, open_path, types_of
from sidelight.records.rows import (
    BATCH_ROWS,
    Batch,
    ColumnType,
    DistinctTexts,
    NoExpressions,
    TextCells,
    Wanted,
    hide_engine_errors,
)
from sidelight.records.source_protocols import Pinned
from sidelight.version import VERSION

#: The Spark schema of a worker's result.
_STATE = "state binary"
#: The tag of our jobs in Spark.
_TAG = "sidelight"
#: Types whose cells Spark groups only if they are equal bit by bit: no floats (-0.0), decimals or collated texts.
_ALIKE = frozenset({"tinyint", "smallint", "int", "bigint", "boolean", "date", "string"})
#: The most bytes of all answers together, and the least size assumed for one.
_MOST_ANSWERS, _LEAST_ANSWER = 1 << 28, 1 << 16
#: The least result size that the driver must allow, and Spark's units of sizes.
_LEAST_LIMIT = 2 * _MOST_ANSWERS
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
#: The most bytes of joined batches: offsets of texts have 32 bits.
_MOST_JOINED = 1 << 30
#: The most blocks in one Spark batch, so that it stays below 2 GB.
_MOST_BLOCKS = 30_000
_NO_ROWS = (
    "Spark hands no rows over: its workers add them up; write the columns that you need to Parquet and give the folder"
)
Item = TypeVar("Item")


class SparkRows(NoExpressions):
    """The rows of a Spark data frame."""

    name = "spark"
    streams = True
    length = None
    check_reads_records: ClassVar[bool] = False  # settings of the session and the frame's plan

    def __init__(
        self, frame: Any, *, dates: Mapping[str, Calendar] | None = None, folders: frozenset[str] = frozenset()
    ) -> None:
        # by position: names may differ in case only, or hold dots and quotes
        self._places = {name: f"c{place}" for place, name in reversed(list(enumerate(frame.columns)))}
        self._frame = frame
        self._plain = frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))
        self._dates = dict(dates or {})
        self._folders = folders
        self._types = types_of(frame, folders)
        self._checked = False

    @property
    def types(self) -> Mapping[str, ColumnType]:
        return self._types

    def check_records(self) -> None:
        """Refuse a frame that is not deterministic, and workers without this library; before a charge."""
        said = str(self._frame.sparkSession.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch", "10000"))
        if not 0 < (int(said) if said.lstrip("-").isdecimal() else 0) <= _MOST_BLOCKS:
            raise SourceError(
                f"spark.sql.execution.arrow.maxRecordsPerBatch is {said}, and what workers keep would come to them in "
                f"batches that Arrow cannot hold; set it to 1 to {_MOST_BLOCKS} (10000 is its default). Nothing was "
                "charged"
            )
        limit = _bytes_of(str(self._frame.sparkSession.conf.get("spark.driver.maxResultSize", "1g")))
        if 0 < limit < _LEAST_LIMIT:
            raise SourceError(
                f"spark.driver.maxResultSize is {limit} bytes, and sums of many parts may not fit; start the session "
                "with 512m or more (1g is its default). Nothing was charged"
            )
        if self._checked:  # what follows does not change; what is set in the session may
            return
        check_deterministic(self._frame)
        found: list[bytes] = []
        with suppress(Exception):
            asked = self._frame.sparkSession.range(1, numPartitions=1).mapInArrow(_version, _STATE)
            found = [bytes(row[0]) for row in asked.collect()]
        if found != [VERSION.encode()]:
            there = found[0].decode() if found else "none"
            raise SourceError(
                f"Spark's workers need sidelight {VERSION} and pyarrow, as this program has them, and have {there}; "
                "install it where the workers run (PYSPARK_PYTHON names their Python). Nothing was charged"
            )
        self._checked = True

    def fault(self) -> str:
        """Return the message for a failed job."""
        return (
            "a Spark job that reads rows failed, after as many tries as Spark makes; its message is withheld because "
            f"it may quote a record: look for the jobs with the tag '{_TAG}' in Spark's own log, and check that "
            "files are whole and of one type, and that workers have enough memory"
        )

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Refuse: no row leaves Spark."""
        raise SourceError(_NO_ROWS)

    def brought(self, wanted: Wanted) -> Iterator[Batch]:
        """Return all rows for the views of a database; Spark hands one partition over at a time."""
        frame = self._plain.select(*(self._places[name] for name in wanted.names))
        blocks = hide_engine_errors(frame.mapInArrow(_packed, _STATE).toLocalIterator, rows=self)

        def unpacked() -> Iterator[Any]:
            while (row := hide_engine_errors(lambda: next(blocks, None), rows=self)) is not None:
                yield from pa.ipc.open_stream(bytes(row[0]))

        yield from _cells(unpacked(), wanted, self._dates, self._folders & self._places.keys())

    def reduce(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        """Run a step on each partition, where it is, and return the bytes of each once."""
        task = RowsTask(wanted, self._dates, self._folders & self._places.keys(), OneBlock(step))
        return _collected(_few_enough(self._asked(wanted), step).mapInArrow(task, _STATE), self)

    def reduce_equal(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        """Let Spark count equal rows, if its equality is exact for these types; then as `reduce`."""
        names = wanted.names
        if not names or any(self._types[name].native not in _ALIKE for name in names if name not in self._folders):
            return self.reduce(wanted, step)
        grouped = self._asked(wanted).groupBy(*(self._places[name] for name in names)).count()
        folders = self._folders & self._places.keys()
        task = RowsTask(wanted, self._dates, folders, OneBlock(step), counted=True)
        return _collected(_few_enough(grouped, step).mapInArrow(task, _STATE), self)

    def pinned(self, wanted: Wanted, step: Callable[[Iterator[Batch]], Iterator[bytes]]) -> Pinned:
        """Run a step on each partition and let Spark keep what it makes, in memory or on the workers' disks."""
        task = RowsTask(wanted, self._dates, self._folders & self._places.keys(), step)
        return PinnedBlocks(self._asked(wanted).mapInArrow(task, _STATE), self)

    def _asked(self, wanted: Wanted) -> Any:
        """Return the wanted columns alone, all rows of a person in one partition."""
        names = wanted.names
        frame = self._plain.select(*(self._places[name] for name in names))
        if wanted.person is None:
            return frame
        # With a number, Spark's optimizer leaves the partitions alone: a person with rows in two would count twice.
        said = str(frame.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
        parts = int(said) if said.isdecimal() else 200  # some have words for it
        person = self._places[wanted.person]
        return frame.where(f"{person} IS NOT NULL").repartition(parts, person)


def open_spark(source: Any, *, table: str | None = None, dates: Mapping[str, Calendar] | None = None) -> SparkRows:
    """Take a Spark data frame, or a table of a Spark session by its name."""
    return SparkRows(frame_of(source, table), dates=dates)


def open_spark_path(path: str, *, dates: Mapping[str, Calendar] | None = None) -> SparkRows:
    """Let Spark read Parquet files, a folder or a URL that it knows."""
    frame, folders = open_path(path)
    return SparkRows(frame, dates=dates, folders=folders)


class PinnedBlocks:
    """Blocks that workers made of their rows, kept by Spark until `drop`, a failed job, or garbage collection."""

    def __init__(self, frame: Any, rows: SparkRows) -> None:
        self._frame, self._rows = hide_engine_errors(frame.persist, rows=rows), rows
        self._gone = finalize_here(self, _drop, self._frame)

    def ask(self, step: Callable[[Iterator[bytes]], bytes]) -> Iterator[bytes]:
        """Run a step on the blocks of every partition."""
        try:
            frame = _few_enough(self._frame, step)
            yield from _collected(frame.mapInArrow(BlocksTask(step), _STATE), self._rows)
        except BaseException:  # a traceback may keep this object alive for long
            self.drop()
            raise

    def drop(self) -> None:
        """Let Spark forget the blocks."""
        self._gone()

    def __repr__(self) -> str:
        return "PinnedBlocks(private)"


def _few_enough(frame: Any, step: Any) -> Any:
    """Coalesce parts if all answers of a step together would exceed spark.driver.maxResultSize (1 GB by default).

    The rows of a person stay together.
    """
    size = max(int(getattr(step, "answer_bytes", 0)), _LEAST_ANSWER)
    return frame.coalesce(max(1, _MOST_ANSWERS // size))


def _bytes_of(size: str) -> int:
    """Return a size of Spark's settings in bytes; 0, no limit, if it is not understood.

    >>> _bytes_of("1g"), _bytes_of("512MB"), _bytes_of("1048576"), _bytes_of("0")
    (1073741824, 536870912, 1048576, 0)
    """
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgtp]?)b?\s*", size.lower())
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _drop(frame: Any) -> None:
    with suppress(Exception):  # the session may be gone, and its blocks with it
        frame.unpersist()


def _collected(frame: Any, rows: SparkRows) -> Iterator[bytes]:
    session = frame.sparkSession

    def run() -> list[bytes]:
        with suppress(Exception):  # new in Spark 4
            session.addTag(_TAG)
        try:
            return [bytes(row[0]) for row in frame.collect()]
        finally:
            with suppress(Exception):
                session.removeTag(_TAG)

    for state in hide_engine_errors(run, rows=rows):
        yield zlib.decompress(state)


@dataclass(frozen=True)
class OneBlock:
    """A step with one result, as a step with several."""

    step: Callable[[Iterator[Batch]], bytes]

    def __call__(self, batches: Iterator[Batch]) -> Iterator[bytes]:
        """Return the one result, packed for the way to the driver."""
        yield zlib.compress(self.step(batches), 1)


@dataclass(frozen=True)
class RowsTask:
    """The task of a partition: read the cells of Arrow batches, and run a step on them."""

    wanted: Wanted
    dates: Mapping[str, Calendar]
    folders: frozenset[str]
    step: Callable[[Iterator[Batch]], Iterator[bytes]]
    counted: bool = False  # whether a last column holds the number of equal rows

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        read = _cells(batches, self.wanted, self.dates, self.folders, counted=self.counted)
        return _rows_of(_silent(self.step(read)))


def _cells(
    batches: Iterator[Any],
    wanted: Wanted,
    dates: Mapping[str, Calendar],
    folders: frozenset[str],
    *,
    counted: bool = False,
) -> Iterator[Batch]:
    """Read the cells of Arrow batches of the wanted columns."""
    known = {name: KnownTexts() for name in wanted.names}
    places = {name: place for place, name in enumerate(wanted.names)}
    in_paths = [name for name in wanted.numbers if name in folders]  # texts, each read by itself
    own = replace(wanted, numbers=tuple(name for name in wanted.numbers if name not in folders))
    for batch in _joined(batches):
        found = batch_of_arrow(batch, own, places, dates=dates, known=known)
        numbers = dict(found.numbers)
        for name in in_paths:
            read = dates[name].of_cell if name in dates else number_of
            numbers[name] = _each(distinct_of_arrow(batch.column(places[name]), known[name]), read)
        times = batch.columns[-1].to_numpy().astype(np.int64) if counted else None
        yield Batch(batch.num_rows, numbers, found.texts, found.person, times, found.keys)


def _each(texts: TextCells, read: Callable[[Any], float]) -> NDArray[np.float64]:
    if isinstance(texts, DistinctTexts):
        found: NDArray[np.float64] = np.array([read(cell) for cell in texts.cells], np.float64)[texts.places]
        return found
    return np.fromiter((read(cell) for cell in texts.tolist()), np.float64, len(texts))


def _joined(batches: Iterator[Any]) -> Iterator[Any]:
    """Join Spark's batches (10,000 rows by default) to the size of a kernel's batch, as far as Arrow can hold texts."""
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows >= BATCH_ROWS or size + batch.nbytes > _MOST_JOINED):
            yield _one(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield _one(waiting)


def _one(batches: list[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(column) for column in zip(*(each.columns for each in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batches[0].schema.names)


@dataclass(frozen=True)
class BlocksTask:
    """The task on kept blocks."""

    step: Callable[[Iterator[bytes]], bytes]

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        blocks = (block.as_py() for batch in batches for block in batch.column(0))  # one copy at a time
        return _rows_of(_silent(OneBlock(self.step)(blocks)))  # type: ignore[arg-type]


def _rows_of(blocks: Iterator[bytes]) -> Iterator[Any]:
    for block in blocks:
        yield pa.record_batch([pa.array([block], pa.binary())], names=["state"])


def _silent(items: Iterator[Item]) -> Iterator[Item]:
    """Hide errors, which may quote a cell: Spark would log them and send them to the driver."""
    while True:
        failed = False
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                item = next(items, None)
        except Exception:
            failed = True
        if failed:  # outside the handler, so that the error is not the context of this one
            raise RuntimeError("sidelight could not add up this part; what was raised is withheld")
        if item is None:
            return
        yield item


def _packed(batches: Iterator[Any]) -> Iterator[Any]:
    """Pack every Arrow batch of a partition into one cell of bytes."""

    def blocks() -> Iterator[bytes]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield sink.getvalue().to_pybytes()

    return _rows_of(_silent(blocks()))


def _version(batches: Iterator[Any]) -> Iterator[Any]:
    for _ in batches:
        yield from _rows_of(iter([VERSION.encode()]))

"""Rows of any engine whose texts are read as the schema declares: decimal commas, other dates, aliases of labels.

The engine hands the texts over, each distinct one of a batch once, and the functions of `readings` and `dates` make
numbers, labels and ids of them: all engines give the same bits. Cells that are numbers or dates by their type stay what
they are, except for values that are declared to mean missing. Expressions run on DuckDB, on the read columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError, SourceError
from sidelight.records.dates import DateReading
from sidelight.records.readings import NumberReading, Remembered, TextReading
from sidelight.records.rows import BATCH_ROWS, Batch, ColumnType, DistinctTexts, Rows, TextCells, Wanted, WholeIds
from sidelight.records.source_protocols import (
    ChecksFiles,
    ChecksRecords,
    DistributedRows,
    FitsInMemory,
    Pinned,
    ReadInTurn,
    ReadsInParallel,
    batches_with_keys,
)
from sidelight.registry import import_with_extras

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

Reading = NumberReading | DateReading | TextReading


@dataclass(frozen=True)
class DeclaredBatches:
    """How batches of an engine's own cells become batches of declared values; can be sent to workers.

    `from_texts` are the columns of numbers and dates that the engine hands over as texts.
    """

    wanted: Wanted
    readings: Mapping[str, Reading]
    from_texts: frozenset[str]

    @property
    def asked(self) -> Wanted:
        """What the engine is asked for."""
        texts = [name for name in self.wanted.numbers if name in self.from_texts]
        return replace(
            self.wanted,
            numbers=tuple(name for name in self.wanted.numbers if name not in self.from_texts),
            texts=tuple(dict.fromkeys([*self.wanted.texts, *texts])),
        )

    def __call__(self, batches: Iterator[Batch], objects: Mapping[str, Sequence[Any]] | None = None) -> Iterator[Batch]:
        """Read the batches; `objects` are the untyped cells of some columns in the order of the rows."""
        known = {name: Remembered(reading.of_text) for name, reading in self.readings.items()}
        start = 0
        for batch in batches:
            start, first = start + batch.length, start
            own = {name: cells[first:start] for name, cells in (objects or {}).items()}
            yield replace(
                batch,
                numbers={name: self._numbers(name, batch, known, own) for name in self.wanted.numbers},
                texts={name: self._labels(name, batch.texts[name], known) for name in self.wanted.texts},
                person=batch.person if batch.person is None else self._labels(self.wanted.person, batch.person, known),
            )

    def _numbers(
        self, name: str, batch: Batch, known: Mapping[str, Any], objects: Mapping[str, Sequence[Any]]
    ) -> NDArray[np.float64]:
        reading = self.readings.get(name)
        if name in self.from_texts:
            cells = batch.texts[name]
            if isinstance(cells, DistinctTexts):
                each = np.array([known[name][text] for text in cells.cells], np.float64)
                return np.asarray(each[cells.places]) if len(each) else np.empty(0)
            return np.fromiter((known[name][text] for text in cells.tolist()), np.float64, len(cells))
        if reading is None or isinstance(reading, TextReading):
            return batch.numbers[name]
        if name in objects:
            return np.fromiter((reading.of_cell(cell) for cell in objects[name]), np.float64, batch.length)
        return reading.of_values(batch.numbers[name])

    def _labels(self, name: str | None, cells: Any, known: Mapping[str, Any]) -> Any:
        if name is None or not isinstance(self.readings.get(name), TextReading):
            return cells
        return _read_texts(cells, known[name])


def _read_texts(cells: TextCells | WholeIds, known: Mapping[str | None, str | None]) -> TextCells:
    """Return the labels of a column; texts that mean one label are one cell."""
    if isinstance(cells, DistinctTexts):
        codes: dict[str | None, int] = {}
        places = np.array([codes.setdefault(known[text], len(codes)) for text in cells.cells], np.int64)
        return DistinctTexts(list(codes), places[cells.places] if len(places) else cells.places)
    found = np.empty(len(cells), object)
    for place, text in enumerate(cells.tolist()):
        found[place] = known[text]
    return found


class DeclaredRows:
    """The rows of a source whose texts are read as declared."""

    def __init__(self, source: Rows, readings: Mapping[str, Reading]) -> None:
        self.source = source
        self._readings = dict(readings)
        kinds = {name: source.types[name].kind for name in readings}
        values = [name for name, reading in readings.items() if not isinstance(reading, TextReading)]
        self._objects = [name for name in values if kinds[name] == "any" and hasattr(source, "objects")]
        whole = [name for name in values if isinstance(readings[name], DateReading) and kinds[name] == "integer"]
        texts = [name for name in values if kinds[name] in ("text", "any") and name not in self._objects]
        self._from_texts = frozenset([*texts, *whole])

    @property
    def name(self) -> str:
        """The public name of the engine."""
        return self.source.name

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, as the source has them."""
        return self.source.types

    @property
    def length(self) -> int | None:
        """The number of rows if they are in memory: PRIVATE."""
        return self.source.length

    @property
    def streams(self) -> bool:
        """Whether batches come one after the other."""
        return self.source.streams

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows, each text read as declared."""
        declared = self._declared(wanted)
        names = [name for name in wanted.numbers if name in self._objects]
        objects = {name: self.source.objects(name) for name in names}  # type: ignore[attr-defined]
        return declared(batches_with_keys(self.source, declared.asked, size=rows), objects)

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return True: keys are those of the source, compared letter for letter whatever labels declare."""
        return True

    def in_parallel(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Sequence[Iterator[Batch]]:
        """Return a stream for each thread, where the source has several."""
        declared = self._declared(wanted)
        if not isinstance(self.source, ReadsInParallel):
            return (self.batches(wanted, rows=rows),)
        return [declared(stream) for stream in self.source.in_parallel(declared.asked, rows=rows)]

    def slices_in_memory(self, wanted: Wanted) -> int:
        """Return the number of passes in which persons fit into memory: PRIVATE; 0 if the engine bounds them."""
        if not isinstance(self.source, FitsInMemory):
            return 0
        # slices are made of whole numbers, which ids that are read as texts are not
        found = self.source.slices_in_memory(self._declared(wanted).asked)
        return found if found <= 1 or wanted.person not in self._readings else 0

    def in_turn(self) -> AbstractContextManager[object]:
        """Return the lock of the source, if it has one."""
        return self.source.in_turn() if isinstance(self.source, ReadInTurn) else nullcontext()

    def check_records(self) -> None:
        """Let the source check its records, if it is one that can."""
        if isinstance(self.source, ChecksRecords):
            self.source.check_records()

    def check_files(self) -> None:
        """Let the source compare its files, if it has some."""
        if isinstance(self.source, ChecksFiles):
            self.source.check_files()

    def fault(self) -> str | None:
        """Return what the source says is wrong with it."""
        found = self.source.fault() if hasattr(self.source, "fault") else None
        return None if found is None else str(found)

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any] | None:
        """Return the read columns as a frame; DuckDB runs what is built on it."""
        from sidelight.records.engines.declared_stream import frame_of

        return frame_of(self, wanted)

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame made from `frame` and return its integer columns in batches."""
        from sidelight.records.engines.duckdb import stream_of

        return stream_of(frame, columns, rows=self)

    def _declared(self, wanted: Wanted) -> DeclaredBatches:
        names = {name: reading for name, reading in self._readings.items() if name in wanted.names}
        return DeclaredBatches(wanted, names, self._from_texts)

    def __repr__(self) -> str:
        return "DeclaredRows(private)"


class DeclaredDistributedRows(DeclaredRows):
    """The rows of a distributed source; workers read the texts."""

    def reduce(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        """Run a step on the read rows of every part."""
        declared, source = self._declared(wanted), self._distributed
        return source.reduce(declared.asked, DeclaredStep(declared, step))

    def reduce_equal(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        """Run a step as `reduce` does; the source may group rows of equal texts."""
        declared, source = self._declared(wanted), self._distributed
        reduce = getattr(source, "reduce_equal", source.reduce)
        found: Iterator[bytes] = reduce(declared.asked, DeclaredStep(declared, step))
        return found

    def pinned(self, wanted: Wanted, step: Callable[[Iterator[Batch]], Iterator[bytes]]) -> Pinned:
        """Run a step on the read rows of every part once, and keep its blocks."""
        declared = self._declared(wanted)
        return self._distributed.pinned(declared.asked, DeclaredStep(declared, step))

    def frame(self, wanted: Wanted) -> None:
        """Return None: no row leaves the workers."""
        return

    @property
    def _distributed(self) -> DistributedRows:
        assert isinstance(self.source, DistributedRows)
        return self.source


@dataclass(frozen=True)
class DeclaredStep:
    """A step of workers on rows that they read as declared."""

    declared: DeclaredBatches
    step: Callable[[Iterator[Batch]], Any]

    def __call__(self, batches: Iterator[Batch]) -> Any:
        return self.step(self.declared(batches))

    @property
    def answer_bytes(self) -> int:
        """How large the answer of the step is: public."""
        return int(getattr(self.step, "answer_bytes", 0))


def read_as_declared(source: Rows, readings: Mapping[str, Reading], *, person: str | None) -> Rows:
    """Return rows whose texts are read as declared."""
    if source.length is None and not isinstance(source, DistributedRows):  # before a charge, not in `frame`
        import_with_extras("sidelight.records.engines.declared_stream", what="a declared reading of rows not in memory")
    for name in readings:
        kinds = source.kinds_of(name) if hasattr(source, "kinds_of") else {source.types[name].kind}
        if len(kinds) > 1:
            raise SchemaError(
                f"column {name!r} has a declared reading, and the files hold {' and '.join(sorted(kinds))} in it; "
                "write all of them with one type"
            )
    if not isinstance(source, DistributedRows):
        return DeclaredRows(source, readings)
    if person in readings:
        raise SourceError(
            f"Spark brings the rows of a person together by the id as it stands, so column {person!r} cannot declare "
            "how its texts are read; write the ids in one spelling into the frame, and leave the declaration out"
        )
    return DeclaredDistributedRows(source, readings)

"""The interface of engines: the types of columns without reading rows, and rows in two forms.

The two forms are batches of NumPy arrays (for kernels) and a narwhals frame (for expressions that the engine runs
itself). In both, a number column is float64 and a text column is text; missing is NaN or null in numbers and None or
null in texts. Integers, booleans and labels become text in one way on all engines, so that the same rows give the same
statistics everywhere.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SidelightError, SourceError

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


#: "any" cells are read one by one (object columns, CSV cells); "other" is a type no declaration can use.
TypeKind = Literal["integer", "float", "boolean", "text", "date", "any", "other"]

#: The word for the type of a name that two columns have.
TWICE = "two columns of this name"

#: Rows to a batch in memory: the working arrays of a kernel stay in the cache.
BATCH_ROWS = 1 << 15

#: Approximate bytes of a block of several columns that a worker keeps. Spark hands 10,000 of them to Python at once, as
#: one column of at most 2 GB: larger blocks of a large part would fail a release that is paid for.
KEPT_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class ColumnType:
    """The type that the engine says a column has; `native` is the engine's own word for it."""

    kind: TypeKind
    native: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The columns that a statistic reads, by the form in which it reads them.

    `keys` are read as persons are, by `batches_with_keys` alone: whole numbers where the engine hands them over.
    """

    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    person: str | None = None
    keys: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys([*self.numbers, *self.texts, *filter(None, [self.person]), *self.keys]))

    def number_alias(self, name: str) -> str:
        """Name a number column inside a frame: user's names may be reserved words of the engine."""
        return f"n{self.numbers.index(name)}"

    def text_alias(self, name: str) -> str:
        """Name a text column inside a frame."""
        return f"t{self.texts.index(name)}"

    def key_alias(self, name: str) -> str:
        """Name a key inside a frame."""
        return f"k{self.keys.index(name)}"


class Codes(Protocol):
    """A whole number for a text: a dictionary, or one that grows."""

    def get(self, text: str | None, default: int, /) -> int:
        """Return the number of a text, or `default`."""


class DistinctTexts:
    """A text column as its distinct cells and the index of each row's cell: each label is looked up once.

    It can be sliced and read like an array of texts and None. Slices share the lookups.
    """

    __slots__ = ("_looked_up", "cells", "places")
    ndim = 1

    def __init__(
        self, cells: list[str | None], places: NDArray[Any], *, looked_up: dict[Any, NDArray[np.int64]] | None = None
    ) -> None:
        self.cells = cells
        self.places = places
        self._looked_up: dict[Any, NDArray[np.int64]] = {} if looked_up is None else looked_up

    @property
    def shape(self) -> tuple[int, ...]:
        return self.places.shape

    def codes(self, of: Hashable, table: Callable[[], Codes], default: int) -> NDArray[np.int64]:
        """Return the code of each row by a table of texts; `of` tells tables apart."""
        if of not in self._looked_up:
            found = table()
            self._looked_up[of] = np.array([found.get(cell, default) for cell in self.cells], np.int64)
        # `take` by native integers is a third of the time that indexing by Arrow's shorter ones needs
        codes: NDArray[np.int64] = self._looked_up[of].take(self.places.astype(np.intp, copy=False))
        return codes

    def at(self, places: NDArray[Any]) -> DistinctTexts:
        """Return other rows of the same cells, sharing the lookups."""
        return DistinctTexts(self.cells, places, looked_up=self._looked_up)

    def tolist(self) -> list[str | None]:
        return [self.cells[place] for place in self.places.tolist()]

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, chosen: Any) -> DistinctTexts:
        return self.at(self.places[chosen])

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        array = np.empty(len(self.cells), object)
        array[:] = self.cells
        cells: NDArray[Any] = array[self.places]
        return cells

    def __repr__(self) -> str:
        return "DistinctTexts(private)"


#: What a batch holds of a text column.
TextCells = NDArray[Any] | DistinctTexts


@dataclass(frozen=True, repr=False)
class WholeIds:
    """The person of each row as a 64-bit integer, whose digits are the id; missing where `named` is false."""

    values: NDArray[np.int64]
    named: NDArray[np.bool_] | None = None

    def tolist(self) -> list[str | None]:
        texts: list[str | None] = [str(value) for value in self.values.tolist()]
        if self.named is None:
            return texts
        return [text if there else None for text, there in zip(texts, self.named.tolist(), strict=True)]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: Any) -> WholeIds:
        return WholeIds(self.values[chosen], None if self.named is None else self.named[chosen])

    def __repr__(self) -> str:
        return "WholeIds(private)"


@dataclass(frozen=True, repr=False)
class Batch:
    """Some rows. Arrays may be views of the user's own: never write into them.

    `times` is the number of equal rows that each row stands for (`GroupsEqualRows`).
    """

    length: int
    numbers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[str, TextCells] = field(default_factory=dict)
    person: TextCells | WholeIds | None = None
    times: NDArray[np.int64] | None = None
    keys: Mapping[str, TextCells | WholeIds] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "Batch(private)"


def types_by_name(found: Iterable[tuple[str, ColumnType]]) -> dict[str, ColumnType]:
    """Return the type of each column, or, for a name that two columns have, that there are two."""
    types: dict[str, ColumnType] = {}
    for name, kind in found:
        types[name] = ColumnType("other", TWICE) if name in types else kind
    return types


class Rows(Protocol):
    """A source of rows. Nothing is read before `batches` runs or a frame is collected."""

    @property
    def name(self) -> str:
        """The public name of the engine."""

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The columns and their types, from metadata alone."""

    @property
    def length(self) -> int | None:
        """The number of rows if they are in memory: PRIVATE, for buffers only. None if they are elsewhere."""

    @property
    def streams(self) -> bool:
        """Whether batches come one after the other, without all rows being held at once."""

    def batches(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Iterator[Batch]:
        """Return all rows, in batches of about this many rows."""

    def frame(self, wanted: Wanted) -> nw.LazyFrame[Any] | None:
        """Return a lazy frame of the columns under their aliases; None if the engine runs no expressions.

        With a person, the column `person` holds the id as text and `person_key` an integer in 0..2**60-1 that depends
        on the id alone (`sidelight.records.person_key`).
        """

    def stream(self, frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Run a frame made from `frame` and return its integer columns in batches."""


class NoExpressions:
    """Rows of an engine that runs no expressions."""

    def frame(self, wanted: Wanted) -> None:
        """Return None: there is no frame."""
        return

    def stream(self, frame: Any, columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
        """Refuse: there is no frame to run."""
        raise NotImplementedError


#: Prefix of the names of threads that work on rows: their output is suppressed as that of a release is.
WORKERS = "sidelight-rows"


def cores() -> int:
    """Return the number of threads that work on rows: the cores of this process, at most four."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, 4)


class _Limit:
    """Who wants one BLAS thread, in one process: a forked child has none of its parent's threads."""

    def __init__(self) -> None:
        self.lock, self.entered, self.users = threading.Lock(), ExitStack(), 0


_limits: dict[int, _Limit] = {}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread, where threadpoolctl is installed (scikit-learn brings it): for many small products.

    BLAS's own threads wait for each other busily, for longer than a product of a block takes. The limit is one of the
    process, so the last of several callers lifts it. Private sums made inside are of integers: the same in any order.
    """
    limit = _limits.setdefault(os.getpid(), _Limit())
    with limit.lock:
        limit.users += 1
        if limit.users == 1 and (blas := _blas()) is not None:
            limit.entered.enter_context(blas.limit(limits=1))
    try:
        yield
    finally:
        with limit.lock:
            limit.users -= 1
            if not limit.users:
                limit.entered.close()


@cache
def _blas() -> Any:
    """Return the controller of the BLAS libraries of this process, or None."""
    try:
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController().select(user_api="blas")
    except Exception:  # not installed, or it cannot read a library: after the charge nothing may fail
        return None


def collected(frame: nw.LazyFrame[Any]) -> nw.DataFrame[Any]:
    """Run a frame; Polars by its engine in memory, whatever its default is or the user's configuration prefers."""
    if not frame.implementation.is_polars():
        return frame.collect()
    # versions without this setting have no other default, and do not know the name of the engine
    has_choice = hasattr(frame.implementation.to_native_namespace().Config, "set_engine_affinity")
    return frame.collect(engine="in-memory") if has_choice else frame.collect()


def stream_at_once(frame: nw.LazyFrame[Any], columns: tuple[str, ...]) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Run a frame and return its integer columns as one batch."""
    result = hide_engine_errors(lambda: collected(frame.select(*columns)))
    yield tuple(result[column].to_numpy() for column in columns)


Result = TypeVar("Result")


def hide_engine_errors(action: Callable[[], Result], *, rows: object = None, message: str | None = None) -> Result:
    """Run an action that reads rows; replace an engine's error, which may quote cells, by one that quotes nothing.

    Its message is the given one, or that of the source: `rows.fault()`, if it has that method, returns what is wrong
    with a file that is gone or was changed, quoting no cell, or None.
    """
    try:
        return action()
    except (SidelightError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic of Polars is no Exception
        pass
    # Outside the handler, so that the engine's error is not kept as the context of this one.
    if message is None and hasattr(rows, "fault"):
        message = rows.fault()
    raise SourceError(
        message
        or "the engine failed while it read the rows; its message is withheld because it may quote a record: "
        "check that the file is whole and readable, and that there is enough memory"
    )

"""The tables of numbers that can be reached from a function, without running any code of its writer.

Objects are followed as Python's garbage collector follows them (`gc.get_referents`): attributes, slots, containers of
the standard library, closures, partials, caches and generators give what they hold, and no property, `__getattr__` or
`__iter__` runs. Of a function only the globals that its code names are followed, of a module only the names that some
followed code reads, and nothing inside of the libraries below. What is further away than the limits is not seen, nor is
what a function opens when it runs: a file, a name made of texts, a weak reference.

A table or a column may be an array, frame, list, rows, records, a buffer, a set or texts; a number is the same whatever
holds it: 2, 2.0, Decimal("2"), Fraction(2) and "2" are one. Only the exact types below are read, and frames and arrays
of known libraries.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sidelight.records.row_prints import ColumnPrint, Prints, row_prints

#: Steps from the function, objects in all, and parts of one container that are followed.
DEPTH, OBJECTS, PARTS = 12, 50_000, 1_000
#: Frames of these are tables: their columns are read, and what they are made of is not followed.
FRAMES = ("pandas", "polars", "pyarrow")
_LIBRARIES = frozenset({*sys.stdlib_module_names, *FRAMES, "numpy", "scipy", "sklearn", "sidelight"}) - {"__main__"}
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"})
_PLAIN = (float, int, complex, str, bool, type(None))
#: Fewer numbers than this are no column, and fewer bytes no buffer of them.
FEWEST = 20
#: A buffer up to this size is also read from places that are no multiple of eight bytes.
_SHIFTED_BYTES = 1 << 20
#: More things than this in a list are no columns.
_SIDE_BY_SIDE = 1_000
_NUMBERS = frozenset({float, int, bool})
_OTHER_NUMBERS = frozenset({str, Decimal, Fraction, type(None)})
_BUFFERS = (np.float64, np.float32, np.int64, np.int32)
_SEQUENCES: dict[type, Callable[[Any], Any]] = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
    deque: deque.__iter__,
}
_LAZY = {("polars", "LazyFrame"), ("duckdb", "DuckDBPyRelation"), ("_duckdb", "DuckDBPyRelation")}


@dataclass(frozen=True, eq=False, repr=False)
class ReachableTable:
    """A matrix, a column, or several columns that an object holds; `listed` if it was no array or frame."""

    cells: Any
    listed: bool = False

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self.cells.shape[1]) if len(self.cells.shape) == 2 else 1

    @cached_property
    def prints(self) -> Prints | None:
        """The rows by content."""
        return row_prints(self.cells)

    @cached_property
    def columns(self) -> tuple[ColumnPrint, ...]:
        """Each column by content; none of a sparse matrix, which holds mostly zeros."""
        if not isinstance(self.cells, np.ndarray) or self.cells.ndim not in (1, 2) or len(self.cells) < FEWEST:
            return ()
        every = [self.cells] if self.cells.ndim == 1 else list(self.cells.T)
        return tuple(ColumnPrint(np.asarray(column)) for column in every)

    @cached_property
    def pooled(self) -> ColumnPrint | None:
        """All columns that tell something as one, for cells that lie one after the other."""
        telling = [column.cells for column in self.columns if column.tells]
        return ColumnPrint(np.concatenate(telling)) if len(telling) > 1 else None


def is_lazy(part: object) -> bool:
    """Return whether something is a frame that is evaluated lazily."""
    kinds = type(part).__mro__
    return any((library_of(kind), kind.__name__) in _LAZY for kind in kinds) or any(
        library_of(kind) == "pyspark" and kind.__name__ == "DataFrame" for kind in kinds
    )


def tables_in(part: Any) -> Iterator[ReachableTable]:
    """Return a thing as tables of numbers, in each way in which it may be one; nothing if it is none."""
    kind = type(part)
    libraries = {library_of(base) for base in kind.__mro__}
    if issubclass(kind, np.ndarray):
        yield from _array(np.asarray(part))
    elif library_of(kind) == "scipy" and hasattr(part, "tocsr"):
        yield ReachableTable(part)
    elif issubclass(kind, dict):
        yield from _side_by_side(list(dict.values(part)))
        yield from _listed(list(dict.keys(part)))
        yield from _listed(list(dict.values(part)))
    elif issubclass(kind, bytes | bytearray):
        yield from _buffer(memoryview(part))
    elif kind is array or kind is memoryview:
        view = memoryview(part)
        if view.format in ("B", "b", "c") or not view.contiguous:
            yield from _buffer(memoryview(view.tobytes()))
        else:
            yield from _array(np.asarray(view))
    elif not libraries.isdisjoint(FRAMES) and not is_lazy(part):
        yield from _frame(part)
    elif not libraries.isdisjoint({"torch", "jaxlib"}) and hasattr(part, "__array__"):
        yield from _array(np.asarray(part.detach() if "torch" in libraries else part))
    else:
        for base, read in _SEQUENCES.items():
            if issubclass(kind, base):
                items = list(read(part))
                yield from _side_by_side(items)
                yield from _listed(items)
                return


def _array(cells: NDArray[Any]) -> Iterator[ReachableTable]:
    """Return an array: numbers, texts or objects; named fields are columns, and a wide matrix may lie on its side."""
    if cells.dtype.names is not None:
        yield from _side_by_side([cells[name] for name in cells.dtype.names])
    elif cells.dtype.kind not in "fiub":
        numbers = column_of(cells.ravel().tolist()) if cells.dtype.kind in "OUS" and cells.ndim else None
        if numbers is not None:
            yield from _array(numbers.reshape(cells.shape))
    elif cells.ndim:
        yield ReachableTable(cells if cells.ndim <= 2 else cells.reshape(-1, cells.shape[-1]))
        if cells.ndim == 2 and cells.shape[1] >= max(FEWEST, cells.shape[0]):
            yield ReachableTable(cells.T)


def _buffer(view: memoryview) -> Iterator[ReachableTable]:
    shifts = range(1, 8 if len(view) <= _SHIFTED_BYTES else 1)
    for kind, start in [*((kind, 0) for kind in _BUFFERS), *((np.float64, shift) for shift in shifts)]:
        size = np.dtype(kind).itemsize
        if (count := (len(view) - start) // size) >= FEWEST:
            yield ReachableTable(np.frombuffer(view, kind, count, start), listed=True)


def _frame(part: Any) -> Iterator[ReachableTable]:
    """Return the number columns of a frame, in their order, or a column of one."""
    try:
        names = getattr(part, "column_names" if hasattr(part, "column_names") else "columns", None)
        if names is None:
            yield from _array(np.asarray(part))
        else:
            columns = [np.asarray(part[name]) for name in dict.fromkeys(names)]
            flat = [each for column in columns for each in (column.T if column.ndim == 2 else [column])]
            yield from _side_by_side(flat, listed=False)
    except Exception:  # no frame after all, or a column of which nothing may be said
        return


def _side_by_side(parts: Sequence[Any], *, listed: bool = True) -> Iterator[ReachableTable]:
    """Return columns of one length as a table."""
    if len(parts) > _SIDE_BY_SIDE:
        return
    found = [column for part in parts if _is_column(part) and (column := column_of(part)) is not None]
    short = listed and len(found) == 1 and len(found[0]) < FEWEST
    if found and not short and len({len(column) for column in found}) == 1:
        yield ReachableTable(np.column_stack(found), listed)


def _listed(items: list[Any]) -> Iterator[ReachableTable]:
    """Return a list as a column, or as rows: sequences, mappings, arrays or objects of plain numbers."""
    kinds = set(map(type, items))
    if not items:
        return
    if all(map(_is_number, kinds)):
        column = column_of(items) if len(items) >= FEWEST else None
        if column is not None:
            yield ReachableTable(column, listed=True)
        return
    if any(map(_is_number, kinds)) or len(kinds) > 2:
        return
    columns = _columns_of_rows(items, kinds)
    numbers = [column for each in columns if (column := column_of(each)) is not None]
    if numbers:
        yield ReachableTable(np.column_stack(numbers), listed=True)


def _columns_of_rows(items: list[Any], kinds: set[type]) -> list[Any]:
    """Return the columns of rows of one length; none of what is no rows."""
    if kinds <= {list, tuple}:
        width = len(items[0])
        if width > _SIDE_BY_SIDE or set(map(len, items)) != {width}:
            return []
        cells = list(chain.from_iterable(items))
        return [cells[place::width] for place in range(width)] if all(map(_is_number, set(map(type, cells)))) else []
    rows = [_row(item) for item in items] if _row(items[0]) else []
    if not rows or not all(row is not None and len(row) == len(rows[0]) for row in rows):  # type: ignore[arg-type]
        return []
    return list(zip(*cast("list[list[Any]]", rows), strict=True)) if len(rows[0]) <= _SIDE_BY_SIDE else []  # type: ignore[arg-type]


def _row(item: Any) -> list[Any] | None:
    """Return the plain cells of one row, or of an object that is one; None if it is no row."""
    kind = type(item)
    if issubclass(kind, np.ndarray):
        return list(item.tolist()) if item.ndim == 1 else None
    if issubclass(kind, dict):
        return [cell for cell in dict.values(item) if _is_number(type(cell))]
    for base, read in _SEQUENCES.items():
        if issubclass(kind, base):
            cells = list(read(item))
            return cells if all(_is_number(type(cell)) for cell in cells) else None
    held = gc.get_referents(item)
    inside = [cell for part in held if type(part) is dict for cell in part.values()]
    return [cell for cell in (*held, *inside) if _is_number(type(cell))]


def _is_column(part: Any) -> bool:
    """Return whether something is one column, by its type and first cell."""
    if issubclass(type(part), np.ndarray):
        return part.ndim == 1 and len(part) > 0
    if type(part) in (list, tuple, deque):
        return len(part) > 0 and _is_number(type(part[0]))
    return type(part).__name__ in ("Series", "ChunkedArray") and library_of(type(part)) in FRAMES


def _is_number(kind: type) -> bool:
    return kind in _NUMBERS or kind in _OTHER_NUMBERS or issubclass(kind, np.generic)


def column_of(cells: Any) -> NDArray[Any] | None:
    """Return cells as numbers, what is missing or no number as NaN; None if fewer than half are numbers.

    >>> column_of([1, "2.5", Decimal(3), None]).tolist()
    [1.0, 2.5, 3.0, nan]
    >>> column_of(["north", "south"])
    """
    if not isinstance(cells, list | tuple):
        column = np.asarray(cells)
        if column.dtype.kind in "fiub":
            return column
        cells = column.tolist() if column.dtype.kind in "OUS" else []
    kinds = set(map(type, cells))
    try:
        if kinds <= _NUMBERS:
            return np.array(cells, np.float64)
        if kinds <= _NUMBERS | _OTHER_NUMBERS:
            return np.array(list(map(float, cells)))
    except (TypeError, ValueError, OverflowError):  # not all of them
        pass
    found = np.array([_number(cell) for cell in cells], np.float64)
    return found if len(found) and 2 * np.isnan(found).sum() <= len(found) else None


def _number(cell: Any) -> float:
    """Return a cell as a number, or NaN."""
    try:
        return float(cell) if _is_number(type(cell)) or type(cell) is bytes else np.nan
    except (TypeError, ValueError, OverflowError):
        return np.nan


def library_of(kind: type) -> str:
    """Return the package that a class comes from."""
    return str(type.__getattribute__(kind, "__module__")).partition(".")[0]


def reachable_from(function: object) -> Iterator[object]:
    """Return everything that a function visibly carries, each thing once and the nearest first; not itself."""
    seen: dict[int, object] = {id(function): function}  # holds them, so that no address is used twice
    names = _ReadNames()
    waiting = deque((part, 1) for part in _held_parts(function, names, first=True))
    while waiting and len(seen) < OBJECTS:
        part, depth = waiting.popleft()
        if id(part) not in seen:
            seen[id(part)] = part
            yield part
            if depth < DEPTH:
                waiting.extend((inner, depth + 1) for inner in _held_parts(part, names))
        if not waiting and depth < DEPTH:
            waiting.extend((inner, depth + 1) for inner in names.of_modules() if id(inner) not in seen)


class _ReadNames:
    """The modules that were met, and the names that code reads from something: of a module no more is followed."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.names: set[str] = set()

    def of_modules(self) -> list[object]:
        every = [ModuleType.__getattribute__(module, "__dict__") for module in self.modules.values()]
        return [inside[name] for inside in every for name in self.names & inside.keys()]


def _held_parts(part: Any, names: _ReadNames, *, first: bool = False) -> Iterator[Any]:
    """Return what a thing holds; of the first one also if it is a library's."""
    kind = type(part)
    if issubclass(kind, (*_PLAIN, FrameType, TracebackType, CodeType)):
        return
    if issubclass(kind, ModuleType):
        name = str(ModuleType.__getattribute__(part, "__name__"))
        if name.partition(".")[0] not in _LIBRARIES:
            names.modules[name] = part
    elif issubclass(kind, type):
        for base in type.__getattribute__(part, "__mro__"):
            if library_of(base) not in _LIBRARIES:
                yield from type.__getattribute__(base, "__dict__").values()
    elif kind is FunctionType:
        if first or str(part.__globals__.get("__name__")).partition(".")[0] not in _LIBRARIES:
            yield from _of_function(part, names)
    elif kind is GeneratorType:
        yield inspect.getgeneratorlocals(part)
    elif issubclass(kind, np.ndarray):
        if part.dtype == object:
            yield from _first_parts(np.asarray(part).flat)
    elif library_of(kind) not in FRAMES:
        yield from _inside(part, kind)


def _inside(part: Any, kind: type) -> Iterator[Any]:
    """Return the first things that an object holds, but the plain ones."""
    for base, read in ((dict, dict.values), (list, list.__iter__), (tuple, tuple.__iter__), (deque, deque.__iter__)):
        if issubclass(kind, base):
            yield from _first_parts(read(part))
            break
    if kind not in (dict, list, tuple, deque):  # also the attributes of a class made from one of them
        yield from _first_parts(gc.get_referents(part))


def _first_parts(parts: Iterable[Any]) -> Iterator[Any]:
    return islice((part for part in parts if type(part) not in _PLAIN), PARTS)


def _of_function(function: FunctionType, names: _ReadNames) -> Iterator[Any]:
    yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
    for cell in function.__closure__ or ():
        yield from gc.get_referents(cell)
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes.extend(part for part in code.co_consts if isinstance(part, CodeType))
        yield from (part for part in code.co_consts if isinstance(part, tuple | frozenset | bytes))
        for step in dis.get_instructions(code):
            if step.opname in _LOADS and step.argval in function.__globals__:
                yield function.__globals__[step.argval]
            elif step.opname in _ATTRIBUTES:
                names.names.add(step.argval)
            elif step.opname == "IMPORT_NAME" and step.argval in sys.modules:
                yield sys.modules[step.argval]

"""Public data as a type of its own, so that a private source can never be fitted by mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike, fspath
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, nearest
from sidelight.predictions.origin import Origin, public
from sidelight.records import Number, Table
from sidelight.records.engines import open_rows
from sidelight.records.engines.files import absolute
from sidelight.records.engines.frames import column_array
from sidelight.records.rows import Wanted

Floats = NDArray[np.float64]

#: The arrays whose memory public data was copied from, for as long as they live.
_COPIED_FROM: WeakKeyDictionary[PublicData, ReferenceType[Any]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False, repr=False)
class PublicData:
    """Hold rows that anyone may see, and where they come from.

    Guarantee: writing `sl.PublicData(...)` states that publishing these rows would harm no one. Nothing that is
    learned from them is charged, and nothing in them is protected. A `sl.Table` is private and refused by its type.

    Accuracy: as good as the rows are like the private ones; a prediction moves accuracy, never a guarantee.

    Args:
        rows: The values of one column, a two-dimensional array, a frame, a mapping of columns, or the path of a CSV or
            Parquet file (kept as an absolute path), which is read when it is needed. Numbers in arrays and lists are
            copied.
        description: Where the rows come from, for reports and ledgers: "census of 2020, table B01".

    >>> import sidelight as sl
    >>> ages = sl.PublicData([21, 35, 60], "ages in the published census of 2020")
    >>> ages, float(ages.values().max())
    (PublicData(3 values, ages in the published census of 2020), 60.0)
    """

    rows: Any
    description: str
    _files: tuple[str, ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        refuse_private(self.rows)
        if not isinstance(self.description, str) or not self.description.strip():
            raise RangeError("say where the public rows come from: sl.PublicData(rows, 'census of 2020')")
        if self._is_file:
            object.__setattr__(self, "rows", absolute(fspath(self.rows)))
            object.__setattr__(self, "_files", (self.rows,))
        if self._named:
            return
        try:
            cells = np.array(self.rows, subok=True)
        except ValueError:
            raise RangeError("public rows must all have the same number of columns") from None
        if not cells.ndim:
            raise RangeError(f"public data is an array, a frame or a path, got {type(self.rows).__name__}")
        if cells.dtype.kind in "biuf":
            if not np.isfinite(cells).any():
                raise RangeError("public data needs at least one finite value, got none")
            cells.setflags(write=False)
            if isinstance(self.rows, np.ndarray):
                _COPIED_FROM[self] = ref(_owner(self.rows))
            object.__setattr__(self, "rows", cells)

    @property
    def origin(self) -> Origin:
        """What a release says about a prediction from these rows."""
        return replace(public(self.description), files=self._files)

    def read(self, columns: Sequence[str] | None = None) -> PublicData:
        """Return the same rows as numbers in memory (`matrix`), which still know their file."""
        found = PublicData(self.matrix(columns), self.description)
        object.__setattr__(found, "_files", self._files)
        return found

    def values(self) -> Floats:
        """Return the finite numbers of one column; what is missing or infinite is left out."""
        return self._values

    @cached_property
    def _values(self) -> Floats:
        numbers = self._numbers(self._names) if self._named else self._plain_numbers()
        if self._named and numbers.shape[1] != 1:
            raise RangeError(
                f"the values of one column are wanted, the public data has {numbers.shape[1]} columns; write "
                "sl.PublicData(frame['age'], description) with the one that is meant"
            )
        numbers = numbers.ravel()
        finite = numbers[np.isfinite(numbers)]
        if not len(finite):
            raise RangeError("public data needs at least one finite value, got none")
        finite.setflags(write=False)
        return finite

    def matrix(self, columns: Sequence[str] | None = None) -> Floats:
        """Return the rows as numbers, without those that miss one.

        Args:
            columns: The columns that are wanted. A file, and a frame that names them all, is read by name and in this
                order; the columns of an array, or of a frame with other names, are taken to be in it. All if left out.

        Returns:
            A two-dimensional array with at least one row.
        """
        numbers = self._numbers(self._wanted(columns)) if self._named else self._plain_numbers()
        if numbers.ndim != 2:
            raise RangeError(
                f"public rows must be a two-dimensional array, got {numbers.ndim} dimension(s); write [[1.5, 2]] for "
                "one row of two columns, [[1.5], [2]] for two rows of one"
            )
        complete = numbers[np.isfinite(numbers).all(axis=1)]
        if not complete.size:
            raise RangeError("public rows must have at least one row without a missing number, got none")
        complete.setflags(write=False)
        return complete

    @property
    def names(self) -> tuple[Any, ...] | None:
        """The names of the columns; None for an array, which has none."""
        return self._names if self._named else None

    def numbers_of(self, names: Sequence[Any] | None = None) -> Floats:
        """Return all rows as numbers, NaN for what is missing or none: named columns in this order, or all."""
        if self._named:
            missing = [name for name in names or () if name not in self._names]
            if missing:
                raise RangeError(
                    f"the public rows have no column {missing[0]!r}; {nearest(str(missing[0]), self._names)}"
                )
            return self._numbers(self._names if names is None else tuple(names))
        return self._plain_numbers()

    def column(self, name: Any = None) -> NDArray[Any]:
        """Return one column as it is, texts or numbers, in the order of the rows; the only one if none is named."""
        if not self._named:
            cells = np.asarray(self.rows)
            if cells.ndim == 2 and cells.shape[1] == 1:
                cells = cells[:, 0]
            if cells.ndim != 1:
                raise RangeError(f"one public column is wanted, got {cells.ndim} dimensions; write rows[:, -1]")
            return cells
        if name is None:
            if len(self._names) != 1:
                raise RangeError(f"one public column is wanted, got {len(self._names)}; write frame['income']")
            name = self._names[0]
        return self.numbers_of([name])[:, 0] if self._is_file else column_array(self.rows[name]).reshape(-1)

    def shares_memory_with(self, array: Any) -> bool:
        """Return whether these numbers were copied from the memory that an array lies in."""
        found = _COPIED_FROM.get(self)
        owner = None if found is None else found()
        return owner is not None and isinstance(array, np.ndarray) and _owner(array) is owner

    @property
    def _is_file(self) -> bool:
        return isinstance(self.rows, str | PathLike)

    @property
    def _named(self) -> bool:
        """Whether the columns have names: a file, a frame or a mapping."""
        frame = hasattr(self.rows, "collect_schema") or hasattr(self.rows, "columns")
        return frame or self._is_file or isinstance(self.rows, Mapping)

    @cached_property
    def _names(self) -> tuple[Any, ...]:
        return tuple(open_rows(self.rows, ()).types)

    def _wanted(self, columns: Sequence[str] | None) -> tuple[Any, ...]:
        if columns is not None and (self._is_file or set(columns) <= set(self._names)):
            return tuple(columns)
        return self._names

    def _numbers(self, names: tuple[Any, ...]) -> Floats:
        """Read named columns as the private ones are read."""
        table = Table(self.rows, schema=[Number(name) for name in names])
        batches = table.rows.batches(Wanted(numbers=names))
        parts = [np.column_stack([batch.numbers[name] for name in names]) for batch in batches]
        return np.concatenate([np.empty((0, len(names))), *parts])

    def _plain_numbers(self) -> Floats:
        try:
            cells = np.ma.asarray(self.rows, np.float64) if np.ma.isMaskedArray(self.rows) else self.rows
            return np.array(np.ma.filled(cells, np.nan) if np.ma.isMaskedArray(cells) else cells, np.float64)
        except (TypeError, ValueError):
            raise RangeError("public rows must be numbers here, one row a record") from None

    def __repr__(self) -> str:
        if not isinstance(self.rows, np.ndarray):
            return f"PublicData({self.description})"
        width = 1 if self.rows.ndim == 1 else self.rows.shape[-1]
        size = f"{len(self.rows)} values" if self.rows.ndim == 1 else f"{len(self.rows)} rows of {width}"
        return f"PublicData({size}, {self.description})"


def _owner(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array that owns the memory: two disjoint parts of one array were cut from the same rows."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def refuse_look_alike(given: object, *kinds: type) -> None:
    """Refuse an instance of a subclass of these classes, or what claims to be one: its code would meet records."""
    if isinstance(given, kinds) and type(given) not in kinds:
        names = " or ".join(f"sl.{kind.__name__}" for kind in kinds)
        raise RangeError(f"a prediction must be {names} itself, got a {type(given).__name__}; pass its numbers instead")


def refuse_private(given: Any) -> None:
    """Refuse a table where public data is wanted."""
    refuse_look_alike(given, PublicData)
    if isinstance(given, Table):
        raise RangeError("a sidelight.Table is a private source and cannot be public data; pass published rows")
    if made_with_seeded_noise(given):
        raise RangeError(
            "these rows were made of a release with seeded noise, which gives no privacy: they are not public. Use one "
            "that was released for real"
        )


def made_with_seeded_noise(frame: Any) -> bool:
    """Return whether a frame says that it was made of a release that is not private, as `release.to_pandas()` does."""
    said = getattr(frame, "attrs", None)
    return isinstance(said, Mapping) and said.get("private") is False

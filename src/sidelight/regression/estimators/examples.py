"""Rows X and targets y as `fit` takes them: what may be known before the charge, and how they are read after it.

Before: the number of columns, the declared types of X and y (of arrays, sparse matrices, and columns of pandas, Polars
and Arrow), their names, and that X and y belong together. After: the cells, where nothing that stands in one can raise:
what cannot be read is missing.

Fits of the same rows without a session are each paid for by themselves, and no account adds them up. So the rows of
every such fit are remembered as a sketch, their 256 smallest prints (`records.row_prints`), in this process alone. Two
sketches say how much two sets of rows have in common, whatever their order, so that folds of a cross-validation, copies
and loops over settings are found. It is a warning to the owner of the rows, once per set; no release depends on it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from sidelight.errors import SchemaError
from sidelight.guarantees import exact, short_text
from sidelight.records import Table
from sidelight.records.cells import plain_label
from sidelight.records.engines.arrays import as_array, as_numbers, library_of, untyped
from sidelight.records.engines.frames import (
    column_array,
    matrix_of,
    names_of,
    only_column,
    refuse_ambiguous_names,
    types_of,
)
from sidelight.records.row_prints import Prints, row_prints
from sidelight.regression.rows import BLOCK_ROWS, BoundedArrays, RowPolicy, is_sparse
from sidelight.session.paid_estimator import drivers_of, warn_at_users_line

#: Floats, integers, booleans, and untyped cells, which are read one by one; sparse matrices of these are refused.
_KINDS = "fiubO"
#: NumPy's letters for what columns of Arrow hold.
_LETTERS = {"integer": "i", "float": "f", "boolean": "b", "text": "U", "date": "M", "any": "O", "other": "V"}
#: Entries of a block of rows of few columns.
_BLOCK_CELLS = 1 << 17


@dataclass(frozen=True, repr=False)
class Examples:
    """Rows and their targets, not yet looked at."""

    rows: Any
    targets: Any
    features: int

    @property
    def sparse(self) -> bool:
        """Whether the rows are a sparse matrix; public."""
        return is_sparse(self.rows)

    @property
    def request(self) -> dict[str, Any]:
        """What a ledger holds of them: the names of a frame's columns, and of a column of targets; public."""
        names, target = names_of(self.rows), getattr(self.targets, "name", None)
        described: dict[str, Any] = {} if names is None else {"inputs": names}
        return described | ({"column": target} if isinstance(target, str) else {})

    def bounded(self, table: Table, policy: RowPolicy) -> BoundedArrays:
        """Open the data."""
        del table  # the session's; these examples were derived from it
        return BoundedArrays(*self.read(), policy=policy)

    def for_sums(self, table: Table, policy: RowPolicy) -> BoundedArrays:
        """Open the data for integer sums, the same in any order: of few columns in large blocks."""
        del table
        return BoundedArrays(*self.read(), policy=policy, block_rows=max(BLOCK_ROWS, _BLOCK_CELLS // self.features))

    def read(self) -> tuple[Any, NDArray[Any]]:
        """Return the rows as numbers, NaN for what is none, and the targets as an array.

        No cell raises: types without numbers were refused by `examples`, and a cell that its library cannot make a
        value of is missing.
        """
        if is_sparse(self.rows):
            return self.rows, self._labels()
        if names_of(self.rows) is not None:
            return matrix_of(self.rows), self._labels()
        listed = isinstance(self.rows, list | tuple)
        raw = listed_cells(self.rows, self.features) if listed else np.asanyarray(self.rows)
        return as_numbers(raw.reshape(-1)).reshape(raw.shape), self._labels()

    def _labels(self) -> NDArray[Any]:
        """Return the labels; a cell that is neither text nor number becomes None, because comparing it might raise."""
        labels = targets_of(self.targets).reshape(-1)
        if labels.dtype != object and not isinstance(labels, np.ma.MaskedArray):
            return labels
        plain = np.empty(labels.shape[0], dtype=object)
        for place, cell in enumerate(labels.tolist()):  # a masked cell is None here
            plain[place] = plain_label(cell)
        return plain

    def __repr__(self) -> str:
        return f"Examples({self.features} features)"  # never a count


def examples(rows: Any, targets: Any, *, target_kinds: str) -> Examples:
    """Check what is public about X and y; no cell is read. `target_kinds` are the NumPy kinds that y may have.

    Raises:
        SchemaError: X is no matrix of numbers, y is no column, or they differ in length.
    """
    if targets is None:
        raise SchemaError("fit requires y to be passed, but the target y is None; give one target per row")
    targets = target_column_of(targets)
    if isinstance(rows, list | tuple):
        _check_target(targets, target_kinds)
        return _listed(rows, targets)
    rows = _with_shape(rows)
    if len(rows.shape) != 2:
        raise SchemaError(
            f"X must have two dimensions, rows and columns, got {len(rows.shape)}. Reshape your data either using "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it contains a single sample"
        )
    if names_of(rows) is not None:
        _check_columns(rows)
    else:
        _check_type(rows.dtype, sparse=is_sparse(rows))
    _check_target(targets, target_kinds)
    targets = _with_shape(targets, name="y")
    if not hasattr(targets, "__len__"):
        targets = np.asarray(targets)
    if rows.shape[0] != len(targets):
        raise SchemaError("X and y must have the same length: row i of X belongs to entry i of y")
    return Examples(rows, targets, int(rows.shape[1]))


def refuse_unusable(estimator: Any, rows: Any, targets: Any, *, classes: NDArray[Any] | None) -> None:
    """Raise as scikit-learn does for missing values, for no rows at all, and for more labels than two declared ones.

    This is `on_missing="raise"`: it looks at the rows before any charge, and what it raises depends on them. That is
    the curator's own choice, for work at their own desk: such an error must not be forwarded to anybody who may not see
    the data.

    Rows with a label that is not declared take no part, here too: `classes` says which rows are meant.

    Raises:
        ValueError: a row cannot be used. NOT PRIVATE.
    """
    _, y = check_X_y(
        rows, targets, accept_sparse=True, dtype=np.float64, y_numeric=classes is None, estimator=estimator
    )
    if classes is None:
        return
    check_classification_targets(y)
    if len(classes) == 2 and type_of_target(y) == "multiclass":
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass. (classes declares two "
            "labels, y holds more; on_missing='raise': not private)"
        )


def _listed(rows: Any, targets: Any) -> Examples:
    """Take a list of rows that all have the same number of cells; that number is public, as the shape of an array is.

    Taken from the first row, it would be one record's to choose, and every other row would be unusable.
    """
    widths = {width_of_row(row) for row in rows}
    if not widths or widths == {-1}:
        raise SchemaError(
            "X must have two dimensions, rows and columns, got a list that is empty or not of rows: Reshape your data "
            "either using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) if it contains a "
            "single sample; an array of shape (0, columns) is a table without rows"
        )
    if len(widths) > 1:
        raise SchemaError(
            "X is a list whose rows differ in length, so it does not say how many columns there are; give a "
            "two-dimensional array, or a frame"
        )
    if len(rows) != len(targets):
        raise SchemaError("X and y must have the same length: row i of X belongs to entry i of y")
    return Examples(rows, targets, widths.pop())


def width_of_row(row: Any) -> int:
    """Return how many cells a row has, -1 if it is none; no cell is looked at, and no method of a class of its own."""
    kind = type(row)
    if issubclass(kind, list):
        return list.__len__(row)
    if issubclass(kind, tuple):
        return tuple.__len__(row)
    return int(row.shape[0]) if kind in (np.ndarray, np.ma.MaskedArray) and row.ndim == 1 else -1


def listed_cells(rows: Any, features: int) -> NDArray[Any]:
    """Return the cells of a list of rows; a row of another length has none that could be used."""
    out = np.full((len(rows), features), None, dtype=object)
    for place, row in enumerate(rows):
        if width_of_row(row) == features:
            for column, cell in enumerate(as_array(row).tolist()):  # a masked cell is None here
                out[place, column] = cell
    return out


def targets_of(targets: Any) -> NDArray[Any]:
    """Return targets as an array; a list cell by cell, where a row of one cell counts as that cell."""
    if isinstance(targets, list | tuple):
        return untyped([as_array(cell).tolist()[0] if width_of_row(cell) == 1 else cell for cell in targets])
    return np.asarray(targets) if _is_foreign(targets) else column_array(targets)


def _is_foreign(data: Any) -> bool:
    """Return whether data is no array, list, sparse matrix, or frame or column of a library that is known here."""
    known = library_of(data) in ("pandas", "polars", "pyarrow", "narwhals")
    return not (known or isinstance(data, np.ndarray | list | tuple) or is_sparse(data))


def _with_shape(rows: Any, *, name: str = "X") -> Any:
    """Return what says its shape; what only becomes an array says it then. No cell is looked at.

    Frames of other libraries would be run to become an array, before anything is charged, so they are refused.
    """
    kind, named = type(rows).__name__, hasattr(rows, "columns") or hasattr(rows, "dtypes")
    if not _is_foreign(rows) or (hasattr(rows, "shape") and hasattr(rows, "dtype") and not named):
        return rows
    if not named and (hasattr(rows, "__array__") or hasattr(rows, "__array_interface__")):
        try:
            return np.asarray(rows)
        except Exception:  # its text may quote a cell
            rows = None
    if rows is None:
        raise SchemaError(f"{name} cannot be made an array; write np.asarray({name}, dtype=float)")
    raise SchemaError(
        f"{name} must be an array, a sparse matrix, a frame of pandas, Polars or Arrow, or a list, got {kind}: "
        f"its shape must be known before the data is opened; write np.asarray({name}), {name}.compute() or "
        f"{name}.to_pandas() first"
    )


def _check_columns(frame: Any) -> None:
    refuse_ambiguous_names(frame)
    for found in types_of(frame):
        if found.kind not in ("integer", "float", "boolean", "any"):
            raise SchemaError(
                f"X must hold numbers, got a column of type {found.native}; encode it with categories known beforehand"
            )


def _check_type(dtype: Any, *, sparse: bool) -> None:
    """Refuse columns by their declared type, never by their cells."""
    kind = _kind(dtype)
    if sparse and kind == "O":
        raise SchemaError(
            f"X is a sparse matrix of type {dtype}, whose cells SciPy cannot count with; write X.astype(float), "
            "or give X.toarray(), whose cells are read one by one"
        )
    if kind == "c":
        raise SchemaError("Complex data not supported; give real numbers, for example two columns")
    if kind not in _KINDS:
        raise SchemaError(
            f"X must hold numbers, got a column of type {dtype}; encode it with categories known beforehand"
        )


def target_column_of(targets: Any) -> Any:
    """Return targets, of a frame of one column that; refuse a sparse matrix."""
    if is_sparse(targets):
        raise SchemaError("y is a sparse matrix and must be a column; write y.toarray().ravel()")
    return only_column(targets)


def _check_target(targets: Any, kinds: str) -> None:
    shape = getattr(targets, "shape", None)
    if shape is None:
        if not isinstance(targets, list | tuple) and not hasattr(targets, "__array__"):
            raise SchemaError(f"y must be an array or a list, got {type(targets).__name__}")
        if is_arrow_column(targets):  # it has one dimension and a type, and neither shape nor dtype
            _check_target_type(targets.type, kinds)
        return
    if len(shape) == 2 and shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; write y.ravel()",
            DataConversionWarning,
            stacklevel=5,
        )
    elif len(shape) != 1:
        raise SchemaError(f"y must be one column, got {len(shape)} dimensions; fit one model for each target")
    dtype = getattr(targets, "dtype", None)
    if dtype is not None:
        _check_target_type(dtype, kinds)


def is_arrow_column(data: Any) -> bool:
    """Return whether data is an array of PyArrow or chunks of such, whose type is declared; no frame."""
    return library_of(data) == "pyarrow" and hasattr(data, "type") and not hasattr(data, "schema")


def _check_target_type(dtype: Any, kinds: str) -> None:
    kind = _kind(dtype)
    if kind == "c":
        raise SchemaError("Complex data not supported; give real targets")
    if kind not in kinds:
        wanted = "texts, as the declared classes are" if "U" in kinds else "numbers"
        raise SchemaError(f"y must hold {wanted}, got an array of type {dtype}; convert it, or the classes")


def _kind(dtype: Any) -> str:
    """Return NumPy's letter for a type of NumPy, pandas, Polars or Arrow; "O" where only cells say what they are."""
    arrow = getattr(dtype, "pyarrow_dtype", dtype)  # pandas holds such, and says "O" of most
    if library_of(arrow) == "pyarrow":
        from sidelight.records.engines.arrow_cells import kind_of

        return _LETTERS[kind_of(arrow)]
    if str(dtype).lower().startswith("str"):
        return "U"
    if callable(getattr(dtype, "is_numeric", None)):  # Polars
        return "f" if dtype.is_numeric() else "b" if str(dtype) == "Boolean" else "O" if str(dtype) == "Object" else "V"
    return str(dtype.kind)


_SKETCH, _REMEMBERED = 256, 64

#: Sets of fewer distinct rows than this are not compared.
_FEWEST = 20
_SHARE = 0.5


@dataclass(eq=False)
class _Known:
    """Rows that were fitted: sketch, width, number of fits, sum of their epsilons, and whether a warning was shown."""

    sketch: Prints
    columns: int
    fits: int
    epsilon: Fraction
    warned: bool = False


_KNOWN: list[_Known] = []


def warn_of_repetition(model: Any, found: Examples) -> None:
    """Warn, once for a set of rows, when it is fitted a second time without a session."""
    drivers = drivers_of(model)
    if drivers.tuned or drivers.search is not None:  # paid for by the search, or already warned of
        return
    sketch = _sketch(found)
    if sketch is None:
        return
    epsilon = exact(model.epsilon, name="epsilon")
    known = _find(sketch, found.features)
    if known is None:
        _KNOWN.append(_Known(sketch, found.features, 1, epsilon))
        del _KNOWN[:-_REMEMBERED]
        return
    known.fits, known.epsilon = known.fits + 1, known.epsilon + epsilon
    if not known.warned:
        known.warned = True
        warn_at_users_line(
            "rows that a private model was fitted to before in this process are fitted again without a session: the "
            f"prices add up (epsilon {short_text(known.epsilon)} so far), and no account adds them. Pass session=..., "
            "which adds up and refuses what does not fit; search settings with sl.Selection. This is shown once for "
            "these rows, and harmless if they are public"
        )


def _sketch(found: Examples) -> Prints | None:
    """Return the smallest prints of rows; None where nothing can be said: too few rows, or rows that are much alike."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning about a cell may quote it
            prints = row_prints(found.read()[0])
    except Exception:  # nor here: the release pipeline raises for such rows without the cause
        return None
    if prints is None or len(prints) < _FEWEST:
        return None
    smallest = np.partition(prints, min(2 * _SKETCH, len(prints)) - 1)[: 2 * _SKETCH]
    distinct = np.unique(smallest)
    return None if len(distinct) < max(_FEWEST, len(smallest) // 2) else distinct[:_SKETCH]


def _find(sketch: Prints, columns: int) -> _Known | None:
    """Return the rows among the known ones that have at least half in common with a sketch."""
    for known in _KNOWN:
        if known.columns != columns:
            continue
        # Below the smaller of the two largest prints both sketches are complete (if a sketch is not full, always).
        ends = [each[-1] for each in (sketch, known.sketch) if len(each) == _SKETCH]
        first, second = (each[each <= min(ends)] if ends else each for each in (sketch, known.sketch))
        least = min(len(first), len(second))
        if least >= _FEWEST // 2 and len(np.intersect1d(first, second, assume_unique=True)) >= _SHARE * least:
            return known
    return None

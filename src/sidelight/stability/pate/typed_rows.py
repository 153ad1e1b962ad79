"""Rows of the types that the public queries have: no record decides about the type of another's cell.

A frame or an array has one type a column, and the type was derived from all of its cells: one text among
numbers, or one missing value, makes another column for everybody, and every teacher learns something else. Here the
public queries say what a column holds, numbers, texts or a declared category, and each private cell becomes one by
itself. A number that was stored as an integer, a float or a text is the same number; what is none is missing. Texts
that spell a number have one spelling, in the queries as in the private rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SchemaError
from sidelight.records.sparse_rows import csr_rows
from sidelight.session.suppressed_output import suppress_output
from sidelight.stability.pate.cell_forms import canonical_number, canonical_text
from sidelight.stability.pate.columns import cells_of, one_column, refuse_types_without_cells

Kind = Literal["number", "text", "category"]
Shape = Literal["array", "sparse", "frame"]

_CALLED = {"array": "an array or a list", "sparse": "a sparse matrix", "frame": "a frame"}
_FORMS = "a two-dimensional array, a list of rows, a sparse matrix, or a pandas or Polars frame"


@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """What the public queries look like: their container, their columns, and of which type each is."""

    shape: Shape
    kinds: tuple[Kind, ...]
    like: Any  # the queries in this form
    names: tuple[Any, ...] = ()  # of a frame

    def read(self, rows: Any) -> TypedRows:
        """Read private rows; no cell of them raises, warns, or says anything about another: see `cells_of`.

        Raises:
            SchemaError: The container is another than that of the queries, or has other columns: both are public.
        """
        self.check(rows)
        with suppress_output():  # a warning about a cell would be one that rows decide
            return TypedRows(form=self, parts=_parts(rows, self))

    def alike(self, rows: Any) -> Any:
        """Return rows for a model that was fitted to the queries: texts have the spelling that they have there."""
        if set(self.kinds) == {"number"}:
            return rows
        read = self.read(rows)
        return read.take(np.arange(len(read.parts[0])))

    def check(self, rows: Any) -> None:
        """Refuse rows by their container and its columns; no cell is looked at."""
        shape = _shape_of(rows, name="X")
        if shape != self.shape:
            raise SchemaError(
                f"X is given as {_CALLED[shape]} and queries as {_CALLED[self.shape]}; give both in the same form, so "
                "that the types of the public queries are those of X"
            )
        if shape == "frame":
            names = _names(rows, name="X")
            if sorted(map(repr, names)) != sorted(map(repr, self.names)):
                raise SchemaError("X must have the columns of queries, by name; they differ")
            for column, kind in zip(self.names, self.kinds, strict=True):
                refuse_types_without_cells(rows[column], name=f"the column {column!r} of X", numbers=kind == "number")
        elif not isinstance(rows, list | tuple):
            if shape == "sparse" and rows.dtype.kind not in "fiub":
                raise SchemaError(f"X must hold real numbers, got a sparse matrix of type {rows.dtype}")
            _check_array(rows, len(self.kinds))

    def build(self, columns: Sequence[NDArray[Any]]) -> Any:
        """Put columns of cells into the container of the queries."""
        if self.shape == "frame":
            like = [self.like[name] for name in self.names]
            made = {
                name: _column(cells, column, kind, dtype=column.dtype)
                for name, cells, column, kind in zip(self.names, columns, like, self.kinds, strict=True)
            }
            return type(self.like)(made)
        if set(self.kinds) == {"number"}:
            return np.stack(columns, axis=1).astype(self.like.dtype, copy=False)
        out = np.empty((len(columns[0]), len(self.kinds)), object)
        for place, cells in enumerate(columns):
            out[:, place] = cells
        return out


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class TypedRows:
    """Private rows, read. `parts` is a whole array or sparse matrix of numbers, or one array of cells a column."""

    form: Form
    parts: Any

    def take(self, places: NDArray[np.intp]) -> Any:
        """Return some rows in the container and with the types of the queries."""
        with np.errstate(all="ignore"):  # a warning about a number would be one that rows decide
            if isinstance(self.parts, list):
                return self.form.build([cells[places] for cells in self.parts])
            taken = self.parts[places].astype(np.float64)  # as cells are that are read one by one: rounded once
            taken = taken if self.form.shape == "sparse" else taken + 0.0  # no negative zero
            return taken.astype(self.form.like.dtype, copy=False)

    def usable(self, places: NDArray[np.intp], *, missing: bool) -> NDArray[np.bool_]:
        """Return for each row whether its numbers can be learned from, by itself; `missing` allows NaN."""
        if self.form.shape == "sparse":
            rows = self.take(places)
            bad = np.isinf(rows.data) if missing else ~np.isfinite(rows.data)
            usable = np.ones(rows.shape[0], bool)
            usable[np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[bad]] = False
            return usable
        if self.form.shape == "array" and set(self.form.kinds) == {"number"}:
            found = self.take(places)  # of the type of the queries, in which a number may be infinite
        else:
            kinds = zip(self.parts, self.form.kinds, strict=True)
            numbers = [cells[places] for cells, kind in kinds if kind == "number"]
            found = np.stack(numbers, axis=1) if numbers else np.zeros((len(places), 1))
        return np.asarray(~np.isinf(found).any(axis=1) if missing else np.isfinite(found).all(axis=1))


def form_of(queries: Any) -> Form:
    """Look at the public queries, and return them in the form that teachers and student see.

    Raises:
        SchemaError: They are no table of numbers, texts and categories.
    """
    shape = _shape_of(queries, name="queries")
    if shape == "frame":
        return _form_of_frame(queries)
    if shape == "sparse":
        like = queries.tocsr()
        kind = like.dtype.kind
        if kind not in "fiub":
            raise SchemaError(f"queries must hold real numbers, got a sparse matrix of type {like.dtype}")
        like = like if kind == "f" else like.astype(np.float64)
        return Form(shape="sparse", kinds=("number",) * like.shape[1], like=like)
    asked = np.asanyarray(queries) if isinstance(queries, np.ndarray) else _untyped(queries, None)
    if asked.ndim != 2 or asked.shape[1] < 1:
        raise SchemaError(f"queries must have rows and columns, as X has, got shape {tuple(asked.shape)}")
    if asked.dtype.kind in "fiub" and not isinstance(asked, np.ma.MaskedArray):
        like = asked if asked.dtype.kind == "f" else asked.astype(np.float64)
        return Form(shape="array", kinds=("number",) * like.shape[1], like=like)
    _check_array(asked, int(asked.shape[1]), name="queries")
    cells = [asked[:, place].tolist() for place in range(asked.shape[1])]
    kinds: tuple[Kind, ...] = tuple("number" if _all_numbers(column) else "text" for column in cells)
    form = Form(shape="array", kinds=kinds, like=np.empty((0, len(kinds))))
    return replace(form, like=form.build([_read(column, kind) for column, kind in zip(cells, kinds, strict=True)]))


def _form_of_frame(queries: Any) -> Form:
    import narwhals.stable.v2 as nw

    names = _names(queries, name="queries")
    kinds: list[Kind] = []
    made: dict[Any, Any] = {}
    for name in names:
        column = queries[name]
        found = nw.from_native(column, series_only=True)
        cells = found.to_list()
        kind = _kind_of(found.dtype, cells, name=name)
        if kind == "category" and not hasattr(queries, "iloc"):
            kind = "text"  # what Polars calls a category has no labels that were declared for good
        kinds.append(kind)
        if kind == "category":
            _check_labels(column.cat.categories.tolist(), name=name)
            made[name] = column.reset_index(drop=True)
        else:
            made[name] = _column(_read(cells, kind), column, kind, dtype=_type_of(column, kind))
    return Form(shape="frame", names=names, kinds=tuple(kinds), like=type(queries)(made))


def _kind_of(dtype: Any, cells: list[Any], *, name: Any) -> Kind:
    import narwhals.stable.v2 as nw

    if dtype.is_numeric() or dtype == nw.Boolean:
        return "number"
    if dtype == nw.String:
        return "text"
    if dtype in (nw.Categorical, nw.Enum):
        return "category"
    if dtype in (nw.Object, nw.Unknown):  # untyped: these cells are public, so they may say what they are
        return "number" if _all_numbers(cells) else "text"
    raise SchemaError(f"the column {name!r} of queries is of type {dtype}; make numbers, texts or a category of it")


def _check_labels(labels: list[Any], *, name: Any) -> None:
    if len({canonical_text(label) for label in labels}) < len(labels):
        raise SchemaError(
            f"two categories of the column {name!r} of queries are one number to a reader of files, as '1' and '01' "
            "are; rename one of them, in X as well"
        )


def _type_of(column: Any, kind: Kind) -> Any:
    """Return the type of floats or texts in the library that a column is of, which is not imported here."""
    if hasattr(column, "iloc"):  # pandas
        text = column.dtype if str(column.dtype).startswith("str") else object
        return np.float64 if kind == "number" else text
    import narwhals.stable.v2 as nw

    wanted = nw.Float64() if kind == "number" else nw.String()
    return nw.from_native(column, series_only=True).head(0).cast(wanted).to_native().dtype


def _column(cells: NDArray[Any], like: Any, kind: Kind, *, dtype: Any) -> Any:
    """Return a column of the library of a public one, and of a type that was taken from it."""
    if kind == "category":
        labels = {canonical_text(label): label for label in like.cat.categories}
        return type(like)([labels.get(cell) for cell in cells.tolist()], dtype=dtype)
    if hasattr(like, "iloc"):  # pandas
        return type(like)(cells, dtype=dtype)
    found = cells.tolist() if kind == "number" else [cell if isinstance(cell, str) else None for cell in cells]
    return type(like)(like.name, found, dtype=dtype)


def _parts(rows: Any, form: Form) -> Any:
    if form.shape == "sparse":
        return type(form.like)(csr_rows(rows))
    if form.shape == "frame":
        return _frame_parts(rows, form)
    array = rows if isinstance(rows, np.ndarray) else _untyped(rows, len(form.kinds))
    plain = array.dtype.kind in "fiub" and not isinstance(array, np.ma.MaskedArray)
    if plain and set(form.kinds) == {"number"}:
        return array  # converted share by share: each number by itself
    return [_read(cells_of(array[:, place]), kind) for place, kind in enumerate(form.kinds)]


def _frame_parts(rows: Any, form: Form) -> list[NDArray[Any]]:
    parts = []
    for name, kind in zip(form.names, form.kinds, strict=True):
        dtype = getattr(rows[name], "dtype", None)
        if kind == "number" and isinstance(dtype, np.dtype) and dtype.kind in "fiub":
            parts.append(rows[name].to_numpy().astype(np.float64) + 0.0)  # no negative zero
        else:
            parts.append(_read(cells_of(rows[name]), kind))
    return parts


def _read(cells: list[Any], kind: Kind) -> NDArray[Any]:
    """Read cells one by one: numbers with NaN, texts with NaN, for what is missing or nothing of the kind."""
    if kind == "number":
        return np.fromiter(map(canonical_number, cells), np.float64)
    missing = np.nan if kind == "text" else None  # as scikit-learn marks a text that is missing
    texts = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        text = canonical_text(cell)
        texts[place] = missing if text is None else text
    return texts


def _untyped(rows: Any, columns: int | None) -> NDArray[Any]:
    """Return a list of rows as untyped cells; a row of another length has none that could be used."""
    if columns is None:  # public rows
        columns = max((len(row) for row in rows if hasattr(row, "__len__")), default=0)
    out = np.full((len(rows), columns), None, dtype=object)
    for place, row in enumerate(rows):
        try:
            cells = [] if issubclass(type(row), (str, bytes)) else list(row)
        except KeyboardInterrupt:
            raise
        except BaseException:  # not a row, whatever it is
            continue
        if len(cells) == columns:
            for column, cell in enumerate(cells):
                out[place, column] = cell
    return out


def _shape_of(rows: Any, *, name: str) -> Shape:
    """Return what container rows come in, by its type alone."""
    from scipy.sparse import issparse

    if issparse(rows):
        return "sparse"
    if isinstance(rows, np.matrix):
        raise SchemaError(f"{name} is an np.matrix, a row of which is a matrix again; write np.asarray({name})")
    if isinstance(rows, np.ndarray | list | tuple):
        return "array"
    import narwhals.stable.v2 as nw

    kind = nw.dependencies
    if kind.is_pandas_dataframe(rows) or kind.is_polars_dataframe(rows):
        return "frame"
    raise SchemaError(f"{name} must be {_FORMS}, got {type(rows).__name__}; convert it first")


def _names(rows: Any, *, name: str) -> tuple[Any, ...]:
    names = tuple(rows.columns)
    if len(set(map(repr, names))) != len(names) or not names:
        raise SchemaError(f"the columns of {name} must have names, all different")
    return names


def _check_array(rows: Any, columns: int, *, name: str = "X") -> None:
    if len(rows.shape) != 2 or rows.shape[1] != columns:
        raise SchemaError(
            f"{name} must have rows and the {columns} columns of the queries, got {len(rows.shape)} dimensions"
        )
    if rows.dtype.kind not in "fiubcOUTS":
        raise SchemaError(f"{name} must hold real numbers or texts, got an array of type {rows.dtype}")


def _all_numbers(cells: list[Any]) -> bool:
    """Return whether public cells are numbers, or missing; texts that spell numbers are texts."""
    present = [cell for cell in cells if canonical_text(cell) is not None]
    return all(isinstance(cell, Real | np.bool_) for cell in present)


def labels_and_ids(rows: Any, targets: Any, record_ids: Any, form: Form) -> tuple[Any, Any]:
    """Return both columns, checked to belong to the rows, and the rows to be like the queries; no cell is read."""
    if record_ids is None:
        raise SchemaError(
            "fit wants record_ids=...: one id per row, such as a patient number, that a record keeps whatever other "
            "records there are. Positions are no ids: one row more would move all rows behind it to other teachers"
        )
    if targets is None:
        raise SchemaError("fit requires y to be passed, but the target y is None; give one label per row")
    form.check(rows)
    length = len(rows) if isinstance(rows, list | tuple) else int(rows.shape[0])
    columns = one_column(targets, name="y"), one_column(record_ids, name="record_ids")
    for name, column in zip(("y", "record_ids"), columns, strict=True):
        if len(column) != length:
            raise SchemaError(f"X and {name} must have the same length: entry i of {name} belongs to row i")
    return columns

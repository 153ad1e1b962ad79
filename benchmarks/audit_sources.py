"""The kinds of source that the audit of couplings writes its records into: each takes the cells as they are, or none.

`write` gets a column of marks (plain numbers, one for each record) and the column under attack.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))  # the cells are those of the tests

from hostile_cells import CELLS as PLAIN_CELLS
from hostile_cells import RawText, cells_of_pandas

CELLS: dict[str, Any] = PLAIN_CELLS | dict(cells_of_pandas())
Write = Callable[[list[float], list[Any], str, Path, int | None], Any]


class NotWritableError(Exception):
    """This kind of source cannot hold this cell."""


@dataclass(frozen=True)
class Source:
    """How records get into a source; `flavours` are the kinds of ordinary cells that its column can hold."""

    writer: Write
    flavours: tuple[str, ...]
    bare: bool = False
    runs_expressions: bool = False
    #: Whether starting its engine takes most of a trial: then each cell stands at one of the places, in turn.
    slow: bool = False
    #: Whether its type is one of labels, which no number is declared for.
    labels: bool = False

    def write(self, marks: list[float], cells: list[Any], flavour: str, folder: Path, place: int | None) -> Any:
        """Return the source, or raise `NotWritableError`."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda report: None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.writer(marks, cells, flavour, folder, place)
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever the library of the source says: its user never gets as far as us
            pass
        finally:
            sys.unraisablehook = hook
        raise NotWritableError


def _untyped(cells: Sequence[Any]) -> np.ndarray:
    if any(type(cell) is RawText for cell in cells):
        raise NotWritableError
    array = np.empty(len(cells), object)
    for place, cell in enumerate(cells):
        array[place : place + 1] = [cell] if type(cell) not in (list, np.ndarray) else _boxed(cell)
    return array


def _boxed(cell: Any) -> np.ndarray:
    box = np.empty(1, object)
    box[0] = cell
    return box


def _listed(cells: Sequence[Any]) -> list[Any]:
    if any(type(cell) is RawText for cell in cells):
        raise NotWritableError
    return list(cells)


def _numpy(cells: list[Any], dtype: str) -> np.ndarray:
    """Write an array of a type. A cell that the type cannot hold as it is does not get in."""
    _listed(cells)
    array = np.empty(len(cells), dtype)
    for place, cell in enumerate(cells):
        array[place] = cell
    if array.dtype.kind in "iub" and any(type(cell) not in (int, bool) for cell in cells):
        raise NotWritableError
    return array


def _masked(cells: list[Any], dtype: str) -> Any:
    mask = [cell is np.ma.masked or cell is None for cell in cells]
    plain = [
        cells[1 - place % 2] if hidden else cell for place, (cell, hidden) in enumerate(zip(cells, mask, strict=True))
    ]
    return np.ma.masked_array(_numpy(plain, dtype), mask=mask)


def _arrow(cells: list[Any], kind: Any) -> Any:
    """Write an Arrow array of a type, with invalid UTF-8 as bytes."""
    if any(type(cell) is RawText for cell in cells):
        value = kind.value_type if pa.types.is_dictionary(kind) else kind
        if value not in (pa.string(), pa.large_string(), pa.string_view()):
            raise NotWritableError
        raw = [cell.content if type(cell) is RawText else cell.encode() for cell in cells]
        texts = pa.array(raw, pa.large_binary() if value == pa.large_string() else pa.binary())
        texts = texts.view(pa.large_string() if value == pa.large_string() else pa.string())
        return _encoded(texts, kind) if pa.types.is_dictionary(kind) else texts.cast(value)
    if kind is not None and pa.types.is_decimal(kind):
        cells = [Decimal(cell) if type(cell) is float and cell == cell // 1 else cell for cell in cells]
    if kind is not None and pa.types.is_dictionary(kind):
        return _encoded(pa.array(cells, kind.value_type), kind)
    return pa.array(cells, kind)


def _encoded(column: Any, kind: Any) -> Any:
    encoded = column.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(kind.index_type), encoded.dictionary)


def _pandas(cells: list[Any], dtype: Any) -> pd.Series[Any]:
    if isinstance(dtype, pd.ArrowDtype):
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([_arrow(cells, dtype.pyarrow_dtype)])))
    if dtype == "string[pyarrow]" and any(type(cell) is RawText for cell in cells):
        return pd.Series(pd.array(_arrow(cells, pa.large_string()), dtype=dtype))
    if dtype == "category":  # with codes and labels, as a declared type has them: pandas learns them from cells
        whole = all(type(cell) is int for cell in cells if cell is not None)
        labels = list(dict.fromkeys(cell for cell in _listed(cells) if cell is not None))
        index = pd.Index(labels, dtype="int64" if whole else object)
        codes = [-1 if cell is None else labels.index(cell) for cell in cells]
        return pd.Series(pd.Categorical.from_codes(codes, categories=index))
    if str(dtype).lower() == "int64" and not all(_fits_int64(cell) for cell in cells):
        raise NotWritableError  # pandas would make floats of all, and whole numbers of those again
    return pd.Series(_untyped(cells) if dtype is object else pd.array(_listed(cells), dtype=dtype))


def _fits_int64(cell: Any) -> bool:
    return cell is None or (type(cell) in (int, bool) and -(2**63) <= cell < 2**63)


def _polars(cells: list[Any], dtype: Any) -> pl.Series:
    if any(type(cell) is RawText for cell in cells):
        return pl.Series(pl.from_arrow(_arrow(cells, pa.large_string()))).cast(dtype)
    return pl.Series(_listed(cells), dtype=dtype, strict=True)


def _frame_of(series: pd.Series[Any], marks: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"mark": marks, "cell": series})


def _chunks(column: Any) -> Any:
    return pa.chunked_array([column[:3], column[3:3], column[3:]])


def _own_dictionaries(cells: list[Any], kind: Any) -> Any:
    """Write chunks with a dictionary each, in which a null is an entry.

    Unused entries leave no room: an index of 8 bits holds the twelve ordinary cells of all chunks, and not one more.
    """
    unused = [f"unused {place}" if pa.types.is_string(kind) else 1000 + place for place in range(127 - 12)]
    parts = []
    for some, more in ((cells[:3], unused), (cells[3:3], []), (cells[3:], [])):
        encoded = _arrow(some, kind).dictionary_encode(null_encoding="encode")
        whole = pa.concat_arrays([encoded.dictionary, pa.array(more, kind)])
        parts.append(pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int8()), whole))
    return pa.chunked_array(parts)


def _parquet(marks: list[float], column: Any, folder: Path) -> Path:
    path = folder / "one.parquet"
    pq.write_table(pa.table({"mark": marks, "cell": column}), path)
    return path


def _pattern(marks: list[float], cells: list[Any], kind: Any, folder: Path, place: int | None) -> str:
    """Write every third record into a file of its own, and the hostile record into one with a type of its own.

    The types of the first file by name stand for all, so that one keeps to the type.
    """
    parts = folder / "parts"
    parts.mkdir(exist_ok=True)
    for old in parts.iterdir():
        old.unlink()
    rest = [at for at in range(len(cells)) if at != place]
    for number in range(3):
        some = rest[number::3]
        table = {"mark": [marks[at] for at in some], "cell": _arrow([cells[at] for at in some], kind)}
        pq.write_table(pa.table(table), parts / f"b{number}.parquet")
    if place is not None:
        own = {0: "a", 6: "b1x", 12: "c"}[place]
        cell = cells[place]
        column = _arrow([cell], kind if own == "a" else pa.string() if type(cell) is RawText else None)
        pq.write_table(pa.table({"mark": [marks[place]], "cell": column}), parts / f"{own}.parquet")
    return str(parts / "*.parquet")


def _csv(marks: list[float], cells: list[Any], folder: Path) -> Path:
    path = folder / "one.csv"
    if any(type(cell) not in (str, float, int, RawText, type(None)) or cell == "\ud800" for cell in cells):
        raise NotWritableError  # what others are written as is one of these texts
    texts = [cell.content.decode("utf-8", "surrogateescape") if type(cell) is RawText else cell for cell in cells]
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(["mark", "cell"])
        writer.writerows(zip(marks, texts, strict=True))
    return path


ALL = ("number", "integer", "text")
NUMPY = {
    "float64": ("number",),
    "float32": ("number",),
    "float16": ("number",),
    "longdouble": ("number",),
    ">f8": ("number",),
    "int64": ("integer",),
    "uint64": ("integer",),
    "object": ALL,
    "U2000": ("text",),
}
if hasattr(np.dtypes, "StringDType"):
    NUMPY["T"] = ("text",)
PANDAS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "object": (object, ALL),
    "float64": ("float64", ("number",)),
    "Float64": ("Float64", ("number",)),
    "int64": ("int64", ("integer",)),
    "Int64": ("Int64", ("integer",)),
    "string": ("string[python]", ("text",)),
    "string arrow": ("string[pyarrow]", ("text",)),
    "category": ("category", ("integer", "text")),
    "arrow int64": (pd.ArrowDtype(pa.int64()), ("integer",)),
    "arrow float64": (pd.ArrowDtype(pa.float64()), ("number",)),
    "arrow string": (pd.ArrowDtype(pa.string()), ("text",)),
    "arrow dictionary": (pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())), ("text",)),
}
ARROW: dict[str, tuple[Any, tuple[str, ...]]] = {
    "int64": (pa.int64(), ("integer",)),
    "uint64": (pa.uint64(), ("integer",)),
    "float64": (pa.float64(), ("number",)),
    "float32": (pa.float32(), ("number",)),
    "float16": (pa.float16(), ("number",)),
    "decimal": (pa.decimal128(38, 2), ("number",)),
    "string": (pa.string(), ("text",)),
    "large string": (pa.large_string(), ("text",)),
    "string view": (pa.string_view(), ("text",)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ("text",)),
    "dictionary by int8": (pa.dictionary(pa.int8(), pa.string()), ("text",)),
    "dictionary by uint64": (pa.dictionary(pa.uint64(), pa.large_string()), ("text",)),
    "dictionary of int64": (pa.dictionary(pa.int32(), pa.int64()), ("integer",)),
}
#: Types that Parquet keeps by themselves, and those of texts that Arrow notes in the footer and makes them again.
PARQUET = ("int64", "float64", "decimal", "string")
PARQUET += ("dictionary", "dictionary by int8", "dictionary by uint64")
POLARS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Int64": (pl.Int64, ("integer",)),
    "Float64": (pl.Float64, ("number",)),
    "Float32": (pl.Float32, ("number",)),
    "Decimal": (pl.Decimal(38, 2), ("number",)),
    "String": (pl.String, ("text",)),
    "Categorical": (pl.Categorical, ("text",)),
}


def _sources() -> dict[str, Source]:
    found = {
        "list": Source(lambda m, c, f, d, p: _listed(c), ALL, bare=True),
        "tuple": Source(lambda m, c, f, d, p: tuple(_listed(c)), ("number",), bare=True),
        "mapping of lists": Source(lambda m, c, f, d, p: {"mark": m, "cell": _listed(c)}, ALL),
        "masked floats": Source(lambda m, c, f, d, p: _masked(c, "float64"), ("number",), bare=True),
        "masked integers": Source(lambda m, c, f, d, p: {"mark": m, "cell": _masked(c, "int64")}, ("integer",)),
        "masked texts": Source(lambda m, c, f, d, p: {"mark": m, "cell": _masked(c, "U9")}, ("text",)),
        "matrix of floats": Source(
            lambda m, c, f, d, p: np.stack([np.array(m), _numpy(c, "float64")], axis=1), ("number",)
        ),
        "CSV": Source(lambda m, c, f, d, p: _csv(m, c, d), ("number", "text"), runs_expressions=True, slow=True),
        "pandas Index": Source(lambda m, c, f, d, p: {"mark": m, "cell": pd.Index(_untyped(c), dtype=object)}, ALL),
    }
    for name, flavours in NUMPY.items():
        found[f"array of {name}"] = Source(lambda m, c, f, d, p, t=name: _numpy(c, t), flavours, bare=True)
        found[f"mapping of {name} arrays"] = Source(
            lambda m, c, f, d, p, t=name: {"mark": np.array(m), "cell": _numpy(c, t)}, flavours
        )
    for name, (kind, flavours) in PANDAS.items():
        found[f"pandas {name}"] = Source(
            lambda m, c, f, d, p, t=kind: _frame_of(_pandas(c, t), m),
            flavours,
            runs_expressions=True,
            slow=True,
            labels=kind == "category",
        )
        found[f"mapping of pandas {name}"] = Source(
            lambda m, c, f, d, p, t=kind: {"mark": m, "cell": _pandas(c, t)},
            flavours,
            labels=kind == "category",
        )
    for name, (kind, flavours) in POLARS.items():
        found[f"polars {name}"] = Source(
            lambda m, c, f, d, p, t=kind: pl.DataFrame({"mark": m, "cell": _polars(c, t)}),
            flavours,
            runs_expressions=True,
            slow=True,
        )
        found[f"polars lazy {name}"] = Source(
            lambda m, c, f, d, p, t=kind: pl.DataFrame({"mark": m, "cell": _polars(c, t)}).lazy(),
            flavours,
            runs_expressions=True,
            slow=True,
        )
        found[f"mapping of polars {name}"] = Source(
            lambda m, c, f, d, p, t=kind: {"mark": np.array(m), "cell": _polars(c, t)}, flavours
        )
    for name, (kind, flavours) in ARROW.items():
        found[f"arrow {name}"] = Source(
            lambda m, c, f, d, p, t=kind: pa.table({"mark": m, "cell": _arrow(c, t)}),
            flavours,
            runs_expressions=True,
            slow=True,
        )
        found[f"arrow chunks of {name}"] = Source(
            lambda m, c, f, d, p, t=kind: pa.table({"mark": _chunks(pa.array(m)), "cell": _chunks(_arrow(c, t))}),
            flavours,
        )
        found[f"mapping of arrow {name}"] = Source(
            lambda m, c, f, d, p, t=kind: {"mark": pa.array(m), "cell": _chunks(_arrow(c, t))}, flavours
        )
        found[f"duckdb {name}"] = Source(
            lambda m, c, f, d, p, t=kind: duckdb.connect().from_arrow(pa.table({"mark": m, "cell": _arrow(c, t)})),
            flavours,
            runs_expressions=True,
            slow=True,
        )
    for name, flavour in (("string", "text"), ("int64", "integer")):
        kind = ARROW[name][0]
        found[f"arrow own dictionaries of {name}"] = Source(
            lambda m, c, f, d, p, t=kind: pa.table({"mark": _chunks(pa.array(m)), "cell": _own_dictionaries(c, t)}),
            (flavour,),
        )
        found[f"pandas own dictionaries of {name}"] = Source(
            lambda m, c, f, d, p, t=kind: _frame_of(
                pd.Series(pd.arrays.ArrowExtensionArray(_own_dictionaries(c, t))), m
            ),
            (flavour,),
        )
    found["arrow batch"] = Source(
        lambda m, c, f, d, p: pa.record_batch({"mark": pa.array(m), "cell": _arrow(c, pa.string())}), ("text",)
    )
    del found["duckdb float16"]  # DuckDB knows no such floats
    for name in PARQUET:
        kind, flavours = ARROW[name]
        found[f"parquet {name}"] = Source(
            lambda m, c, f, d, p, t=kind: _parquet(m, _arrow(c, t), d), flavours, runs_expressions=True, slow=True
        )
        found[f"parquet pattern of {name}"] = Source(
            lambda m, c, f, d, p, t=kind: _pattern(m, c, t, d, p), flavours, runs_expressions=True, slow=True
        )
    return found


SOURCES = _sources()

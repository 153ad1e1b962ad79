"""Coded synthetic rows as a frame: labels in their order, numbers inside their bins, missing cells as missing.

Types follow from what is declared, never from the private frame: pandas turns whole numbers into floats when one is
missing, so a copied type would reveal an empty cell of a person. With `like=`, a frame that the user calls public,
its types and column order are copied.

Rows are drawn by systematic sampling: at equal steps through the cells, with one uniform start. Each cell's count is
then within 1 of its expectation, where independent draws would add noise of the size of √count. All of it is
post-processing: it reads the release and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import MissingPackageError, RangeError, SchemaError
from sidelight.guarantees.amounts import whole
from sidelight.noise import Source
from sidelight.noise.integers_and_coins import below
from sidelight.records import Date
from sidelight.registry import import_with_extras
from sidelight.synthesis.axes import Axis, Labels, Within
from sidelight.synthesis.domain import Mass

#: Rows beyond this are a mistake: positions are computed in 64-bit integers.
MOST_ROWS = 10**9


class PublicEntropy:
    """Reproducible bytes for post-processing: SHAKE-128 of a text, block by block. Not for noise, and says so."""

    branding = "public: for post-processing only"

    def __init__(self, text: str) -> None:
        self._hash = hashlib.shake_128(b"sidelight/synthetic-rows/1\0" + text.encode(), usedforsecurity=False)
        self._block = 0

    def read(self, nbytes: int) -> bytes:
        """Return the next bytes; each call begins a new block."""
        block = self._hash.copy()
        block.update(self._block.to_bytes(8, "little"))
        self._block += 1
        return block.digest(nbytes)


def sample_codes(mass: Mass, rows: int, source: Source) -> NDArray[np.int64]:
    """Draw coded rows by systematic sampling, in random order.

    Law: the number of rows of every cell is floor(rows * w) or one more, with mean rows * w.

    >>> from sidelight.synthesis.domain import Domain
    >>> mass = Mass.of(Domain(("sex",), (2,)), np.array([0.25, 0.75]), size=100)
    >>> with Source(PublicEntropy("example")) as source:
    ...     np.bincount(sample_codes(mass, 8, source)[:, 0]).tolist()
    [2, 6]
    """
    rows = whole(rows, name="rows", least=0, most=MOST_ROWS)
    total = mass.total
    start = below(total, source)
    steps = np.arange(rows, dtype=np.int64)
    # (start + i * total) / rows, in parts that stay below 2**63
    step, rest = divmod(total, max(rows, 1))
    high, low = divmod(start, max(rows, 1))
    positions = steps * step + high + (steps * rest + low) // max(rows, 1)
    order = np.argsort(source.words(rows), kind="stable")
    return mass.codes(positions)[order]


Library = Literal["pandas", "polars", "pyarrow"]


def make_frame(
    axes: Sequence[Axis], codes: NDArray[np.int64], source: Source, *, library: Library, within: Within, mass: Mass
) -> Any:
    """Return a frame of the library with one column an axis: enumerations, whole numbers, floats and dates."""
    import narwhals.stable.v2 as nw

    _check_installed(library)
    data: dict[str, Any] = {}
    types: dict[str, Any] = {}
    for place, axis in enumerate(axes):
        if isinstance(axis, Labels):
            words = np.array([*axis.category.labels, None], object)
            data[axis.name] = words[np.minimum(codes[:, place], len(words) - 1)].tolist()
            # Arrow has no enumeration that narwhals can make; its labels stay texts.
            types[axis.name] = nw.String() if library == "pyarrow" else nw.Enum(axis.category.labels)
        else:
            masses = mass.marginal((axis.name,)) if within == "smooth" else None
            values = axis.values(codes[:, place], source, within, masses)
            absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
            whole = axis.whole and (library != "pandas" or not axis.keeps_missing)
            types[axis.name] = nw.Int64() if whole else nw.Float64()
            cells = values[~absent].astype(np.int64 if whole else np.float64).tolist()
            if isinstance(axis.number, Date):
                days = axis.number.unit == "day" and library != "pandas"  # which has no type of its own for them
                types[axis.name] = nw.Date() if days else nw.Datetime("s" if library == "pyarrow" else "us")
                stamps = axis.number.calendar.datetimes(values[~absent])
                cells = stamps.astype("datetime64[D]" if days else "datetime64[us]").tolist()
            column = np.full(len(values), None, object)
            column[~absent] = cells
            data[axis.name] = column.tolist()
    if library == "pandas":
        data = {name: [np.nan if cell is None and types[name] == nw.Float64() else cell for cell in cells]
                for name, cells in data.items()}  # fmt: skip
    return nw.from_dict(data, schema=types, backend=library).to_native()


def _check_installed(library: Library) -> None:
    what = f"a table as a {library} frame"
    try:
        import_with_extras(library, what=what, instead=', or ask for library="pandas" or "polars"')
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{what} needs {library}, which is not installed; pip install {library}, or ask for "
            'library="pyarrow", which pip install "sidelight[files]" installs'
        ) from error


def with_enumerations(frame: Any, axes: Sequence[Axis]) -> Any:
    """Return an Arrow table whose categories are dictionaries, which readers of Parquet know as categories."""
    for place, axis in enumerate(axes):
        if isinstance(axis, Labels):
            frame = frame.set_column(place, axis.name, frame.column(axis.name).dictionary_encode())
    return frame


def library_of(frame: Any) -> Library:
    """Return which library a frame belongs to."""
    name = type(frame).__module__.partition(".")[0]
    found: dict[str, Library] = {"pandas": "pandas", "polars": "polars", "pyarrow": "pyarrow"}
    if name not in found:
        raise SchemaError(f"like=... wants a pandas, Polars or Arrow table, got {type(frame).__name__}")
    return found[name]


def as_typed(frame: Any, like: Any, *, library: Library) -> Any:
    """Return a synthetic frame the types and the column order of a public frame of the same library."""
    import narwhals.stable.v2 as nw

    given = [str(name) for name in (like.column_names if library == "pyarrow" else like.columns)]
    made = list(frame.column_names if library == "pyarrow" else frame.columns)
    names = [name for name in given if name in made] + [name for name in made if name not in given]
    dates = {name for name, kind in nw.from_native(frame).schema.items() if kind.is_temporal()}
    frame = frame.select(names) if library != "pandas" else frame[names]
    for name in names:
        if name not in given:
            continue
        try:
            if name in dates and nw.from_native(like).collect_schema()[name].is_numeric():
                raise TypeError("days since 1970, or in which unit?")
            frame = _cast(frame, like, name, library)
        except Exception as error:
            raise SchemaError(
                f"synthetic column {name!r} does not fit the type of the table in like=... "
                f"({type(error).__name__}); leave like out and convert the column yourself"
            ) from None
    return frame


def _cast(frame: Any, like: Any, name: str, library: Library) -> Any:
    if library == "pandas":
        target = like[name].dtype
        column = frame[name]
        if getattr(column.dtype, "categories", None) is not None and target.kind in "iufb":
            column = column.astype(object)
        return frame.assign(**{name: column.astype(target)})
    if library == "polars":
        column, target = frame[name], like.collect_schema()[name]
        if target.is_numeric():
            column = column.cast(type(target)()) if column.dtype.is_numeric() else column.cast(str).cast(target)
        return frame.with_columns(column.cast(target))
    place = frame.column_names.index(name)
    field = like.schema.field(name)
    return frame.set_column(place, field, frame.column(name).cast(field.type))


def write_table(frame: Any, path: str, *, ending: str) -> None:
    """Write a frame as CSV or Parquet."""
    import narwhals.stable.v2 as nw

    writer = nw.from_native(frame, eager_only=True)
    if ending == ".csv":
        writer.write_csv(path)
    elif ending == ".parquet":
        if library_of(frame) != "polars":  # which writes it by itself
            import_with_extras("pyarrow", what="a Parquet file")
        writer.write_parquet(path)
    else:
        raise RangeError(f"a synthetic table is written as .csv or .parquet, got {path!r}")

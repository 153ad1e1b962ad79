"""Agreement of all readers on the same cells, without errors for any cell.

The choice of a reader may depend on the number of rows, which is private: a cell that readers parse differently would
change with another person's record. So the extremes of every type that a column can have are planted here in files,
Arrow tables and relations, and read in batches, by several threads, by the engine alone and with a text column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import groups_of
from sidelight.records import Category, Date, Number, PersonId, Table
from sidelight.records.dates import minutes_of_text
from sidelight.records.engines import parquet
from sidelight.records.engines.arrow_cells import kind_of
from sidelight.records.engines.duckdb import _STAMPS
from sidelight.records.rows import Wanted
from sidelight.testing import seeded_release

ROWS = 30
_MOST = 2**63 - 1


def filled(cells: list[Any]) -> list[Any]:
    return [*cells, *[None] * (ROWS - len(cells))]


def whole_numbers(kind: pa.DataType) -> pa.Array:
    signed = pa.types.is_signed_integer(kind)
    low, high = (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1) if signed else (0, 2**kind.bit_width - 1)
    wanted = (low, low + 1, -1, 0, 1, 7, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, high - 1, high)
    return pa.array(filled([each for each in wanted if low <= each <= high]), kind)


def floats(kind: type[np.floating[Any]]) -> pa.Array:
    limits = np.finfo(kind)
    cells = (math.nan, math.inf, -math.inf, -0.0, 0.0, 0.1, 1.5, -2.5, 7.0, limits.max, limits.min, limits.tiny)
    small = (limits.smallest_subnormal, -limits.smallest_subnormal, 2.0**53 + 2 if limits.bits > 16 else 2047.0)
    return pa.array(filled([kind(each) for each in (*cells, *small)]), pa.from_numpy_dtype(kind))


def decimals(kind: pa.DataType) -> pa.Array:
    most = 10**kind.precision - 1
    counts = (most, -most, most - 1, 1, -1, 0, most // 3, -(most // 7), (2**53 + 1) % (most + 1), most // 10 + 5)
    return pa.array(filled([Decimal(each).scaleb(-kind.scale, context=_EXACT) for each in counts]), kind)


_EXACT = Context(prec=100)
_EDGES = (_MOST, _MOST - 1, -_MOST - 1, -_MOST, -_MOST + 1, 2**62, -(2**62), 0, -1, 1, 86_399_999, 3_600_000_000)
_LATER = (10**9, 10**12, 10**15, 10**18, 253402300800000, _MOST // 1000, _MOST // 1000 + 1, -(_MOST // 1000) - 1)
_WIDE = (_MOST // 10**6, _MOST // 10**6 + 1, 253402300799, 253402300799999999)
_DAYS = (2**31 - 1, 2**31 - 2, -(2**31), -(2**31) + 1, -(2**31) + 2, 0, -1, 1, 20000, 2932896, 2932897, -719163)


def stamps(unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(filled([*_EDGES, *_LATER, *_WIDE]), pa.int64()).view(pa.timestamp(unit, zone))


TEXTS = filled(
    [
        *("a", "", "a ", "A", "é", "e\u0301", "\x00", "1", "01", "-0", "1.5", "nan", "7", " 7 ", "true", "x" * 300),
        *("2020-01-31", "2020-02-30", "9999-12-31", "0001-01-01", "0000-01-01", "2020-01-31T23:59:59.999Z"),
        *("2020-01-31 14:05+05:30", "9007199254740993", "2020-01-31 00:30+14:00"),
    ]
)
BROKEN = pa.array(filled([b"a", b"\xff\xfe", b"7", b"\xed\xa0\x80"]), pa.large_binary()).view(pa.large_string())

NUMBERS: dict[str, pa.Array] = {
    **{str(kind): whole_numbers(kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): whole_numbers(kind) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(np.dtype(kind)): floats(kind) for kind in (np.float16, np.float32, np.float64)},
    **{
        str(kind): decimals(kind)
        for kind in (
            *(pa.decimal128(*each) for each in ((1, 0), (4, 2), (9, 9), (18, 4), (19, 3), (38, 0), (38, 10), (38, 38))),
            *(pa.decimal256(*each) for each in ((20, 3), (50, 5), (76, 0))),
        )
    },
    "whole numbers of a dictionary": pa.array(filled([5, 2**62, 7])).dictionary_encode(),
    "boolean": pa.array(filled([True, False])),
    "null": pa.nulls(ROWS),
}
DATES: dict[str, pa.Array] = {
    "date32": pa.array(filled([*_DAYS]), pa.int32()).cast(pa.date32()),
    "date64": pa.array(filled([day * 86_400_000 for day in _DAYS]), pa.int64()).view(pa.date64()),
    **{
        f"{unit} {zone}": stamps(unit, zone)
        for unit in ("s", "ms", "us", "ns")
        for zone in (None, "UTC", "Asia/Kolkata")
    },
    "stamps of a dictionary": stamps("us").dictionary_encode(),
}
LABELS: dict[str, pa.Array] = {
    **{str(kind): pa.array(TEXTS, kind) for kind in (pa.string(), pa.large_string())},
    **({"string_view": pa.array(TEXTS, pa.string_view())} if hasattr(pa, "string_view") else {}),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "long dictionary": pa.array(TEXTS).cast(pa.dictionary(pa.int64(), pa.large_string())),
    "broken": BROKEN,
    **{name: cells for name, cells in NUMBERS.items() if kind_of(cells.type) in ("integer", "boolean")},
}
Unit = Literal["day", "hour"]
UNITS: tuple[Unit, ...] = ("day", "hour")
START, END = "1960-01-01", "2025-12-31"


def table_of(columns: dict[str, pa.Array]) -> pa.Table:
    beside = {"place": np.arange(ROWS, dtype=np.float64), "who": [f"p{n}" for n in range(ROWS)], "text": ["q"] * ROWS}
    return pa.table({**beside, **columns})


def written(columns: dict[str, pa.Array], folder: Path, **how: Any) -> str:
    """Write several groups of rows, so that threads share them; seconds have no type in a file."""
    table = table_of({name: cells for name, cells in columns.items() if not name.startswith("s ")})
    pq.write_table(table, folder / "t.parquet", row_group_size=8, **how)
    return str(folder / "t.parquet")


def old_stamps(columns: dict[str, pa.Array], folder: Path) -> str:
    """Write time stamps of 96 bits, as Spark and Impala did: of the years that both this type and the other hold."""
    years = [f"{year}-12-31T23:59:59" for year in (1, 1582, 1677, 1969, 2020, 2262, 2263, 9999)]
    cells = pa.array(filled([np.datetime64(each, "us") for each in years]), pa.timestamp("us"))
    found = {name: cells for name in columns if name == "us None"}
    return written(found, folder, use_deprecated_int96_timestamps=True)


#: What DuckDB's own reader of Arrow fails for, before a query of ours sees a cell.
_TOO_FAR = ("s UTC", "s Asia/Kolkata", "ms UTC", "ms Asia/Kolkata")


def relation(columns: dict[str, pa.Array], folder: Path) -> Any:
    unknown = [name for name, cells in columns.items() if pa.types.is_decimal256(cells.type) or name == "float16"]
    known = {name: cells for name, cells in columns.items() if name not in (*unknown, *_TOO_FAR)}
    return duckdb.connect().from_arrow(table_of(known))


SOURCES: dict[str, Callable[[dict[str, pa.Array], Path], Any]] = {
    "file": written,
    "old file": old_stamps,
    "arrow": lambda columns, folder: table_of(columns),
    "relation": relation,
}


def readings(table: Table, wanted: Wanted, columns: dict[str, str]) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """Return the cells by each way of reading; `columns` names the form of each: a number, or a text."""
    rows = table.rows

    def of_batches(streams: Any) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {name: [] for name in ("place", *columns)}
        for batch in (batch for stream in streams for batch in stream):
            found["place"] += batch.numbers["place"].tolist()
            for name, form in columns.items():
                cells = batch.numbers if form == "number" else batch.texts if form == "text" else {name: batch.person}
                found[name] += cells[name].tolist()
        return found

    def of_frame() -> dict[str, list[Any]]:
        frame = rows.frame(wanted)
        assert frame is not None
        alias = {"number": wanted.number_alias, "text": wanted.text_alias, "person": lambda name: "person"}
        names = {"place": wanted.number_alias("place"), **{name: alias[form](name) for name, form in columns.items()}}
        got = frame.collect()
        return {name: got[each].to_list() for name, each in names.items()}

    yield "batches", of_batches([rows.batches(wanted, rows=5)])
    if isinstance(rows, parquet.ParquetRows):
        yield "threads", of_batches(rows.in_parallel(wanted, rows=5))
    yield "engine", of_frame()


def in_order(found: dict[str, list[Any]], table: Table) -> dict[str, list[Any]]:
    """Sort the rows by their place; a number that is none is None, and one beyond the bounds is at its bound."""
    order = np.argsort(found["place"], kind="stable")
    bounds = {each.name: each.upper for each in table.schema.columns if isinstance(each, Date)}

    def cell(name: str, value: Any) -> Any:
        if not isinstance(value, float):
            return value
        if math.isnan(value):
            return None
        return min(max(value, 0.0), float(bounds[name])) if name in bounds else value

    return {name: [cell(name, cells[place]) for place in order] for name, cells in found.items()}


def names_of(source: Any) -> list[str]:
    if isinstance(source, str):
        return list(pq.read_schema(source).names)
    return list(source.column_names if isinstance(source, pa.Table) else source.columns)


def agreed(source: Any, declared: list[Any], form: str) -> dict[str, list[Any]]:
    """Return the cells on which all readers agree, with and without a text column."""
    held = names_of(source)
    columns = {each.name: form for each in declared if each.name in held}
    schema = [Number("place"), Category("text", ["q"]), *(each for each in declared if each.name in held)]
    table = Table(source, schema=schema)
    numbers, texts = ("place", *(columns if form == "number" else ())), tuple(columns) if form == "text" else ()
    person = next(iter(columns)) if form == "person" else None
    found = [
        (way, in_order(cells, table))
        for beside in ((), ("text",))
        for way, cells in readings(table, Wanted(numbers=numbers, texts=(*texts, *beside), person=person), columns)
    ]
    for way, cells in found[1:]:
        for name in columns:
            assert cells[name] == found[0][1][name], (way, name)
    return found[0][1]


@pytest.mark.parametrize("kind", ["file", "arrow", "relation"])
def test_numbers(kind: str, tmp_path: Path) -> None:
    found = agreed(SOURCES[kind](NUMBERS, tmp_path), [Number(name) for name in NUMBERS], "number")
    for name, cells in NUMBERS.items():
        if name in found:
            values = [None if value is None else float(value) for value in cells.to_pylist()]
            assert found[name] == [None if value is None or math.isnan(value) else value for value in values], name


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", SOURCES)
def test_dates(kind: str, unit: Unit, tmp_path: Path) -> None:
    columns = {**DATES, **{name: LABELS[name] for name in ("string", "large_string", "dictionary", "broken")}}
    source = SOURCES[kind](columns, tmp_path)
    found = agreed(source, [Date(name, start=START, end=END, unit=unit) for name in columns], "number")
    if kind == "old file":
        assert found["us None"][:8] == [0.0] * 3 + found["us None"][3:5] + [found["us None"][5]] * 3
        return
    for name, cells in DATES.items():
        if name in found:
            assert found[name] == [expected(cells, place, unit) for place in range(ROWS)], name


def expected(cells: pa.Array, place: int, unit: Unit) -> float | None:
    """Count in whole numbers of any size."""
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    plain = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    count = plain.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())[place].as_py()
    if count is None:
        return None
    per_hour = {"s": 3600, "ms": 3600 * 10**3, "us": 3600 * 10**6, "ns": 3600 * 10**9}
    hours = count * 24 if pa.types.is_date32(kind) else count // per_hour[getattr(kind, "unit", "ms")]
    minutes = minutes_of_text(START)
    assert minutes is not None
    ends = 24107 * 24 - 1
    counted = min(max(hours - minutes // 60, 0), ends)
    return float(counted if unit == "hour" else counted // 24)


@pytest.mark.parametrize("kind", ["file", "arrow", "relation"])
def test_labels(kind: str, tmp_path: Path) -> None:
    found = agreed(SOURCES[kind](LABELS, tmp_path), [Category(name, ["7", "a", "true"]) for name in LABELS], "text")
    assert found["string"] == [cell or None for cell in TEXTS]
    assert found["broken"][:4] == ["a", None, "7", None]
    assert found["int64"][0] == str(-(2**63))


@pytest.mark.parametrize("kind", ["file", "arrow", "relation"])
def test_persons(kind: str, tmp_path: Path) -> None:
    names = [name for name in LABELS if name != "boolean"]
    for name in names if kind == "file" else ["int64", "uint64", "dictionary", "broken"]:
        source = SOURCES[kind]({name: LABELS[name]}, tmp_path)
        found = agreed(source, [PersonId(name, max_rows=2)], "person")
        assert len(set(found[name])) > 1, name


def test_every_type_of_a_file_is_planted(tmp_path: Path) -> None:
    """A type that is read from now on is planted here too."""
    paths = []
    for place, columns in enumerate((NUMBERS, DATES, LABELS)):
        (tmp_path / str(place)).mkdir()
        paths.append(written(columns, tmp_path / str(place)))
    found = {str(kind) for path in paths for kind in duckdb.connect().read_parquet(path).types}
    assert {*parquet._PLAIN, *_STAMPS} - found == {"TIMESTAMP_MS", "TIMESTAMP_S"}  # types of tables, of no file


HOSTILE = """
    SELECT * FROM (VALUES
      (0.0, 170141183460469231731687303715884105727::HUGEINT, 340282366920938463463374607431768211455::UHUGEINT,
       0.1::DECIMAL(3,1),
       'infinity'::DATE, 'infinity'::TIMESTAMP, 'infinity'::TIMESTAMPTZ, make_timestamp(0)::TIMESTAMP_S, 'a'::VARCHAR),
      (1.0, (-170141183460469231731687303715884105727)::HUGEINT, 0::UHUGEINT, -99.9::DECIMAL(3,1),
       '-infinity'::DATE, '-infinity'::TIMESTAMP, '-infinity'::TIMESTAMPTZ, 'infinity'::TIMESTAMP_S, NULL),
      (2.0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ''),
      (3.0, 0, 1, 0, '5877642-06-25 (BC)'::DATE, '2020-01-31 14:05'::TIMESTAMP, '2020-01-31 14:05+00'::TIMESTAMPTZ,
       '-infinity'::TIMESTAMP_S, 'b')
    ) AS t(place, huge, unsigned, decimal, day, stamp, instant, second, label)
"""


def test_types_of_tables_alone(tmp_path: Path) -> None:
    relation = duckdb.connect().sql(HOSTILE)
    numbers = [Number("huge"), Number("unsigned"), Number("decimal")]
    dates = [Date(name, start=START, end=END) for name in ("day", "stamp", "instant", "second")]
    table = Table(relation, schema=[Number("place"), *numbers, *dates])
    wanted = Wanted(numbers=("place", *(each.name for each in (*numbers, *dates))))
    ways = [in_order(cells, table) for _, cells in readings(table, wanted, dict.fromkeys(wanted.numbers[1:], "number"))]
    assert ways[0] == ways[1]
    last = 24106.0
    assert ways[0]["huge"] == [2.0**127, -(2.0**127), None, 0.0]
    assert ways[0]["decimal"] == [0.1, -99.9, None, 0.0]
    assert ways[0]["day"] == [last, 0.0, None, 0.0]
    assert ways[0]["stamp"] == ways[0]["instant"] == [last, 0.0, None, 21945.0]
    assert ways[0]["second"] == [3653.0, last, None, 0.0]


@pytest.mark.parametrize("people", ["text", "whole numbers"])
@pytest.mark.parametrize("name", ["date32", "ms None", "ms UTC", "us None", "ns None", "ns UTC", "old"])
def test_how_many_rows_there_are_moves_nobody(
    name: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = DATES["us None" if name == "old" else name]
    ids = [str(n) if people == "text" else n for n in range(ROWS)]
    if name == "old":
        cells = pa.array([np.datetime64("9999-12-31", "us")] * ROWS)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"who": ids, "day": cells}), path, use_deprecated_int96_timestamps=name == "old")
    table = Table(str(path), schema=[PersonId("who", max_rows=1), Date("day", start=START, end=END)])
    groups = groups_of(table.schema, by=sl.col("day").cut(["1961-01-01", "2000-01-01", "2025-01-01"]), max_groups=None)
    counts = []
    for few in (ROWS, ROWS - 1):  # held in memory, or not: by DuckDB, or in slices of the persons
        monkeypatch.setattr(parquet, "_FEW_ROWS", few)
        monkeypatch.setattr(parquet, "_FEW_CELLS", 1 << 25 if few == ROWS else ROWS)
        counts.append(group_counts(table, groups).value.tolist())
    assert counts[0] == counts[1]
    assert sum(counts[0]) == ROWS - cells.null_count
    if name == "old":
        assert counts[0] == [0, 0, 0, ROWS]


def test_one_far_cell_fails_no_release(tmp_path: Path) -> None:
    for far in (2**62, -(2**62)):
        stamps = pa.array([far] + [10**12] * 39, pa.int64()).cast(pa.timestamp("ms"))
        pq.write_table(pa.table({"day": stamps, "ward": ["A", "B"] * 20}), tmp_path / "t.parquet")
        schema = [Date("day", start=START, end=END), Category("ward", ["A", "B"], other=None)]
        table = Table(str(tmp_path / "t.parquet"), schema=schema)
        assert isinstance(seeded_release(sl.SyntheticTable(epsilon=1), table, seed=1), sl.Release)
        seconds = pa.table({"day": pa.array([far, 10**9], pa.int64()).cast(pa.timestamp("s")), "ward": ["A", "B"]})
        relation = Table(duckdb.connect().from_arrow(seconds), schema=schema)
        for lowering in ("batches", "engine"):
            groups = groups_of(relation.schema, by=sl.col("day").cut(["2000-01-01"]))
            assert group_counts(relation, groups, lowering=lowering).value.tolist() == ([0, 2] if far > 0 else [1, 1])

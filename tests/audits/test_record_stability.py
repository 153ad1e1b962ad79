"""One record, whatever is in it, moves the ranks by one; one person by the declared rows: on every engine.

The ranks are read directly (an attacker's privilege): an exact check of the stability that all guarantees start from.
"""

from __future__ import annotations

import collections
import gzip
import math
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from hostile_cells import NoFloat, NoSign
from plain_statistics import clipped_sum
from sidelight.aggregates import cell_counts, collect_ranks
from sidelight.audit import audit, one_by_one
from sidelight.errors import SourceError
from sidelight.grid import Grid
from sidelight.records.rows import Wanted

GRID = Grid(resolution=Fraction(1), first=0, last=120, dither_bits=0, snap="nearest")
FINE = Grid(resolution=Fraction(1, 2**40), first=0, last=120 * 2**40, dither_bits=0, snap="floor")
NUMBER = sl.Number("age", lower=0, upper=120)


def in_numpy(data, tmp_path):
    return {name: np.array(cells, dtype=object if name == "id" else float) for name, cells in data.items()}


def in_lists(data, tmp_path):
    return data


def in_pandas(data, tmp_path):
    import pandas as pd

    return pd.DataFrame(data)


def in_polars(data, tmp_path):
    import polars as pl

    return pl.DataFrame(data, strict=False)


def in_lazy(data, tmp_path):
    return in_polars(data, tmp_path).lazy()


def in_arrow(data, tmp_path):
    import pyarrow as pa

    return pa.table(data)


def in_duckdb(data, tmp_path):
    import duckdb

    return duckdb.connect().from_arrow(in_arrow(data, tmp_path))


def in_parquet(data, tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.parquet"
    pq.write_table(in_arrow(data, tmp_path), path)
    return path


def in_csv(data, tmp_path):
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
    in_pandas(data, tmp_path).to_csv(path, index=False)
    return path


ENGINES = [in_numpy, in_lists, in_pandas, in_polars, in_lazy, in_arrow, in_duckdb, in_parquet, in_csv]
everywhere = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__.removeprefix("in_"))
grids = pytest.mark.parametrize("grid", [GRID, FINE], ids=["coarse", "fine"])


def codes_of(source, schema, grid=GRID):
    ranks = collect_ranks(sl.Table(source, schema=schema), "age", grid, None)
    return collections.Counter(ranks.order(k) for k in range(1, ranks.size + 1))


def distance(first, second):
    return sum(((first - second) + (second - first)).values())


ODD = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 120.0000001, 0.5, 119.5, 2.0**53 + 2]


@everywhere
@grids
def test_one_record_of_any_value_counts_once_or_not_at_all(engine, grid, tmp_path):
    ages = [float(age) for age in range(20, 60)]
    base = codes_of(engine({"age": ages}, tmp_path), [NUMBER], grid)
    assert sum(base.values()) == 40
    for value in ODD:
        more = codes_of(engine({"age": [*ages[:7], value, *ages[7:]]}, tmp_path), [NUMBER], grid)
        assert more - base == more - (more & base)
        assert base - more == collections.Counter()
        assert distance(base, more) == (0 if math.isnan(value) else 1)


@everywhere
@grids
def test_one_person_moves_at_most_the_declared_rows(engine, grid, tmp_path):
    schema = [NUMBER, sl.PersonId("id", max_rows=3)]
    ages = [float(20 + i % 50) for i in range(90)]
    ids = [f"p{i // 5}" for i in range(90)]  # others have five rows each: their cap works too
    base = codes_of(engine({"age": ages, "id": ids}, tmp_path), schema, grid)
    assert sum(base.values()) == 18 * 3
    greedy = [float(age) for age in (7.0, *[8.0] * 20, *range(10, 40))]
    more = codes_of(engine({"age": [*greedy, *ages], "id": ["eve"] * len(greedy) + ids}, tmp_path), schema, grid)
    assert base - more == collections.Counter()  # the rows of other persons do not change
    assert sum((more - base).values()) == 3


@everywhere
def test_a_cap_that_counts_rows_of_all_people_is_noticed(engine, tmp_path, monkeypatch):
    """The negative control of the test above: without the cap the greedy person counts with every row."""
    schema = [NUMBER, sl.PersonId("id", max_rows=3)]
    monkeypatch.setattr("sidelight.aggregates.collect.cap_arrays", lambda persons, codes, ranges, k: codes)
    monkeypatch.setattr("sidelight.aggregates.collect.cap_frame", lambda frame, columns, ranges, k: frame)
    found = codes_of(engine({"age": [float(age) for age in range(50)], "id": ["eve"] * 50}, tmp_path), schema)
    assert sum(found.values()) == 50


@everywhere
def test_rows_without_a_person_are_left_out(engine, tmp_path):
    schema = [NUMBER, sl.PersonId("id", max_rows=1)]
    found = codes_of(engine({"age": [30.0, 40.0, 50.0], "id": ["a", None, None]}, tmp_path), schema)
    assert sum(found.values()) == 1


@everywhere
def test_the_order_of_rows_does_not_matter(engine, tmp_path):
    schema = [NUMBER, sl.PersonId("id", max_rows=2)]
    ages = [float(20 + (i * 37) % 50) for i in range(60)]
    ids = [f"p{i % 7}" for i in range(60)]
    there = codes_of(engine({"age": ages, "id": ids}, tmp_path), schema)
    back = codes_of(engine({"age": ages[::-1], "id": ids[::-1]}, tmp_path), schema)
    assert there == back


def test_every_engine_keeps_the_same_rows(tmp_path):
    schema = [NUMBER, sl.PersonId("id", max_rows=2)]
    data = {"age": [20 + (i * 37) % 83 / 2 for i in range(200)], "id": [f"p{i % 31}" for i in range(200)]}
    found = [codes_of(engine(data, tmp_path), schema, FINE) for engine in ENGINES]
    assert all(each == found[0] for each in found)


def parquet_with_holes(tmp_path, ages):
    """500 missing values and some others, of different people, as pyarrow writes them: with statistics without NaN.

    DuckDB 2.0 concludes from such statistics that nothing is NaN: then one record decides whether 500 others count.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / f"{len(ages)}.parquet"
    cells = np.array([math.nan] * 500 + ages)
    pq.write_table(pa.table({"age": cells, "id": [f"p{i}" for i in range(len(cells))]}), path)
    return path


PEOPLE = [sl.Number("age", lower=0, upper=120, granularity=1), sl.PersonId("id", max_rows=1)]


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
def test_a_record_does_not_decide_whether_missing_values_count(tmp_path, persons):
    schema = PEOPLE if persons else PEOPLE[:1]
    sizes = [sum(codes_of(parquet_with_holes(tmp_path, ages), schema).values()) for ages in ([30.0], [30.0, 40.0])]
    assert sizes == [1, 2]


@pytest.mark.slow
def test_nor_in_a_released_median(tmp_path):
    query = sl.Quantiles([0.5], column="age", epsilon="0.5")

    def sampler(ages):
        table = sl.Table(parquet_with_holes(tmp_path, ages), schema=PEOPLE)
        return one_by_one(lambda: float(query.release(table).value[0]))

    assert not audit(sampler([30.0]), sampler([30.0, 40.0]), draws=160).refutes(sl.PureDP("0.5"))


def test_nor_in_a_sum(tmp_path):
    sums = [
        clipped_sum(sl.Table(parquet_with_holes(tmp_path, ages), schema=PEOPLE[:1]), "age").value
        for ages in ([30.0], [30.0, 40.0])
    ]
    assert sums == [30, 70]


def lines_read(tmp_path, text: bytes, records: str) -> int:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.csv"
    rows = b"".join(b"%d,x\n" % (20 + i % 50) for i in range(1000))
    path.write_bytes(b"age,note\n" + rows + text + rows)
    return collect_ranks(sl.Table(path, schema=[NUMBER], records=records), "age", GRID, None).size


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe,x\n",
        b"\x00,x\n",
        b"30,x,y,z\n",
        b"\n",
        b"30\n",
        b'3"0,x\n',
        b"30,x\r\n",
        b"#30,x\n",
        b'\\"30,x\n',
        b'"30,x\n',
        b'30,"x\n',
        b'30,"x""\n',
        b'"\n',
        b"30,x\r30,x\r",
        b"\xc3\n",
        b"\x1a\n",
        b"30," + b"x" * (1 << 20) + b"\n",
        b"30," + b"," * (1 << 20) + b"\n",
    ],
    ids=lambda line: repr(line[:20]),
)
def test_one_odd_line_of_a_csv_file_takes_no_other_with_it(tmp_path, line):
    """Or the file is refused, where records are not declared to be lines and no standard writer writes such a line."""
    assert abs(lines_read(tmp_path, line, "lines") - 2000) <= 1
    if b'"' not in line:
        assert abs(lines_read(tmp_path, line, "standard") - 2000) <= 1
        return
    with pytest.raises(SourceError, match="line 1002: "):
        lines_read(tmp_path, line, "standard")


def csv_records(folder, files, suffix, delimiter):
    """Write lines into several files of one table; return the multiset of records that two statistics see."""
    for place, lines in enumerate(files):
        content = b"\n".join([delimiter.join(["age", "ward", "id"]).encode(), *lines])
        path = folder / f"{place}{suffix}"
        path.write_bytes(gzip.compress(content, 1) if suffix.endswith(".gz") else content)
    schema = [NUMBER, sl.Category("ward", ["A", "é", 'a"b'])]
    table = sl.Table(str(folder / f"*{suffix}"), schema=schema, records="lines")
    assert not [path for path in folder.iterdir() if not path.name.endswith(suffix)]  # no copy of the rows on the disk
    found = collections.Counter()
    for batch in table.rows.batches(Wanted(numbers=("age",), texts=("ward",))):
        found.update(zip(map(str, batch.numbers["age"]), batch.texts["ward"].tolist(), strict=True))
    counts = cell_counts(table, ["ward"], lowering="engine").value
    assert counts.sum() == sum(found.values())
    assert counts[1] == sum(count for (_, ward), count in found.items() if ward == "é")
    return found


PIECES = [
    b'"',
    b'""',
    b"30",
    b"41.5",
    b"A",
    b"\xc3\xa9",
    b"\xc3",
    b"\xff",
    b"\0",
    b"\r",
    b" ",
    b"\\",
    b"#",
    b"'",
    b"'';",
]
csv_lines = st.lists(st.sampled_from([*PIECES, None, None]), max_size=9)


@pytest.mark.parametrize(
    ("suffix", "delimiter"), [(".csv", ","), (".csv.gz", ";"), (".tsv", "\t")], ids=["csv", "gz", "tsv"]
)
@given(st.lists(csv_lines, max_size=5), st.lists(csv_lines, max_size=5), csv_lines, st.sampled_from([0, 2, 5]))
@settings(max_examples=12, deadline=None)
def test_one_line_of_any_bytes_is_at_most_one_record(suffix, delimiter, first, second, line, place):
    first, second, (line,) = (
        [b"".join(delimiter.encode() if piece is None else piece for piece in pieces) for pieces in some]
        for some in (first, second, [line])
    )
    more = [*first[:place], line, *first[place:]]
    with tempfile.TemporaryDirectory() as folder:
        before = csv_records(Path(folder), [first, second], suffix, delimiter)
        after = csv_records(Path(folder), [more, second], suffix, delimiter)
    assert not before - after
    assert sum((after - before).values()) <= 1


@pytest.mark.parametrize("cell", [NoSign(), NoFloat(3)], ids=["sign", "float"])
def test_no_object_in_a_cell_raises(cell):
    assert sum(codes_of([30.0, cell], [NUMBER]).values()) in (1, 2)


def test_no_value_warns_or_raises_whatever_numpy_is_told_to_do():
    if np.finfo(np.longdouble).max <= np.finfo(np.float64).max:
        pytest.skip("this machine has no wider float")
    huge = np.array([np.longdouble("1e4000"), 30])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert sum(codes_of(huge, [NUMBER]).values()) == 2


def test_no_ordinary_value_warns_or_raises_whatever_numpy_is_told_to_do():
    values = np.array([*ODD, 30.0])
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert sum(codes_of(values, [NUMBER]).values()) == len(ODD)

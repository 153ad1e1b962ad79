"""Do all sources give the same integers? Random conditions, constants, collations, odd cells and decimals on each.

One table of everyday and awkward cells is written into every kind of source that is installed: lists, NumPy, pandas,
Polars, Arrow, CSV, Parquet, DuckDB (a relation, a connection with every setting that changes what SQL means, a file
whose columns declare a collation) and, where a server can be started, PostgreSQL with a collation of its own. Every
number is compared with plain Python.
"""

from __future__ import annotations

import csv
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import sidelight as sl
from benchmarks.temporary_postgres import NoServerError, empty_database, temporary_server
from sidelight.aggregates import cell_counts
from sidelight.aggregates.predicates import ExpressionCoding
from sidelight.records import Table
from sidelight.records.expressions import Compare, Expression, IsIn, IsMissing, Joined, Literally, Named, Not
from sidelight.records.rows import Wanted
from sidelight.testing import seeded_release

SCHEMA = (
    sl.Number("price"),
    sl.Number("cents", lower=0, upper=1),
    sl.Number("n", lower=-4, upper=4, granularity=1),
    sl.Category("place", ["low", "Low", "LOW", "łow", "nan"]),
)
#: Of the same columns, with persons of whom one row counts.
PERSONS = (*SCHEMA, sl.PersonId("id", max_rows=1))
_IDS = ("ann", "ANN", "Ann", "änn", "ÄNN", "a\u0308nn", "ann ", "ann\u200b")
#: What changes the meaning of SQL on a connection of DuckDB, and macros that stand before functions.
SETTINGS = (
    *("SET default_collation = 'nocase.noaccent'", "SET default_null_order = 'NULLS_FIRST'"),
    *("SET default_order = 'DESC'", "SET integer_division = true", "SET ieee_floating_point_ops = false"),
    *("SET preserve_insertion_order = false", "SET TimeZone = 'America/New_York'"),
    *("SET arrow_lossless_conversion = true", "SET arrow_large_buffer_size = true"),
    *("CREATE MACRO md5(x) AS 'a'", "CREATE MACRO isnan(x) AS true", "CREATE MACRO floor(x) AS 7"),
)
#: Texts of numbers, and what each is: the rule is ASCII, as Python's `float` reads it.
ODD_CELLS: dict[str, float | None] = {
    **dict.fromkeys(("5", " 5", "5\t", "+5", "5.", "5e0", "0_5", "\x0b5\x0c", "05"), 5.0),
    **dict.fromkeys(("\xa05", "5\u2003", "\x855", "5\u2028", "５", "٥", "۵", "5\u3000", "\ufeff5", "५"), None),
    **dict.fromkeys(("+-5", "--5", "5 5", "5,0", "0x5", "5f", "5e", "_5", "5_", "", "−5", "½", "1e٥", "5\x00"), None),
    "-5": -5.0,
    ".5": 0.5,
    "1e-3": 0.001,
    "0.1": 0.1,
}


def rows_of(count: int, seed: int) -> list[dict[str, Any]]:
    """Return rows with everyday decimals, missing cells and texts that collations take for one."""
    chance = random.Random(seed)
    prices = [0.1, 0.2, 0.3, 0.7, 0.1 + 0.2, 1 / 3, 2.5, 0.0, -0.1, 1e300, 5e-324, None]
    return [
        {
            "price": chance.choice(prices),
            "cents": chance.choice(["0.10", "0.20", "0.30", "0.70", "1.00", None]),
            "n": chance.choice([-9, -3, 0, 1, 2, 4, None]),
            "place": chance.choice(["low", "Low", "LOW", "łow", "other than these", None]),
            "id": chance.choice(_IDS),
        }
        for _ in range(count)
    ]


def columns_of(rows: Sequence[Mapping[str, Any]], *, cents: Callable[[str], Any]) -> dict[str, list[Any]]:
    """Return the rows as columns, with decimals as a source is to have them."""
    found = {name: [row[name] for row in rows] for name in ("price", "cents", "n", "place", "id")}
    found["cents"] = [None if cell is None else cents(cell) for cell in found["cents"]]
    return found


def sources_of(rows: Sequence[Mapping[str, Any]], folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the sources of the rows by name, as arguments of `sl.Table`."""
    floats, decimals = columns_of(rows, cents=float), columns_of(rows, cents=Decimal)
    kinds = {"price": pa.float64(), "cents": pa.decimal128(9, 2), "n": pa.int64()}
    arrow = pa.table({name: pa.array(cells, kinds.get(name, pa.string())) for name, cells in decimals.items()})
    yield "lists", {"source": decimals}
    yield "lists of texts", {"source": columns_of(rows, cents=str)}
    numbers = {name: np.array([np.nan if c is None else c for c in floats[name]]) for name in ("price", "cents", "n")}
    yield "NumPy", {"source": {**floats, **numbers}}
    yield "pandas", {"source": pd.DataFrame({**floats, **numbers, "place": pd.Categorical(floats["place"])})}
    frame = pl.DataFrame(arrow)
    yield "Polars", {"source": frame.with_columns(pl.col("place").cast(pl.Categorical))}
    yield "Polars lazy", {"source": frame.lazy()}
    yield "Arrow", {"source": arrow}
    with open(folder / "t.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(decimals)
        writer.writerows(zip(*decimals.values(), strict=True))
    yield "CSV", {"source": folder / "t.csv"}
    pq.write_table(arrow, folder / "t.parquet")
    yield "Parquet", {"source": folder / "t.parquet"}
    yield "DuckDB relation", {"source": duckdb.connect().from_arrow(arrow)}
    connection = duckdb.connect()
    for setting in SETTINGS:
        with suppress(duckdb.CatalogException):  # an older DuckDB lacks some
            connection.execute(setting)
    connection.from_arrow(arrow).create("t")
    yield "DuckDB with settings", {"source": connection, "table": "t"}
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as database:
        texts = "place VARCHAR COLLATE NOCASE, id VARCHAR COLLATE NOACCENT.NOCASE"
        database.execute(f"CREATE TABLE t (price DOUBLE, cents DECIMAL(9, 2), n BIGINT, {texts})")
        database.from_arrow(arrow).insert_into("t")
    yield "DuckDB file", {"source": path, "table": "t"}


def in_postgres(address: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write the rows into a table whose texts have a collation that takes capitals and accents for alike."""
    import psycopg

    with psycopg.connect(address) as connection:
        collation = ""
        with suppress(psycopg.Error), connection.transaction():  # a server without ICU has none
            options = "provider = icu, locale = 'und-u-ks-level1', deterministic = false"
            connection.execute(f"CREATE COLLATION alike ({options})")
            collation = " COLLATE alike"
        connection.execute("DROP TABLE IF EXISTS t")
        texts = f"place text{collation}, id text{collation}"
        connection.execute(f"CREATE TABLE t (price float8, cents numeric(9, 2), n bigint, {texts})")
        cells = columns_of(rows, cents=Decimal)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", list(zip(*cells.values(), strict=True)))
    return {"source": address, "table": "t"}


def condition(chance: random.Random, depth: int = 0) -> Expression:
    """Return a random condition on the columns of the schema."""
    kind = chance.random()
    if depth < 2 and kind < 0.5:
        if kind < 0.15:
            return Not(condition(chance, depth + 1))
        word = "and" if chance.random() < 0.5 else "or"
        return Joined(word, condition(chance, depth + 1), condition(chance, depth + 1))
    name = chance.choice(["price", "price", "cents", "cents", "n", "place"])
    if kind > 0.92:
        return IsMissing(Named(name))
    if name == "place":
        labels = chance.sample(["low", "Low", "LOW", "łow", "other"], 2)
        if kind > 0.75:
            return IsIn(Named(name), tuple(labels))
        return Compare("==" if chance.random() < 0.5 else "!=", Named(name), Literally(labels[0]))
    constants = [Fraction(text) for text in ("0.1", "0.2", "0.3", "0.7", "1", "0", "1/3", "2.5", "-0.1", "0.15")]
    if kind > 0.75:
        return IsIn(Named(name), tuple(chance.sample(constants, 3)))
    operators = ("==", "!=", "<", "<=", ">", ">=")
    return Compare(chance.choice(operators), Named(name), Literally(chance.choice(constants)))


def truth(whole: Expression, row: Mapping[str, Any]) -> bool | None:
    """Return what a condition is of a row, in plain Python: None is unknown."""
    if isinstance(whole, Not):
        inner = truth(whole.of, row)
        return None if inner is None else not inner
    if isinstance(whole, Joined):
        parts, decisive = [truth(whole.left, row), truth(whole.right, row)], whole.word == "or"
        return decisive if decisive in parts else None if None in parts else not decisive
    if isinstance(whole, Compare):
        assert isinstance(whole.left, Named)
        assert isinstance(whole.right, Literally)
        name, wanted = whole.left.name, [whole.right.value]
    else:
        assert isinstance(whole, (IsIn, IsMissing))
        assert isinstance(whole.of, Named)
        name, wanted = whole.of.name, list(whole.values) if isinstance(whole, IsIn) else []
    cell = _declared(name, row[name])
    if isinstance(whole, IsMissing):
        return cell is None
    if cell is None:
        return None
    held = [float(each) if name in ("price", "cents") else each for each in wanted]
    if isinstance(whole, IsIn):
        return cell in held
    sign = (cell > held[0]) - (cell < held[0])
    return {"==": not sign, "!=": bool(sign), "<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[
        whole.operator
    ]


def _declared(name: str, cell: Any) -> Any:
    """Return what the schema makes of a cell."""
    if name == "place":
        return "other" if cell is None or cell not in ("low", "Low", "LOW", "łow") else cell
    if cell is None:
        return None
    return min(max(int(cell), -4), 4) if name == "n" else float(cell)


def counts_by(table: Table, conditions: Sequence[Expression], *, engine: bool) -> list[list[int]]:
    """Return for each condition of how many rows it is false and true, by arrays or inside the engine, in one pass."""
    import narwhals.stable.v2 as nw

    codings = [ExpressionCoding(each, table.schema) for each in conditions]
    wanted = Wanted(
        numbers=tuple(dict.fromkeys(name for coding in codings for name in coding.numbers)),
        texts=tuple(dict.fromkeys(name for coding in codings for name in coding.texts)),
    )
    if not engine:
        total = np.zeros((len(codings), 2), np.int64)
        for batch in table.rows.batches(wanted):
            for place, coding in enumerate(codings):
                (codes,), kept = coding.kernel(batch)
                total[place] += np.bincount(codes if kept is None else codes[kept], minlength=2)
        return total.tolist()
    frame = table.rows.frame(wanted)
    assert frame is not None
    names = [f"x{place}" for place in range(len(codings))]
    for name, coding in zip(names, codings, strict=True):
        frame, kept = coding.lower(frame, wanted, [name])
        if kept is not None:
            frame = frame.with_columns(nw.when(kept).then(nw.col(name)).otherwise(nw.lit(-1)).alias(name))
    sums = [(nw.col(name) == code).sum().alias(f"{name}_{code}") for name in names for code in (0, 1)]
    found = frame.select(*sums).collect()
    return [[int(found[f"{name}_{code}"][0]) for code in (0, 1)] for name in names]


@dataclass
class Tally:
    """How many numbers were compared, and which were not as they should be."""

    compared: int = 0
    differing: int = 0

    def compare(self, name: str, found: Any, expected: Any) -> None:
        """Count one comparison, and show it where it fails."""
        self.compared += 1
        if found != expected:
            self.differing += 1
            print(f"{name}: {found} and not {expected}")

    def attempt(self, name: str, work: Callable[[], Any], expected: Any) -> None:
        """Compare what some work returns; a failure differs from everything."""
        try:
            found = work()
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        self.compare(name, found, expected)


def compare_source(
    tally: Tally,
    name: str,
    given: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    conditions: Sequence[Expression],
) -> None:
    """Compare all statistics of a source with plain Python."""
    plain = Table(**given, schema=SCHEMA)
    truths = [[truth(each, row) for row in rows] for each in conditions]
    expected = [[found.count(False), found.count(True)] for found in truths]
    runs = plain.rows.frame(Wanted(numbers=("price",))) is not None
    for engine in (False, True)[: 1 + runs]:
        for first in range(0, len(conditions), 8):
            some = conditions[first : first + 8]
            tally.attempt(
                f"{name}, {'engine' if engine else 'batches'}, {'; '.join(map(str, some))}",
                lambda some=some, engine=engine: counts_by(plain, some, engine=engine),
                expected[first : first + 8],
            )
    lists = columns_of(rows, cents=Decimal)
    for statement in ("SELECT SUM(1) FROM t", "SELECT AVG(1) FROM t", "SELECT SUM(2.5) FROM t"):
        query = sl.SQL(statement, epsilon=1)
        exact = Table(lists, schema=SCHEMA, name="t")
        table = Table(**given, schema=SCHEMA, name="t")
        want = str(seeded_release(query, exact, seed="engines").value)
        tally.attempt(
            f"{name}, {statement}", lambda q=query, t=table: str(seeded_release(q, t, seed="engines").value), want
        )
    capped = cell_counts(Table(lists, schema=PERSONS), ["place"]).value.tolist()
    assert sum(capped) == len({row["id"] for row in rows})
    persons = Table(**given, schema=PERSONS)
    for lowering in ("auto", "engine")[: 1 + runs]:
        tally.attempt(
            f"{name}, a row of each person, {lowering}",
            lambda lowering=lowering: cell_counts(persons, ["place"], lowering=lowering).value.tolist(),
            capped,
        )


def compare_odd_cells(tally: Tally, folder: Path) -> None:
    """Compare what each odd text is as a number, in every source that reads numbers from texts."""
    texts = [text for text in ODD_CELLS if "\x00" not in text]
    with open(folder / "odd.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["x", "i"], *((text, place) for place, text in enumerate(texts))])
    mixed = [*texts, 1.0]  # a list that holds only texts is refused
    sources = {
        "lists": {"x": mixed, "i": list(range(len(mixed)))},
        "objects": {"x": np.array(mixed, object), "i": np.arange(len(mixed))},
        "pandas objects": pd.DataFrame({"x": pd.Series(mixed, dtype=object), "i": range(len(mixed))}),
        "CSV": folder / "odd.csv",
    }
    for name, source in sources.items():
        table = Table(source, schema=[sl.Number("x"), sl.Number("i")])
        for engine in (False, True)[: 1 + (table.rows.frame(Wanted(numbers=("x",))) is not None)]:
            for text, found in zip(texts, _cells(table, engine=engine), strict=False):
                tally.compare(f"{name}, {'engine' if engine else 'batches'}, {text!a}", found, ODD_CELLS[text])


def _cells(table: Table, *, engine: bool) -> list[float | None]:
    """Return the column x in the order of i, None where nothing is."""
    wanted = Wanted(numbers=("x", "i"))
    if engine:
        frame = table.rows.frame(wanted)
        assert frame is not None
        found = frame.collect()
        pairs = list(zip(found["n1"].to_list(), found["n0"].to_list(), strict=True))
    else:
        pairs = [
            pair
            for batch in table.rows.batches(wanted)
            for pair in zip(batch.numbers["i"].tolist(), batch.numbers["x"].tolist(), strict=True)
        ]
    return [None if cell is None or cell != cell else cell for _, cell in sorted(pairs, key=lambda pair: pair[0])]


def compare_all(*, conditions: int, rows: int, seed: int = 1, postgres: bool = True) -> Tally:
    """Compare every source that there is, on one table."""
    tally, chance = Tally(), random.Random(seed)
    table, asked = rows_of(rows, seed), [condition(chance) for _ in range(conditions)]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, given in sources_of(table, folder):
            compare_source(tally, name, given, table, asked)
        compare_odd_cells(tally, folder)
        if postgres:
            try:
                server = stack.enter_context(temporary_server())
            except NoServerError as error:
                print(f"PostgreSQL was not compared: {error}")
            else:
                address = stack.enter_context(empty_database(server.address))
                compare_source(tally, "PostgreSQL", in_postgres(address, table), table, asked)
    return tally


def measure() -> dict[str, float]:
    """Return how many numbers of how many differ."""
    tally = compare_all(conditions=160, rows=120)
    return {"disagreements": tally.differing, "compared": tally.compared}


if __name__ == "__main__":
    print(measure())

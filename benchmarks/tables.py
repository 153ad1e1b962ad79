"""Several tables about the same people: who is touched when a person leaves, on every kind of source.

python -m benchmarks.tables
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.tables_brute_force import owned_rows, sampled, two_levels, violations, violations_of_months
from benchmarks.temporary_postgres import NoServerError, temporary_server

_NUMBERS = count()
#: Kinds of sources that take part in the first two rounds alone, one of texts and one of whole numbers.
_SLOW = ("postgres", "spark")
#: Ids and keys that an engine may confuse.
HOSTILE = ("007", "7", "ann", "ANN", "a ", "a", "\u00e9", "e\u0301", "1:2", "x'y", "NULL", "true", "1e3", "-0")


def brute_force() -> Mapping[str, float]:
    """Take every person out of all databases of two levels, and out of random ones with values of two and three."""
    rows, sample = sized((4, 3), (2, 1)), sized(20_000, 50)
    every = violations(list(two_levels(most_top=rows[0], most_low=rows[1])))
    two, three = (violations(list(sampled(sample, levels=levels, seed=levels))) for levels in (2, 3))
    return {"pairs": every[0] + two[0] + three[0], "violations": every[1] + two[1] + three[1]}


def months() -> Mapping[str, float]:
    """Take every month of every person out of random databases of two and three levels with a window."""
    sample = sized(3000, 30)
    two, three = (violations_of_months(list(sampled(sample, levels=levels, seed=levels))) for levels in (2, 3))
    return {"triples": two[0] + three[0], "violations": two[1] + three[1]}


@dataclass(frozen=True)
class Places:
    """Where sources are made: a folder, and, where they run, a PostgreSQL server and a Spark session."""

    folder: Path
    address: str | None = None
    spark: Any = None


def _orders(places: Places, kind: str, columns: Mapping[str, list[Any]], name: str) -> Any:
    """Return the same columns as a source of another kind."""
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({key: pa.array(cells) for key, cells in columns.items()})
    if kind == "lists":
        return dict(columns)
    if kind == "arrow":
        return table
    if kind == "pandas":
        return pd.DataFrame(columns)
    if kind == "polars":
        return pl.DataFrame(columns)
    if kind == "duckdb":
        connection = duckdb.connect()
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        return connection.table(name)
    if kind == "spark":
        return places.spark.createDataFrame(table).repartition(3)
    path = places.folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        pd.DataFrame(columns).to_csv(path, index=False)
    return path


KINDS = ("lists", "arrow", "pandas", "polars", "duckdb", "parquet", "csv")


def _table(places: Places, kind: str, columns: Mapping[str, list[Any]], name: str, schema: list[Any]) -> sl.Table:
    """Open the columns as a source of a kind."""
    if kind != "postgres":
        return sl.Table(_orders(places, kind, columns, name), schema=schema)
    import adbc_driver_postgresql.dbapi as driver
    import pyarrow as pa

    called = f"{name}_{next(_NUMBERS)}"
    with driver.connect(places.address) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(called, pa.table({key: pa.array(cells) for key, cells in columns.items()}))
        connection.commit()
    return sl.Table(places.address, table=called, schema=schema)


def shop(places: Places, kind: str, orders: Mapping[str, list[Any]], lines: Mapping[str, list[Any]]) -> sl.Database:
    """Return orders and their lines as sources of a kind; the caps are for pairs alone."""
    x = sl.Number("x", lower=0, upper=99, granularity=1)
    day = sl.Number("day", lower=0, upper=9, granularity=1)
    who, via = sl.PersonId("who", max_rows=2), sl.PersonVia("id", to="orders", max_rows=3)
    return sl.Database(
        {
            "orders": _table(places, kind, orders, "orders", [who, sl.Key("id"), day]),
            "lines": _table(places, kind, lines, "lines", [via, x]),
        },
        name="shop",
    )


def rows_of(database: sl.Database) -> Any:
    """Return the rows of each person in a view with a lookup, one with folds, and pairs."""
    view = database.view("lines", columns=["orders.day"])
    folded = database.view("orders", total=sl.fold.sum("lines", "x"), last=sl.fold.last("lines", "x", order="x"))
    pairs = database.pairs("orders", "lines", on="orders", where=sl.col("day") <= sl.col("x"), max_rows=5)
    every = database.pairs("lines", "lines", max_rows=5)
    return owned_rows(view), owned_rows(folded), owned_rows(pairs), owned_rows(every)


def made(rng: np.random.Generator, *, whole: bool) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
    """Return orders and lines whose ids and keys repeat and are claimed by several; whole numbers or hostile texts."""
    ids: list[Any] = list(range(-3, 11)) if whole else list(HOSTILE)
    known: list[Any] = list(range(30)) if whole else [*HOSTILE, *map(str, range(20))]
    keys = [known[place] for place in rng.integers(0, len(known), 30)]
    orders = {
        "who": [ids[place] for place in rng.integers(0, len(ids), 30)],
        "id": keys,
        "day": [int(each) for each in rng.integers(0, 9, 30)],
    }
    lines = {
        "id": [keys[place] for place in rng.integers(0, 30, 60)],
        "x": [int(each) for each in rng.integers(0, 99, 60)],
    }
    return orders, lines


def engines() -> Mapping[str, float]:
    """Count persons read differently after adding one with hostile cells, for every kind of source."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = None
        with suppress(NoServerError):
            address = stack.enter_context(temporary_server()).address if sized(True, False) else None
        found = _compared(Places(folder, address), (*KINDS, *(["postgres"] if address else [])))
        gc.collect()  # a table holds a connection as long as it lives
        return found


def on_spark() -> Mapping[str, float]:
    """Compare the rows that Spark hands over with those of plain lists."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _compared(Places(Path(folder), spark=session), ("lists", "spark"))
    finally:
        session.stop()


def _compared(places: Places, kinds: Sequence[str]) -> Mapping[str, float]:
    rng = np.random.default_rng(36)
    differ = couplings = 0
    for number in range(sized(6, 1)):
        orders, lines = made(rng, whole=number % 2 == 1)
        here = [kind for kind in kinds if number < 2 or kind not in _SLOW]
        found = [rows_of(shop(places, kind, orders, lines)) for kind in here]
        differ += sum(int(each != found[0]) for each in found)
        couplings += sum(_couplings(places, kind, orders, lines) for kind in here)
    return {"differ": differ, "couplings": couplings, "kinds": len(kinds)}


def _couplings(places: Places, kind: str, orders: Mapping[str, list[Any]], lines: Mapping[str, list[Any]]) -> int:
    """Take each of a few persons out, with all rows on which they have a claim, and count others who changed."""
    before = rows_of(shop(places, kind, orders, lines))
    changed = 0
    for person in sorted(set(orders["who"]))[:4]:
        claimed = {key for who, key in zip(orders["who"], orders["id"], strict=True) if who == person}
        left = _where(orders, [who != person for who in orders["who"]])
        below = _where(lines, [key not in claimed for key in lines["id"]])
        after = rows_of(shop(places, kind, left, below))
        for one, other in zip(before, after, strict=True):
            changed += sum(one.get(who) != other.get(who) for who in {*one, *other} - {str(person)})
    return changed


def _where(columns: Mapping[str, list[Any]], kept: list[bool]) -> dict[str, list[Any]]:
    return {name: [cell for cell, stays in zip(cells, kept, strict=True) if stays] for name, cells in columns.items()}


def main() -> None:
    """Print all numbers."""
    for measure in (brute_force, months, engines):
        print(measure.__name__, dict(measure()))


if __name__ == "__main__":
    main()

"""Several tables about the same people: who is touched when a person leaves, on every kind of source.

python -m benchmarks.tables
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.tables_brute_force import owned_rows, sampled, two_levels, violations

#: Ids and keys that an engine may confuse.
HOSTILE = ("007", "7", "ann", "ANN", "a ", "a", "\u00e9", "e\u0301", "1:2", "x'y", "NULL", "true", "1e3", "-0")


def brute_force() -> Mapping[str, float]:
    """Take every person out of all databases of two levels, and out of random ones with values of two and three."""
    rows, sample = sized((4, 3), (2, 1)), sized(20_000, 50)
    every = violations(list(two_levels(most_top=rows[0], most_low=rows[1])))
    two, three = (violations(list(sampled(sample, levels=levels, seed=levels))) for levels in (2, 3))
    return {"pairs": every[0] + two[0] + three[0], "violations": every[1] + two[1] + three[1]}


def _orders(folder: Path, kind: str, columns: Mapping[str, list[Any]], name: str) -> Any:
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
    path = folder / f"{name}.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    else:
        pd.DataFrame(columns).to_csv(path, index=False)
    return path


KINDS = ("lists", "arrow", "pandas", "polars", "duckdb", "parquet", "csv")


def _shop(folder: Path, kind: str, orders: Mapping[str, list[Any]], lines: Mapping[str, list[Any]]) -> sl.Database:
    x = sl.Number("x", lower=0, upper=99, granularity=1)
    day = sl.Number("day", lower=0, upper=9, granularity=1)
    who, via = sl.PersonId("who", max_rows=9), sl.PersonVia("id", to="orders", max_rows=99)
    return sl.Database(
        {
            "orders": sl.Table(_orders(folder, kind, orders, "orders"), schema=[who, sl.Key("id"), day]),
            "lines": sl.Table(_orders(folder, kind, lines, "lines"), schema=[via, x]),
        },
        name="shop",
    )


def _rows_of(database: sl.Database) -> Any:
    view = database.view("lines", columns=["orders.day"])
    folded = database.view("orders", total=sl.fold.sum("lines", "x"), last=sl.fold.last("lines", "x", order="x"))
    return owned_rows(view), owned_rows(folded)


def engines() -> Mapping[str, float]:
    """Add a person with hostile cells and keys of others to every kind of source; look for anybody read differently."""
    rng = np.random.default_rng(36)
    differ = couplings = 0
    for _ in range(sized(6, 1)):
        people = [str(each) for each in rng.choice(HOSTILE, 30)]
        keys = [str(each) for each in rng.choice([*HOSTILE, *map(str, range(20))], 30)]
        orders: dict[str, list[Any]] = {
            "who": people,
            "id": keys,
            "day": [int(each) for each in rng.integers(0, 9, 30)],
        }
        lines: dict[str, list[Any]] = {
            "id": [str(each) for each in rng.choice(keys, 60)],
            "x": [int(each) for each in rng.integers(0, 99, 60)],
        }
        with tempfile.TemporaryDirectory() as folder:
            found = [_rows_of(_shop(Path(folder), kind, orders, lines)) for kind in KINDS]
            differ += sum(int(each != found[0]) for each in found)
            couplings += sum(_couplings(Path(folder), kind, orders, lines) for kind in KINDS)
    return {"differ": differ, "couplings": couplings}


def _couplings(folder: Path, kind: str, orders: Mapping[str, list[Any]], lines: Mapping[str, list[Any]]) -> int:
    """Take each of a few persons out, with all rows on which they have a claim, and count others who changed."""
    before = _rows_of(_shop(folder, kind, orders, lines))
    changed = 0
    for person in sorted(set(orders["who"]))[:4]:
        claimed = {key for who, key in zip(orders["who"], orders["id"], strict=True) if who == person}
        left = _where(orders, [who != person for who in orders["who"]])
        below = _where(lines, [key not in claimed for key in lines["id"]])
        after = _rows_of(_shop(folder, kind, left, below))
        for one, other in zip(before, after, strict=True):
            changed += sum(one.get(who) != other.get(who) for who in {*one, *other} - {person})
    return changed


def _where(columns: Mapping[str, list[Any]], kept: list[bool]) -> dict[str, list[Any]]:
    return {name: [cell for cell, stays in zip(cells, kept, strict=True) if stays] for name, cells in columns.items()}


def main() -> None:
    """Print all numbers."""
    for measure in (brute_force, engines):
        print(measure.__name__, dict(measure()))


if __name__ == "__main__":
    main()

"""What a view of several tables costs, on TPC-H: processor time against DuckDB's own join, memory, the error of Q4.

    python -m benchmarks.tables_cost [folder of Parquet files of scale factor 1] [one of scale factor 10]

Processor time of all threads, files in the page cache, DuckDB with one thread; modules are loaded before.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import sidelight as sl
from benchmarks import tpch
from benchmarks.measuring import sized
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.view_rows import open_view

#: The most rows of a customer that count where rows are capped by their mix: one of 13 customers has more.
CAP = 100
_TABLES = "customer,orders,lineitem"
_LINES = "'{folder}/lineitem.parquet' JOIN '{folder}/orders.parquet' ON l_orderkey = o_orderkey"
_KEYS = {
    "customer": ("c_custkey",),
    "orders": ("o_custkey", "o_orderkey"),
    "lineitem": ("l_orderkey",),
}
#: DuckDB's own statement for each release.
THEIRS = {
    "folds by a key": "SELECT AVG(LEAST(x, 5000)) FROM (SELECT o_custkey, SUM(l_quantity) AS x FROM "
    "'{folder}/orders.parquet' LEFT JOIN '{folder}/lineitem.parquet' ON l_orderkey = o_orderkey GROUP BY 1)",
    "folds by the person": "SELECT AVG(x) FROM (SELECT c_custkey, COUNT(o_orderkey) AS x FROM "
    "'{folder}/customer.parquet' LEFT JOIN '{folder}/orders.parquet' ON c_custkey = o_custkey GROUP BY 1)",
    "totals": "SELECT l_returnflag, l_linestatus, SUM(x) FROM (SELECT o_custkey, l_returnflag, l_linestatus, "
    f"SUM(l_quantity) AS x FROM {_LINES} GROUP BY 1, 2, 3) GROUP BY 1, 2",
    "lookups": "SELECT c_mktsegment, SUM(x) FROM (SELECT o_custkey, c_mktsegment, SUM(l_quantity) AS x FROM "
    f"{_LINES} JOIN '{{folder}}/customer.parquet' ON o_custkey = c_custkey GROUP BY 1, 2) GROUP BY 1",
    "capped": f"SELECT o_orderpriority, COUNT(*) FROM {_LINES} GROUP BY 1",
}


def database(folder: Path, *, orders: int = 60) -> sl.Database:
    """Declare customers, orders and lines; `orders` are how many of a customer count."""

    def table(name: str, *schema: Any) -> sl.Table:
        return sl.Table(folder / f"{name}.parquet", schema=list(schema))

    def category(name: str, labels: list[str]) -> sl.Category:
        return sl.Category(name, labels, other=None)

    dates = {"start": "1992-01-01", "end": "1998-12-31"}
    segments = ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]
    priorities = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
    return sl.Database(
        {
            "customer": table("customer", sl.PersonId("c_custkey", max_rows=1), category("c_mktsegment", segments)),
            "orders": table(
                "orders",
                sl.PersonId("o_custkey", max_rows=orders),
                sl.Key("o_orderkey"),
                sl.Date("o_orderdate", **dates),
                category("o_orderpriority", priorities),
            ),
            "lineitem": table(
                "lineitem",
                sl.PersonVia("l_orderkey", to="orders", max_rows=CAP),
                sl.Number("l_quantity", lower=0, upper=50, granularity=1),
                category("l_returnflag", ["A", "N", "R"]),
                category("l_linestatus", ["F", "O"]),
                sl.Date("l_commitdate", **dates),
                sl.Date("l_receiptdate", **dates),
            ),
        },
        name="shop",
    )


def _releases(shop: sl.Database) -> dict[str, tuple[Any, Any]]:
    """Return the query and the view of each release."""
    flags, number = ["l_returnflag", "l_linestatus"], {"person_total": 5000, "epsilon": 1}
    spent = sl.fold.sum("lineitem", "l_quantity", lower=0, upper=5000)
    orders = sl.fold.count("orders", upper=60)
    return {
        "folds by a key": (sl.Mean("x", epsilon=1), sl.per_person(shop, of="orders", x=spent)),
        "folds by the person": (sl.Mean("x", epsilon=1), sl.per_person(shop, of="customer", x=orders)),
        "totals": (sl.Sum("l_quantity", by=flags, **number), "lineitem"),
        "lookups": (sl.Sum("l_quantity", by="customer.c_mktsegment", **number), "lineitem"),
        "capped": (
            sl.Count(by="orders.o_orderpriority", max_groups=5, max_rows_per_group=CAP, epsilon=1),
            "lineitem",
        ),
    }


def _seconds(action: Callable[[], Any]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def costs_of(folder: Path) -> dict[str, tuple[float, float]]:
    """Return the processor seconds of each release, and of DuckDB's own statement."""
    shop = database(folder)
    session = sl.Session(shop, budget=sl.PureDP(10**6))
    releases = _releases(shop)
    small = sl.Table({"who": [1], "x": [1]}, schema=[sl.PersonId("who", max_rows=1), sl.Number("x", lower=0, upper=9)])
    other = sl.Database({"small": small}, name="small")
    sl.Session(other, budget=sl.PureDP(1)).release(sl.Mean("x", epsilon=1), of="small")  # modules are loaded once
    found = {}
    for name, (query, of) in releases.items():
        ours = _seconds(lambda query=query, of=of: session.release(query, of=of))  # type: ignore[misc]
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SET enable_progress_bar = false")
            statement = THEIRS[name].format(folder=folder)
            theirs = _seconds(lambda run=connection, text=statement: run.execute(text).fetchall())  # type: ignore[misc]
        found[name] = (ours, theirs)
    return found


def q4_of(folder: Path) -> float:
    """Return the largest relative error of Q4 in a priority, noise and bias, at epsilon 1 with 5 orders a customer."""
    shop = database(folder, orders=5)
    late = sl.fold.any("lineitem", sl.col("l_commitdate") < sl.col("l_receiptdate"))
    table = open_view(shop.view("orders", late=late))
    date = sl.col("o_orderdate")
    where = (date >= "1993-07-01") & (date < "1993-10-01") & (sl.col("late") == "true")
    groups = groups_of(table.schema, by="o_orderpriority", where=where, max_groups=5, max_rows_per_group=5)
    found = group_counts(table, groups)
    with duckdb.connect() as connection:
        for path in folder.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        truth = np.array([row[1] for row in connection.execute(tpch.QUERIES[4][0]).fetchall()], float)
    variance = 2 * float(found.sensitivity) ** 2  # of Laplace noise at epsilon 1
    return float((np.sqrt((np.asarray(found.value, float) - truth) ** 2 + variance) / truth).max())


@cache
def cost() -> Mapping[str, float]:
    """Return the largest ratio of totals, folds and lookups, that of capped rows, and the error of Q4."""
    folder = tpch.made(sized("1", "0.01"), tables=_TABLES)
    try:
        found = costs_of(folder)
        error = q4_of(folder)
    finally:
        shutil.rmtree(folder)
    ratios = {name: ours / theirs for name, (ours, theirs) in found.items()}
    capped = ratios.pop("capped")
    return {"totals": max(ratios.values()), "capped": capped, "q4": error}


@cache
def memory() -> Mapping[str, float]:
    """Return the peak of memory, in GiB, of the release of totals in a process of its own, at scale factor 10."""
    folder = tpch.made(sized("10", "0.01"), tables=_TABLES)
    try:
        return {"gib": _peak(folder)}
    finally:
        shutil.rmtree(folder)


@cache
def memory_of_texts() -> Mapping[str, float]:
    """Return the peak at scale factor 1 with ids and keys that are texts and spell no whole numbers."""
    folder = tpch.made(sized("1", "0.01"), tables=_TABLES)
    try:
        with duckdb.connect(config={"threads": 1}) as connection:
            for table, keys in _KEYS.items():
                texts = ", ".join(f"'k' || {key} AS {key}" for key in keys)
                path = folder / f"{table}.parquet"
                given = f"SELECT * REPLACE ({texts}) FROM '{path}'"
                connection.execute(f"COPY ({given}) TO '{path}.new' (FORMAT parquet)")
                Path(f"{path}.new").replace(path)
        return {"gib": _peak(folder)}
    finally:
        shutil.rmtree(folder)


def _peak(folder: Path) -> float:
    program = [sys.executable, "-m", "benchmarks.tables_cost", "--peak", str(folder)]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()[-1])


def main() -> None:
    """Print all numbers of the folders that are given, or of tables that are made."""
    if sys.argv[1:2] == ["--peak"]:
        shop = database(Path(sys.argv[2]))
        session = sl.Session(shop, budget=sl.PureDP(10))
        query, of = _releases(shop)["totals"]
        session.release(query, of=of)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
        return
    given = [Path(each) for each in sys.argv[1:]]
    if not given:
        print(dict(cost()), dict(memory()), dict(memory_of_texts()))
        return
    for name, (ours, theirs) in costs_of(given[0]).items():
        print(f"{name}: {ours:.2f} s, DuckDB {theirs:.2f} s, {ours / theirs:.2f}", flush=True)
    print("Q4", q4_of(given[0]))
    if len(given) > 1:
        print("GiB", _peak(given[1]))


if __name__ == "__main__":
    main()

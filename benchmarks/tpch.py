"""TPC-H with the customer as the protected person: its queries as statements over a database, compared with DuckDB.

    python -m benchmarks.tpch [folder]

Data are made by `tpchgen-cli` (PyPI), at scale factor 0.01 unless a folder of Parquet files is given. Noise is off, as
far as a price of 1e9 goes, and every cap lies above the data, so that an answer must be that of DuckDB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np

import sidelight as sl
from benchmarks.measuring import AbsentError, sized
from sidelight.aggregates.group_sums import group_statistics
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.values import vector_of
from sidelight.errors import SidelightError
from sidelight.mechanisms import additive

MONEY: dict[str, Any] = {"lower": 0, "granularity": "0.01"}
REVENUE = "SUM(l_extendedprice * (1 - l_discount))"
#: Above what any customer pays, in all years.
LARGE = 10**7


def made(scale: str = "0.01", *, tables: str = "") -> Path:
    """Make the tables, or those that are named, with commas between them, in a temporary folder."""
    program = shutil.which("tpchgen-cli")
    if program is None:
        raise AbsentError("tpchgen-cli is not installed: pip install tpchgen-cli")
    folder = Path(tempfile.mkdtemp(prefix="tpch-"))
    chosen = [f"--tables={tables}"] if tables else []
    command = [program, "parquet", "-s", scale, f"--output-dir={folder}", *chosen]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def database(folder: Path) -> sl.Database:
    """Declare the eight tables: customers, orders and lines are private, code lists and suppliers are public."""

    def labels(table: str, column: str) -> list[str]:
        """Return the labels of a public column."""
        found = duckdb.sql(f"SELECT DISTINCT {column} FROM '{folder}/{table}.parquet' ORDER BY 1").fetchall()
        return [row[0] for row in found]

    def table(name: str, schema: list[Any], *, public: bool = False) -> sl.Table:
        return sl.Table(folder / f"{name}.parquet", schema=schema, public=public)

    def category(name: str, found: list[str]) -> sl.Category:
        return sl.Category(name, found, other=None)

    nations = labels("nation", "n_name")
    dates = {"start": "1992-01-01", "end": "1998-12-31"}
    return sl.Database(
        {
            "customer": table(
                "customer",
                [
                    sl.PersonId("c_custkey", max_rows=1),
                    sl.Reference("c_nationkey", to="nation"),
                    sl.Number("c_nationkey", lower=0, upper=24, granularity=1),
                    category("c_mktsegment", ["AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"]),
                    sl.Number("c_acctbal", lower=-1000, upper=10000, granularity="0.01"),
                ],
            ),
            "orders": table(
                "orders",
                [
                    sl.PersonId("o_custkey", max_rows=60),
                    sl.Key("o_orderkey"),
                    sl.Date("o_orderdate", **dates),
                    category("o_orderstatus", ["F", "O", "P"]),
                    category("o_orderpriority", ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]),
                ],
            ),
            "lineitem": table(
                "lineitem",
                [
                    sl.PersonVia("l_orderkey", to="orders", max_rows=400),
                    sl.Reference("l_partkey", to="part"),
                    sl.Reference("l_suppkey", to="supplier"),
                    sl.Reference("l_partkey", "l_suppkey", to="partsupp"),
                    sl.Number("l_quantity", lower=0, upper=50, granularity=1),
                    sl.Number("l_extendedprice", upper=110_000, **MONEY),
                    sl.Number("l_discount", lower=0, upper="0.1", granularity="0.01"),
                    sl.Number("l_tax", lower=0, upper="0.08", granularity="0.01"),
                    category("l_returnflag", ["A", "N", "R"]),
                    category("l_linestatus", ["F", "O"]),
                    category("l_shipmode", ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"]),
                    category("l_shipinstruct", ["COLLECT COD", "DELIVER IN PERSON", "NONE", "TAKE BACK RETURN"]),
                    sl.Date("l_shipdate", **dates),
                    sl.Date("l_commitdate", **dates),
                    sl.Date("l_receiptdate", **dates),
                ],
            ),
            "part": table(
                "part",
                [
                    sl.Key("p_partkey"),
                    category("p_name", labels("part", "p_name")),
                    category("p_type", labels("part", "p_type")),
                    category("p_brand", labels("part", "p_brand")),
                    category("p_container", labels("part", "p_container")),
                    sl.Number("p_size", lower=1, upper=50, granularity=1),
                ],
                public=True,
            ),
            "partsupp": table(
                "partsupp",
                [sl.Key("ps_partkey", "ps_suppkey"), sl.Number("ps_supplycost", upper=1000, **MONEY)],
                public=True,
            ),
            "supplier": table(
                "supplier",
                [
                    sl.Key("s_suppkey"),
                    sl.Reference("s_nationkey", to="nation"),
                    sl.Number("s_nationkey", lower=0, upper=24, granularity=1),
                    category("s_name", labels("supplier", "s_name")),
                ],
                public=True,
            ),
            "nation": table(
                "nation",
                [sl.Key("n_nationkey"), sl.Reference("n_regionkey", to="region"), category("n_name", nations)],
                public=True,
            ),
            "region": table(
                "region",
                [sl.Key("r_regionkey"), category("r_name", labels("region", "r_name"))],
                public=True,
            ),
        },
        name="shop",
    )


_Q7 = """
SELECT supp_nation, cust_nation, l_year, SUM(volume) AS revenue
FROM (
    SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, EXTRACT(YEAR FROM l_shipdate) AS l_year,
           l_extendedprice * (1 - l_discount) AS volume
    FROM supplier, lineitem, orders, customer, nation n1, nation n2
    WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
      AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey
      AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE'))
      AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
) AS shipping
GROUP BY supp_nation, cust_nation, l_year ORDER BY supp_nation, cust_nation, l_year"""

_Q8 = """
SELECT o_year, SUM(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / SUM(volume) AS mkt_share
FROM (
    SELECT EXTRACT(YEAR FROM o_orderdate) AS o_year, l_extendedprice * (1 - l_discount) AS volume, n2.n_name AS nation
    FROM part, supplier, lineitem, orders, customer, nation n1, nation n2, region
    WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey AND o_custkey = c_custkey
      AND c_nationkey = n1.n_nationkey AND n1.n_regionkey = r_regionkey AND r_name = 'AMERICA'
      AND s_nationkey = n2.n_nationkey AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
      AND p_type = 'ECONOMY ANODIZED STEEL'
) AS all_nations
GROUP BY o_year ORDER BY o_year"""

_Q9 = """
SELECT nation, o_year, SUM(amount) AS sum_profit
FROM (
    SELECT n_name AS nation, EXTRACT(YEAR FROM o_orderdate) AS o_year,
           l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
    FROM part, supplier, lineitem, partsupp, orders, nation
    WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey AND p_partkey = l_partkey
      AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_name LIKE '%green%'
) AS profit
GROUP BY nation, o_year ORDER BY nation, o_year DESC"""

_LATE = """FROM lineitem JOIN supplier ON s_suppkey = l_suppkey JOIN nation ON s_nationkey = n_nationkey
    WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate"""
_Q21 = f"""
SELECT late_supplier, COUNT(*) AS numwait
FROM (
    SELECT (SELECT MIN(s_name) {_LATE}) AS late_supplier FROM orders
    WHERE o_orderstatus = 'F' AND (SELECT MIN(n_name) {_LATE}) = 'SAUDI ARABIA'
      AND (SELECT COUNT(DISTINCT s_name) {_LATE}) = 1
      AND (SELECT COUNT(DISTINCT s_name) FROM lineitem JOIN supplier ON s_suppkey = l_suppkey
           WHERE l_orderkey = o_orderkey) >= 2
) AS waiting
GROUP BY late_supplier ORDER BY numwait DESC, late_supplier LIMIT 100"""

#: The queries with private tables, as the benchmark writes them or as the specification rewrites them.
QUERIES: dict[int, tuple[str, dict[str, Any]]] = {
    1: (
        f"""SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
        {REVENUE} AS sum_disc_price, SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge,
        AVG(l_quantity) AS avg_qty, AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc,
        COUNT(*) AS count_order FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
        {"max_groups": 6, "person_total": LARGE},
    ),
    4: (
        """SELECT o_orderpriority, COUNT(*) AS order_count FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-07-01' + INTERVAL '3' MONTH
        AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
        {"max_groups": 5},
    ),
    5: (
        f"""SELECT n_name, {REVENUE} AS revenue FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
        AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
        AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        GROUP BY n_name ORDER BY revenue DESC""",
        {"person_total": LARGE},
    ),
    6: (
        """SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01'
        AND l_shipdate < DATE '1994-01-01' + INTERVAL '1' YEAR AND l_discount BETWEEN 0.05 AND 0.07
        AND l_quantity < 24""",
        {"person_total": LARGE},
    ),
    7: (_Q7, {"person_total": LARGE}),
    8: (_Q8, {"person_total": LARGE}),
    9: (_Q9, {"person_total": LARGE}),
    12: (
        """SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0
        END) AS high_line_count, SUM(CASE WHEN o_orderpriority <> '1-URGENT' AND o_orderpriority <> '2-HIGH' THEN 1
        ELSE 0 END) AS low_line_count FROM orders, lineitem WHERE o_orderkey = l_orderkey
        AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
        AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1994-01-01' + INTERVAL '1' YEAR
        GROUP BY l_shipmode ORDER BY l_shipmode""",
        {"max_groups": 7},
    ),
    13: (
        """SELECT c_count, COUNT(*) AS custdist FROM (SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer
        LEFT JOIN orders ON c_custkey = o_custkey GROUP BY c_custkey) AS c_orders
        GROUP BY c_count ORDER BY custdist DESC, c_count DESC""",
        {},
    ),
    14: (
        f"""SELECT 100.00 * SUM(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
        / {REVENUE} AS promo_revenue FROM lineitem, part WHERE l_partkey = p_partkey
        AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-09-01' + INTERVAL '1' MONTH""",
        {"person_total": LARGE},
    ),
    15: (
        f"""SELECT s_name, {REVENUE} AS total_revenue FROM lineitem JOIN supplier ON l_suppkey = s_suppkey
        WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
        GROUP BY s_name ORDER BY total_revenue DESC LIMIT 1""",
        {"person_total": LARGE},
    ),
    17: (
        """SELECT SUM(l_extendedprice) / 7.0 AS avg_yearly FROM lineitem JOIN part ON p_partkey = l_partkey
        WHERE p_brand = 'Brand#23' AND p_container = 'MED BOX' AND l_quantity < 5""",
        {"person_total": LARGE},
    ),
    19: (
        f"""SELECT {REVENUE} AS revenue FROM lineitem, part WHERE p_partkey = l_partkey
        AND l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
        (p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') AND l_quantity BETWEEN 1
         AND 11 AND p_size BETWEEN 1 AND 5) OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX',
         'MED PKG', 'MED PACK') AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10) OR (p_brand = 'Brand#34'
         AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') AND l_quantity BETWEEN 20 AND 30
         AND p_size BETWEEN 1 AND 15))""",
        {"person_total": LARGE},
    ),
    21: (_Q21, {"max_groups": 60}),
    22: (
        """SELECT n_name, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM customer JOIN nation
        ON c_nationkey = n_nationkey WHERE c_acctbal > 5000 AND NOT EXISTS
        (SELECT * FROM orders WHERE o_custkey = c_custkey) GROUP BY n_name ORDER BY n_name""",
        {},
    ),
}
#: Queries that list orders or customers, or compare each row with an aggregate of all, and what their refusal says.
REFUSED: dict[int, tuple[str, str]] = {
    3: (
        f"""SELECT l_orderkey, {REVENUE} AS revenue FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING'
        AND c_custkey = o_custkey AND l_orderkey = o_orderkey GROUP BY l_orderkey ORDER BY revenue DESC LIMIT 10""",
        "is a key",
    ),
    10: (
        f"""SELECT c_custkey, {REVENUE} AS revenue FROM customer, orders, lineitem WHERE c_custkey = o_custkey
        AND l_orderkey = o_orderkey AND l_returnflag = 'R' GROUP BY c_custkey ORDER BY revenue DESC LIMIT 20""",
        "person",
    ),
    18: (
        """SELECT c_custkey, SUM(l_quantity) FROM customer, orders, lineitem WHERE o_orderkey IN (SELECT l_orderkey
        FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 300) AND c_custkey = o_custkey
        AND o_orderkey = l_orderkey GROUP BY c_custkey""",
        "sub-select|person|key",
    ),
    20: (
        """SELECT COUNT(*) FROM lineitem WHERE l_quantity > (SELECT 0.5 * SUM(l2.l_quantity) FROM lineitem l2
        WHERE l2.l_partkey = lineitem.l_partkey)""",
        "sub-select",
    ),
}


@contextmanager
def no_noise() -> Iterator[None]:
    """Release the exact integers, so that only the counted rows can differ."""

    def zeros(entries: int, scale: Any, source: Any) -> Any:
        return np.zeros(entries, np.int64)

    with patch.object(additive, "discrete_laplace", zeros), patch.object(additive, "rounded_gaussian", zeros):
        yield


def differences(session: sl.Session, folder: Path, number: int) -> list[str]:
    """Return where a statement's answer is not DuckDB's; empty groups must be 0."""
    statement, options = QUERIES[number]
    with no_noise():
        shown = session.sql(statement, epsilon=10**6, **options).shown
    with duckdb.connect() as connection:
        for path in folder.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        result = connection.execute(statement)
        names, rows = [each[0] for each in result.description], result.fetchall()
    keys, size = [*shown.keys_of_groups], len(shown[names[0]])
    numbers = [name for name in names if name not in keys]
    ours = {
        tuple(str(shown[name][at]) for name in keys): [float(shown[name][at]) for name in numbers] for at in range(size)
    }
    found = []
    for row in rows:
        cells = dict(zip(names, row, strict=True))
        key, wanted = tuple(str(cells[name]) for name in keys), [float(cells[name] or 0) for name in numbers]
        if key not in ours or not np.allclose(ours[key], wanted, rtol=1e-6, atol=1e-2):
            found.append(f"{key}: {wanted}, not {ours.get(key)}")
        ours.pop(key, None)
    if len(rows) > 1 or keys:
        found += [f"{key}: nobody" for key, values in ours.items() if abs(values[0]) > 1e-2]
    return found


#: The totals of each customer and group that Q1 and Q9 add up.
_TOTALS = {
    "quantity": """SELECT o_custkey AS who, l_returnflag || '/' || l_linestatus AS g, SUM(l_quantity)::DOUBLE AS x
        FROM '{folder}/lineitem.parquet' JOIN '{folder}/orders.parquet' ON l_orderkey = o_orderkey
        WHERE l_shipdate <= DATE '1998-09-02' GROUP BY 1, 2""",
    "profit": """SELECT o_custkey AS who, n_name || '/' || year(o_orderdate) AS g,
        SUM(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity)::DOUBLE AS x
        FROM '{folder}/lineitem.parquet' JOIN '{folder}/orders.parquet' ON l_orderkey = o_orderkey
        JOIN '{folder}/partsupp.parquet' ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
        JOIN '{folder}/part.parquet' ON p_partkey = l_partkey JOIN '{folder}/supplier.parquet' ON s_suppkey = l_suppkey
        JOIN '{folder}/nation.parquet' ON s_nationkey = n_nationkey WHERE p_name LIKE '%green%' GROUP BY 1, 2""",
}


def errors_of_best_cut(folder: Path, which: str, *, epsilon: Fraction) -> dict[str, float]:
    """Return the relative root mean squared error of each group, noise and bias, at the cut with the least median."""
    with duckdb.connect() as connection:
        rows = connection.sql(_TOTALS[which].format(folder=folder)).to_arrow_table()
        labels = sorted(set(rows["g"].to_pylist()))
        sizes = connection.execute("SELECT SUM(ABS(x)) AS size FROM rows GROUP BY who").fetchnumpy()["size"]
    step = "1" if which == "quantity" else "0.01"
    schema = [sl.PersonId("who", max_rows=200), sl.Category("g", labels, other=None), sl.Number("x", granularity=step)]
    table = sl.Table(rows, schema=schema)
    groups = groups_of(table.schema, by="g", totals="vector")

    def sums(cut: float) -> tuple[Any, float]:
        value, limit = vector_of(table.schema, "x", person_total=cut)
        found = group_statistics(table, replace(groups, totals=limit), [value], kind="whole").values[0]
        scale = found.sensitivity / epsilon * value.whole_step
        return np.asarray(found.value) * float(value.whole_step), float(scale)

    truth, _ = sums(float(sizes.sum()))
    best = np.full(len(labels), np.inf)
    for cut in np.quantile(sizes, [0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999]):
        found, scale = sums(float(cut))
        errors = np.sqrt((found - truth) ** 2 + 2 * scale**2) / np.abs(truth)
        best = errors if np.median(errors) < np.median(best) else best
    return dict(zip(labels, best.tolist(), strict=True))


@cache
def accuracy() -> dict[str, float]:
    """Return the errors of Q1 (six totals share epsilon 1) and of Q9, at scale factor 1."""
    folder = made(sized("1", "0.01"))
    try:
        first = errors_of_best_cut(folder, "quantity", epsilon=Fraction(1, 6))
        ninth = errors_of_best_cut(folder, "profit", epsilon=Fraction(1))
    finally:
        shutil.rmtree(folder)
    large = max(first[name] for name in ("A/F", "N/O", "R/F"))
    return {"large_cells": large, "small_cell": first["N/F"], "median": float(np.median(list(ninth.values())))}


@cache
def measure() -> dict[str, float]:
    """Return how many queries give DuckDB's answer."""
    folder = made()
    try:
        shop = database(folder)
        return {"answered": float(sum(_answers(shop, folder, number) for number in QUERIES))}
    finally:
        shutil.rmtree(folder)


def _answers(shop: sl.Database, folder: Path, number: int) -> bool:
    try:
        return not differences(sl.Session(shop, budget=sl.PureDP(10**6)), folder, number)
    except SidelightError:
        return False


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else made()
    shop = database(place)
    for each in QUERIES if len(sys.argv) < 3 else map(int, sys.argv[2:]):
        try:
            print(each, differences(sl.Session(shop, budget=sl.PureDP(10**6)), place, each)[:3] or "agrees")
        except SidelightError as error:
            print(each, "refused:", error)

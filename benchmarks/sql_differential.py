"""Comparison with DuckDB on thousands of generated SQL statements, with next to no noise.

Each statement is run as it is written by DuckDB and by `sl.SQL` at the largest price there is, on the same capped rows:
with missing cells, groups that may be empty, negative numbers. At that price counts are exact and sums off by less than
a hundredth, so that comparisons, ORDER BY and ROUND are written of counts, which are compared exactly, and what is made
of sums, means and spreads is compared to 0.05 or a thousandth of it. A quantile lies between the two records of DuckDB
with ranks next to the level, or between the outermost one and the declared bound: SQL does not define which number
between them is released.
Compared is what is shown: rows in their order, NULLs and numbers. Differences by design are taken out first: an empty
group has a row here and none there, a NULL key none here; sums and means of no row are NULL there, so that sums stand
in COALESCE and means are asked where there are rows; with missing cells no mean is asked, because a count next to
AVG(x) counts the rows that have an x.
"""

from __future__ import annotations

import datetime
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import AbsentError, sized
from benchmarks.sql_statements import Statement, Writer
from sidelight.errors import SidelightError
from sidelight.testing import seeded_release

STATEMENTS = sized(5000, 60)
#: The largest price of a release.
EPSILON = 10**6
SCHEMA = [
    sl.Category("job", ["clerk", "cook", "nurse", "teacher"], other=None),
    sl.Category("region", ["N", "S"], other=None),
    sl.Number("age", lower=0, upper=100, granularity=1),
    sl.Number("hours", lower=0, upper=60, granularity="0.5"),
    sl.Number("change", lower=-50, upper=50, granularity=1),
    sl.Date("day", start="2023-01-01", end="2024-12-31"),
]
_TYPES = {
    "job": "VARCHAR",
    "region": "VARCHAR",
    "age": "INTEGER",
    "hours": "DOUBLE",
    "change": "INTEGER",
    "day": "DATE",
}


@dataclass
class Rows:
    """The rows of one run: as columns for sidelight, and as a table of DuckDB."""

    table: Any
    connection: Any
    labels: dict[str, list[str]] = field(default_factory=dict)


def made_rows(random: Random, *, full: bool, rows: int) -> Rows:
    """Generate rows within the declared bounds; `full` ones have no missing cell and no empty group."""
    import duckdb

    jobs = ["clerk", "cook", "nurse", "teacher"] if full else ["clerk", "cook", "nurse"]
    first = datetime.date(2023, 1, 1)

    def cell(value: Any) -> Any:
        return None if not full and random.random() < 0.15 else value

    data: dict[str, list[Any]] = {name: [] for name in _TYPES}
    for place in range(rows):
        data["job"].append(cell(jobs[place % len(jobs)] if full else random.choice(jobs)))
        data["region"].append(cell("NS"[place // 4 % 2] if full else random.choice("NS")))
        data["age"].append(cell(random.randint(0, 100)))
        data["hours"].append(cell(random.randint(0, 120) / 2))
        data["change"].append(cell(random.randint(-50, 50)))
        data["day"].append(cell(first + datetime.timedelta(days=random.randint(0, 730))))
    connection = duckdb.connect()
    for setting in ("ieee_floating_point_ops", "error_on_division_by_zero"):  # divided by zero is NULL
        with suppress(duckdb.Error):  # of versions that have no such setting, and give NULL
            connection.execute(f"SET {setting} = false")
    connection.execute(f"CREATE TABLE people ({', '.join(f'{name} {kind}' for name, kind in _TYPES.items())})")
    connection.executemany(
        f"INSERT INTO people VALUES ({', '.join('?' * len(data))})", list(zip(*data.values(), strict=True))
    )
    columns = {name: np.array(values, dtype=object) for name, values in data.items()}
    for name in ("age", "hours", "change"):
        columns[name] = np.array([np.nan if each is None else float(each) for each in data[name]])
    return Rows(table=sl.Table(columns, schema=SCHEMA, name="people"), connection=connection)


# --- comparison -------------------------------------------------------------------------------------------------------


def plain_cell(cell: Any) -> Any:
    """Return a cell as both sides write it: numbers as floats, labels as texts, NULL and an empty text as None."""
    if cell is None or cell == "" or (isinstance(cell, float) and math.isnan(cell)):
        return None
    if isinstance(cell, (bool, np.bool_)):
        return "true" if cell else "false"
    if isinstance(cell, (datetime.date, str)):
        return str(cell)[:10] if isinstance(cell, datetime.date) else cell
    return float(cell)


def same_cells(ours: Any, theirs: Any, exact: bool = True) -> bool:
    """Return whether two cells are the same; numbers that are not exact as far as the noise leaves them."""
    if isinstance(theirs, list):  # the records around a quantile
        low, high = theirs
        return bool(low - 0.05 <= plain_cell(ours) <= high + 0.05)
    first, second = plain_cell(ours), plain_cell(theirs)
    for one, other in ((first, second), (second, first)):
        if isinstance(one, str) and isinstance(other, float):  # a group that is a number
            try:
                return math.isclose(float(one), other, rel_tol=1e-6)
            except ValueError:
                return False
    if isinstance(first, float) and isinstance(second, float):
        near = {"rel_tol": 1e-9, "abs_tol": 1e-9} if exact else {"rel_tol": 1e-3, "abs_tol": 0.05}
        return math.isclose(first, second, **near)
    return first == second


def their_rows(statement: Statement, rows: Rows) -> list[tuple[Any, ...]]:
    """Return DuckDB's answer without groups of a NULL key."""
    keys = len(statement.keys)
    text = statement.text
    for quantile, around in statement.bracketed.items():
        text = text.replace(quantile, around)
    found = rows.connection.execute(text).fetchall()
    return [row for row in found if None not in row[:keys]]


def our_rows(statement: Statement, rows: Rows) -> list[tuple[Any, ...]]:
    """Return what sidelight shows, without groups that no row is in."""
    release = seeded_release(sl.SQL(statement.text, epsilon=EPSILON), rows.table, seed=statement.text)
    shown = release.shown
    found = list(zip(*(list(shown[name]) for name in statement.columns), strict=True))
    if not statement.keys or statement.limited:
        return found
    where = f" WHERE {statement.where}" if statement.where else ""
    there = rows.connection.execute(f"SELECT DISTINCT {', '.join(statement.keys)} FROM people{where}").fetchall()
    known = [row for row in there if None not in row]
    keys = len(statement.keys)
    return [row for row in found if any(all(map(same_cells, row[:keys], each)) for each in known)]


def differs(statement: Statement, rows: Rows) -> str:
    """Return how the two answers differ; "" where they are the same."""
    theirs, ours = their_rows(statement, rows), our_rows(statement, rows)
    if len(ours) != len(theirs):
        return f"{len(ours)} rows for {len(theirs)}"
    for first, second in zip(ours, theirs, strict=True):
        wrong = [
            name
            for name, a, b, exact in zip(statement.columns, first, second, statement.exact, strict=True)
            if not same_cells(a, b, exact)
        ]
        if wrong:
            return f"{wrong}: {first} for {second}"
    return ""


def compared(count: int, *, seed: int) -> Iterator[tuple[Statement, str, str]]:
    """Yield statements, how they differ, and why one was refused."""
    random = Random(seed)
    tables = {full: made_rows(random, full=full, rows=320 if full else 90) for full in (True, False)}
    writer = Writer(random)
    done = 0
    refused = 0
    while done < count and refused < count:
        statement = writer.statement()
        try:
            found = differs(statement, tables[statement.full])
        except SidelightError as error:
            refused += 1
            yield statement, "", str(error)
            continue
        done += 1
        yield statement, found, ""


def measure(count: int = STATEMENTS, seed: int = 34) -> dict[str, float]:
    """Return how many of the statements that are understood differ, and how many of all were refused."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise AbsentError("duckdb is not installed; pip install duckdb") from None
    differing, refused, total = 0, Counter[str](), 0
    for statement, found, why in compared(count, seed=seed):
        if why:
            refused[why[:90]] += 1
            continue
        total += 1
        if found:
            differing += 1
            print(f"{statement.text}\n    {found}", file=sys.stderr)
    for why, times in refused.most_common(5):
        print(f"refused {times} times: {why}", file=sys.stderr)
    return {"differs": differing, "compared": total, "refused": sum(refused.values())}


def main(arguments: Sequence[str] = ()) -> None:
    """Print what is measured; an argument is the number of statements."""
    print(measure(int(arguments[0])) if arguments else measure())


if __name__ == "__main__":
    main(sys.argv[1:])

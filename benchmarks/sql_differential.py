"""Does a statement mean what it means in DuckDB? Thousands of generated statements, with next to no noise, against it.

Each statement is run as it is written by DuckDB and by `sl.SQL` at the largest price there is, on the same capped rows:
with missing cells, groups that may be empty, negative numbers. At that price counts are exact and sums off by less than
a hundredth, so that comparisons, ORDER BY and ROUND are written of counts, which are compared exactly, and what is made
of sums, means and spreads is compared to 0.05 or a thousandth of it.
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
GROUPS = [
    "job",
    "job",
    "region",
    "CASE WHEN age < 18 THEN 'child' WHEN age BETWEEN 18 AND 64 THEN 'adult' ELSE 'old' END",
    "CASE WHEN hours >= 20 THEN 1 WHEN hours < 10 THEN 0 END",
    "CASE WHEN job IN ('cook', 'nurse') THEN 'hands' ELSE 'desk' END",
    "CASE WHEN age IS NULL THEN 'unknown' ELSE 'known' END",
    "age >= 50",
    "UPPER(job)",
    "job || '!'",
    "EXTRACT(year FROM day)",
    "EXTRACT(month FROM day)",
    "quarter(day)",
    "isodow(day)",
    "dayofweek(day)",
    "CAST(FLOOR(age / 25) AS INTEGER)",
    "change % 3",
    "COALESCE(region, 'none')",
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
class Statement:
    """A generated statement, and what of it cannot be compared as it stands."""

    text: str
    keys: list[str]
    where: str
    limited: bool
    columns: list[str]
    exact: list[bool]  # of each column
    full: bool  # of the table without missing cells and with every group


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


# --- statements -------------------------------------------------------------------------------------------------------


class Writer:
    """Writes statements at random."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._pick = random.choice

    def statement(self) -> Statement:
        """Return one statement."""
        random, full = self._random, self._random.random() < 0.5
        groups = random.sample(GROUPS, random.choice([0, 1, 1, 1, 2]))
        keys = [f"k{place}" for place in range(len(groups))]
        where = self._condition(1) if random.random() < (0.25 if full else 0.5) else ""
        means = full and (not where or bool(groups))
        spreads = full and not where and not groups
        made = [self._scalar(means=means, spreads=spreads) for _ in range(random.randint(1, 3))]
        names = [f"c{place}" for place in range(len(made))]
        shown = [
            f"{of} AS {name}" for of, name in zip([*groups, *(text for text, _ in made)], [*keys, *names], strict=True)
        ]
        parts = [f"SELECT {', '.join(shown)} FROM {self._pick(['people', 'people', 'main.people'])}"]
        parts += [f"WHERE {where}"] if where else []
        limited = False
        if groups:
            by = self._pick([groups, keys, [str(place + 1) for place in range(len(groups))]])
            parts.append(f"GROUP BY {', '.join(by)}")
            parts += [f"HAVING {self._truth(0)}"] if random.random() < 0.3 else []
            exact = [name for name, (_, whole) in zip(names, made, strict=True) if whole]
            order = [*exact, *keys] if random.random() < 0.5 else list(keys)
            ways = [f"{each}{self._pick(['', ' DESC', ' ASC NULLS FIRST', ' DESC NULLS LAST'])}" for each in order]
            parts.append(f"ORDER BY {', '.join(ways)}")
            limited = (full and not where and groups == ["job"]) or (groups == ["region"] and full and not where)
            parts += [f"LIMIT {random.randint(1, 4)}" + self._pick(["", " OFFSET 1"])] if limited else []
        text = " ".join(parts)
        if random.random() < 0.08:
            text = f"WITH t AS ({text}) SELECT * FROM t"
        elif random.random() < 0.08:
            text = text.replace("FROM people", "FROM (SELECT * FROM people) p")
        return Statement(
            text=text,
            keys=groups,
            where=where,
            limited=limited,
            columns=[*keys, *names],
            full=full,
            exact=[True] * len(keys) + [whole for _, whole in made],
        )

    def _count(self) -> str:
        return self._pick(
            [
                "COUNT(*)",
                f"COUNT(*) FILTER (WHERE {self._condition(0)})",
                f"COUNT({self._pick(['age', 'hours', 'change', 'job'])})",
                f"COALESCE(SUM(CASE WHEN {self._condition(0)} THEN 1 ELSE 0 END), 0)",
                f"COUNT(CASE WHEN {self._condition(0)} THEN 1 END)",
                f"COALESCE(COUNT_IF({self._condition(0)}), 0)",  # NULL there where no condition is known
                "COUNT(DISTINCT job)",
            ]
        )

    def _number(self, *, means: bool, spreads: bool) -> str:
        """Return an aggregate that is not a count."""
        number = self._pick(["age", "hours", "change"])
        of = self._pick([number, number, f"{number} * 2", f"{number} - 1", "age + change", "ABS(change)", "-change"])
        made = [
            f"SUM({of})",
            f"SUM(CASE WHEN {self._condition(0)} THEN {number} ELSE 0 END)",
            f"SUM(COALESCE({number}, 0))",
        ]
        made = [f"COALESCE({each}, 0)" for each in made]
        if means:
            made += [f"AVG({number})", f"AVG({number} + 1)"]
            made += ["AVG(CASE WHEN age >= 50 THEN 1 ELSE 0 END)", "AVG(CAST(job = 'cook' AS INTEGER))"]
        if spreads:
            made += [f"VAR_SAMP({number})", f"STDDEV_POP({number})", f"VAR_POP({number})", f"STDDEV({number})"]
        return self._pick(made)

    def _scalar(self, *, means: bool, spreads: bool) -> tuple[str, bool]:
        """Return a scalar, and whether it is exact."""
        if self._random.random() < 0.35:
            first, second = self._number(means=means, spreads=spreads), self._count()
            forms = ["{a}", "{a} + {b}", "{a} - 2.5", "0.1 * {a}", "{a} / NULLIF({b}, 0)", "{a} / {b}"]
            forms += ["ABS({a} - {b})", "GREATEST({a}, {b})", "LEAST({a}, {b}, 10)", "COALESCE({a}, {b})", "-({a})"]
            forms += ["CAST({a} AS DOUBLE) / 4"]
            return self._pick(forms).format(a=first, b=second), False
        return self._exact(0), True

    def _exact(self, depth: int) -> str:
        first = self._count()
        if depth > 1 or self._random.random() < 0.3:
            return first
        other = self._exact(depth + 1)
        forms = ["{a} + {b}", "{a} - {c}", "{c} * ({a})", "({a}) / NULLIF({b}, 0)", "({a}) / ({b})", "-({a})"]
        forms += [
            "ROUND(({a}) / 7, {d})",
            "ROUND({a} * 0.25, 1)",
            "ROUND({a})",
            "ABS({a} - ({b}))",
            "GREATEST({a}, {b})",
        ]
        forms += ["LEAST({a}, {b}, 10)", "COALESCE(NULLIF({a}, 3), {b})", "CASE WHEN {a} > {b} THEN {a} ELSE -1 END"]
        forms += ["{a} // 3", "{a} % 5", "CASE {a} WHEN 3 THEN 1 ELSE {b} END", "FLOOR({a} / 4)", "CEIL({a} / 3)"]
        forms += ["CASE WHEN {t} THEN 1 WHEN {u} THEN 2 END", "CAST({a} AS DOUBLE) / 4", "CAST({a} / 8 AS INTEGER)"]
        forms += ["COALESCE(NULL, {a})"]
        found = self._pick(forms)
        truths = {name: self._truth(depth + 1) if f"{{{name}}}" in found else "" for name in "tu"}
        return found.format(a=first, b=other, c=self._constant(), d=self._random.randint(0, 2), **truths)

    def _truth(self, depth: int) -> str:
        left = self._count()
        made = [
            f"{left} {self._pick(['>', '>=', '<', '<=', '=', '<>'])} {self._constant()}",
            f"{left} {self._pick(['', 'NOT '])}BETWEEN 3 AND 40",
            f"{left} {self._pick(['', 'NOT '])}IN (1, 2, 3, 5, 8, 13, 21)",
            f"{left} IN (1, NULL)",
            f"NULLIF({left}, 4) IS {self._pick(['', 'NOT '])}NULL",
            f"({left} > 3) IS NOT TRUE",
        ]
        if depth < 2:
            other = self._truth(depth + 1)
            made += 2 * [f"({self._truth(depth + 1)}) {self._pick(['AND', 'OR'])} {self._pick(['', 'NOT '])}({other})"]
        return self._pick(made)

    def _condition(self, depth: int) -> str:
        made = [
            f"age {self._pick(['>', '>=', '<', '<=', '=', '<>'])} {self._random.randint(0, 100)}",
            f"hours {self._pick(['>', '<='])} {self._random.randint(0, 60)}.5",
            "change < 0",
            "age + change > 60",
            f"age {self._pick(['', 'NOT '])}BETWEEN 18 AND 64",
            f"job {self._pick(['', 'NOT '])}IN ('cook', 'nurse')",
            "region = 'N'",
            "region <> 'N'",
            f"job {self._pick(['', 'NOT '])}LIKE '{self._pick(['c%', '%e%', '_ook', '%', 'x%'])}'",
            f"age IS {self._pick(['', 'NOT '])}NULL",
            "job IS NULL",
            "day >= DATE '2024-01-01'",
            "EXTRACT(month FROM day) <= 6",
            "job > 'cook'",
            "LOWER(region) = 's'",
            "age % 2 = 0",
            "COALESCE(change, 0) >= 0",
            "(age > 30) IS TRUE",
        ]
        if depth:
            word = self._pick(["AND", "OR"])
            made += 4 * [
                f"({self._condition(depth - 1)}) {word} {self._pick(['', 'NOT '])}({self._condition(depth - 1)})"
            ]
        return self._pick(made)

    def _constant(self) -> str:
        return self._pick([str(self._random.randint(0, 60)), "2.5", "0.1", "100.0", "1e1"])


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
    found = rows.connection.execute(statement.text).fetchall()
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

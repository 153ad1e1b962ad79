"""Does a statement with sub-selects by person or key mean what it means in DuckDB? Generated ones, without noise.

Statements aggregate a person's rows in FROM, in WITH, behind a LEFT JOIN or in WHERE, and the rows that name a row's
key; grouped sub-selects are also joined by person or key, and lists are read from a public table. Some statements name
columns of the wrong table, or arguments that are not NULL in the row of NULLs that a LEFT JOIN adds. Tables have
missing cells, people without rows, and people with more rows than max_rows. Compared are counts of rows. Two
differences are meant: a number of rows that is grouped by is clamped to max_rows, and DuckDB is asked for the clamped
one; FIRST and LAST leave out unknown values. A statement that DuckDB refuses must be refused here, and every refusal
must leave the budget as it was.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import sidelight as sl
from benchmarks.measuring import AbsentError, sized
from sidelight.errors import SidelightError

STATEMENTS = sized(600, 20)
#: Fewer than some people have, so that a clamp in the wrong place shows.
MAX_ROWS = 3
#: Of a pair: as many rows of a person count as there are, and the statement makes no pairs.
_ALL = 0
_WHOLE: dict[str, Any] = {"lower": -20, "upper": 20, "granularity": 1}
_SCHEMAS: dict[str, list[Any]] = {
    "patient": [
        sl.PersonId("pid", max_rows=1),
        sl.Category("sex", ["F", "M"], other=None),
        sl.Number("days", **_WHOLE),
        sl.Number("age", **_WHOLE),
    ],
    "visit": [
        sl.PersonId("pid", max_rows=MAX_ROWS),
        sl.Key("vid"),
        sl.Category("kind", ["a", "b", "c"], other=None),
        sl.Category("meant", ["a", "b", "c"], other=None),
        sl.Category("ward", ["west", "east"], other=None),
        sl.Number("days", **_WHOLE),
        sl.Number("cost", **_WHOLE),
        sl.Number("place", lower=0, upper=200, granularity=1),
        sl.Category("usual", ["a", "b", "c"], other=None),
        sl.Reference("code", to="codes"),
    ],
    "codes": [
        sl.Key("code"),
        sl.Category("kind", ["a", "b", "c"], other=None),
        sl.Category("family", ["x", "y"], other=None),
        sl.Number("days", **_WHOLE),
    ],
    "test": [sl.PersonId("pid", max_rows=9), sl.Key("tid"), sl.Number("days", **_WHOLE)],
    "drug": [
        sl.PersonVia("tid", to="test", max_rows=MAX_ROWS),
        sl.Number("dose", **_WHOLE),
        sl.Number("cost", **_WHOLE),
    ],
}
#: Aggregates of the rows of `visit v`, and of those of `drug d`.
_OF_VISITS = (
    "COUNT(*)", "COUNT(1)", "COUNT(v.vid)", "COUNT(v.pid)", "COUNT(v.cost)", "COUNT(cost)", "COUNT(v.kind)",
    "COUNT(v.days + v.cost)", "COUNT(DISTINCT v.days)", "COUNT(DISTINCT v.cost)", "COUNT(DISTINCT kind)", "MIN(v.days)",
    "MAX(v.days)", "MAX(v.cost)", "MIN(cost)", "MIN(v.days - v.cost)", "SUM(v.days)", "SUM(v.cost)",
    "SUM(2 * v.days - v.cost)", "MAX(v.ward)", "MIN(v.ward)", "MAX(zz.days)", "MAX(v.days, 2)", "SUM(v.age)",
    "COUNT(CASE WHEN v.days > 2 THEN 1 END)", "MAX(COALESCE(v.cost, 0))", "SUM(COALESCE(v.days, 1))",
    "SUM(1)", "MAX(3)", "AVG(v.days)", "AVG(cost)", "AVG(v.days - v.cost)", "AVG(v.ward)",
)  # fmt: skip
_OF_PATIENTS = (
    "COUNT(p.pid)", "MAX(p.age)", "MIN(p.days)", "COUNT(DISTINCT p.sex)", "COUNT(DISTINCT p.age)", "SUM(p.age)",
    "COUNT(p.age)", "MAX(days)", "MAX(p.age + v.days)", "MAX(age)", "MAX(COALESCE(p.age, 0))", "AVG(p.age)",
)  # fmt: skip
_OF_DRUGS = (
    "COUNT(*)", "COUNT(d.tid)", "COUNT(d.dose)", "COUNT(DISTINCT d.dose)", "MIN(d.dose)", "MAX(dose)", "MAX(d.cost)",
    "SUM(d.dose)", "SUM(d.dose - d.cost)", "COALESCE(SUM(d.cost), 0)",
    "MAX(t.days)", "MAX(d.dose - d.cost)", "MIN(kind)",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """One statement as it is asked here, and of DuckDB, and how far the answers may be apart."""

    ours: str
    theirs: str
    within: float = 0
    max_rows: int | None = None


class PersonWriter:
    """Writes statements of counts over sub-selects."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def pair(self) -> Pair:
        """Write one statement."""
        return self._random.choice(
            [
                self._grouped,
                self._grouped,
                self._joined,
                self._joined,
                self._scalar,
                self._key,
                self._average,
                self._mean,
                self._pairs,
                self._pairs,
                self._labels,
                self._truths,
                self._one_row,
                self._with,
                self._with,
                self._by_key,
                self._public,
            ]
        )()

    def _condition(self, *names: str) -> str:
        """Write a condition of numbers, which may be missing."""
        random, name = self._random, self._random.choice(names)
        number, other = random.randint(-2, 6), random.choice(names)
        simple = f"{name} {random.choice(['=', '<>', '<', '<=', '>', '>='])} {number}"
        return random.choice(
            [
                simple,
                simple,
                f"NOT {simple}",
                f"{name} IS NULL",
                f"{name} IS NOT NULL",
                f"{name} BETWEEN {number} AND {number + 2}",
                f"{name} IN ({number}, {number + 1}, 4)",
                f"COALESCE({name}, 0) <= {number}",
                f"({simple} OR {other} > {number + 1})",
                f"({simple} AND {other} <= {number + 3})",
                f"{name} + {other} > {number}",
            ]
        )

    def _where(self, chance: float, *names: str, word: str = "WHERE") -> str:
        return f" {word} {self._condition(*names)}" if self._random.random() < chance else ""

    def _around(self, source: str, features: Sequence[str]) -> Pair:
        """Write what is asked of the persons: one count, or one by group."""
        random = self._random
        names = [f"k{at}" for at in range(len(features))]
        qualified = [f"{random.choice(['', '', 't.'])}{name}" for name in names]
        if random.random() < 0.03:
            qualified = [random.choice(["v.k0", "nosuch.k0", "age", "t.days"])]
        counts = [name for name, each in zip(names, features, strict=True) if each.startswith("COUNT(")]
        condition = self._condition(*qualified)
        texts = [
            f"SELECT COUNT(*) AS n FROM {source} WHERE {condition}",
            f"SELECT COUNT(*) FILTER (WHERE {condition}) AS n FROM {source}",
            f"SELECT SUM(CASE WHEN {qualified[0]} > 2 THEN 1 ELSE 0 END) AS n FROM {source}",
            f"SELECT {qualified[0]} >= 2 AS g, COUNT(*) AS n FROM {source}{self._where(0.5, *qualified)} GROUP BY 1",
        ]
        chosen = random.randrange(len(texts) + bool(counts))
        if chosen < len(texts):
            return Pair(texts[chosen], texts[chosen])
        where = self._where(0.6, *qualified)
        text = "SELECT {} AS g, COUNT(*) AS n FROM {}{} GROUP BY {}"
        return Pair(
            text.format(counts[0], source, where, counts[0]),
            text.format(f"LEAST({counts[0]}, {MAX_ROWS})", source, where, "1"),
        )

    def _features(self, choices: Sequence[str]) -> list[str]:
        return [self._random.choice(choices) for _ in range(self._random.choice([1, 1, 2, 3]))]

    def _derived(self, person: str, features: Sequence[str], rows: str) -> Pair:
        listed = ", ".join([person, *(f"{each} AS k{at}" for at, each in enumerate(features))])
        select = f"SELECT {listed} FROM {rows} GROUP BY {person}"
        if self._random.random() < 0.25:
            chosen = self._condition(self._random.choice(_OF_VISITS), "COUNT(*)", "k0", "MAX(v.days)")
            select = f"{select} HAVING {chosen}"
        if self._random.random() < 0.3:
            pair = self._around("t", features)
            return Pair(f"WITH t AS ({select}) {pair.ours}", f"WITH t AS ({select}) {pair.theirs}")
        return self._around(f"({select}) t", features)

    def _grouped(self) -> Pair:
        where = self._where(0.4, "v.days", "cost")
        return self._derived(self._random.choice(["v.pid", "pid"]), self._features(_OF_VISITS), f"visit v{where}")

    def _joined(self) -> Pair:
        on = self._random.choice(["p.pid = v.pid"] * 6 + ["v.pid = p.pid"] * 3 + ["p.pid = p.pid", "pid = v.pid"])
        rows = f"patient p LEFT JOIN visit v ON {on}{self._where(0.3, 'p.age', 'p.days')}"
        return self._derived("p.pid", self._features([*_OF_VISITS, *_OF_PATIENTS, *_OF_PATIENTS]), rows)

    def _scalar(self) -> Pair:
        more = self._where(0.4, "v.days", "v.cost", word="AND")
        of = self._random.choice(
            [*_OF_VISITS, "MAX(p.days)", "MAX(age)", "COALESCE(SUM(v.days), 0)", "COALESCE(SUM(cost), 7)"]
        )
        condition = self._condition(f"(SELECT {of} FROM visit v WHERE v.pid = p.pid{more})", "p.age")
        text = f"SELECT sex AS g, COUNT(*) AS n FROM patient p WHERE {condition} GROUP BY sex"
        return Pair(text, text)

    def _average(self) -> Pair:
        """Write a comparison of an average, which is one of whole numbers here."""
        random = self._random
        of = random.choice(["v.days", "v.cost", "cost", "v.days - v.cost", "2 * v.days", "v.ward", "p.age"])
        select = (
            f"(SELECT AVG({of}) FROM visit v WHERE v.pid = p.pid{self._where(0.4, 'v.days', 'v.cost', word='AND')})"
        )
        number = random.choice([-1, 0, 1, 2, 2.5, 3])
        compared = random.choice(
            [
                *(f"{select} {sign} {number}" for sign in ("<", "<=", ">", ">=", "=", "<>")),
                f"{select} BETWEEN {number} AND {number + 2}",
                f"{select} IN ({number}, 2, -{abs(number)})",
                f"{select} IS NULL",
                f"{number} < {select}",
                f"{select} > p.age",
                f"{select} + 1 > {number}",
            ]
        )
        word = random.choice(["", "NOT "])
        text = f"SELECT sex AS g, COUNT(*) AS n FROM patient p WHERE {word}{compared} GROUP BY sex"
        return Pair(text, text)

    def _mean(self) -> Pair:
        """Write an average as a value, which is rounded down to a thousandth, and which is compared as well."""
        random = self._random
        of = random.choice(["v.days", "v.cost", "days - cost", "2 * v.days"])
        alone = f"(SELECT AVG({of}) FROM visit v WHERE v.pid = p.pid)"
        each = f"SELECT pid, AVG({of}) AS k0 FROM visit v{self._where(0.4, 'v.days', 'v.cost')} GROUP BY pid"
        number = random.choice([0, 1, 2.5, 3])
        text = random.choice(
            [
                f"SELECT SUM(k0) AS n FROM ({each}) t",
                f"SELECT SUM(3 - k0) FILTER (WHERE k0 <= {number}) AS n FROM ({each}) t",
                f"WITH t AS ({each}) SELECT SUM(k0) AS n FROM t WHERE k0 > {number}",
                f"SELECT AVG({alone}) AS n FROM patient p",
                f"SELECT SUM({alone} + 1) AS n FROM patient p WHERE {alone} <= {number} AND sex = 'F'",
                f"SELECT SUM(COALESCE({alone}, 2)) AS n FROM patient p WHERE age > 1",
            ]
        )
        return Pair(text, text, within=0.02)

    def _pairs(self) -> Pair:
        """Write a join of two tables of a person; tables here have no more rows of a person than count."""
        random = self._random
        left, right = random.choice([("visit", "visit"), ("visit", "test"), ("test", "visit"), ("test", "test")])
        more = [f"a.days {random.choice(['<', '=', '>=', '<>'])} b.days", self._condition("a.days", "b.days")]
        more += [self._condition("a.cost")] if left == "visit" else []
        more += ["p.sex = 'F'", self._condition("p.age", "b.days")]
        asked = random.sample(more, random.choice([0, 1, 1, 2]))
        on = random.choice(["a.pid = b.pid", "b.pid = a.pid"] * 5 + ["a.days = b.days", "a.pid = b.days"])
        rows = f"{left} a JOIN {right} b ON {on}"
        if any("p." in each for each in asked):
            rows += f" JOIN patient p ON {random.choice(['p.pid = a.pid', 'b.pid = p.pid'])}"
        if random.random() < 0.3:
            rows = f"{left} a, {right} b" + rows.partition(f"ON {on}")[2]
            asked = [on, *asked]
        if random.random() < 0.1:
            asked.append("EXISTS (SELECT * FROM drug d WHERE d.dose > 2)")
        where = f" WHERE {' AND '.join(asked)}" if asked else ""
        of = random.choice(["COUNT(*)", "COUNT(*)", "COUNT(a.days)", "COUNT(DISTINCT a.pid)", "SUM(a.days + b.days)"])
        text = f"SELECT {of} AS n FROM {rows}{where}"
        return Pair(text, text, within=1e-6 if of.startswith("SUM") else 0, max_rows=100)

    def _labels(self) -> Pair:
        """Write a comparison of two columns of labels, of rows and of a person's rows."""
        random = self._random
        condition = random.choice(
            ["v.kind = v.meant", "kind <> meant", "v.meant = kind", "v.kind = v.ward", "kind < meant"]
        )
        condition = random.choice(["", "NOT "]) + condition + self._where(0.3, "v.days", word="AND")
        rows = f"FROM visit v WHERE v.pid = p.pid AND {condition}"
        number = random.choice([f"EXISTS (SELECT * {rows})", f"(SELECT SUM(days) {rows}) > 2"])
        text = f"SELECT COUNT(*) AS n FROM patient p WHERE {number}"
        return Pair(text, text)

    def _truths(self) -> Pair:
        """Write BOOL_OR and BOOL_AND of a person's rows, and of those of a key."""
        random = self._random
        word = random.choice(["BOOL_OR", "BOOL_AND"])
        of = f"{word}({self._condition('v.days', 'v.cost')})"
        rows = f"visit v{self._where(0.4, 'v.days', 'v.cost')}"
        truth = random.choice(
            ["k0", "NOT k0", "k0 IS NULL", "k0 = TRUE", "k0 IS FALSE", "k0 IS NOT TRUE", "k0 <> FALSE"]
        )
        joined = "patient p LEFT JOIN visit v ON v.pid = p.pid"
        drugs = f"{word}({self._condition('d.dose', 'd.cost')})"
        alone = f"(SELECT {of} FROM visit v WHERE v.pid = p.pid)"
        text = random.choice(
            [
                f"SELECT COUNT(*) AS n FROM (SELECT pid, {of} AS k0 FROM {rows} GROUP BY pid) t WHERE {truth}",
                f"SELECT k0 AS g, COUNT(*) AS n FROM (SELECT pid, {of} AS k0 FROM {rows} GROUP BY pid) t GROUP BY k0",
                f"SELECT COUNT(*) AS n FROM (SELECT p.pid, {of} AS k0 FROM {joined} GROUP BY p.pid) t WHERE {truth}",
                f"SELECT COUNT(*) AS n FROM (SELECT pid, MAX(days) AS k1 FROM {rows} GROUP BY pid HAVING {of}) t",
                f"SELECT sex AS g, COUNT(*) AS n FROM patient p WHERE {truth.replace('k0', alone)} GROUP BY sex",
                f"SELECT COUNT(*) AS n FROM test t WHERE (SELECT {drugs} FROM drug d WHERE d.tid = t.tid)",
            ]
        )
        return Pair(text, text)

    def _one_row(self) -> Pair:
        """Write columns of the first and last rows, in an order without ties, and labels of most rows."""
        random = self._random
        x, condition = random.choice(
            [("v.days", "{} > 2"), ("cost", "{} <= 3"), ("v.kind", "{} = 'a'"), ("v.ward", "{} IS NULL")]
        )
        order = f"ORDER BY {random.choice(['place', 'v.place'])}{random.choice(['', ' DESC', ' ASC'])}"
        first = f"{random.choice(['FIRST', 'LAST'])}({x} {order})"
        of, theirs = random.choice(
            [
                (first, f"{first} FILTER (WHERE {x} IS NOT NULL)"),  # of all rows DuckDB's may be NULL
                *[(f"{by}({x}, v.place)",) * 2 for by in ("MIN_BY", "MAX_BY", "ARG_MIN", "ARG_MAX")],
                ("MODE(v.usual)", "MODE(v.usual)"),
                ("MODE(v.days)", "MODE(v.days)"),
                ("FIRST(v.days)", "FIRST(v.days)"),
            ]
        )
        condition = condition if "usual" not in of else random.choice(["{} = 'a'", "{} <> 'b'", "{} IN ('b', 'c')"])
        more = "" if "usual" in of else self._where(0.4, "v.days", "v.cost", word="AND")
        rows = f"visit v{more.replace(' AND ', ' WHERE ', 1)}"
        alone = f"(SELECT {{}} FROM visit v WHERE v.pid = p.pid{more})"
        text = random.choice(
            [
                f"SELECT COUNT(*) AS n FROM (SELECT pid, {{}} AS k0 FROM {rows} GROUP BY pid) t WHERE "
                f"{condition.format('k0')}",
                f"SELECT sex AS g, COUNT(*) AS n FROM patient p WHERE {condition.format(alone)} GROUP BY sex",
            ]
        )
        return Pair(text.replace("{}", of), text.replace("{}", theirs))

    def _with(self) -> Pair:
        """Write a grouped sub-select that is joined by the person."""
        random = self._random
        of = random.choice([*_OF_VISITS, "BOOL_OR(v.days > 2)", "MIN_BY(v.days, v.place)"])
        having = f" HAVING {self._condition('COUNT(*)', 'MAX(v.days)', 'AVG(cost)')}" if random.random() < 0.3 else ""
        select = f"SELECT v.pid, {of} AS k0 FROM visit v{self._where(0.4, 'v.days', 'cost')} GROUP BY v.pid{having}"
        word = random.choice(["JOIN", "JOIN", "LEFT JOIN"])
        column = random.choice(["k0", "t.k0"])
        if word == "LEFT JOIN" and of.startswith("COUNT(") and random.random() < 0.7:
            column = f"COALESCE({column}, 0)"
        on = random.choice([" ON t.pid = p.pid"] * 3 + [" ON p.pid = t.pid", " USING (pid)", " ON t.pid = p.days", ""])
        condition = self._condition(column, "p.age", column)
        second = ""
        if random.random() < 0.3:
            second = f", u AS (SELECT pid, MAX(days) AS k1 FROM test{self._where(0.3, 'days')} GROUP BY pid)"
            on = f"{on} {random.choice(['JOIN', 'LEFT JOIN'])} u ON u.pid = {random.choice(['p.pid', 't.pid'])}"
            condition = random.choice([condition, f"{column} > k1", f"u.k1 > 1 OR {condition}"])
        rows = random.choice([f"patient p {word} t{on}"] * 3 + ["patient p, t WHERE t.pid = p.pid"])
        if word == "JOIN" and not second and random.random() < 0.3:
            rows = f"t JOIN patient p{on}"
        chosen = f"{' AND' if ' WHERE ' in rows else ' WHERE'} ({condition})"
        asked = random.choice([f"SELECT sex AS g, COUNT(*) AS n FROM {rows}{chosen} GROUP BY sex"] * 2 + [
            f"SELECT COUNT(*) AS n FROM {rows}{chosen}", f"SELECT COUNT(*) FILTER (WHERE {condition}) AS n FROM {rows}"
        ])  # fmt: skip
        if not second and word == "JOIN" and random.random() < 0.3:  # of a table with several rows a person
            several = self._condition(column, "x.days", column)
            asked = random.choice(
                [
                    f"SELECT COUNT(*) AS n FROM test x JOIN t ON t.pid = x.pid WHERE {several}",
                    "SELECT COUNT(*) AS n FROM test x WHERE (SELECT MAX(days) FROM visit v WHERE v.pid = x.pid) > 2",
                ]
            )
        text = f"WITH t AS ({select}){second} {asked}"
        if not second and random.random() < 0.4:
            text = re.sub(r"\bt\b(?=( ON| USING| JOIN|,| WHERE|$))(?<!\.t)", f"({select}) t", asked, count=1)
        return Pair(text, text)

    def _by_key(self) -> Pair:
        """Write a sub-select that is grouped by the key of another table, alone and joined to it."""
        random = self._random
        of = random.choice([*_OF_DRUGS[:10], "BOOL_AND(d.dose > 1)"])
        having = f" HAVING {self._condition('COUNT(*)', 'MAX(d.dose)')}" if random.random() < 0.3 else ""
        select = f"SELECT d.tid, {of} AS k0 FROM drug d{self._where(0.4, 'd.dose', 'cost')} GROUP BY d.tid{having}"
        chosen = self._condition("k0", "s.k0")
        rows = random.choice(
            [
                f"({select}) s",
                f"({select}) s",
                f"test t JOIN ({select}) s ON s.tid = t.tid",
                f"test t LEFT JOIN ({select}) s USING (tid)",
                f"({select}) s JOIN test t ON t.tid = s.tid JOIN patient p ON p.pid = t.pid",
            ]
        )
        text = f"SELECT COUNT(*) AS n FROM {rows} WHERE {chosen}"
        if random.random() < 0.3:
            text = f"WITH s AS ({select}) SELECT COUNT(*) AS n FROM s WHERE {chosen}"
        return Pair(text, text, max_rows=_ALL)

    def _public(self) -> Pair:
        """Write IN and NOT IN of a SELECT of the public table, of labels, numbers and the key."""
        random = self._random
        of, column = random.choice(
            [("v.kind", "kind"), ("kind", "c.kind"), ("v.days", "days"), ("days", "c.days"), ("v.code", "code")]
        )
        where = (
            f" WHERE {random.choice(['family', 'c.family'])} = '{random.choice('xy')}'" if random.random() < 0.7 else ""
        )
        known = random.choice([f" AND {column} IS NOT NULL", ""]) if where else ""
        condition = f"{of}{random.choice([' ', ' ', ' NOT '])}IN (SELECT {column} FROM codes c{where}{known})"
        condition += random.choice(["", " AND v.days > 1", " OR v.days > 1"])
        text = random.choice(
            [
                f"SELECT COUNT(*) AS n FROM visit v WHERE {condition}",
                "SELECT COUNT(*) AS n FROM patient p "
                f"WHERE EXISTS (SELECT * FROM visit v WHERE v.pid = p.pid AND ({condition}))",
                "SELECT COUNT(*) AS n FROM "
                f"(SELECT pid, MAX(days) AS k0 FROM visit v WHERE {condition} GROUP BY pid) t",
            ]
        )
        return Pair(text, text, max_rows=_ALL)

    def _key(self) -> Pair:
        more = self._where(0.4, "d.dose", "d.cost", word="AND")
        of = self._random.choice(_OF_DRUGS)
        condition = self._condition(f"(SELECT {of} FROM drug d WHERE d.tid = t.tid{more})")
        text = f"SELECT COUNT(*) AS n FROM test t WHERE {condition}"
        return Pair(text, text)


def made_tables(random: Random) -> tuple[dict[str, dict[str, list[Any]]], sl.Database, sl.Database]:
    """Generate the tables, the database of them, and one in which as many rows of a person count as there are."""
    import pyarrow as pa

    def cells(count: int, choices: Sequence[Any], missing: float = 0.2) -> list[Any]:
        return [None if random.random() < missing else random.choice(choices) for _ in range(count)]

    def without_ties(whose: Sequence[int]) -> list[Any]:
        """Return labels such that every person has a strict majority label."""
        found: list[Any] = [None] * len(whose)
        for pid in set(whose):
            places, usual = [place for place, who in enumerate(whose) if who == pid], random.choice("abc")
            for nth, place in enumerate(places):
                found[place] = usual if 2 * nth <= len(places) else random.choice([*"abc", None])
        return found

    people, small = 12, range(-2, 7)
    visits = [pid for pid in range(1, people + 3) for _ in range(random.choice([0, 0, 1, 1, 2, 3, 5]))]
    random.shuffle(visits)
    tests = [pid for pid in range(1, people) for _ in range(random.choice([0, 1, 2, 5]))]
    drugs = [tid for tid in range(len(tests)) for _ in range(random.choice([0, 1, 1, 2, 5]))]
    tables: dict[str, dict[str, list[Any]]] = {
        "patient": {
            "pid": [*range(1, people + 1)],
            "sex": cells(people, "FM", 0),
            "days": cells(people, small),
            "age": cells(people, small),
        },
        "visit": {
            "pid": visits,
            "vid": [*range(len(visits))],
            "kind": cells(len(visits), "abc"),
            "meant": cells(len(visits), "abc"),
            "ward": cells(len(visits), ["west", "east"]),
            "days": cells(len(visits), small),
            "cost": cells(len(visits), small, 0.5),
            "place": random.sample(range(len(visits)), len(visits)),
            "usual": without_ties(visits),
            "code": cells(len(visits), range(6)),
        },
        "codes": {
            "code": [*range(5)],  # 5 is named, and not there
            "kind": cells(5, "abc", 0.1),
            "family": cells(5, "xy", 0),
            "days": cells(5, small, 0.1),
        },
        "test": {"pid": tests, "tid": [*range(len(tests))], "days": cells(len(tests), small)},
        "drug": {"tid": drugs, "dose": cells(len(drugs), small), "cost": cells(len(drugs), small, 0.5)},
    }
    made = {
        name: sl.Table(pa.table(tables[name]), schema=schema, public=name == "codes")
        for name, schema in _SCHEMAS.items()
    }
    wide = [sl.PersonId("pid", max_rows=9), *_SCHEMAS["visit"][1:]]
    all_count = {**made, "visit": sl.Table(pa.table(tables["visit"]), schema=wide)}
    few = sl.Database(made, name="clinic")
    return tables, few, sl.Database(all_count, name="clinic")


def _shown(session: sl.Session, statement: str, max_rows: int | None = None) -> dict[str, float]:
    from benchmarks.tpch import no_noise

    with no_noise():
        shown = session.sql(statement, epsilon=1000, max_rows=max_rows).shown
    keys = shown.keys_of_groups
    found = {" ".join(str(shown[key][at]) for key in keys): float(shown["n"][at]) for at in range(len(shown["n"]))}
    return {key: count for key, count in found.items() if count or not key}


def compared(count: int, *, seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield statements, how they differ, and why one was refused, until `count` were compared."""
    import duckdb

    random = Random(seed)
    writer = PersonWriter(random)
    done = 0
    while done < count:
        tables, *databases = made_tables(random)
        with warnings.catch_warnings(), duckdb.connect() as connection:
            warnings.simplefilter("ignore")
            sessions = [sl.Session(each, budget=sl.PureDP(10**6)) for each in databases]
            for name, schema in _SCHEMAS.items():
                labels = [each.name for each in schema if isinstance(each, sl.Category)]
                typed = ", ".join(f"{c} {'VARCHAR' if c in labels else 'INTEGER'}" for c in tables[name])
                connection.execute(f"CREATE TABLE {name} ({typed})")
                rows = list(zip(*tables[name].values(), strict=True))
                connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(tables[name]))})", rows)
            for _ in range(25):
                pair = writer.pair()
                session = sessions[pair.max_rows is not None]
                before = str(session.remaining)
                try:
                    ours = _shown(session, pair.ours, None if pair.max_rows == _ALL else pair.max_rows)
                except SidelightError as error:
                    yield pair.ours, "" if str(session.remaining) == before else "refused after the charge", str(error)
                    continue
                done += 1
                yield pair.ours, _difference(ours, pair, connection), ""


def _difference(ours: dict[str, float], pair: Pair, connection: Any) -> str:
    """Return how an answer differs from DuckDB's; "" where it is the same."""
    import duckdb

    try:
        rows = connection.execute(pair.theirs).fetchall()
    except duckdb.Error as error:
        return f"{ours} for {str(error)[:90]!r}"
    there = [row for row in rows if len(row) == 1 or row[0] is not None]  # a NULL key has no group here
    names = [str(row[0]).lower() if isinstance(row[0], bool) else str(row[0]) for row in there]
    theirs = {"" if len(row) == 1 else name: float(row[-1] or 0) for name, row in zip(names, there, strict=True)}
    same = ours.keys() == theirs.keys() and all(abs(ours[key] - theirs[key]) <= pair.within for key in ours)
    return "" if same else f"{ours} for {theirs}"


def measure(count: int = STATEMENTS, seed: int = 36) -> dict[str, float]:
    """Return how many of the statements that are understood differ, and how many were refused."""
    try:
        import duckdb  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        raise AbsentError("duckdb or pyarrow is not installed; pip install duckdb pyarrow") from None
    differing, refused, total = 0, Counter[str](), 0
    for statement, found, why in compared(count, seed=seed):
        refused[why[-70:]] += bool(why)
        total += not why
        if found:
            differing += 1
            print(f"{statement}\n    {found} {why}", file=sys.stderr)
    for why, times in refused.most_common(8):
        print(f"refused {times} times: ...{why}", file=sys.stderr)
    return {"differs": differing, "compared": total, "refused": sum(refused.values())}


if __name__ == "__main__":
    print(measure(*map(int, sys.argv[1:2])))

"""Statements that are generated at random, for the comparison with DuckDB in `sql_differential`."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

BOUNDS = {"age": (0, 100), "hours": (0, 60), "change": (-50, 50)}
GROUPS = [
    "job",
    "job",
    "region",
    "CASE WHEN age < 18 THEN 'child' WHEN age BETWEEN 18 AND 64 THEN 'adult' ELSE 'old' END",
    "CASE WHEN hours >= 20 THEN 1 WHEN hours < 10 THEN 0 END",
    "CASE WHEN job IN ('cook', 'nurse') THEN 'hands' ELSE 'desk' END",
    "CASE WHEN age IS NULL THEN 'unknown' ELSE 'known' END",
    "CASE WHEN age < 18 AND region = 'N' THEN 'a' WHEN job IN ('cook', 'clerk') OR age >= 65 THEN 'b' ELSE 'c' END",
    "CASE WHEN hours > 20 AND change < 0 THEN 1 WHEN NOT (region = 'S' OR hours < 5) THEN 2 END",
    "age >= 50",
    "age >= 50 AND job = 'cook'",
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
    bracketed: dict[str, str] = field(default_factory=dict)  # quantiles, and DuckDB's two records around each


class Writer:
    """Writes statements at random."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._pick = random.choice
        self._bracketed: dict[str, str] = {}

    def statement(self) -> Statement:
        """Return one statement."""
        self._bracketed = {}
        random, full = self._random, self._random.random() < 0.5
        groups = random.sample(GROUPS, random.choice([0, 1, 1, 1, 2]))
        keys = [f"k{place}" for place in range(len(groups))]
        where = self._condition(1) if random.random() < (0.25 if full else 0.5) else ""
        means = full and (not where or bool(groups))
        spreads = full and not where and not groups
        made = [self._scalar(means=means, spreads=spreads) for _ in range(random.randint(1, 3))]
        if random.random() < 0.15 and (means or not (where or groups)):
            made.append((self._quantile(), False))
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
            bracketed=self._bracketed,
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

    def _quantile(self) -> str:
        """Return a quantile, and remember the list of the records around it, whose ranks are those of DuckDB."""
        of, level = self._pick(list(BOUNDS)), self._pick([0.1, 0.25, 0.5, 0.75, 0.9])
        forms = ["QUANTILE({x}, {p})", "QUANTILE_CONT({x}, {p})", "QUANTILE_DISC({x}, {p})"]
        forms += [f"PERCENTILE_{kind}({{p}}) WITHIN GROUP (ORDER BY {{x}})" for kind in ("CONT", "DISC")]
        forms += ["MEDIAN({x})"] if level == 0.5 else []
        text = self._pick(forms).format(x=of, p=level)
        ends = [f"FLOOR({level} * COUNT({of}))", f"CEIL({level} * COUNT({of})) + 1"]
        sorted_cells = f"LIST_SORT(LIST({of}) FILTER ({of} IS NOT NULL))"
        found = [
            f"COALESCE({sorted_cells}[CAST({end} AS INTEGER)], {bound})"
            for end, bound in zip(ends, BOUNDS[of], strict=True)
        ]
        self._bracketed[text] = f"[{', '.join(found)}]"
        return text

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

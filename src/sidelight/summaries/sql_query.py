"""`SQL`: a SELECT as a query, with one price for all of its numbers and one table as its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from sidelight.aggregates.groups import ROWS_COUNTED
from sidelight.aggregates.values import has_totals
from sidelight.errors import RangeError, SchemaError, explains_removed, nearest
from sidelight.group_table import POOLED, GroupTable
from sidelight.guarantees import Amount, exact
from sidelight.guarantees.intervals import root_below
from sidelight.mechanisms.budget import Budget, together
from sidelight.noise import Source
from sidelight.quantiles.prepared import PreparedQuantiles, level_name
from sidelight.records import Label, Number, PairedView, Schema, Table, View
from sidelight.records.expression_shapes import LabelShape
from sidelight.records.expressions import Expression, Named
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.table import NAMELESS
from sidelight.release import Release
from sidelight.release.shown import lies_on_the_calendar
from sidelight.release.statement_table import statement_table
from sidelight.session import release_once
from sidelight.session.query import Answer, PublicSource, SureArrayQuery, SurePrepared, prepare_query
from sidelight.summaries.grouped import of_statement
from sidelight.summaries.of_number import joined
from sidelight.summaries.sql_dialects import Dialect
from sidelight.summaries.sql_nodes import written_name
from sidelight.summaries.sql_notes import notes_of
from sidelight.summaries.sql_over import statement_over
from sidelight.summaries.sql_statement import Select, parse_select
from sidelight.summaries.sql_translation import ANSWERS_OF, AskedQuery, Translation, asked_of, check_same_rows, noise_of


@explains_removed
@dataclass(frozen=True)
class SQL:
    """Release what a SELECT asks: counts, sums, means, spreads and quantiles by group, as one table with one price.

    Numbers of the same column come from one query where they can: COUNT(*) with AVG(income) is the count of the mean,
    and counts the rows that have an income. Several queries share the price in equal parts. `release.value` has every
    group and every number that was paid for: those of AS, or `count`, `mean_income`; each has an interval, `..._low`
    and `..._high`, and means by group have `..._pooled`. `release.shown` is what was asked: HAVING, ORDER BY, LIMIT,
    DISTINCT and arithmetic are computed from released numbers and cost nothing. Arithmetic of one or two numbers, such
    as SUM(a) / SUM(b), has an interval; the notes name what has none. Intervals hold for each group by itself, not for
    groups that HAVING or LIMIT chose by their numbers.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`: that of the
    queries in `translation`, added up.

    Args:
        statement: SELECT columns and aggregates FROM table [WHERE condition] [GROUP BY columns] [HAVING condition]
            [ORDER BY columns] [LIMIT n]. A group is a declared column, CASE WHEN age < 18 THEN 'child' ELSE 'adult'
            END, a condition, or a part of a date. Aggregates are COUNT, SUM, AVG, VAR_SAMP, STDDEV, MEDIAN and
            QUANTILE(column, level), with FILTER; AVG of a condition is a proportion. What is understood, and what to
            write instead of what is not: "Ask in SQL" in the documentation.
        epsilon, delta, rho, mu: The price of all numbers: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.
        max_rows: Where a statement over a database joins two tables with several rows of a person each, how many pairs
            of a person count.
        person_total: Of sums, the most that one person adds in all groups together, as for `Sum`: one number for all
            sums, or by their names in the answer. Such a sum needs no max_groups.
        confidence: Of the intervals.
        prediction: What is known of some of the numbers, by their names in the answer: `{"people": {"cook": 210}}`; as
            the query that answers it takes it. Or an earlier release of a statement, for the counts, sums, means and
            proportions of the same columns and groups that both ask.
        dialect: Whose spelling and meaning the statement has: "duckdb", "postgresql", "bigquery", "snowflake", "spark"
            or "tsql".

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"job": ["cook", "nurse", "nurse"] * 200, "age": [31, 47, 52] * 200},
    ...     schema=[sl.Category("job", ["cook", "nurse"], other=None), sl.Number("age", lower=0, upper=100)],
    ... )
    >>> query = SQL("SELECT job, COUNT(*) AS people FROM people WHERE age >= 18 GROUP BY job", epsilon=1)
    >>> query.release(people).value.columns
    ('people', 'people_low', 'people_high')
    >>> print(query.translation(people.schema))
    Count(by=['job'], where='age >= 18', of='rows', epsilon=1) for people
    price: PureDP(ε = 1)
    """

    statement: str
    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    mu: Amount | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    max_rows: int | None = None
    person_total: Mapping[str, Amount] | Amount | None = None
    confidence: float = 0.95
    prediction: Mapping[str, Any] | Release | None = field(default=None, compare=False, repr=False)
    dialect: Dialect = "duckdb"
    kind_name: ClassVar[str] = "sql"

    def __post_init__(self) -> None:
        Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu)

    def over(self, tables: LinkedTables) -> tuple[SQL, View | PairedView]:
        """Return the statement over a view of a database, and the view: joins are lookups, sub-selects folds."""
        view, statement = statement_over(self.statement, tables, dialect=self.dialect, max_rows=self.max_rows)
        return replace(self, statement=statement, max_rows=None), view

    def translation(self, schema: Schema) -> Translation:
        """Return the queries that the statement means, and their price. Reads no row."""
        return self.prepare(schema).translation

    def prepare(self, schema: Schema) -> PreparedSQL:
        """Translate the statement, and check and price its queries against a schema."""
        if self.max_rows is not None:
            raise RangeError("max_rows is for a JOIN of tables of a sl.Database, and this is one table; leave it out")
        select = parse_select(self.statement, schema, dialect=self.dialect)
        asked = asked_of(select)
        named = [each for each in select.by if isinstance(each, str)]  # == of expressions is a condition
        if len(asked) > 1 and any(isinstance(column, Label) and column.name in named for column in schema.columns):
            raise SchemaError(
                "undeclared groups are found by each query for itself, and this statement needs "
                f"{len(asked)} of them; ask one aggregate per statement, or declare the labels as a Category"
            )
        if select.shown is not None:
            _rehearse(select, schema)
        predicted = self._predictions(asked)
        prices = self._prices(len(asked), pure=any(each.kind == "quantiles" for each in asked))
        sums = [name for each in asked if each.kind == "sum" for name in each.names]
        for odd in {*self.person_total} - {*sums} if isinstance(self.person_total, Mapping) else ():
            raise RangeError(f"person_total names {odd!r}, which is no sum of the statement; {nearest(str(odd), sums)}")
        if self.person_total is not None and not sums:
            raise RangeError("person_total bounds a person's SUM, and the statement has none; leave it out")
        priced = [
            [
                replace(each, options={**each.options, **price, **self._limits(each, select, schema), **more})
                for each, more in zip(asked, predicted, strict=True)
            ]
            for price in prices
        ]
        queries = min(priced, key=lambda each: noise_of(each[0], schema)) if len(priced) > 1 else priced[0]
        parts = tuple(prepare_query(query.build(), schema) for query in queries)
        claims = together([(1, part.claims) for part in parts])
        numbers = tuple(
            _Number(name=name, part=place, column=column)
            for place, each in enumerate(asked)
            for name, column in each.serves
        )
        check_same_rows(select.shown, {each.name: parts[each.part].request for each in numbers})
        dates = {
            each.name: parts[each.part].request["dates"]
            for each in numbers
            if "dates" in parts[each.part].request and lies_on_the_calendar(each.column)
        }
        order = {item.name: place for place, item in enumerate(select.items)}
        return PreparedSQL(
            claims=claims,
            request={
                "kind": self.kind_name,
                "statement": self.statement,
                "queries": [dict(part.request) for part in parts],
                "numbers": [[number.name, str(number.part), number.column] for number in numbers],
                **({"dates": {"columns": dates}} if dates else {}),
                **({} if self.dialect == "duckdb" else {"dialect": self.dialect}),
                **({} if select.shown is None else {"shown": {**select.shown, "confidence": str(self.confidence)}}),
            },
            labels=parts[0].labels,
            prediction=joined([each.serves[0][0] for each in asked], [part.prediction for part in parts]),
            error=parts[0].error if len(parts) == 1 else None,
            select=select,
            parts=parts,
            numbers=tuple(sorted(numbers, key=lambda number: order[number.name])),
            translation=Translation(
                queries=tuple(queries), claims=claims, notes=notes_of(select, schema, dialect=self.dialect)
            ),
        )

    def _prices(self, parts: int, *, pure: bool) -> list[dict[str, Amount]]:
        """Return the budget splits, one price per query each, that compose adaptively to the whole price.

        `pure` says that one of the queries has a pure price only.
        """
        if pure:
            if self.epsilon is None:
                raise RangeError("MEDIAN and QUANTILE have a pure price: give epsilon, or ask the others apart")
            return [{"epsilon": self.epsilon if parts == 1 else exact(self.epsilon, name="epsilon") / parts}]
        given = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}
        if parts == 1:
            return [{name: amount for name, amount in given.items() if amount is not None}]
        part = Budget.of(**given).part(Fraction(1, parts))
        # mu² is what adds up, and its root is rounded down
        found: list[dict[str, Amount]] = [
            {part.kind: root_below(part.amount) if part.kind == "mu" else part.amount},
        ]
        if self.delta is not None:  # pure parts keep to (epsilon, delta), too
            assert self.epsilon is not None
            found.append({"epsilon": exact(self.epsilon, name="epsilon") / parts})
        return found

    def _predictions(self, asked: Sequence[AskedQuery]) -> list[dict[str, Any]]:
        """Return the prediction of the number that each query is about."""
        if isinstance(self.prediction, Release):
            return self._from_release(self.prediction, asked)
        if self.prediction is not None and not isinstance(self.prediction, Mapping):
            raise RangeError(
                "the prediction of a statement is an earlier release of one, or what is known of each number by its "
                f"name in the answer, {{'people': ...}}; got {type(self.prediction).__name__}"
            )
        given = dict(self.prediction or {})
        found: list[dict[str, Any]] = []
        for each in asked:
            own = [name for name, column in each.serves if column == ANSWERS_OF.get(each.kind, column)]
            predicted = [name for name in own if name in given]
            found.append({"prediction": given.pop(predicted[0])} if predicted else {})
        if given:
            names, odd = [name for each in asked for name, _ in each.serves], str(next(iter(given)))
            raise RangeError(f"prediction names {odd!r}, which no query of its own answers; {nearest(odd, names)}")
        return found

    def _from_release(self, earlier: Release, asked: Sequence[AskedQuery]) -> list[dict[str, Any]]:
        """Return what an earlier statement's release predicts of each query: the numbers that both ask."""
        found: list[dict[str, Any]] = []
        for each in asked:
            by = [str(key) for key in each.options.get("by", ())]
            column = each.subject[0] if each.subject else None
            predicted = of_statement(earlier, kind=each.kind, by=by, column=column, where=each.options.get("where"))
            found.append({} if predicted is None else {"prediction": predicted})
        if not any(found):
            raise RangeError(
                f"the prediction, an earlier {earlier.kind} release, has none of the numbers that this statement asks: "
                "a count, sum, mean or proportion of the same column by the same groups"
            )
        return found

    def _limits(self, asked: AskedQuery, select: Select, schema: Schema) -> dict[str, Any]:
        given = {"max_groups": self.max_groups, "max_rows_per_group": self.max_rows_per_group}
        found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if asked.kind == "quantiles":  # has no noise or confidence, nor limits where all rows are one group
            return found if asked.options.keys() & {"by", "where"} else {}
        if asked.kind == "sum" and schema.rows_per_unit > 1 and not has_totals(schema, asked.subject[0]):
            found.setdefault("max_rows_per_group", schema.rows_per_unit)  # of rows: it has no totals of persons
        stated = self.person_total
        if isinstance(stated, Mapping):
            stated = next((amount for name, amount in stated.items() if name in asked.names), None)
        if asked.kind == "sum" and stated is not None:
            found = {"person_total": stated}
        confidence = self.confidence
        if {*asked.names} & {*select.compared}:  # two intervals hold together, each with half of what is missing to 1
            confidence = (1 + confidence) / 2
        if confidence != 0.95:
            found["confidence"] = confidence
        return found

    def declare(self) -> Number:
        """Refuse a bare array: a statement names columns."""
        raise SchemaError("a statement names columns; write sl.Table(data, schema=[...])")

    def release(self, data: Any) -> Release[GroupTable]:
        """Release from a table with exactly this statement's budget and no ledger."""
        outcome: Release[GroupTable] = release_once(cast("SureArrayQuery", self), data)
        return outcome


@dataclass(frozen=True, kw_only=True)
class _Number:
    """A number of the answer: its name, and where it stands."""

    name: str
    part: int
    column: str


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSQL(SurePrepared):
    """A statement, translated and priced."""

    select: Select
    parts: tuple[SurePrepared, ...]
    numbers: tuple[_Number, ...]
    translation: Translation

    @property
    def is_additive(self) -> bool:
        """Whether the query is additive over rows."""
        return all(part.is_additive for part in self.parts)

    def check_source(self, source: PublicSource) -> None:
        """Refuse a statement about another table; let every query refuse a source that it cannot read."""
        self.check_name(source.name)
        for part in self.parts:
            part.check_source(source)

    def check_rows(self, table: Table) -> None:
        """Let every query look at the rows that it brings."""
        for part in self.parts:
            part.check_rows(table)

    def check_name(self, name: str) -> None:
        """Refuse a FROM that does not name this table; one without a name of its own may be called anything."""
        path = self.select.table.casefold()  # BigQuery takes a quoted name with a dot for a schema and its table
        if name != NAMELESS and name.casefold() not in (path, path.rsplit(".", 1)[-1]):
            raise RangeError(
                f"FROM names {self.select.table!r}, and the table is called {name!r}; write FROM {written_name(name)}"
            )

    def run(self, table: Table, source: Source) -> Answer:
        """Run the queries one after another, and put what was asked for into one table."""
        answers = [part.run(table, source) for part in self.parts]
        found = [_table_of(part, answer) for part, answer in zip(self.parts, answers, strict=True)]
        first = found[0]
        columns: dict[str, Any] = {}
        for number in self.numbers:
            of = found[number.part]
            whole = number.column == "count"  # that of a mean is a noisy sum of parts of rows
            columns[number.name] = np.rint(of[number.column]).astype(np.int64) if whole else of[number.column]
            for end in ("low", "high"):
                for name in (f"{number.column}_{end}", *([end] if number.column == of.columns[0] else [])):
                    if name in of.columns:
                        columns[f"{number.name}_{end}"] = of[name]
                        break
            if POOLED in of.columns and number.column == of.columns[0]:
                columns[f"{number.name}_{POOLED}"] = of[POOLED]
        backed = [each["supported"] for each in found if "supported" in each.columns]
        if backed and "supported" not in self.select.keys:
            columns["supported"] = np.all(backed, axis=0)
        notes: dict[str, Any] = {}
        for each, query in zip(found, self.translation.queries, strict=True):  # two means are clipped at two places
            of_which = f"{query.names[0]}_" if len(found) > 1 else ""
            notes |= {f"{of_which}{name}": value for name, value in each.notes.items() if name != ROWS_COUNTED}
        notes |= self._rows_counted(found) | self._said()
        value = GroupTable(keys=self.select.keys, groups=first.groups, columns=columns, notes=notes)
        return Answer(value=value, labels=answers[0].labels, error=answers[0].error if len(answers) == 1 else None)

    def _said(self) -> dict[str, str]:
        """Return what a reader of the table must know: what else was paid for, and which intervals are wider."""
        also = [f"{name}, of {clause}" for each in self.translation.queries for name, clause in each.clauses.items()]
        said = {"also_asked": "; ".join(also)} if also else {}
        if self.translation.notes:
            said["meaning"] = "; ".join(self.translation.notes)
        if self.select.compared:
            said["wider_intervals"] = (
                f"those of {', '.join(self.select.compared)} hold more often than stated, so that what is computed of "
                "two of them holds as stated"
            )
        return said

    def _rows_counted(self, found: Sequence[GroupTable]) -> dict[str, str]:
        """Return which rows of a person count, said once where it is the same for all queries."""
        names = (", ".join(query.names) for query in self.translation.queries)
        said = {
            name: each.notes[ROWS_COUNTED]
            for name, each in zip(names, found, strict=True)
            if ROWS_COUNTED in each.notes
        }
        if len({*said.values()}) > 1:
            return {ROWS_COUNTED: "; ".join(f"{name}: {words}" for name, words in said.items())}
        return {ROWS_COUNTED: next(iter(said.values()))} if said else {}


def _rehearse(select: Select, schema: Schema) -> None:
    """Show a table of zeros, ones and missing numbers, so that nothing of the statement can fail after the charge."""
    keys = [Named(each) if isinstance(each, str) else each for each in select.by]
    shapes = [None if _is_label(key, schema) else key.check(schema) for key in keys]
    labels = [shape.labels[0] if isinstance(shape, LabelShape) else "x" for shape in shapes]
    numbers = [item.name for item in select.items if item.function is not None]
    columns = {f"{name}{end}": [0.0, 1.0, np.nan] for name in numbers for end in ("", "_low", "_high")}
    table = GroupTable(keys=select.keys, groups=[labels] * 3, columns=columns, repeats=True)
    statement_table(table, {"shown": select.shown})


def _is_label(key: Expression, schema: Schema) -> bool:
    return isinstance(key, Named) and any(isinstance(each, Label) and each.name == key.name for each in schema.columns)


def _table_of(part: SurePrepared, answer: Answer) -> GroupTable:
    """Return an answer as a table; quantiles of all rows are a vector."""
    if isinstance(answer.value, GroupTable):
        return answer.value
    assert isinstance(part, PreparedQuantiles)
    columns = {level_name(level): [value] for level, value in zip(part.tree.levels, answer.value, strict=True)}
    return GroupTable(keys=[], groups=[()], columns=columns)

"""Read SQL statistics by group: one SELECT of one table, parsed by sqlglot and read by a strict list.

    SELECT job, COUNT(*), AVG(income) AS mean_income FROM people WHERE age >= 18 AND region IN ('N', 'S') GROUP BY job

Only what is named here is understood; anything else in the tree is an error that names the clause and the nearest thing
that works. Conditions and arithmetic become the expressions that `where=` takes (`sql_expressions`). No row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from sidelight.errors import MissingPackageError, RangeError
from sidelight.records import Schema
from sidelight.records.expression_text import LONGEST
from sidelight.records.expressions import Compare, Expression, Literally, Named
from sidelight.records.numbers import number_text
from sidelight.summaries.sql_expressions import (
    CONDITIONS,
    UNDERSTOOD,
    ExpressionReader,
    case_groups,
    only,
    plain,
    refuse,
    refuse_clause,
    shortened,
    sql_text,
)

#: What an aggregate function of the statement asks for.
Function = Literal["count", "persons", "sum", "mean", "proportion", "variance", "standard_deviation", "quantile"]

_FUNCTIONS: Mapping[str, Function] = {
    "sum": "sum",
    "avg": "mean",
    "variance": "variance",
    "stddev": "standard_deviation",
    "stddevsamp": "standard_deviation",
}


@dataclass(frozen=True, kw_only=True)
class SelectItem:
    """One column of the answer."""

    name: str
    function: Function | None = None  # None for a column of GROUP BY
    of: Expression | None = None  # the argument, the column or CASE of GROUP BY; None of COUNT(*)
    level: Fraction | None = None  # of a quantile


@dataclass(frozen=True, kw_only=True)
class Select:
    """A statement as it was understood: the columns of the answer, the groups and the condition."""

    table: str
    items: tuple[SelectItem, ...]
    by: tuple[str | Expression, ...]
    where: Expression | None

    @property
    def keys(self) -> tuple[str, ...]:
        """What the key columns of the answer are called, in the order of `by`."""
        return tuple(item.name for item in self.items if item.function is None)


def parse_select(text: str, schema: Schema) -> Select:
    """Read one SELECT; its columns are looked up in the schema."""
    tree = _tree(text)
    if tree.key != "select":
        kind = {"union": "UNION", "except": "EXCEPT", "intersect": "INTERSECT"}.get(tree.key, tree.key.upper())
        raise RangeError(f"{kind} is not understood: {UNDERSTOOD}; ask several statements one after another")
    return _StatementReader(schema).select(tree)


def _tree(text: str) -> Any:
    """Parse with sqlglot; its messages quote and colour the statement, ours name the place."""
    if not isinstance(text, str) or len(text) > LONGEST:
        raise RangeError(f"a statement is a text of at most {LONGEST} characters, got {type(text).__name__}")
    try:
        import sqlglot
        from sqlglot.errors import SqlglotError
    except ImportError:
        raise MissingPackageError("SQL is read by sqlglot, which is not installed; pip install sqlglot") from None
    failed, tokens, found = "", [], []
    try:
        # Only one SELECT is parsed: sqlglot takes other words as commands, and logs their text.
        tokens = [token.text for token in sqlglot.tokenize(text)]
        while tokens and tokens[-1] == ";":
            tokens.pop()
        if tokens and tokens[0].upper() in ("SELECT", "WITH") and ";" not in tokens:
            found = [tree for tree in sqlglot.parse(text) if tree is not None and tree.key != "semicolon"]
    except SqlglotError as error:
        places = getattr(error, "errors", None) or [{}]
        line, column = places[0].get("line"), places[0].get("col")
        failed = f"it does not parse at line {line}, character {column}" if line else "it does not parse"
    except (RecursionError, ValueError):
        failed = "it is nested too deep"
    except (AttributeError, LookupError, TypeError):  # of the parser itself, for {:} where a value was wanted
        failed = "it does not parse"
    if failed:
        raise RangeError(f"the SQL is not understood: {failed}; {UNDERSTOOD}")
    if len(found) != 1:
        came = "several" if ";" in tokens else shortened(tokens[0].upper()) if tokens else "nothing"
        raise RangeError(f"one SELECT was wanted, got {came}: {UNDERSTOOD}; ask several one after another")
    return found[0]


class _StatementReader:
    """Reads one tree against a schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._read = ExpressionReader(schema, ("", ""))

    def select(self, tree: Any) -> Select:
        """Read the whole statement."""
        only(tree, "expressions", "from_", "where", "group")
        table, alias = self._from(tree.args.get("from_"))
        self._read = ExpressionReader(self._schema, (table, alias))
        where, group = tree.args.get("where"), tree.args.get("group")
        if where is not None:
            only(where, "this")
        items = tuple(self._item(each) for each in tree.expressions)
        self._check(items, [] if group is None else self._group(group, items))
        keys = [item.of for item in items if item.function is None and item.of is not None]
        return Select(
            table=table,
            items=items,
            # the key columns of the answer stand as SELECT has them
            by=tuple(each.name if isinstance(each, Named) else each for each in keys),
            where=None if where is None else self._read.condition(where.this, 0),
        )

    def _from(self, clause: Any) -> tuple[str, str]:
        if clause is None:
            raise RangeError(f"FROM is missing: {UNDERSTOOD}")
        only(clause, "this")
        table = clause.this
        if table.key != "table" or getattr(table.this, "key", "") != "identifier":
            refuse(table)
        only(table, "this", "alias")
        alias = table.args.get("alias")
        if alias is not None:
            only(alias, "this")
        return table.name, table.alias

    def _group(self, clause: Any, items: tuple[SelectItem, ...]) -> list[str]:
        """Return the names of the columns of the answer that are groups: by column, alias, place or the same CASE."""
        only(clause, "expressions")
        keys = {item.name: str(item.of) for item in items if item.function is None}
        found = []
        for each in clause.expressions:
            if each.key in ("rollup", "cube", "groupingsets"):
                refuse_clause("grouping_sets" if each.key == "groupingsets" else each.key)
            if each.key == "column" and not each.text("table") and each.name in keys:
                found.append(each.name)
            elif each.key == "column":
                found.append(self._read.column(each))
            elif each.key == "literal" and each.name.isdigit() and 1 <= int(each.name) <= len(items):
                item = items[int(each.name) - 1]
                if item.function is not None:
                    raise RangeError(f"GROUP BY {each.name} names {item.name!r}, which is not a column to group by")
                found.append(item.name)
            elif each.key == "case":
                same = str(self._case(each))
                found.append(next((name for name, of in keys.items() if of == same), same))
            else:
                raise RangeError(
                    f"GROUP BY {sql_text(each)} is not understood: it names declared columns, or is CASE WHEN age < 18 "
                    "THEN 'child' ELSE 'adult' END; a number is put into public bins with "
                    "sl.Count(by=sl.col('age').cut([18, 65]), epsilon=...), too"
                )
        return found

    def _case(self, node: Any) -> Expression:
        """Read a CASE as groups: labels by thresholds of a number, or by declared labels."""
        only(node, "this", "ifs", "default")
        whens = []
        for branch in node.args["ifs"]:
            only(branch, "this", "true")
            if node.this is None:
                condition = self._read.condition(branch.this, 1)
            else:
                condition = Compare("==", self._read.number(node.this, 1), self._read.number(branch.this, 1))
            whens.append((condition, self._label(branch.args["true"])))
        default = node.args.get("default")
        return case_groups(whens, None if default is None else self._label(default), self._schema)

    def _label(self, node: Any) -> str:
        if node.key == "null":
            raise RangeError(
                "NULL is not a group of a CASE: rows that no branch takes are in no group, so leave ELSE NULL out, and "
                "keep rows of THEN NULL away by WHERE; or give them a label in 'single quotes'"
            )
        found = self._read.number(node, 1)
        if not isinstance(found, Literally) or not isinstance(found.value, str):
            raise RangeError(f"the groups of a CASE are labels in 'single quotes', got {sql_text(node)}")
        return found.value

    def _check(self, items: tuple[SelectItem, ...], by: list[str]) -> None:
        """Refuse a statement without numbers, keys that are no groups, and two columns of one name."""
        keys = [item.name for item in items if item.function is None]
        for name in keys:
            if name not in by:
                raise RangeError(f"column {name!r} stands in SELECT and not in GROUP BY; rows are never released")
        for name in by:
            if keys.count(name) != 1:
                raise RangeError(f"GROUP BY {name!r} wants it once in SELECT, which names the groups of the answer")
        if len(set(by)) != len(by):
            raise RangeError("GROUP BY names a column twice")
        if all(item.function is None for item in items):
            raise RangeError("the statement asks for no number; add COUNT(*) or another aggregate to SELECT")
        names = [item.name for item in items]
        for name in names:
            if names.count(name) > 1:
                raise RangeError(f"two columns of the answer are called {name!r}; write AS and another name")

    def _item(self, node: Any) -> SelectItem:
        name = ""
        if node.key == "alias":
            only(node, "this", "alias")
            name, node = node.alias, node.this
        while node.key == "paren":
            node = node.this
        if node.key == "column":
            column = self._read.column(node)
            if name and name != column:
                raise RangeError(f"a column of GROUP BY keeps its name in the answer: write {column!r} without AS")
            return SelectItem(name=column, of=Named(column))
        if node.key == "case":
            groups = self._case(node)
            return SelectItem(name=name or str(groups), of=groups)
        found = self._aggregate(node)
        return replace(found, name=name or found.name or _name_of(found))

    def _aggregate(self, node: Any) -> SelectItem:
        if node.key == "count":
            return self._count(node)
        if node.key in _FUNCTIONS:
            only(node, "this")
            function, of = _FUNCTIONS[node.key], node.this
            self._no_distinct(of)
            if function == "mean" and plain(of).key in CONDITIONS:
                return SelectItem(name="", function="proportion", of=self._read.condition(of, 0))
            number = self._read.number(of, 0)
            if function == "sum" and isinstance(number, Literally) and number.value == 1:
                return SelectItem(name=f"sum_{number}", function="count")
            return SelectItem(name="", function=function, of=number)
        if node.key == "median":
            only(node, "this")
            return self._of_column(node.this, level=Fraction(1, 2))
        if node.key in ("quantile", "approxquantile"):
            only(node, "this", "quantile")
            return self._quantile(node.this, node.args.get("quantile"))
        if node.key == "withingroup" and node.this.key in ("percentilecont", "percentiledisc"):
            only(node.this, "this")
            ordered = node.expression.expressions if node.expression.key == "order" else []
            if len(ordered) != 1 or ordered[0].args.get("desc"):
                raise RangeError("WITHIN GROUP wants ORDER BY one column, ascending; or write QUANTILE(column, 0.5)")
            return self._quantile(ordered[0].this, node.this.this)
        return refuse(node, aggregate=True)

    def _count(self, node: Any) -> SelectItem:
        only(node, "this", "big_int")
        of = node.this
        if of is None or of.key in ("star", "literal"):  # COUNT(), COUNT(*) and COUNT(1) count rows
            if of is not None and of.key == "star":
                only(of)
            return SelectItem(name="", function="count")
        if of.key == "distinct":
            only(of, "expressions")
            person = self._schema.person
            named = [each for each in of.expressions if each.key == "column"]
            name = self._read.column(named[0]) if len(of.expressions) == len(named) == 1 else ""
            if person is None or name != person.name:
                whom = "declare sl.PersonId(...)" if person is None else f"write COUNT(DISTINCT {person.name})"
                raise RangeError(f"COUNT(DISTINCT ...) counts persons; {whom}, or use sl.CountDistinct(column, ...)")
            return SelectItem(name="", function="persons", of=Named(name))
        return SelectItem(name="", function="count", of=self._read.number(of, 0))

    def _quantile(self, of: Any, level: Any) -> SelectItem:
        found = None if level is None else self._read.number(level, 0)
        if not isinstance(found, Literally) or isinstance(found.value, str) or not 0 < found.value < 1:
            raise RangeError("a quantile has one public level strictly between 0 and 1: QUANTILE(income, 0.9)")
        return self._of_column(of, level=found.value)

    def _of_column(self, of: Any, *, level: Fraction) -> SelectItem:
        found = self._read.number(of, 0)
        if not isinstance(found, Named):
            raise RangeError(f"a quantile is of a declared column, got {sql_text(of)}; add it to the table as a column")
        return SelectItem(name="", function="quantile", of=found, level=level)

    def _no_distinct(self, node: Any) -> None:
        if node.key == "distinct":
            raise RangeError("DISTINCT inside an aggregate is not understood; COUNT(DISTINCT person) counts persons")


def _name_of(item: SelectItem) -> str:
    """Return what an aggregate without AS is called: count, mean_income, quantile_0.9_income."""
    if item.function == "persons":
        return "persons"
    level = "" if item.level is None else f"_{number_text(item.level)}"
    of = "" if item.of is None else f"_{item.of}"
    return f"{item.function}{level}{of}"

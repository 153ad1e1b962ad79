"""Read SQL statistics by group: the aggregates that are released, by which groups, and what is shown of them.

    SELECT job, COUNT(*), SUM(pay) / SUM(hours) AS wage FROM people WHERE age >= 18 GROUP BY job ORDER BY wage LIMIT 5

The aggregates of SELECT, HAVING and ORDER BY, each once, by the columns of GROUP BY, are what is asked privately
(`items`, `by`, `where`). Everything else is a program over the released table (`shown`), which costs nothing.
Conditions and arithmetic of rows become the expressions that `where=` takes (`sql_expressions`). No row is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError, SidelightError
from sidelight.records import Schema
from sidelight.records.expressions import Expression, Named
from sidelight.release.statement_trees import numbers_in, passes_interval
from sidelight.summaries.sql_aggregates import AggregateReader, SelectItem
from sidelight.summaries.sql_dialects import MEANINGS
from sidelight.summaries.sql_expressions import ExpressionReader
from sidelight.summaries.sql_groups import GroupKey
from sidelight.summaries.sql_nodes import check_names, grouping_sets, has_aggregate, names_clash, plain
from sidelight.summaries.sql_scalars import ScalarReader, Typed
from sidelight.summaries.sql_tree import UNDERSTOOD, only, refuse, refuse_clause, refuse_name, sql_text, statement_tree

_MOST_SHOWN = 10**15
#: Aggregates that say which groups have rows enough.
_FLAGGED = ("sum", "mean", "proportion", "variance", "standard_deviation")


@dataclass(frozen=True, kw_only=True)
class Select:
    """A statement as it was understood: what is released, by which groups, of which rows, and what is shown of it."""

    table: str
    items: tuple[SelectItem, ...]
    by: tuple[str | Expression, ...]
    where: Expression | None
    shown: dict[str, Any] | None = None
    rollup: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """What the key columns of the released table are called, in the order of `by`."""
        return tuple(item.name for item in self.items if item.function is None)

    @property
    def compared(self) -> tuple[str, ...]:
        """The numbers that stand together in an interval: each needs one that holds more often."""
        found: list[str] = []
        for _, _, tree, ends in (self.shown or {}).get("columns", ()):
            names = numbers_in(tree)
            found += names if ends == "yes" and len(names) > 1 else []
        return tuple(dict.fromkeys(found))


def parse_select(text: str, schema: Schema, *, dialect: str = "duckdb") -> Select:
    """Read one SELECT; its columns are looked up in the schema."""
    tree = statement_tree(text, dialect=dialect, declared=[column.name for column in schema.columns])
    return _StatementReader(schema, dialect).select(tree)


@dataclass(frozen=True, kw_only=True)
class _Output:
    """A column of what is shown: its name, and the tree that makes it."""

    name: str
    node: Any
    typed: Typed


class _StatementReader:
    """Reads one tree against a schema."""

    def __init__(self, schema: Schema, dialect: str) -> None:
        self._schema, self._dialect = schema, dialect
        self._rows = ExpressionReader(schema, [""])
        self._aggregates = AggregateReader(schema, self._rows)
        self._scalars = ScalarReader(self._leaf, dialect)
        self._numbers: list[SelectItem] = []
        self._keys: list[tuple[str, GroupKey]] = []
        self._aliases: dict[str, Any] = {}
        self._written: set[str] = set()  # the names of AS, as they are written
        self._own: dict[int, SelectItem] = {}  # the aggregates that SELECT asks as they are, by their nodes
        self._clause = "SELECT"
        self._totals = False

    def select(self, tree: Any) -> Select:
        """Read the whole statement."""
        only(tree, "expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct")
        table, names = self._from(tree.args.get("from_"))
        self._rows = ExpressionReader(self._schema, names, self._dialect)
        self._aggregates = AggregateReader(self._schema, self._rows)
        where, group = tree.args.get("where"), tree.args.get("group")
        condition = None if where is None else self._rows.conditions(where.this)
        given = [
            (each.alias, plain(each.this)) if each.key == "alias" else ("", plain(each)) for each in tree.expressions
        ]
        self._aliases = {name.casefold(): node for name, node in given if name}
        self._written = {name for name, _ in given}
        margins = self._group(group, given)
        self._name_numbers(given)
        outputs = [self._output(name, node) for name, node in given]
        self._check(outputs)
        program = self._program(tree, outputs, margins)
        if not self._numbers:
            raise RangeError("the statement asks for no number; add COUNT(*) or another aggregate to SELECT")
        if margins is not None and any(item.function not in ("count", "persons") for item in self._numbers):
            raise RangeError(
                "ROLLUP, CUBE and GROUPING SETS are of COUNT(*), whose totals are measured and made to add up; ask "
                "other aggregates by a statement for each set of columns"
            )
        keys = tuple(SelectItem(name=name, of=key.of) for name, key in self._keys)
        return Select(
            table=table,
            items=self._ordered(keys, outputs),
            by=tuple(key.of.name if isinstance(key.of, Named) else key.of for _, key in self._keys),
            where=condition,
            shown=program,
            rollup=margins is not None,
        )

    def _ordered(self, keys: Sequence[SelectItem], outputs: Sequence[_Output]) -> tuple[SelectItem, ...]:
        """Return keys and numbers in the order in which they are asked."""
        by_tree = {str(each.typed.tree[:2]): at for at, each in reversed(list(enumerate(outputs)))}
        last = len(outputs)
        places = {item.name: by_tree.get(str(["number", item.name]), last) for item in self._numbers}
        places |= {item.name: by_tree.get(str(["key", str(at)]), last) for at, item in enumerate(keys)}
        return tuple(sorted((*keys, *self._numbers), key=lambda item: places[item.name]))

    def _from(self, source: Any) -> tuple[str, list[str]]:
        if source is None:
            raise RangeError(f"FROM is missing: {UNDERSTOOD}")
        only(source, "this")
        table = source.this
        if table.key != "table":
            refuse(table)
        if table.args.get("joins"):
            refuse_clause("joins")
        only(table, "this", "alias", "db", "catalog")
        if table.this.key != "identifier":
            refuse(table.this)
        alias = table.args.get("alias")
        if alias is not None:
            only(alias, "this")
        return ".".join(each.name for each in table.parts), [table.name, *([] if alias is None else [alias.name])]

    # --- groups

    def _group(self, group: Any, given: Sequence[tuple[str, Any]]) -> list[list[str]] | None:
        """Read GROUP BY; return which keys each grouping set has, None where all have all."""
        if group is None:
            return None
        only(group, "expressions", "all", "rollup", "cube", "grouping_sets")
        if group.args.get("all"):
            for _, node in given:
                if not has_aggregate(node) and node.key not in ("literal",):
                    self._key(node, given)
        parts = [self._sets(each, given) for each in group.expressions]
        for word in ("rollup", "cube", "grouping_sets"):
            for each in group.args.get(word) or ():
                whole = [at for sets in parts for at in sets[0]]
                parts = [grouping_sets(word, whole)] if not each.expressions else [*parts, self._sets(each, given)]
        # in the order of SELECT; keys that it leaves out come last
        first = [[self._is_key(node, key) for _, node in given] + [True] for _, key in self._keys]
        order = sorted(range(len(self._keys)), key=lambda at: first[at].index(True))
        self._keys = [self._keys[at] for at in order]
        sets = [sorted({order.index(at) for part in chosen for at in part}) for chosen in product(*parts)]
        if not group.expressions or sets == [[*range(len(self._keys))]]:
            return None
        if group.args.get("all"):
            raise RangeError("GROUP BY ALL stands alone; name the columns of ROLLUP")
        self._totals = True
        unique = list(dict.fromkeys(map(tuple, sets)))
        return [list(map(str, each)) for each in unique]

    def _sets(self, node: Any, given: Sequence[tuple[str, Any]]) -> list[list[int]]:
        """Return the grouping sets of a part of GROUP BY, by the places of the keys."""
        node = plain(node)
        if node.key in ("rollup", "cube"):
            return grouping_sets(node.key, [at for each in node.expressions for at in self._sets(each, given)[0]])
        if node.key == "groupingsets":
            return [one for each in node.expressions for one in self._sets(each, given)]
        if node.key == "tuple":
            return [[at for each in node.expressions for at in self._sets(each, given)[0]]]
        return [[self._key(node, given)]]

    def _key(self, node: Any, given: Sequence[tuple[str, Any]]) -> int:
        """Return the place of a group column: a column, a name of AS, a place in SELECT, or an expression."""
        node = plain(node)
        if node.key == "literal" and not node.args["is_string"] and node.name.isdigit():
            if not 1 <= int(node.name) <= len(given):
                raise RangeError(f"GROUP BY {node.name} names no column of SELECT, which has {len(given)}")
            node = given[int(node.name) - 1][1]
        elif node.key == "column" and not node.text("table") and not self._is_declared(node):
            node = self._aliases.get(node.name.casefold(), node)
        elif node.key == "column" and MEANINGS[self._dialect].names_first:
            self._refuse_two_meanings(node)
        if has_aggregate(node):
            raise RangeError(f"GROUP BY names {sql_text(node)}, which is not a column to group by")
        key = self._rows.groups.read(node)
        name = self._key_name(node, key, given)
        for at, (_, known) in enumerate(self._keys):
            if known.of.same_as(key.of):
                return at
        self._keys.append((name, key))
        return len(self._keys) - 1

    def _key_name(self, node: Any, key: GroupKey, given: Sequence[tuple[str, Any]]) -> str:
        """Return what a group column is called in the released table: a column keeps its name."""
        if node.key == "column":
            return self._rows.column(node)
        asked = next((name for name, each in given if name and each == node), "")
        return asked or sql_text(node)

    def _refuse_two_meanings(self, node: Any) -> None:
        """Refuse a name of AS that is also another column of the table."""
        named = None if node.text("table") else self._aliases.get(node.name.casefold())
        if named is None or not self._is_declared(node):
            return
        if named.key != "column" or self._rows.column(named) != self._rows.column(node):
            refuse_name(node.name)

    def _is_declared(self, node: Any) -> bool:
        try:
            self._rows.column(node)
        except SidelightError:
            return False
        return True

    # --- released numbers, and what is made of them

    def _name_numbers(self, given: Sequence[tuple[str, Any]]) -> None:
        """Name each aggregate that SELECT asks as it is by what the statement calls it."""
        for name, node in given:
            item = self._aggregates.read(node)
            if item is not None:
                named = name or item.name or item.default_name()
                self._numbers.append(replace(item, name=self._free(named)))
                self._own[id(node)] = self._numbers[-1]

    def _free(self, name: str) -> str:
        """Return a name that no other column of the released table has; the same aggregate may stand twice."""
        found, more, numbers = name, 2, {each.name for each in self._numbers}
        while names_clash(found, numbers, keys={key for key, _ in self._keys}):
            found, more = f"{name}_{more}", more + 1
        return found

    def _number(self, item: SelectItem) -> Typed:
        """Return an aggregate as a number of the released table, which it joins if it is new."""
        known = next((each for each in self._numbers if each.identity == item.identity), None)
        if known is None:
            known = replace(item, name=self._free(item.name or item.default_name()), clause=self._clause)
            self._numbers.append(known)
        return Typed(item.kind(self._schema), ["number", known.name])

    def _leaf(self, node: Any) -> Typed | None:
        own = self._own.get(id(node))
        if own is not None:
            return Typed(own.kind(self._schema), ["number", own.name])
        item = self._aggregates.read(node)
        if item is not None:
            return self._number(item)
        if node.key in ("grouping", "groupingid"):
            return self._grouping(node)
        if node.key in ("literal", "boolean", "null") or has_aggregate(node):
            return None
        column = node.key == "column"
        if column and not node.text("table"):
            named = self._aliases.get(node.name.casefold())
            in_having = self._clause == "HAVING" and MEANINGS[self._dialect].names_first
            if in_having or (self._clause == "ORDER BY" and node.name not in self._written):
                self._refuse_two_meanings(node)
            if named is not None and (self._clause == "ORDER BY" or not self._is_declared(node)):
                return self._aliased(node.name, named)
        for at, (_, key) in enumerate(self._keys):
            if self._is_key(node, key):
                return Typed(key.kind, ["key", str(at), key.kind])
        if not column:
            return None
        name = self._rows.column(node)
        raise RangeError(f"column {name!r} stands in {self._clause} and not in GROUP BY; rows are never released")

    def _aliased(self, name: str, node: Any) -> Typed:
        """Read what AS gave a name to, which may not read the name itself."""
        clause, self._clause = self._clause, "SELECT"
        named = self._aliases.pop(name.casefold())
        try:
            return self._scalars.read(node)
        finally:
            self._clause, self._aliases[name.casefold()] = clause, named

    def _is_key(self, node: Any, key: GroupKey) -> bool:
        try:
            return self._rows.groups.read(node).of.same_as(key.of)
        except SidelightError:  # an expression of keys, then
            return False

    def _grouping(self, node: Any) -> Typed:
        """Return 1 in totals over a column, and 0 elsewhere."""
        if len(node.expressions) != 1:
            raise RangeError("GROUPING takes one column of GROUP BY")
        key = self._scalars.read(node.expressions[0])
        if key.tree[0] != "key":
            raise RangeError(f"{sql_text(node)} names no column of GROUP BY")
        one, zero = (["constant", "whole", digit] for digit in "10")
        return Typed("whole", ["case", [["is null", key.tree], one], zero])

    def _output(self, name: str, node: Any) -> _Output:
        typed = self._scalars.read(node)
        if typed.tree[0] == "key":
            name = name or self._keys[int(typed.tree[1])][0]
        elif typed.tree[0] == "number":
            name = name or next(each for each in self._numbers if each.name == typed.tree[1]).name
        return _Output(name=name or sql_text(node), node=node, typed=typed)

    def _check(self, outputs: Sequence[_Output]) -> None:
        released = [item.name for item in self._numbers]
        shown = [each.name for each in outputs if each.typed.tree[0] != "key"]
        names = [each.name for each in outputs]
        names += [name for name, _ in self._keys if name not in names]
        flagged = any(item.function in _FLAGGED for item in self._numbers)
        check_names(names, {*released, *shown}, flagged=flagged)

    # --- what is shown

    def _program(self, tree: Any, outputs: Sequence[_Output], margins: list[list[str]] | None) -> dict[str, Any] | None:
        """Return what is shown of the released table; None where it is shown as it is."""
        found: dict[str, Any] = {"columns": []}
        having, order = tree.args.get("having"), tree.args.get("order")
        if having is not None:
            self._clause = "HAVING"
            condition = self._scalars.read(having.this)
            if condition.kind not in ("truth", "null"):
                raise RangeError(f"HAVING {sql_text(having.this)} is not a condition; compare it with something")
            found["having"] = condition.tree
        if order is not None:
            self._clause = "ORDER BY"
            only(order, "expressions")
            found["order"] = [line for each in order.expressions for line in self._order(each, outputs)]
        distinct = tree.args.get("distinct")
        if distinct is not None:
            only(distinct)
            found["distinct"] = "yes"
        for word in ("limit", "offset"):
            if tree.args.get(word) is not None:
                found[word] = self._how_many(tree.args[word])
        found["columns"] = [[each.name, _shown_kind(each.typed), each.typed.tree, self._ends(each)] for each in outputs]
        if margins is not None:
            found |= {"totals": "yes", "margins": margins}
        released = [(name, ["key", str(at), key.kind]) for at, (name, key) in enumerate(self._keys)]
        released += [(item.name, ["number", item.name]) for item in self._numbers]
        asked = [(each.name, each.typed.tree) for each in outputs]
        as_it_is = len(asked) == len(released) and all(each in asked for each in released)
        return None if as_it_is and [*found] == ["columns"] else found

    def _ends(self, output: _Output) -> str:
        """Return whether what is computed has an interval: arithmetic of at most two released numbers that have one."""
        names = numbers_in(output.typed.tree)
        bare = {each.name for each in self._numbers if each.function == "quantile"}
        numeric = output.typed.kind in ("whole", "sum", "decimal", "double") and not {*names} & bare
        return "yes" if numeric and 1 <= len(names) <= 2 and passes_interval(output.typed.tree) else "no"

    def _order(self, node: Any, outputs: Sequence[_Output]) -> list[list[Any]]:
        only(node, "this", "desc", "nulls_first")
        of = plain(node.this)
        ways = ["desc" if node.args.get("desc") else "asc", "first" if node.args.get("nulls_first") else "last"]
        if of.key == "var" and of.name.upper() == "ALL":
            return [[each.typed.tree, *ways] for each in outputs]
        if of.key == "literal" and not of.args["is_string"]:
            if not of.name.isdigit() or not 1 <= int(of.name) <= len(outputs):
                raise RangeError(f"ORDER BY {of.name} names no column of SELECT, which has {len(outputs)}")
            return [[outputs[int(of.name) - 1].typed.tree, *ways]]
        if of.key != "column" and self._dialect != "duckdb":  # where a name inside an expression may be the column
            for each in of.find_all(exp.Column):
                self._refuse_two_meanings(each)
        return [[self._scalars.read(of).tree, *ways]]

    def _how_many(self, node: Any) -> str:
        options = node.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            refuse_clause("limit_options")
        count = plain(node.args.get("count") or node.expression)
        if count.key != "literal" or not count.name.isdigit() or int(count.name) > _MOST_SHOWN:
            raise RangeError(
                f"{node.key.upper()} takes a number of groups that is written there, got {sql_text(count)}"
            )
        return str(int(count.name))


def _shown_kind(typed: Typed) -> str:
    kinds = {"sum": "double", "decimal": "double", "null": "double"}
    return "text" if typed.tree[0] == "key" else kinds.get(typed.kind, typed.kind)

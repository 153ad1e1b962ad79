"""Statements over a database: joins become lookups of a view, EXISTS and sub-selects by a key become folds.

    SELECT c_mktsegment, COUNT(*) FROM orders JOIN customer ON o_custkey = c_custkey GROUP BY c_mktsegment

The tables of FROM must form one tree of declared references away from one table, the base. What comes out is a view of
the base and the same statement over it, with every column by its path; `sql_statement` reads that as a statement about
one table. Lookups and folds add columns and never rows, so a join costs nothing. No row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlglot import exp

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.records import PairedView, PersonId, View
from sidelight.records.fold import Fold
from sidelight.records.linked_tables import LinkedTables, Step
from sidelight.records.views import FOUND
from sidelight.summaries.sql_expressions import ExpressionReader
from sidelight.summaries.sql_nodes import (
    column_named,
    declared_name,
    flat_conditions,
    is_left,
    plain,
    table_named,
    written_name,
)
from sidelight.summaries.sql_subselects import BY_KEY, clamp_counts, folded
from sidelight.summaries.sql_tree import only, refuse, sql_text

_KEYS_ONLY = "tables are joined by declared keys alone: declare sl.Reference(...), or make the code list public"


@dataclass(frozen=True)
class JoinSource:
    """A table of FROM: its alias, its name, and whether rows that do not find it stay."""

    alias: str
    table: str
    optional: bool


@dataclass(frozen=True)
class JoinEdge:
    """A lookup that equalities of the statement ask for."""

    child: str
    parent: str
    step: Step
    used: tuple[int, ...]


def declared_table(tables: LinkedTables, node: Any) -> str | None:
    """Return the name of a table of the database as it was declared; None if there is none."""
    return declared_name(node, tables.tables)


def columns_of(tables: LinkedTables, table: str) -> tuple[str, ...]:
    """Return all columns of a table: those with values, and those of keys and references."""
    schema = tables.schema(table)
    tied = [column for link in schema.links for column in link.columns]
    return tuple(dict.fromkeys([*(each.name for each in schema.columns), *tied]))


class JoinReader:
    """Reads FROM, JOIN and sub-selects of one SELECT, and writes it over a view of its base."""

    FOUND = FOUND

    def __init__(self, tree: Any, tables: LinkedTables, dialect: str, outer: JoinReader | None = None) -> None:
        self.tree, self.tables, self.dialect, self._outer = tree, tables, dialect, outer
        self.features: dict[str, Fold] = {}
        self._columns: list[str] = []
        self.names: dict[str, str] = {}  # of columns of folds, by their sub-select
        self.grouped: bool | None = None  # whether folds are over all rows of a person, who has one row in the base
        self._sources = {each.alias.casefold(): each for each in self._read_sources()}
        self._conjuncts: list[Any] = []
        self.correlated: list[tuple[str, str]] = []  # equal columns: of the base here, and of the base around it
        self.paths: dict[str, tuple[Step, ...]] = {}
        self._read_conditions()
        self.base = self._read_tree()

    def within(self, select: Any) -> JoinReader:
        """Return the reader of a sub-select of this SELECT."""
        return JoinReader(select, self.tables, self.dialect, outer=self).settled()

    def settled(self) -> Self:
        """Return it if the tables of FROM have a base."""
        if not self.base:
            names = ", ".join(each.alias for each in self._sources.values())
            raise RangeError(
                f"the tables {names} do not form one tree of declared references away from one of them; {_KEYS_ONLY}. "
                "Two tables with several rows a person each are joined by the person, or by a reference that both "
                "have, as pairs: with max_rows=..., how many pairs of a person count"
            )
        return self

    def view(self) -> View | PairedView:
        """Return the view of the base with what the statement names."""
        view = View(tables=self.tables, base=self.base, grouped=bool(self.grouped), features=self.features)
        return replace(view, columns=tuple(name for name in self._columns if name not in view.schema.names))

    # --- FROM

    def _read_sources(self) -> Iterator[JoinSource]:
        tree, seen = self.tree, set()
        source = tree.args.get("from_")
        if source is None:
            raise RangeError("FROM is missing; name a table of the database")
        joins = [*(tree.args.get("joins") or ()), *(source.this.args.get("joins") or ())]
        for node, join in ((source.this, None), *((join.this, join) for join in joins)):
            if node.key != "table":
                refuse(node)
            optional = is_left(join)
            only(node, "this", "alias", "db", *(() if join else ("joins",)))
            only(node.args.get("alias") or node.this, "this", "quoted")
            if node.text("db").casefold() not in ("", self.tables.name.casefold()):
                raise SchemaError(f"FROM names {sql_text(node)}; the database is {self.tables.name!r}, or leave it out")
            table = declared_table(self.tables, node)
            if table is None:
                raise SchemaError(f"FROM names {node.name!r}; {nearest(node.name, self.tables.tables)}")
            alias = node.alias_or_name
            if alias.casefold() in seen:
                raise RangeError(f"FROM names {alias!r} twice; give each its own name with AS")
            seen.add(alias.casefold())
            yield JoinSource(alias, table, optional)

    def _read_conditions(self) -> None:
        """Collect what WHERE and ON say, joined by AND; ON of a LEFT JOIN may say the key only."""
        joins = [*(self.tree.args.get("joins") or ()), *(self.tree.args["from_"].this.args.get("joins") or ())]
        where = self.tree.args.get("where")
        parts = [] if where is None else [(where.this, "")]
        for join in joins:
            only(join, "this", "on", "using", "side", "kind")
            alias = join.this.alias_or_name.casefold()
            if join.args.get("on") is not None:
                parts.append((join.args["on"], alias if join.side else ""))
            for name in join.args.get("using") or ():
                others = {
                    each.alias: columns_of(self.tables, each.table)
                    for each in self._sources.values()
                    if each.alias.casefold() != alias
                }
                # the first table that has it is the one
                there = next(((at, each) for at, of in others.items() if (each := declared_name(name, of))), None)
                if there is None:
                    known = [each for of in others.values() for each in of]
                    raise SchemaError(f"USING names {name.name!r}; {nearest(name.name, known)}")
                other = exp.column(there[1], there[0], quoted=True)
                own = exp.column(name.copy(), exp.to_identifier(join.this.alias_or_name, quoted=True))
                equal = exp.EQ(this=other, expression=own)
                parts.append((equal, alias if join.side else ""))
        self._left: dict[int, str] = {}
        for node, alias in parts:
            for each in flat_conditions(node):
                if alias:
                    self._left[len(self._conjuncts)] = alias
                self._conjuncts.append(each)
        self.tree.set("joins", None)
        self.tree.args["from_"].this.set("joins", None)

    def _read_tree(self) -> str:
        """Find the base and the path of every other table; the equalities that say so leave the conditions.

        Returns "" where the tables form no tree of references away from one of them.
        """
        edges = list(self._edges())
        for base in self._sources.values():
            paths, chosen = self._grown([base], edges)
            if len(paths) == len(self._sources):
                break
        else:
            return ""
        self.paths = paths
        self._leave(set(), chosen)
        if self.tables.is_public(base.table):
            raise RangeError(f"{base.table!r} is public and no table leads to a person from it; read it in the open")
        self._missing = [self._path(edge.parent) + self.FOUND for edge in chosen if self._may_be_missing(edge, chosen)]
        return base.table

    def _grown(
        self, bases: Sequence[JoinSource], edges: Sequence[JoinEdge]
    ) -> tuple[dict[str, tuple[Step, ...]], list[JoinEdge]]:
        """Return the paths of all tables that edges lead to, away from some bases, and the edges that were taken."""
        paths: dict[str, tuple[Step, ...]] = {base.alias.casefold(): () for base in bases}
        chosen: list[JoinEdge] = []
        grown = True
        while grown:
            grown = False
            for edge in edges:
                if edge.child in paths and edge.parent not in paths:
                    paths[edge.parent] = (*paths[edge.child], edge.step)
                    chosen.append(edge)
                    grown = True
        return paths, chosen

    def _leave(self, used: set[int], chosen: Sequence[JoinEdge]) -> None:
        """Take the equalities by which tables are joined out of the conditions."""
        used = used | {at for edge in chosen for at in edge.used}
        for at, alias in self._left.items():
            if at not in used or not any(at in edge.used and edge.parent == alias for edge in chosen):
                raise RangeError(f"ON of a LEFT JOIN names the key and nothing else; {_KEYS_ONLY}")
        self._conjuncts = [each for at, each in enumerate(self._conjuncts) if at not in used]

    def _start(self, alias: str) -> str:
        """Return the alias of the base from which a table is found."""
        del alias
        return next(each for each in self._sources if not self.paths[each])

    def _may_be_missing(self, edge: JoinEdge, chosen: list[JoinEdge]) -> bool:
        """Return whether a JOIN drops rows here: not along a row's own path to its person, which is always found."""
        steps = self.paths[edge.parent]
        names = [step.to for step in steps]
        start = self._sources[self._start(edge.parent)].table
        own = all(
            (via := self.tables.schema(table).via) is not None and via.to == step.to and via.columns == step.columns
            for table, step in zip([start, *names], steps, strict=False)
        )
        below = any(other.child == edge.parent and not self._sources[other.parent].optional for other in chosen)
        return not (own or below or self._sources[edge.parent].optional)

    def _edges(self) -> Iterator[JoinEdge]:
        """Return the lookups that the equalities of two tables amount to."""
        equal: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        for at, node in enumerate(self._conjuncts):
            pair = self._equal_columns(node)
            if pair is not None:
                (first, one), (second, two) = pair
                equal.setdefault((first, second), {})[(one, two)] = at
                equal.setdefault((second, first), {})[(two, one)] = at
        for (child, parent), columns in equal.items():
            here, there = self._sources[child].table, self._sources[parent].table
            for step in self.tables.steps(here):
                if step.to != there:
                    continue
                if step.kind == "person":
                    persons = [self.tables.own_person(each) for each in (here, there)]
                    wanted = [] if None in persons else [tuple(each.name for each in persons if each is not None)]
                else:
                    key = self.tables.schema(there).key
                    wanted = [] if key is None else list(zip(step.columns, key.columns, strict=True))
                if wanted and all(each in columns for each in wanted):
                    yield JoinEdge(child, parent, step, tuple(columns[each] for each in wanted))  # type: ignore[index]

    def _equal_columns(self, node: Any) -> tuple[tuple[str, str], tuple[str, str]] | None:
        """Return the aliases and columns of an equality between two tables here; None if it is none."""
        if node.key != "eq" or node.this.key != "column" or node.expression.key != "column":
            return None
        found = [self.source_of(each) for each in (node.this, node.expression)]
        if found[0] is None or found[1] is None or found[0][0] == found[1][0]:
            return None
        return found[0], found[1]

    def source_of(self, node: Any) -> tuple[str, str] | None:
        """Return the alias of a column's table and its name as declared; None if no table here has it."""
        of = node.args.get("table")
        qualifier = None if of is None else declared_name(of, [each.alias for each in self._sources.values()])
        if node.text("db").casefold() not in ("", self.tables.name.casefold()):
            raise SchemaError(f"{sql_text(node)} names {node.text('db')!r}; the database is {self.tables.name!r}")
        found = []
        for alias, source in self._sources.items():
            if of is not None and qualifier != source.alias:
                continue
            name = declared_name(node, columns_of(self.tables, source.table))
            if name is not None:
                found.append((alias, name))
        if len(found) > 1:
            names = " or ".join(
                f"{written_name(self._sources[alias].alias)}.{written_name(name)}" for alias, name in found
            )
            raise RangeError(f"{node.name!r} may mean {names}; write one of them")
        if qualifier is not None and not found:
            table = self._sources[qualifier.casefold()].table
            known = columns_of(self.tables, table)
            raise SchemaError(f"{table!r} has no column {node.name!r}; {nearest(node.name, known)}")
        return found[0] if found else None

    # --- the statement over the view

    def rewrite(self) -> None:
        """Write every column by its path, and sub-selects as columns of the view."""
        tree = self.tree
        for at, each in enumerate(tree.expressions):
            if each.key == "column":
                tree.expressions[at].replace(exp.alias_(each.copy(), each.name, quoted=True))
        conditions = self.conditions()
        tree.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
        for key in ("group", "having", "order"):
            if tree.args.get(key) is not None:
                tree.set(key, folded(self, tree.args[key]).transform(self.written))
        tree.set("expressions", [folded(self, each).transform(self.written) for each in tree.expressions])
        clamp_counts(tree, self.features, self.tables)
        tree.args["from_"].set("this", table_named(self._name_from()))

    def _name_from(self) -> str:
        return f"{self.tables.name}.{self.base}"

    def conditions(self) -> list[Any]:
        """Return what rows of the view must pass: what is left of WHERE and ON, and that JOINs find their rows."""
        found = []
        for each in self._conjuncts:
            if self._outer is not None and self._is_correlated(each):
                continue
            found.append(folded(self, each.copy()).transform(self.written))
        for name in self._missing:
            self._columns.append(name)
            found.append(exp.EQ(this=column_named(name), expression=exp.Literal.string("true")))
        return found

    def _is_correlated(self, node: Any) -> bool:
        """Take an equality with a column around this sub-select; refuse every other use of one."""
        assert self._outer is not None
        around = [each for each in node.find_all(exp.Column) if self.source_of(each) is None]
        if not around:
            return False
        sides = [] if node.key != "eq" else [plain(node.this), plain(node.expression)]
        if len(around) != 1 or len(sides) != 2 or any(each.key != "column" for each in sides):
            raise RangeError(f"{sql_text(node)} names a column around the sub-select; {BY_KEY}")
        own = self.source_of(next(each for each in sides if self.source_of(each) is not None))
        self.correlate(own, self._outer.source_of(around[0]), node)
        return True

    def correlate(self, own: tuple[str, str] | None, other: tuple[str, str] | None, node: Any) -> None:
        """Note that a column of the base here is equal to one of the base around it."""
        assert self._outer is not None
        if own is None or other is None or self.paths[own[0]] or self._outer.paths[other[0]]:
            raise RangeError(f"{sql_text(node)} names a column around the sub-select; {BY_KEY}")
        self.correlated.append((own[1], other[1]))

    def written(self, node: Any) -> Any:
        """Return a column by its path from the base; names of AS stay as they are."""
        if node.key != "column" or node.args.get("written"):
            return node
        found = self.source_of(node)
        if found is None:
            return node
        alias, name = found
        table, path = self._sources[alias].table, self._path(alias)
        schema = self.tables.schema(table)
        column = next((each for each in schema.columns if each.name == name), None)
        if isinstance(column, PersonId):
            if self.grouped:
                raise RangeError("every person has one row here; count rows instead of persons")
            return column_named(self.tables.owner_name(self.base))
        if column is None:
            raise RangeError(
                f"{name!r} is a key, which is neither released nor compared with constants; count rows with "
                "COUNT(*), or declare it as a sl.Category(...) or sl.Number(...) too"
            )
        whole = f"{path}.{name}" if path else name
        if path:
            self._columns.append(whole)
        return column_named(whole)

    def _path(self, alias: str) -> str:
        return ".".join(step.name for step in self.paths[alias])

    def reader(self) -> ExpressionReader:
        return ExpressionReader(self.view().schema, [""], self.dialect)

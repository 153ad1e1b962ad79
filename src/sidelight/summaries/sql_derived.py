"""Grouped sub-selects of FROM and WITH, written as sub-selects of the rows that they are joined to.

    WITH t AS (SELECT pid, COUNT(*) AS n FROM visit GROUP BY pid)
    SELECT sex, COUNT(*) FROM patient p JOIN t ON t.pid = p.pid WHERE n > 2 GROUP BY sex

One row of `t` belongs to a row of `patient`: its columns are aggregates of the visits with that `pid`, JOIN asks that
there is one, and HAVING is a condition on it. A sub-select that is grouped by the key of another table and stands alone
is asked from that table. So everything is said by sub-selects by person or key, which `sql_subselects` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError
from sidelight.records.linked_tables import LinkedTables
from sidelight.summaries.sql_joins import columns_of, declared_table
from sidelight.summaries.sql_nodes import (
    declared_name,
    flat_conditions,
    has_aggregate,
    is_left,
    plain,
    table_named,
    written_name,
)
from sidelight.summaries.sql_subselects import AGGREGATES, SelectReader, aggregate_fold, only_rows
from sidelight.summaries.sql_tree import only, sql_text

#: Aggregates that are NULL over no rows, as the columns of a LEFT JOIN that finds nothing.
_NULL = ("sum", "avg", "min", "max", "logicalor", "logicaland", "first", "last", "argmin", "argmax", "mode")
_BY_ITS_KEY = "a grouped sub-select is joined by the columns that it is grouped by: the person, or a declared key"


@dataclass
class GroupedSelect:
    """A sub-select of FROM or WITH with GROUP BY: its keys and aggregates by name, and the columns its keys equal."""

    alias: str
    select: Any
    optional: bool
    keys: dict[str, Any] = field(default_factory=dict)
    aggregates: dict[str, Any] = field(default_factory=dict)
    equal: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        only_rows(self.select, "group", "having")
        only(self.select.args["group"], "expressions")
        self._rename()
        by = [plain(each) for each in self.select.args["group"].expressions]
        for each in self.select.expressions:
            node, name = plain(each.unalias()), str(each.alias_or_name).casefold()
            if name in {*self.keys, *self.aggregates}:
                raise RangeError(f"the sub-select names {name!r} twice; give each its own name with AS")
            if node.key == "column" and any(_is_same(node, group) for group in by):
                self.keys[name] = node
            elif has_aggregate(node):
                self.aggregates[name] = node
            else:
                raise RangeError(f"{sql_text(node)} is neither a column of GROUP BY nor an aggregate")
        if len(self.keys) != len(by):
            raise RangeError(f"the sub-select {self.alias!r} must name every column of its GROUP BY; {_BY_ITS_KEY}")

    def _rename(self) -> None:
        """Call its tables by names that no table around it has."""
        renamed = {}
        for table in self.select.find_all(exp.Table):
            renamed[table.alias_or_name.casefold()] = new = f"{table.alias_or_name} of {self.alias}"
            table.set("alias", exp.TableAlias(this=exp.to_identifier(new, quoted=True)))
        for column in self.select.find_all(exp.Column):
            if column.text("table").casefold() in renamed:
                new = renamed[column.text("table").casefold()]
                column.set("table", exp.to_identifier(new, quoted=True))

    def check(self, read: Callable[[Any], SelectReader]) -> None:
        """Refuse aggregates that are not understood, also where the statement does not use them."""
        rows = self.select.copy()
        for clause in ("group", "having"):
            rows.set(clause, None)
        reader = read(rows)
        for name, node in self.aggregates.items():
            bare = plain(node.this) if node.key == "coalesce" else node
            made = aggregate_fold(reader, bare, None)
            if made is None:
                raise RangeError(f"{sql_text(node)} of a sub-select is not understood; {AGGREGATES} are")
            made.declared(name, reader.view().reading(made.columns).schema)

    def has(self, node: Any, elsewhere: Callable[[str], bool]) -> bool:
        """Return whether a node is one of its columns."""
        if node.key != "column":
            return False
        table, name = node.text("table").casefold(), node.name.casefold()
        own = name in self.keys or name in self.aggregates
        return table == self.alias.casefold() if table else own and not elsewhere(name)

    def rows(self, asked: Any) -> Any:
        """Return a SELECT of its rows that belong to a row around it."""
        made = self.select.copy()
        for clause in ("group", "having"):
            made.set(clause, None)
        made.set("expressions", [asked])
        where = [] if made.args.get("where") is None else [exp.paren(made.args["where"].this)]
        where += [exp.EQ(this=self.keys[name].copy(), expression=other.copy()) for name, other in self.equal.items()]
        made.set("where", exp.Where(this=exp.and_(*where)))
        return made

    def column(self, name: str) -> Any:
        """Return what one of its columns is for a row around it."""
        if name in self.keys and self.optional:
            raise RangeError(
                f"{self.alias}.{name} is NULL where the LEFT JOIN finds nothing; write EXISTS or NOT EXISTS instead"
            )
        if name in self.keys:
            return self.equal[name].copy()
        if name not in self.aggregates:
            known = ", ".join([*self.keys, *self.aggregates])
            raise RangeError(f"{name!r} is not a column of the sub-select {self.alias!r}: {known}")
        if self.optional and self.aggregates[name].key not in _NULL:
            raise RangeError(
                f"{self.alias}.{name} is NULL where the LEFT JOIN finds nothing, and {sql_text(self.aggregates[name])} "
                f"is not; write COALESCE({written_name(name)}, 0) of a COUNT, or JOIN"
            )
        return exp.Subquery(this=self.rows(self.aggregates[name].copy()))

    def counted(self, count: Any) -> Any:
        """Return a COUNT that is 0 where there is no row."""
        return exp.Subquery(this=self.rows(count.copy()))

    def conditions(self) -> Iterator[Any]:
        """Return what JOIN and HAVING ask of a row around it."""
        having = self.select.args.get("having")
        if self.optional:
            if having is not None:
                raise RangeError("HAVING in a sub-select behind a LEFT JOIN is not understood; write JOIN")
            return
        yield exp.Exists(this=self.rows(exp.Star()))
        if having is None:
            return
        only(having, "this")

        def put(node: Any) -> Any:
            if isinstance(node, exp.AggFunc):
                return exp.Subquery(this=self.rows(node.copy()))
            if node.key == "column" and not node.text("table") and node.name.casefold() in self.aggregates:
                return self.column(node.name.casefold())
            return node

        yield exp.paren(having.this.copy().transform(put))


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two nodes name one column; one of them may leave the table out."""
    if one.key != "column" or other.key != "column" or declared_name(one, [other.name]) is None:
        return False
    tables = {each.text("table").casefold() for each in (one, other)} - {""}
    return len(tables) < 2


def written_out(tree: Any, tables: LinkedTables, read: Callable[[Any], SelectReader]) -> Any:
    """Return a statement without grouped sub-selects in FROM, joined by the person or a key; others stay."""
    if tree.key != "select" or tree.args.get("from_") is None:
        return tree
    named = {} if tree.args.get("with_") is None else {each.alias.casefold(): each for each in tree.args["with_"]}
    sources = [(tree.args["from_"].this, None), *((join.this, join) for join in tree.args.get("joins") or ())]
    found: dict[int, GroupedSelect] = {}
    alone = len(sources) == 1
    for place, (node, join) in enumerate(sources):
        select = _grouped(node, named)
        if select is not None and not (alone and _parent(select, tables, read) is None):
            found[place] = GroupedSelect(node.alias_or_name, select.copy(), optional=is_left(join))
    return _Writer(tree, tables, sources, found).written(read) if found else tree


def _grouped(node: Any, named: Mapping[str, Any]) -> Any:
    """Return the SELECT with GROUP BY that a source of FROM is; None if it is another."""
    select = node.this if node.key == "subquery" else None
    if node.key == "table" and not node.text("db") and node.name.casefold() in named:
        select = named[node.name.casefold()].this
    return select if select is not None and select.key == "select" and select.args.get("group") is not None else None


def _parent(
    select: Any, tables: LinkedTables, read: Callable[[Any], SelectReader]
) -> tuple[str, dict[str, str]] | None:
    """Return the private table by whose key a SELECT groups its rows, and its key by their columns; None if by none."""
    by = [plain(each) for each in select.args["group"].expressions]
    if any(each.key != "column" for each in by) or any(join.side for join in select.args.get("joins") or ()):
        return None
    reader = read(select.copy())
    sources = [reader.source_of(each) for each in by]
    names = [source[1] for source in sources if source is not None and not reader.paths[source[0]]]
    person = tables.own_person(reader.base)
    if len(names) != len(by) or (person is not None and names == [person.name]):
        return None
    for columns, to in tables.links_of(reader.base):
        key = tables.schema(to).key
        if {*columns} == {*names} and key is not None and not tables.is_public(to):
            return to, dict(zip(columns, key.columns, strict=True))
    return None


class _Writer:
    """Writes the grouped sub-selects of one statement as sub-selects of its rows."""

    def __init__(
        self, tree: Any, tables: LinkedTables, sources: Sequence[tuple[Any, Any]], found: Mapping[int, GroupedSelect]
    ) -> None:
        self._tree, self._tables, self._sources, self._found = tree, tables, sources, found
        self._plain = [node for place, (node, _) in enumerate(sources) if place not in found and node.key == "table"]

    def written(self, read: Callable[[Any], SelectReader]) -> Any:
        """Return the statement."""
        tree, where = self._tree, self._tree.args.get("where")
        pool = [] if where is None else [*flat_conditions(where.this)]
        joins: list[Any] = []
        optional: list[tuple[GroupedSelect, list[Any]]] = []
        for place, (node, join) in enumerate(self._sources[1:], 1):
            on = [] if join.args.get("on") is None else [*flat_conditions(join.args["on"])]
            on += [self._using(place, each) for each in join.args.get("using") or ()]
            if place in self._found:
                only(join, "this", "on", "using", "side", "kind")
            if join.side and place not in self._found:
                joins.append(join)
            elif join.side:
                optional.append((self._found[place], on))
            else:
                pool += on
                joins += [] if place in self._found else [exp.Join(this=node)]
        for one in self._found.values():
            one.check(read)
        pool = self._tied(pool, read)
        for one, on in optional:
            on = [each.transform(self._key) for each in on]
            if self._tie(one, on) or one.equal.keys() != one.keys.keys():
                raise RangeError(f"ON of a LEFT JOIN names the key and nothing else; {_BY_ITS_KEY}")
        conditions = [each.copy().transform(self._put) for each in pool]
        conditions += [each for one in self._found.values() for each in one.conditions()]
        tree.set("where", exp.Where(this=exp.and_(*conditions)) if conditions else None)
        if 0 in self._found and len(self._sources) > 1:
            if not joins or joins[0].side:
                raise RangeError(f"a LEFT JOIN behind a grouped sub-select is not understood; {_BY_ITS_KEY}")
            tree.args["from_"].set("this", joins.pop(0).this)
        tree.set("joins", joins or None)
        self._leave_with()
        names = {each.alias.casefold() for each in tree.expressions if each.key == "alias"}
        for key in ("group", "having"):
            if tree.args.get(key) is not None:
                tree.set(key, tree.args[key].transform(self._put))
        if tree.args.get("order") is not None:  # which goes by names of AS first

            def put(node: Any) -> Any:
                own = node.key == "column" and not node.text("table") and node.name.casefold() in names
                return node if own else self._put(node)

            tree.set("order", tree.args["order"].transform(put))
        items = []
        for each in tree.expressions:
            made = each.transform(self._put)
            items.append(exp.alias_(made, each.name, quoted=True) if each.key == "column" != made.key else made)
        tree.set("expressions", items)
        return tree

    def _leave_with(self) -> None:
        """Take the sub-selects that were written out of WITH."""
        used = {node.name.casefold() for place, (node, _) in enumerate(self._sources) if place in self._found}
        before = self._tree.args.get("with_")
        if before is not None:
            rest = [each for each in before.expressions if each.alias.casefold() not in used]
            before.set("expressions", rest)
            self._tree.set("with_", before if rest else None)

    def _using(self, place: int, name: Any) -> Any:
        """Return USING (column) as an equality with the first table before that has the column."""
        here = self._sources[place][0].alias_or_name
        for other, (node, _) in enumerate(self._sources[:place]):
            names = self._found[other].keys if other in self._found else self._columns(node)
            if name.name.casefold() in names:
                sides = [exp.column(name.name, each) for each in (node.alias_or_name, here)]
                return exp.EQ(this=sides[0], expression=sides[1])
        raise RangeError(f"USING names {name.name!r}, which no table before it has")

    def _columns(self, node: Any) -> set[str]:
        table = declared_table(self._tables, node)
        return set() if table is None else {each.casefold() for each in columns_of(self._tables, table)}

    def _elsewhere(self, name: str) -> bool:
        return any(name in self._columns(node) for node in self._plain)

    def _tied(self, pool: list[Any], read: Callable[[Any], SelectReader]) -> list[Any]:
        """Find what the keys of each sub-select are equal to, and return the other conditions."""
        if len(self._sources) == 1:  # grouped by the key of a table, whose rows it is asked of
            (one,) = self._found.values()
            parent = _parent(one.select, self._tables, read)
            assert parent is not None
            table, key = parent
            for name, node in one.keys.items():
                named = declared_name(node, key)
                assert named is not None
                one.equal[name] = exp.column(key[named], one.alias, quoted=True)
            self._tree.args["from_"].set("this", table_named(table, one.alias))
            return pool
        waiting = [one for one in self._found.values() if not one.optional]
        while waiting:
            ready = next(
                (one for one in waiting if {self._equality(one, each)[0] for each in pool} - {""} == one.keys.keys()),
                None,
            )
            if ready is None:
                raise RangeError(f"the sub-select {waiting[0].alias!r} is not joined; {_BY_ITS_KEY}")
            pool = [each.transform(self._key) for each in self._tie(ready, pool)]
            waiting.remove(ready)
        return pool

    def _key(self, node: Any) -> Any:
        """Return a key of a sub-select as the column that it equals, where that is known."""
        for one in self._found.values():
            if not one.optional and one.has(node, self._elsewhere) and node.name.casefold() in one.equal:
                return one.equal[node.name.casefold()].copy()
        return node

    def _equality(self, one: GroupedSelect, node: Any) -> tuple[str, Any]:
        """Return the key and the column of a plain table that a condition says are equal; "" if it does not."""
        sides = [plain(node.this), plain(node.expression)] if node.key == "eq" else []
        if any(each.key != "column" for each in sides):
            return "", None
        for own, other in (sides, sides[::-1]) if sides else ():
            is_key = one.has(own, self._elsewhere) and own.name.casefold() in one.keys
            if is_key and not any(each.has(other, self._elsewhere) for each in self._found.values()):
                if not other.text("table"):
                    raise RangeError(f"{sql_text(node)}: write the name of its table with {other.name!r}")
                return own.name.casefold(), other
        return "", None

    def _tie(self, one: GroupedSelect, pool: Sequence[Any]) -> list[Any]:
        """Take the equalities of its keys out of some conditions."""
        rest = []
        for each in pool:
            name, other = self._equality(one, each)
            if name and name not in one.equal:
                one.equal[name] = other
            else:
                rest.append(each)
        return rest

    def _put(self, node: Any) -> Any:
        """Return a column of a sub-select as what it is for a row of the statement."""
        for one in self._found.values():
            inner = plain(node.this) if node.key == "coalesce" and len(node.expressions) == 1 else None
            if inner is not None and one.optional and one.has(inner, self._elsewhere):
                made, other = one.aggregates.get(inner.name.casefold()), plain(node.expressions[0])
                if made is not None and made.key == "count" and other.key == "literal" and other.name == "0":
                    return one.counted(made)
            if one.has(node, self._elsewhere):
                return one.column(node.name.casefold())
        return node

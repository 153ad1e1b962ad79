"""Statements that join two tables with several rows of a person each: pairs, each side cut to its own cap first.

    SELECT COUNT(*) FROM visit v JOIN drug d ON v.pid = d.pid WHERE d.start >= v.start

Rows meet that have the same owner, and the same key where the statement says so; also where SQL would let rows of
different people meet. What WHERE says of one side chooses its rows before they are cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

from sqlglot import exp

from sidelight.errors import RangeError
from sidelight.records import PairedView
from sidelight.records.linked_tables import LinkedTables, Step
from sidelight.records.paired_views import PERSON
from sidelight.summaries.sql_expressions import ExpressionReader
from sidelight.summaries.sql_joins import JoinEdge, JoinReader, JoinSource


class PairReader(JoinReader):
    """Reads a SELECT of two tables of a person, and of what their rows lead to, and writes it over a view of pairs."""

    def __init__(self, tree: Any, tables: LinkedTables, dialect: str, *, max_rows: int | None) -> None:
        self._max_rows = max_rows
        super().__init__(tree, tables, dialect)

    def _read_tree(self) -> str:
        edges = list(self._edges())
        for left, right in combinations(self._sources.values(), 2):
            for on, used in self._meetings(left, right):
                paths, chosen = self._grown([left, right], edges)
                if len(paths) == len(self._sources):
                    return self._settled(left, right, on, used, paths, chosen)
        return ""

    def _settled(
        self,
        left: JoinSource,
        right: JoinSource,
        on: str | tuple[str, str],
        used: set[int],
        paths: dict[str, tuple[Step, ...]],
        chosen: list[JoinEdge],
    ) -> str:
        if left.optional or right.optional:
            raise RangeError("LEFT JOIN of two tables with several rows a person is not understood; write JOIN")
        if self._max_rows is None:
            raise RangeError(
                f"{left.table!r} and {right.table!r} have several rows a person each, and their JOIN makes pairs; say "
                "how many pairs of a person count, max_rows=..., or fold one of them, by EXISTS or COUNT"
            )
        prefixes = ("left", "right") if left.table == right.table else (left.table, right.table)
        self._prefix = dict(zip((left.alias.casefold(), right.alias.casefold()), prefixes, strict=True))
        self._first = {edge.parent: edge.child for edge in chosen}
        self.paths = paths
        self._leave(used, chosen)
        self._pairs = PairedView(tables=self.tables, left=left.table, right=right.table, on=on, max_rows=self._max_rows)
        self._missing = [self._path(edge.parent) + self.FOUND for edge in chosen if self._may_be_missing(edge, chosen)]
        return self._pairs.left

    def _meetings(self, left: JoinSource, right: JoinSource) -> Iterator[tuple[str | tuple[str, str], set[int]]]:
        """Return by what rows of two tables meet: a reference that the statement compares, or the person."""
        sides = (left, right)
        if any(self.tables.is_public(side.table) for side in sides):
            return
        equal: dict[tuple[str, str], int] = {}
        for at, node in enumerate(self._conjuncts):
            pair = self._equal_columns(node)
            if pair is not None and {pair[0][0], pair[1][0]} == {side.alias.casefold() for side in sides}:
                first, second = pair if pair[0][0] == left.alias.casefold() else pair[::-1]
                equal[first[1], second[1]] = at
        persons = [self.tables.own_person(side.table) for side in sides]
        same = None if None in persons else equal.get((persons[0].name, persons[1].name))  # type: ignore[union-attr]
        person = set() if same is None else {same}
        for one, to in self.tables.links_of(left.table):
            for two, other in self.tables.links_of(right.table):
                # rows of different people may name one public row, and those never meet here: the statement says so
                apart = self.tables.is_public(to) and not person
                named = list(zip(one, two, strict=True)) if to == other and not apart else []
                if named and all(each in equal for each in named):
                    yield ("+".join(one), "+".join(two)), {equal[each] for each in named} | person
        if same is not None:
            yield PERSON, person

    def view(self) -> PairedView:
        """Return the view of pairs with what the statement names."""
        return self._pairs.reading(self._columns)

    def within(self, select: Any) -> JoinReader:
        """Refuse a sub-select: a fold belongs to rows of a table, and these are pairs."""
        del select
        raise RangeError(
            "a sub-select in a statement of pairs is not understood: leave the JOIN, or the sub-select, out, or make "
            "the pairs with db.pairs(...)"
        )

    def rewrite(self) -> None:
        """Write every column by its path, and conditions into the pairs: they choose rows before these are cut."""
        conditions = self.conditions()
        if conditions:
            where = ExpressionReader(self.view().schema, [""], self.dialect).conditions(exp.and_(*conditions))
            self._pairs = replace(self._pairs, where=where)
        self._conjuncts, self._missing = [], []
        super().rewrite()

    def _name_from(self) -> str:
        return f"{self.tables.name}.{self._pairs.base}"

    def _start(self, alias: str) -> str:
        while alias in self._first:
            alias = self._first[alias]
        return alias

    def _path(self, alias: str) -> str:
        return ".".join([self._prefix[self._start(alias)], *(step.name for step in self.paths[alias])])

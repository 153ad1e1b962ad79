"""Which rows a statistic by group counts, in which groups, and how many of one unit: public, fixed before any row.

Groups are the cells of several axes: declared categories, derived labels (lookups, bins of numbers), and at most one
column of labels that nobody declared, whose groups are only known once rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from sidelight.aggregates.coding import Coding, EveryRow, SideBySide
from sidelight.aggregates.contributions import UnitCap
from sidelight.aggregates.counts import MOST_GROUPS
from sidelight.aggregates.predicates import ExpressionCoding, filtered
from sidelight.aggregates.unit_norms import UnitNorms
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees.claims import Neighbours, Unit
from sidelight.records import Category, Label, Number, Schema
from sidelight.records.columns import MAX_ROWS_LIMIT
from sidelight.records.expressions import Expression, Named
from sidelight.records.shapes import Labels

#: The note of a table that says which rows of a person count.
ROWS_COUNTED = "rows_counted"
#: So many rows of a person and group make a total, so that totals fit 64 bits on every engine.
ROWS_OF_A_TOTAL = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """The rows that pass `where`, by the cells of `axes`; what one unit adds is bounded by `cap`.

    Make one with `groups_of`, which checks everything against the schema.
    """

    schema: Schema
    axes: tuple[ExpressionCoding, ...]
    label: Label | None
    where: Expression | None
    cap: UnitCap
    norms: UnitNorms
    totals: bool = False

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The labels along each declared axis, in the order of the cells."""
        return tuple(_labels(axis).labels for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many cells there are along each declared axis: () for all rows in one."""
        return tuple(len(labels) for labels in self.keys)

    @property
    def cells(self) -> int:
        """How many declared cells there are in all."""
        return prod(self.shape)

    @property
    def unit(self) -> Unit:
        """Whose rows are bounded."""
        return self.schema.unit

    @property
    def notes(self) -> dict[str, str]:
        """Which rows of a person a number is about, for the notes of a table; {} where every row is its own unit."""
        if self.schema.person is None:
            return {}
        return {ROWS_COUNTED: self.cap.words(once=self.totals, by_group=bool(self.axes) or self.label is not None)}

    def coding(self, *values: Coding) -> Coding:
        """Return how a row becomes the codes of its group, and of some values; rows that do not pass are left out."""
        parts: tuple[Coding, ...] = (*self.axes, *values)
        if not parts:
            parts = (EveryRow.of(self.schema),)
        return filtered(parts[0] if len(parts) == 1 else SideBySide(parts), self.where, self.schema)


def groups_of(
    schema: Schema,
    *,
    by: str | Expression | Sequence[str | Expression] = (),
    where: Expression | None = None,
    max_groups: int | None = None,
    max_rows_per_group: int | None = None,
    totals: bool = False,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> Groups:
    """Check a grouping against a schema and return it with the norms of one unit's counts. Reads no rows.

    Args:
        schema: the public declarations.
        by: columns or derived labels; their cells are the groups.
        where: a condition that rows must pass.
        max_groups: in how many groups a person's rows count at most (g); needed where persons are protected and `by`
            is given, unless every column of it declares `per_person`.
        max_rows_per_group: how many of a person's rows count in one group (m); left out, as many as count at all (k).
            1 counts persons.
        totals: one record for each person and group, the total of its rows: k = g, m = 1, whatever `max_rows` is.
        neighbours: which data sets count as neighbours.

    Raises:
        SchemaError: an unknown column, a number without bins, a missing `max_groups`.
        RangeError: limits below 1, or more cells than fit.
    """
    if not isinstance(by, (str, Expression, Sequence)):
        raise SchemaError(f"by takes names of columns and derived labels, got {type(by).__name__}")
    given = (by,) if isinstance(by, (str, Expression)) else tuple(by)
    label: Label | None = None
    axes: list[ExpressionCoding] = []
    for each in given:
        declared = _declared(schema, each)
        if isinstance(declared, Label):
            if label is not None:
                raise SchemaError(
                    f"by names two columns of labels that nobody declared, {label.name!r} and {declared.name!r}; "
                    "declare one of them as a Category"
                )
            label = declared
            continue
        axis = ExpressionCoding(_axis(schema, each), schema)
        _labels(axis)
        axes.append(axis)
    if len({str(axis.expression) for axis in axes}) != len(axes):
        raise SchemaError("by names one column twice")
    if where is not None:
        filtered(EveryRow("", is_number=True), where, schema)
    norms, cap = _limits(schema, given, max_groups, max_rows_per_group, totals=totals, neighbours=neighbours)
    cap = UnitCap(
        rows=cap.rows,
        group_codes=len(axes) + (label is not None),
        groups=cap.groups,
        per_group=cap.per_group,
    )
    found = Groups(schema=schema, axes=tuple(axes), label=label, where=where, cap=cap, norms=norms, totals=totals)
    if found.cells > MOST_GROUPS:
        raise RangeError(f"by has {found.cells} groups, at most {MOST_GROUPS} fit; use fewer columns or labels")
    return found


def declared_max_groups(schema: Schema, by: str | Expression | Sequence[str | Expression]) -> int | None:
    """Return in how many groups one person's rows are by declaration; None if that is not declared.

    >>> declared_max_groups(Schema([Category("sex", ["F", "M"], per_person=1)]), "sex")
    1
    """
    given = (by,) if isinstance(by, (str, Expression)) else tuple(by)
    most = 1
    for each in given:
        names = (each,) if isinstance(each, str) else each.columns
        for name in names:
            column = next((column for column in schema.columns if column.name == name), None)
            if not isinstance(column, (Category, Label)) or column.per_person is None:
                return None
            most *= column.per_person
    return most


def _limits(
    schema: Schema,
    by: tuple[str | Expression, ...],
    max_groups: int | None,
    max_rows_per_group: int | None,
    *,
    totals: bool,
    neighbours: Neighbours,
) -> tuple[UnitNorms, UnitCap]:
    for name, limit in (("max_groups", max_groups), ("max_rows_per_group", max_rows_per_group)):
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_ROWS_LIMIT
        ):
            raise RangeError(f"{name} must be a whole number from 1 to 2**20, got {limit!r}")
    if schema.person is None:
        if totals:
            raise SchemaError("totals per person need a PersonId in the schema; declare one, or sum rows")
        return UnitNorms(rows=1, groups=1, per_group=1, neighbours=neighbours), UnitCap(rows=1)
    rows = schema.rows_per_unit
    known = [each for each in (max_groups, declared_max_groups(schema, by)) if each is not None]
    groups = 1 if not by or (rows == 1 and not totals) else min(known) if known else None
    if groups is None:
        raise SchemaError(
            f"a person's {rows} rows may lie in {rows} groups; say in how many they count with max_groups=: noise "
            "grows with it, and a small number that holds most people's groups is a good choice"
        )
    if totals:
        norms = UnitNorms(rows=groups, groups=groups, per_group=1, neighbours=neighbours)
        return norms, UnitCap(rows=groups * ROWS_OF_A_TOTAL, groups=groups, per_group=ROWS_OF_A_TOTAL)
    per_group = rows if max_rows_per_group is None else max_rows_per_group
    norms = UnitNorms(rows=rows, groups=groups, per_group=per_group, neighbours=neighbours)
    return norms, UnitCap(rows=rows, groups=groups, per_group=per_group)


def _declared(schema: Schema, each: str | Expression) -> object:
    name = each if isinstance(each, str) else each.name if isinstance(each, Named) else None
    return next((column for column in schema.columns if column.name == name), None)


def _axis(schema: Schema, each: str | Expression) -> Expression:
    if not isinstance(each, (str, Expression)):
        raise SchemaError(f"by takes names of columns and derived labels, got {type(each).__name__}")
    expression = Named(each) if isinstance(each, str) else each
    if isinstance(_declared(schema, each), Number):
        assert isinstance(expression, Named)
        raise SchemaError(
            f"by names the number {expression.name!r}, whose values are data; give public bins: "
            f"sl.col({expression.name!r}).cut([...])"
        )
    return expression


def _labels(axis: ExpressionCoding) -> Labels:
    if isinstance(axis.shape, Labels):
        return axis.shape
    raise SchemaError(f"by needs labels, and {axis.expression} gives none; use a Category, lookup(...) or cut(...)")

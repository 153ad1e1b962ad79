"""Which rows a statistic by group counts, in which groups, and how many of one unit: public, fixed before any row.

Groups are the cells of several axes: declared categories, derived labels (lookups, bins of numbers), and at most one
column of undeclared labels, whose groups are known only after rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import ContributionBounds
from sidelight.aggregates.coding import (
    CategoryCoding,
    CodeArrays,
    Coding,
    CombinedCoding,
    EveryRow,
    cells_of,
    column_of,
)
from sidelight.aggregates.collect import totals_of
from sidelight.aggregates.contributions import Persons, UnitCap, places_that_count
from sidelight.aggregates.counts import MOST_GROUPS
from sidelight.aggregates.person_vectors import PersonVector
from sidelight.aggregates.predicates import ExpressionCoding, Filtered
from sidelight.errors import RangeError, SchemaError
from sidelight.grid import CODE_LIMIT
from sidelight.guarantees.claims import Context
from sidelight.guarantees.units import Unit
from sidelight.records import Category, Column, Label, Number, Schema, Table
from sidelight.records.columns import checked_limit
from sidelight.records.expression_shapes import LabelShape
from sidelight.records.expressions import Expression, Named
from sidelight.records.person_key import text_key
from sidelight.records.rows import DistinctTexts, Wanted

#: The note of a table that says which rows of a person count.
ROWS_COUNTED = "rows_counted"
#: The most rows of a person and group in a total, so that totals fit 64 bits on every engine.
ROWS_OF_A_TOTAL = 1 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Groups:
    """The rows that pass `where`, by the cells of `axes`; what one unit adds is bounded by `cap`.

    Make one with `groups_of`, which checks everything against the schema.
    """

    schema: Schema
    axes: tuple[CategoryCoding | ExpressionCoding, ...]
    label: Label | None
    where: Expression | None
    cap: UnitCap
    norms: ContributionBounds  # of counts; of the vectors of persons, in units of what each is cut to
    totals: bool | PersonVector = False

    @cached_property
    def keys(self) -> tuple[tuple[str, ...], ...]:
        """The labels along each declared axis, in the order of the cells."""
        return tuple(_labels(axis) for axis in self.axes)

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
    def context(self) -> Context:
        """For whom claims about these groups hold."""
        return {"neighbours": self.norms.neighbours, "unit": self.unit}

    @property
    def notes(self) -> dict[str, str]:
        """Which rows of a person a number is about, for the notes of a table; {} where every row is its own unit."""
        if self.schema.person is None:
            return {}
        if isinstance(self.totals, PersonVector):
            cut = "the totals of a person in all groups together are cut to person_total"
            return {ROWS_COUNTED: f"all rows of a person, in all groups; {cut}, and uncut ones may give another number"}
        by_group = bool(self.axes) or self.label is not None
        return {ROWS_COUNTED: self.cap.words(once=self.totals, by_group=by_group)}

    def coding(self, *values: Coding) -> Coding:
        """Return how a row becomes the codes of its group, and of some values; rows that do not pass are left out."""
        parts: tuple[Coding, ...] = (*self.axes, *values)
        if not parts:
            parts = (EveryRow.of(self.schema),)
        coding = parts[0] if len(parts) == 1 else CombinedCoding(parts)
        return coding if self.where is None else Filtered(coding, ExpressionCoding(self.where, self.schema))


def groups_of(
    schema: Schema,
    *,
    by: str | Expression | Sequence[str | Expression] = (),
    where: Expression | None = None,
    max_groups: int | None = None,
    max_rows_per_group: int | None = None,
    totals: bool | Literal["vector"] = False,
) -> Groups:
    """Check a grouping against a schema and return it with the norms of one unit's counts. Reads no rows.

    Args:
        schema: The public declarations.
        by: Columns or derived labels; their cells are the groups.
        where: A condition that rows must pass.
        max_groups: The most groups of a person (g); needed where persons are protected and `by` is given, unless every
            column of it declares `per_person`.
        max_rows_per_group: The most rows of a person in one group (m); by default all that count (k). 1 counts persons.
        totals: One record for each person and group, the total of its rows: k = g, m = 1, whatever `max_rows` is.
            "vector" cuts the totals of all groups together instead of limiting groups, and needs declared labels; the
            groups that are returned have the size of each person's vector, from which the cut is chosen.
    """
    if not isinstance(by, (str, Expression, Sequence)):
        raise SchemaError(f"by takes names of columns and derived labels, got {type(by).__name__}")
    given = (by,) if isinstance(by, (str, Expression)) else tuple(by)
    label: Label | None = None
    axes: dict[object, CategoryCoding | ExpressionCoding] = {}
    for each in given:
        declared = column_of(schema, each)
        if isinstance(declared, Label):
            if label is not None:
                raise SchemaError(
                    f"by names two columns of undeclared labels, {label.name!r} and {declared.name!r}; "
                    "declare one of them as a Category"
                )
            label = declared
            continue
        axis = CategoryCoding(declared) if isinstance(declared, Category) else _derived_axis(schema, each, declared)
        key = declared if isinstance(axis, CategoryCoding) else str(axis.expression)
        if key in axes:
            raise SchemaError("by names one column twice")
        axes[key] = axis
    if where is not None:
        Filtered(EveryRow("", is_number=True), ExpressionCoding(where, schema))
    if totals == "vector":
        if label is not None:
            raise SchemaError(f"the labels of {label.name!r} are undeclared; finding them needs max_groups=")
        given = ()  # a person's vector is one record, in however many groups
    norms, cap = _limits(schema, given, max_groups, max_rows_per_group, totals=bool(totals))
    cap = replace(cap, group_codes=len(axes) + (label is not None))
    one = totals is True
    found = Groups(schema=schema, axes=tuple(axes.values()), label=label, where=where, cap=cap, norms=norms, totals=one)
    if totals == "vector":
        found = replace(found, totals=PersonVector(most=CODE_LIMIT // found.cells, cut=False))
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


def known_max_groups(schema: Schema, by: Sequence[str | Expression], max_groups: int | None) -> int | None:
    """Return in how many groups a person counts at most, stated or declared; None if neither."""
    known = [each for each in (max_groups, declared_max_groups(schema, by)) if each is not None]
    return min(known) if known else None


def _limits(
    schema: Schema,
    by: tuple[str | Expression, ...],
    max_groups: int | None,
    max_rows_per_group: int | None,
    *,
    totals: bool,
) -> tuple[ContributionBounds, UnitCap]:
    if max_groups is not None:
        max_groups = checked_limit(max_groups, name="max_groups")
    if max_rows_per_group is not None:
        max_rows_per_group = checked_limit(max_rows_per_group, name="max_rows_per_group")
    if schema.person is None:
        if totals:
            raise SchemaError("totals per person need a PersonId in the schema; declare one, or sum rows")
        return ContributionBounds(rows=1, groups=1, per_group=1), UnitCap(rows=1)
    rows = schema.rows_per_unit
    groups = 1 if not by or (rows == 1 and not totals) else known_max_groups(schema, by, max_groups)
    if groups is None:
        raise SchemaError(
            f"a person's {rows} rows may lie in {rows} groups; say in how many they count with max_groups=: noise "
            "grows with it, and a small number that holds most people's groups is a good choice"
        )
    if totals:
        norms = ContributionBounds(rows=groups, groups=groups, per_group=1)
        return norms, UnitCap(rows=groups * ROWS_OF_A_TOTAL, groups=groups, per_group=ROWS_OF_A_TOTAL)
    per_group = rows if max_rows_per_group is None else max_rows_per_group
    norms = ContributionBounds(rows=rows, groups=groups, per_group=per_group)
    return norms, UnitCap(rows=rows, groups=groups, per_group=per_group)


def _derived_axis(schema: Schema, each: str | Expression, declared: Column | None) -> ExpressionCoding:
    if not isinstance(each, (str, Expression)):
        raise SchemaError(f"by takes names of columns and derived labels, got {type(each).__name__}")
    if isinstance(declared, Number):
        raise SchemaError(
            f"by names the number {declared.name!r}, whose values are data; give public bins: "
            f"sl.col({declared.name!r}).cut([...])"
        )
    axis = ExpressionCoding(Named(each) if isinstance(each, str) else each, schema)
    if not isinstance(axis.shape, LabelShape):
        raise SchemaError(f"by needs labels, and {axis.expression} gives none; use a Category, lookup(...) or cut(...)")
    return axis


def _labels(axis: CategoryCoding | ExpressionCoding) -> tuple[str, ...]:
    if isinstance(axis, CategoryCoding):
        return axis.category.labels
    assert isinstance(axis.shape, LabelShape)
    return axis.shape.labels


# Groups by labels that are not declared: which labels exist is private until a threshold. `Label.normalised` maps one
# record at a time, so that a text is the same group on every engine. In the mix that chooses a person's groups and rows
# a label is 60 bits of a hash of its text, with ties broken by the text: labels of others do not enter.
#: The range of the hash of a label.
_KEYS = (0, (1 << 60) - 1)


def labelled_rows(table: Table, groups: Groups, coding: Coding) -> tuple[tuple[str, ...], CodeArrays]:
    """Return the labels that occur, in order of their texts, and the rows that count.

    The codes of a row are those of the declared axes, then the index of its label, then the rest of `coding`.
    """
    label, person = groups.label, table.schema.person
    assert label is not None
    texts = tuple(dict.fromkeys([*coding.texts, label.name]))
    wanted = Wanted(numbers=coding.numbers, texts=texts, person=None if person is None else person.name)
    numbers: dict[str | None, int] = {}  # of a text, before it is normalised
    names: dict[str, int] = {}
    parts: list[CodeArrays] = []
    ids = Persons()
    for batch in table.rows.batches(wanted):
        codes, kept = coding.kernel(batch)
        texts_here = batch.texts[label.name]
        cells = texts_here.cells if isinstance(texts_here, DistinctTexts) else texts_here.tolist()
        for text in set(cells) - numbers.keys():
            name = label.label_of(text)
            numbers[text] = -1 if name is None else names.setdefault(name, len(names))
        places = np.fromiter((numbers[text] for text in cells), np.int64, len(cells))
        places = places[texts_here.places] if isinstance(texts_here, DistinctTexts) else places
        stays: NDArray[np.bool_] = places >= 0 if kept is None else kept & (places >= 0)
        if batch.person is not None:
            stays = ids.fold(batch.person, stays)
        parts.append(tuple(each[stays] for each in (places, *codes)))
    width = 1 + len(coding.ranges)
    none = np.empty(0, np.int64)
    place, *rest = (np.concatenate([none, *(part[at] for part in parts)]) for at in range(width))
    ordered = sorted(names)
    rank = np.empty(len(names), np.int64)
    rank[[names[name] for name in ordered]] = np.arange(len(names))
    axes = len(groups.axes)
    codes = (*rest[:axes], rank[place], *rest[axes:])
    if person is not None:
        keys = np.array([text_key(name) for name in names], np.int64)
        mixed = (*rest[:axes], keys[place], *rest[axes:])
        ranges = (*coding.ranges[:axes], _KEYS, *coding.ranges[axes:])
        whose = ids.numbers()
        stays_at = places_that_count((ids, whose), codes, mixed, ranges, groups.cap)
        codes = tuple(code[stays_at] for code in codes)
        codes = totals_of(whose[stays_at], codes) if groups.totals else codes
    return tuple(ordered), codes


def present_groups(groups: Groups, names: tuple[str, ...], codes: CodeArrays) -> tuple[Any, NDArray[np.int64]]:
    """Return the keys of the groups that occur, by label and then by declared cell, and the group of each row.

    A key is the labels of the declared axes, then the undeclared label.
    """
    cells = cells_of(codes, groups.shape, len(codes[0]))
    present, places = np.unique(codes[len(groups.axes)] * groups.cells + cells, return_inverse=True)
    keys = []
    for each in present.tolist():
        label, cell = divmod(each, groups.cells)
        key: list[str] = [names[label]]
        for labels in reversed(groups.keys):
            cell, place = divmod(cell, len(labels))
            key.insert(0, labels[place])
        keys.append(tuple(key))
    return tuple(keys), places.astype(np.int64)

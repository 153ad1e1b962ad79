"""What a reader of a statement's numbers must know: where a declared column makes them other than a database's."""

from __future__ import annotations

from collections.abc import Iterator

from sidelight.records import Category, Schema
from sidelight.records.expressions import (
    Compare,
    Expression,
    FillMissing,
    IsIn,
    IsMissing,
    Joined,
    Literally,
    Lookup,
    Named,
    Not,
)
from sidelight.summaries.sql_dialects import MEANINGS
from sidelight.summaries.sql_statement import Select


def notes_of(select: Select, schema: Schema, *, dialect: str) -> tuple[str, ...]:
    """Return where the numbers of a statement differ from those of a database.

    Args:
        select: The statement as it was understood.
        schema: What the columns are declared to be.
        dialect: Whose meaning the statement has.
    """
    found = []
    for column in schema.columns:
        if not isinstance(column, Category) or column.missing_code is None:
            continue
        label = column.labels[column.missing_code]
        if any(_tells_missing(each, column.name, label) for each in _read(select)):
            found.append(
                f"{column.name}: missing cells count as the label {label!r} and not as NULL, as the schema declares; "
                "Category(..., missing=sl.Drop()) makes them NULL"
            )
    if MEANINGS[dialect].ignores_case:
        found += [
            f"{item.name}: T-SQL drops the fraction of an average of integers; this is the average itself"
            for item in select.items
            if item.function == "mean" and item.integer
        ]
    return tuple(found)


def _read(select: Select) -> Iterator[Expression]:
    """Return the conditions, groups and counted columns of a statement."""
    yield from (each for each in (select.where, *(item.where for item in select.items)) if each is not None)
    for item in select.items:
        if item.of is not None and item.function in (None, "proportion"):
            yield item.of
            drops = not any(isinstance(each, IsMissing) for each in item.of.walk())
            if item.function == "proportion" and drops:  # rows of which it is unknown are not in the denominator
                yield Not(item.of)
        elif item.of is not None and item.function == "count":  # COUNT(column): rows that have a value
            yield IsMissing(item.of)


def _tells_missing(of: Expression, column: str, label: str, *, negated: bool = False) -> bool:
    """Return whether rows that carry the label of missing cells are chosen, or grouped, where NULL would not be."""
    if column not in of.columns or isinstance(of, Named):
        return False
    if isinstance(of, Joined):
        return any(_tells_missing(each, column, label, negated=negated) for each in (of.left, of.right))
    if isinstance(of, Not):
        return _tells_missing(of.of, column, label, negated=not negated)
    if isinstance(of, Lookup) and isinstance(of.of, FillMissing) and isinstance(of.of.of, Named):  # of a group
        results = dict(of.entries)
        return results.get(label, of.default) != results.get(of.of.value, of.default)
    if isinstance(of, IsIn) and isinstance(of.of, Named):
        return (label in of.values) is not negated
    if isinstance(of, Compare) and isinstance(of.right, Literally):
        if isinstance(of.left, Named):
            return ((of.right.value == label) is (of.operator == "==")) is not negated
        if isinstance(of.left, Lookup) and isinstance(of.left.of, Named) and of.operator == "==":
            return (dict(of.left.entries).get(label) == of.right.value) is not negated
    if isinstance(of, IsMissing):  # that of a condition stands next to the condition
        return isinstance(of.of, Named)
    return isinstance(of, (Compare, IsIn))

"""Counts and sums of a whole table by the aggregates of groups: what tests read an engine's cells by."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from sidelight.aggregates import cell_counts
from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.coding import NumberCoding
from sidelight.aggregates.collect import Lowering
from sidelight.aggregates.fixed_point import FixedPoint
from sidelight.aggregates.group_sums import group_counts, group_statistics
from sidelight.aggregates.groups import Groups, groups_of
from sidelight.aggregates.values import Value
from sidelight.aggregates.view_rows import made_by_persons
from sidelight.grid import Grid
from sidelight.guarantees.claims import Neighbours
from sidelight.records import PairedView, Table, View
from sidelight.records.held_rows import HeldRows


def with_neighbours(groups: Groups, neighbours: Neighbours) -> Groups:
    """Return the same groups with the bounds of other neighbours."""
    return replace(groups, norms=replace(groups.norms, neighbours=neighbours))


def row_count(table: Table, *, lowering: Lowering = "auto") -> Bounded:
    """Count the rows: all of them, or at most `max_rows` of each person."""
    return group_counts(table, groups_of(table.schema), lowering=lowering)


def grid_counts(table: Table, column: str, grid: Grid, *, lowering: Lowering = "auto") -> Any:
    """Count the rows in each cell of a grid."""
    return cell_counts(table, [column], grids={column: grid}, lowering=lowering)


def clipped_sum(table: Table, column: str, *, step: Any = None, lowering: Lowering = "auto") -> Bounded:
    """Sum a column with both bounds in units of a step, that of its granularity if left out."""
    number = table.schema.number(column)
    assert number.lower is not None
    assert number.upper is not None
    width = Fraction(number.granularity or 0) if step is None else Fraction(str(step))
    first, last = ((bound / width + Fraction(1, 2)).__floor__() for bound in (number.lower, number.upper))
    grid = Grid(resolution=width, first=first, last=last, dither_bits=0, snap="nearest")
    coding = NumberCoding(column, FixedPoint.on_grid(number, grid))
    value = Value(coding=coding, step=width, first=first, last=last)
    return group_statistics(table, groups_of(table.schema), [value], kind="whole", lowering=lowering).values[0]


def made_rows(view: View | PairedView, names: frozenset[str] | None = None) -> HeldRows:
    """Return the rows of a view of few persons with the named columns, or all of them."""
    ((made, _),) = made_by_persons(view, frozenset(view.schema.names) if names is None else names)
    return made

"""A view on generated rows: what it does to those of its tables, before anything is charged."""

from __future__ import annotations

import numpy as np

from sidelight.aggregates.expression_values import BatchScope, truth_of
from sidelight.aggregates.folds import FoldedRows, empty_value, fold_columns
from sidelight.aggregates.key_numbers import NONE
from sidelight.aggregates.rehearsal import generated_rows, rehearsed
from sidelight.aggregates.row_codes import codes_read
from sidelight.records import Number, PairedView, Schema, View
from sidelight.records.expressions import Named
from sidelight.records.fold import Fold


def rehearse_view(view: View | PairedView) -> None:
    """Do to generated rows what a view does to those of its tables: public work, before anything is charged.

    Raises:
        RangeError: a public number of a condition, a fold or a declaration is one that no row could meet.
    """
    with rehearsed(view):
        if isinstance(view, PairedView):
            scope = BatchScope(view.schema, generated_rows(view.schema, view.schema.names))
            for column in _numbers_of(view.schema):
                codes_read(Named(column), scope)
            if view.where is not None:
                truth_of(view.where, scope)
            for side in view.sides:
                rehearse_view(side)
            return
        found = [view.base, *(step.to for each in view.lookups.values() for step in each.steps)]
        for schema in map(view.tables.schema, dict.fromkeys(found)):
            names = _numbers_of(schema)  # where keys repeat, rows are compared by columns that no query names
            scope = BatchScope(schema, generated_rows(schema, names))
            for name in names:
                scope.column(name)
        if view.where is not None:
            schema = view.source.schema
            truth_of(view.where, BatchScope(schema, generated_rows(schema, view.where.columns)))
            rehearse_view(view.source)
        for name, fold in view.features.items():
            _rehearse_fold(name, fold, view.folded(fold))


def _numbers_of(schema: Schema) -> list[str]:
    return [each.name for each in schema.columns if isinstance(each, Number)]


def _rehearse_fold(name: str, fold: Fold, folded: View) -> None:
    declared = fold.declared(name, folded.schema)
    group = np.array([0, 0, 0, 1])
    rows = FoldedRows(generated_rows(folded.schema, fold.columns), folded.schema, group, 2, np.zeros_like)
    for column, each in zip(fold_columns(fold, rows, declared), declared, strict=True):
        column.cells(np.array([0, 1, NONE]), empty_value(fold, each))
    rehearse_view(folded)

"""What a fitted additive model says and shows: outputs, contributions of each column, curves and pictures. Free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sidelight.errors import SchemaError, nearest
from sidelight.records import Category, Number, Table
from sidelight.regression.additive.fine_codes import fine_size, prediction_codes
from sidelight.regression.estimators.additive_query import split_by
from sidelight.regression.estimators.curves import ColumnCurve, RowContributions
from sidelight.regression.estimators.table_encoding import TableEncoding, has_names, width_of
from sidelight.regression.losses import Floats
from sidelight.release import Release


class FittedCurvesMixin:
    """Adds what is read off a released additive model."""

    release_: Release
    columns_: tuple[Number | Category, ...]
    curves_: dict[str, ColumnCurve]
    intercept_: Any
    on_missing: Any

    def contributions(self, X: Any) -> Floats:  # noqa: N803
        """Return what each column adds to the output of each row: with `intercept_` they add up to it. Free.

        Returns:
            (rows, columns); of several classes (rows, columns, classes).
        """
        check_is_fitted(self)
        return self._contributions(self.release_.value, self.columns_, self._table_of(X))

    def _contributions(self, value: Any, columns: Sequence[Number | Category], rows: Table) -> Floats:
        codes = prediction_codes(columns, rows, keep_missing=self.on_missing == "cell")
        tables = split_by(value["tables"], [fine_size(column) for column in columns])
        found = []
        for at, table in enumerate(tables):
            padded = np.concatenate([table, np.zeros((1, *table.shape[1:]))])  # a label that is not listed adds nothing
            found.append(padded[codes[:, at]])
        return np.stack(found, axis=1)

    def _outputs(self, value: Any, columns: Sequence[Number | Category], rows: Table) -> Floats:
        """Return the outputs of a released value for rows, not clipped."""
        return np.asarray(np.asarray(value["intercept"]) + self._contributions(value, columns, rows).sum(axis=1))

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return the sum of the curves, not clipped: the target, log odds of the second class, or one per class."""
        check_is_fitted(self)
        return self._outputs(self.release_.value, self.columns_, self._table_of(X))

    def curve(self, column: str) -> ColumnCurve:
        """Return the curve of one column."""
        check_is_fitted(self)
        if column not in self.curves_:
            raise SchemaError(f"the model has no column {column!r}; {nearest(str(column), list(self.curves_))}")
        return self.curves_[column]

    def plot(self, columns: Sequence[str] | None = None) -> Any:
        """Return a Matplotlib figure: shares, then a panel per column with its curve and the noisy counts under it.

        Where a prediction was used it is dashed. Cells whose counts are mostly noise are hatched. No confidence band is
        drawn: those that were measured do not hold. In words: `curve(name).sentence()`.

        Args:
            columns: Some columns only.
        """
        from sidelight.regression.estimators.curves_picture import draw_curves

        for name in columns or ():
            self.curve(name)
        check_is_fitted(self)
        return draw_curves(self.curves_, columns=columns)

    def explain(self, row: Any) -> RowContributions:
        """Return what each column adds to the output of one row, with a sentence that says it. Free.

        Args:
            row: One row: a mapping of values by column, or anything that `predict` takes.
        """
        check_is_fitted(self)
        if isinstance(row, dict) and all(np.ndim(value) == 0 for value in row.values()):
            row = {
                name: np.array([value], dtype=object if isinstance(value, str) else None) for name, value in row.items()
            }
        values = self.contributions(row)
        if len(values) != 1:
            raise SchemaError(f"explain and plot_row take one row, got {len(values)}; contributions takes many")
        names = tuple(column.name for column in self.columns_)
        several = values.ndim > 2
        classes = tuple(map(str, getattr(self, "classes_", ()))) if several else ()
        return RowContributions(columns=names, values=values[0], intercept=self.intercept_, classes=classes)

    def plot_row(self, row: Any) -> Any:
        """Return a Matplotlib figure of bars: what each column adds to the output of one row.

        Args:
            row: As in `explain`, whose `sentence()` says the same in words.
        """
        from sidelight.regression.estimators.curves_picture import draw_row

        return draw_row(self.explain(row))

    def _table_of(self, rows: Any) -> Table:
        if not isinstance(rows, Table) and not has_names(rows) and width_of(rows) != len(self.columns_):
            names = ", ".join(column.name for column in self.columns_)
            raise SchemaError(f"rows must have the columns {names}, in this order or by name")
        return TableEncoding(self.columns_).table(rows)

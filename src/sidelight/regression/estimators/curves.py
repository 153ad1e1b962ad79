"""Curves of an additive model, to look at: values on cells, noisy counts under them, and a sentence each.

A fitted additive model tells outputs, contributions of each column, curves and pictures, all free. A picture has a
panel per column on one scale, so that a flat curve looks flat; bars of one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sidelight.errors import SchemaError, nearest
from sidelight.readable import shown_text
from sidelight.records import Category, Date, Number, Table
from sidelight.records.dates import Calendar
from sidelight.registry import import_with_extras
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size, prediction_codes
from sidelight.regression.estimators.additive_query import split_by
from sidelight.regression.estimators.curve_words import shape_in_words
from sidelight.regression.estimators.table_encoding import TableEncoding, has_names, width_of
from sidelight.regression.losses import Floats
from sidelight.regression.table_rows import range_of
from sidelight.release import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCurve:
    """What one column adds to the output, given the other columns: post-processing of the release.

    Args:
        column: Its name.
        edges: Of a number the ends of its cells, one more than there are; empty for a category.
        labels: Of a category the labels; empty for a number.
        values: What each cell, or each label, adds; the mean over the rows is 0. Of several classes (cells, classes).
        predicted: What the prediction that was used says of each, None where none was.
        counts: The noisy number of rows of each.
        missing: What a missing number adds, None where that has no cell.
        kappa: The variance that the steps found in it, in half ranges² or log odds².
        share: Of the variance of all curves.
        hatched: Which cells have so few rows that their counts are mostly noise.
        classes: The classes, where there are more than two.
        calendar: Of a date, how its edges count.
    """

    column: str
    edges: Floats
    labels: tuple[str, ...]
    values: Floats
    predicted: Floats | None
    counts: Floats
    missing: float | Floats | None
    kappa: float | Floats
    share: float
    hatched: Any = field(repr=False)
    classes: tuple[str, ...] = ()
    calendar: Calendar | None = None

    def sentence(self) -> str:
        """Return the curve in words."""
        if self.classes:
            each = (f"{name}: {self._words(values)}" for name, values in zip(self.classes, self.values.T, strict=True))
            return f"{self.column}: {'; '.join(each)}"
        return f"{self.column}: {self._words(self.values)}"

    def _words(self, values: Floats) -> str:
        if self.labels:
            low, high = int(np.argmin(values)), int(np.argmax(values))
            least = f"least for {self.labels[low]} ({values[low]:+.3g})"
            return f"{least}, most for {self.labels[high]} ({values[high]:+.3g})"
        return shape_in_words(self.edges, values, self.calendar)


def curves_of(
    columns: Sequence[Number | Category], value: Mapping[str, Any], *, classes: Sequence[Any] = (), unit: float = 1.0
) -> dict[str, ColumnCurve]:
    """Return the curves of a release by column, in the order of the columns.

    Args:
        columns: The declared columns.
        value: The released value.
        classes: The classes of a classifier.
        unit: The half of the target's range, in which the release stores where the curves began.
    """
    sizes = [fine_size(column) for column in columns]
    tables, places = split_by(value["tables"], sizes), split_by(value["cell_of"], sizes)
    counts, fine = split_by(value["counts"], value["cells"]), split_by(value["fine"], sizes)
    began = split_by(np.asarray(value["offset"]) * unit, sizes) if int(value["chosen"]) >= 0 else [None] * len(columns)
    masses = [each / max(float(each.sum()), 1e-300) for each in fine]
    varied = [float(np.sum(mass @ table**2)) for mass, table in zip(masses, tables, strict=True)]
    whole, found = max(sum(varied), 1e-300), {}
    for at, column in enumerate(columns):
        few = counts[at] < 3 * float(value["count_noise"])
        table, cell_of = tables[at], places[at].astype(int)
        stated = None if began[at] is None else began[at] - masses[at] @ began[at]
        shared: dict[str, Any] = {
            "column": column.name,
            "kappa": np.asarray(value["kappa"])[at],
            "share": varied[at] / whole,
            "classes": tuple(map(str, classes)) if len(classes) > 2 else (),
        }
        if isinstance(column, Category):
            found[column.name] = ColumnCurve(
                edges=np.empty(0),
                labels=tuple(column.labels),
                values=table,
                predicted=stated,
                counts=fine[at],
                missing=None,
                hatched=few[cell_of],
                **shared,
            )
            continue
        inside = cell_of[:FINE_CELLS]
        cells = int(inside.max()) + 1
        starts = np.append(np.searchsorted(inside, np.arange(cells)), FINE_CELLS)
        weight = fine[at][:FINE_CELLS] + 1e-9
        low, high = map(float, range_of(column))
        found[column.name] = ColumnCurve(
            edges=low + (high - low) * starts / FINE_CELLS,
            labels=(),
            values=_means(table[:FINE_CELLS], weight, starts),
            predicted=None if stated is None else _means(stated[:FINE_CELLS], weight, starts),
            counts=counts[at][:cells],
            missing=table[FINE_CELLS] if cell_of[FINE_CELLS] >= 0 else None,
            hatched=few[:cells],
            calendar=column.calendar if isinstance(column, Date) else None,
            **shared,
        )
    return found


def _means(values: Floats, weights: Floats, starts: Any) -> Floats:
    """Return the weighted means of cells that begin at `starts`."""
    summed = np.add.reduceat((weights * values.T).T, starts[:-1], axis=0)
    return np.asarray((summed.T / np.add.reduceat(weights, starts[:-1])).T)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowContributions:
    """What each column adds to the output of one row, and the intercept: together they are the output.

    Args:
        columns: The names of the columns.
        values: What each adds; of several classes (columns, classes).
        intercept: The intercept; of several classes one each.
        classes: The classes, where there are more than two.
    """

    columns: tuple[str, ...]
    values: Floats
    intercept: float | Floats
    classes: tuple[str, ...] = ()

    @property
    def output(self) -> float | Floats:
        """The output of the row, not clipped."""
        found = np.asarray(self.intercept + self.values.sum(axis=0))
        return found if found.ndim else float(found)

    def sentence(self) -> str:
        """Return the row in words, the largest contributions first."""
        sizes = np.abs(self.values).max(axis=1) if self.classes else np.abs(self.values)
        words = [f"{self.columns[at]} {_shown(self.values[at])}" for at in np.argsort(-sizes, kind="stable")]
        of = f" ({', '.join(self.classes)})" if self.classes else ""
        return f"output{of} {_shown(self.output)}: intercept {_shown(self.intercept)}, {', '.join(words)}"


def _shown(value: Any) -> str:
    return " / ".join(f"{float(each):+.3g}" for each in np.atleast_1d(value))


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
        return self._contributions(self.release_.value, self.columns_, self._table_of(X), keep_missing=self._keeps)

    @property
    def _keeps(self) -> bool:
        """Whether missing numbers have a value of their own, as it was fitted."""
        return bool(self.release_.query["on_missing"] == "cell")

    def _contributions(
        self, value: Any, columns: Sequence[Number | Category], rows: Table, *, keep_missing: bool
    ) -> Floats:
        codes = prediction_codes(columns, rows, keep_missing=keep_missing)
        tables = split_by(value["tables"], [fine_size(column) for column in columns])
        found = []
        for at, table in enumerate(tables):
            padded = np.concatenate([table, np.zeros((1, *table.shape[1:]))])  # a label that is not listed adds nothing
            found.append(padded[codes[:, at]])
        return np.stack(found, axis=1)

    def _outputs(self, value: Any, columns: Sequence[Number | Category], rows: Table, *, keep_missing: bool) -> Floats:
        """Return the outputs of a released value for rows, not clipped."""
        found = self._contributions(value, columns, rows, keep_missing=keep_missing)
        return np.asarray(np.asarray(value["intercept"]) + found.sum(axis=1))

    def decision_function(self, X: Any) -> Floats:  # noqa: N803
        """Return the sum of the curves, not clipped: the target, log odds of the second class, or one per class."""
        check_is_fitted(self)
        return self._outputs(self.release_.value, self.columns_, self._table_of(X), keep_missing=self._keeps)

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

        return draw_row(self.explain(row))

    def _table_of(self, rows: Any) -> Table:
        if not isinstance(rows, Table) and not has_names(rows) and width_of(rows) != len(self.columns_):
            names = ", ".join(column.name for column in self.columns_)
            raise SchemaError(f"rows must have the columns {names}, in this order or by name")
        return TableEncoding(self.columns_).table(rows)


_WIDE = 3
_TITLE = "Curves given the other columns; no proof of a cause"
_PREDICTED = "dashed: the prediction that was used"


def draw_curves(curves: Mapping[str, ColumnCurve], *, columns: Sequence[str] | None) -> Figure:
    """Return a figure: shares of the columns, then a panel each, the largest share first."""
    figure_of = import_with_extras("matplotlib.figure").Figure
    shown = sorted(
        (curve for name, curve in curves.items() if columns is None or name in columns), key=lambda each: -each.share
    )
    deep = -(-(len(shown) + 1) // _WIDE)
    figure: Figure = figure_of(figsize=(4 * _WIDE, 2.8 * deep), layout="constrained")
    predicted = any(each.predicted is not None for each in shown)
    figure.suptitle("\n".join([_TITLE, *[_PREDICTED] * predicted]), fontsize=9)
    panels = figure.subplots(deep, _WIDE, squeeze=False).ravel()
    panels[0].barh([each.column for each in reversed(shown)], [each.share for each in reversed(shown)], color="0.4")
    panels[0].set_title("share of the variance of all curves", fontsize=8)
    drawn = [line for each in shown for line in (each.values, each.predicted) if line is not None]
    low, high = min((line.min() for line in drawn), default=0.0), max((line.max() for line in drawn), default=0.0)
    room = 0.05 * (high - low) or 1.0
    for panel, curve in zip(panels[1:], shown, strict=False):
        for at, color in enumerate(f"C{each}" for each in range(max(1, len(curve.classes)))):
            (_draw_labels if curve.labels else _draw_number)(panel, curve, at, color)
        _counts_below(panel, curve)
        if curve.classes:
            panel.legend(curve.classes, fontsize=6)
        panel.set_ylim(low - room, high + room)
        panel.set_title(shown_text(curve.column if curve.classes else curve.sentence()), fontsize=7, wrap=True)
    for panel in panels[len(shown) + 1 :]:
        panel.set_visible(False)
    return figure


def draw_row(row: RowContributions) -> Figure:
    """Return a figure of bars: what each column adds to the output of one row, the largest at the top."""
    figure_of = import_with_extras("matplotlib.figure").Figure
    order = np.argsort(np.abs(row.values).max(axis=1) if row.classes else np.abs(row.values), kind="stable")
    outputs = row.values.shape[1] if row.classes else 1
    figure: Figure = figure_of(figsize=(6, 1.2 + 0.3 * len(order) * outputs), layout="constrained")
    panel = figure.subplots()
    for at in range(outputs):
        values = row.values[order, at] if row.classes else row.values[order]
        places = np.arange(len(order)) + (at - (outputs - 1) / 2) * 0.8 / outputs
        colors = f"C{at}" if row.classes else ["C0" if value >= 0 else "C3" for value in values]
        bars = panel.barh(
            places, values, height=0.8 / outputs, color=colors, label=row.classes[at] if row.classes else "_"
        )
        panel.bar_label(bars, fmt="{:+.3g}", fontsize=7, padding=2)
    panel.set_yticks(np.arange(len(order)), [shown_text(row.columns[at]) for at in order])
    panel.axvline(0, color="0.3", lw=0.8)
    panel.margins(x=0.15)
    if row.classes:
        panel.legend(fontsize=7, reverse=True)
    shown = " / ".join(f"{float(each):.4g}" for each in np.atleast_1d(row.output))
    start = " / ".join(f"{float(each):.4g}" for each in np.atleast_1d(row.intercept))
    panel.set_title(f"intercept {start}, and what each column adds: {shown}", fontsize=9)
    return figure


def _of(values: Any, at: int) -> Any:
    return values if values.ndim == 1 else values[:, at]


def _counts_below(panel: Any, curve: ColumnCurve) -> None:
    """Draw the noisy counts as bars in the lowest quarter of a panel."""
    below = panel.twinx()
    below.set_yticks([])
    below.set_zorder(panel.get_zorder() - 1)
    panel.patch.set_visible(False)
    if curve.labels:
        below.bar(np.arange(len(curve.labels)), curve.counts[_order(curve)], color="0.85")
    else:
        bars = below.bar(curve.edges[:-1], curve.counts, width=np.diff(curve.edges), align="edge", color="0.85")
        for bar, few in zip(bars, curve.hatched, strict=True):
            bar.set_hatch("///" if few else "")
    below.set_ylim(0, 4 * max(float(curve.counts.max()), 1.0))


def _draw_number(panel: Any, curve: ColumnCurve, at: int, color: str) -> None:
    panel.stairs(_of(curve.values, at), curve.edges, color=color, baseline=None)
    if curve.calendar is not None:
        panel.xaxis.set_major_formatter(lambda value, _: curve.calendar.text(value))
        panel.tick_params("x", labelsize=5)
    if curve.predicted is not None:
        panel.stairs(_of(curve.predicted, at), curve.edges, color=color, ls="--", lw=0.9, baseline=None, label="_")


def _order(curve: ColumnCurve) -> Any:
    """Labels by what they add, of several classes to the first."""
    return np.argsort(_of(curve.values, 0), kind="stable")


def _draw_labels(panel: Any, curve: ColumnCurve, at: int, color: str) -> None:
    order = _order(curve)
    places = np.arange(len(order))
    panel.plot(places, _of(curve.values, at)[order], "o", color=color)
    if curve.predicted is not None:
        low, high = places - 0.35, places + 0.35
        panel.hlines(_of(curve.predicted, at)[order], low, high, color=color, ls="--", lw=0.9, label="_")
    panel.set_xticks(places, [shown_text(curve.labels[place]) for place in order], rotation=45, ha="right", fontsize=6)

"""Pictures of an additive model: a panel per column on one scale, so that a flat curve looks flat; bars of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sidelight.extras import import_with_extras
from sidelight.regression.estimators.curves import ColumnCurve, RowContributions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    drawn = [line for each in shown for line in _heights(each)]
    low, high = min((line.min() for line in drawn), default=0.0), max((line.max() for line in drawn), default=0.0)
    room = 0.05 * (high - low) or 1.0
    for panel, curve in zip(panels[1:], shown, strict=False):
        for at, color in enumerate(_colors(curve)):
            (_draw_labels if curve.labels else _draw_number)(panel, curve, at, color)
        _counts_below(panel, curve)
        if curve.classes:
            panel.legend(curve.classes, fontsize=6)
        panel.set_ylim(low - room, high + room)
        panel.set_title(curve.column if curve.classes else curve.sentence(), fontsize=7, wrap=True)
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
    panel.set_yticks(np.arange(len(order)), [row.columns[at] for at in order])
    panel.axvline(0, color="0.3", lw=0.8)
    panel.margins(x=0.15)
    if row.classes:
        panel.legend(fontsize=7, reverse=True)
    shown = " / ".join(f"{float(each):.4g}" for each in np.atleast_1d(row.output))
    start = " / ".join(f"{float(each):.4g}" for each in np.atleast_1d(row.intercept))
    panel.set_title(f"intercept {start}, and what each column adds: {shown}", fontsize=9)
    return figure


def _colors(curve: ColumnCurve) -> list[str]:
    return [f"C{at}" for at in range(max(1, len(curve.classes)))]


def _heights(curve: ColumnCurve) -> list[Any]:
    return [curve.values, *([] if curve.predicted is None else [curve.predicted])]


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
    panel.set_xticks(places, [curve.labels[place] for place in order], rotation=45, ha="right", fontsize=6)

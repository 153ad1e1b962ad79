"""Pictures of an additive model: a panel per column on one scale, so that a flat curve looks flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sidelight.regression.estimators.curves import ColumnCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDE = 3
_TITLE = "Curves given the other columns; no proof of a cause"
_NOISE = (
    "thin lines: noise of this release as the model reckons it; real errors are larger where columns are correlated; "
    "no confidence interval"
)


def draw_curves(curves: Mapping[str, ColumnCurve], *, columns: Sequence[str] | None, noise: bool) -> Figure:
    """Return a figure: shares of the columns, then a panel each, the largest share first."""
    from matplotlib.figure import Figure

    shown = sorted(
        (curve for name, curve in curves.items() if columns is None or name in columns), key=lambda each: -each.share
    )
    deep = -(-(len(shown) + 1) // _WIDE)
    figure = Figure(figsize=(4 * _WIDE, 2.8 * deep), layout="constrained")
    figure.suptitle(f"{_TITLE}\n{_NOISE}" if noise else _TITLE, fontsize=9)
    panels = figure.subplots(deep, _WIDE, squeeze=False).ravel()
    panels[0].barh([each.column for each in reversed(shown)], [each.share for each in reversed(shown)], color="0.4")
    panels[0].set_title("share of the variance of all curves", fontsize=8)
    low = min((float((each.values - noise * each.deviations).min()) for each in shown), default=0.0)
    high = max((float((each.values + noise * each.deviations).max()) for each in shown), default=0.0)
    room = 0.05 * (high - low) or 1.0
    for panel, curve in zip(panels[1:], shown, strict=False):
        (_draw_labels if curve.labels else _draw_number)(panel, curve, noise=noise)
        panel.set_ylim(low - room, high + room)
        panel.set_title(curve.sentence(), fontsize=7, wrap=True)
    for panel in panels[len(shown) + 1 :]:
        panel.set_visible(False)
    return figure


def _counts_below(panel: Any) -> Any:
    """Return an axis for noisy counts in the lowest quarter of a panel."""
    below = panel.twinx()
    below.set_yticks([])
    below.set_zorder(panel.get_zorder() - 1)
    panel.patch.set_visible(False)
    return below


def _draw_number(panel: Any, curve: ColumnCurve, *, noise: bool) -> None:
    panel.stairs(curve.values, curve.edges, color="C0", baseline=None)
    if noise:
        for sign in (-1, 1):
            panel.stairs(curve.values + sign * curve.deviations, curve.edges, color="C0", lw=0.5, baseline=None)
    below = _counts_below(panel)
    bars = below.bar(curve.edges[:-1], curve.counts, width=np.diff(curve.edges), align="edge", color="0.85")
    for bar, few in zip(bars, curve.hatched, strict=True):
        bar.set_hatch("///" if few else "")
    below.set_ylim(0, 4 * max(float(curve.counts.max()), 1.0))


def _draw_labels(panel: Any, curve: ColumnCurve, *, noise: bool) -> None:
    order = np.argsort(curve.values)
    places = np.arange(len(order))
    panel.plot(places, curve.values[order], "o", color="C0")
    if noise:
        panel.vlines(places, (curve.values - curve.deviations)[order], (curve.values + curve.deviations)[order], lw=0.5)
    panel.set_xticks(places, [curve.labels[place] for place in order], rotation=45, ha="right", fontsize=6)
    below = _counts_below(panel)
    below.bar(places, curve.counts[order], color="0.85")
    below.set_ylim(0, 4 * max(float(curve.counts.max()), 1.0))

"""Charts of other values than quantiles: the tiles of a matrix, the bars of a vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from sidelight.report.charts import NARROW, WIDE, both_widths, line_part, svg_body, text_part
from sidelight.report.labels import cut, text_width
from sidelight.report.numbers import short

#: Larger matrices and longer vectors are listed, not drawn.
MOST_COLUMNS, MOST_BARS = 60, 40
_LABELLED = 14


def matrix_chart(labels: Sequence[str], matrix: np.ndarray) -> Markup:
    """Draw a symmetric matrix as tiles: the stronger the colour, the larger the entry; two colours for two signs."""
    largest = float(np.abs(matrix).max()) or 1.0
    bodies = [_tiles(labels, matrix / largest, largest, width=width) for width in (WIDE, NARROW)]
    return both_widths(bodies, label=f"Released matrix of {len(labels)} columns, largest entry {short(largest)}")


def bar_chart(labels: Sequence[str], values: np.ndarray) -> Markup:
    """Draw a labelled vector as bars from zero."""
    bodies = [_bars(labels, values.tolist(), width=width) for width in (WIDE, NARROW)]
    return both_widths(bodies, label=f"{len(labels)} released numbers as bars")


def _tiles(labels: Sequence[str], shares: np.ndarray, largest: float, *, width: int) -> str:
    size, named = len(labels), len(labels) <= _LABELLED
    left = _room(labels, width) if named else 10
    side = min((width - left - 20) / size, 34.0)
    parts = []
    for i, row in enumerate(shares.tolist()):
        if named:
            parts.append(text_part(left - 8, i * side + side / 2 + 4, cut(labels[i], left - 8), "tick end"))
        for j, share in enumerate(row):
            sign = "minus" if share < 0 else "plus"
            parts.append(
                f'<rect class="tile {sign}" x="{left + j * side:.1f}" y="{i * side:.1f}" width="{side - 1:.1f}" '
                f'height="{side - 1:.1f}" fill-opacity="{max(abs(share), 0.02):.2f}"/>'
            )
    parts.append(text_part(left, size * side + 18, f"full colour: {short(largest)}", "caption"))
    return svg_body(parts, width=width, height=size * side + 26)


def _bars(labels: Sequence[str], values: Sequence[float], *, width: int) -> str:
    left, row = _room(labels, width), 20
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    written = [short(value, digits=4) for value in values]
    scale = (width - left - 16 - max(text_width(text) for text in written)) / span
    zero = left + 8 - low * scale
    parts = [line_part(zero, 0, zero, row * len(values), "axis")]
    for place, (label, value) in enumerate(zip(labels, values, strict=True)):
        top = place * row
        start = zero + min(value, 0.0) * scale
        parts.append(text_part(left - 8, top + 14, cut(label, left - 8), "tick end"))
        parts.append(
            f'<rect class="tile {"minus" if value < 0 else "plus"}" x="{start:.1f}" y="{top + 4}" '
            f'width="{max(abs(value) * scale, 0.5):.1f}" height="12" rx="2"/>'
        )
        parts.append(text_part(zero + max(value, 0.0) * scale + 6, top + 14, written[place], "tick"))
    return svg_body(parts, width=width, height=row * len(values) + 6)


def _room(labels: Sequence[str], width: int) -> float:
    """Return where the drawing begins: as far right as the longest label asks, within limits."""
    most = 110.0 if width < WIDE else 190.0
    return min(most, 8 + max(text_width(label) for label in labels))

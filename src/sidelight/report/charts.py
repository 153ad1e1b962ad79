"""Charts as small SVG texts, drawn twice: wide, and narrow for a telephone.

Written by hand rather than with a plotting library: 2 kB instead of 26 kB a figure, colours that follow the page's
light and dark themes, and text that stays readable when the page is narrow. No scripts.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from markupsafe import Markup, escape

from sidelight.report.contents import Comparison
from sidelight.report.words import axis_texts, short, ticks

# How wide a text of a chart is, about, and a label cut to the room there is.
#
# Estimated, because nothing here knows the reader's font: the widths are those of DejaVu Sans, wider than most.

#: Widths in pixels at the size of a tick, 12 pixels.
_WIDTHS = {**dict.fromkeys("iljtfI.,:;'|!()[] -/", 5.0), **dict.fromkeys("mwMW%@…—", 12.0)}
_USUAL, _CAPITAL, _FULL = 7.7, 9.3, 12.5


def text_width(text: str) -> float:
    """Return about how many pixels a tick of a chart takes.

    >>> text_width("ill") < text_width("age") < text_width("WWW")
    True
    """
    return sum(map(_width, text))


def cut(label: str, room: float) -> str:
    """Shorten a label to the room that a chart has for it.

    >>> cut("driver", 60), cut("cook and baker", 60)
    ('driver', 'cook a…')
    """
    widths, dots = list(accumulate(map(_width, label), initial=0.0)), _width("…")  # of its first 0, 1, 2, ... letters
    if widths[-1] <= room:
        return label
    kept = label[: max(bisect_right(widths, room, key=lambda width: width + dots) - 1, 0)]
    return f"{kept.rstrip()}…"


def _width(letter: str) -> float:
    if letter in _WIDTHS:
        return _WIDTHS[letter]
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return _FULL
    return _CAPITAL if letter.isupper() else _USUAL


# Charts of other values than quantiles: the tiles of a matrix, the bars of a vector.

#: Larger matrices and longer vectors are listed, not drawn.
MOST_COLUMNS, MOST_BARS = 60, 40
_LABELLED = 14


def matrix_chart(labels: Sequence[str], matrix: np.ndarray) -> Markup:
    """Draw a symmetric matrix as tiles: the stronger the colour, the larger the entry; two colours for two signs."""
    largest = float(np.abs(matrix).max()) or 1.0
    bodies = [_tiles(labels, matrix / largest, largest, width=width) for width in (WIDE, NARROW)]
    return both_widths(bodies, label=f"Released matrix of {len(labels)} columns, largest entry {short(largest)}")


def bar_chart(labels: Sequence[str], values: np.ndarray, *, label: str = "") -> Markup:
    """Draw a labelled vector as bars from zero; `label` says in words what it shows."""
    bodies = [_bars(labels, values.tolist(), width=width) for width in (WIDE, NARROW)]
    return both_widths(bodies, label=label or f"{len(labels)} released numbers as bars")


def _tiles(labels: Sequence[str], shares: np.ndarray, largest: float, *, width: int) -> str:
    size, named = len(labels), len(labels) <= _LABELLED
    left = _room(labels, width) if named else 10
    side = min((width - left - 20) / size, 34.0)
    across = min((width - left - 20) / size, 96.0)
    written = [[short(share * largest, digits=3) for share in row] for row in shares.tolist()]
    printed = named and max(text_width(text) for row in written for text in row) + 8 <= across
    across = across if printed else side
    parts = []
    if printed:  # names above the columns, too: a number is looked up by row and column
        parts += [
            text_part(left + (j + 0.5) * across, 12, cut(labels[j], across - 4), "tick middle") for j in range(size)
        ]
    top = 20.0 if printed else 0.0
    for i, row in enumerate(shares.tolist()):
        if named:
            parts.append(text_part(left - 8, top + i * side + side / 2 + 4, cut(labels[i], left - 8), "tick end"))
        for j, share in enumerate(row):
            sign = "minus" if share < 0 else "plus"
            parts.append(
                f'<rect class="tile {sign}" x="{left + j * across:.1f}" y="{top + i * side:.1f}" '
                f'width="{across - 1:.1f}" height="{side - 1:.1f}" fill-opacity="{max(abs(share), 0.02):.2f}"/>'
            )
            if printed:
                kind = "entry middle strong" if abs(share) > 0.6 else "entry middle"
                parts.append(text_part(left + (j + 0.5) * across, top + i * side + side / 2 + 4, written[i][j], kind))
    parts.append(text_part(left, top + size * side + 18, f"full colour: {short(largest)}", "caption"))
    return svg_body(parts, width=width, height=top + size * side + 26)


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


WIDE, NARROW = 720, 350


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A linear scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def quantile_chart(levels: Sequence[float], values: Sequence[float], errors: Sequence[float] | None) -> Markup:
    """Draw the released quantile function with the rank error of each point."""
    return both_widths(
        [_quantiles(levels, values, errors, width=width) for width in (WIDE, NARROW)],
        label=f"Released quantiles: {len(values)} points from {' to '.join(axis_texts([values[0], values[-1]]))}",
    )


def strip_chart(comparison: Comparison) -> Markup:
    """Draw one released example of every contestant against the true quantiles of the generated data."""
    return both_widths(
        [_strips(comparison, width=width) for width in (WIDE, NARROW)],
        label="One release of each kind against the true quantiles of the generated data",
    )


def _quantiles(levels: Sequence[float], values: Sequence[float], errors: Sequence[float] | None, *, width: int) -> str:
    narrow = width < WIDE
    height = 260 if narrow else 300
    left, top, bottom = 48, 14, height - 44
    panel = (84 if narrow else 170) if errors else 0
    right = width - panel - (26 if errors else 14)
    low, high = _padded(min(values), max(values))
    x = Axis(low=low, high=high, start=left, end=right)
    y = Axis(low=0, high=1, start=bottom, end=top)
    parts = [line_part(left, y(q), right, y(q), "grid") for q in (0, 0.25, 0.5, 0.75, 1)]
    parts += [text_part(left - 8, y(q) + 4, f"{round(100 * q)} %", "tick end") for q in (0, 0.5, 1)]
    marks = ticks(low, high, about=3 if narrow else 5)
    for tick, text in zip(marks, axis_texts(marks), strict=True):
        parts.append(line_part(x(tick), bottom, x(tick), bottom + 5, "axis"))
        parts.append(text_part(x(tick), bottom + 19, text, "tick middle"))
    parts.append(text_part((left + right) / 2, height - 6, "released value", "caption middle"))
    corners = [f"{x(v):.1f},{y(q):.1f}" for v, q in zip(values, levels, strict=True)]
    if len(corners) > 1:
        area = f"{x(values[0]):.1f},{bottom:.1f} {' '.join(corners)} {x(values[-1]):.1f},{bottom:.1f}"
        parts.append(f'<polygon class="area" points="{area}"/><polyline class="curve" points="{" ".join(corners)}"/>')
    radius = 4.5 if len(values) <= 25 else 2.5
    parts += [
        f'<circle class="dot" cx="{x(v):.1f}" cy="{y(q):.1f}" r="{radius}"/>'
        for v, q in zip(values, levels, strict=True)
    ]
    if errors:
        parts += _rank_bars(levels, errors, y, start=right + 26, end=width - (30 if narrow else 40), height=height)
    return svg_body(parts, width=width, height=height)


def _rank_bars(
    levels: Sequence[float], errors: Sequence[float], y: Axis, *, start: float, end: float, height: float
) -> list[str]:
    nearest = min((b - a for a, b in pairwise(levels)), default=1.0)
    thickness = min(10.0, max(1.5, 0.6 * nearest * abs(y.end - y.start)))
    x = Axis(low=0, high=max(errors), start=start, end=end)
    parts = [line_part(start, y.start, start, y.end, "axis")]
    for level, error in zip(levels, errors, strict=True):
        parts.append(
            f'<rect class="bar" x="{start}" y="{y(level) - thickness / 2:.1f}" width="{x(error) - start:.1f}" '
            f'height="{thickness:.1f}" rx="{min(2.0, thickness / 2):.1f}"/>'
        )
        if len(levels) <= 12 or level in (levels[0], levels[-1], levels[len(levels) // 2]):
            parts.append(text_part(x(error) + 5, y(level) + 4, f"{error:.0f}", "tick"))
    parts.append(text_part((start + end) / 2, height - 25, "± ranks", "caption middle"))
    parts.append(text_part((start + end) / 2, height - 8, "95 % sure", "caption middle"))
    return parts


def _strips(comparison: Comparison, *, width: int) -> str:
    narrow = width < WIDE
    left, right, top, row = (12 if narrow else 150), width - 14, 54, 46 if narrow else 40
    bottom = top + row * len(comparison.contestants)
    spread = comparison.truth[-1] - comparison.truth[0]
    low, high = comparison.truth[0] - 0.2 * spread, comparison.truth[-1] + 0.25 * spread
    x = Axis(low=low, high=high, start=left, end=right)
    parts = [text_part(left, 14, "true quantiles of the generated people", "caption")]
    free = left - 40.0  # where the next label would not touch the last one
    for label, value in zip(comparison.levels, comparison.truth, strict=True):
        parts.append(line_part(x(value), top - 12, x(value), bottom, "truth"))
        if x(value) >= free:
            parts.append(text_part(x(value), top - 18, label, "tick middle"))
            free = x(value) + 40
    for position, contestant in enumerate(comparison.contestants):
        middle = top + row * position + (30 if narrow else 22)
        name_at = (left, middle - 12) if narrow else (left - 14, middle + 4)
        parts.append(text_part(*name_at, contestant.name, "name" if narrow else "name end"))
        parts.append(line_part(left, middle, right, middle, "grid"))
        for value in contestant.example:
            inside = min(max(value, low), high)
            off = " off" if inside != value else ""
            parts.append(f'<circle class="dot series{position}{off}" cx="{x(inside):.1f}" cy="{middle}" r="5"/>')
    marks = ticks(low, high, about=3 if narrow else 6)
    parts += [
        text_part(x(at), bottom + 22, text, "tick middle") for at, text in zip(marks, axis_texts(marks), strict=True)
    ]
    return svg_body(parts, width=width, height=bottom + 32)


def _padded(low: float, high: float) -> tuple[float, float]:
    if low == high:
        step = abs(low) / 10 or 1.0
        return low - step, high + step
    return low - 0.06 * (high - low), high + 0.06 * (high - low)


def line_part(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a line of a class."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text_part(x: float, y: float, text: str, kind: str) -> str:
    """Return a text of a class, escaped."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def svg_body(parts: Sequence[str], *, width: int, height: float) -> str:
    """Return what follows the opening of an SVG element."""
    return f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}">{"".join(parts)}</svg>'


def both_widths(bodies: Sequence[str], *, label: str) -> Markup:
    """Return the wide and the narrow drawing, of which the page shows one."""
    name = escape(label)
    return Markup("").join(
        Markup(f'<svg class="{kind}" role="img" aria-label="{name}" {body}')
        for kind, body in zip(("wide", "narrow"), bodies, strict=True)
    )

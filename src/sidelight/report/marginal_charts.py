"""Small charts of a synthetic table: the shares of one column as bars, of two columns as tiles.

One size for wide and narrow pages: the page sets them side by side or one below the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

from sidelight.report.charts import cut, line_part, svg_body, text_part, text_width

WIDTH = 330
#: A column with more places is drawn without a name for each; pairs with more cells than the second are not drawn.
MOST_NAMED, MOST_TILES = 14, 1000
_MOST_HINTS = 300
_LONGEST_NAME = 86.0  # pixels


def share_text(share: float) -> str:
    """Write a share of the rows.

    >>> share_text(0.3456), share_text(0.0123), share_text(0.00004), share_text(0)
    ('35 %', '1.2 %', '< 0.1 %', '0 %')
    """
    if share == 0:
        return "0 %"
    if share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.095 else f"{100 * share:.0f} %"


def column_chart(name: str, labels: Sequence[str], shares: np.ndarray) -> Markup:
    """Draw the shares of one column."""
    values = shares.tolist()
    largest = max(values) or 1.0
    parts = _skyline(labels, values, largest) if len(labels) > MOST_NAMED else _named(labels, values, largest)
    height = 118 if len(labels) > MOST_NAMED else 19 * len(labels) + 4
    return _svg(
        parts, height=height, label=f"Shares of {name}: {len(labels)} values, the largest {share_text(largest)}"
    )


def pair_chart(down: Sequence[str], across: Sequence[str], shares: np.ndarray, *, label: str) -> Markup:
    """Draw the shares of two columns as tiles: the stronger the colour, the larger the share."""
    if len(down) > MOST_NAMED >= len(across):  # the longer side has more room across
        down, across, shares = across, down, shares.T
    largest = float(shares.max()) or 1.0
    left = 92 if len(down) <= MOST_NAMED else 6
    wide = min((WIDTH - left) / len(across), 44.0)
    high = min(max(wide, 15.0), 22.0) if len(down) <= MOST_NAMED else min(wide, 8.0)
    hints = shares.size <= _MOST_HINTS
    parts = []
    for i, row in enumerate(shares.tolist()):
        if len(down) <= MOST_NAMED:
            parts.append(text_part(left - 6, i * high + high / 2 + 4, _cut(down[i]), "tick end"))
        for j, share in enumerate(row):
            hint = f"<title>{escape(f'{down[i]}, {across[j]}: {share_text(share)}')}</title>" if hints else ""
            parts.append(
                f'<rect class="tile plus" x="{left + j * wide:.1f}" y="{i * high:.1f}" '
                f'width="{max(wide - 1, wide * 0.8):.1f}" height="{max(high - 1, high * 0.8):.1f}" '
                f'fill-opacity="{max(share / largest, 0.03):.2f}">{hint}</rect>'
            )
    names, bottom = _across(across, left=left, wide=wide, top=len(down) * high)
    parts += names
    if len(down) > MOST_NAMED:
        bottom += 16
        parts.append(text_part(left, bottom, f"downwards: {_cut(down[0])} to {_cut(down[-1])}", "tick"))
    parts.append(text_part(left, bottom + 16, f"full colour: {share_text(largest)} of the rows", "caption"))
    return _svg(parts, height=bottom + 22, label=f"{label}: shares of rows, the largest {share_text(largest)}")


def _across(labels: Sequence[str], *, left: float, wide: float, top: float) -> tuple[list[str], float]:
    """Return names below the tiles, all of them or the first and the last, and where they end."""
    if len(labels) > MOST_NAMED:
        first = text_part(left, top + 14, _cut(labels[0]), "tick")
        return [first, text_part(left + wide * len(labels), top + 14, _cut(labels[-1]), "tick end")], top + 16
    parts = []
    for place, label in enumerate(labels):
        at = f"translate({left + (place + 0.5) * wide + 4:.1f} {top + 10:.1f}) rotate(-60)"
        parts.append(f'<text class="tick end" transform="{at}">{escape(_cut(label))}</text>')
    # at 60 degrees a name goes down by 0.87 of its length
    return parts, top + 16 + 0.87 * max(text_width(_cut(label)) for label in labels)


def _named(labels: Sequence[str], values: Sequence[float], largest: float) -> list[str]:
    left, room = 96, WIDTH - 96 - 52
    parts = [line_part(left, 0, left, 19 * len(values), "axis")]
    for place, (label, share) in enumerate(zip(labels, values, strict=True)):
        top = 19 * place
        parts.append(text_part(left - 7, top + 14, _cut(label), "tick end"))
        parts.append(_bar(left, top + 4, room * share / largest, 12))
        parts.append(text_part(left + room * share / largest + 5, top + 14, share_text(share), "tick"))
    return parts


def _skyline(labels: Sequence[str], values: Sequence[float], largest: float) -> list[str]:
    step, base = (WIDTH - 4) / len(values), 88.0
    parts = [line_part(2, base, WIDTH - 2, base, "axis")]
    for place, (label, share) in enumerate(zip(labels, values, strict=True)):
        tall = (base - 14) * share / largest
        title = f"<title>{escape(label)}: {share_text(share)}</title>"
        parts.append(_bar(2 + place * step, base - tall, max(step - 1, 0.6), tall, inside=title))
    parts.append(text_part(2, base + 16, _cut(labels[0]), "tick"))
    parts.append(text_part(WIDTH - 2, base + 16, _cut(labels[-1]), "tick end"))
    parts.append(text_part(2, 10, f"highest bar: {share_text(largest)}", "caption"))
    return parts


def _bar(x: float, y: float, width: float, height: float, *, inside: str = "") -> str:
    return (
        f'<rect class="tile plus" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" '
        f'height="{max(height, 0.5):.1f}" rx="1.5">{inside}</rect>'
    )


def _svg(parts: Sequence[str], *, height: float, label: str) -> Markup:
    return Markup(f'<svg role="img" aria-label="{escape(label)}" {svg_body(parts, width=WIDTH, height=height)}')


def _cut(label: str) -> str:
    return cut(label, _LONGEST_NAME)

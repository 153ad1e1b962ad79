"""A picture of the closed rounds: the action of each, and how many clients reported. A few rectangles, so by hand."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from sidelight.experts.server import Closed

_ROUNDS = 60
_ROWS = 10
_WIDTH, _LEFT, _ROW, _BARS = 800, 150, 24, 44
_NAME = 20


def strip_chart(closed: Sequence[Closed], names: Sequence[str]) -> Markup | None:
    """Return the last rounds as SVG: a row for each action that was chosen, most often on top. None without rounds."""
    shown = list(closed[-_ROUNDS:])
    if not shown:
        return None
    rows = _rows(shown)
    step = min((_WIDTH - _LEFT) / len(shown), 26.0)
    bars = len(rows) * _ROW + 14
    parts = []
    for place, action in enumerate([*rows, None] if len({each.action for each in shown}) > len(rows) else rows):
        y = place * _ROW + _ROW / 2
        name = "others" if action is None else names[action]
        parts.append(f'<text class="axis end" x="{_LEFT - 12}" y="{y + 4:.1f}">{escape(_short(name))}</text>')
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y}" y2="{y}"/>')
        bars = (place + 1) * _ROW + 14
    for place, each in enumerate(shown):
        x = _LEFT + place * step
        row = rows.index(each.action) if each.action in rows else len(rows)
        kind = "mark last" if place == len(shown) - 1 else "mark"
        parts.append(_bar(kind, x, row * _ROW + 5, step, _ROW - 10))
        height = _BARS * min(1.0, each.reports / each.expected)
        parts.append(_bar("part", x, bars + _BARS - height, step, height))
    base = bars + _BARS
    parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{base}" y2="{base}"/>')
    parts.append(f'<text class="axis end" x="{_LEFT - 12}" y="{bars + _BARS / 2 + 4:.1f}">reports</text>')
    parts.append(f'<text class="axis" x="{_LEFT}" y="{base + 16}">round {shown[0].round}</text>')
    if len(shown) * step > 150:
        last = f'<text class="axis end" x="{_LEFT + len(shown) * step:.1f}" y="{base + 16}">{shown[-1].round}</text>'
        parts.append(last)
    title = f"Chosen actions of rounds {shown[0].round} to {shown[-1].round}, last: {names[shown[-1].action]}"
    head = f'<svg class="strip" viewBox="0 0 {_WIDTH} {base + 22}" role="img"><title>{escape(title)}</title>'
    return Markup(head + "".join(parts) + "</svg>")


def _rows(shown: Sequence[Closed]) -> list[int]:
    counts: dict[int, int] = {}
    for each in shown:
        counts[each.action] = counts.get(each.action, 0) + 1
    often = sorted(counts, key=lambda action: (-counts[action], action))
    return often if len(often) <= _ROWS else often[: _ROWS - 1]


def _bar(kind: str, x: float, y: float, width: float, height: float) -> str:
    inside = max(width - 2, width * 0.7)
    return f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{inside:.2f}" height="{height:.2f}" rx="2"/>'


def _short(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"

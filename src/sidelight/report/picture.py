"""One release as a picture of its own: an SVG file with its colours, for pages that show a release as it arrives."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape

from sidelight.group_table import GroupTable
from sidelight.release import Outcome, Release
from sidelight.report.charts import WIDE, cut, svg_body, text_part, text_width
from sidelight.report.groups import groups_card
from sidelight.report.render import CONFIDENCE, release_chart

#: Groups that are drawn; the others stand in the table beside the picture.
MOST_DRAWN = 40
_ROW, _BAR = 24, 300


def picture(outcome: Outcome) -> str | None:
    """Return the SVG of an outcome; None where a picture says no more than a number, or nothing was released."""
    if not isinstance(outcome, Release):
        return None
    if isinstance(outcome.value, GroupTable):
        return _grouped(groups_card(outcome))
    errors = None if outcome.error is None else (outcome.error.likely or outcome.error).at(CONFIDENCE).tolist()
    drawn = release_chart(outcome, errors)
    return None if drawn is None else _standing_alone(str(drawn).partition("</svg>")[0] + "</svg>")


def _grouped(card: Any) -> str | None:
    """Draw the first statistic of each group with its interval: a row a group, as in the table of a report."""
    rows = [row for row in (*card["open"], *card["folded"]) if row.bar is not None][:MOST_DRAWN]
    if not rows:
        return None
    names = [" · ".join(row.labels) or "all" for row in rows]
    left = min(200.0, 12 + max(text_width(name) for name in names))
    shown = 2 if card["interval"] else 1
    title = card["first"].replace("_", " ") + (" with its interval" if shown > 1 else "")
    parts = [text_part(left + 8, 14, title, "caption")]
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        top = 22 + place * _ROW
        parts.append(text_part(left, top + 15, cut(name, left - 4), "name end"))
        size = f'x="{left + 8:.1f}" y="{top}" width="{_BAR}" height="20" preserveAspectRatio="none" '
        parts.append(
            str(row.bar).replace('class="spark" role="img"', size, 1).replace(' width="190" height="18"', "", 1)
        )
        numbers = row.numbers[0] + (f"   ({row.numbers[1]})" if shown > 1 else "")
        parts.append(text_part(left + _BAR + 18, top + 15, cut(numbers, WIDE - left - _BAR - 18), "tick"))
    label = escape(f"{title}, {len(rows)} groups")
    body = svg_body(parts, width=WIDE, height=22 + len(rows) * _ROW + 8)
    return _standing_alone(f'<svg class="wide" role="img" aria-label="{label}" {body}')


def _standing_alone(drawn: str) -> str:
    """Return a chart of a page with its namespace and its style: it is shown at every width, and has no scripts."""
    style = Markup(files("sidelight.report").joinpath("templates/report.css").read_text(encoding="utf-8"))
    start, _, rest = drawn.replace('class="wide"', 'xmlns="http://www.w3.org/2000/svg"', 1).partition(">")
    font = "svg { font-family: system-ui, sans-serif; }"
    return f"{start}><style><![CDATA[{style}{font}]]></style>{rest}"

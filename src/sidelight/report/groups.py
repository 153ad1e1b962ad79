"""What a report shows of statistics by group: one row per group, with a bar, its interval and its prediction.

All of it is computed from the release, whose numbers are public.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from sidelight.aggregates.groups import ROWS_COUNTED
from sidelight.group_table import ALL, POOLED, POOLED_WORDS, GroupTable
from sidelight.readable import as_read, percent, supported
from sidelight.release import Release
from sidelight.report.charts import Axis, line_part, svg_body
from sidelight.table_texts import (
    EXACT,
    INTERVAL,
    OUTWARD,
    PREDICTED,
    beside,
    error_of,
    flags_of,
    is_whole,
    leading_statistic,
    statistics_of,
)

#: Groups that are shown at once, and the most groups listed; further ones are counted.
MOST_OPEN, MOST_LISTED = 12, 2000
_WIDTH, _HEIGHT = 190, 18
#: More columns of numbers than this leave no room for bars.
_MOST_BESIDE_BARS = 6
_DIGITS = 6
#: Intervals are drawn up to this many times the largest number; one that goes on has no end mark.
_MOST_OF_INTERVALS = 1.5
_LOW, _HIGH = INTERVAL
_SUPPORTED = "supported"
#: The label of what was not declared.
OTHER = "other"

#: Notes that pictures of a hierarchy show.
_DRAWN = ("hierarchy", "shares", "caps", "prediction_used", "prediction_by_level")
#: Notes of a table in words.
_SAID = {"of": "counted"}


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """One group: its labels, its bar, and the numbers under the table's titles."""

    labels: tuple[str, ...]
    bar: Markup | None
    numbers: tuple[str, ...]
    total: bool


def groups_card(release: Release, *, areas: GroupTable | None = None) -> Mapping[str, Any]:
    """Return what the page shows of a table by group, and of areas that were computed from it."""
    table = release.shown if "shown" in release.query else release.dated(_with_prediction(release))
    hierarchy = None
    if "hierarchy" in release.value.notes:  # loaded where there is one: most reports have none
        from sidelight.report.hierarchies import hierarchy_pictures

        hierarchy = hierarchy_pictures(release.value)
    return {
        **_listed(table),
        "areas": None if areas is None else _listed(areas),
        "confidence": _confidence(release.query),
        "clipped": any("clip" in name for name in (*table.notes, *table.columns)),
        "hierarchy": hierarchy,
        "notes": sorted(
            (_SAID.get(key, key.replace("_", " ")), _note(value))
            for key, value in table.notes.items()
            if key not in (ROWS_COUNTED, *(_DRAWN if hierarchy else ()))
        ),
    }


def _listed(table: GroupTable) -> dict[str, Any]:
    """Return the rows of a table with their bars and titles, and the notes below it."""
    statistics = statistics_of(table)
    first = leading_statistic(table)
    flags = [each for word in (POOLED, _SUPPORTED) for each in flags_of(table, word) if _tells(each, table[each])]
    titles = [title for name in statistics for title in _titles(table, name)]
    marks = [*flags, *(name for name in flags_of(table, EXACT) if name == EXACT)]
    titles += [name.replace("_", " ") for name in marks]
    halves = {name: error_of(table, name) for name in statistics}
    bars = _bars(table, first) if len(titles) <= _MOST_BESIDE_BARS else None
    lines = [
        GroupRow(
            labels=group,
            bar=None if bars is None else bars[place],
            numbers=(
                *(text for name in statistics for text in _texts(table, name, place, half=halves[name])),
                *(_flag(table[name][place].item()) for name in marks),
            ),
            total=ALL in group,
        )
        for place, group in enumerate(table.groups[:MOST_LISTED])
    ]
    predicted = beside(table, first, PREDICTED)
    return {
        "key_names": table.keys_of_groups,
        "titles": titles,
        "open": lines[:MOST_OPEN],
        "folded": lines[MOST_OPEN:],
        "left_out": max(0, table.rows - MOST_LISTED),
        "drawn": bars is not None,
        "first": first,
        "interval": beside(table, first, _LOW) is not None,
        "predicted": bars is not None and predicted is not None,
        "noise": _noise(table, first),
        "other": any(OTHER in group for group in table.groups),
        "pooled": POOLED_WORDS if any(name.endswith(POOLED) for name in flags) else None,
        "unsupported": any(name.endswith(_SUPPORTED) for name in flags),
    }


def _with_prediction(release: Release) -> GroupTable:
    """Return the released table with a column of predicted values, where the release has them."""
    table: GroupTable = release.value
    stated = release.prediction or {}
    try:
        values = {tuple(labels): float(value) for *labels, value in stated.get("values") or ()}
    except (TypeError, ValueError):  # a release from a file may say anything
        return table
    if not values or "shares" in stated:  # shares of a total that is not known here
        return table
    predicted = [values.get(group, math.nan) for group in table.groups]
    columns = {name: table[name] for name in table.columns}
    return table.changed(columns=columns | {f"{leading_statistic(table)}_{PREDICTED}": predicted})


def _titles(table: GroupTable, name: str) -> list[str]:
    interval = [] if beside(table, name, _LOW) is None else ["interval"]
    predicted = [] if beside(table, name, PREDICTED) is None else ["predicted"]
    return [name.replace("_", " "), *interval, *predicted]


def _tells(name: str, values: Any) -> bool:
    """Return whether a flag says something: some group is pooled, or some group has no support."""
    return bool(values.any() if name.endswith(POOLED) else not values.all())


def _texts(table: GroupTable, name: str, place: int, *, half: float) -> list[str]:
    low, high, predicted = (beside(table, name, word) for word in (_LOW, _HIGH, PREDICTED))
    value = table[name][place].item()
    if low is None:
        # the count of another statistic is noisy: fractions of a row say nothing
        found = [_number(round(value) if is_whole(table, name) and _finite(value) else value)]
    else:
        both = (low[place], high[place] if high is not None else math.nan)
        half = half if all(map(_finite, both)) else math.nan
        found = [supported(value, half) if isinstance(value, float) and _finite(value) else _number(value)]
        found.append(_interval_text(*both, half) if all(map(_there, both)) else "–")
    if predicted is not None:
        found.append(_number(predicted[place]))
    return found


def _interval_text(low: Any, high: Any, half: float) -> str:
    """Write an interval, with its ends rounded outward."""
    ends = zip((low, high), OUTWARD.values(), strict=True)
    return " to ".join(supported(each, half, rounded=away) if _finite(each) else _number(each) for each, away in ends)


def _bars(table: GroupTable, name: str) -> list[Markup] | None:
    """Draw the first statistic of each group on one scale; None where there is nothing to compare."""
    values = table[name].tolist()[:MOST_LISTED] if name else []
    if name == "rank" or len(values) < 2 or table[name].dtype.kind not in "iuf" or not all(map(_finite, values)):
        return None
    low, high, predicted = (beside(table, name, word) or [math.nan] * table.rows for word in (_LOW, _HIGH, PREDICTED))
    drawn = [each for column in (values, predicted) for each in column[:MOST_LISTED] if _finite(each)]
    most_seen = _MOST_OF_INTERVALS * max(map(abs, drawn)) or math.inf
    # one group of two rows may lie anywhere: its interval would leave no room for all others
    ends = [min(max(each, -most_seen), most_seen) for each in (*low, *high) if _finite(each)]
    least, most = min(0.0, *drawn, *ends), max(0.0, *drawn, *ends)
    if not _finite(most - least):
        return None
    scale = Axis(low=least, high=most if most > least else least + 1.0, start=3, end=_WIDTH - 3)
    half = error_of(table, name)
    return [
        _bar(scale, values[place], low[place], high[place], predicted[place], name=name, half=half)
        for place in range(len(values))
    ]


def _bar(scale: Axis, value: float, low: float, high: float, predicted: float, *, name: str, half: float) -> Markup:
    zero, end, middle = scale(0.0), scale(value), _HEIGHT / 2
    parts = [
        f'<rect class="tile {"minus" if value < 0 else "plus"}" fill-opacity="0.45" x="{min(zero, end):.1f}" y="3" '
        f'width="{max(abs(end - zero), 0.5):.1f}" height="12" rx="2"/>',
        line_part(zero, 0, zero, _HEIGHT, "axis"),
    ]
    spoken = f"{name} {supported(value, half)}"
    if _finite(low) and _finite(high):
        start, stop = (scale(min(max(each, scale.low), scale.high)) for each in (low, high))
        parts.append(line_part(start, middle, stop, middle, "whisker"))
        inside = [each for each in (low, high) if scale.low <= each <= scale.high]
        parts += [line_part(scale(each), middle - 4, scale(each), middle + 4, "whisker") for each in inside]
        spoken += f", from {_interval_text(low, high, half)}"
    if _finite(predicted):
        parts.append(f'<circle class="expected" cx="{scale(predicted):.1f}" cy="{middle:.1f}" r="3.5"/>')
        spoken += f", predicted {_number(predicted)}"
    body = svg_body(parts, width=_WIDTH, height=_HEIGHT)
    return Markup(f'<svg class="spark" role="img" aria-label="{escape(spoken)}" {body}')


def _noise(table: GroupTable, name: str) -> str | None:
    """Return the standard deviation of the noise in words, where it is one for all groups."""
    found = {each for each in beside(table, name, "noise_sd") or () if _finite(each)}
    return as_read(found.pop(), digits=3) if len(found) == 1 else None


def _confidence(query: Mapping[str, Any]) -> str:
    try:
        asked = next((each for each in query.get("queries", ()) if "confidence" in each), query)  # of a statement
        asked = query["shown"] if "confidence" in query.get("shown", ()) else asked
        return f"{percent(float(asked['confidence']))} confidence"
    except (KeyError, TypeError, ValueError, AttributeError):
        return "the stated confidence"


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return as_read(value, digits=_DIGITS) if _there(value) else "–"


def _flag(value: Any) -> str:
    return (value or "–") if isinstance(value, str) else _number(bool(value))


def _there(value: Any) -> bool:
    return _finite(value) or isinstance(value, datetime.date)


def _note(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{str(key).replace('_', ' ')} {_note(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_note, value))
    return _number(value) if isinstance(value, (int, float)) else str(value)

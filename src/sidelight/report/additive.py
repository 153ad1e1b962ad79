"""What a report shows of an additive model: the curve of each column over its noisy counts, and a sentence for each.

All of it is read from the release, whose numbers are public. No confidence band is drawn: none that was measured holds.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from sidelight.records import Category, Number
from sidelight.release import Release
from sidelight.release.shown import as_read
from sidelight.report.charts import Axis, bar_chart, cut, line_part, svg_body, text_part
from sidelight.report.words import short

if TYPE_CHECKING:  # scikit-learn takes a second to load
    from sidelight.regression.estimators.curves import ColumnCurve

_WIDTH, _HEIGHT, _ROW = 330, 150, 19
#: So many columns are drawn; the others have a sentence. Classes have so many colours.
_MOST_DRAWN, _COLOURS = 24, 4


def additive_card(release: Release) -> Mapping[str, Any] | None:
    """Return everything that the page shows of an additive model; None of a stored release that was changed."""
    from sidelight.regression.additive.fine_codes import fine_size
    from sidelight.regression.estimators.curves import curves_of

    query, value = release.query, release.value
    try:
        columns = [declared(name, text) for name, text in zip(query["inputs"], query["columns"], strict=True)]
        if sum(map(fine_size, columns)) != len(value["tables"]):
            return None
        classes = tuple(_classes(query))
        unit = float(query.get("half_range", 1.0))
        curves = sorted(curves_of(columns, value, classes=classes, unit=unit).values(), key=lambda each: -each.share)
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    drawn = curves[:_MOST_DRAWN]
    heights = [part for each in drawn for part in (each.values, each.predicted) if part is not None]
    low, high = min(float(part.min()) for part in heights), max(float(part.max()) for part in heights)
    room = 0.05 * (high - low) or 1.0
    ends = (low - room, high + room)
    return {
        "facts": _facts(release, classes),
        "shares": bar_chart([each.column for each in drawn], np.array([each.share for each in drawn])),
        "columns": [
            (each.column, _chart(each, ends), each.sentence().removeprefix(f"{each.column}: ")) for each in drawn
        ],
        "others": [each.sentence() for each in curves[_MOST_DRAWN:]],
        "predicted": any(each.predicted is not None for each in drawn),
        "classes": classes if len(classes) > 2 else (),
    }


def declared(name: str, text: str) -> Number | Category:
    """Return a column from what a request says of it.

    >>> declared("age", "age: 18 to 90").upper == 90, declared("plan", 'plan: ["free", "team"]').labels
    (True, ('free', 'team'))
    """
    told = text.removeprefix(f"{name}: ")
    if told.startswith("["):
        return Category(name, json.loads(told), other=None)
    low, _, high = told.partition(" to ")
    return Number(name, lower=Fraction(low), upper=Fraction(high))


def _classes(query: Mapping[str, Any]) -> list[str]:
    return [str(each) for each in ast.literal_eval(query["classes"])] if "classes" in query else []


def _facts(release: Release, classes: Sequence[str]) -> list[tuple[str, str]]:
    value, query = release.value, release.query
    constants = " / ".join(short(float(each)) for each in np.atleast_1d(value["intercept"]))
    known = "declared" if query["rows"] != "none" else "released with noise"
    began = "lines" if query["lines"] != "none" else "nothing"
    if int(value["chosen"]) >= 0:
        began = f"prediction {int(value['chosen']) + 1} of {query['predictions']}"
    return [
        ("Predicts", ": ".join([str(query["column"]), *([", ".join(classes)] if classes else [])])),
        ("Intercept", f"{constants}, to which every column adds what its curve says"),
        ("Rows", f"about {as_read(round(float(value['rows'])))}, {known}"),
        ("Began with", f"{began}; {int(value['passes'])} noisy steps"),
    ]


def _chart(curve: ColumnCurve, ends: tuple[float, float]) -> Markup:
    """Draw a curve, the same scale for all, with its sentence as the text alternative."""
    parts, height = _labels(curve, ends) if curve.labels else _steps(curve, ends)
    body = svg_body(parts, width=_WIDTH, height=height)
    return Markup(f'<svg role="img" aria-label="{escape(curve.sentence())}" {body}')


def _outputs(values: Any) -> list[Any]:
    return [values] if values.ndim == 1 else list(values.T)


def _steps(curve: ColumnCurve, ends: tuple[float, float]) -> tuple[list[str], float]:
    left, right, bottom = 62, _WIDTH - 8, _HEIGHT - 24
    x = Axis(low=float(curve.edges[0]), high=float(curve.edges[-1]), start=left, end=right)
    y = Axis(low=ends[0], high=ends[1], start=bottom, end=6)
    parts, most = [], max(float(curve.counts.max()), 1.0)
    for low, high, count, few in zip(curve.edges, curve.edges[1:], curve.counts, curve.hatched, strict=False):
        tall = max(float(count), 0.0) / most * (bottom - 6) / 4
        kind = "count few" if few else "count"
        parts.append(
            f'<rect class="{kind}" x="{x(low):.1f}" y="{bottom - tall:.1f}" '
            f'width="{max(x(high) - x(low) - 0.5, 0.5):.1f}" height="{tall:.1f}"/>'
        )
    parts += [line_part(left, y(0), right, y(0), "grid"), line_part(left, bottom, right, bottom, "axis")]
    for each, kind in ((curve.predicted, "curve stated"), (curve.values, "curve")):
        for at, values in enumerate([] if each is None else _outputs(each)):
            corners = [
                f"{x(edge):.1f},{y(value):.1f}"
                for place, value in enumerate(values)
                for edge in curve.edges[place : place + 2]
            ]
            parts.append(f'<polyline class="{kind} line{at % _COLOURS}" points="{" ".join(corners)}"/>')
    parts += [text_part(left - 6, y(each) + 4, short(each, digits=2), "tick end") for each in ends]
    parts += [
        text_part(left, _HEIGHT - 8, short(float(curve.edges[0])), "tick"),
        text_part(right, _HEIGHT - 8, short(float(curve.edges[-1])), "tick end"),
    ]
    return parts, _HEIGHT


def _labels(curve: ColumnCurve, ends: tuple[float, float]) -> tuple[list[str], float]:
    left, right = 100, _WIDTH - 8
    x, parts = Axis(low=ends[0], high=ends[1], start=left, end=right), []
    height = _ROW * len(curve.labels)
    parts.append(line_part(x(0), 0, x(0), height, "grid"))
    for place, at in enumerate(np.argsort(-_outputs(curve.values)[0], kind="stable")):
        middle = _ROW * place + _ROW / 2
        parts.append(text_part(left - 6, middle + 4, cut(curve.labels[at], left - 10), "tick end"))
        for output, values in enumerate(_outputs(curve.values)):
            parts.append(
                f'<circle class="dot line{output % _COLOURS}" cx="{x(values[at]):.1f}" cy="{middle:.1f}" r="4.5"/>'
            )
        told = [] if curve.predicted is None else [x(values[at]) for values in _outputs(curve.predicted)]
        parts += [line_part(each, middle - 7, each, middle + 7, "curve stated") for each in told]
    parts += [
        text_part(left, height + 14, short(ends[0], digits=2), "tick"),
        text_part(right, height + 14, short(ends[1], digits=2), "tick end"),
    ]
    return parts, height + 20

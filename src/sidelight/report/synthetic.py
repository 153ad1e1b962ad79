"""What a report shows of a synthetic table: what was asked, its marginals as pictures, and how far off each can be.

All of it is computed from the release, whose numbers are public; nothing here compares with private rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from sidelight.readable import as_read, at_most
from sidelight.release import Release
from sidelight.report.charts import cut, line_part, svg_body, text_part, text_width
from sidelight.report.words import counted
from sidelight.synthesis import Synthetic, marginals
from sidelight.synthesis.released import open_table

# Small charts of a synthetic table: the shares of one column as bars, of two columns as tiles.
#
# One size for wide and narrow pages: the page sets them side by side or one below the other.

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


#: So many pairs of columns are drawn; marginals beyond the second number are listed behind a click.
MOST_PAIRS, MOST_LINES = 6, 12
_MOST_COLUMNS = 24
_OPEN_PAIRS = 2  # more pictures of pairs than this are behind a click
_MOST_ASKED = 6
_ENGINES = {
    "marginals": "whole marginals, those that were answered worst first",
    "queries": "single queries, one a round, refitted to all answers",
    "mwem": "single queries, one a round, as in the literature (MWEM)",
    "support": "whole marginals; weights on the public rows and on rows drawn around them",
    "loglinear": "all marginals, each once; weights on rows drawn from them",
    "graphical": "whole marginals; a graphical model",
}


def synthetic_card(release: Release) -> Mapping[str, Any]:
    """Return everything that the page shows of a synthetic table."""
    made = open_table(release)
    asked = [str(text) for text in release.query.get("workload", [])]
    read = [_columns_of(text, made.domain.columns) for text in asked]
    sets = list(dict.fromkeys([*(each.columns for each in made.measurements), *(each for each in read if each)]))
    lines = _lines(made, sets)
    pairs = list(dict.fromkeys(pair for each in sets for pair in combinations(each, 2)))
    drawn, left_out = _pairs(made, pairs)
    columns = made.axes[:_MOST_COLUMNS]
    return {
        "facts": _facts(
            release,
            made,
            [" × ".join(names) if names else text for text, names in zip(asked, read, strict=True)],
        ),
        "columns": [
            (axis.name, column_chart(axis.name, axis.labels, made.mass.marginal((axis.name,)))) for axis in columns
        ],
        "columns_left_out": len(made.axes) - len(columns),
        "pairs": drawn,
        "pairs_folded": len(drawn) > _OPEN_PAIRS,
        "pairs_left_out": left_out,
        "lines": lines,
        "bounded": any(line["bound"] for line in lines),
        "folded": len(lines) > MOST_LINES,
        "measured": bool(made.measurements),
        "modelled": any(line["noise"] is None for line in lines),
        "missed": _missed(made),
    }


def _facts(release: Release, made: Synthetic, asked: Sequence[str]) -> list[tuple[str, str]]:
    rows = as_read(round(made.rows))
    public = release.query.get("rows") != "private"
    more = f", and {len(asked) - _MOST_ASKED} more" if len(asked) > _MOST_ASKED else ""
    engine = str(release.value["engine"])
    answered = release.value["answered"]
    said = f"{rows}, a public number" if public else f"{rows}, released with noise"
    if made.contradicted_rows is not None:
        said += f"; the measured counts sum to about {as_read(round(made.contradicted_rows))}: check that number"
    facts = [
        ("Rows", said),
        ("Columns", ", ".join(f"{axis.name} ({counted(axis.size, 'value')})" for axis in made.axes)),
        ("Asked for", f"{counted(len(asked), 'marginal')}: {', '.join(asked[:_MOST_ASKED])}{more}"),
        ("Price", str(release.guarantee.strongest)),
        ("Engine", f"{engine}: {_ENGINES.get(engine, engine)}"),
    ]
    if answered:
        scale = max(float(each["scale"]) for each in answered)
        single = counted(len(answered), "single query, with", "single queries, each with")
        facts.append(("Measured", f"{single} noise of scale {at_most(scale)} rows at most"))
    else:
        which = counted(len(made.measurements), "marginal; which one", "marginals; which ones")
        every = f"{counted(len(made.measurements), 'marginal')}, every one that was asked for"
        facts.append(("Measured", every if engine == "loglinear" else f"{which} was chosen privately"))
    return facts


def _columns_of(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Read "sex x job" back into columns, in the table's order; () if it names something else.

    >>> _columns_of("sex x pay x hour", ["sex", "pay x hour"]), _columns_of("sex by 2", ["sex"])
    (('sex', 'pay x hour'), ())
    """
    for place, name in enumerate(names):
        if text == name:
            return (name,)
        if text.startswith(f"{name} x "):
            rest = _columns_of(text[len(name) + 3 :], names[place + 1 :])
            if rest:
                return (name, *rest)
    return ()


def _lines(made: Synthetic, sets: Sequence[tuple[str, ...]]) -> list[dict[str, Any]]:
    if not sets:
        return []
    return [
        {
            "name": " × ".join(line["columns"]),
            "cells": as_read(line["cells"]),
            "noise": None if line["noise_deviation"] is None else f"±\u00a0{line['noise_deviation']:.3g}",
            "expected": None
            if line["expected_error"] is None
            else share_text(line["expected_error"]).replace(" ", "\u00a0"),
            "bound": None if line.get("bound") is None else f"±\u00a0{at_most(line['bound'])}",
        }
        for line in made.report(marginals(sets=sets))
    ]


def _pairs(made: Synthetic, pairs: Sequence[tuple[str, ...]]) -> tuple[list[tuple[str, Any]], int]:
    labels = {axis.name: axis.labels for axis in made.axes}
    fitting = [pair for pair in pairs if made.domain.cells_of(pair) <= MOST_TILES][:MOST_PAIRS]
    drawn = []
    for first, second in fitting:
        name = f"{first} × {second}"
        shares = made.mass.marginal((first, second))
        drawn.append((name, pair_chart(labels[first], labels[second], shares, label=name)))
    return drawn, len(pairs) - len(drawn)


def _missed(made: Synthetic) -> list[str]:
    """Return in which cells the support of the public rows clearly lacks rows."""
    labels = {axis.name: axis.labels for axis in made.axes}

    def group(name: str, place: int, width: int) -> str:
        found = labels[name][place * width : (place + 1) * width]
        return f"{name} {found[0]}" if len(found) == 1 else f"{name} {found[0]} to {found[-1]}"

    return [
        ", ".join(map(group, entry["columns"], entry["cell"], entry.get("widths") or (1,) * len(entry["cell"])))
        for entry in made.missed
    ]

"""What a report shows of a synthetic table: what was asked, its marginals as pictures, and how far off each can be.

All of it is computed from the release, whose numbers are public; nothing here compares with private rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from sidelight.release import Release
from sidelight.report.marginal_charts import MOST_TILES, column_chart, pair_chart, share_text
from sidelight.report.words import counted, shown
from sidelight.synthesis import Synthetic, marginals
from sidelight.synthesis.output.stored import open_table

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
    rows = shown(round(made.rows))
    public = release.query.get("rows") != "private"
    more = f", and {len(asked) - _MOST_ASKED} more" if len(asked) > _MOST_ASKED else ""
    engine = str(release.value["engine"])
    answered = release.value["answered"]
    facts = [
        ("Rows", f"{rows}, a public number" if public else f"{rows}, released with noise"),
        ("Columns", ", ".join(f"{axis.name} ({counted(axis.size, 'value')})" for axis in made.axes)),
        ("Asked for", f"{counted(len(asked), 'marginal')}: {', '.join(asked[:_MOST_ASKED])}{more}"),
        ("Price", str(release.guarantee.strongest)),
        ("Engine", f"{engine}: {_ENGINES.get(engine, engine)}"),
    ]
    if answered:
        scale = max(float(each["scale"]) for each in answered)
        single = counted(len(answered), "single query, with", "single queries, each with")
        facts.append(("Measured", f"{single} noise of scale {scale:.3g} rows at most"))
    else:
        which = counted(len(made.measurements), "marginal; which one", "marginals; which ones")
        facts.append(("Measured", f"{which} was chosen privately"))
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
            "cells": shown(line["cells"]),
            "noise": None if line["noise_deviation"] is None else f"±\u00a0{line['noise_deviation']:.3g}",
            "expected": None
            if line["expected_error"] is None
            else share_text(line["expected_error"]).replace(" ", "\u00a0"),
            "bound": None if line.get("bound") is None else f"±\u00a0{shown(line['bound'], digits=3)}",
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
    return [
        ", ".join(f"{name} {labels[name][place]}" for name, place in zip(entry["columns"], entry["cell"], strict=True))
        for entry in made.missed
    ]

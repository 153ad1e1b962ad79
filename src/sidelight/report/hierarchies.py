"""What a report draws of a table of a hierarchy: the levels, where the price went, and what small cells look like.

All of it is computed from the release, whose numbers are public. Every picture says in words what it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from markupsafe import Markup

from sidelight.group_table import HIERARCHY, GroupTable
from sidelight.readable import as_read, percent
from sidelight.report.charts import (
    NARROW,
    WIDE,
    Axis,
    bar_chart,
    both_widths,
    cut,
    line_part,
    svg_body,
    text_part,
    text_width,
)
from sidelight.summaries.tree_tables import TreeNotes
from sidelight.summaries.tree_whole import STAYS

_ROW = 34


@dataclass(frozen=True, kw_only=True)
class LevelStep:
    """One level: how many nodes it has, a typical number there, how far off it can be, and the cap that was asked."""

    name: str
    nodes: int
    cells: int
    typical: float
    half: float
    cap: float | None
    share: Fraction


def hierarchy_pictures(table: GroupTable) -> Mapping[str, Any] | None:
    """Return the pictures of a table of a hierarchy, with their words; None for any other table."""
    if not isinstance(table.notes.get(HIERARCHY), Mapping) or "unbiased" not in table.columns:
        return None
    notes = TreeNotes.of(table)
    steps = level_steps(table, notes)
    biases = count_biases(table, notes) if notes.statistic == "count" else None
    used = table.notes.get("prediction_used")
    return {
        "ladder": ladder_chart(steps),
        "price": price_chart(steps),
        "bias": None if biases is None else bias_chart(biases),
        "bias_words": None if biases is None else _bias_words(biases),
        "outside": None if notes.statistic != "count" else counts_outside(table),
        "by_level": _by_level(table),
        "used": None if not isinstance(used, list) else (sum(each != 0 for each in used), len(used)),
        "statistic": notes.statistic,
        "confidence": percent(notes.confidence),
        "capped": any(step.cap is not None for step in steps),
        "missed": [
            (step.name, as_read((1 - notes.confidence) * step.cells, digits=3), step.cells)
            for step in steps
            if step.cap is not None
        ],
    }


def _by_level(table: GroupTable) -> Mapping[str, Any] | None:
    """Return how far each level follows the prediction, as bars and in words; None where none is used anywhere."""
    levels = table.notes.get("prediction_by_level")
    if not isinstance(levels, Mapping) or not any(each["weight"] for each in levels.values()):
        return None
    words = "; ".join(
        f"{name}: in {100 * each['cells']:.3g} % of its cells, with a weight of {100 * each['weight']:.2g} %, allowing "
        f"departures of about {as_read(float(each['doubt']), digits=2)}"
        for name, each in levels.items()
    )
    weights = np.array([100 * each["weight"] for each in levels.values()])
    chart = bar_chart(list(levels), weights, label=f"Weight of the prediction by level, in per cent. {words}")
    return {"chart": chart, "words": words}


def level_steps(table: GroupTable, notes: TreeNotes) -> list[LevelStep]:
    """Return the levels from the top: the median of the totals of a level, and the widest half-width of its cells."""
    values = np.abs(np.asarray(table["unbiased"], np.float64))
    caps = table.notes.get("caps") or {}
    shares = table.notes.get("shares") or ["0"] * len(notes.rows)
    found = []
    for level, rows in enumerate(notes.rows):
        cells = rows[:, : notes.model.cells.size]
        _, reach = notes.model.stated(notes.model.pooled_at(level), notes.confidence)
        name = notes.tree.names[level]
        found.append(
            LevelStep(
                name=name,
                nodes=len(rows),
                cells=cells.size,
                typical=float(np.median(values[rows[:, -1]])),  # of totals: absolute noise of cells would add up
                half=float(reach[:, : notes.model.cells.size].max()) * notes.unit,
                cap=float(caps[name]) if name in caps else None,
                share=Fraction(str(shares[level])),
            )
        )
    return found


def ladder_chart(steps: Sequence[LevelStep]) -> Markup:
    """Draw a line for each level on one logarithmic scale: how far off a cell can be, and a typical number."""
    text = "; ".join(
        f"{step.name}: typically {as_read(step.typical, digits=3)}, plus or minus {as_read(step.half, digits=3)}"
        + (f", cap {as_read(step.cap, digits=3)}" if step.cap is not None else "")
        for step in steps
    )
    return both_widths([_ladder(steps, width=width) for width in (WIDE, NARROW)], label=f"Levels from the top. {text}")


def _ladder(steps: Sequence[LevelStep], *, width: int) -> str:
    left = min(0.35 * width, 16 + max(text_width(step.name) for step in steps))
    numbers = [each for step in steps for each in (step.typical, step.half, step.cap or 0.0) if each > 0]
    low, high = (math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))) if numbers else (0, 1)
    x = Axis(low=low, high=max(high, low + 1), start=left, end=width - 20)

    def at(value: float) -> float:
        return x(min(max(math.log10(value) if value > 0 else low, x.low), x.high))

    bottom = _ROW * len(steps)
    parts = []
    every = max(1, (high - low) // 5)
    for power in range(low, max(high, low + 1) + 1, every):
        parts.append(line_part(x(power), 0, x(power), bottom, "grid"))
        parts.append(text_part(x(power), bottom + 18, as_read(10.0**power, digits=3), "tick middle"))
    for place, step in enumerate(steps):
        middle = _ROW * place + _ROW / 2
        parts.append(text_part(left - 8, middle + 4, cut(step.name, left - 10), "tick end"))
        parts.append(line_part(at(step.half), middle, at(step.typical), middle, "whisker"))
        parts.append(line_part(at(step.half), middle - 6, at(step.half), middle + 6, "whisker"))
        parts.append(f'<circle class="dot" cx="{at(step.typical):.1f}" cy="{middle:.1f}" r="4.5"/>')
        if step.cap is not None:
            parts.append(line_part(at(step.cap), middle - 10, at(step.cap), middle + 10, "cap"))
    return svg_body(parts, width=width, height=bottom + 26)


def price_chart(steps: Sequence[LevelStep]) -> Markup:
    """Draw one bar: the share of the price that each level took."""
    text = ", ".join(f"{step.name} {100 * float(step.share):.3g} %" for step in steps)
    return both_widths([_price(steps, width=width) for width in (WIDE, NARROW)], label=f"Where the price went: {text}")


def _price(steps: Sequence[LevelStep], *, width: int) -> str:
    x = Axis(low=0.0, high=1.0, start=8, end=width - 8)
    parts, done, at, line = [], 0.0, 8.0, 36
    for place, step in enumerate(steps):
        share = float(step.share)
        start, end = x(done), x(min(done + share, 1.0))
        strength = 0.25 + 0.6 * place / max(len(steps) - 1, 1)
        tile = f'<rect class="tile plus" fill-opacity="{strength:.2f}"'
        if share > 0:
            wide = max(end - start - 1, 0.5)
            parts.append(f'{tile} x="{start:.1f}" y="4" width="{wide:.1f}" height="20" rx="2"/>')
        # every level has its name and number under the bar, however narrow its part is
        label = cut(f"{step.name} {100 * share:.3g} %", width - 36)
        if at > 8 and at + 16 + text_width(label) > width - 8:
            at, line = 8.0, line + 20
        parts.append(f'{tile} x="{at:.1f}" y="{line}" width="11" height="11" rx="2"/>')
        parts.append(text_part(at + 16, line + 10, label, "tick"))
        at += 16 + text_width(label) + 16
        done += share
    return svg_body(parts, width=width, height=line + 20)


def count_biases(table: GroupTable, notes: TreeNotes) -> list[tuple[str, float]] | None:
    """Estimate how far published counts of the leaves are off on average, for an empty, a small and a large cell.

    Counts are cut at 0, which adds to empty cells, and families add up to their parents, which takes it from the
    others: each family is shifted by what was added. The shift is found for the average over all cells of the leaves,
    with the published counts as if they were true; cells of more than 3.5 standard deviations stay.
    """
    size = notes.model.cells.size
    counts = np.asarray(table["count"], np.float64)[notes.rows[-1][:, :size]].reshape(-1)
    sd = float(np.sqrt(np.median(notes.model.node_variances(notes.tree.depth)[:, :size])))
    if not sd > 0:
        return None
    steps = counts / sd
    small = steps[steps < STAYS]
    if not len(small):
        return [(name, 0.0) for name in _names(sd)]
    low, high = 0.0, STAYS
    for _ in range(60):
        shift = (low + high) / 2
        gained = float((_cut_at_zero(small - shift) - small).sum())
        low, high = (shift, high) if gained > 0 else (low, shift)
    at = np.array([0.0, 1.0, 10.0])
    off = np.where(at < STAYS, _cut_at_zero(at - shift) - at, 0.0) * sd
    return list(zip(_names(sd), off.tolist(), strict=True))


def bias_chart(biases: Sequence[tuple[str, float]]) -> Markup:
    """Draw how far published counts are off on average as bars."""
    label = f"How far published counts are off on average. {_bias_words(biases)}"
    return bar_chart([name for name, _ in biases], np.array([bias for _, bias in biases]), label=label)


def _bias_words(biases: Sequence[tuple[str, float]]) -> str:
    return "; ".join(f"{name}: {_signed(bias)}" for name, bias in biases)


def counts_outside(table: GroupTable) -> tuple[int, int]:
    """Return how many published counts lie outside the interval of their unbiased twin, and how many there are."""
    counts, low, high = (np.asarray(table[name], np.float64) for name in ("count", "low", "high"))
    return int(((counts < low) | (counts > high)).sum()), len(counts)


def _names(sd: float) -> tuple[str, str, str]:
    return "an empty cell", f"a cell of {as_read(sd, digits=2)}", f"a cell of {as_read(10 * sd, digits=2)}"


def _cut_at_zero(mean: Any) -> Any:
    """Return E max(0, m + Z) = m·Φ(m) + φ(m)."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    return mean * 0.5 * (1 + erf(mean / math.sqrt(2))) + np.exp(-(mean**2) / 2) / math.sqrt(2 * math.pi)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{as_read(value, digits=2)}"

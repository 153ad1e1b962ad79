"""Curves of an additive model, to look at: values on cells, noisy counts under them, and a sentence each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from sidelight.records import Category, Number
from sidelight.regression.additive.fine_codes import FINE_CELLS, fine_size
from sidelight.regression.estimators.additive_query import split_by
from sidelight.regression.losses import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class ColumnCurve:
    """What one column adds to the output, given the other columns: post-processing of the release.

    Args:
        column: Its name.
        edges: Of a number the ends of its cells, one more than there are; empty for a category.
        labels: Of a category the labels; empty for a number.
        values: What each cell, or each label, adds; the mean over the rows is 0.
        deviations: The noise of this release as the model reckons it; real errors are larger where columns are
            correlated, so this is no confidence interval.
        counts: The noisy number of rows of each.
        missing: What a missing number adds, None where that has no cell.
        kappa: The variance that the steps found in it, in half ranges² or log odds².
        share: Of the variance of all curves.
        hatched: Which cells have so few rows that their counts are mostly noise.
    """

    column: str
    edges: Floats
    labels: tuple[str, ...]
    values: Floats
    deviations: Floats
    counts: Floats
    missing: float | None
    kappa: float
    share: float
    hatched: Any = field(repr=False)

    def sentence(self) -> str:
        """Return the curve in words."""
        if self.labels:
            low, high = int(np.argmin(self.values)), int(np.argmax(self.values))
            return (
                f"{self.column}: least for {self.labels[low]} ({self.values[low]:+.3g}), most for {self.labels[high]} "
                f"({self.values[high]:+.3g})"
            )
        return f"{self.column}: {_shape_in_words(self.edges, self.values)}"


def _shape_in_words(edges: Floats, values: Floats) -> str:
    span = float(values.max() - values.min())
    if span == 0 or len(values) < 2:
        return "level"
    turns = [0]
    for place in range(1, len(values) - 1):  # where it turns by more than a tenth of its span
        before, after = values[place] - values[turns[-1]], values[place:]
        ahead = float(after.min() - values[place]) if before > 0 else float(after.max() - values[place])
        top = values[place] == (values[turns[-1] :].max() if before > 0 else values[turns[-1] :].min())
        if abs(before) > span / 10 and abs(ahead) > span / 10 and top:
            turns.append(place)
    turns.append(len(values) - 1)
    middles = (edges[1:] + edges[:-1]) / 2
    words = []
    for start, end in pairwise(turns):
        change = float(values[end] - values[start])
        verb = "is about level" if abs(change) <= span / 10 else "rises" if change > 0 else "falls"
        words.append(f"{verb} from {middles[start]:.4g} to {middles[end]:.4g}")
    return ", then ".join(words)


def curves_of(columns: Sequence[Number | Category], value: Mapping[str, Any]) -> dict[str, ColumnCurve]:
    """Return the curves of a release by column, in the order of the columns."""
    sizes = [fine_size(column) for column in columns]
    tables, places = split_by(value["tables"], sizes), split_by(value["cell_of"], sizes)
    counts, deviations = split_by(value["counts"], value["cells"]), split_by(value["deviations"], value["cells"])
    masses = split_by(value["fine"], sizes)
    varied = [
        float(mass @ table**2) / max(float(mass.sum()), 1e-300) for mass, table in zip(masses, tables, strict=True)
    ]
    whole, found = max(sum(varied), 1e-300), {}
    for at, column in enumerate(columns):
        few = counts[at] < 3 * float(value["count_noise"])
        table, cell_of = tables[at], places[at].astype(int)
        shared: dict[str, Any] = {
            "column": column.name,
            "kappa": float(np.asarray(value["kappa"])[at]),
            "share": varied[at] / whole,
        }
        if isinstance(column, Category):
            found[column.name] = ColumnCurve(
                edges=np.empty(0),
                labels=tuple(column.labels),
                values=table,
                deviations=deviations[at][cell_of],
                counts=masses[at],
                missing=None,
                hatched=few[cell_of],
                **shared,
            )
            continue
        assert column.lower is not None
        assert column.upper is not None
        inside = cell_of[:FINE_CELLS]
        cells = int(inside.max()) + 1
        starts = np.append(np.searchsorted(inside, np.arange(cells)), FINE_CELLS)
        weight = masses[at][:FINE_CELLS] + 1e-9
        summed = np.bincount(inside, weights=weight * table[:FINE_CELLS], minlength=cells)
        low, high = float(column.lower), float(column.upper)
        found[column.name] = ColumnCurve(
            edges=low + (high - low) * starts / FINE_CELLS,
            labels=(),
            values=summed / np.bincount(inside, weights=weight, minlength=cells),
            deviations=deviations[at][:cells],
            counts=counts[at][:cells],
            missing=float(table[FINE_CELLS]) if cell_of[FINE_CELLS] >= 0 else None,
            hatched=few[:cells],
            **shared,
        )
    return found

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
        values: What each cell, or each label, adds; the mean over the rows is 0. Of several classes (cells, classes).
        predicted: What the prediction that was used says of each, None where none was.
        counts: The noisy number of rows of each.
        missing: What a missing number adds, None where that has no cell.
        kappa: The variance that the steps found in it, in half ranges² or log odds².
        share: Of the variance of all curves.
        hatched: Which cells have so few rows that their counts are mostly noise.
        classes: The classes, where there are more than two.
    """

    column: str
    edges: Floats
    labels: tuple[str, ...]
    values: Floats
    predicted: Floats | None
    counts: Floats
    missing: float | Floats | None
    kappa: float | Floats
    share: float
    hatched: Any = field(repr=False)
    classes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """Return the curve in words."""
        if self.classes:
            each = (f"{name}: {self._words(values)}" for name, values in zip(self.classes, self.values.T, strict=True))
            return f"{self.column}: {'; '.join(each)}"
        return f"{self.column}: {self._words(self.values)}"

    def _words(self, values: Floats) -> str:
        if self.labels:
            low, high = int(np.argmin(values)), int(np.argmax(values))
            least = f"least for {self.labels[low]} ({values[low]:+.3g})"
            return f"{least}, most for {self.labels[high]} ({values[high]:+.3g})"
        return _shape_in_words(self.edges, values)


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


def curves_of(
    columns: Sequence[Number | Category], value: Mapping[str, Any], *, classes: Sequence[Any] = (), unit: float = 1.0
) -> dict[str, ColumnCurve]:
    """Return the curves of a release by column, in the order of the columns.

    Args:
        columns: The declared columns.
        value: The released value.
        classes: The classes of a classifier.
        unit: The half of the target's range, in which the release stores where the curves began.
    """
    sizes = [fine_size(column) for column in columns]
    tables, places = split_by(value["tables"], sizes), split_by(value["cell_of"], sizes)
    counts, fine = split_by(value["counts"], value["cells"]), split_by(value["fine"], sizes)
    began = split_by(np.asarray(value["offset"]) * unit, sizes) if int(value["chosen"]) >= 0 else [None] * len(columns)
    masses = [each / max(float(each.sum()), 1e-300) for each in fine]
    varied = [float(np.sum(mass @ table**2)) for mass, table in zip(masses, tables, strict=True)]
    whole, found = max(sum(varied), 1e-300), {}
    for at, column in enumerate(columns):
        few = counts[at] < 3 * float(value["count_noise"])
        table, cell_of = tables[at], places[at].astype(int)
        stated = None if began[at] is None else began[at] - masses[at] @ began[at]
        shared: dict[str, Any] = {
            "column": column.name,
            "kappa": np.asarray(value["kappa"])[at],
            "share": varied[at] / whole,
            "classes": tuple(map(str, classes)) if len(classes) > 2 else (),
        }
        if isinstance(column, Category):
            found[column.name] = ColumnCurve(
                edges=np.empty(0),
                labels=tuple(column.labels),
                values=table,
                predicted=stated,
                counts=fine[at],
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
        weight = fine[at][:FINE_CELLS] + 1e-9
        low, high = float(column.lower), float(column.upper)
        found[column.name] = ColumnCurve(
            edges=low + (high - low) * starts / FINE_CELLS,
            labels=(),
            values=_means(table[:FINE_CELLS], weight, starts),
            predicted=None if stated is None else _means(stated[:FINE_CELLS], weight, starts),
            counts=counts[at][:cells],
            missing=table[FINE_CELLS] if cell_of[FINE_CELLS] >= 0 else None,
            hatched=few[:cells],
            **shared,
        )
    return found


def _means(values: Floats, weights: Floats, starts: Any) -> Floats:
    """Return the weighted means of cells that begin at `starts`."""
    summed = np.add.reduceat((weights * values.T).T, starts[:-1], axis=0)
    return np.asarray((summed.T / np.add.reduceat(weights, starts[:-1])).T)


@dataclass(frozen=True, kw_only=True, eq=False)
class RowContributions:
    """What each column adds to the output of one row, and the intercept: together they are the output.

    Args:
        columns: The names of the columns.
        values: What each adds; of several classes (columns, classes).
        intercept: The intercept; of several classes one each.
        classes: The classes, where there are more than two.
    """

    columns: tuple[str, ...]
    values: Floats
    intercept: float | Floats
    classes: tuple[str, ...] = ()

    @property
    def output(self) -> float | Floats:
        """The output of the row, not clipped."""
        found = np.asarray(self.intercept + self.values.sum(axis=0))
        return found if found.ndim else float(found)

    def sentence(self) -> str:
        """Return the row in words, the largest contributions first."""
        sizes = np.abs(self.values).max(axis=1) if self.classes else np.abs(self.values)
        words = [f"{self.columns[at]} {_shown(self.values[at])}" for at in np.argsort(-sizes, kind="stable")]
        of = f" ({', '.join(self.classes)})" if self.classes else ""
        return f"output{of} {_shown(self.output)}: intercept {_shown(self.intercept)}, {', '.join(words)}"


def _shown(value: Any) -> str:
    return " / ".join(f"{float(each):+.3g}" for each in np.atleast_1d(value))

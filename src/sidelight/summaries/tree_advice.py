"""What is worth knowing of a table of a hierarchy before it is charged: what a pure price buys, and small exact totals.

Public numbers only: the tree, the price, the declarations and the prediction. No row is read, nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.guarantees import Amount
from sidelight.readable import as_read
from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.noise_choice import laplace_variance
from sidelight.summaries.tree_measurement import TreeMeasurement
from sidelight.summaries.tree_model import TreeModel
from sidelight.summaries.tree_prior import ExpectedTree

Floats: TypeAlias = NDArray[np.float64]
#: Measures the same table at another price, with a law of the noise.
Measure: TypeAlias = Callable[..., TreeMeasurement]

#: The delta that a pure price is compared with.
_DELTA = "1e-6"
#: Exact totals below this are small.
_SMALL = 10


def pure_advice(
    measure: Measure, measurement: TreeMeasurement, price: Mapping[str, Amount | None], *, of: str, unit: float = 1.0
) -> tuple[str, ...]:
    """Compare a pure price with noise on the finest level alone, and with a delta; () for any other price.

    Args:
        measure: Measures the same table at another price.
        measurement: At this price.
        price: What the query asks.
        of: What the noise is of, in words.
        unit: Of the numbers that come out.
    """
    if any(amount is not None for name, amount in price.items() if name != "epsilon"):
        return ()
    model, share = measurement.model, float(measurement.shares[-1])
    asked = f"{_written(model, unit)} at this price"
    # a scale is the sensitivity over the share of epsilon: the finest level alone would have all of it
    least, above = model.kappas[-1] * share**2, model.tree.depth
    scale = math.sqrt(least / 2) / model.cells.weights[model.cells.finest]
    drawn = (*[1.0] * above, laplace_variance(scale) / (2 * scale**2))
    alone = replace(model, kappas=(*[math.inf] * above, least), whole=drawn)
    between = (
        ", all of which goes to the finest level"
        if share == 1
        else (f"; {_written(alone, unit)} if all of it went to the finest level")
    )
    with_delta = measure({**price, "delta": _DELTA}, law="auto").model
    better = _measure_of(with_delta) < _measure_of(model)
    advice = "Recommended: the delta" if better else "A delta would not help here"
    return (
        f"A pure price adds up over levels. Noise of {of} by level ({', '.join(model.tree.names)}), as standard "
        f'deviations of a cell: {asked}{between}; {_written(with_delta, unit)} with delta = "{_DELTA}" at the same '
        f"epsilon. {advice}.",
    )


def exact_advice(tree: LabelTree, level: int, expected: Sequence[ExpectedTree], *, shares: bool) -> str:
    """Return how many totals are published exactly and, by the prediction, how many of them are small.

    Args:
        tree: The tree.
        level: The finest level with exact totals.
        expected: The predictions; the first is asked.
        shares: Whether it predicts proportions only.
    """
    many, name = tree.sizes[level], tree.names[level]
    said = f"Published exactly, as they are in the rows: {many:,} {'total' if many == 1 else 'totals'} of level {name}."
    if not expected:
        return f"{said} No prediction says how many of them are small."
    if shares:
        return f"{said} The prediction is of shares and says nothing about how many of them are small."
    totals = expected[0].cells.sum(axis=1)  # NaN where a cell is not predicted
    for place in range(tree.depth, level, -1):
        totals = tree.up(totals, place)
    known = totals[np.isfinite(totals)]
    rest = f" It does not cover {many - len(known):,} of them." if len(known) < many else ""
    return (
        f"{said} By the prediction {int((known < _SMALL).sum()):,} of them are below {_SMALL}: what such a number says "
        f"about a person is not protected.{rest}"
    )


def _sds(model: TreeModel) -> list[float]:
    """Return the stated standard deviation of a cell by level."""
    found = [model.stated(model.pooled_at(level), 0.95)[0] for level in range(model.tree.depth + 1)]
    return [float(np.sqrt(np.mean(each[:, : model.cells.size] ** 2))) for each in found]


def _measure_of(model: TreeModel) -> float:
    """Return the sum that shares of the price minimise: of √(nodes) times the logarithm of the variance."""
    nodes = model.tree.sizes
    return math.fsum(math.sqrt(many) * math.log(sd) for many, sd in zip(nodes, _sds(model), strict=True) if sd > 0)


def _written(model: TreeModel, unit: float) -> str:
    return ", ".join(as_read(float(f"{unit * sd:.3g}"), digits=3) for sd in _sds(model))

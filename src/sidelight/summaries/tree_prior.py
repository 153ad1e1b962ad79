"""Predictions of a table of a hierarchy: shares of the parent, with a shrinkage weight estimated from released numbers.

A child's departure from its prediction is its predicted share of its parent's departure, and something of its own with
variance g, which is learned by level from the noisy numbers. Whether a prediction is used at all is decided for each
cell of the other columns by its estimated error after whole numbers were made. Post-processing of released numbers: no
guarantee depends on it, and `unbiased` and the intervals never use it (hierarchies proof page, "Predictions").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.noise import Source
from sidelight.summaries.predicted import PredictedTable
from sidelight.summaries.tree_model import TreeModel
from sidelight.summaries.tree_runs import with_runs
from sidelight.summaries.tree_whole import nonnegative_tree

Floats: TypeAlias = NDArray[np.float64]

#: Predictions are at least this: a count predicted as 0 may still be 1.
_LEAST = 0.05
#: The usual doubt (c, a, b) of g = c + a·p + b·p².
_USUAL = np.array([1.0, 1.0, 0.0625])
#: From this many nodes on a level's trust is learned, and learned by cell of the other columns.
_LEARNED, _BY_CELL = 100, 200
_PENALTY = 0.1
_LEAST_G = 1e-3
#: A prediction is used where its estimated error at the leaves is lower by this share.
_MARGIN = 0.05
_DRAWS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class ExpectedTree:
    """A prediction of every finest cell, with the doubt that a user stated."""

    cells: Floats  # NaN where nothing is predicted
    doubt: float | None = None
    sd: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class TreePredictionUse:
    """Which prediction each cell of the other columns uses, 0 for none, and how far by level."""

    chosen: list[int]
    levels: tuple[LevelUse, ...] = ()

    def notes(self, *, unit: float = 1.0) -> dict[str, Any]:
        """Return the notes of a release; levels that are too small to learn from have none."""
        found = {
            each.name: {"cells": each.cells, "weight": each.weight, "doubt": each.doubt * unit} for each in self.levels
        }
        return {"prediction_used": self.chosen, **({"prediction_by_level": found} if found else {})}


@dataclass(frozen=True, kw_only=True)
class LevelUse:
    """How far a level follows predictions.

    `cells` is the share of its cells that use one, `doubt` the median of √g over these, `weight` the mean over all of
    them of s/(g + s): how far a number follows its predicted share of what lies above it.
    """

    name: str
    cells: float
    weight: float
    doubt: float


def predicted_cells(
    table: PredictedTable, keys: Sequence[Sequence[str]], cells: Callable[[NDArray[Any]], NDArray[Any]]
) -> list[ExpectedTree]:
    """Return each prediction by leaf and cell.

    Args:
        table: The prediction, and further ones of the same numbers.
        keys: The labels of each column of `by`.
        cells: Puts an array by all columns into the order of the tree.
    """
    groups = list(product(*keys))
    shape = tuple(len(each) for each in keys)
    return [
        ExpectedTree(cells=cells(each.on(groups).values.reshape(shape)), doubt=each.relative, sd=each.sd)
        for each in (table, *table.others)
    ]


def with_prediction(
    model: TreeModel,
    pooled: Sequence[Floats | None],
    unbiased: Sequence[Floats],
    sds: Sequence[Floats],
    expected: Sequence[ExpectedTree],
    source: Source,
    *,
    totals: Sequence[NDArray[Any]] = (),
) -> tuple[list[Floats], TreePredictionUse]:
    """Return estimates that use predictions where they seem better, and which ones are used where.

    Args:
        model: The public numbers of the measurement.
        pooled: The noisy measurements by level.
        unbiased: The least-squares estimates.
        sds: Of the cells of each level.
        expected: The predictions.
        source: Of the perturbations by which errors are estimated.
        totals: Exact totals of each node, of the first levels: they do not move with the noise.
    """
    tree = model.tree
    first = next((level for level, size in enumerate(tree.sizes) if size >= _LEARNED), None)
    if first is None or first == 0:
        return list(unbiased), TreePredictionUse(chosen=[0] * model.cells.size)
    wide = with_runs(model)
    runs = wide.tree.depth - tree.depth

    def summed(levels: Sequence[Floats]) -> list[Floats]:
        found = [levels[-1]]
        for level in range(wide.tree.depth, tree.depth, -1):
            found.insert(0, wide.tree.up(found[0], level))
        return [*levels[:-1], *found]

    # trust is fitted once: fitted again to noisier numbers it would take their noise for errors of the prediction
    plain = summed(unbiased)
    candidates = [_Pass(wide, first, each, plain) for each in expected]
    unit = model.cells.variances
    noises = [_noise(model, unit, source) for _ in range(_DRAWS)]
    size = np.array([(each * unit).sum(axis=0) for each in wide.variances.pooled])

    def outcome(way: _Pass | None, measured: Sequence[Floats | None], estimates: Sequence[Floats]) -> list[Floats]:
        if way is None:
            return list(estimates)
        found = way.run([*measured[:-1], *[None] * runs, measured[-1]], summed(estimates))
        return [*found[: tree.depth], found[-1]]

    errors: list[Floats] = []
    outcomes: list[list[Floats]] = []
    for way in (None, *candidates):
        found = outcome(way, pooled, unbiased)
        published = nonnegative_tree(tree, found, sds, model.possible)
        off = summed([e - x for e, x in zip(published, unbiased, strict=True)])
        error = np.array([(each**2).sum(axis=0) for each in off])
        for noise in noises:
            moved = [None if y is None or h is None else y + h / 2 for y, h in zip(pooled, noise, strict=True)]
            result = outcome(way, moved, model.estimates(moved, totals))
            after = nonnegative_tree(tree, result, sds, model.possible)
            gained = summed(model.estimates(noise, [0 * each for each in totals]))
            change = summed([a - e for a, e in zip(after, published, strict=True)])
            error += 2 / _DRAWS * np.array([(g * c).sum(axis=0) / 0.5 for g, c in zip(gained, change, strict=True)])
        errors.append(error / np.maximum(size, 1e-300) - 1)
        outcomes.append(found)
    chosen = _chosen(errors, runs=runs)
    final = [
        np.stack([outcomes[pick][level][:, cell] for cell, pick in enumerate(chosen)], axis=1)
        for level in range(tree.depth + 1)
    ]
    used = [_level_use(model, candidates, chosen, level, runs=runs) for level in range(first, tree.depth + 1)]
    return final, TreePredictionUse(chosen=chosen, levels=tuple(used))


def _level_use(model: TreeModel, passes: Sequence[_Pass], chosen: Sequence[int], level: int, *, runs: int) -> LevelUse:
    """Return how far a level follows the predictions that its cells use."""
    there = model.possible[level]
    wide = level + runs if level == model.tree.depth else level
    weights, doubts = np.zeros(there.shape), np.full(there.shape, np.nan)
    for pick in sorted({*chosen} - {0}):
        cells = [cell for cell, each in enumerate(chosen) if each == pick]
        spread, doubt = (each[wide][:, cells] for each in (passes[pick - 1].spreads, passes[pick - 1].doubts))
        weights[:, cells], doubts[:, cells] = spread / (doubt + spread), np.sqrt(doubt)
    used = there & np.isfinite(doubts)  # a family without any prediction has an infinite doubt
    many = max(int(there.sum()), 1)
    return LevelUse(
        name=model.tree.names[level],
        cells=float(used.sum() / many),
        weight=float(weights[used].sum() / many),
        doubt=float(np.median(doubts[used])) if used.any() else 0.0,
    )


def _chosen(errors: Sequence[Floats], *, runs: int) -> list[int]:
    """Return for each cell the candidate with the lowest error of leaves and their runs that passes, or 0 for none.

    It must be better by a margin, at the leaves as well, no worse over all levels together, and no worse in runs.
    """
    none, finest, between = errors[0], slice(-1 - runs, None), slice(-1 - runs, -1)

    def wanted(level: float) -> float:
        return float(level - _MARGIN * abs(level))

    found = []
    for cell in range(none.shape[1]):
        best, at, leaves = 0, wanted(none[finest, cell].mean()), wanted(none[-1, cell])
        for place, error in enumerate(errors[1:], start=1):
            worse = any(error[part, cell].sum() > none[part, cell].sum() for part in (between, slice(1, None)))
            if error[finest, cell].mean() < at and error[-1, cell] <= leaves and not worse:
                best, at = place, float(error[finest, cell].mean())
        found.append(best)
    return found


def _noise(model: TreeModel, unit: Floats, source: Source) -> list[Floats | None]:
    """Draw h ~ N(0, κ·C_aa) for every measured cell."""
    found: list[Floats | None] = []
    with source.free("perturbations by which the error of a prediction is estimated"):
        for kappa, there in zip(model.kappas, model.possible, strict=True):
            if np.isinf(kappa):
                found.append(None)
                continue
            many = there.size + there.size % 2
            flat = (source.words(many) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
            radius, angle = np.sqrt(-2 * np.log(flat[: many // 2])), 2 * np.pi * flat[many // 2 :]
            normal = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[: there.size]
            found.append(np.where(there, normal.reshape(there.shape) * np.sqrt(kappa * unit), 0.0))
    return found


@dataclass(frozen=True, eq=False)
class _Pass:
    """The passes of one prediction, from the first level with enough nodes down; the levels above stay as they are."""

    model: TreeModel
    first: int
    expected: ExpectedTree
    unbiased: Sequence[Floats]

    def run(self, pooled: Sequence[Floats | None], plain: Sequence[Floats]) -> list[Floats]:
        """Return the posterior mean of every cell."""
        depth = self.model.tree.depth
        predicted, shares, doubts = self._trusted
        ups = self._ups(pooled)
        # down: every family shares what its parent departs by
        found = list(plain[: self.first])
        departs = plain[self.first - 1] - predicted[self.first - 1]
        for level in range(self.first, depth + 1):
            departs = self._shared(level, *ups[level], shares[level], doubts[level], departs)
            found.append(np.where(self.model.possible[level], predicted[level] + departs, 0.0))
        return found

    @cached_property
    def spreads(self) -> dict[int, Floats]:
        """s of every level: the numbers that were measured have no part in it."""
        levels = zip(self.model.kappas, self.unbiased, strict=True)
        return {level: up[0] for level, up in self._ups([None if np.isinf(k) else 0 * x for k, x in levels]).items()}

    def _ups(self, pooled: Sequence[Floats | None]) -> dict[int, tuple[Floats, Floats]]:
        """Return s and z of every level from the first with enough nodes down."""
        depth = self.model.tree.depth
        unit = self.model.cells.variances
        predicted, shares, doubts = self._trusted
        # up: what the subtree of each node says of its departure from the prediction
        measured = pooled[depth]
        assert measured is not None
        spread = np.where(self.model.possible[depth], self.model.kappas[depth] * unit, 0.0)
        departure = np.where(self.model.possible[depth], measured - predicted[depth], 0.0)
        ups: dict[int, tuple[Floats, Floats]] = {depth: (spread, departure)}
        for level in range(depth - 1, self.first - 1, -1):
            precision, information = self._message(level + 1, *ups[level + 1], shares[level + 1], doubts[level + 1])
            own = pooled[level]
            if own is not None:
                kappa = self.model.kappas[level] * unit
                there = self.model.possible[level] & (kappa > 0)
                weight = np.divide(1.0, kappa, out=np.zeros_like(kappa), where=kappa > 0)
                precision = precision + np.where(there, weight, 0.0)
                information = information + np.where(there, weight * (own - predicted[level]), 0.0)
            spread = np.divide(1.0, precision, out=np.zeros_like(precision), where=precision > 0)
            ups[level] = (spread, spread * information)
        return ups

    @property
    def doubts(self) -> dict[int, Floats]:
        """g of every level."""
        return self._trusted[2]

    @cached_property
    def _trusted(self) -> tuple[list[Floats], dict[int, Floats], dict[int, Floats]]:
        """The predicted cells by level, each node's predicted share of its parent, and g."""
        leaves, known = self._leaves()
        predicted = [leaves]
        for level in range(self.model.tree.depth, 0, -1):
            predicted.insert(0, self.model.tree.up(predicted[0], level))
        return predicted, *self._trust(self.unbiased, predicted, known)

    def _leaves(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Return predicted leaves without gaps, and of which families nothing is predicted."""
        tree, given = self.model.tree, self.expected.cells
        there = np.isfinite(given) & self.model.possible[-1]
        parents = tree.parents[tree.depth]
        many = tree.up(there.astype(np.int64), tree.depth)
        sums = tree.up(np.where(there, given, 0.0), tree.depth)
        mean = np.divide(sums, many, out=np.full(sums.shape, _LEAST), where=many > 0)
        filled = np.maximum(np.where(there, given, mean[parents]), _LEAST)
        return np.where(self.model.possible[-1], filled, 0.0), many > 0

    def _trust(
        self, plain: Sequence[Floats], predicted: Sequence[Floats], known: NDArray[np.bool_]
    ) -> tuple[dict[int, Floats], dict[int, Floats]]:
        """Return each node's predicted share of its parent, and g."""
        tree, variances, unit = self.model.tree, self.model.variances, self.model.cells.variances
        shares, doubts = {}, {}
        for level in range(self.first, tree.depth + 1):
            parents = tree.parents[level]
            above = predicted[level - 1][parents]
            share = np.divide(predicted[level], above, out=np.zeros_like(above), where=above > 0)
            size = share * np.maximum(plain[level - 1][parents], 0.0)
            if self.expected.doubt is not None:
                doubt = np.maximum((self.expected.doubt * size) ** 2, _LEAST_G)
            elif self.expected.sd is not None:
                doubt = np.full(size.shape, self.expected.sd**2)
            else:
                taken = variances.share(tree, level)
                own, of_parent = variances.pooled[level], variances.pooled[level - 1][parents]
                noise = (own + share**2 * of_parent - 2 * share * taken * of_parent) * unit
                off = plain[level] - share * plain[level - 1][parents]
                theta = self._fitted(level, off, np.broadcast_to(noise, off.shape), share, size)
                doubt = np.maximum(theta[0] + theta[1] * size + theta[2] * size**2, _LEAST_G)
            if level == tree.depth:
                doubt = np.where(known[parents], doubt, np.inf)
            shares[level], doubts[level] = share, doubt
        return shares, doubts

    def _fitted(self, level: int, off: Floats, noise: Floats, share: Floats, size: Floats) -> Floats:
        """Return c, a and b, for each cell where its level has enough nodes, else for all of them."""
        there = self.model.possible[level] & (share < 1)  # what has no siblings is its parent and shows nothing
        if len(off) < _BY_CELL:
            return doubt_fit(off[there], noise[there], share[there], size[there])[:, None, None]
        columns = [
            doubt_fit(*(each[there[:, cell], cell] for each in (off, noise, share, size)))
            for cell in range(off.shape[1])
        ]
        return np.stack(columns, axis=1)[:, None, :]

    def _message(self, level: int, spread: Floats, sent: Floats, share: Floats, doubt: Floats) -> tuple[Floats, Floats]:
        """Return precision and information that the children give of their parent's departure."""
        tree = self.model.tree
        inverse, kept = 1 / (doubt + spread), spread / (doubt + spread)
        free = spread * (1 - kept)  # gs/(g + s)
        left = tree.up(free, level)
        open_part = 1 - tree.up(kept * share, level)
        safe = np.where(left > 0, left, 1.0)
        precision = tree.up(share**2 * inverse, level) + np.where(left > 0, open_part**2 / safe, 0.0)
        rest = open_part * tree.up(sent * (1 - kept), level) / safe
        return precision, tree.up(share * sent * inverse, level) + np.where(left > 0, rest, 0.0)

    def _shared(
        self, level: int, spread: Floats, sent: Floats, share: Floats, doubt: Floats, departs: Floats
    ) -> Floats:
        tree, parents = self.model.tree, self.model.tree.parents[level]
        kept = spread / (doubt + spread)
        middle = sent * (1 - kept) + kept * share * departs[parents]
        free = spread * (1 - kept)
        left = tree.up(free, level)[parents]
        part = np.divide(free, left, out=np.zeros_like(free), where=left > 0)
        return np.asarray(middle + part * (departs - tree.up(middle, level))[parents])


def doubt_fit(off: Floats, noise: Floats, share: Floats, size: Floats) -> Floats:
    """Fit E off² - noise = max(1 - share, .05)·(c + a·p + b·p²) by least squares over numbers of at least 0.

    Args:
        off: By how much each node differs from its share of its parent.
        noise: The variance of that from the noise.
        share: The predicted share.
        size: p, the share of the parent's estimate.

    Returns:
        (c, a, b), drawn towards the usual doubt (1, 1, 1/16) by a weak penalty.
    """
    scale = np.maximum(1 - share, 0.05)
    design = scale[:, None] * np.stack([np.ones_like(size), size, size**2], axis=1)
    target, theta = off**2 - noise, np.array([0.0, 1.0, 0.0625])
    for _ in range(3):
        weight = 1 / np.maximum(np.sqrt(2.0) * (noise + design @ theta), 1e-12)
        scaled = design * weight[:, None]
        normal = scaled.T @ scaled + np.diag(_PENALTY / _USUAL**2)
        right = scaled.T @ (target * weight) + _PENALTY / _USUAL
        theta = _nonnegative_solution(normal, right)
    return theta


def _nonnegative_solution(normal: Floats, right: Floats) -> Floats:
    """Return the minimum of ½xᵀNx - rᵀx over x of at least 0: the best of all sets of positive entries."""
    best, lowest = np.zeros(3), 0.0
    for size in (1, 2, 3):
        for chosen in combinations(range(3), size):
            at = list(chosen)
            x = np.zeros(3)
            x[at] = np.linalg.solve(normal[np.ix_(at, at)], right[at])
            value = float(x @ normal @ x / 2 - right @ x)
            if (x >= 0).all() and value < lowest:
                best, lowest = x, value
    return best

"""The public numbers of a measured table of a hierarchy: tree, cells, variances; and the estimates that follow.

Totals over the other columns may be exact at a level and all above it. Then a cell is its part of the total and a rest,
which are uncorrelated, and both have passes of their own (hierarchies proof page, Theorem 4 (b)).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.tree_cells import OtherCells
from sidelight.summaries.tree_least_squares import TreeVariances, tree_estimates, tree_variances

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

#: Up to this standard deviation a whole number decides alone, and half of one is added to an interval.
_COARSE = 10.0
#: Up to this miss a sum of Laplace variables has no larger quantile than one of them with the same variance.
_LAPLACE_MISS = 0.08
#: Of a difference quotient; its error is about as large a part of the variance.
_STEP = 1e-4
#: A public total outside the interval of this confidence around what was measured contradicts it: 4 sd of a normal law.
_AGREES = 1 - 6.33e-5


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeModel:
    """How the nodes and cells of a table were measured.

    Args:
        tree: The tree.
        cells: The other columns.
        kappas: κ of each level; infinite where it was not measured.
        law: The law of the noise.
        inflation: How much larger than κ a variance can be because noise is whole.
        exact_level: Totals of this level and of those above are exact; None where none are.
        leaves_possible: Which cells of each leaf can hold rows, where that differs between leaves.
        whole: At most how much of κ the variance of whole Laplace noise is, by level; empty where it is hardly less.
    """

    tree: LabelTree
    cells: OtherCells
    kappas: tuple[float, ...]
    law: Literal["laplace", "gaussian"]
    inflation: float = 1.0
    exact_level: int | None = None
    leaves_possible: Mask | None = None
    whole: tuple[float, ...] = ()

    @cached_property
    def possible(self) -> tuple[Mask, ...]:
        """Which cells can hold rows, by level."""
        if self.leaves_possible is None:
            return tuple(np.broadcast_to(self.cells.possible, (size, self.cells.size)) for size in self.tree.sizes)
        found = [self.leaves_possible]
        for level in range(self.tree.depth, 0, -1):
            found.insert(0, self.tree.up(found[0].astype(np.int64), level) > 0)
        return tuple(found)

    @cached_property
    def variances(self) -> TreeVariances:
        """Of the cells, in units of C; of each cell by itself where leaves have different ones."""
        if self.leaves_possible is None:
            return tree_variances(self.tree, self.kappas)
        return tree_variances(
            self.tree, [np.where(there, kappa, 0.0) for kappa, there in zip(self.kappas, self.possible, strict=True)]
        )

    @cached_property
    def total_variances(self) -> TreeVariances:
        """Of the totals over the other columns, in units of 1ᵀC1."""
        if self.exact_level is None:
            return self.variances
        exact = [0.0 if level <= self.exact_level else kappa for level, kappa in enumerate(self.kappas)]
        return tree_variances(self.tree, exact)

    def combined(self, of: Callable[[TreeVariances], Floats]) -> Floats:
        """Return the variance of all shown cells from a function of the passes: its last axis becomes that of cells."""
        if self.leaves_possible is not None:
            each = of(self.variances)
            return np.asarray(self.cells.all_margins(each.reshape(-1, self.cells.size)) * self.inflation)
        rest, total = self.cells.factors
        return np.asarray((of(self.variances) * rest + of(self.total_variances) * total) * self.inflation)

    def stated(self, of: Callable[[TreeVariances], Floats], confidence: float) -> tuple[Floats, Floats]:
        """Return the standard deviation of all shown cells and the half-width of an interval, from the passes.

        The estimates keep their weights, those for κ: their variance is linear in that of the measurements. The least
        variance P(κ) is concave in κ and has this linear function as its tangent, so that P(κ) less a difference
        quotient on the side of larger κ is at least what whole noise makes.
        """
        variance = self.combined(of)
        sd, reach = half_widths(variance, self.law, confidence)
        if not self.whole:
            return sd, reach
        kappas = [kappa * (1 + _STEP * (1 - part)) for kappa, part in zip(self.kappas, self.whole, strict=True)]
        less = (replace(self, kappas=tuple(kappas)).combined(of) - variance) / _STEP
        sd = np.sqrt(np.clip(variance - less, 1e-9 * variance, variance))
        # the shorter of the interval for Laplace noise of κ, which is no less, and Chebyshev's for the variance itself
        return sd, np.asarray(np.minimum(reach, sd / math.sqrt(1 - confidence)))

    def node_variances(self, level: int) -> Floats:
        """Return the variance of every node and shown cell of a level, of noise of the variance κ."""
        return self.combined(self.pooled_at(level))

    @staticmethod
    def pooled_at(level: int) -> Callable[[TreeVariances], Floats]:
        """Return what reads the variances of the nodes of a level from the passes."""
        return lambda variances: variances.pooled[level]

    def exact_words(self, level: int, source: str) -> NDArray[np.str_]:
        """Return the source of each number of a level that exact totals fix, "" for measured and impossible cells."""
        possible = self.cells.all_margins(self.possible[level].astype(np.int64)) > 0
        return np.where(possible & (self.node_variances(level) == 0), source, "")

    def cell_sds(self, level: int) -> Floats:
        """Return the standard deviation of each cell of a level, over all nodes: the root of the mean variance."""
        return np.asarray(np.sqrt(self.node_variances(level)[:, : self.cells.size].mean(axis=0)))

    def estimates(self, pooled: Sequence[Floats | None], totals: Sequence[NDArray[Any]] = ()) -> list[Floats]:
        """Return the estimate of every cell from the pooled measurements of each level.

        Args:
            pooled: A row for each node and a column for each cell; None where nothing was measured.
            totals: The exact totals of each node, of the first levels.
        """
        if not totals:
            return tree_estimates(self.tree, pooled, self.variances)
        row = self.cells.row_sums()
        part = row / row.sum()  # e = C1/1ᵀC1
        sums: list[Floats | None] = []
        rests: list[Floats | None] = []
        for level, each in enumerate(pooled):
            whole = None if each is None else each.sum(axis=1, keepdims=True)
            rests.append(None if each is None or whole is None else each - whole * part)
            sums.append(totals[level].astype(np.float64).reshape(-1, 1) if level < len(totals) else whole)
        of_total = tree_estimates(self.tree, sums, self.total_variances)
        if not self.cells.labels:
            return of_total
        of_rest = tree_estimates(self.tree, rests, self.variances)
        return [rest + part * total for rest, total in zip(of_rest, of_total, strict=True)]

    def far_off(self, pooled: Sequence[Floats | None], totals: Sequence[NDArray[Any]]) -> int:
        """Return how many public totals of their finest level the noisy measurements alone contradict.

        Args:
            pooled: As for `estimates`.
            totals: The public totals of each node, of the first levels.
        """
        level = len(totals) - 1
        whole, apart = (float(self.cells.row_sums(without_total=each).sum()) for each in (False, True))
        kappas = [kappa * (apart if place <= level else whole) for place, kappa in enumerate(self.kappas)]
        variances = tree_variances(self.tree, kappas)
        sums = [None if each is None else each.sum(axis=1, keepdims=True) for each in pooled]
        found = tree_estimates(self.tree, sums, variances)[level][:, 0]
        _, reach = half_widths(variances.pooled[level][:, 0] * self.inflation, self.law, _AGREES)
        return int((np.abs(found - totals[level]) > reach).sum())


def half_widths(variance: Floats, law: str, confidence: float) -> tuple[Floats, Floats]:
    """Return the standard deviation of pooled whole noise, and the half-width of an interval with a confidence.

    Of Laplace noise the quantile of one variable of the same variance, which those of sums do not exceed (computed, not
    proved); of Gaussian noise the normal one. Where noise is small it is whole, and half of one is added, or where that
    is less (noise that is mostly 0) Chebyshev's bound is taken, which holds for every law.

    >>> [each.round(3).tolist() for each in half_widths(np.array([0.0001, 4.0, 400.0]), "gaussian", 0.95)]
    [[0.01, 2.0, 20.0], [0.045, 4.42, 39.199]]
    """
    sd = np.sqrt(variance)
    factor = quantile(law, confidence)
    small = np.maximum(factor * sd, factor * np.minimum(sd, _COARSE) + 0.5)  # it never falls as noise grows
    return sd, np.asarray(np.minimum(small, sd / math.sqrt(1 - confidence)))


def quantile(law: str, confidence: float) -> float:
    """Return the half-width of an interval in standard deviations.

    >>> round(quantile("laplace", 0.95), 2), round(quantile("gaussian", 0.95), 2)
    (2.12, 1.96)
    """
    miss = 1 - confidence
    normal = -NormalDist().inv_cdf(miss / 2)
    if law == "gaussian":
        return normal
    single = -math.log(miss) / math.sqrt(2)
    return single if miss <= _LAPLACE_MISS else max(single, normal)

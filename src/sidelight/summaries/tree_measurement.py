"""Measure a table of a hierarchy: the price shared over levels and margins, and the noise of each of them.

One unit moves a margin of a level by what its rows can add up to there, not by what it moves the finest cells by
(hierarchies proof page, Theorem 1); the prices of all measured margins add up to the query's (Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded, ContributionBounds
from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims
from sidelight.guarantees.units import Unit
from sidelight.mechanisms.budget import together
from sidelight.noise import Source
from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.noise_choice import (
    IntegerNoise,
    check_noise,
    choose_noise,
    gaussian_variance,
    laplace_variance,
)
from sidelight.summaries.tree_cells import Axes, OtherCells, other_cells
from sidelight.summaries.tree_model import TreeModel, half_widths
from sidelight.summaries.tree_shares import ShareSearch, capped_shares, default_shares

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class TreeWishes:
    """What a user asks of the shares and of the numbers, all public.

    Args:
        caps: The largest half-width by level.
        confidence: Of intervals and caps.
        exact_level: Totals of this level and above are exact.
        possible: Which cells of the other columns can hold rows; by leaf where it has two axes.
    """

    caps: Mapping[int, float]
    confidence: float = 0.95
    exact_level: int | None = None
    possible: NDArray[np.bool_] | None = None

    @property
    def by_leaf(self) -> bool:
        """Whether leaves differ in which cells they have."""
        return self.possible is not None and self.possible.ndim == 2


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelMargin:
    """One measured margin of one level: how far one unit moves it, and its noise."""

    level: int
    axes: Axes
    norms: ContributionBounds
    noise: IntegerNoise
    width: Fraction = Fraction(1)
    signed: bool = False

    def bounded(self, values: NDArray[Any], unit: Unit) -> Bounded:
        """Return the exact values with their sensitivity."""
        return self.norms.bounded(values, self.noise.norm, unit, self.width, signed=self.signed)


@dataclass(frozen=True, kw_only=True, eq=False)
class TreeMeasurement:
    """A table of a hierarchy, ready to be measured."""

    model: TreeModel
    margins: tuple[LevelMargin, ...]
    shares: tuple[Fraction, ...]
    unit: Unit

    @property
    def claims(self) -> Claims:
        """What all measurements prove together."""
        none = np.zeros(1, np.int64)
        return together([(1, margin.noise.on(margin.bounded(none, self.unit)).claims) for margin in self.margins])

    def pooled(self, finest: Sequence[NDArray[Any]], source: Source) -> list[list[Floats | None]]:
        """Add noise to every measured margin of every level, and pool those of each node.

        Args:
            finest: One table, or the two of a pair, which a row moves together by at most the width: the exact cells of
                the leaves, in the order of the tree; integers.
            source: Of the noise.

        Returns:
            For each table its pooled levels; None where nothing was measured.
        """
        tree, cells = self.model.tree, self.model.cells
        exact = [np.stack(finest, axis=1)]  # leaf, table, cell
        for level in range(tree.depth, 0, -1):
            exact.insert(0, tree.up(exact[0], level))
        found: list[list[Floats | None]] = [[] for _ in finest]
        for level, values in enumerate(exact):
            noisy = {}
            for margin in self.margins:
                if margin.level == level:
                    sums = np.stack([cells.summed(values[:, place], margin.axes) for place in range(len(finest))])
                    bounded = margin.bounded(sums, self.unit)
                    noisy[margin.axes] = np.asarray(margin.noise.on(bounded).release(source), np.float64)
            for place, each in enumerate(found):
                if not noisy:
                    each.append(None)
                    continue
                pooled = cells.pooled({axes: values[place] for axes, values in noisy.items()})
                each.append(np.where(self.model.possible[level], pooled, 0.0))
        return found


def measure_tree(
    tree: LabelTree,
    labels: tuple[tuple[str, ...], ...],
    groups: Groups,
    wishes: TreeWishes,
    price: Mapping[str, Amount | None],
    *,
    law: str = "auto",
    width: Fraction = Fraction(1),
    signed: bool = False,
) -> TreeMeasurement:
    """Share the price over levels and margins and fix the noise of each: public numbers only.

    Of prices that allow both laws of noise the one is taken whose tables are better by the measure that the shares are
    found with.

    Args:
        tree: The tree.
        labels: Of the other columns.
        groups: The bounds of one unit in the finest table.
        wishes: Caps, weights, exact totals and impossible cells.
        price: Of all measurements together.
        law: "laplace" or "gaussian" to insist on one.
        width: The most that one row adds to a cell; 1 for counts.
        signed: Whether rows can add and take away.
    """
    pure = all(price.get(name) is None for name in ("delta", "rho", "mu"))
    found: list[tuple[float, TreeMeasurement]] = []
    refusal: RangeError | None = None
    both = ("laplace",) if pure else ("gaussian", "laplace")
    for kind in both if law == "auto" else (law,):
        try:
            found.append(_with_noise(tree, labels, groups, wishes, price, kind, width, signed=signed))
        except RangeError as error:
            refusal = refusal or error
    if not found:
        assert refusal is not None
        raise refusal
    return min(found, key=lambda each: each[0])[1]


def _with_noise(
    tree: LabelTree,
    labels: tuple[tuple[str, ...], ...],
    groups: Groups,
    wishes: TreeWishes,
    price: Mapping[str, Amount | None],
    kind: Any,
    width: Fraction,
    *,
    signed: bool,
) -> tuple[float, TreeMeasurement]:
    whole = choose_noise(groups.norms, kind, **price)
    power = 2 if kind == "laplace" else 1
    cells = other_cells(labels, None if wishes.by_leaf else wishes.possible, power=power, pooled=not wishes.by_leaf)
    bounds = _bounds(tree, cells, groups.norms)
    units = tuple(
        _unit(cells, bounds[level], whole, wishes, level) * float(width) ** 2 for level in range(tree.depth + 1)
    )
    total_part, rest_part = cells.split_parts()
    search = ShareSearch(
        tree=tree,
        units=units,
        power=power,
        total_part=total_part,
        rest_part=rest_part,
        exact_level=wishes.exact_level,
    )
    if wishes.caps:
        weights = [{cells.weights[axes] for axes in _measured(cells, wishes, level)} for level in range(tree.depth + 1)]

        def half_width(variance: float, kappas: Sequence[float]) -> float:
            scales = [
                math.sqrt(kappa / weight)
                for kappa, each in zip(kappas, weights, strict=True)
                if kappa < math.inf
                for weight in each
            ]
            return float(half_widths(np.array(variance * _inflation(kind, scales)), kind, wishes.confidence)[1])

        amount = float(whole.epsilon if whole.epsilon is not None else whole.mu or 0)
        shares, value = capped_shares(
            search, wishes.caps, half_width, price=("epsilon" if power == 2 else "mu", amount)
        )
    else:
        shares, value = default_shares(search)
    margins = []
    for level, share in enumerate(shares):
        for axes, part in _parts(cells, bounds[level], wishes, level, laplace=power == 2).items():
            if share > 0:
                each = check_noise(whole.part(share * part, bounds[level][axes]))
                margins.append(
                    LevelMargin(
                        level=level, axes=axes, norms=bounds[level][axes], noise=each, width=width, signed=signed
                    )
                )
    model = TreeModel(
        tree=tree,
        cells=cells,
        kappas=_kappas(tree, cells, margins, groups.unit),
        law=kind,
        inflation=_inflation(kind, [_scale(margin, groups.unit) for margin in margins]),
        exact_level=wishes.exact_level,
        leaves_possible=wishes.possible if wishes.by_leaf else None,
        whole=_whole(tree, cells, margins, groups.unit),
    )
    return value, TreeMeasurement(model=model, margins=tuple(margins), shares=shares, unit=groups.unit)


def _bounds(tree: LabelTree, cells: OtherCells, norms: ContributionBounds) -> list[dict[Axes, ContributionBounds]]:
    """Return how far one unit moves each margin of each level (Theorem 1)."""
    found = []
    for level, size in enumerate(tree.sizes):
        below = int(tree.leaves_below[level].max())
        found.append(
            {
                axes: norms.margin(
                    cells=size * cells.width(axes), cells_apart=below * (cells.size // cells.width(axes))
                )
                for axes in cells.weights
            }
        )
    return found


def _measured(cells: OtherCells, wishes: TreeWishes, level: int) -> list[Axes]:
    """Return the margins that are measured at a level: not the total where it is exact."""
    exact = wishes.exact_level is not None and level <= wishes.exact_level
    return [axes for axes in cells.weights if axes or not cells.labels or not exact]


def _parts(
    cells: OtherCells, bounds: Mapping[Axes, ContributionBounds], wishes: TreeWishes, level: int, *, laplace: bool
) -> dict[Axes, Fraction]:
    """Return the share of a level's price that each of its margins has: variances in the ratio of the weights."""
    squares = {
        axes: Fraction(cells.weights[axes]).limit_denominator(10**4) * (1 if laplace else bounds[axes].l2_squared)
        for axes in _measured(cells, wishes, level)
    }
    whole = sum(squares.values(), Fraction(0))
    return {axes: part / whole for axes, part in squares.items()}


def _unit(
    cells: OtherCells, bounds: Mapping[Axes, ContributionBounds], whole: IntegerNoise, wishes: TreeWishes, level: int
) -> float:
    """Return κ of a level that has the whole price."""
    measured = _measured(cells, wishes, level)
    if whole.epsilon is not None:
        weights = math.fsum(cells.weights[axes] for axes in measured)
        return 2 * (bounds[measured[0]].l1 * weights / float(whole.epsilon)) ** 2
    assert whole.mu is not None
    moved = math.fsum(cells.weights[axes] * bounds[axes].l2_squared for axes in measured)
    return moved / float(whole.mu) ** 2


def _scale(margin: LevelMargin, unit: Unit) -> float:
    return float(margin.noise.on(margin.bounded(np.zeros(1, np.int64), unit)).scale)


def _kappas(tree: LabelTree, cells: OtherCells, margins: Sequence[LevelMargin], unit: Unit) -> tuple[float, ...]:
    found = [math.inf] * (tree.depth + 1)
    for margin in margins:
        if margin.axes == cells.finest:
            scale, weight = _scale(margin, unit), cells.weights[margin.axes]
            found[margin.level] = 2 * (scale * weight) ** 2 if margin.noise.kind == "laplace" else scale**2 * weight
    return tuple(found)


def _inflation(law: str, scales: Sequence[float]) -> float:
    """Return by how much rounding to whole numbers makes a variance larger at most; Laplace noise is smaller."""
    return 1.0 if law == "laplace" else max(gaussian_variance(scale) / scale**2 for scale in scales)


#: Where whole Laplace noise has nearly the variance 2b², that is stated.
_HARDLY_LESS = 0.99


def _whole(tree: LabelTree, cells: OtherCells, margins: Sequence[LevelMargin], unit: Unit) -> tuple[float, ...]:
    """Return by level at most how much of κ the variance of whole Laplace noise is; () where that is nearly all.

    A margin T has r_T of its 2b². Pooled over margins the cells have κC·(Σ r_T·A_T)·C with A_T = w_T²·M_TᵀM_T and
    C = (Σ A_T)⁻¹. With F the finest cells, A_F = w_F² and A_T <= w_T²·m for margins of m cells each: so A_T is at most
    the part s_T = w_T²m/(w_F² + w_T²m) of ΣA, and all of it at most κC·(r_F + Σ (r_T - r_F)₊ s_T).
    """
    if margins[0].noise.kind != "laplace":
        return ()
    parts: list[dict[Axes, float]] = [{} for _ in range(tree.depth + 1)]
    for margin in margins:
        scale = _scale(margin, unit)
        parts[margin.level][margin.axes] = laplace_variance(scale) / (2 * scale**2)
    found = []
    for level in parts:
        finest = level.get(cells.finest, 1.0)
        own = cells.weights[cells.finest] ** 2
        rest = 0.0
        for axes, part in level.items():
            weight = cells.weights[axes] ** 2 * cells.size / cells.width(axes)
            rest += max(part - finest, 0.0) * weight / (own + weight)
        found.append(min(finest + rest, max(level.values(), default=1.0)))
    return tuple(found) if min(found) < _HARDLY_LESS else ()

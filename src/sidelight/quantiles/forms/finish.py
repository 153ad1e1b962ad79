"""Find every target of `cells`: on the curve through all points, or in its own cell with what its records have left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.ranks import Ranks
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.predictions.compiled import CompiledPrior
from sidelight.quantiles.descend import Cell
from sidelight.quantiles.forms.cells_of_points import exact_position
from sidelight.quantiles.forms.flags import leaves_of
from sidelight.quantiles.forms.focus import LevelPriors, Spot, spot
from sidelight.quantiles.forms.local import Bend, LocalPriors, LocalTask, Place, finish_cell
from sidelight.quantiles.forms.outline import Outline
from sidelight.quantiles.forms.parts import Parts

Floats = NDArray[np.float64]
Finished = Literal["curve", "tail", "leaf"]


def side_of(side: int) -> Place:
    """Return what a cell of the partition is: a tail below or above something, or a leaf that was counted."""
    found: dict[int, Place] = {-1: "below", 0: "inside", 1: "above"}
    return found[side]


@dataclass(frozen=True, kw_only=True, eq=False)
class Finish:
    """Find every target: on the curve through all points, or in its tail or flagged leaf with what is left there."""

    outline: Outline
    cells: Sequence[Cell]  # the one partition between the outline's points: a tail, the leaves, a tail
    flags: NDArray[np.bool_]
    sides: NDArray[np.int64]
    whole_budget: Budget
    left_budget: Budget
    priors: LevelPriors
    focus: Spot | None
    tails: tuple[Spot | None, Spot | None]

    def release(
        self, ranks: Ranks, levels: Floats, source: Source
    ) -> tuple[tuple[int, ...], tuple[Finished, ...], dict[int, Parts]]:
        """Release an index for each level, how each was found, and the parts of cells finished by points and counts."""
        targets, inner, grid = levels * self.outline.total, self.outline.ranks, self.outline.grid
        indices = [self.outline.index_of(place) for place in self.outline.curve.places_of(targets, continued=True)]
        finished: list[Finished] = ["curve"] * len(indices)
        parts: dict[int, Parts] = {}
        bend = Bend.of(self.outline)
        owners = leaves_of(targets, inner) + 1
        for place in np.unique(owners).tolist():
            mine = np.flatnonzero(owners == place).tolist()
            task = self._task(place, targets[mine].tolist())
            if task is None:
                continue
            near = self._priors(place, task)
            found, own = finish_cell(ranks, task, grid=grid, priors=near, bend=bend, source=source)
            if own is not None:
                parts[place] = own
            for i, index in zip(mine, found, strict=True):
                indices[i], finished[i] = index, "leaf" if task.place == "inside" else "tail"
        return tuple(accumulate(indices, max)), tuple(finished), parts

    def _task(self, place: int, targets: Sequence[float]) -> LocalTask | None:
        """Return what is to be finished in a cell; None for a leaf that was refined and has nothing left."""
        side = side_of(int(self.sides[place]))
        if side == "inside" and not self.flags[place]:
            return None
        low, high = float(self.outline.ends[place]), float(self.outline.ends[place + 1])
        return LocalTask(
            cell=self.cells[place],
            place=side,
            levels=tuple((target - low) / max(high - low, 1.0) for target in targets),
            size=high - low,
            budget=self.left_budget if side == "inside" else self.whole_budget,
        )

    def _spot(self, place: int, beside: int) -> Spot | None:
        """Return the Cauchy of a tail, from its inner end on: that of the whole, or by the leaf beside it."""
        if place in (0, len(self.cells) - 1):
            return self.tails[0] if place == 0 else self.tails[1]
        own, other = self.cells[place], self.cells[place + beside]
        counts = np.diff(self.outline.ends)[[place, place + beside]]
        width = abs(exact_position(self.outline.grid, other.last) - exact_position(self.outline.grid, other.first))
        ratio = Fraction(max(float(counts[0]), 1.0)) / Fraction(max(float(counts[1]), 1.0))
        return spot(exact_position(self.outline.grid, own.last if beside > 0 else own.first), width * ratio)

    def _priors(self, place: int, task: LocalTask) -> LocalPriors:
        beside = {"below": 1, "above": -1}.get(task.place)
        spot_of_tail = None if beside is None else self._spot(place, beside)
        low, size, total = float(self.outline.ends[place]), task.size, self.outline.total

        def near(relative: Sequence[float]) -> Sequence[CompiledPrior]:
            return self.priors.each([(low + each * size) / total for each in relative], spot_of_tail, self.focus)

        return near

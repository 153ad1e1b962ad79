"""The priors of a form: what the user predicts, and that mixed with a Cauchy around numbers that were released.

A prior may be any function of public numbers and earlier outputs, so focusing is free. It takes the sixty empty powers
of two of a prior that knows no scale out of the tails (quantiles proof page, section 6).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from sidelight.grid import Outcomes
from sidelight.predictions import Cauchy, Mixture, Prior
from sidelight.predictions.compiled import UNIT, CompiledPrior, Part, Staircase
from sidelight.quantiles.forms.cells_of_points import exact_position

#: The weight of what a Cauchy around released numbers is mixed with.
_KEPT = 4


class Spot(NamedTuple):
    """Where a Cauchy is put: a location and a positive scale, both doubles."""

    location: float
    scale: float


def spot(location: Fraction, scale: Fraction) -> Spot | None:
    """Round an exact location and scale to doubles; None where no Cauchy has such a scale."""
    width = as_float(scale)
    return Spot(as_float(location), width) if width > 0 else None


def as_float(place: Fraction) -> float:
    """Return the nearest double; the largest one beyond it."""
    largest = sys.float_info.max
    return float(min(max(place, Fraction(-largest)), Fraction(largest)))


def middle_spot(grid: Outcomes, low: int, middle: int, high: int) -> Spot | None:
    """Return the Cauchy of three released quartiles: around the median, half their distance wide."""
    distance = exact_position(grid, high) - exact_position(grid, low)
    return spot(exact_position(grid, middle), distance / 2)


class LevelPriors:
    """The priors of the requested levels, compiled, for any level: that of the nearest requested one.

    Everything here is a function of public numbers and of released ones.
    """

    __slots__ = ("_compiled", "_levels", "_priors", "grid", "single")

    def __init__(
        self,
        grid: Outcomes,
        levels: Sequence[Fraction],
        priors: Sequence[Prior],
        compiled: Sequence[CompiledPrior] = (),
    ) -> None:
        self.grid = grid
        self._levels = tuple(levels)
        self._priors = tuple(priors)
        self.single = all(prior is self._priors[0] for prior in self._priors)
        self._compiled: dict[tuple[int, tuple[Spot, ...]], CompiledPrior] = {
            (id(prior), ()): each for prior, each in zip(priors, compiled, strict=False)
        }

    def at(self, level: Fraction | float, *spots: Spot | None) -> CompiledPrior:
        """Return the prior for a level: three quarters a Cauchy at the first spot, the rest as for the other spots.

        A spot of None is left out.
        """
        prior = self.nearest(level)
        around = tuple(each for each in spots if each is not None)
        key = (id(prior), around)
        if key not in self._compiled:
            self._compiled[key] = _mixed(self.grid, prior, around)
        return self._compiled[key]

    def each(self, levels: Sequence[Fraction | float], *spots: Spot | None) -> list[CompiledPrior]:
        """Return the prior for each of several levels."""
        return [self.at(level, *spots) for level in levels]

    def nearest(self, level: Fraction | float) -> Prior:
        """Return the prior of the requested level that is nearest to a level."""
        if self.single:
            return self._priors[0]
        asked = Fraction(level)
        place = min(range(len(self._levels)), key=lambda i: abs(self._levels[i] - asked))
        return self._priors[place]


def _mixed(grid: Outcomes, prior: Prior, spots: Sequence[Spot]) -> CompiledPrior:
    """Compile a mixture from its integer masses: nothing here can be refused after a charge, as a `Mixture` could."""
    if not spots:
        return prior.compile(grid)
    weights, left = [], UNIT
    for _ in spots:
        weights.append(left - left // _KEPT)
        left //= _KEPT
    around = [
        (weight, Cauchy(each.location, each.scale).staircases(grid, weight))
        for weight, each in zip(weights, spots, strict=True)
    ]
    stairs: list[Staircase] = [stair for _, own in around for stair in own]
    if not (isinstance(prior, Mixture) and prior.conditioned == "parts"):
        return CompiledPrior(grid.fine_first, grid.fine_last, [*stairs, *prior.staircases(grid, left)])
    # A prior whose parts are conditioned one by one stays so: its parts and the Cauchys keep their weights everywhere.
    parts = [Part(len(own), weight) for weight, own in around]
    shares = [Fraction(repr(weight)) for weight in prior.weights]
    for share, part in zip(shares, prior.priors, strict=True):
        own = part.staircases(grid, UNIT)
        stairs += own
        parts.append(Part(len(own), int(left * share / sum(shares))))
    return CompiledPrior(grid.fine_first, grid.fine_last, stairs, parts=parts)


def tail_spots(grid: Outcomes, points: Sequence[int], counts: Sequence[float]) -> tuple[Spot | None, Spot | None]:
    """Return the Cauchys of the two tails: from the last known point on, with the spacing beside it as their scale.

    `counts` are the released ones of the cells around the points, one more than points, the tails included.
    """
    if len(points) < 2:
        return None, None
    places = [exact_position(grid, points[i]) for i in (0, 1, -2, -1)]

    def stretch(distance: Fraction, outer: float, inner: float) -> Fraction:
        return distance * Fraction(max(outer, 1.0)) / Fraction(max(inner, 1.0))

    below = spot(places[0], stretch(places[1] - places[0], counts[0], counts[1]))
    above = spot(places[3], stretch(places[3] - places[2], counts[-1], counts[-2]))
    return below, above

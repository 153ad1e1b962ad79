"""Candidates for a split: balls of projected public rows with an empty shell around them. Public, hence free."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sidelight.gaussians.mixture.supercluster import Floats, distances

#: The shell around a candidate reaches at least to this multiple of its radius.
LEAST_RATIO = 1.5
#: So many candidates, those with the widest shells, are compared on private rows.
MOST_CANDIDATES = 8


@dataclass(frozen=True, eq=False)
class TerrificBall:
    """A ball about a projected public row: no public row lies between the `inner` and the `outer` radius."""

    centre: Floats
    inner: float
    outer: float

    @property
    def ratio(self) -> float:
        """How wide the shell is."""
        return self.outer / self.inner

    @property
    def widened(self) -> tuple[float, float]:
        """The radii between which hardly any private row may lie: a quarter of the shell is left on both sides."""
        return self.inner * self.ratio**0.25, self.outer / self.ratio**0.25

    @property
    def radius(self) -> float:
        """Where to split: in the geometric middle of the shell."""
        return float(np.sqrt(self.inner * self.outer))


def terrific_balls(projected: Floats, size: int) -> tuple[TerrificBall, ...]:
    """Return the best candidates with at least `size` public rows inside and outside, the widest shell first.

    >>> best = terrific_balls(np.array([[0.0], [1.0], [9.0], [10.0]]), 2)[0]
    >>> best.inner, best.outer, best.radius
    (1.0, 9.0, 3.0)
    """
    count = len(projected)
    if count < 2 * size or count < 2:
        return ()
    ordered = np.sort(distances(projected), axis=1)
    inner, outer = ordered[:, :-1], ordered[:, 1:]
    inside = np.arange(1, count)  # rows within the inner radius, the centre included
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(inner > 0, outer / inner, 0.0)
    ratio[:, (inside < size) | (count - inside < size)] = 0.0
    best = np.argsort(-ratio, axis=None, kind="stable")[:MOST_CANDIDATES]
    places = [np.unravel_index(each, ratio.shape) for each in best]
    return tuple(
        TerrificBall(projected[row], float(inner[row, place]), float(outer[row, place]))
        for row, place in places
        if ratio[row, place] >= LEAST_RATIO
    )

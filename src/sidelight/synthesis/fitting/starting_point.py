"""A prior on the points of a space: a raw part, a smooth part and the uniform one, mixed by trust in the first two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.synthesis.cells.spaces import Floats, Space, SupportSpace
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.measuring.measurement import Measurement


@dataclass(frozen=True, eq=False, kw_only=True)
class StartingPoint:
    """α·raw + (1 - α - λ)·smooth^γ + λ·uniform, where smooth^γ is normalised.

    A power of a product is a product: it says nothing about relations between columns, whatever γ. A mixture of a
    product and the uniform distribution would, and what is not measured would keep it.
    `own_error` is the squared l1 error of a marginal of `raw` that is known beforehand, `own_variance` its squared l2
    error; `most_raw` the largest α.
    """

    space: Space
    raw: Floats = field(repr=False)
    smooth: Floats = field(repr=False)
    most_raw: float
    hedge: float
    own_error: float = 0.0
    own_variance: float = 0.0
    _known: dict[tuple[str, Marginal], Floats] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("raw", "smooth"):
            object.__setattr__(self, name, _normalised(self.space, getattr(self, name)))

    def raw_share(self, *, private_error: float, other_error: float) -> float:
        """Return α = most_raw · p²/(p² + o²) for squared errors p of a measurement and o of the raw part."""
        if private_error <= 0.0:
            return 0.0
        return self.most_raw / (1.0 + (other_error / private_error) ** 2)

    def squared_bias(self, measurements: Sequence[Measurement], *, rows: float) -> float:
        """Estimate the squared l2 distance between marginals of `raw` and of the rows, from released numbers.

        From the distance to each measured marginal, what noise and the raw part's own error explain is subtracted.
        """
        if self.most_raw == 0.0 or not measurements:
            return 0.0
        found = []
        masses = self._marginals("raw", [each.marginal for each in measurements])
        for mass, each in zip(masses, measurements, strict=True):
            noise = each.values.size * (each.deviation / rows) ** 2
            apart = float(((mass - each.values / rows) ** 2).sum())
            found.append(max(0.0, apart - noise - self.own_variance))
        return float(np.mean(found))

    def smooth_share(self, measurements: Sequence[Measurement], *, rows: float) -> float:
        """Return γ = u²/(u² + s²) for squared distances u and s of the uniform and the smooth part to measured columns.

        Of each column of each measurement, less the noise. 1 before the first. A smooth part that is further from the
        rows than no idea at all loses its weight.
        """
        if not measurements or not self.adapts:
            return 1.0
        wanted = [each.marginal for each in measurements]
        noises = [each.deviation / rows for each in measurements]
        apart = [
            sum(
                _one_way_distance(mass - each.values / rows) - each.values.ndim * each.values.size * noise**2
                for mass, each, noise in zip(self._marginals(name, wanted), measurements, noises, strict=True)
            )
            for name in ("uniform", "smooth")
        ]
        uniform, smooth = (max(0.0, each) for each in apart)
        return 1.0 if smooth == 0.0 else 1.0 / (1.0 + (smooth / uniform) ** 2) if uniform > 0.0 else 0.0

    @property
    def adapts(self) -> bool:
        """Whether measurements can change the mixture."""
        return self.most_raw > 0.0 or self.hedge < 1.0

    def mixed(self, *, private_error: float, other_error: float, smooth_share: float = 1.0) -> Floats:
        """Return the prior: strictly positive on the possible points."""
        share = self.raw_share(private_error=private_error, other_error=other_error)
        powers = self.smooth**smooth_share if smooth_share > 0.0 else uniform_weights(self.space)
        total = self.raw * share
        total += _normalised(self.space, powers) * max(1.0 - share - self.hedge, 0.0)
        total += uniform_weights(self.space) * self.hedge
        return np.asarray(total / total.sum())

    def _marginals(self, name: Literal["raw", "smooth", "uniform"], wanted: Sequence[Marginal]) -> list[Floats]:
        """Return marginals of one part; each is computed once."""
        missing = [each for each in dict.fromkeys(wanted) if (name, each) not in self._known]
        if missing:
            part = uniform_weights(self.space) if name == "uniform" else getattr(self, name)
            found = self.space.marginals(part, missing)
            self._known.update(((name, each), mass) for each, mass in zip(missing, found, strict=True))
        return [self._known[name, each] for each in wanted]


def _one_way_distance(difference: Floats) -> float:
    """Return the squared l2 norms of the one-way marginals of a difference, added up."""
    axes = range(difference.ndim)
    return sum(float((difference.sum(axis=tuple(a for a in axes if a != axis)) ** 2).sum()) for axis in axes)


def uniform_weights(space: Space) -> Floats:
    """Return equal weights of all possible points."""
    weights = np.ones(space.points) if space.possible is None else space.possible.astype(np.float64)
    return np.asarray(weights / weights.sum())


def product(space: Space, one_way: Sequence[NDArray[np.float64]]) -> Floats:
    """Return the product of one-way marginals at every point."""
    if isinstance(space, SupportSpace):
        found = np.ones(space.points)
        for place, masses in enumerate(one_way):
            found *= masses[space.codes[:, place]]
        return found
    found = np.ones(1)
    for masses in one_way:
        found = np.multiply.outer(found, masses).reshape(-1)
    return found


def _normalised(space: Space, weights: Floats) -> Floats:
    inside = weights if space.possible is None else weights * space.possible
    mass = float(inside.sum())
    return np.asarray(inside / mass) if mass > 0 else uniform_weights(space)

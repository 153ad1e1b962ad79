"""A prior on the points of a space: a raw part, a smooth part and the uniform one, mixed by trust in the raw one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sidelight.synthesis.measurement import Measurement
from sidelight.synthesis.spaces import Floats, Space, SupportSpace
from sidelight.synthesis.workload import Marginal


@dataclass(frozen=True, eq=False, kw_only=True)
class StartingPoint:
    """α·raw + (1 - α - λ)·smooth + λ·uniform.

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
    _known: dict[Marginal, Floats] = field(default_factory=dict, repr=False)

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
        missing = [each.marginal for each in measurements if each.marginal not in self._known]
        self._known.update(zip(missing, self.space.marginals(self.raw, missing), strict=True))
        found = []
        for each in measurements:
            noise = each.values.size * (each.deviation / rows) ** 2
            apart = float(((self._known[each.marginal] - each.values / rows) ** 2).sum())
            found.append(max(0.0, apart - noise - self.own_variance))
        return float(np.mean(found))

    def mixed(self, *, private_error: float, other_error: float) -> Floats:
        """Return the prior: strictly positive on the possible points."""
        share = self.raw_share(private_error=private_error, other_error=other_error)
        total = self.raw * share
        total += self.smooth * max(1.0 - share - self.hedge, 0.0)
        total += uniform_weights(self.space) * self.hedge
        return np.asarray(total / total.sum())


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

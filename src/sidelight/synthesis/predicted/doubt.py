"""How far predicted counts are off, beyond what noise and sampling explain: judged by released numbers alone."""

from __future__ import annotations

import numpy as np

from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.predicted.predicted_counts import PredictedCounts

#: So many cells at least are judged together, in so many groups at most.
_GROUP, _MOST_GROUPS = 100, 8


class Doubt:
    """What is unexplained in the distance between values with noise and predicted means, by the size of the variance.

    Cells of about the same predicted variance stand together: those that claim to be precise are held to their claim by
    their own kind.

    >>> even = np.full(400, 4.0)
    >>> doubt = Doubt(np.zeros(400), even, np.full(400, 100.0), even)
    >>> doubt.added(np.array([0.0, 4.0, 50.0])).tolist()
    [9992.0, 9992.0, 9992.0]
    """

    def __init__(self, values: Floats, noise: Floats, means: Floats, variances: Floats) -> None:
        known = np.flatnonzero(np.isfinite(variances))
        ordered = known[np.argsort(variances[known], kind="stable")]
        groups = np.array_split(ordered, int(np.clip(len(known) // _GROUP, 1, _MOST_GROUPS)))
        self._ends: Floats = np.array([variances[group[-1]] for group in groups[:-1]])
        self._excess: Floats = np.array(
            [
                max(0.0, float(((values - means)[group] ** 2 - noise[group] - variances[group]).mean()))
                if len(group)
                else 0.0
                for group in groups
            ]
        )

    def added(self, variances: Floats) -> Floats:
        """Return what is added to predicted variances of these sizes."""
        return np.asarray(self._excess[np.searchsorted(self._ends, variances, "left")])

    def pool(
        self, values: Floats, noise: Floats | float, predicted: PredictedCounts, *, trust: float
    ) -> tuple[Floats, Floats]:
        """Return values of variance σ² (`noise`) pooled with predicted ones of variance v, and the variances of that.

        The prediction has the weight t·σ²/(σ² + v + e) for a trust t. Written without 1 - weight, which would be 0 for
        noise that is far larger than v.

        >>> doubt = Doubt(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1))
        >>> one = PredictedCounts(np.ones(1), np.ones(1))
        >>> [each.tolist() for each in doubt.pool(np.array([4.0]), 1e60, one, trust=1.0)]
        [[1.0], [1.0]]
        """
        spread = predicted.variances + self.added(predicted.variances)
        with np.errstate(invalid="ignore"):  # where nothing is predicted
            own = ((1.0 - trust) * noise + spread) / (noise + spread)
            weight = trust * noise / (noise + spread)
        known = np.isfinite(spread)
        together = np.where(known, own * values + weight * predicted.means, values)
        return together, np.where(known, own * noise, noise)

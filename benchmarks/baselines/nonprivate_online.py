"""NOT PRIVATE: what the online learner would do if it saw the records. A yardstick for figures, never a method."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.published.released_learners import CocobMap, PubProx
from sidelight.quantiles.evaluate import sorted_values
from sidelight.quantiles.public import optimal_intervals
from sidelight.quantiles.tree import LevelLike, exact_levels

Floats = NDArray[np.float64]


def nonprivate_online(
    days: Iterable[tuple[ArrayLike, ArrayLike]],
    levels: LevelLike | Iterable[LevelLike],
    learner: PubProx,
    *,
    granularity: float,
) -> tuple[Floats, Floats]:
    """Return the locations and scales that online learning from the TRUE intervals predicts for each day. Not private.

    `days` gives (records, features) in order; row t of the results is predicted before day t is seen. The numbers
    depend on the records of earlier days: on private data they must not be released, nor used for a prediction.

    >>> days = [([1.0, 2, 3], []), ([2.0, 3, 4], [])]
    >>> learner = PubProx(0, 1, plausible=(-10, 10), method="cocob")
    >>> locations, scales = nonprivate_online(days, [0.5], learner, granularity=1e-6)
    >>> locations.round(3).tolist()
    [[0.0], [0.01]]
    """
    read = exact_levels(levels)
    learned = learner.begin(len(read), granularity=granularity)
    predicted = []
    for values, features in days:
        public = np.asarray(features, dtype=np.float64)
        predicted.append(learned.predict(public))
        low, high = optimal_intervals(sorted_values(values), read, granularity)
        if isinstance(learned, CocobMap):
            learned = learned.learn_interval(public, low, high)
        else:
            learned = learned.learn(public, np.clip([low, high], *learner.plausible).mean(axis=0))
    return np.array([each[0] for each in predicted]), np.array([each[1] for each in predicted])

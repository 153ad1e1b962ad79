"""The distribution that fits answers to single queries: `refit` of whole marginals, for queries one by one.

Minimises Σ_j (y_j - N⟨q_j, w⟩)²/(2σ²) + τN·KL(w ‖ prior) over distributions w. The minimum is w ∝ prior·exp(Σ θ_j q_j)
with θ_j = (y_j - N⟨q_j, w⟩)/(τσ²), which is solved for one θ_j after the other by Newton steps. A step of the published
update takes away at most an eighth of the error of a counting query: one query alone needs dozens of them.
"""

from __future__ import annotations

import numpy as np

from sidelight.synthesis.cells.spaces import Floats
from sidelight.synthesis.cells.workload import Marginal
from sidelight.synthesis.fitting.refit import PRIOR_WEIGHT
from sidelight.synthesis.measuring.single_queries import AnsweredQuery, QuerySpace

#: A step changes log-weights by at most this, where the variance is within a factor e² of that of the start.
_LONGEST = 1.0
#: A sweep whose largest step changes log-weights by less is the last.
_SETTLED = 1e-4
_SWEEPS_AT_THE_END = 30


class QueryRefit:
    """Weights on the points of a space, and the answers that they fit. A function of released numbers and the prior.

    `deviation` is the noise's standard deviation, in rows.
    """

    def __init__(
        self, queries: QuerySpace, prior: Floats, *, rows: float, deviation: float, prior_weight: float = PRIOR_WEIGHT
    ) -> None:
        self.weights = np.array(prior)
        self._queries = queries
        self._rows = rows
        self._stiffness = prior_weight * deviation**2  # τσ²
        self._answers: list[tuple[AnsweredQuery, Floats]] = []
        self._tilts: list[float] = []

    def learn(self, answer: AnsweredQuery) -> None:
        """Take an answer in and refit, roughly."""
        self._answers.append((answer, answer.block.coefficients(answer.inside)))
        self._tilts.append(0.0)
        self.fit(sweeps=1)

    def finish(self) -> Floats:
        """Refit until nothing moves, and return the weights."""
        self.fit(sweeps=_SWEEPS_AT_THE_END)
        return self.weights

    def fit(self, *, sweeps: int) -> None:
        """Go through all answers so many times, the latest first, or until nothing moves."""
        for _ in range(sweeps):
            steps = [abs(self._step(place)) for place in reversed(range(len(self._answers)))]
            if max(steps, default=0.0) < _SETTLED:
                return

    def _step(self, place: int) -> float:
        """Solve for one θ, approximately; return by how much it moved."""
        answer, query = self._answers[place]
        marginal, space = Marginal(answer.block.columns), self._queries.space
        (mass,) = space.marginals(self.weights, [marginal])
        mean = float((mass * query).sum())
        variance = max(float((mass * query**2).sum()) - mean**2, 0.0)
        apart = answer.value - self._rows * mean
        step = (apart - self._stiffness * self._tilts[place]) / (self._stiffness + self._rows * variance)
        step = float(np.clip(step, -_LONGEST, _LONGEST))
        self._tilts[place] += step
        space.multiply(self.weights, np.exp(query * step), marginal)
        self.weights /= self.weights.sum()
        return step

"""MWEM as printed: multiplicative weights with the exponential mechanism, started from a prediction: `engine="mwem"`.

Use `SyntheticTable(engine="auto")` instead, or "queries" for linear queries: as published it often returns little more
than the prediction. Algorithm 2 of Khodak, Amin, Dick and Vassilvitskii (2023) after Hardt, Ligett and McSherry (2012),
with each weight vector normalised, and the sensitivity taken from the class of queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.synthesis.selection import AnsweredQuery, QuerySpace
from sidelight.synthesis.single_queries import SingleQueryPlan
from sidelight.synthesis.spaces import Floats


@dataclass(frozen=True, kw_only=True)
class MWEMPlan(SingleQueryPlan):
    """The plan of a release by MWEM: ε_s = ε/(2m) for each selection, Laplace noise 2mΔ/ε in pure privacy.

    Guarantee: as for `SingleQueryPlan`; without `rounds` there is one for each column of the workload.

    Args:
        sensitivity: "class" takes Δ from the declared bounds of the queries: 1 for counting queries; "printed" takes
            that of queries in [-1, 1] for all, which for counting queries under replacement is twice too noisy.
    """

    sensitivity: Literal["class", "printed"] = "class"

    def __post_init__(self) -> None:
        if self.sensitivity not in ("class", "printed"):
            raise RangeError(f"sensitivity must be 'class' or 'printed', got {self.sensitivity!r}")
        super().__post_init__()

    @cached_property
    def query_sensitivity(self) -> Fraction:
        """Δ: how far one unit moves any query of the class."""
        if self.sensitivity == "printed":
            return self.protection.query_sensitivity((-1, 1))
        return super().query_sensitivity

    def for_rows(self, rows: float) -> MWEMPlan:
        """Keep the number of rounds."""
        del rows
        return self

    def start(self, queries: QuerySpace, weights: Floats, *, rows: float) -> PrintedSteps:
        """Return the printed update."""
        return PrintedSteps(queries, weights, rows=rows)

    def open_places(self, answered: Sequence[AnsweredQuery], fitted: Floats) -> Any:
        """Return all queries, whatever was answered."""
        del answered
        return np.arange(len(fitted))


class PrintedSteps:
    """The printed update after each round, and the average of the weights before each."""

    def __init__(self, queries: QuerySpace, weights: Floats, *, rows: float) -> None:
        self.weights = weights
        self._queries, self._rows = queries, rows
        self._total = np.zeros_like(weights)

    def learn(self, answer: AnsweredQuery) -> None:
        """Multiply the weights by exp(q (y - N⟨q, w⟩)/(2N)) and normalise."""
        self._total += self.weights
        apart = answer.value - self._rows * self._queries.answer(self.weights, answer)
        self._queries.tilt(self.weights, answer, float(np.clip(apart / (2 * self._rows), -700.0, 700.0)))

    def finish(self) -> Floats:
        """Return what is released."""
        return np.asarray(self._total / self._total.sum())

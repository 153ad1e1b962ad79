"""Learning a prediction along a sequence of data sets: free from what was released, or paid, by private FTRL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any

import numpy as np

from sidelight.covariance.denoise import Floats
from sidelight.covariance.predicted import PredictedMatrix
from sidelight.covariance.prepared import effective_scale
from sidelight.covariance.projection import nearest_covariance
from sidelight.covariance.released import read_release
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Unit
from sidelight.guarantees.claims import Neighbours, Row
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.noise import Source
from sidelight.predictions.learning.euclidean import Ball, Euclidean
from sidelight.predictions.learning.ftrl import DPFTRL, FTRLRun
from sidelight.predictions.learning.regulariser import Regulariser
from sidelight.predictions.learning.schatten import Schatten
from sidelight.predictions.origin import guess, released
from sidelight.release import Release

#: The comparator's trace norm of the regret bound: two matrices of trace 1 at most.
_TRACE_NORM = 2.0


def learned_prediction(releases: Iterable[Release]) -> PredictedMatrix:
    """Average earlier covariance releases, the more precise ones more, as the prediction of the next.

    Guarantee: free, because the releases were paid for. Accuracy: the unshrunk matrices enter, each with weight 1/σ²;
    shrunk ones would carry the old predictions along as if they were data.

    >>> from sidelight.covariance import Covariance
    >>> rows = np.random.default_rng(0).normal(size=(5000, 3)) * 0.3
    >>> days = [Covariance(radius=1, rho="0.1").release(rows) for _ in range(3)]
    >>> better = Covariance(radius=1, rho="0.1", prediction=learned_prediction(days)).release(rows)
    """
    given = list(releases)
    if not given:
        raise RangeError("a prediction is learned from at least one release, got none; start without a prediction")
    parts = [read_release(each) for each in given]
    if len({part.noisy.shape for part in parts}) > 1:
        raise RangeError("the releases have matrices of different sizes; learn from releases of the same columns")
    weights = [effective_scale(part.noise_scale, part.noise, len(part.noisy)) ** -2 for part in parts]
    mean = sum(weight * part.noisy for weight, part in zip(weights, parts, strict=True)) / sum(weights)
    entries = [each.circumstances.entry_id for each in given if each.circumstances.entry_id is not None]
    origin = released(entries) if entries else guess("the average of earlier releases, which no ledger names")
    return PredictedMatrix(nearest_covariance(mean), origin)


class SequencePrediction:
    """The free learner as a running average: `prediction` before a release, `learn` after it.

    >>> sequence = SequencePrediction()
    >>> sequence.prediction is None
    True
    """

    def __init__(self) -> None:
        self._releases: list[Release] = []

    @property
    def prediction(self) -> PredictedMatrix | None:
        """What to pass to the next query; None before the first release."""
        return learned_prediction(self._releases) if self._releases else None

    def learn(self, release: Release) -> None:
        """Take a release into the average."""
        read_release(release)
        self._releases.append(release)


@dataclass(frozen=True, kw_only=True)
class SchattenLearner:
    """Learn the prediction of a sequence of second-moment matrices by private FTRL in the trace norm.

    Guarantee: `claims` for everything that is ever predicted, for neighbours that replace one whole data set. A
    subgradient of ‖C - W‖_tr has Frobenius norm at most √d, so replacing a data set moves it by at most 2√d, which is
    attained; √d of the literature is half of what is needed (covariance proof page).

    Accuracy: needs many more data sets than d/ε; below, `learned_prediction` is better, and free.

    Args:
        columns: d.
        steps: How many data sets are learned from, at most.
        radius: Of the rows: matrices have a trace of at most radius².
        rho: The cost of the whole sequence.
        unit: Whose data a data set is.
    """

    columns: int
    steps: int
    rho: Amount
    radius: float = 1.0
    unit: Unit = field(default_factory=Row)

    def __post_init__(self) -> None:
        if isinstance(self.columns, bool) or not isinstance(self.columns, int) or self.columns < 1:
            raise RangeError(f"columns must be a whole number of at least 1, got {self.columns!r}")
        if not self.radius > 0:
            raise RangeError(f"radius must be positive, got {self.radius}")
        _ = self.ftrl

    @cached_property
    def regulariser(self) -> Regulariser:
        """Schatten-p from three columns on; below, p would be 2 and the geometry Euclidean."""
        if self.columns >= 3:
            return Schatten(rows=self.columns, trace_norm=_TRACE_NORM)
        start = np.zeros((self.columns, self.columns))
        return Euclidean(start=start, domain=Ball(start, _TRACE_NORM))

    @cached_property
    def ftrl(self) -> DPFTRL:
        """The plan of the whole sequence."""
        norm = Fraction(isqrt(self.columns * 10**24) + 1, 10**12)  # √d, rounded up
        sums = PrefixSums(
            steps=self.steps,
            size=self.regulariser.size,
            norm_bound=norm,
            rho=self.rho,
            neighbours=Neighbours.REPLACE,
            unit=self.unit,
        )
        return DPFTRL(regulariser=self.regulariser, sums=sums, lipschitz=1.0)

    @property
    def claims(self) -> Claims:
        """What the whole sequence costs."""
        return self.ftrl.claims

    def start(self) -> SchattenRun:
        """Begin one sequence."""
        return SchattenRun(self)


class SchattenRun:
    """One sequence: predict, look at the next data set's matrix, learn."""

    def __init__(self, plan: SchattenLearner) -> None:
        self.plan = plan
        self._run: FTRLRun = plan.ftrl.start()

    @property
    def prediction(self) -> Floats:
        """The matrix to predict now, positive semidefinite with a trace of at most radius²; private by the claims."""
        return nearest_covariance(self._run.parameters, largest_trace=1.0) * self.plan.radius**2

    def learn(self, matrix: Any, *, source: Source) -> Floats:
        """Take the exact second-moment matrix of the next data set; return the next prediction."""
        given = np.asarray(matrix, np.float64) / self.plan.radius**2
        self._run.learn(trace_norm_gradient(given - self._run.parameters), source=source)
        return self.prediction


def trace_norm_gradient(difference: Floats) -> Floats:
    """Return the subgradient -U sign(Λ) Uᵀ of W ↦ ‖C - W‖_tr, with sign(0) = 0."""
    values, vectors = np.linalg.eigh(difference)
    return np.asarray(-(vectors * np.sign(values)) @ vectors.T)

"""Learning a prediction along a sequence of data sets, free, from what was released."""

from __future__ import annotations

from collections.abc import Iterable

from sidelight.covariance.predicted import PredictedMatrix
from sidelight.covariance.projection import nearest_covariance
from sidelight.covariance.released import read_release
from sidelight.errors import RangeError
from sidelight.mechanisms.noisy_moments import effective_scale
from sidelight.predictions.origin import guess, released
from sidelight.release import Release


def learned_prediction(releases: Iterable[Release]) -> PredictedMatrix:
    """Average earlier covariance releases, the more precise ones more, as the prediction of the next.

    Guarantee: free, because the releases were paid for. Accuracy: the unshrunk matrices enter, each with weight 1/σ²;
    shrunk ones would carry the old predictions along as if they were data.

    >>> import numpy as np
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

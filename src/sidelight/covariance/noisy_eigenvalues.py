"""The eigenvalues of a second moment minus a prediction, released by themselves.

Sorted eigenvalues move by no more than the matrix: by its trace norm in l1 (Lidskii), by its Frobenius norm in l2
(Hoffman and Wielandt). They are put on the integers before integer noise is added, which costs one step an eigenvalue.
What keeps them idealized is that floats compute them (covariance proof page, Theorem 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT, Bounded
from sidelight.aggregates.moments import Moments
from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source

Floats = NDArray[np.float64]

#: Below this, rows · W is held by int64, and its difference to a statistic (at most 2**62) too.
_IN_INT64 = 2.0**61


def in_steps(moments: Moments, prediction: Floats, *, rows: float) -> NDArray[Any]:
    """Return rows · W in the units of the second moment, in integers: what is subtracted from it. Symmetrised.

    No entry of the second moment of a row exceeds radius²; entries of W that do are cut there. W and `rows` are public
    or were released, so that any integers may stand for them.
    """
    guess = np.asarray(prediction, np.float64)
    if guess.shape != moments.second.shape:
        raise RangeError(f"a prediction must have the shape {moments.second.shape}, got {guess.shape}")
    if not np.isfinite(guess).all():
        raise RangeError("a prediction must hold finite numbers")
    largest = float(moments.scale * moments.levels) ** 2
    guess = np.clip(guess, -largest, largest)
    steps = np.rint((guess + guess.T) * (0.5 * max(rows, 1.0) / float(moments.scale) ** 2))
    if max(rows, 1.0) * moments.levels**2 < _IN_INT64:
        return np.asarray(steps.astype(np.int64))
    return np.array([int(step) for step in steps.ravel().tolist()], object).reshape(steps.shape)


def difference(moments: Moments, prediction: Floats, *, rows: float) -> Floats:
    """Return the private matrix S - rows·W in steps, as floats.

    The difference is taken in integers, where it moves exactly as far as S does from one data set to its neighbour. Its
    floats are off by a relative 2**-53 of a number of at most about 2 rows · levels²: for fewer than 2**24 rows by
    nothing, and for n rows by less than n · 2**-51 of the sensitivity, which "idealized" covers, whatever W is.
    """
    assert not isinstance(moments.second.value, int)
    steps = in_steps(moments, prediction, rows=rows)
    whole = moments.second.value - steps if steps.dtype == np.int64 else moments.second.value.astype(object) - steps
    return np.asarray(whole.astype(np.float64))


def on_integers(moments: Moments, values: Floats, *, pure: bool) -> Bounded:
    """Round eigenvalues to integers, with their sensitivity: in l1 for pure noise, in l2 for Gaussian noise.

    Rounding is monotone, so sorted values stay sorted, and each moves by less than one step more.
    """
    count = values.size
    limited = np.clip(values, -float(VALUE_LIMIT), float(VALUE_LIMIT) * (1 - 2.0**-50))
    whole = np.rint(limited).astype(np.int64)
    if pure:
        statistic = moments.second_in_trace
        return Bounded(whole, statistic.sensitivity + count, "l1", statistic.neighbours, statistic.unit)
    statistic = moments.second
    return Bounded(
        whole, statistic.sensitivity + Fraction(isqrt(count) + 1), "l2", statistic.neighbours, statistic.unit
    )


@dataclass(frozen=True, eq=False)
class EigenvalueNoise:
    """Integer noise on sorted private eigenvalues, in steps, in the order given: the caller says what is paired.

    Guarantee: `claims`, idealized: the noise is exact, the eigenvalues are not.
    """

    noise: Noise

    @property
    def claims(self) -> Claims:
        """What `release` proves."""
        return self.noise.claims.with_numerics("idealized")

    def release(self, source: Source) -> Floats:
        """Return the eigenvalues with fresh noise, as floats."""
        source.note_idealized()
        return np.asarray(self.noise.release(source)).astype(np.float64)


def eigenvalue_noise(moments: Moments, budget: Budget, values: Floats | None = None) -> EigenvalueNoise:
    """Return Laplace noise of scale Δ_tr/ε, or Gaussian noise of deviation Δ_F/√(2ρ), for eigenvalues of the moments.

    Without `values` it is that of as many as the matrix has, whose claims need the public parts of the moments only.
    """
    given = np.zeros(moments.second.shape[0]) if values is None else values
    return EigenvalueNoise(budget.on(on_integers(moments, given, pure=budget.is_pure)))

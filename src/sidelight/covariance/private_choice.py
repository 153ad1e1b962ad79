"""The paid choice between predictions: which one is nearest to the private second moment in trace norm.

For methods that cannot use all predictions at once; with the default method the choice is free. Corollaries 5.3 and B.2
of Khodak et al. (2023), with the sensitivity 2/n instead of 4/n (covariance proof page, Theorem 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.moments import Moments
from sidelight.covariance.eigenvector_methods import difference
from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source

Floats = NDArray[np.float64]
Form = Literal["exponential", "threshold"]

#: Scores are put on a grid of so many steps to the trace-norm sensitivity; rounding them costs two steps.
_STEPS = 1 << 20
_LARGEST_SCORE = 2.0**61


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How a choice is made: public.

    `form` is "exponential" (the exponential mechanism), or "threshold" for one prediction against 0 as printed: noise
    on the difference of the two distances. `shift_invariant` compares distances up to a multiple of the identity, which
    is what `separate` pays for; its sensitivity is up to twice as large.
    """

    form: Form = "exponential"
    shift_invariant: bool = False

    def __post_init__(self) -> None:
        if self.form not in ("exponential", "threshold"):
            raise RangeError(f"form must be 'exponential' or 'threshold', got {self.form!r}")

    def check(self, candidates: int) -> None:
        """Refuse a number of candidates, the zero matrix among them, that cannot be chosen from: ask first."""
        if candidates < 2:
            raise RangeError(f"a choice needs at least two predictions, got {candidates}; the zero matrix is one")
        if candidates > 2 and self.form != "exponential":
            raise RangeError("the threshold form compares one prediction with 0; use form='exponential'")


def use_prediction(
    moments: Moments,
    *,
    rows: float,
    prediction: Floats,
    budget: Budget,
    choice: Choice | None = None,
    source: Source,
) -> bool:
    """Return, privately, whether a prediction is nearer than 0.

    Guarantee: `choice_claims` of the same arguments, idealized: eigenvalues are computed in floats. The score
    T = ‖S - n̂W‖_tr - tr S moves by at most 2 radius² a row, for adding, removing and replacing one; compared up to
    multiples of the identity it moves by twice the sensitivity in trace norm.
    """
    how = choice or Choice()
    source.note_idealized()
    scores = _distances(moments, [prediction, np.zeros(moments.second.shape)], rows=rows, how=how)
    score = int(scores[0]) - int(scores[1])
    if how.form == "exponential":
        pair = replace(_threshold(moments, how, value=0), value=np.array([-score, 0]))
        return choose(pair, spread=budget.spread, apart=1, source=source, numerics="idealized") == 0
    return int(budget.on(_threshold(moments, how, value=score)).release(source)) <= 0


def choose_prediction(
    moments: Moments,
    *,
    rows: float,
    predictions: Sequence[Floats],
    budget: Budget,
    choice: Choice | None = None,
    source: Source,
) -> int:
    """Return privately the place of a prediction that is among the nearest, by the exponential mechanism.

    Guarantee: `choice_claims(..., candidates=len(predictions))`: every distance moves by at most the sensitivity in
    trace norm, either way, so their differences by twice that. Add a matrix of zeros for "no prediction".
    """
    how = choice or Choice()
    how.check(len(predictions))
    if how.form != "exponential":
        raise RangeError("the threshold form is `use_prediction`; use form='exponential'")
    source.note_idealized()
    scores = _distances(moments, predictions, rows=rows, how=how)
    second = moments.second
    apart = Bounded(-scores, _steps_apart(moments, how, pair=False), "linf", second.neighbours, second.unit)
    return choose(apart, spread=budget.spread, apart=1, source=source, numerics="idealized")


def choice_claims(moments: Moments, *, budget: Budget, choice: Choice | None = None) -> Claims:
    """Return what `use_prediction` and `choose_prediction` prove; needs the public parts of the moments only."""
    how = choice or Choice()
    if how.form == "exponential":
        second = moments.second
        return budget.selection_claims(neighbours=second.neighbours, unit=second.unit, numerics="idealized")
    return budget.on(_threshold(moments, how, value=0)).claims.with_numerics("idealized")


def _distances(moments: Moments, predictions: Sequence[Floats], *, rows: float, how: Choice) -> NDArray[np.int64]:
    """Return the distances in 1/2**20 of the trace-norm sensitivity, as integers."""
    found = []
    for prediction in predictions:
        values = np.linalg.eigvalsh(difference(moments, prediction, rows=rows))
        centred = values - np.median(values) if how.shift_invariant else values  # the median is the best multiple
        found.append(float(np.abs(centred).sum()))
    steps = np.array(found) * (_STEPS / float(moments.second_in_trace.sensitivity))
    return np.rint(np.minimum(steps, _LARGEST_SCORE)).astype(np.int64)


def _steps_apart(moments: Moments, how: Choice, *, pair: bool) -> Fraction:
    """Return how far neighbours move the difference of two distances, in steps of the grid, rounding included."""
    trace = moments.second_in_trace.sensitivity
    furthest = 2 * trace
    if pair and not how.shift_invariant:
        # T falls when a row is added, by at most 2, and rises when one is removed: a replacement moves it by 2, too
        furthest = min(furthest, Fraction(2 * moments.rows_per_unit * moments.levels**2))
    return furthest / trace * _STEPS + 2


def _threshold(moments: Moments, how: Choice, *, value: int) -> Bounded:
    second = moments.second
    return Bounded(value, _steps_apart(moments, how, pair=True), "l1", second.neighbours, second.unit)

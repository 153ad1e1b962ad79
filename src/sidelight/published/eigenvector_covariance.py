"""Covariance methods "separate" and "ies": eigenvalues and eigenvectors of S - n·W released one by one.

Use `Covariance(method="denoise")` instead: one matrix with the whole budget was better in every experiment, and
chooses between predictions for free.

"separate" is SeparateCov, after Dong, Liang and Yi (2022) and Khodak, Amin, Dick and Vassilvitskii (2023), Algorithms 1
and 6, with shaped noise: half the variance off the diagonal, and two-sided Wishart noise for pure privacy. "ies" draws
eigenvectors one by one by the exponential mechanism, after Amin, Dick, Kulesza, Muñoz Medina and Vassilvitskii (2019)
and Algorithm 7 of Khodak et al. (2023); pure privacy only.

Sorted eigenvalues move by no more than the matrix: by its trace norm in l1 (Lidskii), by its Frobenius norm in l2
(Hoffman and Wielandt). They are put on the integers before integer noise is added, which costs one step an eigenvalue.
What keeps them idealized is that floats compute them (covariance proof page, Theorem 4).

The paid choice between predictions takes the one nearest in trace norm: Corollaries 5.3 and B.2 of Khodak et al.
(2023), with the sensitivity 2/n instead of 4/n (covariance proof page, Theorem 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT, Bounded
from sidelight.aggregates.moments import Moments
from sidelight.covariance.plan import Choice, CovariancePlan
from sidelight.covariance.query import Covariance, PreparedCovariance
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, Context, PureDP
from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget, together
from sidelight.mechanisms.exponential import bingham, choose
from sidelight.mechanisms.noisy_moments import MatrixLaw, matrix_noise
from sidelight.mechanisms.price import selection_price
from sidelight.noise import Source
from sidelight.session import Answer

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

    The difference is taken in integers, where it moves exactly as far as S does between neighbours. Its floats are off
    by nothing for fewer than 2**24 rows, and for n rows by less than n · 2**-51 of the sensitivity, whatever W is.
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
    """Integer noise on sorted private eigenvalues, in steps, in the order given; idealized, as the eigenvalues are."""

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


@dataclass(frozen=True, eq=False)
class Separated:
    """The estimate for one row's second moment, the noisy sum that gave its eigenvectors, and that one's deviation."""

    matrix: Floats
    noisy: Floats
    noise_scale: float


def separate(
    moments: Moments,
    *,
    rows: float,
    prediction: Floats,
    budget: Budget,
    law: MatrixLaw | None = None,
    source: Source,
) -> Separated:
    """Estimate the second moment of a row: noisy eigenvalues of S - n̂W on the eigenvectors of S - n̂W + Z.

    Guarantee: `separate_claims` of the same arguments, for the neighbours of the moments; idealized, because
    eigenvalues are computed in floats (covariance proof page, Theorem 4). Whatever the prediction is. `rows` is public,
    or a noisy count that was released before.

    Accuracy: ‖Ĉ - C‖_F² <= 5 (‖z‖² + ‖Z‖_op · min over c of ‖C - W - cI‖_tr); adding a multiple of the identity to W
    changes nothing.
    """
    half = budget.part(Fraction(1, 2))
    divisor = max(rows, 1.0)
    private = np.asarray(np.linalg.eigvalsh(difference(moments, prediction, rows=divisor)), np.float64)
    released = eigenvalue_noise(moments, half, private).release(source)
    noise = matrix_noise(moments, half, law)
    noisy = noise.release(source)
    unit = float(moments.scale) ** 2
    subtracted = in_steps(moments, prediction, rows=divisor).astype(np.float64)
    vectors = np.linalg.eigh(noisy / unit - subtracted)[1]
    matrix = paired(released * (unit / divisor), vectors) + subtracted * (unit / divisor)
    return Separated(matrix, noisy, noise.deviation)


def paired(values: Floats, vectors: Floats) -> Floats:
    """Return U diag(values) Uᵀ: both ascending, so that ranks meet."""
    return np.asarray((vectors * values) @ vectors.T)


def separate_claims(moments: Moments, *, budget: Budget, law: MatrixLaw | None = None) -> Claims:
    """Return what `separate` proves; needs the public parts of the moments only."""
    half = budget.part(Fraction(1, 2))
    matrix = matrix_noise(moments, half, law).claims.with_numerics("idealized")
    return together([(1, eigenvalue_noise(moments, half).claims), (1, matrix)])


#: Shares of the draws are floats; so much is left unspent that their rounded sum stays within the budget.
_UNSPENT = 1.0 - 2.0**-40


def sample_eigenvectors(moments: Moments, *, rows: float, prediction: Floats, budget: Budget, source: Source) -> Floats:
    """Estimate the second moment of a row from noisy eigenvalues and sampled eigenvectors.

    Guarantee: PureDP of the budget for the neighbours of the moments, idealized (covariance proof page, Theorem 6):
    half for the eigenvalues, half for the draws, whose shares depend on the noisy eigenvalues only.
    """
    sampling_claims(moments, budget=budget)
    divisor = max(rows, 1.0)
    private = difference(moments, prediction, rows=divisor)
    estimate = _drawn(moments, private, budget, source)
    subtracted = in_steps(moments, prediction, rows=divisor).astype(np.float64)
    return np.asarray((subtracted + estimate) * (float(moments.scale) ** 2 / divisor))


def sampling_claims(moments: Moments, *, budget: Budget) -> Claims:
    """Return what `sample_eigenvectors` proves; needs the public parts of the moments only."""
    if not budget.is_pure:
        raise RangeError("eigenvectors are sampled for a pure price only: epsilon without delta")
    _ = eigenvalue_noise(moments, budget).claims
    statistic = moments.second
    return Claims.of(PureDP(budget.amount, neighbours=statistic.neighbours, unit=statistic.unit, numerics="idealized"))


def _drawn(moments: Moments, private: Floats, budget: Budget, source: Source) -> Floats:
    """Sample from the difference to the prediction itself, the most important eigenvalue first."""
    size = len(private)
    # one eigenvalue has one eigenvector: nothing is left to draw, and the eigenvalue takes the whole budget
    for_values = budget.part(Fraction(1, 2)) if size > 1 else budget
    values = np.asarray(np.linalg.eigvalsh(private)[::-1], np.float64)
    noisy = np.sort(eigenvalue_noise(moments, for_values, values).release(source))[::-1]
    middle = float(np.median(noisy))
    left = noisy - middle
    sensitivity = float(moments.second_in_trace.sensitivity)
    order = picks(left)
    prices = np.sqrt(np.abs(left[[place for place, _ in order[:-1]]]) + sensitivity / float(for_values.amount))
    prices *= float(budget.amount - for_values.amount) / max(prices.sum(), 1e-300) * _UNSPENT
    basis, estimate = np.eye(size), middle * np.eye(size)
    second = moments.second
    context: Context = {"neighbours": second.neighbours, "unit": second.unit, "numerics": "idealized"}
    for (place, sign), price in zip(order, [*prices, 0.0], strict=True):
        # uᵀ(A - A')u has a range of at most the trace norm of A - A'
        with (
            source.paying(selection_price(Fraction(price), "an eigenvector", **context))
            if price
            else source.free("the last direction, which is decided by the others")
        ):
            direction = bingham(sign * price / sensitivity * (basis.T @ private @ basis), source)
        vector = basis @ direction
        estimate += left[place] * np.outer(vector, vector)
        basis = basis @ complement(direction)
    return estimate


def picks(values: Floats) -> list[tuple[int, float]]:
    """Order descending values: again and again the top (+1) or the bottom (-1) one, whichever is larger in size."""
    top, bottom = 0, len(values) - 1
    order = []
    while top <= bottom:
        if abs(values[top]) >= abs(values[bottom]):
            order.append((top, 1.0))
            top += 1
        else:
            order.append((bottom, -1.0))
            bottom -= 1
    return order


def complement(direction: Floats) -> Floats:
    """Return an orthonormal basis of what is orthogonal to a unit vector, as columns."""
    return np.asarray(np.linalg.qr(direction[:, None], mode="complete")[0][:, 1:])


#: Scores are put on a grid of this many steps to the trace-norm sensitivity; rounding them costs two steps.
_STEPS = 1 << 20
_LARGEST_SCORE = 2.0**61


def use_prediction(
    moments: Moments, *, rows: float, prediction: Floats, budget: Budget, choice: Choice | None = None, source: Source
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


def check(query: Covariance) -> None:
    """Refuse arguments that these methods cannot use."""
    if query.method == "ies" and not query.budget.is_pure:
        raise RangeError("method 'ies' has a pure price only: epsilon without delta; 'separate' takes rho")
    if query.choice is None and len(query.prediction) > 1:
        raise RangeError(
            f"method {query.method!r} uses one prediction, got {len(query.prediction)}; pass choice=Choice()"
        )


def claims(plan: CovariancePlan, moments: Moments) -> list[Claims]:
    """Return what the matrix and the choice prove; needs the public parts of the moments only."""
    budget = plan.parts["matrix"]
    if plan.method == "ies":
        found = [sampling_claims(moments, budget=budget)]
    else:
        found = [separate_claims(moments, budget=budget, law=plan.noise)]
    if plan.choice is not None:
        found.append(choice_claims(moments, budget=plan.parts["choice"], choice=plan.choice))
    return found


def answer(
    prepared: PreparedCovariance, moments: Moments, *, rows: float, mean: Floats | None, source: Source
) -> Answer:
    """Release by the exact difference to one prediction, chosen privately if the query says so."""
    plan, divisor = prepared.plan, prepared.plan.divisor(rows)
    size = len(prepared.labels)
    middle = np.zeros((size, size)) if mean is None else np.outer(mean, mean)
    candidates = [each.matrix + middle for each in plan.predictions] or [middle]
    place = 0 if plan.choice is None else _chosen(plan, moments, candidates, rows=divisor, source=source)
    guess = candidates[place] if place < len(candidates) else middle
    shared: dict[str, Any] = {"budget": plan.parts["matrix"], "rows": divisor, "prediction": guess, "source": source}
    noisy, scale = None, None
    if plan.method == "ies":
        matrix = sample_eigenvectors(moments, **shared)
    else:
        found = separate(moments, **shared, law=plan.noise)
        matrix, noisy, scale = found.matrix, found.noisy / divisor - middle, found.noise_scale / divisor
    matrix = matrix - middle
    matrix = prepared.projected((matrix + matrix.T) / 2)
    value = prepared.value(matrix, noisy=noisy, noise_scale=scale, rows=rows, mean=mean)
    if plan.choice is not None:
        value["chosen"] = place if place < len(plan.predictions) else None
    return Answer(value=value, labels=prepared.labels)


def _chosen(plan: CovariancePlan, moments: Moments, candidates: list[Floats], *, rows: float, source: Source) -> int:
    """Return the place of the privately chosen prediction; one beyond the last for none of them."""
    how: dict[str, Any] = {"budget": plan.parts["choice"], "choice": plan.choice, "rows": rows, "source": source}
    if len(candidates) > 1:
        return choose_prediction(moments, predictions=[*candidates, np.zeros_like(candidates[0])], **how)
    if not candidates[0].any():
        return 0
    return 0 if use_prediction(moments, prediction=candidates[0], **how) else 1

"""Iterative eigenvector sampling with a prediction: eigenvectors drawn one by one by the exponential mechanism.

After Amin, Dick, Kulesza, Muñoz Medina and Vassilvitskii (2019) and Algorithm 7 of Khodak et al. (2023). Two forms.
"direct" samples from the difference to the prediction itself, most important eigenvalue first. "printed" samples from
its positive and its negative part, as printed, with the coefficients that its proof allows. Pure privacy only; for
comparison: two-sided Wishart noise beat both in every experiment.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.moments import Moments
from sidelight.covariance.noisy_eigenvalues import difference, eigenvalue_noise, in_steps
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, PureDP
from sidelight.mechanisms.bingham import bingham
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source

Floats = NDArray[np.float64]
Form = Literal["direct", "printed"]

#: Shares of the draws are floats; so much is left unspent that their rounded sum stays within the budget.
_UNSPENT = 1.0 - 2.0**-40


def sample_eigenvectors(
    moments: Moments,
    *,
    rows: float,
    prediction: Floats,
    budget: Budget,
    form: Form = "direct",
    source: Source,
) -> Floats:
    """Estimate the second moment of a row from noisy eigenvalues and sampled eigenvectors.

    Guarantee: PureDP of the budget for the neighbours of the moments, idealized (covariance proof page, Theorem 6):
    half for the eigenvalues, half for the draws, whose shares depend on the noisy eigenvalues only.

    Args:
        moments: of the clipped rows.
        rows: the public number of rows, or a noisy count that was released (and paid for) before.
        prediction: W, the guess of the second moment of one row; symmetrised, and entries beyond radius² are cut.
        budget: a pure one.
        form: "direct", or "printed" as in the paper.
        source: of the noise.
    """
    sampling_claims(moments, budget=budget, form=form)
    divisor = max(rows, 1.0)
    private = difference(moments, prediction, rows=divisor)
    if form == "direct":
        estimate = _direct(moments, private, budget, source)
    else:
        estimate = _printed(moments, private, budget, source)
    subtracted = in_steps(moments, prediction, rows=divisor).astype(np.float64)
    return np.asarray((subtracted + estimate) * (float(moments.scale) ** 2 / divisor))


def sampling_claims(moments: Moments, *, budget: Budget, form: Form = "direct") -> Claims:
    """Return what `sample_eigenvectors` proves; needs the public parts of the moments only."""
    if form not in ("direct", "printed"):
        raise RangeError(f"form must be 'direct' or 'printed', got {form!r}")
    if not budget.is_pure:
        raise RangeError("eigenvectors are sampled for a pure price only: epsilon without delta")
    _ = eigenvalue_noise(moments, budget).claims
    statistic = moments.second
    return Claims.of(PureDP(budget.amount, neighbours=statistic.neighbours, unit=statistic.unit, numerics="idealized"))


def _direct(moments: Moments, private: Floats, budget: Budget, source: Source) -> Floats:
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
    for (place, sign), price in zip(order, [*prices, 0.0], strict=True):
        # uᵀ(A - A')u has a range of at most the trace norm of A - A'
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


def _printed(moments: Moments, private: Floats, budget: Budget, source: Source) -> Floats:
    """Sample the eigenvectors of the positive and of the negative part, each with its own draws.

    Both parts' eigenvalues share one budget: Σ|Δλ⁺| + Σ|Δλ⁻| = Σ|Δλ|. Projection on the cone moves no two matrices
    apart in Frobenius norm, and the range of uᵀDu is at most √2 ‖D‖_F.
    """
    size = len(private)
    values, vectors = np.linalg.eigh(private)
    parts = np.concatenate([np.maximum(values[::-1], 0.0), np.maximum(-values, 0.0)])  # each descending
    noisy = eigenvalue_noise(moments, budget.part(Fraction(1, 2)), parts).release(source).reshape(2, size)
    price = float(budget.amount) / (4 * size) * _UNSPENT
    coefficient = price / (sqrt(2) * float(moments.second.sensitivity))
    estimate = np.zeros((size, size))
    for sign, released in zip((1.0, -1.0), noisy, strict=True):
        part = (vectors * np.maximum(sign * values, 0.0)) @ vectors.T
        basis = np.eye(size)
        for value in released:
            direction = bingham(coefficient * (basis.T @ part @ basis), source)
            vector = basis @ direction
            estimate += sign * value * np.outer(vector, vector)
            basis = basis @ complement(direction)
    return estimate

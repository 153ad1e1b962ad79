"""Shrink one noisy matrix towards predictions by Stein's risk: the default method, and all of it post-processing.

Written by hand because the risk of every threshold must come out of one sorted spectrum: the pairs of eigenvalues that
a threshold separates are summed from one table of running sums, so that thirty thresholds cost little more than one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, nearest
from sidelight.mechanisms.additive import Law

Floats = NDArray[np.float64]

#: The weight of the divergence in the risk that is compared: 1 is Stein's unbiased estimate, a little more guards
#: against picking the luckiest of many. Noise that is not Gaussian gets more.
PENALTIES: dict[str, float] = {"goe": 1.1, "wishart": 1.25, "laplace": 1.25}
#: Thresholds in units of the noise's operator norm σ√(2d): 0 is the noisy matrix, infinity the prediction itself.
THRESHOLDS = (0.0, *(step / 20 for step in range(2, 31)), math.inf)
#: Eigenvalues that differ by less than this share of the noise count as equal in the divergence.
_TIED = 1e-8


@dataclass(frozen=True, kw_only=True, eq=False)
class Denoised:
    """The shrunk matrix and the public account of how it came about.

    `candidate` is the place of the prediction in the list that was given, None for the zero matrix; `shift` says
    whether a multiple of the identity was left unshrunk; `threshold` was taken off every eigenvalue of the difference,
    and the rest multiplied by `factor`; `risk` is the estimated squared Frobenius error; `moved` is the
    operator norm of what the shrinkage did to the noisy matrix, and `norm` that of the noisy matrix.
    """

    matrix: Floats
    candidate: int | None
    shift: bool
    threshold: float
    factor: float
    risk: float
    moved: float
    norm: float


@dataclass(frozen=True, kw_only=True)
class _Spectra:
    """Eigenvalues of one difference, ascending, and what the risk of all thresholds needs of their pairs."""

    values: Floats
    sums: Floats  # sums[i, k] = Σ 1/(λ_i − λ_j) over j < k, tied pairs left out
    first_tied: NDArray[np.int64]  # the first j with λ_j >= λ_i − tie
    last_tied: NDArray[np.int64]  # one after the last j with λ_j <= λ_i + tie


def denoise(
    noisy: Any,
    *,
    noise_scale: float,
    predictions: Sequence[Any] = (),
    law: Law = "goe",
    overwrite: bool = False,
) -> Denoised:
    """Shrink `noisy` = C + Z towards the prediction, threshold and factor of the smallest estimated risk.

    Guarantee: none is needed: the result is computed from a matrix that is already private and from predictions.

    Accuracy: with threshold τ >= ‖Z‖_op, factor 1 and no shift, ‖Ĉ − C‖_F² <= 2 τ ‖C − W‖_tr. The choice by estimated
    risk has no such bound, but was never measured visibly worse than the noisy matrix or than the best prediction
    (covariance proof page, Theorem 7).

    Args:
        noisy: A symmetric matrix with noise of standard deviation σ on the diagonal and σ/√2 off it.
        noise_scale: σ.
        predictions: Symmetric matrices; the zero matrix is always tried too.
        law: Of the noise; chooses the penalty against optimistic selection.
        overwrite: Use up the memory of `noisy`, which is then lost.

    >>> rng = np.random.default_rng(0)
    >>> truth, noise = np.eye(40) / 40, rng.normal(0, 0.01, (40, 40))
    >>> noisy = truth + (noise + noise.T) / 2
    >>> shrunk = denoise(noisy, noise_scale=0.01)
    >>> bool(np.linalg.norm(shrunk.matrix - truth) < 0.2 * np.linalg.norm(noisy - truth))
    True
    """
    released = np.asarray(noisy, np.float64)
    if law not in PENALTIES:
        raise RangeError(f"law must be that of the noise on a matrix, got {law!r}; {nearest(str(law), PENALTIES)}")
    if not (math.isfinite(noise_scale) and noise_scale > 0):
        raise RangeError(f"noise_scale must be a positive number, got {noise_scale}")
    size = len(released)
    limits = noise_scale * math.sqrt(2 * size) * np.asarray(THRESHOLDS, np.float64)
    best: tuple[float, int, bool, int, float, Floats] | None = None
    norm = 0.0
    # Decompositions of the eigenvalues alone first: the vectors are needed once, for the winner.
    for place in range(-1, len(predictions)):
        spectra = _spectra(eigenvalues(_difference(released, predictions, place)), noise_scale=noise_scale)
        norm = norm if place >= 0 else float(np.abs(spectra.values).max())
        for shift in (False, True):
            risks, factors = _risks(spectra, limits, noise_scale=noise_scale, penalty=PENALTIES[law], shift=shift)
            lowest = int(np.argmin(risks))
            if best is None or risks[lowest] < best[0]:
                best = (float(risks[lowest]), place, shift, lowest, float(factors[lowest]), spectra.values)
        del spectra  # as large as the matrix
    assert best is not None
    risk, place, shift, lowest, factor, values = best
    threshold = float(limits[lowest])
    difference = _difference(released, predictions, place, out=released if overwrite else None)
    return Denoised(
        matrix=_shrunk(difference, predictions, place, threshold=threshold, factor=factor, shift=shift),
        candidate=None if place < 0 else place,
        shift=shift,
        threshold=threshold,
        factor=factor,
        risk=risk,
        moved=float(np.abs(_taken_off(values, threshold=threshold, factor=factor, shift=shift)).max()),
        norm=norm,
    )


def eigenvalues(matrix: Floats) -> Floats:
    """Return the eigenvalues, ascending; the matrix is used up."""
    from scipy.linalg import eigh

    # the transpose of a symmetric matrix is itself, in the order that LAPACK takes without a copy
    return np.asarray(eigh(matrix.T, eigvals_only=True, overwrite_a=True, check_finite=False), np.float64)


def operator_norm(matrix: Floats) -> float:
    """Return the largest absolute eigenvalue; the matrix is used up."""
    return float(np.abs(eigenvalues(matrix)).max())


def eigenvectors(matrix: Floats) -> tuple[Floats, Floats]:
    """Return eigenvalues, ascending, and eigenvectors in columns; the matrix is used up, and little more memory."""
    from scipy.linalg import eigh

    values, vectors = eigh(matrix.T, overwrite_a=True, check_finite=False, driver="evr")
    return np.asarray(values, np.float64), np.asarray(vectors, np.float64)


def with_eigenvalues(vectors: Floats, values: Floats, *, out: Floats) -> Floats:
    """Write U diag(values) Uᵀ, exactly symmetric, into `out`, for ascending values; the vectors are used up."""
    from scipy.linalg.blas import dsyrk

    vectors *= np.sqrt(np.abs(values))
    below, above = int(np.searchsorted(values, 0.0, side="left")), int(np.searchsorted(values, 0.0, side="right"))
    out[...] = 0.0
    triangle = out.T
    for sign, chosen in ((-1.0, slice(0, below)), (1.0, slice(above, len(values)))):
        if chosen.stop > chosen.start:
            triangle = dsyrk(sign, vectors[:, chosen], beta=1.0, c=triangle, overwrite_c=1)
    for place in range(1, len(values)):  # dsyrk writes one triangle
        triangle[place, :place] = triangle[:place, place]
    return np.asarray(triangle.T)


def _difference(noisy: Floats, predictions: Sequence[Any], place: int, *, out: Floats | None = None) -> Floats:
    if place < 0:
        return noisy.copy() if out is None else noisy
    return np.subtract(noisy, np.asarray(predictions[place], np.float64), out=out)


def _spectra(values: Floats, *, noise_scale: float) -> _Spectra:
    tie = _TIED * (noise_scale * math.sqrt(2 * len(values)))
    sums = np.zeros((len(values), len(values) + 1))
    gaps = sums[:, 1:]  # in place: at most one more matrix
    np.subtract(values[:, None], values[None, :], out=gaps)
    with np.errstate(divide="ignore"):
        np.divide(1.0, gaps, out=gaps)
    gaps[(gaps >= 1 / tie) | (gaps <= -1 / tie)] = 0.0  # as good as equal, the diagonal among them
    np.cumsum(gaps, axis=1, out=gaps)
    return _Spectra(
        values=values,
        sums=sums,
        first_tied=np.searchsorted(values, values - tie, side="left"),
        last_tied=np.searchsorted(values, values + tie, side="right"),
    )


def _shrinkage(spectra: _Spectra, limits: Floats, *, shift: bool) -> tuple[Floats, Floats, Floats]:
    """Return the (centred) eigenvalues, their soft-thresholded values by limit, and the divergence by limit."""
    size = len(spectra.values)
    centre = spectra.values.mean() if shift else 0.0
    values = spectra.values - centre
    kept = np.sign(values) * np.maximum(np.abs(values) - limits[:, None], 0.0)
    kept[np.isinf(limits)] = 0.0  # 0 * (inf - inf) aside
    divergence = np.empty(len(limits))
    for row, limit in enumerate(limits.tolist()):
        below = int(np.searchsorted(values, -limit, side="left"))  # λ < −τ
        above = int(np.searchsorted(values, limit, side="right"))  # λ > τ starts here
        divergence[row] = _divergence(spectra, values, limit, below, above, size)
        if shift:
            divergence[row] -= (below + size - above) / size
    return values, kept, divergence


def _divergence(spectra: _Spectra, values: Floats, limit: float, below: int, above: int, size: int) -> float:
    """Return Σ f'_i + Σ_{i<j} (s_i − s_j)/(λ_i − λ_j) of soft thresholding, for sorted eigenvalues.

    Two eigenvalues on the same side contribute 1, two inside 0. One outside and one inside: |s_i|/|λ_i − λ_j|; on two
    sides: 1 − 2τ/(λ_i − λ_j). A tie across the threshold counts as one half, the mean of the derivatives.
    """
    lower, upper = below, size - above
    total = lower + upper + lower * (lower - 1) / 2 + upper * (upper - 1) / 2
    if upper:
        rows = slice(above, size)
        inside = spectra.sums[rows, above] - spectra.sums[rows, below]
        total += float((values[rows] - limit) @ inside)
        total += 0.5 * float(np.clip(above - np.maximum(spectra.first_tied[rows], below), 0, None).sum())
    if lower:
        rows = slice(0, below)
        inside = spectra.sums[rows, above] - spectra.sums[rows, below]
        total += float((values[rows] + limit) @ inside)
        total += 0.5 * float(np.clip(np.minimum(spectra.last_tied[rows], above) - below, 0, None).sum())
    if lower and upper:
        total += lower * upper - 2 * limit * float(spectra.sums[above:size, below].sum())
    return total


def _risks(
    spectra: _Spectra, limits: Floats, *, noise_scale: float, penalty: float, shift: bool
) -> tuple[Floats, Floats]:
    """Return the penalised risk and the best factor of every limit."""
    values, kept, divergence = _shrinkage(spectra, limits, shift=shift)
    squares = (kept**2).sum(axis=1)
    some = squares > 0
    factors = np.ones(len(limits))
    factors[some] = np.clip((kept[some] @ values - noise_scale**2 * divergence[some]) / squares[some], 0.0, 1.0)
    return _risk(values, kept, divergence, factors, noise_scale, penalty, shift=shift), factors


def _risk(
    values: Floats,
    kept: Floats,
    divergence: Floats,
    factors: Floats,
    noise_scale: float,
    penalty: float,
    *,
    shift: bool,
) -> Floats:
    size, variance = len(values), noise_scale**2
    freedom = size * (size + 1) / 2 - (1 if shift else 0)
    misfit = ((factors[:, None] * kept - values) ** 2).sum(axis=1)
    left = variance if shift else 0.0  # of the mean eigenvalue, which is not shrunk
    return np.asarray(misfit - freedom * variance + 2 * penalty * variance * factors * divergence + left)


def _taken_off(values: Floats, *, threshold: float, factor: float, shift: bool) -> Floats:
    """Return the eigenvalues of what shrinkage takes off: it has the eigenvectors of the difference."""
    centred = values - (values.mean() if shift else 0.0)
    if math.isinf(threshold) or factor == 0:
        return np.asarray(centred)
    return np.asarray(centred - factor * np.sign(centred) * np.maximum(np.abs(centred) - threshold, 0.0))


def _shrunk(
    difference: Floats, predictions: Sequence[Any], place: int, *, threshold: float, factor: float, shift: bool
) -> Floats:
    """Return W + mI + U diag(a s) Uᵀ for the chosen candidate, in the memory of the difference."""
    size = len(difference)
    mean = float(np.trace(difference)) / size if shift else 0.0
    if math.isinf(threshold) or factor == 0:
        matrix = difference
        matrix[...] = 0.0
    elif threshold == 0 and factor == 1:
        matrix = difference
        matrix[np.diag_indices(size)] -= mean
    else:
        values, vectors = eigenvectors(difference)
        values -= mean
        kept = factor * np.sign(values) * np.maximum(np.abs(values) - threshold, 0.0)
        matrix = with_eigenvalues(vectors, kept, out=difference)
    matrix[np.diag_indices(size)] += mean
    if place >= 0:
        matrix += np.asarray(predictions[place], np.float64)
    return matrix

"""The two steps of CoinPress, as arithmetic on what was released: a better centre, a better preconditioner.

Written from the mathematics (the authors' code carries no licence). Column form throughout: A acts on the left of a
row written as a column, a new factor comes on the left, and the way back is A⁻¹ Z A⁻ᵀ. Their code has the factors in
an order that is right for two steps only.
"""

from __future__ import annotations

import numpy as np

from sidelight.gaussians.constants import Constants
from sidelight.gaussians.public_rows import Floats
from sidelight.mechanisms.additive import Law
from sidelight.mechanisms.denoise import denoise

#: Eigenvalues of I - c cᵀ that re-centring may leave; a smaller one would blow up the noise.
_RECENTRED_FLOOR = 0.05
#: In whitened coordinates nothing is believed to be flatter than this.
_FLAT = 0.02


def preconditioned(
    matrix: Floats, second: Floats, *, rows: float, noise_scale: float, constants: Constants, relative: bool = False
) -> Floats:
    """Return U diag((λ + η + ν)^{-1/2}) Uᵀ A for the released mean Z of W Wᵀ, W = clip(A(x - c)).

    If A Σ Aᵀ ⪯ I before, it holds after (with the proven constants, and their probability). `relative`: η in units of
    the largest eigenvalue, for a first step whose rows may be far shorter than the length that they are clipped to.
    """
    size = len(second)
    values, vectors = np.linalg.eigh(symmetric(second))
    kept = np.maximum(values, 0.0)
    sampling = constants.sampling_error(size, rows)
    if relative:
        sampling *= float(kept[-1])
    grown = kept + sampling + constants.noise_error(size, noise_scale)
    return np.asarray((vectors / np.sqrt(grown)) @ vectors.T @ matrix)


def recentred(matrix: Floats, offset: Floats) -> Floats:
    """Return (I - c cᵀ)^{-1/2} A: the preconditioner about the mean, from that about a centre at this offset."""
    length = float(offset @ offset)
    left = max(1.0 - length, _RECENTRED_FLOOR)
    if length == 0:
        return matrix
    along = np.outer(offset, offset) / length
    return np.asarray(matrix + (1 / np.sqrt(left) - 1) * (along @ matrix))


def whitened_covariance(noisy: Floats, offset: Floats, *, rows: float, noise_scale: float, law: Law) -> Floats:
    """Shrink and floor the released second moment of whitened rows about a centre at this offset from their mean."""
    mean = symmetric(noisy / rows - np.outer(offset, offset))
    scale = noise_scale / rows
    shrunk = denoise(mean, noise_scale=scale, law=law).matrix
    values, vectors = np.linalg.eigh(symmetric(shrunk))
    return np.asarray((vectors * np.maximum(values, max(_FLAT, scale / 2))) @ vectors.T)


def mapped_back(matrix: Floats, second: Floats) -> Floats:
    """Return A⁻¹ Z A⁻ᵀ, exactly symmetric."""
    half = np.linalg.solve(matrix, second)
    return symmetric(np.linalg.solve(matrix, half.T))


def symmetric(matrix: Floats) -> Floats:
    """Return the mean of a matrix and its transpose: what rounding has left."""
    return np.asarray((matrix + matrix.T) / 2)

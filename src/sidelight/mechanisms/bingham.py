"""Draw unit vectors with density ∝ exp(uᵀMu): the exponential mechanism for directions (the Bingham law).

The rejection sampler of Kent, Ganeiban and Mardia (2018), by hand: SciPy has no Bingham law, and the one in another
library divides by the proposal's density where it must multiply, which gives a more concentrated law and, for peaked
ones, hardly ever accepts.
"""

from __future__ import annotations

from math import ceil, log, sqrt

import numpy as np
from numpy.typing import NDArray

from sidelight.noise import Source, standard_exponential, standard_normal

Floats = NDArray[np.float64]

#: A block of proposals is drawn whole, so that nearly always (all but 1e-11) one block is drawn whatever the matrix is.
_PROPOSALS_PER_ROOT = 32
#: After this many blocks without an accepted proposal (chance below e**-1000) the last proposal is returned: nothing
#: that depends on private numbers may raise.
_BLOCKS = 64
#: Directions are handed out on this grid, which hides the last bits of floats.
_GRID = 2.0**24


def bingham(matrix: Floats, source: Source) -> Floats:
    """Return a unit vector u with density ∝ exp(uᵀMu), M symmetric.

    Guarantee: if M = η·A, and uᵀ(A - A')u has range at most r over unit vectors u for neighbours A and A', then the
    draw has bounded range η·r, so it is η·r-DP (covariance proof page, Theorem 6). Idealized: floats throughout.

    Accuracy: about 1.2 √q proposals a draw for peaked laws in q dimensions, 1 for flat ones.
    """
    source.note_idealized()
    size = len(matrix)
    if size == 1:
        return np.ones(1)
    values, vectors = np.linalg.eigh(matrix)
    gaps = values[-1] - values  # λ >= 0, 0 at the mode
    width = proposal_width(gaps)
    proposals = ceil(_PROPOSALS_PER_ROOT * sqrt(size))
    point = np.zeros(size)
    for _ in range(_BLOCKS):
        points = angular_gaussian(proposals, 1.0 + 2.0 * gaps / width, source)
        accepted = np.flatnonzero(-standard_exponential(proposals, source) <= log_acceptance(points, gaps, width))
        point = points[accepted[0]] if accepted.size else points[0]
        if accepted.size:
            break
    rounded = np.rint(_GRID * (vectors @ point)) / _GRID
    return np.asarray(rounded / np.linalg.norm(rounded))


def proposal_width(gaps: Floats) -> float:
    """Return the b in [1, q] with Σ 1/(b + 2λ_i) = 1, which makes the acceptance largest; the sum falls in b."""
    low, high = 1.0, float(len(gaps))
    for _ in range(64):
        middle = (low + high) / 2
        if (1.0 / (middle + 2.0 * gaps)).sum() > 1.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def angular_gaussian(count: int, precisions: Floats, source: Source) -> Floats:
    """Return unit vectors y/‖y‖ for y with independent N(0, 1/ω_i) entries: density ∝ (Σ ω_i x_i²)^(-q/2)."""
    normals = standard_normal(count * len(precisions), source).reshape(count, -1) / np.sqrt(precisions)
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def log_acceptance(points: Floats, gaps: Floats, width: float) -> Floats:
    """Return the log of target over proposal, scaled to be at most 0: plus q/2 log, since one divides by it."""
    size = len(gaps)
    squares = points * points
    spread = squares @ (1.0 + 2.0 * gaps / width)
    peak = (size - width) / 2.0 - size / 2.0 * log(size / width)
    return np.asarray(-squares @ gaps + size / 2.0 * np.log(spread) + peak)

"""How well the covariance S of a few public rows brackets the true one: L·S ⪯ Σ ⪯ U·S with probability 1 - β.

The numbers depend on the width, the number of public rows and β only. Between d + 1 rows, where Edelman's law is exact,
and many rows, where Davidson and Szarek's bound is good, they are simulated once with a fixed seed: by the tridiagonal
form of a Wishart matrix, so that a thousand columns take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt

import numpy as np

#: The failure probability of the public bounds, where nobody asks for another.
CHANCE = 0.05
_DRAWS = 4000


@dataclass(frozen=True)
class Bracket:
    """L and U, and the squared Mahalanobis length that the offset of the public mean rarely exceeds."""

    lower: float
    upper: float
    offset: float


@lru_cache(maxsize=256)
def bracket(size: int, rows: int, chance: float = CHANCE) -> Bracket:
    """Return L, U and the squared offset for `rows` >= size + 1 public rows; all hold with probability 1 - chance.

    (Gaussians proof page, Theorem 3.) Simulated where the bound of Davidson and Szarek is weak.

    >>> found = bracket(10, 11)
    >>> round(found.lower, 6), round(found.upper)
    (0.118504, 360000)
    """
    rare = log(3 / chance)
    offset = (size + 2 * sqrt(size * rare) + 2 * rare) / rows
    if rows == size + 1:
        lower = size / (4 * size + 4 * sqrt(2 * size * rare) + 2 * rare)
        return Bracket(lower, 9 * size**2 / chance**2, offset)
    freedom = rows - 1
    spread = sqrt(size / freedom) + sqrt(2 * rare / freedom)
    if 1 - spread >= 0.5:
        return Bracket((1 + spread) ** -2, (1 - spread) ** -2, offset)
    smallest, largest = _extreme_eigenvalues(size, freedom)
    return Bracket(
        1 / float(np.quantile(largest, 1 - chance / 3)), 1 / float(np.quantile(smallest, chance / 3)), offset
    )


@dataclass(frozen=True)
class GapBounds:
    """The bracket of a public population at total-variation distance γ, in the coordinates of its rows.

    With Y = S^{-1/2}(x - c)/√L the private rows satisfy I ⪯ Σ_Y ⪯ condition·I and ‖μ_Y‖ <= mean_bound.
    """

    lower: float
    upper: float
    condition: float
    mean_bound: float


def gap_bounds(size: int, rows: int, gap: float, chance: float = CHANCE) -> GapBounds:
    """Return the bounds for a gap 0 <= γ < 1 (Gaussians proof page, Theorem 4).

    >>> found = gap_bounds(10, 11, 0.5)
    >>> round(found.lower, 8), round(found.upper), round(found.mean_bound, 1)
    (0.00185163, 23040000, 210588.7)
    """
    base = bracket(size, rows, chance)
    ratio = 4 / (1 - gap) ** 4 if gap > 0 else 1.0
    lower, upper = base.lower / ratio, base.upper * ratio
    apart = 2 * sqrt((1 + ratio) * log(1 / (1 - gap))) if gap > 0 else 0.0
    mean_bound = sqrt(base.upper / lower) * (sqrt(base.offset) + apart)
    return GapBounds(lower, upper, upper / lower, mean_bound)


@lru_cache(maxsize=64)
def _extreme_eigenvalues(size: int, freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate the smallest and largest eigenvalue of Wishart(freedom)/freedom matrices.

    A Gaussian matrix is orthogonally equivalent to a bidiagonal one of independent chi variables (Dumitriu, Edelman).
    """
    from scipy.linalg import eigvalsh_tridiagonal

    # a constant of the method, the same in every process: no noise
    rng = np.random.default_rng((20_240_607, size, freedom))  # noqa: TID251
    diagonal = rng.chisquare(freedom - np.arange(size), (_DRAWS, size))
    below = rng.chisquare(np.arange(size - 1, 0, -1), (_DRAWS, size - 1))
    middle = diagonal.copy()
    middle[:, 1:] += below
    beside = np.sqrt(diagonal[:, :-1] * below)
    found = np.empty((_DRAWS, 2))
    for draw in range(_DRAWS):
        if size == 1:
            found[draw] = middle[draw, 0]
            continue
        for place, which in enumerate((0, size - 1)):
            found[draw, place] = eigvalsh_tridiagonal(
                middle[draw], beside[draw], select="i", select_range=(which, which), check_finite=False
            )[0]
    return found[:, 0] / freedom, found[:, 1] / freedom

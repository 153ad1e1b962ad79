"""How likely a leader loses its lead: two bounds, and the margin that makes each of them small enough.

n - 1 rivals stand at least k behind the leader. B reports follow, with independent noise N(0, η²) on each coordinate
and gains that move a rival at most cB nearer. Both bounds are functions of x = (k - cB)/(η √(2B)) alone (experts proof
page, Theorems 3 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError, nearest

Floats = NDArray[np.float64]

#: "union": Lévy's inequality for each rival, summed; closed form. "paper": the bound of the published Theorem 4.1.
Bound = Literal["union", "paper"]
BOUNDS = ("union", "paper")


def change_probability(margin: ArrayLike, *, actions: int, bound: Bound = "union") -> Floats:
    """Return the bound of the probability that the leader changes, at the margin x; 1 where x is not positive enough.

    >>> change_probability([3.529296, 5.0], actions=25).round(6).tolist()
    [0.01, 1.4e-05]
    """
    from scipy.special import ndtr

    x = np.asarray(margin, dtype=np.float64)
    if checked_bound(bound) == "union":
        return np.asarray(np.where(x > 0, np.minimum(1.0, (2 * actions - 2) * ndtr(-x)), 1.0))
    return paper_tail(x - _expected_rivals(actions))


def needed_margin(probability: ArrayLike, *, actions: int, bound: Bound = "union") -> Floats:
    """Return the smallest margin x at which the bound is at most `probability`; in closed form for "union".

    >>> needed_margin([1e-2, 1e-4, 1e-6], actions=25).round(6).tolist()
    [3.529296, 4.602891, 5.483638]
    """
    from scipy.special import ndtri

    d = np.asarray(probability, dtype=np.float64)
    if checked_bound(bound) == "union":
        return np.asarray(np.maximum(0.0, -ndtri(np.minimum(d, 1.0) / (2 * actions - 2))))
    return _expected_rivals(actions) + paper_tail_inverse(d)


def paper_tail(b: ArrayLike) -> Floats:
    """Return 2 Φ(-√2 b) + 2 √π φ(b) [Φ(b) - Φ(-b)] for b > 0, else 1: Theorem 4.1, its lost factor 2 restored.

    >>> paper_tail([0.5, 1, 2, 3]).round(8).tolist()
    [0.95740539, 0.7428856, 0.1873623, 0.01569017]
    """
    from scipy.special import erf

    b = np.asarray(b, dtype=np.float64)
    inside = np.maximum(b, 1e-300)
    return np.asarray(np.where(b > 0, np.minimum(1.0, np.exp(_log_paper_tail(inside, erf))), 1.0))


def paper_tail_inverse(probability: ArrayLike) -> Floats:
    """Return the b > 0 with `paper_tail(b) = probability`, by a monotone interpolant of its logarithm.

    Accuracy: 1e-9 on b in [1e-3, 40]. At probability 1 or more it is 0; below the last knot it is extended by 40,
    which a probability of a float cannot pass.
    """
    d = np.clip(np.asarray(probability, dtype=np.float64), 1e-300, 1.0)
    return np.asarray(np.maximum(0.0, _paper_interpolant()(np.log(d))))


def checked_bound(bound: str) -> Bound:
    """Return the name of a bound, or say which there are."""
    if bound not in BOUNDS:
        raise RangeError(f"bound must be 'union' or 'paper', got {bound!r}; {nearest(str(bound), BOUNDS)}")
    return "union" if bound == "union" else "paper"


def _expected_rivals(actions: int) -> float:
    return math.sqrt(math.log(2 * actions - 2))  # E/(η √(2B)) of the source's proof


def _log_paper_tail(b: Floats, erf: Callable[[Floats], Floats]) -> Floats:
    from scipy.special import log_ndtr

    # φ(b) √π = e^(-b²/2)/√2, and Φ(b) - Φ(-b) = erf(b/√2)
    first = math.log(2) + log_ndtr(-math.sqrt(2) * b)
    second = math.log(math.sqrt(2)) - b * b / 2 + np.log(erf(b / math.sqrt(2)))
    return np.asarray(np.logaddexp(first, second))


@cache
def _paper_interpolant() -> Callable[[Floats], Floats]:
    from scipy.interpolate import PchipInterpolator
    from scipy.special import erf

    b = np.concatenate([np.geomspace(1e-3, 0.2, 2000, endpoint=False), np.linspace(0.2, 40, 20_000)])
    logs = _log_paper_tail(b, erf)
    order = np.argsort(logs)
    inverse: Callable[[Floats], Floats] = PchipInterpolator(logs[order], b[order], extrapolate=True)
    return inverse

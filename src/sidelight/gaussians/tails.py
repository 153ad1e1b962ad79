"""The length that a standard Gaussian vector rarely exceeds: the one tail bound that all steps use."""

from __future__ import annotations

from math import log, sqrt


def norm_bound(size: int, chance: float) -> float:
    """Return √(d + 2√(d log(1/β)) + 2 log(1/β)): a N(0, I_d) vector is longer with probability at most β.

    (Gaussians proof page, section 1; Laurent and Massart 2000.)

    >>> round(norm_bound(10, 0.1), 6), round(norm_bound(50, 0.01), 6)
    (4.919575, 9.463556)
    """
    rare = log(1 / chance)
    return sqrt(size + 2 * sqrt(size * rare) + 2 * rare)

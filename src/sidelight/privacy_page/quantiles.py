"""The quantiles of a report: how far the noise of a release reaches, except with a stated probability.

Three events share the failure probability ρ of a free report, six that of a paid one; each is two-sided. Every value is
rounded up by more than the error of its computation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sidelight.errors import RangeError
from sidelight.privacy_page.published import Scope

_UP = 1 + 1e-13


@dataclass(frozen=True, kw_only=True)
class Quantiles:
    """How far the noise reaches: along a row, in one entry, in the output step, and in the slack of a predictor."""

    along: float
    axis: float | None
    output: float
    slack: float


def report_quantiles(
    rho: float, *, scope: Scope, columns: int, classes: int = 1, n_public: int | None = None, paid: bool = False
) -> Quantiles:
    """Return the quantiles of a report.

    Guarantee: all events of the report fail together with probability at most rho: for one person fixed beforehand, for
    n_public such persons at once, or for everyone (per-instance proof page, Theorems 3 to 5).

    Args:
        rho: The failure probability of the report.
        scope: For whom it holds.
        columns: The number of coefficients of one predictor.
        classes: The number of predictors: the classes of a softmax, else 1.
        n_public: The public number of persons of scope "all-n".
        paid: Whether six events share rho, not three.
    """
    if not 0 < rho < 1:
        raise RangeError(f"rho is a probability above 0 and below 1, got {rho:g}; 1e-6 is usual")
    if scope not in ("one-person", "all-n", "everyone"):
        raise RangeError(f"scope is 'one-person', 'all-n' or 'everyone', got {scope!r}")
    if (scope == "all-n") != (n_public is not None):
        raise RangeError("n_public, a public number of people, belongs to scope='all-n' and to no other")
    if n_public is not None and n_public < 1:
        raise RangeError(f"n_public must be at least 1, got {n_public}")
    others = max(classes - 1, 1)
    if scope == "everyone":
        size = columns * classes
        return Quantiles(
            along=chi_upper(size, rho / 6),
            axis=normal_upper(rho / (12 * columns * _pairs(classes))),
            output=chi_upper(size, rho / 3),
            slack=chi_upper(size, rho / 3),
        )
    share = rho / ((12 if paid else 6) * (n_public or 1))
    return Quantiles(
        along=normal_upper(share / others),
        axis=None,
        output=normal_upper(share),
        slack=normal_upper(share / classes),
    )


def normal_upper(tail: float) -> float:
    """Return Φ⁻¹(1 - tail), computed from the small side.

    >>> round(normal_upper(1e-6 / 6), 10)
    5.1035540029
    """
    from scipy.special import ndtri

    return float(-ndtri(tail)) * _UP


def chi_upper(dimension: int, tail: float) -> float:
    """Return the length that a standard normal vector exceeds with probability `tail`."""
    from scipy.special import chdtri

    return math.sqrt(float(chdtri(dimension, tail))) * _UP


def _pairs(classes: int) -> int:
    """Count the differences of two columns of noise that a softmax may need; one column needs none."""
    return 1 if classes == 1 else classes * (classes - 1) // 2

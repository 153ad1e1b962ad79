"""Fit one Laplace prior a level to intervals: a convex problem, solved whole, or in one pass as the paper does.

The sample-average problem is handed to SciPy's L-BFGS-B in coordinates in which every level has location 0 and scale 1,
so that values far from zero cost no accuracy. COCOB and averaged gradient descent are there for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.predictions.learning.cocob import Cocob
from sidelight.predictions.learning.laplace_loss import lse_loss

Floats = NDArray[np.float64]
_MOST_ITERATIONS: Final = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class LaplaceFit:
    """Location and scale for each level, and the mean loss that they have on the intervals."""

    location: Floats
    scale: Floats
    objective: float


def fit_laplace(a: Floats, b: Floats, *, smallest_scale: float, largest_scale: float) -> LaplaceFit:
    """Minimise the mean over the rows of log sum over the levels of exp(-log mass of (a, b]).

    >>> fit = fit_laplace(np.array([[9.0], [10], [10.5], [8]]), np.array([[10], [11], [12], [9.5]]),
    ...                   smallest_scale=1e-6, largest_scale=1e3)
    >>> round(float(fit.location[0]), 4), round(float(fit.scale[0]), 6), round(fit.objective, 9)
    (10.0, 0.690501, 1.249603632)
    """
    from scipy.optimize import minimize

    _check(smallest_scale, largest_scale)
    centre, half = a / 2 + b / 2, b / 2 - a / 2
    zero = np.median(centre, axis=0)
    unit = np.clip(np.abs(centre - zero).mean(axis=0) + half.mean(axis=0), smallest_scale, largest_scale)
    low, high = (a - zero) / unit, (b - zero) / unit
    count = a.shape[1]

    def objective(point: Floats) -> tuple[float, Floats]:
        value, _, d_theta, d_phi = lse_loss(low, high, point[:count], point[count:])
        return float(value.mean()), np.concatenate([d_theta.mean(axis=0), d_phi.mean(axis=0)])

    bounds = [(None, None)] * count + [(u / largest_scale, u / smallest_scale) for u in unit.tolist()]
    start = np.concatenate([np.zeros(count), np.ones(count)])
    options = {"maxiter": _MOST_ITERATIONS, "maxfun": 4 * _MOST_ITERATIONS, "ftol": 1e-13, "gtol": 1e-9, "maxcor": 30}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    theta, phi = found.x[:count], found.x[count:]
    return LaplaceFit(location=zero + unit * (theta / phi), scale=unit / phi, objective=float(found.fun))


def fit_laplace_online(
    a: Floats, b: Floats, *, location: float, scale: float, smallest_scale: float, largest_scale: float
) -> LaplaceFit:
    """Make one pass of COCOB over the rows, from a guess of location and scale; the last iterate is the fit."""
    _check(smallest_scale, largest_scale)
    count = a.shape[1]
    theta, phi = Cocob.at(np.full(count, location / scale)), Cocob.at(np.full(count, 1 / scale))
    for low, high in zip(a, b, strict=True):
        used = np.clip(phi.position, 1 / largest_scale, 1 / smallest_scale)
        _, _, d_theta, d_phi = lse_loss(low, high, theta.position, used)
        theta, phi = theta.step(d_theta), phi.step(d_phi)
    return _fitted(a, b, theta.position, np.clip(phi.position, 1 / largest_scale, 1 / smallest_scale))


def fit_laplace_averaged(
    a: Floats, b: Floats, *, location: float, scale: float, smallest_scale: float, largest_scale: float
) -> LaplaceFit:
    """Make one pass of projected gradient descent and average the iterates (in theta and phi, where it is convex).

    The steps are those of the paper's Theorem E.2 with its units put right.
    """
    _check(smallest_scale, largest_scale)
    rows, count = a.shape
    reach = float(np.max(np.abs(np.where(np.isfinite(a), a, b)), initial=0.0))
    reach = max(reach, float(np.max(np.abs(np.where(np.isfinite(b), b, a)))))
    least, most = 1 / largest_scale, 1 / smallest_scale
    pace = float(np.sqrt(count / rows))
    theta_step, phi_step = reach * most * pace, (most - least) / (2 * (reach + largest_scale)) * pace
    theta, phi = np.full(count, location / scale), np.full(count, np.clip(1 / scale, least, most))
    theta_sum, phi_sum = np.zeros(count), np.zeros(count)
    for low, high in zip(a, b, strict=True):
        theta_sum, phi_sum = theta_sum + theta, phi_sum + phi
        _, _, d_theta, d_phi = lse_loss(low, high, theta, phi)
        theta = np.clip(theta - theta_step * d_theta, -reach * most, reach * most)
        phi = np.clip(phi - phi_step * d_phi, least, most)
    return _fitted(a, b, theta_sum / rows, phi_sum / rows)


def _fitted(a: Floats, b: Floats, theta: Floats, phi: Floats) -> LaplaceFit:
    return LaplaceFit(location=theta / phi, scale=1 / phi, objective=float(lse_loss(a, b, theta, phi)[0].mean()))


def _check(smallest_scale: float, largest_scale: float) -> None:
    if not 0 < smallest_scale < largest_scale:
        raise RangeError(
            f"scales must satisfy 0 < smallest < largest, got {smallest_scale} and {largest_scale}; pass a granularity "
            "that is smaller than the spread of the values"
        )

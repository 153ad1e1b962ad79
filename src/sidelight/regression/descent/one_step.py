"""How far a number's model is from the one-step estimate of its first gradient: what the clip did to it shows there.

The clip takes most off errors that are large at the end, and that bias does not fall with the number of rows. Before
the first step errors are the targets themselves, few of which it cuts: one whole step from there leads to least
squares, up to the noise of one gradient (descent proof page, section 5). Free: everything is computed from released
numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sidelight.regression.descent.geometry import UNSEEN, Floats, Geometry
from sidelight.regression.descent.rules import Schedule
from sidelight.regression.descent.shrinkage import LEAST_H

#: What a normal number exceeds with probability 1/20: lines touch what they bound there.
_TOUCHED = NormalDist().inv_cdf(0.95)
#: Noise is at most this, so that its square is a finite number.
_MOST = 1e150
#: The first step is clipped, too, and shows so much less of the bias.
_FIRST_STEP = 1.25


@dataclass(frozen=True, kw_only=True)
class OneStepDistance:
    """How far predictions are from those of the one-step estimate, in the root mean square of rows, in half ranges.

    Args:
        size: The distance.
        spread: What noise adds to it in all directions but the noisiest, in the root mean square.
        deviation: The deviation of its noise in the noisiest direction.
    """

    size: float
    spread: float
    deviation: float

    def error(self, noise: float, largest: float) -> tuple[float, float]:
        """Return the numbers a and b of a + b·s: more than it is exceeded about as seldom as s by a normal number.

        Without the clip of the first step: the distance D is that of bias plus noise, so that the square of its median
        is at least bias² + spread² (the median of a noncentral χ² with p degrees of freedom is at least p - 1 + λ). D
        and the error move by at most ν and m per deviation of their noises, together by δ = √(ν² + m²): bias and noise
        S are at most √((D + δ·s)² - (spread² - S²)₊) + (S - spread)₊, a concave function of s, whose tangent is
        returned.

        Args:
            noise: The root mean square S of predictions' noise.
            largest: Its deviation m in the noisiest direction.
        """
        noise, largest = min(noise, _MOST), min(largest, _MOST)
        both = math.hypot(self.deviation, largest)
        taken = max(self.spread**2 - noise**2, 0.0)
        # not below the noise: where the distance is smaller than noise makes it, noise hid it
        held = math.sqrt(max((self.size + _TOUCHED * both) ** 2 - taken, (_TOUCHED * both) ** 2))
        rise = both * math.sqrt(taken + held**2) / max(held, np.finfo(np.float64).tiny)
        shown = math.sqrt(max(self.size**2 - self.spread**2 - self.deviation**2, 0.0))
        return held - _TOUCHED * rise + max(noise - self.spread, 0.0) + (_FIRST_STEP - 1) * shown, rise


@np.errstate(all="ignore")
def one_step_distance(
    path: Floats, theta: Floats, geometry: Geometry, *, steps: Schedule, step_noise: float
) -> OneStepDistance:
    """Return how far the model of a number is from the one-step estimate.

    Args:
        path: (steps + 1, columns, 1): the start and every point.
        theta: The final coefficients, (columns, 1).
        geometry: The coordinates.
        steps: Passes, clip and step.
        step_noise: The deviation of a gradient's noise, per row.
    """
    h = np.maximum(geometry.h if geometry.likely is None else geometry.likely, LEAST_H)
    first = (path[0] - path[1])[:, 0] / steps.lengths(geometry.columns, intercept=geometry.intercept)
    moved = (theta - path[0])[:, 0]
    of_gradient = np.square(step_noise / np.sqrt(h))
    most_noise = float((of_gradient + geometry.product_noise(moved) / h).max())
    size = np.sqrt(np.sum(h * (moved + first / h) ** 2))
    most = math.sqrt(UNSEEN)
    return OneStepDistance(
        size=float(np.nan_to_num(np.minimum(size, most), nan=most)),
        # of the gradient alone: what is taken off for noise must surely be noise
        spread=float(np.nan_to_num(np.minimum(np.sqrt(of_gradient.sum() - of_gradient.max()), size), nan=0.0)),
        deviation=float(np.nan_to_num(np.minimum(np.sqrt(most_noise), most), nan=most)),
    )

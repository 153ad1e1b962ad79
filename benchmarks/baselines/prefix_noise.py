"""The noise of a whole stream at once, in floats: for experiments on generated data, never for a release.

The noise of an estimate does not depend on the vectors, so it can be made beforehand: one FFT instead of steps^2 work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.mechanisms.square_root_factors import square_root_coefficients


def simulate_prefix_noise(plan: PrefixSums, normals: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for standard normals of shape (steps, size), the noise of the estimates after each step. Not private.

    Row t is the noise that the run would have, with real coefficients.
    """
    wanted = (plan.steps, plan.size)
    if normals.shape != wanted:
        raise RangeError(f"normals must have shape {wanted}, got {normals.shape}")
    length = 1 << (2 * plan.steps - 1).bit_length()
    spectrum = np.fft.rfft(square_root_coefficients(plan.steps), length)[:, None]
    full = np.fft.irfft(np.fft.rfft(normals, length, axis=0) * spectrum, length, axis=0)
    return np.asarray(plan.row_deviation * full[: plan.steps])

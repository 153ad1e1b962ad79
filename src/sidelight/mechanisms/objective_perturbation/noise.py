"""The two noises of a fit: the linear term of the objective, and the output noise of the released point.

The linear term has no integer form, so it is drawn as floats (numerics "idealized"); the solver's certificate counts
their rounding. The output noise is exact: the certified point lies on a public grid of powers of two, its coordinates
are integers there, and rounded Gaussian integers are added (objective-perturbation proof page, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.noise import Source, rounded_gaussian, standard_normal

#: The certified point is put on a grid this much finer than the output noise: nothing of its accuracy is lost.
_FINE = 40
#: Published coordinates are multiples of about an eighth of the output noise: finer digits are noise alone.
_SHOWN = 3


def linear_term(size: int, noise_scale: Fraction, source: Source) -> NDArray[np.float64]:
    """Draw b ~ N(0, σ²) for every coefficient; each entry within 2⁻⁵¹ relative of an exact variate."""
    return standard_normal(size, source) * float(noise_scale)


def grid_exponent(output_noise_scale: Fraction) -> int:
    """Return the exponent of the public grid on which the point is certified."""
    if output_noise_scale <= 0:
        raise RangeError("a released point needs output noise; the exact minimum is for analysis only")
    return math.frexp(float(output_noise_scale))[1] - 1 - _FINE


def on_grid(point: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """Round to multiples of 2**exponent; floats that are too coarse for it already are multiples."""
    scaled = np.ldexp(point, -exponent)
    return np.ldexp(np.where(np.abs(scaled) < 2.0**52, np.rint(scaled), scaled), exponent)


def grid_indices(point: Sequence[Fraction], exponent: int) -> list[int]:
    """Round every coordinate to the nearest multiple of 2**exponent; one that is a multiple stays what it is."""
    unit = Fraction(2) ** exponent
    return [round(coordinate / unit) for coordinate in point]


def noisy_point(
    indices: Sequence[int], exponent: int, output_noise_scale: Fraction, source: Source
) -> NDArray[np.float64]:
    """Add exact rounded Gaussian noise to a point of the grid, and publish few digits of the sum.

    Guarantee: a function of point + N(0, output_noise_scale²·I), bit for bit; `indices` are the point's coordinates in
    units of the grid.
    """
    unit = Fraction(2) ** exponent
    noise = rounded_gaussian(len(indices), output_noise_scale / unit, source)
    shift = math.frexp(float(output_noise_scale))[1] - 1 - _SHOWN - exponent
    half, step = 1 << (shift - 1), 1 << shift
    noisy = [index + extra for index, extra in zip(indices, noise.tolist(), strict=True)]
    return np.array([float(Fraction((each + half) // step * step) * unit) for each in noisy])

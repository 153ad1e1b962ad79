"""Noise whose price a theorem of the caller computes, from the scale that is drawn: votes, posteriors, gradients.

Where a sensitivity alone gives the price, `additive` computes it; these are for mechanisms that know more, or less.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source, discrete_laplace, rounded_gaussian, standard_normal


def priced_normals(size: int, *, price: DrawPrice, source: Source) -> NDArray[np.float64]:
    """Return standard normal variates, which the caller scales; idealized."""
    with source.paying(price):
        return standard_normal(size, source)


def priced_laplace(size: int, scale: Fraction, *, price: DrawPrice, source: Source) -> NDArray[Any]:
    """Return discrete Laplace noise of a scale; exact."""
    with source.paying(price):
        return discrete_laplace(size, scale, source)


def priced_gaussian(size: int, scale: Fraction, *, price: DrawPrice, source: Source) -> NDArray[Any]:
    """Return rounded Gaussian noise of a scale; exact."""
    with source.paying(price):
        return rounded_gaussian(size, scale, source)

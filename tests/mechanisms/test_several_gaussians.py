"""Noise of several scales that one theorem prices together."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from sidelight.errors import RangeError
from sidelight.guarantees import Neighbours, Person
from sidelight.mechanisms.additive import SeveralGaussians
from sidelight.noise import Source
from sidelight.summaries.noise_choice import count_and_sums
from sidelight.testing import SeededEntropy

UNIT = Person("id", 3)


def noise(corners: tuple[tuple[Fraction, ...], ...]) -> SeveralGaussians:
    scales = count_and_sums(mu="0.1", l2_squared=3, levels=1000, columns=2)
    return SeveralGaussians(
        scales=(scales.count_scale, scales.sum_scale, scales.sum_scale),
        corners=corners,
        neighbours=Neighbours.ADD_REMOVE,
        unit=UNIT,
        theorem="a theorem",
    )


#: Of three units in l2, and two columns of a thousand levels: all in the sums, or all in the squares.
CORNERS = tuple(tuple(map(Fraction, corner)) for corner in ((3, 6 * 10**6, 0), (3, 0, 6 * 10**6)))


def test_noise_has_the_scales_and_not_others() -> None:
    several = noise(CORNERS)
    zeros = [np.zeros(6000, np.int64), np.zeros((2, 6000), np.int64), np.zeros((2, 6000), np.int64)]
    with Source(SeededEntropy("count and sums")) as source:
        parts = several.release(zeros, source)
    assert [part.shape for part in parts] == [(6000,), (2, 6000), (2, 6000)]
    for part, scale in zip(parts, several.scales, strict=True):
        squares = float((part.astype(float) ** 2).sum()) / float(scale) ** 2
        for wrong in (0.7, 1.3):
            assert min(chi2.cdf(squares / wrong**2, part.size), chi2.sf(squares / wrong**2, part.size)) < 1e-7
        assert min(chi2.cdf(squares, part.size), chi2.sf(squares, part.size)) > 1e-7


def test_the_claim_is_that_of_the_worst_corner() -> None:
    gdp = noise(CORNERS).claims.gdp()
    assert gdp is not None
    assert Fraction("0.0999999") < gdp.mu <= Fraction(1, 10)
    assert gdp.unit == UNIT
    further = noise((*CORNERS, (Fraction(48), Fraction(0), Fraction(0)))).claims.gdp()
    assert further is not None
    assert further.mu == pytest.approx(math.sqrt(48) / float(noise(CORNERS).scales[0]), rel=1e-12)


def test_every_block_has_a_distance() -> None:
    with pytest.raises(RangeError, match="of each block"):
        noise(((Fraction(1),),))

"""Rounded Gaussian noise of several scales on integers of several kinds, priced together by one theorem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Claims, Context, Neighbours, Unit, native_claims
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source, rounded_gaussian


@dataclass(frozen=True, kw_only=True)
class SeveralGaussians:
    """Blocks of integers with a noise scale each, of which one unit moves all together.

    Guarantee: GDP(mu), mu² the largest over the corners of Σ (distance_i/σ_i)²: a unit moves block i by at most
    corner[i] in l2, for one of the corners.

    Args:
        scales: The standard deviation σ_i of each block.
        corners: How far one unit can move the blocks, by squares: each corner is one way, and every way is below one.
        neighbours: For whom.
        unit: For whom.
        theorem: Which theorem bounds the distances.
    """

    scales: tuple[Fraction, ...]
    corners: tuple[tuple[Fraction, ...], ...]
    neighbours: Neighbours
    unit: Unit
    theorem: str

    def __post_init__(self) -> None:
        if not self.corners or any(len(corner) != len(self.scales) for corner in self.corners):
            raise RangeError("every corner says of each block how far a unit moves it")

    @property
    def claims(self) -> Claims:
        """What all blocks together prove."""
        context: Context = {"neighbours": self.neighbours, "unit": self.unit}
        square = max(
            sum((moved / scale**2 for moved, scale in zip(corner, self.scales, strict=True)), Fraction(0))
            for corner in self.corners
        )
        return native_claims(GDP.from_squares(square, **context), mechanism="rounded_gaussian")

    def release(self, blocks: Sequence[NDArray[Any]], source: Source) -> list[NDArray[Any]]:
        """Return each block of integers with fresh noise of its scale."""
        sizes = [block.size for block in blocks]
        price = DrawPrice(
            law="rounded Gaussian",
            claims=self.claims,
            samples=tuple(("rounded_gaussian", scale) for scale in self.scales),
            statistic=f"{sum(sizes)} numbers in {len(sizes)} blocks, scales "
            + ", ".join(f"{float(scale):.6g}" for scale in self.scales),
            theorem=self.theorem,
        )
        with source.paying(price):
            drawn = rounded_gaussian(sum(sizes), self.scales, source, which=np.repeat(np.arange(len(sizes)), sizes))
        parts = np.split(drawn, np.cumsum(sizes)[:-1])
        return [np.asarray(block + part.reshape(block.shape)) for block, part in zip(blocks, parts, strict=True)]

"""A fitted distribution in a compact, exact form that fits into a release: whole units, byte planes, zlib, base64.

Weights are rounded to units of 1/1024 of an expected row, far below the noise, by rounding their running sums: every
prefix is off by at most half a unit. What is released is the rounded distribution, so that a release read back from
JSON gives the same answers and the same table to the last bit.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.synthesis.cells.domain import Domain

#: Units to an expected row.
_UNITS_PER_ROW = 1024
_LEAST_UNITS, _MOST_UNITS = 1 << 20, 1 << 44
#: Level 6 is no smaller and three times slower on such planes.
_LEVEL = 4


@dataclass(frozen=True, eq=False)
class Mass:
    """Whole units of weight on cells of a domain: on all of them in order, or on the coded rows of a support.

    >>> mass = Mass.of(Domain(("sex",), (2,)), np.array([0.25, 0.75]), size=100)
    >>> mass.units.tolist() == [mass.total // 4, 3 * mass.total // 4]
    True
    """

    domain: Domain
    units: NDArray[np.int64]
    support: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, domain: Domain, weights: NDArray[np.float64], *, size: float, support: NDArray[np.int64] | None = None
    ) -> Mass:
        """Round weights to units. Points of a support without a unit are left out."""
        total = int(min(max(_UNITS_PER_ROW * size, _LEAST_UNITS), _MOST_UNITS))
        sums = np.cumsum(weights, dtype=np.float64)
        ends = np.floor(sums / sums[-1] * total + 0.5).astype(np.int64)
        ends[-1] = total
        units = np.diff(ends, prepend=0)
        if support is None:
            return cls(domain, units)
        kept = units > 0
        return cls(domain, units[kept], support[kept])

    @property
    def total(self) -> int:
        """All units."""
        return int(self.units.sum())

    def marginal(self, columns: tuple[str, ...]) -> NDArray[np.float64]:
        """Return the share of rows of each combination of some columns, which are in the domain's order."""
        if self.support is None:
            places = set(self.domain.axes(columns))
            others = tuple(axis for axis in range(len(self.domain.columns)) if axis not in places)
            sums = self.units.reshape(self.domain.sizes).sum(axis=others)
        else:
            cells, size = self.domain.ravel(self.support, columns), self.domain.cells_of(columns)
            sums = np.bincount(cells, weights=self.units, minlength=size).reshape(self.domain.shape_of(columns))
        return np.asarray(sums / self.total, np.float64)

    def codes(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the coded rows at positions 0..total-1 of the units laid end to end."""
        points = np.searchsorted(np.cumsum(self.units), positions, side="right")
        return self.domain.unravel(points) if self.support is None else self.support[points]

    def to_value(self) -> dict[str, Any]:
        """Return texts and numbers for a release."""
        written: dict[str, Any] = {"units": _packed(self.units), "points": len(self.units)}
        if self.support is not None:
            written["support"] = [_packed(column) for column in self.support.T]
        return written

    @classmethod
    def from_value(cls, value: Mapping[str, Any], domain: Domain) -> Mass:
        """Read what `to_value` wrote."""
        points = int(value["points"])
        units = _unpacked(value["units"], points)
        if "support" not in value:
            return cls(domain, units)
        return cls(domain, units, np.stack([_unpacked(text, points) for text in value["support"]], axis=1))


def _packed(numbers: NDArray[np.int64]) -> str:
    """Write numbers >= 0: one plane a byte, so that the high bytes, mostly 0, cost nothing."""
    width = max((int(numbers.max(initial=0)).bit_length() + 7) // 8, 1)
    planes = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return base64.b64encode(zlib.compress(np.ascontiguousarray(planes.T).tobytes(), _LEVEL)).decode()


def _unpacked(text: str, count: int) -> NDArray[np.int64]:
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).reshape(-1, count)
    whole = np.zeros((count, 8), np.uint8)
    whole[:, : len(planes)] = planes.T
    return whole.view("<u8").reshape(-1).astype(np.int64)

"""Profiles of two steps between data sets: what a step away and a step back can reveal together.

For laws P, R, Q: H_(x+y)(P||Q) <= H_x(P||R) + e^x H_y(R||Q) for every split, since P(S) <= e^x R(S) + H_x and
R(S) <= e^y Q(S) + H_y. Every split is valid, so the search for the best one needs no proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sidelight.guarantees.curves import ProfileCurve
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.guarantees.search import grid_floor

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats

_SPLITS = 129


@dataclass(frozen=True)
class TwoStepCurve:
    """First one curve, then another: the replace profile of remove-then-add, or of add-then-remove."""

    first: ProfileCurve
    second: ProfileCurve

    def delta(self, x: Fraction) -> Fraction:
        split = self._best_split(float(x))
        at = min(x, max(Fraction(0), grid_floor(Fraction(split)) if split > 0 else Fraction(0)))
        total = Interval.of(self.first.delta(at)) + Interval.of(at).exp() * Interval.of(self.second.delta(x - at))
        return min(Fraction(1), round_up(total.upper))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        # the best share of the split moves slowly with x: search it at a few points, interpolate between them
        knots = np.linspace(float(x.min()), float(x.max()), 65)
        shares = np.array([self._best_split(k) / k if k > 0 else 0.5 for k in knots])
        split = np.clip(np.interp(x, knots, shares), 0.0, 1.0) * x
        total = self.first.floats(split) + np.exp(split) * self.second.floats(x - split)
        return np.asarray(np.minimum(total * (1 + 1e-13), 1.0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        return None

    def to_json(self) -> dict[str, Any]:
        return {"type": "two_step", "first": self.first.to_json(), "second": self.second.to_json()}

    def _best_split(self, x: float) -> float:
        import numpy as np

        low, high = 0.0, x
        for _ in range(5):
            grid = np.linspace(low, high, _SPLITS)
            values = self.first.floats(grid) + np.exp(grid) * self.second.floats(np.maximum(x - grid, 0.0))
            best = int(np.argmin(values))
            low, high = float(grid[max(best - 2, 0)]), float(grid[min(best + 2, _SPLITS - 1)])
        return float(grid[best])


@dataclass(frozen=True)
class LeastCurve:
    """The smallest of several valid bounds at every point."""

    curves: tuple[ProfileCurve, ...]

    def delta(self, x: Fraction) -> Fraction:
        return min(curve.delta(x) for curve in self.curves)

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        return np.asarray(np.min([curve.floats(x) for curve in self.curves], axis=0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        found = [point for curve in self.curves if (point := curve.gaussian_tail_from(mu)) is not None]
        return min(found) if found else None

    def to_json(self) -> dict[str, Any]:
        return {"type": "least", "curves": [curve.to_json() for curve in self.curves]}

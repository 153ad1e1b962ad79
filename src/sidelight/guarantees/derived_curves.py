"""Profiles made of other profiles: of two steps between data sets, of the least or the most of several, of a selection.

What a step away and a step back can reveal together: for laws P, R, Q is H_(x+y)(P||Q) <= H_x(P||R) + e^x H_y(R||Q) for
every split, since P(S) <= e^x R(S) + H_x and R(S) <= e^y Q(S) + H_y. Every split is valid, so the search for the best
one needs no proof. The profile of a selection is that of one run, moved to the right and multiplied (tuning proof page,
Theorem 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sidelight.guarantees.amounts import decimal_text, grid_floor
from sidelight.guarantees.curves import ApproxCurve, ProfileCurve
from sidelight.guarantees.intervals import Interval, round_up

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats

_SPLITS = 33
_ROUNDS = 6
_KNOTS = 65
_LARGEST_SPLIT = 600.0  # e^split must stay a float


@dataclass(frozen=True)
class TwoStepCurve:
    """First one curve, then another: the replace profile of remove-then-add, or of add-then-remove."""

    first: ProfileCurve
    second: ProfileCurve

    def delta(self, x: Fraction) -> Fraction:
        import numpy as np

        split = float(self._best_splits(np.array([float(x)]))[0])
        at = min(x, max(Fraction(0), grid_floor(Fraction(split)) if split > 0 else Fraction(0)))
        total = Interval.of(self.first.delta(at)) + Interval.of(at).exp() * Interval.of(self.second.delta(x - at))
        return min(Fraction(1), round_up(total.upper))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        if x.size <= _KNOTS:
            split = self._best_splits(x)
        else:  # the best share of the split moves slowly with x: search it at a few points, interpolate between them
            knots = np.linspace(float(x.min()), float(x.max()), _KNOTS)
            shares = np.divide(self._best_splits(knots), knots, out=np.full(_KNOTS, 0.5), where=knots > 0)
            split = np.minimum(np.clip(np.interp(x, knots, shares), 0.0, 1.0) * x, _LARGEST_SPLIT)
        # the difference is rounded down by more than its error, and a profile falls: the value only grows
        rest = np.maximum(x - split - 1e-15 * x, 0.0)
        total = self.first.floats(split) + np.exp(split) * self.second.floats(rest)
        return np.asarray(np.minimum(total * (1 + 1e-13), 1.0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        return None

    def to_json(self) -> dict[str, Any]:
        return {"type": "two_step", "first": self.first.to_json(), "second": self.second.to_json()}

    def _best_splits(self, x: Floats) -> Floats:
        """Search the best split of each x on a grid, five times ever finer, for all of them at once."""
        import numpy as np

        low, high = np.zeros_like(x), np.minimum(x, _LARGEST_SPLIT)
        steps, rows = np.linspace(0.0, 1.0, _SPLITS), np.arange(x.size)
        best = low
        for _ in range(_ROUNDS):
            grid = low[:, None] + (high - low)[:, None] * steps
            rest = np.maximum(x[:, None] - grid, 0.0)
            first = self.first.floats(grid.ravel()).reshape(grid.shape)
            second = self.second.floats(rest.ravel()).reshape(grid.shape)
            found = np.argmin(first + np.exp(grid) * second, axis=1)
            best = grid[rows, found]
            low, high = grid[rows, np.maximum(found - 1, 0)], grid[rows, np.minimum(found + 1, _SPLITS - 1)]
        return np.asarray(best, dtype=np.float64)


@dataclass(frozen=True)
class LeastCurve:
    """The smallest of several valid bounds at every point."""

    curves: tuple[ProfileCurve, ...]

    def delta(self, x: Fraction) -> Fraction:
        import numpy as np

        at = np.array([float(x)])
        return min(self.curves, key=lambda curve: float(curve.floats(at)[0])).delta(x)  # each alone is a valid bound

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        return np.asarray(np.min([curve.floats(x) for curve in self.curves], axis=0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        found = [point for curve in self.curves if (point := curve.gaussian_tail_from(mu)) is not None]
        return min(found) if found else None

    def to_json(self) -> dict[str, Any]:
        return {"type": "least", "curves": [curve.to_json() for curve in self.curves]}


@dataclass(frozen=True)
class MostCurve:
    """The largest of several profiles at every point: what holds for each of several mechanisms."""

    curves: tuple[ProfileCurve, ...]

    def delta(self, x: Fraction) -> Fraction:
        return max(curve.delta(x) for curve in self.curves)

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        return np.asarray(np.max([curve.floats(x) for curve in self.curves], axis=0), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        found = [curve.gaussian_tail_from(mu) for curve in self.curves]
        return None if any(point is None for point in found) else max(point for point in found if point is not None)

    def to_json(self) -> dict[str, Any]:
        return {"type": "most", "curves": [curve.to_json() for curve in self.curves]}


@dataclass(frozen=True)
class SelectedCurve:
    """H_x <= factor · δ(x - shift) from the shift on, in one direction.

    Below the shift s, with d the value there: P(S) <= min(1, e^s Q(S) + d), so H_x <= 1 - (1 - d) e^(x - s).

    >>> from sidelight.guarantees.curves import HingedGaussianCurve
    >>> best = SelectedCurve(HingedGaussianCurve(Fraction(3, 10)), shift=Fraction("0.780288"), factor=Fraction(30))
    >>> f"{float(best.delta(Fraction('2.280743'))):.3g}"
    '1e-06'
    """

    base: ProfileCurve
    shift: Fraction
    factor: Fraction

    def delta(self, x: Fraction) -> Fraction:
        if x >= self.shift:
            return min(Fraction(1), self.factor * self.base.delta(x - self.shift))
        rest = Interval.of(1 - self._at_shift) * Interval.of(x - self.shift).exp()
        return min(Fraction(1), round_up((Interval.of(1) - rest).upper))

    @property
    def _at_shift(self) -> Fraction:
        return min(Fraction(1), self.factor * self.base.delta(Fraction(0)))

    def floats(self, x: Floats) -> Floats:
        import numpy as np

        shift, factor = float(self.shift), float(self.factor) * (1 + 1e-13)
        # the difference is rounded down by more than its error, and a profile falls: the value only grows
        inside = np.maximum(x - shift - 1e-14 * (np.abs(x) + shift), 0.0)
        above = np.minimum(factor * self.base.floats(inside), 1.0)
        chance = float(self._at_shift)
        below = chance - (1 - chance) * np.expm1(np.minimum(x - shift, 0.0))
        whole = np.minimum(below * (1 + 1e-13) + 1e-15, 1.0)
        return np.asarray(np.where(x >= shift, above, whole), dtype=np.float64)

    def gaussian_tail_from(self, mu: float) -> float | None:
        # where one run has no loss beyond its epsilon, the selection has none beyond epsilon + shift
        if isinstance(self.base, ApproxCurve) and not self.base.reveal:
            return float(self.base.epsilon + self.shift) * (1 + 1e-12)
        return None

    def to_json(self) -> dict[str, Any]:
        return {
            "type": "selected",
            "base": self.base.to_json(),
            "shift": decimal_text(self.shift),
            "factor": decimal_text(self.factor),
        }

"""The profile of a selection: that of one run, moved to the right and multiplied (tuning proof page, Theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sidelight.guarantees.amounts import decimal_text
from sidelight.guarantees.curves import ApproxCurve, ProfileCurve
from sidelight.guarantees.intervals import Interval, round_up

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats


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

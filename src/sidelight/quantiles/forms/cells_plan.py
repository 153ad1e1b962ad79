"""The plan of the form `cells`: how many cells, at which levels, and what each round costs, from public numbers alone.

A skeleton of selected points finds the scale, coarse counts between them say how many records lie where, and fine
counts lie between points that were interpolated. Budgets are fractions and add up exactly; powers and roots only choose
how the budget is divided, and what they chose is recorded in the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import decimal_text
from sidelight.noise import REFINEMENT_RATIO

#: Chosen shares are multiples of this. The third of the fine budget is not: it must be exact (`REFINEMENT_RATIO`).
SHARE_STEP = 2**20
#: Levels that are chosen, and not asked for, are multiples of this.
LEVEL_STEP = 2**20
#: What the first step of the skeleton releases.
QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
#: A level of the skeleton that is nearer to a quartile is dropped.
_NEAR_QUARTILE = Fraction(15, 1000)
#: Of the skeleton's levels, the weight of those that are denser in the tails; of the fine cells' levels.
SKELETON_TAILS = 0.3
FINE_TAILS = 0.15
#: From this value of epsilon² · size on there are three rounds of counts.
_THREE_ROUNDS = 5e5
#: Of what the skeleton leaves: the coarse counts of two rounds, the least (on which the dearest claim rests) and the
#: most; the coarse and the middle counts of three.
_TWO_SHARES = (0.3, 0.4)
_THREE_SHARES = (0.15, 0.25)
#: Levels have a fine cell each as long as they are at most this many times the best number of cells.
_CELL_A_LEVEL = 1.6
#: Under zCDP selections are cheap beside counts, and the skeleton's share is smaller by this factor.
_RHO_SKELETON = 0.3
#: Numbers are cut here before they meet floating-point powers.
_LARGEST = 10**15
_LARGEST_BUDGET = Fraction(_LARGEST)


@dataclass(frozen=True, kw_only=True)
class CellsPlan:
    """What the form `cells` will do, fixed before the skeleton is released; made by `cells_plan`.

    Guarantee: skeleton + coarse (+ middle) + fine is the budget exactly. A record that lies in a flagged leaf pays
    `rough` for the fine counts and has `left` for a selection; `rough` + `left` is `fine`, and `rough` is exactly a
    third of it.
    """

    budget: Fraction  # of one record
    currency: Literal["epsilon", "rho"]
    size: int  # the public estimate of the number of records
    skeleton: Fraction
    coarse: Fraction
    middle: Fraction  # 0 with two rounds
    fine: Fraction
    skeleton_levels: tuple[Fraction, ...]  # beside the quartiles
    skeleton_count: int
    middle_count: int  # 0 with two rounds
    fine_count: int

    @property
    def rough(self) -> Fraction:
        """What the first look at the fine counts costs."""
        return self.fine / REFINEMENT_RATIO

    @property
    def left(self) -> Fraction:
        """What the records of a leaf that is not refined have left."""
        return self.fine - self.rough

    @property
    def three_rounds(self) -> bool:
        """Return whether there is a middle round of counts."""
        return self.middle > 0

    def rate(self, part: Fraction) -> float:
        """Return e for a part of the budget, 2 √ρ under zCDP: a count then has noise of variance 2 / e² in both."""
        return float(part) if self.currency == "epsilon" else 2 * math.sqrt(part)

    def variance(self, part: Fraction) -> float:
        """Return the variance of the noise of a count that a part of the budget buys; discrete noise has no more."""
        return 2 / self.rate(part) ** 2

    def to_json(self) -> dict[str, Any]:
        """Return everything that was chosen, in strings."""
        return {
            "size": str(self.size),
            "currency": self.currency,
            "skeleton": decimal_text(self.skeleton),
            "coarse": decimal_text(self.coarse),
            "middle": decimal_text(self.middle),
            "fine": decimal_text(self.fine),
            "skeleton_count": str(self.skeleton_count),
            "middle_count": str(self.middle_count),
            "fine_count": str(self.fine_count),
        }


def cells_plan(
    levels: Sequence[Fraction],
    *,
    size: int,
    epsilon: Fraction | None = None,
    rho: Fraction | None = None,
    predicted: bool = False,
) -> CellsPlan:
    """Divide the budget of one record, epsilon or rho, for these levels and about this many records.

    Everything is a function of public numbers: `size` is a released or declared number and never that of the data. With
    a `predicted` skeleton nothing is spent on selecting one.

    >>> plan = cells_plan([Fraction(i, 100) for i in range(1, 100)], size=10_000, epsilon=Fraction(1))
    >>> plan.skeleton_count, plan.fine_count, round(float(plan.skeleton), 3), round(float(plan.coarse), 3)
    (13, 200, 0.112, 0.355)
    >>> plan.skeleton + plan.coarse + plan.fine == 1, plan.rough * 3 == plan.fine
    (True, True)
    """
    if (epsilon is None) == (rho is None):
        raise RangeError("a plan of cells has exactly one of epsilon and rho")
    budget = epsilon if rho is None else rho
    assert budget is not None
    rows = min(max(size, 1), _LARGEST)
    rate = float(min(budget, _LARGEST_BUDGET)) if rho is None else 2 * math.sqrt(min(rho, _LARGEST_BUDGET))
    worth = rate * rate * rows
    share = _clipped(0.05 * (1e5 / max(rate * rows, 1e-9)) ** 0.35, 0.04, 0.17)
    selected = _share(share if rho is None else share * _RHO_SKELETON)
    skeleton = Fraction(0) if predicted else selected * budget
    rest = budget - skeleton
    three = worth > _THREE_ROUNDS
    counts = [_share(each) * rest for each in (_THREE_SHARES if three else (_coarse_share(worth),))]
    skeleton_count = round(_clipped(worth**0.28, 4, 48))
    # Noise of counts and chance inside cells, balanced: chosen for smooth data (proof page, 5.4).
    fine_count = round(_clipped(max(2 * math.sqrt(worth), 0.55 * worth**0.63), 12, 2000))
    if fine_count < len(levels) <= _CELL_A_LEVEL * fine_count:
        fine_count = len(levels)
    return CellsPlan(
        budget=budget,
        currency="epsilon" if rho is None else "rho",
        size=rows,
        skeleton=skeleton,
        coarse=counts[0],
        middle=counts[1] if three else Fraction(0),
        fine=rest - sum(counts, Fraction(0)),
        skeleton_levels=_skeleton_levels(levels, skeleton_count, strength=share * rate * rows, signal=rate * rows),
        skeleton_count=skeleton_count,
        middle_count=round(math.sqrt(skeleton_count * fine_count)) if three else 0,
        fine_count=fine_count,
    )


def _coarse_share(worth: float) -> float:
    """Return what coarse counts have of two rounds: more where there are more fine cells to place."""
    least, most = _TWO_SHARES
    return _clipped(least + 0.1 * math.log10(max(worth, 1.0) / 1e3), least, most)


def fine_levels(levels: Sequence[Fraction], *, low: float, high: float, count: int) -> list[float]:
    """Return the levels whose interpolated places become ends of fine cells: those inside low..high, if few enough."""
    inside = [level for level in map(float, levels) if low < level < high]
    if len(inside) <= count:
        return inside
    return [float(level) for level in tailed(inside[0], inside[-1], count=count, weight=FINE_TAILS)]


def tailed(first: float, last: float, *, count: int, weight: float) -> list[Fraction]:
    """Return at most `count` levels from first to last: evenly spaced, and with some weight denser in the tails.

    Level g_k has (1 - weight) times its place between first and last, plus weight times its place on the logit scale,
    equal to k / (count - 1).

    >>> [round(float(level), 2) for level in tailed(0.01, 0.99, count=5, weight=0.3)]
    [0.01, 0.21, 0.5, 0.79, 0.99]
    """
    least, most = _on_step(first), max(_on_step(last), _on_step(first))
    steps = np.arange(least, most + 1) if most - least <= 4 * count else None
    if most == least:
        return [Fraction(least, LEVEL_STEP)]
    wanted = np.arange(count) / max(count - 1, 1)
    ends = (least / LEVEL_STEP, most / LEVEL_STEP)
    if steps is not None:
        places = least + np.searchsorted(_placed(steps / LEVEL_STEP, ends, weight), wanted)
    else:
        below, above = np.full(count, least), np.full(count, most)
        for _ in range(LEVEL_STEP.bit_length()):
            middle = (below + above) // 2
            under = _placed(middle / LEVEL_STEP, ends, weight) < wanted
            below, above = np.where(under, middle + 1, below), np.where(under, above, middle)
        places = above
    return [Fraction(int(place), LEVEL_STEP) for place in np.unique(np.minimum(places, most))]


def _placed(levels: np.ndarray, ends: tuple[float, float], weight: float) -> np.ndarray:
    """Return where levels lie between two ends, 0 at the first and 1 at the last."""
    low, high = np.log(ends[0] / (1 - ends[0])), np.log(ends[1] / (1 - ends[1]))
    logits = np.log(levels / (1 - levels))
    even = (levels - ends[0]) / (ends[1] - ends[0])
    return np.asarray((1 - weight) * even + weight * (logits - low) / (high - low))


def _skeleton_levels(levels: Sequence[Fraction], count: int, *, strength: float, signal: float) -> tuple[Fraction, ...]:
    """Return the levels between which coarse cells lie; none when only the quartiles can be found.

    A level so far out that its selection would be mostly noise is not tried.
    """
    depth = max(1, math.ceil(math.log2(count / 4 + 1)))
    reach = 2 * (4 if signal >= 5000 else 8) * depth / max(strength, 1e-9)
    low = max(0.7 * float(levels[0]), reach)
    high = min(1 - 0.7 * (1 - float(levels[-1])), 1 - reach)
    if high - low <= 0.3:
        return ()
    chosen = tailed(low, high, count=count, weight=SKELETON_TAILS)
    return tuple(level for level in chosen if all(abs(level - quartile) >= _NEAR_QUARTILE for quartile in QUARTILES))


def _on_step(level: float) -> int:
    return min(max(round(level * LEVEL_STEP), 1), LEVEL_STEP - 1)


def _clipped(value: float, least: float, most: float) -> float:
    return min(max(value, least), most)


def _share(value: float) -> Fraction:
    return Fraction(round(value * SHARE_STEP), SHARE_STEP)

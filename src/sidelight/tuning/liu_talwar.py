"""Liu and Talwar's selection (2019), for comparison: what the library's own theorem replaces.

The pure bound is 3ε for a geometric number of runs. The approximate bound loses a square root of δ and needs a cut-off
on the number of runs; `selection_claims` has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sidelight.guarantees import Amount, ApproxDP, PureDP, positive
from sidelight.guarantees.intervals import Interval, round_up


def liu_talwar_pure(epsilon: Amount) -> PureDP:
    """Return the guarantee of the best of a geometric number of ε-private runs: 3ε (Theorem 3.2 there).

    >>> print(liu_talwar_pure(1))
    PureDP(ε = 3)
    """
    return PureDP(3 * positive(epsilon, name="epsilon"))


@dataclass(frozen=True, kw_only=True)
class LiuTalwarCost:
    """The approximate bound: 3ε* + 3√(2δ*) and √(2δ*)·T + δ₂, after at most T = log(1/δ₂)/τ runs."""

    claim: ApproxDP
    longest: Fraction


def liu_talwar_approximate(epsilon: Amount, delta: Amount, *, stop: Amount, cut_off_delta: Amount) -> LiuTalwarCost:
    """Return Liu and Talwar's bound for (ε*, δ*)-private runs that stop with probability `stop` after each.

    >>> float(liu_talwar_approximate(1, "1.6e-21", stop="1/600", cut_off_delta="5e-7").longest) // 1
    8705.0
    """
    run, stops = positive(delta, name="delta"), positive(stop, name="stop")
    rest = positive(cut_off_delta, name="cut_off_delta")
    root = Interval.of(2 * run).sqrt()
    longest = -Interval.of(rest).log() / Interval.of(stops)
    total = Interval.of(3 * positive(epsilon, name="epsilon")) + Interval.of(3) * root
    chance = root * longest + Interval.of(rest)
    return LiuTalwarCost(claim=ApproxDP(round_up(total.upper), round_up(chance.upper)), longest=round_up(longest.upper))

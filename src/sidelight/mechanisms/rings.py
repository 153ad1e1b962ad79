"""Outcomes in rings of similar excess: the part of the rank selection that looks at the data.

The outcomes between two neighbouring records form a run with one rank and one score. A ring holds the runs whose score
exceeds the smallest by depth <= excess < depth of the next ring: at most two blocks of outcomes, found from two order
statistics. So a release looks at some twenty records whatever their number (quantiles proof page, section 2.2).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Literal, Protocol, TypeAlias

from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError

# The prior of a tree node: the compiled prior seen from a sub-range of the outcomes.
#
# Both views depend on the range and the outcome alone, so they are base measures again; no normalisation is needed,
# so a range without prior mass is no special case (quantiles proof page, section 1.4).

Adaptation = Literal["conditional", "edge"]


#: Two indices with the mass below each.
Bracket: TypeAlias = tuple[int, int, int, int]


class Masses(Protocol):
    """Exact integer masses of outcomes: what the rank selection sees of a prior."""

    @property
    def first(self) -> int:
        """The smallest outcome."""
        ...

    @property
    def last(self) -> int:
        """The largest outcome."""
        ...

    def cumulative(self, index: int) -> int:
        """Return the mass of all outcomes below an index: strictly increasing from first to last + 1."""
        ...

    def inverse(self, position: int, around: Bracket | None = None) -> int:
        """Return the outcome j with cumulative(j) <= position < cumulative(j + 1).

        A bracket `around` it is (low, cumulative(low), high, cumulative(high)) with low <= j < high.
        """
        ...

    def fresh(self) -> Masses:
        """Return the same masses for one selection: what it looks up at records is remembered there, or nowhere."""
        ...


class Conditional:
    """The prior restricted to first..last: mass outside is forgotten."""

    __slots__ = ("_masses", "first", "last")

    def __init__(self, masses: Masses, first: int, last: int) -> None:
        self._masses = masses
        self.first, self.last = _checked(masses, first, last)

    def cumulative(self, index: int) -> int:
        """Return C(index clamped to the range)."""
        if index < self.first:
            index = self.first
        elif index > self.last:
            index = self.last + 1
        return self._masses.cumulative(index)

    def inverse(self, position: int, around: Bracket | None = None) -> int:
        """Return the outcome of a position between cumulative(first) and cumulative(last + 1)."""
        return self._masses.inverse(position, around)

    def fresh(self) -> Conditional:
        """Return the same view of masses for one selection."""
        return Conditional(self._masses.fresh(), self.first, self.last)


class Edge:
    """The prior with all mass outside first..last moved to the nearer end."""

    __slots__ = ("_end", "_masses", "_second", "_top", "first", "last")

    def __init__(self, masses: Masses, first: int, last: int) -> None:
        self._masses = masses
        self.first, self.last = _checked(masses, first, last)
        self._top = masses.cumulative(masses.last + 1)
        self._second = self.cumulative(first + 1)
        self._end = self.cumulative(last)

    def cumulative(self, index: int) -> int:
        """Return 0 up to the first outcome, the whole mass after the last, C(index) in between."""
        if index <= self.first:
            return 0
        return self._top if index > self.last else self._masses.cumulative(index)

    def inverse(self, position: int, around: Bracket | None = None) -> int:
        """Return the outcome of a position between 0 and the whole mass; a bracket here is none of the prior."""
        if position < self._second:
            return self.first
        return self.last if position >= self._end else self._masses.inverse(position)

    def fresh(self) -> Edge:
        """Return the same view of masses for one selection."""
        return Edge(self._masses.fresh(), self.first, self.last)


def adapt(masses: Masses, first: int, last: int, adaptation: Adaptation) -> Conditional | Edge:
    """Return the view of a sub-range by name."""
    if adaptation == "conditional":
        return Conditional(masses, first, last)
    if adaptation == "edge":
        return Edge(masses, first, last)
    raise RangeError(f"adaptation must be 'conditional' or 'edge', got {adaptation!r}")


def _checked(masses: Masses, first: int, last: int) -> tuple[int, int]:
    if not masses.first <= first <= last <= masses.last:
        raise RangeError(
            f"a sub-range must satisfy {masses.first} <= first <= last <= {masses.last}, got first={first}, last={last}"
        )
    return first, last


# The weight of an outcome as a function of its excess score: exp(-t) in integers, with a floor far down.
#
# Hand-made because privacy depends on its every bit: W(t) lies between 2**320 exp(-min(t, 128)) and that times
# exp(2**-126), and the sampler reaches it exactly (quantiles proof page, section 2.1).

#: Bits of the weight at excess 0.
PRECISION = 320

#: Excess from which on all outcomes weigh the same; exp(-128) is beyond any experiment.
LEVELS = 128

#: ceil(2**320 / e).
INVERSE_E = 0x5E2D58D8B3BCDF1ABADEC7829054F90DDA9805AAB56C77333024B9D0A507DAEDB16400BF472B4216


@dataclass(frozen=True, kw_only=True)
class Decay:
    """steps[l] = D_l >= 2**320 exp(-l), l = 0..levels: W(t) = D_l exp(-(t - l)) with l = floor(t), D_levels beyond."""

    levels: int
    steps: tuple[int, ...]


def decay(levels: int = LEVELS) -> Decay:
    """Compute D_0 = 2**320, D_(l+1) = ceil(D_l E / 2**320), rounded up at every step."""
    steps = [1 << PRECISION]
    for _ in range(levels):
        steps.append(-(-steps[-1] * INVERSE_E >> PRECISION))
    return Decay(levels=levels, steps=tuple(steps))


DECAY = decay()
Score = Literal["exact", "floor"]

#: The sliver of epsilon that pays for the rounding of the weights: ε' = ε (1 - 2**-64).
_SHRINK = (2**64 - 1, 2**64)

#: Rings are opened until the rest weighs at most 2**-6 of them. This decides speed, never the law: a ring costs two
#: order statistics, a needless proposal in the rest about as much, and now one in 64 falls there.
SLACK_BITS = 6

#: From depth 2 on a ring reaches to twice its depth, from 8 on four times, where it then weighs at most 2**-2 of those
#: before it: far out nearly nothing is proposed, and two thirds of the order statistics are saved. Speed alone, too.
WIDE_BITS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """The integer score G(r) = |step * r - target| of a rank r; the exponent is G * slope[1] / slope[0]."""

    step: int
    target: int
    slope: tuple[int, int]  # numerator and denominator of one unit of excess: 2D and epsilon', see gap_score

    def of_rank(self, rank: int) -> int:
        """Return G(rank)."""
        return abs(self.step * rank - self.target)

    def spread(self, apart: int) -> Fraction:
        """Return the ε of a selection in which one unit moves two scores apart by `apart`, the sliver included."""
        return Fraction(self.slope[1] * apart * _SHRINK[1], self.slope[0] * _SHRINK[0])


def gap_score(size: int, target: Fraction, epsilon: Fraction, score: Score) -> Gap:
    """Return the score of a data set of this (private) size.

    "exact": |b r - a n| for the level a/b, which one record moves by at most D = max(a, b - a).
    "floor": |r - floor(a n / b)|, which one record moves by at most 1; only to reproduce the paper.
    """
    a, b = target.numerator, target.denominator
    shrunk, unit = epsilon.numerator * _SHRINK[0], epsilon.denominator * _SHRINK[1]
    if score == "exact":
        return Gap(step=b, target=a * size, slope=(2 * max(a, b - a) * unit, shrunk))
    return Gap(step=1, target=a * size // b, slope=(2 * unit, shrunk))


class Rings:
    """All outcomes first..last by excess score, as weighted units: unit u belongs to one ring and one outcome.

    Ring i holds the outcomes with depths[i] <= excess < depths[i + 1], with the weight of excess depths[i]. `cut` rings
    are kept apart; everything further out is ring `cut`. Records outside first..last are counted at the nearer end (a
    record-wise map, so it cannot cost privacy).
    """

    __slots__ = (
        "_blocks",
        "_first",
        "_gap",
        "_last",
        "_masses",
        "_ranks",
        "_starts",
        "cut",
        "depths",
        "smallest",
        "total",
    )

    def __init__(
        self,
        ranks: Ranks,
        masses: Masses,
        gap: Gap,
        *,
        decay: Decay = DECAY,
        slack_bits: int = SLACK_BITS,
        most_rings: int | None = None,
    ) -> None:
        masses = masses.fresh()  # which is private from here on, and ends with these rings
        self._ranks, self._masses, self._gap = ranks, masses, gap
        self._first, self._last = masses.first, masses.last
        size, steps = ranks.size, decay.steps
        step, target, (num, den) = gap.step, gap.target, gap.slope
        bottom, top = masses.cumulative(masses.first), masses.cumulative(masses.last + 1)
        first, last = self._first, self._last
        order, cumulative = ranks.order, masses.cumulative

        lowest, highest = (first, bottom), (last + 1, top)

        def start_of_run(k: int) -> tuple[int, int]:
            """Return the first outcome of a run, and the mass below it."""
            if k <= 0:
                return lowest
            if k > size:
                return highest
            index = order(k)
            if index >= last:
                return highest
            index = (index if index > first else first) + 1
            return index, cumulative(index)

        best = -(-target // step)  # runs from here on lie above the target rank
        self.smallest = self._smallest_gap(best, size)
        right_end, right = left_end, left = start_of_run(best)
        blocks: list[tuple[int, Bracket, Bracket]] = []  # left mass, left ends, right ends
        weights: list[int] = []
        self.depths = depths = [0]
        weight = depth = 0
        ahead = 1
        while True:
            reach = self.smallest - (-ahead * num // den)  # the smallest G of the next ring
            next_right_end, next_right = start_of_run(-(-(target + reach) // step))
            next_left_end, next_left = start_of_run((target - reach) // step + 1)
            more = (left - next_left + next_right - right) * steps[depth]
            if ahead > depth + 1 and more > weight >> WIDE_BITS:
                ahead = depth + 1  # too heavy for a wide ring
                continue
            ends = (next_left_end, next_left, left_end, left), (right_end, right, next_right_end, next_right)
            blocks.append((left - next_left, *ends))
            weights.append(more)
            weight += more
            right_end, right, left_end, left = next_right_end, next_right, next_left_end, next_left
            depth = ahead
            depths.append(depth)
            rest = ((top - right) + (left - bottom)) * steps[depth]
            if depth == decay.levels or rest <= weight >> slack_bits or len(blocks) == most_rings:
                break
            ahead = min(2 * depth if depth < 8 else 4 * depth, decay.levels)
        blocks.append((left - bottom, (*lowest, left_end, left), (right_end, right, *highest)))
        self.cut = len(blocks) - 1
        self._blocks = blocks
        self._starts = [0, *accumulate([*weights, rest])]
        self.total = self._starts[-1]

    def ring_of_unit(self, unit: int) -> int:
        """Return the ring of a weighted unit, 0 <= unit < total."""
        return bisect_right(self._starts, unit) - 1

    def start(self, ring: int) -> int:
        """Return the first weighted unit of a ring."""
        return self._starts[ring]

    def ring_mass(self, ring: int) -> int:
        """Return the prior mass of a ring."""
        left_mass, _, (_, right_start, _, right_end) = self._blocks[ring]
        return left_mass + right_end - right_start

    def outcome(self, ring: int, unit_of_mass: int) -> int:
        """Return the outcome that a unit of the ring's mass belongs to: left block first, then right."""
        left_mass, left, right = self._blocks[ring]
        inside = unit_of_mass - left_mass
        if inside < 0:
            return self._masses.inverse(left[1] + unit_of_mass, left)
        return self._masses.inverse(right[1] + inside, right)

    def excess(self, index: int) -> tuple[int, int, int]:
        """Return the excess score of an outcome as whole + remainder / divisor."""
        num, den = self._gap.slope
        rank = self._ranks.below(index) if index > self._first else 0
        whole, remainder = divmod((self._gap.of_rank(rank) - self.smallest) * den, num)
        return whole, remainder, num

    def _smallest_gap(self, best: int, size: int) -> int:
        """Return the minimum of G over all outcomes: a rank that no outcome has (a tie) does not count.

        The floor of the weights hangs on this minimum. It moves by at most the sensitivity because the set of outcomes
        is public; rounding it to a multiple of anything would break that.
        """
        ranks, gap = self._ranks, self._gap
        if best == 0:  # the first outcome has rank 0
            return gap.of_rank(0)
        tie = min(max(ranks.order(best), self._first), self._last)
        left = ranks.below(tie) if tie > self._first else 0  # the rank of the outcome at the record itself
        smallest = gap.of_rank(left)
        if tie < self._last:
            smallest = min(smallest, gap.of_rank(ranks.below(tie + 1)))  # the next outcome: k0, or beyond a tie
        return smallest

    def __repr__(self) -> str:
        return "Rings(private)"

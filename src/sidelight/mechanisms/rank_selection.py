"""Select an outcome whose rank is near a target, or a radius: the exponential mechanism with a prior, exact.

Hand-made because nothing offers it: libraries list every candidate, have no base measure, or draw in floating point,
where rounding leaks (Mironov 2012). Here every step is integer arithmetic on a public finite set of outcomes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.guarantees import Amount, BoundedRange, Claims, Row, Unit, native_claims, positive
from sidelight.guarantees.amounts import last_where, whole
from sidelight.mechanisms.price import selection_price
from sidelight.mechanisms.rings import DECAY, Decay, Gap, Masses, Rings, Score, gap_score
from sidelight.noise import Source, below, bernoulli, bernoulli_exp

#: The rounding of the weights is paid by a sliver of epsilon; below this epsilon the sliver is too thin.
SMALLEST_EPSILON = Fraction(1, 2**60)


def select_rank(
    ranks: Ranks,
    target: Fraction,
    epsilon: Fraction,
    prior: Masses,
    first: int,
    last: int,
    source: Source,
    *,
    score: Score = "exact",
) -> int:
    """Draw an outcome j of first..last with weight (prior mass of j) * exp(-ε |r(j) - q n| / (2Δ)), Δ = max(q, 1-q).

    Guarantee: PureDP(epsilon) and BoundedRange(epsilon) for adding or removing one record, hence epsilon²/8-zCDP, on
    the machine and for every prior (quantiles proof page, Theorem 3). With dithered `ranks` the range is that given
    the dither, which is what the claim means; the rest holds of the released law as well.

    Accuracy: with probability 1 - β the rank is off by at most (2Δ/ε) log(1/(β ψ)) more than it must be, ψ the prior's
    mass between the two records around the quantile.

    Arguments: `ranks` of the records that this mechanism may see (private, size included); `target` q and `epsilon`
    exact; `prior` on exactly first..last. `score="floor"` rounds q n down, with Δ = 1: the paper's mechanism. The time
    depends on the data (number of rings and trials) and is not protected.

    >>> import numpy as np
    >>> from sidelight.aggregates.ranks import DitheredRanks, SortedCodes
    >>> from sidelight.grid import Grid
    >>> from sidelight.noise import OSEntropy
    >>> from sidelight.predictions import Cauchy
    >>> grid = Grid(resolution=Fraction(1), dither_bits=0)
    >>> prior, ranks = Cauchy(0, 10).compile(grid), DitheredRanks(SortedCodes(np.arange(1000)), grid, None)
    >>> with Source(OSEntropy()) as source:
    ...     j = select_rank(ranks, Fraction(1, 2), Fraction(20), prior, prior.first, prior.last, source)
    >>> 450 < j < 550
    True
    """
    check_selection(target, epsilon, prior, first, last, score)
    if first == last:
        return first
    gap = gap_score(ranks.size, target, epsilon, score)
    moved = max(target.numerator, target.denominator - target.numerator) if score == "exact" else 1
    with source.paying(selection_price(gap.spread(2 * moved), "a quantile")):
        return draw(Rings(ranks, prior, gap), source)


def draw(rings: Rings, source: Source, *, decay: Decay = DECAY) -> int:
    """Draw by rejection: propose a unit of a ring's mass, accept it with what its outcome weighs less than the ring.

    Exact whatever the number and the depths of the rings; the acceptance is at least 1/e in a ring of depth 1, and
    deeper ones are proposed rarely.
    """
    steps, levels = decay.steps, decay.levels
    while True:
        unit = below(rings.total, source)
        ring = rings.ring_of_unit(unit)
        depth = rings.depths[ring]
        index = rings.outcome(ring, (unit - rings.start(ring)) // steps[depth])
        whole, remainder, divisor = rings.excess(index)
        if whole >= levels:
            accepted = depth == levels or bernoulli(steps[levels], steps[depth], source)
        else:
            accepted = whole == depth or bernoulli(steps[whole], steps[depth], source)
            accepted = accepted and bernoulli_exp(remainder, divisor, source)
        if accepted:
            return index


def selection_claims(epsilon: Fraction) -> Claims:
    """Return what one selection proves for one record; a tree adds these up along its paths."""
    return native_claims(BoundedRange(epsilon), mechanism="exponential")


def check_selection(target: Fraction, epsilon: Fraction, prior: Masses, first: int, last: int, score: Score) -> None:
    """Refuse public parameters that the proof does not cover. Nothing here depends on the records."""
    # numerators and denominators, which compare ten times as fast as fractions
    if not isinstance(target, Fraction) or not 0 < target.numerator < target.denominator:
        raise RangeError(f"the target level must be a Fraction between 0 and 1, got {target!r}")
    if not isinstance(epsilon, Fraction) or epsilon.numerator * SMALLEST_EPSILON.denominator < epsilon.denominator:
        raise RangeError(
            f"epsilon must be a Fraction of at least 2**-60, got {epsilon!r}; split it over fewer releases"
        )
    if (prior.first, prior.last) != (first, last):
        raise RangeError(
            f"the prior covers outcomes {prior.first}..{prior.last} but the selection {first}..{last}; adapt the prior"
        )
    if score not in ("exact", "floor"):
        raise RangeError(f"score must be 'exact' or 'floor', got {score!r}")


class RanksWithin:
    """Ranks among the records with first_index <= index < end_index only.

    Half-open, so that after the release of o a record at o belongs to the right side and to no other: then one record
    meets one path of the tree (quantiles proof page, section 3). The counts are private like the ranks they come from.
    """

    __slots__ = ("_ranks", "_skipped", "size")

    def __init__(self, ranks: Ranks, first_index: int, end_index: int) -> None:
        self._ranks = ranks
        self._skipped = ranks.below(first_index)
        self.size = max(ranks.below(end_index) - self._skipped, 0)

    def below(self, index: int) -> int:
        """Count this node's records with an index below `index`."""
        return min(max(self._ranks.below(index) - self._skipped, 0), self.size)

    def order(self, k: int) -> int:
        """Return the k-th smallest index among this node's records, 1 <= k <= size."""
        return self._ranks.order(self._skipped + k)

    def __repr__(self) -> str:
        return "RanksWithin(private)"


# A radius that leaves few rows outside: the cost is N(R), the number of rows outside. Adding a row never lowers N, so
# the whole ε is the slope where a two-sided rank score has half of it (summaries proof page, Theorem 4).

#: How many rows lie within outcome j of the centre: private, and it never falls as j grows.
Inside: TypeAlias = Callable[[int], int]


def select_radius(
    inside: Inside,
    prior: Masses,
    *,
    epsilon: Amount,
    source: Source,
    rows_per_unit: int = 1,
    unit: Unit = Row(),  # noqa: B008  # frozen, without fields
) -> int:
    """Draw an outcome j of the prior with weight (mass of j) * exp(-ε N(j) / rows_per_unit), N(j) = rows outside j.

    Guarantee: PureDP(epsilon) and BoundedRange(epsilon), hence epsilon²/8-zCDP, for adding or removing one unit of at
    most `rows_per_unit` rows; on the machine and for every prior (summaries proof page, Theorem 4).

    Accuracy: about p/ε rows stay outside with a tail of order p in the prior; beyond the largest row R / max follows
    the prior's tail.

    Args:
        inside: Counts the rows within outcome j, such as `rows_near`: a private, non-decreasing function to which one
            row adds 0 or 1, 1 from some j on.
        prior: Positive integer masses on the outcomes first..last, such as `predictions.PowerLaw(...).compile(grid)`.
        epsilon: The price, exact.
        source: The release's source.
        rows_per_unit: The most rows that one protected unit has in the table: K, 1 for rows.
        unit: The protected unit.

    Returns:
        The outcome; the caller turns it into a radius by the grid.

    >>> from sidelight.grid import Grid
    >>> from sidelight.noise import OSEntropy
    >>> from sidelight.predictions import Cauchy
    >>> prior = Cauchy(0, 100).compile(Grid(resolution=Fraction(1), first=0, last=10**6, dither_bits=0))
    >>> with Source(OSEntropy()) as source:
    ...     radius = select_radius(lambda j: min(j, 1000), prior, epsilon=20, source=source)
    >>> 900 < radius
    True
    """
    gap_slope = _slope(epsilon, rows_per_unit)
    if prior.first == prior.last:
        return prior.first
    view = _RowsWithin(inside, prior.first, prior.last)
    with source.paying(selection_price(gap_slope.spread(rows_per_unit), "how far to reach", unit=unit)):
        return draw(Rings(view, prior, replace(gap_slope, target=view.size)), source)


def rows_near(ranks: Ranks, grid: Outcomes, centre: float, radii: Outcomes) -> Inside:
    """Count the rows between centre - R and centre + R, R = radii.reach(j): for any two grids, such as those of floats.

    A row in the same cell as an end counts as inside. Rounding of the two ends is monotone in R, so a row that is
    inside stays inside as j grows, which is all that the guarantee asks.

    Args:
        ranks: Of the column on its grid.
        grid: That grid.
        centre: Public: released before, or predicted.
        radii: The grid of radii, first outcome 0, on which the prior was compiled.
    """

    def inside(j: int) -> int:
        radius = radii.reach(j)
        low = grid.index_of(max(centre - radius, -sys.float_info.max))
        high = grid.index_of(min(centre + radius, sys.float_info.max)) + (1 << grid.dither_bits)
        return ranks.below(high) - ranks.below(low)

    return inside


def _slope(epsilon: Amount, rows_per_unit: int) -> Gap:
    """Return the score with one unit of excess every K/ε' rows.

    The floored rank score has the slope ε'/2; at twice the epsilon it is ε', with the sliver for the rounding of the
    weights already taken off.
    """
    each = positive(epsilon, name="epsilon") / whole(rows_per_unit, name="rows_per_unit")
    if each < SMALLEST_EPSILON:
        raise RangeError(
            f"epsilon / rows_per_unit must be at least 2**-60, got {epsilon} / {rows_per_unit}; split it over fewer "
            "releases"
        )
    return gap_score(0, Fraction(1, 2), 2 * each, "floor")


class _RowsWithin:
    """The rows outside the first outcome and inside the last, as ranks: `below(j)` counts those within j.

    Rows inside the first outcome are inside all, and rows outside the last outside all: both add a constant to N, which
    changes no weight. So G(j) = size - below(j) is N(j) up to a constant, and the first outcome has rank 0 as `Rings`
    takes for granted.
    """

    __slots__ = ("_first", "_inside", "_last", "_skipped", "size")

    def __init__(self, inside: Inside, first: int, last: int) -> None:
        self._inside, self._first, self._last = inside, first, last
        self._skipped = inside(first)
        self.size = inside(last) - self._skipped

    def below(self, index: int) -> int:
        """Count the rows within an outcome."""
        return self._inside(min(max(index, self._first), self._last)) - self._skipped

    def order(self, k: int) -> int:
        """Return the last outcome that has fewer than k rows within, 1 <= k <= size."""
        return last_where(lambda index: self.below(index) < k, self._first, self._last)

    def __repr__(self) -> str:
        return "Rows(private)"

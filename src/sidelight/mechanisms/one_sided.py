"""Select how far to reach: a radius that leaves few rows outside, by a score that one row moves one way only.

The exponential mechanism with N(R) = number of rows outside radius R as its cost. Adding a row never lowers N anywhere,
so the whole ε is the slope where a two-sided rank score has half of it, and no target rank is needed: what keeps the
radius small is the prior (summaries proof page, Theorem 4). The ring sampler of the rank selection draws it exactly.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias, Unpack

from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.grid import Outcomes
from sidelight.guarantees import Amount, BoundedRange, Claims, Context, Row, Unit, native_claims, positive
from sidelight.mechanisms.price import selection_price
from sidelight.mechanisms.rank_selection import SMALLEST_EPSILON, draw
from sidelight.mechanisms.rings import Gap, Masses, Rings, gap_score
from sidelight.noise import Source

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
        inside: Counts the rows within outcome j: `rows_around`, `rows_near`, `rows_up_from`, `rows_down_from`, or any
            private, non-decreasing function to which one row adds 0 or 1, 1 from some j on.
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


def radius_claims(epsilon: Amount, **context: Unpack[Context]) -> Claims:
    """Return what `select_radius` proves for one unit of at most the stated rows."""
    return native_claims(BoundedRange(epsilon, **context), mechanism="exponential")


def rows_around(ranks: Ranks, centre: int) -> Inside:
    """Count the rows with |index - centre| <= j, from ranks on a grid of equal steps.

    >>> import numpy as np
    >>> from sidelight.aggregates.ranks import ranks_of_codes
    >>> from sidelight.grid import Grid
    >>> ranks = ranks_of_codes(np.array([2, 5, 6, 9]), Grid(resolution=Fraction(1), dither_bits=0), None)
    >>> [rows_around(ranks, 5)(j) for j in range(5)]
    [1, 2, 2, 3, 4]
    """
    return lambda j: ranks.below(centre + j + 1) - ranks.below(centre - j)


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


def rows_up_from(ranks: Ranks, lower: int) -> Inside:
    """Count the rows with an index of at most lower + j: for a declared lower bound, where no row lies below it."""
    return lambda j: ranks.below(lower + j + 1)


def rows_down_from(ranks: Ranks, upper: int) -> Inside:
    """Count the rows with an index of at least upper - j: for a declared upper bound."""
    size = ranks.size
    return lambda j: size - ranks.below(upper - j)


def _slope(epsilon: Amount, rows_per_unit: int) -> Gap:
    """Return the score with one unit of excess every K/ε' rows.

    The floored rank score has the slope ε'/2; at twice the epsilon it is ε', with the sliver for the rounding of the
    weights already taken off.
    """
    if isinstance(rows_per_unit, bool) or not isinstance(rows_per_unit, int) or rows_per_unit < 1:
        raise RangeError(f"rows_per_unit must be a whole number of at least 1, got {rows_per_unit!r}")
    each = positive(epsilon, name="epsilon") / rows_per_unit
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
        low, high = self._first, self._last  # below(low) < k <= below(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.below(middle) < k else (low, middle)
        return low

    def __repr__(self) -> str:
        return "Rows(private)"

"""Select an outcome whose rank is near a target: the exponential mechanism with a prior, exact on the machine.

Hand-made because nothing offers it: libraries list every candidate, have no base measure, or draw in floating point,
where rounding leaks (Mironov 2012). Here every step is integer arithmetic on a public finite set of outcomes.
"""

from __future__ import annotations

from fractions import Fraction

from sidelight.aggregates.ranks import Ranks
from sidelight.errors import RangeError
from sidelight.guarantees import BoundedRange, Claims, native_claims
from sidelight.mechanisms.price import selection_price
from sidelight.mechanisms.rings import DECAY, Decay, Masses, Rings, Score, gap_score
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
    the machine and for every prior (quantiles proof page, Theorem 3).

    Accuracy: with probability 1 - β the rank is off by at most (2Δ/ε) log(1/(β ψ)) more than it must be, ψ the prior's
    mass between the two records around the quantile.

    Arguments: `ranks` of the records that this mechanism may see (private, size included); `target` q and `epsilon`
    exact; `prior` on exactly first..last. `score="floor"` rounds q n down, with Δ = 1: the paper's mechanism. The time
    depends on the data (number of rings and trials) and is not protected.

    >>> import numpy as np
    >>> from sidelight.aggregates.ranks import ranks_of_codes
    >>> from sidelight.grid import Grid
    >>> from sidelight.noise import OSEntropy
    >>> from sidelight.predictions import Cauchy
    >>> grid = Grid(resolution=Fraction(1), dither_bits=0)
    >>> prior, ranks = Cauchy(0, 10).compile(grid), ranks_of_codes(np.arange(1000), grid, None)
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
    if not isinstance(target, Fraction) or not 0 < target < 1:
        raise RangeError(f"the target level must be a Fraction between 0 and 1, got {target!r}")
    if not isinstance(epsilon, Fraction) or epsilon < SMALLEST_EPSILON:
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

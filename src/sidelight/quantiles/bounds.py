"""How far off a private quantile can be, as functions of public assumptions (quantiles proof page, section 4).

The error is counted in ranks: the gap |#{records below the output} - q n|. psi is the prior mass of the optimal
interval; when it comes from an assumption ("the interval is at least this wide") the bound may be published. When it
comes from the data it is a diagnostic and must stay private: see `evaluate`. Without an assumption, every outcome of a
public grid has a least share of the prior's mass, and a selection finds the best outcome at the price of the logarithm
of that share, whatever records are around it (section 4.7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sidelight.errors import RangeError
from sidelight.grid import CODE_LIMIT, FLOAT_CODE_LIMIT, FloatGrid, Grid, Outcomes
from sidelight.guarantees.amounts import Amount, positive
from sidelight.mechanisms.rings import Adaptation as Adaptation
from sidelight.predictions import Mixture, Prior, ScaleFree
from sidelight.predictions.compiled import UNIT_BITS
from sidelight.predictions.histogram import EVERYWHERE_BITS
from sidelight.quantiles.spread_bounds import FACTOR, spread_bounds
from sidelight.quantiles.tree import Pick, QuantileTree, Score, exact_levels
from sidelight.readable import at_least
from sidelight.release import NO_ASSUMPTION, TailBound

#: Equal records that the bound allows for where no size is public: each 2**20 of them share one fine index.
EQUAL_RECORDS = 2**20
#: How many groups of this many equal records there may be: more than 2**40 records are on no machine.
_GROUPS = 2**20
#: The part of the failure probability that is kept for fine indices with more records than expected.
_CROWDED = 2.0**-10
#: What the floors of the integer masses, and the unit that every index has besides, change a share by.
_ROUNDING = 1e-6
#: The part of the failure probability that is kept for the noise of a released number of records.
_OF_SIZE = 1 / 16
#: Up to this many levels the likely error of a tree is this many times that of evenly spread records: what clusters
#: need (`python -m benchmarks.likely_errors`). Of more levels the union over them leaves as much room.
_FEW_LEVELS, _FEW_CALIBRATED = 3, 1.6


def log_least_share(prior: Prior, grid: Outcomes) -> float:
    """Return log(1/psi), psi the least share of the prior that any fine index has, in every range.

    Every index has a unit of 2**128 (proof page, section 1.4). The scale-free prior gives each more: on floats its part
    that is even in the index, on steps a cell of at most as many codes as the largest one.
    """
    indices = grid.fine_last - grid.fine_first + 1
    unit = UNIT_BITS * math.log(2) + math.log1p(indices / 2**UNIT_BITS)
    if isinstance(prior, Mixture):
        shares = zip(prior.priors, prior.weights, strict=True)
        return min(unit, *(log_least_share(part, grid) - math.log(weight) for part, weight in shares))
    if not isinstance(prior, ScaleFree):
        return unit
    fine = grid.dither_bits * math.log(2)
    if isinstance(grid, Grid):
        if prior.resolution is not None or (prior.signs == "positive" and grid.first < 0):
            return unit
        largest = min(max(abs(grid.first), abs(grid.last)), CODE_LIMIT - 1) + 1
        return min(unit, math.log(prior.cells()) + math.log(largest) + fine + _ROUNDING)
    if prior.signs == "positive" and grid.first < 0:
        return unit
    codes = (2 if prior.signs == "both" else 1) * (FLOAT_CODE_LIMIT + 1)
    return min(unit, EVERYWHERE_BITS * math.log(2) + math.log(codes) + fine + _ROUNDING)


def equal_at_one_index(equal: int, dither_bits: int) -> tuple[float, float]:
    """Return a line a + b log(1/beta) that no fine index's number of records exceeds, but with probability beta/1024.

    Up to `equal` records of one code take 2**dither_bits indices at random: m of them share one with probability at
    most 2**dither_bits (equal / 2**dither_bits)**m / m!, for each of the groups that there may be.

    >>> [round(each, 2) for each in equal_at_one_index(2**20, 20)]
    [18.0, 0.34]
    """
    expected = equal / 2**dither_bits
    most = math.log(2.0**dither_bits * _GROUPS / _CROWDED)
    count = max(1, math.ceil(math.e * expected))
    while most + count * math.log(expected) - math.lgamma(count + 1) > 0:
        count += 1
    return float(count), 1 / math.log((count + 1) / expected)


def gap_bound_single(
    *, epsilon: Amount, beta: float, psi: float, level: Amount = Fraction(1, 2), score: Score = "exact"
) -> float:
    """Bound the gap of one quantile, above the best gap that any output has, with probability 1 - beta.

    Accuracy: gap <= best + (2 Delta / epsilon) log(1 / (beta psi)), Delta = max(q, 1-q) for the exact score, 1 for the
    floored one. Without ties the best gap is at most 1/2 (exact) or 0 (floor).

    >>> round(gap_bound_single(epsilon=1, beta=0.05, psi=1 / 110), 3)  # a median within 110 ages
    7.696
    """
    (q,) = exact_levels(level)
    pick = Pick(position=0, level=q, relative_level=q, epsilon=positive(epsilon, name="epsilon"))
    return float(2 * pick.sensitivity(score) / pick.epsilon) * -math.log(_probability(beta) * _mass(psi))


def gap_bounds_tree(
    tree: QuantileTree,
    *,
    beta: float,
    psi: float | Sequence[float],
    adaptation: Adaptation = "conditional",
    score: Score = "exact",
) -> tuple[float, ...]:
    """Bound the gap of every level of a tree at once, with probability 1 - beta, for data without ties (or dithered).

    Accuracy: with L = log(sum_i 1/psi_i) + log(1/beta), top-down from E = 0 at the ends,
    E_i = (2 Delta_i / eps_i) L + t + c ((1-q~) E_lo + q~ E_hi), where c = 1 for the conditional adaptation (psi_i: mass
    under the prior restricted to the node's range, on the node's data) and 2 for the edge adaptation (psi_i: mass under
    the original prior, on all data); in a K-ary node the largest bound holds for all siblings. t is the gap of the best
    output: 1/2 for the exact score; with floors, which do not telescope, 2 (conditional) or 4 (edge).

    >>> from sidelight.quantiles.tree import quantile_tree
    >>> tree = quantile_tree([0.25, 0.5, 0.75], epsilon=1)
    >>> [round(bound) for bound in gap_bounds_tree(tree, beta=0.05, psi=0.001)]
    [34, 23, 34]
    """
    masses = [psi] * len(tree.levels) if isinstance(psi, int | float) else list(psi)
    if len(masses) != len(tree.levels):
        raise RangeError(f"psi needs one mass for each of the {len(tree.levels)} levels, got {len(masses)}")
    stretch = math.log(math.fsum(1 / _mass(mass) for mass in masses)) - math.log(_probability(beta))
    best = 0.5 if score == "exact" else 2.0 if adaptation == "conditional" else 4.0
    return _recursion(tree, stretch=stretch, best=best, adaptation=adaptation, score=score)


def _recursion(
    tree: QuantileTree, *, stretch: float, best: float, adaptation: Adaptation, score: Score, ties: float = 0.0
) -> tuple[float, ...]:
    """Add up the gaps of every path; `ties` records at one outcome make the best gap larger by a share of them.

    The share is max(q, 1-q), q being relative: the node's own records are scored against its own range.
    """
    inherited = 1.0 if adaptation == "conditional" else 2.0
    bounds = [0.0] * len(tree.levels)
    for node in tree.nodes():  # parents first
        below = 0.0 if node.lower is None else bounds[node.lower]
        above = 0.0 if node.upper is None else bounds[node.upper]
        worst = 0.0
        for pick in node.picks:
            q = float(pick.relative_level)
            own = float(2 * pick.sensitivity(score) / pick.epsilon) * stretch + best + ties * max(q, 1 - q)
            worst = max(worst, own + inherited * ((1 - q) * below + q * above))
        for pick in node.picks:  # sorting may swap siblings
            bounds[pick.position] = worst
    return tuple(bounds)


def _probability(beta: float) -> float:
    if not 0 < beta < 1:
        raise RangeError(f"beta must lie strictly between 0 and 1, got {beta}; 0.05 is a common choice")
    return beta


def _mass(value: float) -> float:
    if not 0 < value <= 1:
        raise RangeError(f"psi is a prior mass and must lie in (0, 1], got {value}")
    return value


# The error that a release of quantiles states about itself: a bound in ranks under one public assumption.

#: What a grid of floats adds, in ranks: a record that shares a code with the released value. Under the assumption two
#: different ones never do (a code is 2**-48 of a power of two), so it is one at most.
FLOAT_SHARE = 1.0


def expected_gap(
    tree: QuantileTree,
    priors: Sequence[Prior],
    grid: Outcomes,
    *,
    size: int | None = None,
    deviation: float | None = None,
) -> TailBound:
    """Bound the error of all levels at once, in ranks, at any confidence: wherever records lie, and the likely one.

    `size` is a public number of records, declared or released, never the true one; `deviation` that of its noise.
    """
    anywhere = gap_anywhere(tree, priors, grid, size=size, deviation=deviation)
    # where records are spread out: the likely error
    share = FLOAT_SHARE if isinstance(grid, FloatGrid) else 0.0
    even, slopes = spread_bounds(tree)
    shared = tuple(each + share for each in even)
    spread = TailBound(unit="ranks", assumption=_evenly(grid), fixed=shared, per_log=slopes)
    return anywhere.with_likely(spread, calibrated=_FEW_CALIBRATED if len(tree.levels) <= _FEW_LEVELS else 1.0)


def gap_anywhere(
    tree: QuantileTree,
    priors: Sequence[Prior],
    grid: Outcomes,
    *,
    size: int | None = None,
    deviation: float | None = None,
) -> TailBound:
    """Bound the error of all levels at once wherever the records lie (proof page, Theorem 11).

    Accuracy: `gap_bounds_tree` with the least share psi that any outcome has of the prior, and as the gap of the best
    output what the records at one fine index can add: a number that is exceeded with probability beta / 1024. No value
    is off by more than max(q, 1-q) of all records, and a released number of them, less its noise, says how many.
    """
    equal = EQUAL_RECORDS if size is None else 2 * max(size, 1)
    shares = [log_least_share(prior, grid) for prior in priors]
    largest = max(shares)
    stretch = largest + math.log(math.fsum(math.exp(each - largest) for each in shares)) - math.log(1 - 1e-3 - _OF_SIZE)
    crowd, more = equal_at_one_index(equal, grid.dither_bits)
    share = FLOAT_SHARE if isinstance(grid, FloatGrid) else 0.0
    fixed = _recursion(tree, stretch=stretch, best=0.0, adaptation="conditional", score="exact", ties=crowd)
    per_log = _recursion(tree, stretch=1.0, best=0.0, adaptation="conditional", score="exact", ties=more)
    lines = [(start + share, slope) for start, slope in zip(fixed, per_log, strict=True)]
    if size is not None and deviation is not None:
        # Laplace and Gaussian noise exceed 1 + deviation (1 + log(1/beta)) with probability beta at most
        most = size + 1 + deviation * (1 - math.log(_OF_SIZE))
        sides = [float(max(level, 1 - level)) for level in tree.levels]
        all_of_them = [(side * most, side * deviation) for side in sides]
        pairs = zip(lines, all_of_them, strict=True)
        lines = [min(pair, key=lambda line: line[0] + line[1] * math.log(20)) for pair in pairs]  # at 95 %
    below = f" and all are{_cut(grid)[1:].rstrip(',')}" if _cut(grid) else ""
    rounded = "" if isinstance(grid, FloatGrid) or grid.snap == "nearest" else "; values are rounded down to the step"
    return TailBound(
        unit="ranks",
        assumption=f"{NO_ASSUMPTION}, but that at most {equal:,} records are equal{below}{rounded}",
        fixed=tuple(line[0] for line in lines),
        per_log=tuple(line[1] for line in lines),
    )


def _evenly(grid: Outcomes) -> str:
    text = (
        f"records{_cut(grid)} are about evenly spread around each quantile: k times as many ranks hold at most "
        f"{FACTOR:g} k times as much of what was expected"
    )
    if isinstance(grid, FloatGrid):
        return text
    return text if grid.snap == "nearest" else text + "; values are rounded down to the step"


def _cut(grid: Outcomes) -> str:
    if not isinstance(grid, FloatGrid) and (grid.first == -CODE_LIMIT or grid.last == CODE_LIMIT):
        limit = float(CODE_LIMIT * grid.resolution)  # beyond 2**61 steps records are clamped
        return f", below {at_least(limit)} in size,"
    return ""

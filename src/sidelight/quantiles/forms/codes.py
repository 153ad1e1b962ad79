"""The form `codes`: a grid with few codes is counted code by code, and quantiles are read off the counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.ranks import Ranks
from sidelight.grid import Outcomes
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Row
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.quantiles.forms.count_noise import ROUNDING, NoiseTerms, Selections, linear_bound
from sidelight.quantiles.forms.least_squares import Round, agreed_counts, ranks_of, texts
from sidelight.release import NO_ASSUMPTION, TailBound

Floats = NDArray[np.float64]

#: The share of the groups of codes, where there are groups.
_GROUP_SHARE = Fraction(35, 100)
#: Up to this many codes are counted alone.
_UNGROUPED = 100


@dataclass(frozen=True, kw_only=True)
class CodesPlan:
    """How the budget of one record is divided between groups of consecutive codes and the codes themselves.

    Guarantee: a record has one code and is in one group, so that the two rounds cost what their shares add up to: all.
    """

    codes: int
    budget: Budget

    @property
    def width(self) -> int:
        """How many codes a group has; 0 if there are no groups."""
        return math.isqrt(self.codes - 1) + 1 if self.codes > _UNGROUPED else 0

    @property
    def rounds(self) -> tuple[Budget, ...]:
        """What the rounds of counts cost one record: groups and codes, or codes alone."""
        if not self.width:
            return (self.budget,)
        return self.budget.part(_GROUP_SHARE), self.budget.part(1 - _GROUP_SHARE)


@dataclass(frozen=True, eq=False)
class CountedRounds:
    """What was counted, as released, and the ranks that it makes together."""

    noisy: tuple[NDArray[np.int64], ...]
    variances: tuple[float, ...]
    parents: NDArray[np.intp]  # of codes: the group of each

    @property
    def rounds(self) -> list[Round]:
        """What was counted as rounds: groups and codes, or codes alone."""
        found = [Round.of(self.noisy[0], self.variances[0])]
        if len(self.noisy) == 2:
            found.append(Round.of(self.noisy[1], self.variances[1], self.parents))
        return found

    @cached_property
    def ranks(self) -> Floats:
        """The ranks below each code, and at last N."""
        return ranks_of(agreed_counts(self.rounds)[-1])

    def details(self, plan: CodesPlan) -> dict[str, Any]:
        """Return what was released on the way, in strings."""
        return {"width": str(plan.width), "counts": [texts(each.tolist()) for each in self.noisy]}


def release_codes(
    ranks: Ranks, levels: Sequence[Fraction], *, grid: Outcomes, plan: CodesPlan, source: Source
) -> tuple[tuple[int, ...], CountedRounds]:
    """Release for each level the largest code with at most that share of the records below it.

    Guarantee: `plan.budget` for adding or removing one record; exact on the machine. Needs no dither.
    """
    cuts = [code << grid.dither_bits for code in range(grid.first, grid.last + 1)]
    below = np.array([*(ranks.below(cut) for cut in cuts), ranks.size], np.int64)
    counts = np.diff(below)
    width = plan.width
    parents = np.arange(counts.size) // width if width else np.zeros(0, np.intp)
    truths = [np.add.reduceat(counts, np.arange(0, counts.size, width)), counts] if width else [counts]
    noisy, variances = [], []
    for truth, budget in zip(truths, plan.rounds, strict=True):
        noise = budget.on(Bounded(truth, Fraction(1), "l1", Neighbours.ADD_REMOVE, Row()))
        noisy.append(np.asarray(noise.release(source)))
        variances.append(noise.deviation**2)
    found = CountedRounds(tuple(noisy), tuple(variances), parents)
    total = float(found.ranks[-1])
    places = np.searchsorted(found.ranks[:-1], [float(level) * total for level in levels], "right") - 1
    return tuple(cuts[max(int(place), 0)] for place in places), found


def codes_bound(
    plan: CodesPlan, released: CountedRounds, levels: Sequence[Fraction | float], *, both_sides: bool = False
) -> TailBound:
    """Bound the gaps of what `codes` released: nothing is assumed about the data.

    The released code of a level is off by as much as the noise of the rank at one of its ends exceeds the released
    distance of that rank from the level's. The failure probability is shared out by how near the levels lie to the ends
    (three quarters of it), and evenly (the rest). With `both_sides` ranks at ends of codes must be near in both
    directions, as in a band around them; the code of a level is off to one side of each end only.
    """
    shares = np.array([float(level) for level in levels])
    ends = released.ranks
    cell = np.clip(np.searchsorted(ends[:-1], shares * float(ends[-1]), "right") - 1, 0, ends.size - 2)
    # Distance and noise are linear in the level as long as the code is the same: its outermost levels speak for all.
    outermost = np.flatnonzero(np.diff(cell, prepend=-1).astype(bool) | np.diff(cell, append=-1).astype(bool))
    asked, code = shares[outermost], cell[outermost]
    # the ranks below the code, and up to its end
    cuts, both_asked = np.concatenate([code, code + 1]), np.concatenate([asked, asked])
    noise, times = _noise_of_codes(plan, released, cuts, both_asked)
    margin = np.abs(ends[cuts] - both_asked * float(ends[-1]))
    none = Selections.none(margin.size)
    terms = NoiseTerms(
        laplace=noise if plan.budget.is_pure else (),
        gaussian=() if plan.budget.is_pure else noise,
        times=times,
        chance=np.zeros(margin.size),
        selections=none.matrix,
        uneven=none.uneven,
        rows=np.full(margin.size, float(margin.size)),
        apart=0.0 if both_sides else np.inf,
        sharp=True,
    )
    found, per_log = linear_bound(terms, above=-margin)
    fixed, slope = ((found - margin).reshape(2, -1).max(axis=0), per_log.reshape(2, -1).max(axis=0))
    return TailBound(
        unit="ranks",
        assumption=NO_ASSUMPTION,
        fixed=tuple(np.interp(shares, asked, fixed).tolist()),
        per_log=tuple(np.interp(shares, asked, slope).tolist()),
    )


def _noise_of_codes(
    plan: CodesPlan, released: CountedRounds, cuts: NDArray[np.intp], levels: Floats
) -> tuple[list[Floats], list[Floats]]:
    """Return what `noise_of` does for the sums of codes below `cuts` minus a share of all, and how often each occurs.

    Codes have one variance, and so have groups: a row of the whole matrix (2**16 codes) holds at most seven different
    numbers, which depend on whether a code, and its group, lies below the cut.
    """
    codes, width = plan.codes, plan.width
    more = 0.0 if plan.budget.is_pure else ROUNDING
    deviations = [math.sqrt(each + more) for each in released.variances]
    inside, outside = 1 - levels, -levels  # the weights of a code below the cut, and of one above
    if not width:
        return [np.stack([inside, outside], axis=1) * deviations[0]], [np.stack([cuts, codes - cuts], axis=1) * 1.0]
    groups = -(-codes // width)
    last = codes - (groups - 1) * width  # the width of the last group
    full, rest = np.divmod(cuts, width)  # groups below the cut, and codes below it of the group that it parts
    parted = np.where(full < groups - 1, width, last) * (full < groups)
    after = np.maximum(groups - 2 - full, 0)  # whole groups above the cut, but for the last one
    final = (full < groups - 1) * 1.0
    mean = np.where(parted > 0, rest / np.maximum(parted, 1), 0.0) - levels

    def share(size: NDArray[np.integer] | int) -> Floats:  # of a group's own count in its estimate
        own = np.asarray(size, np.float64) * released.variances[1]
        return np.asarray(own / (own + released.variances[0]))

    usual, smaller, own = share(width), share(last), share(np.maximum(parted, 1))
    of_groups = np.stack([usual * inside, own * mean, usual * outside, smaller * outside], axis=1)
    of_codes = np.stack(
        [
            (1 - usual) * inside,
            inside - own * mean,
            outside - own * mean,
            (1 - usual) * outside,
            (1 - smaller) * outside,
        ],
        axis=1,
    )
    times = [
        np.stack([full, parted > 0, after, final], axis=1) * 1.0,
        np.stack([full * width, rest, parted - rest, after * width, final * last], axis=1) * 1.0,
    ]
    return [of_groups * deviations[0], of_codes * deviations[1]], times


def moved_ranks(released: CountedRounds) -> Floats:
    """Return by how much the rank after each code was moved when ranks were made to rise: their noise is without it."""
    summed = np.cumsum(agreed_counts(released.rounds)[-1])
    return np.asarray(np.abs(summed - released.ranks[1:]))

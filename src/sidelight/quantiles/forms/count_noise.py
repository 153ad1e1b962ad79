"""How far ranks from noisy counts can be off: the noise of a rank is a known sum of independent noises.

Everything is linear before ranks are made to rise, which moves no rank further than the worst of those that it joins.
The bound is Chernoff's, with the moments of the noise as it is: Laplace or Gaussian, and the chance in how many of a
cell's records lie below a place in it. All of these are log-concave (or nearly so: the chance is taken for a Gaussian),
which is worth another factor: P(X > h) <= exp(K(t) - t h) / (t s), s the deviation of the law tilted by t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight.quantiles.forms.least_squares import UNCOUNTED, Round
from sidelight.quantiles.tree import QuantileTree
from sidelight.release import NO_ASSUMPTION, TailBound

Floats = NDArray[np.float64]

#: The confidence at which the linear bound touches the best one; elsewhere it is a valid bound and a little larger.
_TOUCHING = 0.95
#: Multiples that are tried of the exponent that were best for Gaussian terms; fewer, where they decide shares alone.
_TRIED = np.linspace(0.15, 1.0, 18)
_ROUGHLY = _TRIED[3::4]
#: Numbers that are computed at once, of all steps and rows: few enough to stay in the cache.
_CELLS = 1 << 13
#: How much of the failure probability is shared out where it makes the largest bound smaller; the rest as asked.
_LEVELLED = 0.75
#: The reciprocal of a share that a row has which is among the largest of all.
_LARGE = 8.0


def noise_coefficients(rounds: Sequence[Round], weights: Floats) -> list[Floats]:
    """Return by how much each noisy count enters sums of agreed counts: one matrix a round, one row a sum.

    The transposed passes of `agreed_counts`, first down, then up; `weights` are those of the last round's cells.
    """
    last = len(rounds) - 1
    noise = [each.variances for each in rounds]
    own = list(noise)
    share = [np.ones_like(each) for each in own]  # of a cell's own count in its estimate
    spread: list[Floats] = []
    for above in range(last - 1, -1, -1):
        total = np.asarray(np.bincount(rounds[above + 1].parents, own[above + 1], noise[above].size), np.float64)
        parted = total > 0
        share[above] = np.where(parted, total / (total + noise[above]), 1.0)
        own[above] = share[above] * noise[above]
        spread.insert(0, total)
    down = [np.zeros((weights.shape[0], each.counts.size)) for each in rounds]
    down[last] = weights.copy()
    pulled: list[Floats] = []
    for above in range(last - 1, -1, -1):
        sums = _summed(down[above + 1] * own[above + 1], rounds[above + 1].parents, noise[above].size)
        pull = np.divide(sums, spread[above], out=np.zeros_like(sums), where=spread[above] > 0)
        down[above] += pull
        pulled.insert(0, pull)
    found = []
    for place in range(last + 1):
        found.append(share[place] * down[place])
        if place < last:
            handed = (1 - share[place]) * down[place] - pulled[place]
            down[place + 1] = down[place + 1] + handed[:, rounds[place + 1].parents]
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class NoiseTerms:
    """What sums of independent terms consist of, one row a sum; every entry is a coefficient times a deviation."""

    laplace: Sequence[Floats]  # matrices of Laplace terms: noise of counts
    gaussian: Sequence[Floats]
    chance: Floats  # for each row the variance proxy of what else is sub-Gaussian in it
    selections: Floats  # a matrix of terms whose density is at most exp(uneven) times that of a Laplace term
    uneven: Floats  # for each row the sum of those logarithms
    rows: Floats  # the reciprocal of each row's share of the failure probability; the shares add up to at most one
    even: Floats | float = 0.0  # for each row half the width of a further term that is uniform around zero
    # A sum that is shifted by up to d either way exceeds h + d to one side as it would h, to the other as h + 2 d: 0
    # for a sum that is bounded to both sides alike, infinite for one that is to one side alone.
    apart: Floats | float = 0.0
    # Whether the density of a sum of many terms is bounded by its characteristic function as well, which makes bounds
    # up to a tenth smaller: for sums that are nothing but noise. Others keep the room for what is assumed.
    sharp: bool = False
    times: Sequence[Floats] | None = None  # how often each entry of the matrices occurs; left out, once


def linear_bound(terms: NoiseTerms, *, above: Floats | None = None) -> tuple[Floats, Floats]:
    """Bound the size of every row's sum at once, as fixed + per_log · log(1 / failure probability).

    Guarantee: with probability 1 - beta no row exceeds its bound, for every beta: Chernoff's bound for each row at its
    share of beta, at the exponent that is best for a beta of 0.05; at another exponent it is larger, and true. With
    `above`, what will be added to each row's bound, three quarters of beta are shared out anew, so that the largest of
    all is as small as can be.
    """
    moments = _Moments.of(terms)
    if above is None:
        return moments.line(np.log(terms.rows), _TRIED)
    fixed, per_log = moments.line(np.full(terms.chance.size, np.log(_LARGE)), _ROUGHLY)
    shares = np.full(terms.chance.size, 1 / _LARGE)
    for last in (False, True):
        alone = fixed + per_log * np.log(shares)  # if the row had all of beta: a bound at every share, not at one alone
        levelled = _levelled(above + alone - per_log * np.log(1 - _TOUCHING), per_log)
        shares = _LEVELLED * levelled + (1 - _LEVELLED) / terms.rows
        fixed, per_log = (alone - per_log * np.log(shares), per_log) if last else moments.line(-np.log(shares), _TRIED)
    return fixed, per_log


def _even_growth(x: Floats) -> Floats:
    """Return log(sinh(x) / x), the logarithm of the moment of what is evenly spread over -1 to 1."""
    large = np.maximum(x, 1e-3)  # below, the series is exact to more digits than there are
    return np.asarray(np.where(x < 1e-3, x * x / 6, large + np.log(-np.expm1(-2 * large) / (2 * large))))


def _levelled(heights: Floats, slopes: Floats) -> Floats:
    """Return shares w that add up to one and make the largest of heights - slopes · log(w) as small as can be."""
    low, high = float(heights.min()), float((heights + slopes * np.log(heights.size)).max())
    eighths = np.arange(9.0)
    for _ in range(10):  # eight parts at a time: thirty halvings
        ends = eighths * ((high - low) / 8) + low
        ends[-1] = high
        totals = np.exp(np.minimum(heights - ends[1:-1, None], 0.0) / slopes).sum(axis=1)
        part = np.count_nonzero(totals > 1)
        low, high = ends[part], ends[part + 1]
    found = np.exp(np.minimum(heights - high, 0.0) / slopes)
    return np.asarray(found / found.sum())


@dataclass(frozen=True, eq=False)
class _Moments:
    """What the moments of every row's sum are made of."""

    squares: Floats
    fourths: Floats
    smooth: Floats
    largest: Floats
    selected: NDArray[np.intp]
    chosen: Floats
    uneven: Floats
    even: Floats | float
    apart: Floats | float
    sharp: bool

    @classmethod
    def of(cls, terms: NoiseTerms) -> _Moments:
        rows = terms.chance.size
        selected = np.flatnonzero(terms.selections.any(axis=1))
        return cls(
            # A Laplace term of variance 2 b² has log-moment -log(1 - x) <= x + x² / (2 (1 - x)) at t, x = (b t)².
            squares=_row_sums(terms.laplace, 2, rows, terms.times) / 2,
            fourths=_row_sums(terms.laplace, 4, rows, terms.times) / 4,
            smooth=(terms.chance + _row_sums(terms.gaussian, 2, rows, terms.times)) / 2,
            largest=_largest(terms.laplace, rows, terms.times),
            selected=selected,
            chosen=terms.selections[selected] ** 2 / 2,
            uneven=terms.uneven,
            even=terms.even,
            apart=terms.apart,
            sharp=terms.sharp,
        )

    def line(self, wanted: Floats, tried: Floats) -> tuple[Floats, Floats]:
        """Return fixed and per_log of each row's bound, with the logarithm of how often it may fail, times 1 / beta."""
        squares, smooth, selected, chosen = self.squares, self.smooth, self.selected, self.chosen
        touching = wanted - np.log(1 - _TOUCHING)
        scale = np.maximum(self.largest, 1e-9)
        scale[selected] = np.maximum(scale[selected], np.sqrt(chosen.max(axis=1, initial=0.0)))
        total = squares + smooth
        total[selected] += chosen.sum(axis=1)
        # without heavy terms the best exponent is sqrt(touching / total): tried in multiples, below the limit 1 / scale
        gauss = np.sqrt((touching + np.log(2)) / np.maximum(total, 1e-18))
        flat = self._flatness(total, scale) if self.sharp else 0.0
        best, exponent = np.full(wanted.size, np.inf), np.zeros(wanted.size)
        at_once = max(1, _CELLS // max(chosen.size, wanted.size, 1))
        for start in range(0, tried.size, at_once):
            t = np.minimum(tried[start : start + at_once, None] * gauss, 0.97 / scale)  # of each step and row
            squared = t**2
            growth = squared * (squares + smooth) + self.uneven
            growth += squared**2 * self.fourths / (2 * (1 - squared * self.largest**2))
            growth += _even_growth(t * self.even)
            spread = np.broadcast_to(2 * (squares + smooth), t.shape)
            if selected.size:
                tilted = chosen * squared[:, selected, None]
                growth[:, selected] -= np.log1p(-tilted).sum(axis=2)
                spread = spread.copy()
                spread[:, selected] += (2 * chosen * (1 + tilted) / (1 - tilted) ** 2).sum(axis=2)
            # The tilted density is log-concave, hence nowhere above 1 / its deviation: another factor of Chernoff's.
            sides = np.log1p(np.exp(-2 * t * self.apart))
            width = np.maximum(np.sqrt(spread), flat)
            value = (touching + sides + growth - np.log(np.maximum(t * width, 1.0))) / t
            least = value.argmin(axis=0)[None]
            found, at = (np.take_along_axis(each, least, axis=0)[0] for each in (value, t))
            better = found < best
            best, exponent = np.where(better, found, best), np.where(better, at, exponent)
        return best - (touching - wanted) / exponent, 1 / exponent

    @staticmethod
    def _flatness(total: Floats, scale: Floats) -> Floats:
        """Return one over a bound of the density of every row's tilted sum, whatever the exponent; 0 if there is none.

        The density is nowhere above ∫ |φ(u)| du / 2π, φ the characteristic function of the tilted sum. A Laplace term
        of scale b has |φ(u)| <= 1 / (1 + b² u²), tilted or not, and log(1 + b² u²) >= (b / B)² log(1 + B² u²) for B the
        largest scale; a Gaussian one of variance 2 b² has at most as much. So the integral is at most that of
        (1 + B² u²)^-n with n = Σ b² / B², which is √π Γ(n - 1/2) / (B Γ(n)) < √π / (B √(n - 3/4)) for n > 1 (Kershaw).
        """
        largest = scale**2
        return np.asarray(np.where(total > largest, 2 * np.sqrt(np.pi * np.maximum(total - 0.75 * largest, 0.0)), 0.0))


def below_proxy(records: Floats, share: Floats) -> Floats:
    """Return the variance proxy of how many of some records lie below a place that each does with this probability.

    Kearns and Saul's: (1 - 2p) / (2 log((1-p)/p)) a record, which is p (1-p) at 1/2 and near the ends somewhat more.
    """
    p = np.clip(np.asarray(share, np.float64), 1e-12, 1 - 1e-12)
    away = np.abs(p - 0.5) > 1e-6
    ratio = np.where(away, np.log((1 - p) / p), 1.0)
    return np.asarray(np.maximum(records, 0.0) * np.where(away, (1 - 2 * p) / (2 * ratio), 0.25))


def _summed(matrix: Floats, parents: NDArray[np.intp], cells: int) -> Floats:
    """Sum columns by parent, which never falls from column to column."""
    out = np.zeros((matrix.shape[0], cells))
    if parents.size:
        present, starts = np.unique(parents, return_index=True)
        out[:, present] = np.add.reduceat(matrix, starts, axis=1)
    return out


def _row_sums(matrices: Sequence[Floats], power: int, rows: int, times: Sequence[Floats] | None) -> Floats:
    out = np.zeros(rows)
    for place, each in enumerate(matrices):
        squared = each * each
        if times is None:
            out += squared.sum(axis=1) if power == 2 else np.einsum("ij,ij->i", squared, squared)
        else:
            out += (times[place] * (squared if power == 2 else squared * squared)).sum(axis=1)
    return out


def _largest(matrices: Sequence[Floats], rows: int, times: Sequence[Floats] | None) -> Floats:
    """Return the largest scale of a Laplace term of each row."""
    out = np.zeros(rows)
    for place, each in enumerate(matrices):
        sizes = np.abs(each) if times is None else np.where(times[place] > 0, np.abs(each), 0.0)
        out = np.maximum(out, sizes.max(axis=1, initial=0.0))
    return np.asarray(out / np.sqrt(2))


# --- bounds of released levels ----------------------------------------------------------------------------------------

#: Where a value is selected, records and prior may differ in shape by this factor within a cell.
_UNEVEN = 4.0
#: The failure probability for which shares are chosen; they hold for every other one.
DESIGNED = 0.05
#: What a released value's own step, and a rank's fraction, may add.
STEP = 1.0
#: The likely error of counted forms is this many times that of smooth records: what rounded columns need, where an
#: error is the records between a value and its quantile (`python -m benchmarks.likely_errors`).
CALIBRATED = 1.3


@dataclass(frozen=True, eq=False)
class PlacedLevels:
    """For each level: the cell that holds it, its place in there from 0 to 1, and how many records that has."""

    cell: NDArray[np.intp]
    share: Floats
    size: Floats

    @classmethod
    def of(cls, targets: Floats, ends: Floats) -> PlacedLevels:
        """Place targets between ranks from 0 to N."""
        cell = np.clip(np.searchsorted(ends, targets, "right") - 1, 0, ends.size - 2)
        size = ends[cell + 1] - ends[cell]
        share = np.clip((targets - ends[cell]) / np.maximum(size, 1.0), 0.0, 1.0)
        return cls(cell, share, size)

    def weights(self, levels: Floats, cells: int) -> Floats:
        """Return the sums of counts that are each level's rank minus its share of all records."""
        before = (np.arange(cells) < self.cell[:, None]).astype(np.float64)
        before[np.arange(levels.size), self.cell] = self.share
        return before - levels[:, None]


@dataclass(eq=False)
class Selections:
    """What selections were off by: for each level a sum over the picks of its tree, each near a Laplace variable."""

    columns: list[Floats]
    uneven: Floats

    @classmethod
    def none(cls, levels: int) -> Selections:
        """Return that nothing was selected."""
        return cls([], np.zeros(levels))

    def add(self, mine: NDArray[np.intp], tree: QuantileTree) -> None:
        """Add a tree that selected some of the levels: a pick inherits its neighbours' errors in proportion."""
        inherited = np.zeros((len(mine), len(mine)))
        for node in tree.nodes():  # parents first
            for pick in node.picks:
                share = float(pick.relative_level)
                row = inherited[pick.position]
                if node.lower is not None:
                    row += (1 - share) * inherited[node.lower]
                if node.upper is not None:
                    row += share * inherited[node.upper]
                row[pick.position] = 1.0
                self.uneven[mine[pick.position]] = math.log(_UNEVEN)
        scales = np.array([float(2 * pick.sensitivity() / pick.epsilon) for pick in tree.picks])
        columns = np.zeros((self.uneven.size, len(mine)))
        columns[mine] = inherited * scales * math.sqrt(2)
        self.columns.append(columns)

    @property
    def matrix(self) -> Floats:
        """All columns."""
        return np.hstack([np.zeros((self.uneven.size, 0)), *self.columns])


#: The variance that rounding to integers adds to Gaussian noise.
ROUNDING: Final = 1 / 12


def counted_bound(
    counts: NDArray[np.number],
    variance: float,
    cells: NDArray[np.intp],
    levels: Sequence[Fraction],
    *,
    gaussian: bool,
) -> TailBound:
    """Bound the gaps of values that lie in these cells, wherever in them, and wherever the records are.

    A value has at least the records below its cell under it, and at most those and the cell's. Both ranks are known but
    for the noise of sums of counts; `variance` is its variance, before Gaussian noise was rounded.
    """
    shares = np.array([float(level) for level in levels])
    places = np.arange(len(counts))
    lower, upper = (places < (cells + more)[:, None] for more in (0, 1))
    contrasts = np.concatenate([shares[:, None] - lower, upper - shares[:, None]])
    noise = [contrasts * math.sqrt(variance + (ROUNDING if gaussian else 0.0))]
    none = np.zeros(len(contrasts))
    terms = NoiseTerms(
        laplace=() if gaussian else noise,
        gaussian=noise if gaussian else (),
        chance=none,
        selections=np.zeros((len(contrasts), 0)),
        uneven=none,
        rows=np.full(len(contrasts), float(len(contrasts))),
        apart=np.inf,  # an end of a cell lies too far to its own side alone
        sharp=True,
    )
    away = contrasts @ counts
    found, per_log = linear_bound(terms, above=away)
    fixed, slope = ((away + found).reshape(2, -1), per_log.reshape(2, -1))
    return TailBound(
        unit="ranks",
        assumption=NO_ASSUMPTION,
        fixed=tuple(fixed.max(axis=0).tolist()),
        per_log=tuple(slope.max(axis=0).tolist()),
    )


def noise_of(rounds: Sequence[Round], weights: Floats, *, rounded: bool = False) -> list[Floats]:
    """Return the noise of ranks, one row a level: coefficients times deviations, a matrix a round.

    Gaussian noise was `rounded` afterwards; Laplace noise is drawn in integers.
    """
    matrices = noise_coefficients(rounds, weights)
    more = ROUNDING if rounded else 0.0
    deviations = [np.sqrt(np.where(each.variances < UNCOUNTED, each.variances + more, 0.0)) for each in rounds]
    return [matrix * each for matrix, each in zip(matrices, deviations, strict=True)]


def equal_shares(selected: NDArray[np.bool_]) -> Floats:
    """Return the reciprocal of each row's share of the failure probability: selected levels have half, if both occur.

    Every row has a share: between two levels of a cell the noise is linear, but the chance inside it is not.
    """
    rows = np.where(selected, selected.sum(), (~selected).sum()).astype(np.float64)
    return np.asarray(rows * (2.0 if selected.any() and not selected.all() else 1.0))


def least_total(rounds: Sequence[Round], total: float) -> float:
    """Return how many records there are at least: what was released less two deviations of its noise, at least 1."""
    noise = noise_of(rounds, np.ones((1, rounds[-1].counts.size)))
    return max(total - 2 * math.sqrt(sum(float((each**2).sum()) for each in noise)), 1.0)

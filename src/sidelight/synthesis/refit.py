"""The distribution that fits all measurements and stays near the prior: post-processing of released numbers.

Minimises F(W) = Σ (N·M_i W - y_i)² / (2σ_i²) + τ·N·KL(W ‖ w) over distributions W, summed over measured cells, which
may each have a σ of their own. The minimiser has the form W ∝ w · Π f_i with one factor for each cell of each measured
marginal. `fit` improves one factor after the other, each exactly: a small problem in the cells of one marginal, solved
with the Wright omega function (synthesis proof page, Theorem 4), and extrapolates after each sweep. Like iterative
proportional fitting, which is the case of no noise, it needs a few sweeps where entropic mirror descent needs a hundred
steps; both find the same W, which is a test.

`QueryRefit` does the same for answers to single queries: it minimises Σ_j (y_j - N⟨q_j, w⟩)²/(2σ²) + τN·KL(w ‖ prior).
The minimum is w ∝ prior·exp(Σ θ_j q_j) with θ_j = (y_j - N⟨q_j, w⟩)/(τσ²), which is solved for one θ_j after the other
by Newton steps. A step of the published update takes away at most an eighth of the error of a counting query: one query
alone needs dozens of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sidelight.errors import RangeError
from sidelight.records.rows import one_blas_thread
from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.measurement import CLEARLY, MarginalMeasurement, NoisyRows
from sidelight.synthesis.newton import DualFit, few_cells, sweeps_before
from sidelight.synthesis.selection import AnsweredQuery, MarginalRound, QueryRound, QuerySpace
from sidelight.synthesis.spaces import Floats, Space, SupportSpace
from sidelight.synthesis.workload import Marginal

#: How much the prior counts against the measurements, as a share of one observation a row.
PRIOR_WEIGHT = 0.05

#: Weights never fall below this, so that no point is lost to underflow.
_LEAST = 1e-280
_LOWEST_LOG = -500.0


#: All factors together change log-weights by at most this in a jump, so that no product of some of them overflows.
_FARTHEST = 300.0


#: A step changes log-weights by at most this, where the variance is within a factor e² of that of the start.
_LONGEST = 1.0

#: A sweep whose largest step changes log-weights by less is the last.
_SETTLED = 1e-4

#: A Newton step of ν after which ω is extended by its derivative.
_SMALL_STEP = 1e-5
_SWEEPS_AT_THE_END = 30


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledCounts:
    """Counts of a partition from noise and a prediction together: each cell has its own standard deviation."""

    marginal: Marginal
    values: Floats = field(repr=False)
    deviation: Floats = field(repr=False)
    mean_error: float


#: Counts of a partition with their errors, closer than which a fit need not be.
Evidence: TypeAlias = MarginalMeasurement | PooledCounts


class Refit:
    """A prior, the measurements so far with their factors, and the fitted weights: warm-started, round by round."""

    def __init__(self, space: Space, prior: Floats, *, rows: float, prior_weight: float = PRIOR_WEIGHT) -> None:
        self.space = space
        self.rows = rows
        self.prior_weight = prior_weight
        self.weights: Floats = prior / prior.sum()
        self._held: list[Evidence] = []
        self._factors: list[Floats] = []  # logarithms

    def change_prior(self, old: Floats, new: Floats) -> None:
        """Start from another prior with the same factors: W ∝ new · Π f."""
        with np.errstate(divide="ignore", invalid="ignore"):
            self.weights *= np.where(old > 0, new / old, 0.0)
        self.weights /= self.weights.sum()

    def add(self, evidence: Evidence) -> None:
        """Take a measurement in; the next `fit` uses it."""
        self._held.append(evidence)
        self._factors.append(np.zeros(evidence.values.size))

    def settle(self, *, sweeps: int) -> None:
        """Fit until only noise is left to fit: by sweeps and then, where few cells were measured, Newton steps."""
        marginals = [each.marginal for each in self._held]
        quick = few_cells(self.space, marginals)
        if self.fit(sweeps=min(sweeps_before(self.space, marginals), sweeps) if quick else sweeps) or not quick:
            return
        shares = np.concatenate([each.values.reshape(-1) for each in self._held]) / self.rows
        of_cells = [np.broadcast_to(each.deviation, each.values.shape).reshape(-1) for each in self._held]
        noise = np.concatenate(of_cells) / self.rows
        stiffness = self.prior_weight * self.rows * noise**2
        dual = DualFit(self.space, marginals, shares=shares, noise=noise, stiffness=stiffness)
        with one_blas_thread():
            self.weights, theta = dual.minimise(self.weights, self._log_factors())
        self._factors = np.split(theta, np.cumsum([len(each) for each in self._factors])[:-1])
        self._normalise()

    def fit(self, *, sweeps: int, tolerance: float = 0.01) -> bool:
        """Improve all factors in turn, the newest first, until no marginal moves by more than a share of its noise.

        The number of sweeps depends on released numbers only. Returns whether so little moved.
        """
        problems = [
            NearestMarginal(each.values, each.deviation, rows=self.rows, prior_weight=self.prior_weight)
            for each in self._held
        ]
        newest_first = range(len(problems) - 1, -1, -1)
        path = Extrapolation()
        before, last_moved, moved = self._log_factors(), np.inf, 0.0
        with one_blas_thread(), np.errstate(divide="ignore"):  # of the logarithm of an empty cell
            for left in range(sweeps - 1, -1, -1):
                moved = max((self._improve(place, problems[place]) for place in newest_first), default=0.0)
                self._normalise()
                if moved <= tolerance or not left:
                    break
                if moved > 2 * last_moved:  # too far: what was seen before says nothing here
                    path = Extrapolation()
                last_moved = moved
                before = self._jump(path.ahead(before, self._log_factors()))
        return moved <= tolerance

    def _log_factors(self) -> Floats:
        return np.concatenate([np.zeros(0), *self._factors])

    def _normalise(self) -> None:
        np.maximum(self.weights, _LEAST, out=self.weights)
        self.weights /= self.weights.sum()

    def _jump(self, aims: Floats) -> Floats:
        """Set all factors at once, and the weights with them, as far as nothing overflows; return where they are."""
        start = self._log_factors()
        changes = np.minimum(np.maximum(aims, _LOWEST_LOG), -_LOWEST_LOG) - start
        changes *= min(1.0, _FARTHEST / max(len(self._held) * float(np.maximum.reduce(np.abs(changes))), _LEAST))
        parts = np.split(changes, np.cumsum([len(each) for each in self._factors])[:-1])
        for measured, factor, change in zip(self._held, self._factors, parts, strict=True):
            factor += change
            self.space.multiply(self.weights, np.exp(change).reshape(measured.values.shape), measured.marginal)
        self._normalise()
        return self._log_factors()

    def _improve(self, place: int, problem: NearestMarginal) -> float:
        """Solve for one factor with the others held; return how far the marginal moved, as a share of its noise."""
        measured, factor = self._held[place], self._factors[place]
        (table,) = self.space.marginals(self.weights, [measured.marginal])
        mass = table.reshape(-1)
        without = np.log(mass)
        without -= factor
        wanted = problem.solve(without, mass, factor)
        if np.minimum.reduce(without) > -np.inf:
            ratio = wanted / mass
        else:  # a mask costs more than all else
            ratio = np.divide(wanted, mass, out=np.zeros(len(mass)), where=mass > 0)
        self.space.multiply(self.weights, ratio.reshape(table.shape), measured.marginal)
        np.maximum(ratio, 1e-300, out=ratio)
        factor += np.log(ratio, out=ratio)
        np.maximum(factor, _LOWEST_LOG, out=factor)
        np.minimum(factor, -_LOWEST_LOG, out=factor)
        wanted -= mass
        apart = float(np.add.reduce(np.abs(wanted, out=wanted))) / len(mass)
        return apart * self.rows / measured.mean_error


#: Sweeps that an extrapolation looks back on.
_LOOKS_BACK = 5


class Extrapolation:
    """Anderson's extrapolation of an iteration x → g(x): the combination of the last steps that would move least.

    A sweep moves strongly related marginals by a few hundredths of what is left to move, sweep after sweep in the same
    directions: extrapolated, a third of the sweeps comes as near to the minimum (Walker and Ni 2011).
    """

    def __init__(self) -> None:
        self._steps: list[Floats] = []
        self._ends: list[Floats] = []

    def ahead(self, start: Floats, end: Floats) -> Floats:
        """Return where to go on after a sweep from `start` to `end`."""
        self._steps, self._ends = [*self._steps, end - start][-_LOOKS_BACK:], [*self._ends, end][-_LOOKS_BACK:]
        if len(self._ends) < 2:
            return end
        turns = np.diff(self._steps, axis=0)
        try:  # after the charge nothing may fail: without an answer the sweeps go on as they are
            shares = np.linalg.lstsq(turns.T, self._steps[-1], rcond=1e-6)[0]
        except np.linalg.LinAlgError:
            return end
        return np.asarray(end - shares @ np.diff(self._ends, axis=0))


class NearestMarginal:
    """Minimise Σ (N p - y)² / (2σ²) + τ·N·KL(p ‖ r) over distributions p on the cells of one marginal.

    Cells with r = 0 keep p = 0. Setting the derivative to a constant gives k p + log p = log r + y/(τσ²) + ν with
    k = N/(τσ²), cell by cell, so k p = ω(log(k r) + y/(τσ²) + ν); ν is the root of an increasing function.

    Marginals are small: calls of NumPy are what costs, so that terms without r are computed once, and in place.
    """

    __slots__ = ("_alone", "_even", "_inverse", "_k", "_pull", "_pull_k", "_rows", "_strength", "_values")

    def __init__(self, values: Floats, deviation: float | Floats, *, rows: float, prior_weight: float) -> None:
        of_cells = deviation.reshape(-1) if isinstance(deviation, np.ndarray) else deviation
        self._set(values.reshape(-1), prior_weight * of_cells**2, rows)

    def _set(self, values: Floats, strength: float | Floats, rows: float) -> None:
        self._values, self._strength, self._rows = values, strength, rows  # y, τσ², N
        self._k = rows / strength
        log_k = np.log(self._k)
        self._pull = values / strength
        self._pull_k = self._pull + log_k
        self._inverse = np.full(values.shape, 1.0 / self._k)
        # Σ ω(z + ν)/k = 1. Where one cell alone has the mass 1, ω(z + ν) = k, the sum is at least 1; where none has
        # more than its even share, at most 1.
        share = self._k / len(values)
        self._alone, self._even = self._k + log_k, share + np.log(share)

    def solve(self, log_reference: Floats, start: Floats | None = None, factor: Floats | float = 0.0) -> Floats:
        """Return p, flat like log r; ν is looked for from its mean if p were `start` = r·exp(factor)."""
        if np.minimum.reduce(log_reference) > -np.inf:
            return self._solved(log_reference, start, factor)
        inside = log_reference > -np.inf
        part = NearestMarginal.__new__(NearestMarginal)
        strength = self._strength[inside] if isinstance(self._strength, np.ndarray) else self._strength
        part._set(self._values[inside], strength, self._rows)
        result = np.zeros(len(log_reference))
        result[inside] = part._solved(log_reference[inside])
        return result

    def _solved(self, log_reference: Floats, start: Floats | None = None, factor: Floats | float = 0.0) -> Floats:
        from scipy.special import wrightomega

        z = log_reference + self._pull_k
        if isinstance(self._k, np.ndarray):
            low, high = (float(np.minimum.reduce(each - z)) for each in (self._even, self._alone))
        else:  # rounding is monotone: the least difference is that of the largest z
            largest = np.maximum.reduce(z)
            low, high = float(self._even - largest), float(self._alone - largest)
        shift = (low + high) / 2
        if start is not None:
            told = self._k * start  # k p + log(k p) - z
            told += factor
            told -= self._pull
            guess = float(start @ told)
            shift = guess if low < guess < high else shift
        lowest = float(np.minimum.reduce(z))
        at, slopes = np.empty_like(z), np.empty_like(z)
        for _ in range(100):
            np.add(z, shift, out=at)
            if lowest + shift < _LOWEST_LOG:
                np.maximum(at, _LOWEST_LOG, out=at)
            wrightomega(at, out=at)
            excess = float(at @ self._inverse) - 1.0
            if abs(excess) <= 1e-10:
                break
            low, high = (low, shift) if excess > 0 else (shift, high)
            np.add(at, 1.0, out=slopes)
            np.divide(at, slopes, out=slopes)
            step = -excess / float(slopes @ self._inverse)
            if abs(step) <= _SMALL_STEP:  # of second order is less than rounding leaves
                slopes *= step
                at += slopes
                break
            shift = shift + step if low < shift + step < high else (low + high) / 2
        at *= self._inverse
        at /= np.add.reduce(at)
        return at


class QueryRefit:
    """Weights on the points of a space, and the answers that they fit. A function of released numbers and the prior.

    `deviation` is the noise's standard deviation, in rows.
    """

    def __init__(
        self, queries: QuerySpace, prior: Floats, *, rows: float, deviation: float, prior_weight: float = PRIOR_WEIGHT
    ) -> None:
        self.weights = np.array(prior)
        self._queries = queries
        self._rows = rows
        self._stiffness = prior_weight * deviation**2  # τσ²
        self._answers: list[tuple[AnsweredQuery, Floats]] = []
        self._tilts: list[float] = []

    def learn(self, answer: AnsweredQuery) -> None:
        """Take an answer in and refit, roughly."""
        self._answers.append((answer, answer.block.coefficients(answer.inside)))
        self._tilts.append(0.0)
        self.fit(sweeps=1)

    def finish(self) -> Floats:
        """Refit until nothing moves, and return the weights."""
        self.fit(sweeps=_SWEEPS_AT_THE_END)
        return self.weights

    def fit(self, *, sweeps: int) -> None:
        """Go through all answers, the latest first, at most `sweeps` times, until nothing moves."""
        for _ in range(sweeps):
            steps = [abs(self._step(place)) for place in reversed(range(len(self._answers)))]
            if max(steps, default=0.0) < _SETTLED:
                return

    def _step(self, place: int) -> float:
        """Solve for one θ, approximately; return by how much it moved."""
        answer, query = self._answers[place]
        marginal, space = Marginal(answer.block.columns), self._queries.space
        (mass,) = space.marginals(self.weights, [marginal])
        mean = float((mass * query).sum())
        variance = max(float((mass * query**2).sum()) - mean**2, 0.0)
        apart = answer.value - self._rows * mean
        step = (apart - self._stiffness * self._tilts[place]) / (self._stiffness + self._rows * variance)
        step = float(np.clip(step, -_LONGEST, _LONGEST))
        self._tilts[place] += step
        space.multiply(self.weights, np.exp(query * step), marginal)
        self.weights /= self.weights.sum()
        return step


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A released distribution. `weights` belong to the points of `space`.

    `measurements` are whole marginals, `answered` the single queries of `engine="mwem"`; error bounds are computed from
    `rounds` and `query_rounds`. `first_rows` is the first noisy number of rows; None if it is public, or `rows` itself.

    Everything here is released: functions of noisy numbers, the prior and nothing else.
    """

    domain: Domain
    rows: float
    space: Space
    weights: Floats = field(repr=False)
    measurements: tuple[MarginalMeasurement, ...] = field(repr=False)
    first_rows: NoisyRows | None = None
    answered: tuple[AnsweredQuery, ...] = field(default=(), repr=False)
    rounds: Sequence[MarginalRound] = field(default=(), repr=False)
    query_rounds: Sequence[QueryRound] = field(default=(), repr=False)

    @property
    def support(self) -> Codes | None:
        """The rows that carry weight, coded; None if these are all cells of the domain in their order."""
        return self.space.codes if isinstance(self.space, SupportSpace) else None

    def marginals(self, wanted: Sequence[Marginal]) -> list[Floats]:
        """Return the fitted mass of each cell of each partition; times `rows` it estimates the counts."""
        return self.space.marginals(self.weights, wanted)

    def marginal(self, columns: Sequence[str]) -> Floats:
        """Return the fitted mass of each combination of columns, axes in the order given."""
        names = tuple(columns)
        order = self.domain.in_order(names)
        if len(order) != len(names):
            raise RangeError("a marginal names each of its columns once")
        (found,) = self.marginals([Marginal(order)])
        return np.transpose(found, [order.index(name) for name in names])

    def weights_on(self, space: Space) -> Floats:
        """Return the masses at the points of another space of the same domain."""
        mine, theirs = self.support, space.codes if isinstance(space, SupportSpace) else None
        if mine is None:
            return self.weights if theirs is None else self.weights[self.domain.ravel(theirs)]
        if theirs is None:
            return np.asarray(np.bincount(self.domain.ravel(mine), self.weights, self.domain.cells), np.float64)
        known = dict(zip(map(bytes, np.ascontiguousarray(mine)), self.weights.tolist(), strict=True))
        return np.array([known.get(row, 0.0) for row in map(bytes, np.ascontiguousarray(theirs))])

    def missed_regions(self) -> list[tuple[Marginal, tuple[int, ...]]]:
        """Return measured cells that clearly have rows but no point of the support: the public rows miss this region.

        From released numbers; empty for dense domains.
        """
        if not isinstance(self.space, SupportSpace):
            return []
        found = []
        covered = self.space.marginals(np.ones(self.space.points), [each.marginal for each in self.measurements])
        for each, points in zip(self.measurements, covered, strict=True):
            missed = np.argwhere((points == 0) & (each.values > CLEARLY * each.deviation))
            found += [(each.marginal, tuple(int(code) for code in cell)) for cell in missed]
        return found

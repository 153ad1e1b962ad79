"""Where a descent starts: the choice between predictions and none, and a prediction in coordinates.

The choice is one index from the exponential mechanism, paid for, exact (descent proof page, section 3). Classes: a
row's loss is an integer of 0..1024, and a candidate's score is minus the sum of its losses: one more row changes every
score by a number in [-1024, 0], so all log-probabilities move within an interval of length ε₀, and no factor 2 is
needed. Numbers: a row has one vote of -1, 0 or 1 in every comparison of a candidate with a rival, and the candidate's
score is the least of its sums of votes; none has the score 0. One more row changes each sum by a number in [-1, 1], and
so their least: min(A + a, B + b) - min(A, B) lies between min(a, b) and max(a, b). With one candidate the two
log-probabilities move apart by at most one unit, with several by two. With up to k rows per person the unit is k times
smaller.

The start is computed from public and released numbers and moves accuracy only. Public rows of a numeric target are
fitted by ridge regression in these coordinates if they were made of public rows; in a noisy geometry, and for classes,
in their own: a fit in a noisy geometry is worse by far. The deviation of predictions is cut to `_REACH` half ranges (a
target can have 1, an even one 0.58), so that an absurd prediction is at least a possible one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.guarantees import Claims, Neighbours, Unit
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source
from sidelight.regression.descent.geometry import Floats, Geometry
from sidelight.regression.descent.integer_rows import LOSS_LEVELS, Integers
from sidelight.regression.descent.rules import Kind
from sidelight.regression.descent.shrinkage import UNKNOWN
from sidelight.regression.model_predictions import Candidate, PredictedCoefficients, PublicExamples
from sidelight.regression.public_rows import penalised_fit, public_classes, public_ridge


@dataclass(frozen=True, kw_only=True)
class StartChoice:
    """A choice between some candidates and none, which is last. Everything but `draw` is public.

    Guarantee: BoundedRange(spread) for adding or removing a unit of up to `rows_per_unit` rows, whatever the weights.

    Args:
        candidates: How many predictions there are.
        budget: What it may cost.
        odds: The weight of all candidates together against "none", per candidate.
        unit: The protected unit.
        rows_per_unit: How many rows it may have.
        votes: Whether scores are votes, or losses.
    """

    candidates: int
    budget: Budget
    odds: Fraction
    unit: Unit
    rows_per_unit: int
    votes: bool = False

    @property
    def spread(self) -> Fraction:
        """The ε₀ of it, rounded down."""
        return self.budget.spread

    @property
    def claims(self) -> Claims:
        """What one draw costs."""
        return self.budget.selection_claims(unit=self.unit)

    @property
    def step(self) -> Fraction:
        """How much one unit of a score counts: ε₀ over how far one person's rows can move two scores apart."""
        return self.spread / (self._apart * self._moved)

    @property
    def _apart(self) -> int:
        """How many times `_moved` two scores can move apart: losses all move the same way, and a lone vote alone."""
        return min(self.candidates, 2) if self.votes else 1

    @property
    def _moved(self) -> int:
        """How far one unit moves a score."""
        return self.rows_per_unit * (1 if self.votes else LOSS_LEVELS)

    @property
    def weights(self) -> tuple[int, ...]:
        """The prior weights: a for each candidate, b·k for none, where the odds are a : b."""
        each, none = self.odds.numerator, self.odds.denominator * self.candidates
        shared = gcd(each, none)
        return (*([each // shared] * self.candidates), none // shared)

    def draw(self, losses: Integers, source: Source) -> int | None:
        """Return the chosen candidate, or None; `losses`, or votes against, of the candidates and, last, of none."""
        scores = Bounded(-np.asarray(losses, np.int64), Fraction(self._moved), "linf", Neighbours.ADD_REMOVE, self.unit)
        place = choose(scores, spread=self.spread, apart=self._apart, weights=self.weights, source=source)
        return None if place == self.candidates else place


#: The prior precision of a direction in which rows do not vary is at most this share of the others'.
_LEAST_H = 0.01
_RIDGE_ROUNDS = 3
#: The largest deviation of predictions, in half ranges of the target.
_REACH = 0.75
#: scikit-learn's C of a public classifier.
_CLASSIFIER_PENALTY = 1 / 10
#: Trust in a public classifier: 8/(m·h + 3).
_CLASSIFIER_VARIANCE, _CLASSIFIER_ROWS = 8.0, 3.0
#: Prior variance where none is stated: this over the mean square of a row, in half ranges², or in log odds².
_UNKNOWN_NUMBER, _UNKNOWN_CLASS = 1.0, 16.0
#: No fit is surer of itself than this, nor less sure.
_LEAST_VARIANCE, _MOST_VARIANCE = 1e-12, UNKNOWN
#: Public rows do not vary in a direction of less than this of their largest variance; a column that lies in such
#: directions by more than a tenth is not known.
_STILL, _UNSEEN = 1e-4, 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class DescentStart:
    """Where a descent starts.

    Args:
        theta: (columns, outputs), in coordinates of z.
        variances: How far off it may be, of the same shape.
        residual_variance: Of the public rows it came from, in half ranges²; None where there are none.
        public_rows: Whether it came from public rows.
        constant: The start that predicts the mean of these public rows' targets for all; None where there is none.
        h: How the columns of z vary, as far as public rows say; None where they say nothing.
    """

    theta: Floats
    variances: Floats
    residual_variance: float | None = None
    public_rows: bool = False
    constant: Floats | None = None
    h: Floats | None = None


def start_of(candidate: Candidate, geometry: Geometry, *, kind: Kind, outputs: int = 1) -> DescentStart:
    """Return a prediction as a start.

    Args:
        candidate: What `prediction_sources.predictions_of` read; public rows have targets.
        geometry: The coordinates of the descent.
        kind: The loss: "squared", "logistic" or "softmax".
        outputs: Predictors of a row.
    """
    if isinstance(candidate, PredictedCoefficients):
        return _of_coefficients(candidate, geometry, kind=kind)
    assert candidate.targets is not None  # public rows without targets never are candidates
    if kind == "squared":
        return _ridge(candidate, candidate.targets, geometry)
    return _classifier(candidate, candidate.targets, geometry, outputs=outputs)


def _of_coefficients(given: PredictedCoefficients, geometry: Geometry, *, kind: Kind) -> DescentStart:
    theta = geometry.mapped(given.theta[:-1], given.theta[-1])
    if kind == "squared" and geometry.map is not None:
        theta = _within_reach(theta, geometry)
    if given.basis is None or given.variances is None or geometry.inverse is None:
        unknown = _UNKNOWN_NUMBER if kind == "squared" else _UNKNOWN_CLASS
        return DescentStart(theta=theta, variances=np.full(theta.shape, unknown / geometry.trace))
    # coordinates = bordered · basis · (independent parts): map⁻¹·w for the columns, b + ĉᵀw for the constant
    bordered = np.zeros((geometry.columns, geometry.features + 1))
    bordered[: geometry.features, :-1] = geometry.inverse
    if geometry.intercept:
        bordered[-1, :-1], bordered[-1, -1] = geometry.centre, 1.0
    variances = np.square(bordered @ given.basis) @ given.variances
    return DescentStart(theta=theta, variances=_sensible(np.broadcast_to(variances, theta.shape)))


def _ridge(public: PublicExamples, targets: Floats, geometry: Geometry) -> DescentStart:
    """Fit public rows by ridge regression, in these coordinates, or in their own where these are noisy."""
    targets = np.clip(targets, -1.0, 1.0)
    z = _coordinates(public.features, geometry)
    if geometry.kind == "private":
        theta, variances, residual = _ridge_of_rows(public.features, targets, geometry)
    else:
        theta, variances, residual = _ridge_of_coordinates(z, targets, geometry)
    constant = varied = None
    if geometry.kind == "public":
        assert geometry.likely is not None
        # the guard's noise widens a geometry; half way (of the logarithms) back to what the public rows do, but not
        # below what the private rows do as far as noise lets it be seen: a column may be constant in public rows only
        public_h = np.append(z[:, : geometry.features].var(axis=0), np.ones(int(geometry.intercept)))
        varied = np.maximum(np.sqrt(geometry.h * public_h), geometry.likely)
    if geometry.intercept:
        constant = np.zeros((geometry.columns, 1))
        constant[-1] = float(targets.mean()) / z[0, -1]
    return DescentStart(
        theta=_within_reach(theta[:, None], geometry, z),
        variances=_sensible(variances[:, None]),
        residual_variance=residual,
        public_rows=True,
        constant=constant,
        h=varied,
    )


def _within_reach(theta: Floats, geometry: Geometry, z: Floats | None = None) -> Floats:
    """Cut a start to a deviation of `_REACH` half ranges, and its middle to the range: of public rows z, or of h."""
    found = theta.copy()
    slopes = slice(0, geometry.features)
    if z is None:
        middle, deviation = np.zeros(1), np.sqrt(geometry.h[slopes] @ found[slopes] ** 2)
    else:
        inside = z[:, slopes] @ found[slopes]
        middle, deviation = inside.mean(axis=0), inside.std(axis=0)
    factor = float(min(1.0, _REACH / max(float(deviation[0]), 1e-300)))
    found[slopes] *= factor
    if geometry.intercept:
        unit = 1.0 if z is None else z[0, -1]
        found[-1] = (np.clip(theta[-1] * unit + middle, -1.0, 1.0) - factor * middle) / unit
    return found


def _ridge_of_rows(rows: Floats, targets: Floats, geometry: Geometry) -> tuple[Floats, Floats, float]:
    """Fit public rows in their own coordinates, and carry the fit and its covariance over to these."""
    assert geometry.inverse is not None
    found = public_ridge(rows, targets, intercept=geometry.intercept)
    residual, mean = found.residual_variance, found.mean
    theta = geometry.mapped(found.weights[:, None], np.array([found.level - mean @ found.weights]))[:, 0]
    # the covariance residual·(RᵀR + penalty)⁻¹ along the rows' own directions, and residual/penalty elsewhere
    ways = [geometry.inverse, *([(geometry.centre - mean)[None, :]] if geometry.intercept else [])]
    way = np.vstack(ways)
    along = (way @ found.ways.T) ** 2
    elsewhere = np.maximum((way**2).sum(axis=1) - along.sum(axis=1), 0.0)
    penalty = min(found.penalty, _most_penalty(found.squares))
    variances = residual * (along @ (1 / (found.squares + penalty)) + elsewhere / penalty)
    if geometry.intercept:
        variances[-1] += residual / len(rows)
    return theta, variances, residual


def _ridge_of_coordinates(z: Floats, targets: Floats, geometry: Geometry) -> tuple[Floats, Floats, float]:
    """Fit mapped public rows; the penalty is the residual variance over the mean square coefficient, or `most`."""
    m, columns = z.shape
    free = np.ones(columns)
    if geometry.intercept:
        free[-1] = 0.0  # neither penalised nor counted
    inside = z[:, : geometry.features] - z[:, : geometry.features].mean(axis=0)
    # the smaller of the two matrices: both have the same sum of squares, and without a map columns may be many
    penalty, most = 1.0, _most_penalty(inside @ inside.T if m < geometry.features else inside.T @ inside)
    for _ in range(_RIDGE_ROUNDS + 1):
        used = penalty
        theta = _ridge_solution(z, targets, used * free + 1e-9 * m * (1 - free))
        residual = max(float(np.sum((targets - z @ theta) ** 2)) / max(m - columns, m / 2), 1e-12)
        penalty = min(residual * columns / max(float(np.sum(free * theta**2)), 1e-12), most)
    if geometry.map is None:
        return theta, residual / (m * np.maximum(geometry.h, _LEAST_H) + used), residual
    # as sure as its own rows make it: of a direction in which they do not vary they say nothing
    known = np.linalg.pinv(z.T @ z + np.diag(used * free + 1e-9 * m * (1 - free)), hermitian=True)
    return theta, np.where(_unseen(z, geometry), UNKNOWN, residual * np.diag(known)), residual


def _covariance(z: Floats, geometry: Geometry) -> Floats:
    """Return the covariance of mapped public rows, without the constant column."""
    inside = z[:, : geometry.features]
    return np.asarray(np.cov(inside, rowvar=False, bias=True).reshape((geometry.features,) * 2))


def _most_penalty(squares: Floats) -> float:
    """Return the largest penalty that rows with these sums of squares (or this matrix of them) can be sure of.

    Estimates of variance s²/squares tell the mean square of true coefficients to within s²·√(2/Σ squares²). Public rows
    that show no slope must not be surer than that that there is none, as a larger penalty would be.
    """
    return max(math.sqrt(float(np.sum(np.square(squares))) / 2), 1e-12)


def _unseen(z: Floats, geometry: Geometry) -> NDArray[np.bool_]:
    """Return the columns of z that lie by more than a tenth in directions in which public rows do not vary at all."""
    values, vectors = np.linalg.eigh(_covariance(z, geometry))
    still = vectors[:, values < _STILL * max(float(values[-1]), 1e-300)]
    found = np.zeros(geometry.columns, bool)
    found[: geometry.features] = np.sum(still**2, axis=1) > _UNSEEN
    return found


def _classifier(public: PublicExamples, places: Floats, geometry: Geometry, *, outputs: int) -> DescentStart:
    loss, block = public_classes(public.features, places, outputs=outputs, intercept=geometry.intercept)
    raw = penalised_fit(loss, block, penalty=_CLASSIFIER_PENALTY)
    weights, constants = (raw[:-1], raw[-1]) if geometry.intercept else (raw, np.zeros(outputs))
    theta = geometry.mapped(weights, constants)
    variances = _CLASSIFIER_VARIANCE / (public.size * np.maximum(geometry.h, _LEAST_H) + _CLASSIFIER_ROWS)
    return DescentStart(theta=theta, variances=np.repeat(variances[:, None], outputs, axis=1), public_rows=True)


def taken_off(public: PublicExamples, start: DescentStart, geometry: Geometry, *, clip: float) -> tuple[Floats, Floats]:
    """Return what the clip takes off the gradient of a public row at its own fit, on average: (columns, 1).

    And the mean square that it may be off by, (columns,): by chance, and by what of it was taken for chance.

    Of a skewed target that is much, and the same of private rows of the same law: a descent that adds it back goes to
    the mean, not to the middle. Of private rows of another law it is wrong, and every step is off by it: that costs
    accuracy (descent proof page, section 5). Each column's is taken as far as it is no chance of few public rows.
    """
    assert public.targets is not None
    z = _coordinates(public.features, geometry)
    errors = z @ start.theta[:, 0] - np.clip(public.targets, -1.0, 1.0)
    most = clip / np.maximum(np.linalg.norm(z, axis=1), 1e-300)
    each = z * (np.clip(errors, -most, most) - errors)[:, None]
    mean, chance = each.mean(axis=0), each.var(axis=0) / len(each)
    sure = np.maximum(1.0 - chance / np.maximum(mean**2, 1e-300), 0.0)
    return np.asarray(np.nan_to_num(sure * mean)[:, None]), np.asarray(np.nan_to_num(chance + ((1 - sure) * mean) ** 2))


def _coordinates(rows: Floats, geometry: Geometry) -> Floats:
    """Return public rows in the coordinates of a geometry, in floats: nothing here is private."""
    z = rows if geometry.map is None else (rows - geometry.centre) @ geometry.map
    if not geometry.intercept:
        return np.asarray(z)
    last = np.zeros((geometry.columns, 1))
    last[-1] = 1.0
    return np.column_stack([z, np.full(len(z), geometry.unmapped(last)[1][0])])  # what a unit of it adds to all


def _ridge_solution(z: Floats, targets: Floats, penalties: Floats) -> Floats:
    """Solve (ZᵀZ + diag(penalties))·θ = Zᵀy, by the smaller of the two systems."""
    m, columns = z.shape
    try:
        if columns <= m:
            found = np.linalg.lstsq(z.T @ z + np.diag(penalties), z.T @ targets, rcond=None)[0]
        else:
            weighed = z / penalties
            found = weighed.T @ np.linalg.lstsq(z @ weighed.T + np.eye(m), targets, rcond=None)[0]
    except np.linalg.LinAlgError:  # after the charge: no start rather than no release
        found = np.zeros(columns)
    return np.asarray(found if np.isfinite(found).all() else np.zeros(columns), np.float64)


def _sensible(variances: Floats) -> Floats:
    return np.clip(np.nan_to_num(variances, nan=_MOST_VARIANCE), _LEAST_VARIANCE, _MOST_VARIANCE)

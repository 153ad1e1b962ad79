"""Objective perturbation with predictions: a paid choice between them and none, and the strength of its prior.

First a noisy count (unless the number of rows is declared) and one index from the exponential mechanism, both pure;
then the fit with the chosen public regulariser, calibrated at what is left of epsilon: PureDP and ApproxDP add up for
adaptive choices. The strength is a rule of public and released numbers (objective-perturbation proof page, section 11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import ApproxDP, Claims, Neighbours, decimal_text, native_claims
from sidelight.guarantees.conversions import gdp_within
from sidelight.guarantees.intervals import root_below
from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.regression.curator import PrivateFit
from sidelight.regression.descent.integer_rows import LOSS_LEVELS, Integers, logistic_losses, softmax_losses
from sidelight.regression.descent.rules import odds_of
from sidelight.regression.descent.starts import StartChoice
from sidelight.regression.fit_core import private_fit
from sidelight.regression.losses import Floats
from sidelight.regression.model_predictions import Candidate, PredictedCoefficients, PublicExamples, declared_rows
from sidelight.regression.plan import LinearPlan, certified, plan_linear
from sidelight.regression.public_regulariser import PublicBounds, PublicRegulariser
from sidelight.regression.public_rows import penalised_fit
from sidelight.regression.rows import Block, BoundedRows, RowPolicy, is_sparse

#: Shares of mu² of the choice and of the count, as in a descent.
_CHOICE, _COUNT = Fraction(1, 10), Fraction(3, 100)
#: How many times the planned λ a prediction may weigh: so much every plan can certify.
_MOST_BELIEF = 2.0**14
_PENALTY, _ROUNDS = 0.1, 3
#: Prior variances of a coefficient and an intercept of unknown accuracy, for rows of length 1.
_UNKNOWN_NUMBER, _UNKNOWN_CLASS = (3.0, 1.0), (48.0, 16.0)
#: The residual variance where no public rows tell, in half ranges².
_USUAL_RESIDUAL = 0.1
_PREDICTOR_BITS = 28
_STEPS = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class Centre:
    """A prediction in the coordinates of an objective, with what its strength follows from.

    Args:
        theta: (columns, outputs).
        precision: s²/v of each column: how strongly it pulls by itself; 0 for public rows, which pull as rows.
        spread: What the noise of the fit is divided by: n·ℓ·v of each column and row, or n·s²/m.
        block: The public rows, or None.
    """

    theta: Floats
    precision: Floats
    spread: Floats
    block: Block | None

    def regulariser(self, *, rows: float, noise_scale: float, least: float) -> PublicRegulariser:
        """Return how the prediction enters the objective, for a number of private rows.

        In one direction with private curvature h and a prediction of variance v the mean square error is smallest at
        a = s²/v + σ²/(h·v) (proof page, section 11); `least`, the λ of the plan, is already there.
        """
        wanted = self.precision + noise_scale**2 / (max(rows, 1.0) * self.spread)
        wanted = np.minimum(np.nan_to_num(wanted, nan=0.0, posinf=np.inf), _MOST_BELIEF * least)
        return PublicRegulariser(
            centre=self.theta, factor=np.sqrt(np.maximum(wanted - least, 0.0)), block=self.block, weight=1.0
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedPlan:
    """Everything public about a fit with predictions; `claims` is its price, known before any data is opened.

    Args:
        fit: The fit, calibrated at what the choice and the count leave of epsilon.
        centres: The predictions.
        choice: The choice between them and none.
        count: What the count may cost, or None where the number of rows is declared.
        rows: The declared number of rows, or None.
        half: The unit of a numeric target, for the losses of the choice.
        epsilon: The whole target; `fit.epsilon` is a part of it.
    """

    fit: LinearPlan
    centres: tuple[Centre, ...]
    choice: StartChoice
    count: Budget | None
    rows: int | None
    half: float
    epsilon: Fraction

    @property
    def beforehand(self) -> Fraction:
        """The pure epsilon of what is released before the fit."""
        return self.choice.spread + (self.count.amount if self.count is not None else 0)

    @cached_property
    def claims(self) -> Claims:
        """What all of it proves: (ε, δ), and nothing sharper."""
        _ = self.fit.claims  # proved again at its own part
        if self.beforehand + self.fit.epsilon > self.epsilon:
            raise RangeError("the parts of this fit cost more than the whole; this is a defect, please report it")
        whole = ApproxDP(self.epsilon, self.fit.delta, unit=self.fit.unit, numerics="idealized")
        return native_claims(whole, mechanism="objective_perturbation")

    @property
    def policy(self) -> RowPolicy:
        """How a raw record becomes a bounded one."""
        return self.fit.policy

    def cautions(self) -> tuple[str, ...]:
        """Return public warnings about the parameters, for people."""
        return self.fit.cautions()

    def request(self) -> dict[str, str]:
        """Describe the fit for a ledger, with strings only."""
        return self.fit.request() | {
            "epsilon": decimal_text(self.epsilon),
            "fit_epsilon": decimal_text(self.fit.epsilon),
            "choice_epsilon": decimal_text(self.choice.spread),
            "count_epsilon": "0" if self.count is None else decimal_text(self.count.amount),
            "predictions": str(len(self.centres)),
            "odds": decimal_text(self.choice.odds),
            "rows": "none" if self.rows is None else str(self.rows),
        }

    def count_noise(self, value: int) -> Noise:
        """Return the noise of the number of rows."""
        assert self.count is not None
        bounded = Bounded(
            value, sensitivity=Fraction(1), norm="l1", neighbours=Neighbours.ADD_REMOVE, unit=self.fit.unit
        )
        return self.count.on(bounded)

    def run(self, rows: BoundedRows, *, source: Source) -> tuple[PrivateFit, int | None, float]:
        """Count, choose and fit; return the inside of the fit, the place of the chosen prediction, and the count.

        Guarantee: `claims`. The count and the choice are released as they are; everything else is private but what the
        fit releases.
        """
        losses = np.zeros(len(self.centres) + 1, np.int64)
        count = 0
        nothing = np.zeros_like(self.centres[0].theta)
        for block in rows.blocks():
            count += block.size
            for place, theta in enumerate([*(each.theta for each in self.centres), nothing]):
                losses[place] += int(row_losses(self.fit, block, theta, half=self.half).sum())
        counted = float(self.rows or 0)
        if self.rows is None:
            noise = self.count_noise(count)
            counted = max(float(noise.release(source)), 0.0) + noise.deviation  # too many rather than too few
        chosen = self.choice.draw(losses, source)
        public = None
        if chosen is not None:
            mechanism = self.fit.mechanism
            public = self.centres[chosen].regulariser(
                rows=counted, noise_scale=float(mechanism.noise_scale), least=float(mechanism.regularisation)
            )
        return private_fit(self.fit, rows, source=source, public=public), chosen, counted


def plan_with_predictions(
    candidates: Sequence[Candidate],
    *,
    half: float,
    middle: float,
    odds: Any = 9,
    rows: int | None = None,
    **settings: Any,
) -> PredictedPlan:
    """Plan a fit with predictions: divide epsilon, calibrate, price and check. Reads no private data.

    Args:
        candidates: What `prediction_sources.predictions_of` read.
        half: The unit of a numeric target in these; 1 for classes and counts.
        middle: The number that targets are counted from.
        odds: Prior odds of each prediction against none.
        rows: A public number of rows; without it a noisy count is paid for.
        settings: The arguments of `plan_linear`.

    Raises:
        RangeError: a parameter makes no sense, or what is public could not be certified.
    """
    whole = plan_linear(**settings)  # the same checks, and the target as it was meant
    mu = gdp_within(whole.epsilon, whole.delta)
    budget = Budget("mu", mu * mu)
    choice = StartChoice(
        candidates=len(candidates),
        budget=budget.part(_CHOICE),
        odds=odds_of(odds),
        unit=whole.unit,
        rows_per_unit=1,
    )
    declared = declared_rows(rows, rows_at_most=whole.rows_at_most)
    count = None if declared is not None else Budget("epsilon", root_below(mu * mu * _COUNT))
    left = whole.epsilon - choice.spread - (count.amount if count is not None else 0)
    plan = plan_linear(**{**settings, "epsilon": left})
    centres = tuple(_centre(each, plan, half=half, middle=middle) for each in candidates)
    bounds = PublicBounds()
    for each in centres:
        largest = each.regulariser(rows=1.0, noise_scale=math.inf, least=float(plan.mechanism.regularisation))
        bounds = bounds.or_more(largest.bounds)
    found = PredictedPlan(
        fit=certified(plan, tolerance_is_given=settings.get("tolerance") is not None, known=bounds),
        centres=centres,
        choice=choice,
        count=count,
        rows=declared,
        half=half,
        epsilon=whole.epsilon,
    )
    _ = found.claims  # whatever cannot be priced is found now
    return found


def row_losses(plan: LinearPlan, block: Block, theta: Floats, *, half: float) -> Integers:
    """Return the loss of the choice of every row, 0..1024, each from the row and public numbers alone.

    Products and sums are made entry by entry in the order of the columns, so that a row's number does not depend on
    other rows; functions are tables.
    """
    name = plan.loss.name
    with np.errstate(all="ignore"):
        far = np.nan_to_num(np.clip(_predictors(block, theta), -(2.0**22), 2.0**22))
        if name in ("logistic", "smoothed_hinge"):
            return logistic_losses(far * 2.0**_PREDICTOR_BITS, block.targets)
        if name == "softmax":
            return softmax_losses(far * 2.0**_PREDICTOR_BITS, block.targets[:, 0].astype(np.intp))
        unit = half
        if name == "poisson":
            largest: Any = getattr(plan.loss, "largest_count", 1)
            unit = float(largest)
            places = np.clip(np.floor(far * _STEPS), -16 * _STEPS, 16 * _STEPS - 1) + 16 * _STEPS
            far = _exponentials()[places.astype(np.intp)]
        distance = np.abs(far - block.targets) / unit
        losses: Integers = np.floor(np.minimum(distance, 1.0) * LOSS_LEVELS).astype(np.int64)[:, 0]
        return losses


def _predictors(block: Block, theta: Floats) -> Floats:
    """Return Xθ, row by row: a matrix product would let other rows into a row's last bits."""
    inside = theta if block.intercept is None else theta[:-1]
    found: Floats
    if is_sparse(block.features):
        matrix = block.features
        owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        found = np.stack(
            [
                np.bincount(owner, weights=matrix.data * column[matrix.indices], minlength=matrix.shape[0])
                for column in inside.T
            ],
            axis=1,
        )
    else:
        found = np.zeros((block.size, theta.shape[1]))
        for j, weights in enumerate(inside):
            found += block.features[:, j : j + 1] * weights
    return found if block.intercept is None else np.asarray(found + block.intercept * theta[-1])


@lru_cache(maxsize=1)
def _exponentials() -> Floats:
    table = np.array([math.exp((i + 0.5) / _STEPS) for i in range(-16 * _STEPS, 16 * _STEPS)])
    table.flags.writeable = False
    return table


def _centre(given: Candidate, plan: LinearPlan, *, half: float, middle: float) -> Centre:
    norm = float(plan.data_norm)
    if isinstance(given, PredictedCoefficients):
        return _stated_centre(given, plan, half=half, norm=norm)
    return _public_centre(given, plan, half=half, middle=middle, norm=norm)


def _stated_centre(given: PredictedCoefficients, plan: LinearPlan, *, half: float, norm: float) -> Centre:
    """Bring coefficients from rows of length 1 and half ranges to the objective's own coordinates."""
    units = np.full(plan.features, half / norm)
    theta, known = given.theta[:-1], given.basis is not None and given.variances is not None
    numeric = plan.loss.name not in ("logistic", "smoothed_hinge", "softmax", "poisson")
    unknown, constant_unknown = _UNKNOWN_NUMBER if numeric else _UNKNOWN_CLASS
    variances = np.append(np.full(plan.features, unknown), constant_unknown)
    if known:
        assert given.basis is not None
        assert given.variances is not None
        variances = (np.square(given.basis) @ given.variances).mean(axis=1)
    if plan.intercept is not None:
        units = np.append(units, half / float(plan.intercept))
        theta = given.theta
    variances = np.clip(variances[: len(units)] * units**2, 1e-300, 1e300)
    bent = float(plan.mechanism.shape.curvature / plan.row_norm**2) / 2
    lengths = np.full(plan.features, norm**2 / (3 * plan.features))
    if plan.intercept is not None:
        lengths = np.append(lengths, float(plan.intercept) ** 2)
    slope = float(plan.mechanism.shape.gradient / plan.row_norm) ** 2
    noise = min(_USUAL_RESIDUAL * half**2, slope) if numeric else 1.0
    return Centre(
        theta=theta * units[:, None],
        precision=noise / variances,
        spread=np.maximum(bent * lengths * variances, 1e-300),
        block=None,
    )


def _public_centre(given: PublicExamples, plan: LinearPlan, *, half: float, middle: float, norm: float) -> Centre:
    assert given.targets is not None
    labels: Any = given.targets * half + middle
    classes = getattr(plan.loss, "classes", None)
    if classes is not None:
        labels = np.array(classes)[given.targets.astype(np.intp)]
    block = plan.policy.block(given.features * norm, labels)
    fixed = plan.loss.name in ("logistic", "softmax")
    penalty, theta, noise = _PENALTY * norm**2, None, 1.0
    for _ in range(1 if fixed else _ROUNDS):
        theta = penalised_fit(plan.loss, block, penalty=penalty, start=theta)
        if not fixed:
            noise = _noise_ratio(plan, block, theta)
            inside = theta if plan.intercept is None else theta[:-1]
            size = max(float(np.sum(inside**2)), 1e-12 * (half / norm) ** 2)
            penalty = min(max(noise * len(theta) / size, 1e-3 * _PENALTY * norm**2), 1e3 * block.size * norm**2)
    assert theta is not None
    return Centre(
        theta=theta,
        precision=np.zeros(len(theta)),
        spread=np.full(len(theta), max(noise, 1e-300) / block.size),
        block=block,
    )


def _noise_ratio(plan: LinearPlan, block: Block, theta: Floats) -> float:
    """Return s²: the mean square slope of a row over its mean curvature, which is the residual variance for a square.

    Of a logistic loss or a softmax it is 1, by the information equality.
    """
    u = block.predict(theta)
    slopes = plan.loss.first_derivative(u, block.targets, block.norms)
    bends = plan.loss.second_derivative(u, block.targets, block.norms, np.ones_like(u))
    free = max(block.size - len(theta), block.size / 2)
    bent = max(float(np.mean(bends)), 0.05 * float(plan.mechanism.shape.curvature / plan.row_norm**2))
    return max(float(np.sum(slopes**2)) / free / bent, 1e-12 * float(plan.mechanism.shape.gradient) ** 2)

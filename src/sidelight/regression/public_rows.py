"""What public rows say: fits of them alone, and the law that a forecast draws its rows from.

A fit is the minimum of a penalised loss: the start of a descent, the centre of an objective, or the law of a forecast.
Nothing public is certified. Hand-made because scikit-learn takes a second to load, and because the losses are the
library's own.

The law: the true coefficients are drawn anew about what a fit of the public rows finds, as far off as it may be, so
that the prediction is as wrong as its own rows say. Without public rows features fill their declared ranges, and
explain any share of the target. Nothing here reads a private row or moves a guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri
from scipy.special import softmax as softmax_of

from sidelight.noise import Source
from sidelight.records.rows import one_blas_thread
from sidelight.regression.losses import Floats, LogisticLoss, Loss, SoftmaxLoss
from sidelight.regression.model_predictions import PredictedCoefficients, PublicExamples
from sidelight.regression.rows import Block

_MOST_STEPS = 500
#: An intercept that is not penalised may run off where all rows agree; this holds it.
_LEAST_PENALTY = 1e-6
#: Penalties of a ridge regression; leaving one row out says which.
_PENALTIES = np.logspace(-4, 3, 15)


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicRidge:
    """A ridge regression of public rows, and how sure it is of itself.

    Args:
        weights: One a column.
        level: What it predicts at `mean`.
        mean: The mean row; 0 without an intercept.
        penalty: The one under which a row that is left out is predicted best.
        residual_variance: Of targets about the model.
        errors: The targets minus what the model says of their rows.
        ways: (directions, columns): the rows' own directions, of length 1.
        squares: The sum of squares of the rows along each.
        left_out: The mean squared error of rows that are left out.
    """

    weights: Floats
    level: float
    mean: Floats
    penalty: float
    residual_variance: float
    errors: Floats
    ways: Floats
    squares: Floats
    left_out: float


def public_ridge(rows: Floats, targets: Floats, *, intercept: bool) -> PublicRidge:
    """Fit public rows by ridge regression, with the penalty under which rows that are left out are predicted best."""
    m, d = rows.shape
    mean = rows.mean(axis=0) if intercept else np.zeros(d)
    level = float(targets.mean()) if intercept else 0.0
    left, sizes, right = np.linalg.svd(rows - mean, full_matrices=False)
    squares, seen, centred = sizes**2, left.T @ (targets - level), targets - level

    def residuals(penalty: float) -> tuple[Floats, Floats]:
        kept = squares / (squares + penalty)
        return centred - left @ (kept * seen), left**2 @ kept + (1 / m if intercept else 0.0)

    def left_out(penalty: float) -> float:
        errors, leverage = residuals(penalty)
        return float(np.sum((errors / np.maximum(1 - leverage, 1e-6)) ** 2))

    penalty = float(min(_PENALTIES, key=left_out))
    errors, leverage = residuals(penalty)
    return PublicRidge(
        weights=right.T @ (sizes / (squares + penalty) * seen),
        level=level,
        mean=mean,
        penalty=penalty,
        residual_variance=max(float(errors @ errors) / max(m - float(leverage.sum()), m / 2), 1e-12),
        errors=errors,
        ways=right,
        squares=squares,
        left_out=left_out(penalty) / m,
    )


def penalised_fit(loss: Loss, block: Block, *, penalty: float, start: Floats | None = None) -> Floats:
    """Return coefficients (columns, outputs) that minimise Σ f + penalty/2·‖w‖² over public rows, intercept free.

    Args:
        loss: The loss.
        block: Bounded public rows.
        penalty: Added to the sum of the losses; scikit-learn's 1/C.
        start: Where to begin; 0 if left out.
    """
    from scipy.optimize import minimize

    columns = block.features.shape[1] + (block.intercept is not None)
    shape = (columns, loss.outputs)
    weights = np.full((columns, 1), penalty)
    if block.intercept is not None:
        weights[-1] = _LEAST_PENALTY

    def value_and_slope(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(shape)
        predictor = block.predict(theta)
        value = float(loss.value(predictor, block.targets, block.norms).sum() + (weights * theta**2).sum() / 2)
        slope = block.gather(loss.first_derivative(predictor, block.targets, block.norms)) + weights * theta
        return value, slope.ravel()

    begin = np.zeros(shape) if start is None else start
    options = {"maxiter": _MOST_STEPS, "gtol": 1e-6}
    with one_blas_thread():  # of tiny systems of equations
        found = minimize(value_and_slope, begin.ravel(), jac=True, method="L-BFGS-B", options=options)
    point = np.asarray(found.x, np.float64).reshape(shape)
    return point if np.isfinite(point).all() else np.zeros(shape)


Basis = Literal["public rows", "declared shape"]

#: Rows that a law of a declared shape stands on, at least.
_SHAPE_ROWS = 4000
#: A number in its range: the deviation of features and of the target, in halves of their ranges.
DEVIATION = 1 / 3
#: Of the variance of a target the features explain a share between these, all equally likely; where coefficients are
#: stated, the middle.
LEAST_EXPLAINED, MOST_EXPLAINED, MIDDLE = 0.05, 0.95, 0.5
#: The deviation of the log odds of two classes at which features explain a half.
LOG_ODDS = 2.0
#: Penalties of a classifier of public rows, and in how many parts these are left out to choose one.
_CLASS_PENALTIES, _FOLDS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0), 5


class Dice:
    """Numbers of known laws from seeded bytes: rows that are made up need no secret."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def uniform(self, *shape: int) -> Floats:
        """Return numbers strictly between 0 and 1."""
        words = self._source.words(math.prod(shape)) >> np.uint64(11)
        return np.asarray((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

    def normal(self, *shape: int) -> Floats:
        """Return numbers of the standard normal law."""
        return np.asarray(ndtri(self.uniform(*shape)))

    def places(self, below: int, *shape: int) -> np.ndarray:
        """Return whole numbers from 0 on."""
        return np.minimum((self.uniform(*shape) * below).astype(np.int64), below - 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """One law of rows and targets, in the units of a fit.

    Args:
        rows: Rows that others are drawn from, with replacement.
        apart: The share of a row's variance that is drawn column by column: covariances of few rows are mostly chance.
        truth: (features + 1, outputs), the intercept last: the true coefficients.
        residuals: What is added to a number, one per row; None for classes.
    """

    rows: Floats
    apart: float
    truth: Floats
    residuals: Floats | None

    def drawn(self, size: int, dice: Dice) -> tuple[Floats, Floats]:
        """Return some rows, and their numbers or the places of their classes."""
        chosen = dice.places(len(self.rows), size)
        rows = self.rows[chosen]
        if self.apart > 0:
            mean, width = self.rows.mean(axis=0), self.rows.shape[1]
            others = self.rows[dice.places(len(self.rows), size, width), np.arange(width)]
            rows = mean + math.sqrt(1 - self.apart) * (rows - mean) + math.sqrt(self.apart) * (others - mean)
            rows = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        return rows, drawn_targets(
            self._outputs(rows, self.truth), None if self.residuals is None else self.residuals[chosen], dice
        )

    def score(self, theta: Floats, rows: Floats) -> tuple[float, float]:
        """Return how a model does on rows: R² and the root mean squared error, or accuracy and its complement."""
        return score_of(self._outputs(rows, self.truth), self._outputs(rows, theta), self.residuals)

    @staticmethod
    def _outputs(rows: Floats, theta: Floats) -> Floats:
        return np.asarray(rows @ theta[:-1] + theta[-1])


def chances_of(outcomes: Floats) -> Floats:
    """Return the probability of each class by predictors (rows, outputs); one output is the log odds of the second."""
    both = np.hstack([np.zeros_like(outcomes), outcomes]) if outcomes.shape[1] == 1 else outcomes
    return np.asarray(softmax_of(both, axis=1))


def drawn_targets(outcomes: Floats, residuals: Floats | None, dice: Dice) -> Floats:
    """Return targets of rows by their true predictors (rows, outputs): numbers, or the places of classes."""
    if residuals is not None:
        return np.asarray(outcomes[:, 0] + residuals)
    reached = chances_of(outcomes).cumsum(axis=1) < dice.uniform(len(outcomes), 1)
    return np.asarray(np.minimum(reached.sum(axis=1), max(outcomes.shape[1], 2) - 1), np.float64)


def score_of(truth: Floats, outcomes: Floats, residuals: Floats | None) -> tuple[float, float]:
    """Compare predictors with the true ones: R² and the root mean squared error, or accuracy and the rest."""
    if residuals is not None:
        left = float(np.var(residuals))
        error = left + float(np.mean((outcomes - truth) ** 2))
        return 1 - error / max(left + float(np.var(truth)), 1e-300), math.sqrt(error)
    said = (outcomes[:, 0] > 0).astype(np.int64) if outcomes.shape[1] == 1 else outcomes.argmax(axis=1)
    right = float(np.mean(chances_of(truth)[np.arange(len(truth)), said]))
    return right, 1 - right


class LawOfRows:
    """The law of public rows with their targets."""

    basis: Basis = "public rows"
    alone: float | None

    def __init__(self, public: PublicExamples, *, classes: int, outputs: int, intercept: bool) -> None:
        assert public.targets is not None
        self._rows, self._intercept = public.features, intercept
        self._apart = chance_share(public.features)
        self._ridge: PublicRidge | None = None
        self._roots: list[Floats] = []
        if classes:
            self._theta, self._roots, self.alone = _classifier(
                self._rows, public.targets, outputs=outputs, intercept=intercept
            )
            return
        targets = np.clip(public.targets, -1.0, 1.0)
        found = self._ridge = public_ridge(self._rows, targets, intercept=intercept)
        self._theta = np.append(found.weights, found.level - found.mean @ found.weights)[:, None]
        self.alone = 1 - found.left_out / max(float(targets.var()), 1e-300)

    def population(self, dice: Dice, *, at: float = 0.5) -> Population:
        """Return a law whose coefficients are as far from the fitted ones as these are sure, and other such rows."""
        del at  # public rows say it
        m = len(self._rows)
        again = dice.places(m, m)  # the public rows are a sample, too
        if self._ridge is None:
            moved = [root @ dice.normal(len(root)) for root in self._roots]
            theta = self._theta + _with_intercept(np.stack(moved, axis=1), intercept=self._intercept)
            return Population(rows=self._rows[again], apart=self._apart, truth=theta, residuals=None)
        found, known = self._ridge, self._ridge.squares + self._ridge.penalty
        errors = found.errors * math.sqrt(found.residual_variance / max(float(np.mean(found.errors**2)), 1e-300))
        deviation = math.sqrt(found.residual_variance)
        weights = found.weights + found.ways.T @ (deviation / np.sqrt(known) * dice.normal(len(known)))
        if len(known) < len(weights):  # where there were no rows, only the penalty says how large a coefficient is
            free = dice.normal(len(weights))
            weights = weights + deviation / math.sqrt(found.penalty) * (free - found.ways.T @ (found.ways @ free))
        level = found.level + (deviation / math.sqrt(m) * float(dice.normal(1)[0]) if self._intercept else 0.0)
        theta = np.append(weights, level - found.mean @ weights)[:, None]
        return Population(rows=self._rows[again], apart=self._apart, truth=theta, residuals=errors[again])


@dataclass(frozen=True, kw_only=True, eq=False)
class LawOfShape:
    """The law of features that fill their declared ranges.

    Args:
        groups: The features in order: 1 for a number, for a category how many labels it has.
        classes: How many classes there are; 0 for a number.
        outputs: Predictors of a row.
        intercept: Whether there is one.
        stated: Stated coefficients, taken to be as accurate as stated.
    """

    groups: Sequence[int]
    classes: int
    outputs: int
    intercept: bool
    stated: PredictedCoefficients | None = None
    basis: Basis = "declared shape"
    alone: float | None = None

    def population(self, dice: Dice, *, at: float = 0.5) -> Population:
        """Return a law whose coefficients point anywhere, or about where they are stated to."""
        size = max(_SHAPE_ROWS, 4 * sum(self.groups))
        share, parts = 1 / math.sqrt(len(self.groups)), []
        for width in self.groups:
            if width == 1:
                parts.append(share * np.clip(DEVIATION * dice.normal(size, 1), -1, 1))
            else:
                parts.append(share * (dice.places(width, size, 1) == np.arange(width)))
        rows = np.hstack(parts)
        variance, explained = DEVIATION**2, MIDDLE
        if self.stated is not None:
            theta = np.array(self.stated.theta, np.float64)
            if self.stated.basis is not None and self.stated.variances is not None:
                own = np.sqrt(np.broadcast_to(self.stated.variances, (self.stated.basis.shape[1], theta.shape[1])))
                theta = theta + self.stated.basis @ (own * dice.normal(*own.shape))
        else:
            theta = np.zeros((rows.shape[1] + 1, self.outputs))
            theta[:-1] = dice.normal(rows.shape[1], self.outputs) / np.maximum(rows.std(axis=0), 1e-9)[:, None]
            explained = LEAST_EXPLAINED + (MOST_EXPLAINED - LEAST_EXPLAINED) * at
            odds = math.sqrt(explained / (1 - explained))
            wanted = LOG_ODDS * odds if self.classes else math.sqrt(explained * variance)
            theta *= wanted / np.maximum((rows @ theta[:-1]).std(axis=0), 1e-300)
            if self.intercept:
                theta[-1] = -rows.mean(axis=0) @ theta[:-1]
        residuals = None if self.classes else math.sqrt((1 - explained) * variance) * dice.normal(size)
        return Population(rows=rows, apart=0.0, truth=theta, residuals=residuals)


#: What is known of the law of private rows.
Law = LawOfRows | LawOfShape


def chance_share(rows: Floats) -> float:
    """Return which share of the covariances between columns of so few rows is chance (Ledoit and Wolf, diagonal)."""
    m, centred = len(rows), rows - rows.mean(axis=0)
    covariance = centred.T @ centred / m
    between = covariance - np.diag(np.diag(covariance))
    size = float(np.sum(between**2))
    squares = centred**2
    spread = float(np.sum(squares.T @ squares) - np.sum(squares**2)) / m - size
    return min(1.0, max(0.0, spread / m / size)) if size > 0 else 0.0


def _classifier(rows: Floats, places: Floats, *, outputs: int, intercept: bool) -> tuple[Floats, list[Floats], float]:
    """Return coefficients of public classes, roots of their covariances, and the accuracy on parts left out."""
    loss, block = public_classes(rows, places, outputs=outputs, intercept=intercept)
    fold = np.arange(len(rows)) % _FOLDS
    parts = [[block.at(fold != out), block.at(fold == out)] for out in range(_FOLDS)]
    fitted: list[Floats | None] = [None] * _FOLDS
    scores = {}
    for penalty in sorted(_CLASS_PENALTIES, reverse=True):  # each begins where the one before ended
        outcomes = np.zeros((len(rows), outputs))
        fitted = [
            penalised_fit(loss, kept, penalty=penalty, start=start)
            for (kept, _), start in zip(parts, fitted, strict=True)
        ]
        for out, (model, (_, left)) in enumerate(zip(fitted, parts, strict=True)):
            outcomes[fold == out] = left.predict(np.asarray(model))
        chances = chances_of(outcomes)[np.arange(len(rows)), places.astype(np.int64)]
        said = (outcomes[:, 0] > 0) if outputs == 1 else outcomes.argmax(axis=1)
        scores[penalty] = (float(np.log(np.maximum(chances, 1e-12)).sum()), float(np.mean(said == places)))
    penalty = max(scores, key=lambda each: scores[each][0])
    raw = penalised_fit(loss, block, penalty=penalty)
    chances = chances_of(block.predict(raw))
    columns = raw.shape[0]
    penalties = np.full(columns, penalty)
    if intercept:
        penalties[-1] = 1e-3
    roots = []
    for output in range(outputs):
        chance = chances[:, [-1 if outputs == 1 else output]]
        # covariance (XᵀWX + penalty)⁻¹: by the root of its inverse
        values, vectors = np.linalg.eigh(block.gram(chance * (1 - chance)) + np.diag(penalties))
        roots.append(vectors / np.sqrt(np.maximum(values, 1e-9)))
    return _with_intercept(raw, intercept=intercept), roots, scores[penalty][1]


def _with_intercept(theta: Floats, *, intercept: bool) -> Floats:
    return theta if intercept else np.vstack([theta, np.zeros((1, theta.shape[1]))])


def public_classes(rows: Floats, places: Floats, *, outputs: int, intercept: bool) -> tuple[Loss, Block]:
    """Return the loss of classes, given by their places, and public rows of length at most 1 as it reads them."""
    norms = np.full((len(rows), 1), math.sqrt(2.0 if intercept else 1.0))
    constant = 1.0 if intercept else None
    if outputs == 1:
        return LogisticLoss(classes=(0, 1)), Block(rows, constant, np.where(places == 1, 1.0, -1.0)[:, None], norms)
    return SoftmaxLoss(classes=tuple(range(outputs))), Block(rows, constant, places[:, None], norms)

"""The published report of a descent: its path, and the bound that one person computes from it.

A descent releases a noisy Gram matrix, perhaps a count and a choice, and T noisy gradients at points that are released,
too. A row moves each gradient by a vector whose length anybody can compute from the point and the row, so the loss of
the whole transcript is V/2 + S: V the sum of the squares of these lengths in units of the noise, S a sum of normal
numbers with these lengths. V is known step by step but random, so S is bounded by a supermartingale, not by a normal
quantile (descent proof page, section 6). Lengths are computed in floats and rounded up by what the integers of the fit
may differ from them.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from sidelight.errors import RangeError, SchemaError
from sidelight.privacy_page.losses import Floats, Positive
from sidelight.privacy_page.published import (
    Guarantee,
    NotNegative,
    RowEncoding,
    check_encoding,
    refuse,
    without_none,
)

#: The rates of the supermartingale: ¼·2^{j/2}.
RATES = tuple(0.25 * 2 ** (j / 2) for j in range(16))
#: Mapped rows are cut off here, errors are rounded by less than this, and predictors of classes by less than this.
_LARGEST_Z, _ERROR_SLACK, _STEP = 256.0, 2.0**-13, 1 / 256
_HALF = 0.5
_UP = 1 + 1e-12


class DescentLoss(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loss: squared (in half ranges about a middle), logistic or softmax, with weights of at most 1 a class."""

    name: Literal["squared", "logistic", "softmax"]
    middle: float | None = None
    half: Positive | None = None
    weights: list[Positive] | None = None


class DescentReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A privacy report of a descent. `points` has, for every step, one list of coefficients for each output.

    `map` and `centre` are the coordinates of the steps (`map` null: the rows themselves); `mu_step`, `mu_gram` and
    `mu_count` what the largest row could cost in one step, in the matrix and in all else (counts, a second matrix, the
    last sum of classes, of which every row's bound includes as much as the largest row's); `beforehand` the pure
    epsilon of a choice; `row_slack` how far mapped rows may be rounded; `log_term` is ln(2·J/ρ).
    """

    schema: Literal["privacy-report/1"]
    mechanism: Literal["descent"]
    neighbours: Literal["add-or-remove-one-row"]
    guarantee: Guarantee
    loss: DescentLoss
    encoding: RowEncoding
    map: list[list[float]] | None
    centre: list[float]
    intercept: bool
    points: Annotated[list[list[list[float]]], msgspec.Meta(min_length=1)]
    clip: Positive
    mu_step: Positive
    mu_gram: NotNegative
    mu_count: NotNegative
    beforehand: NotNegative
    row_slack: NotNegative
    rho: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    rates: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    log_term: Positive
    scope: Literal["one-person"]
    maximum: NotNegative
    data_dependent: None = None

    def __post_init__(self) -> None:
        check_encoding(self.encoding, self.loss.name)
        d = self.encoding.columns
        if self.encoding.intercept_value is not None:
            refuse("encoding.intercept_value", "must be null for a descent")
        if len(self.centre) != d:
            refuse("centre", f"must have {d} entries, got {len(self.centre)}")
        if self.map is not None and (len(self.map) != d or any(len(row) != d for row in self.map)):
            refuse("map", f"must be {d} lists of {d} entries")
        outputs = len(self.encoding.label.classes or [0])
        for point in self.points:
            if len(point) != outputs or any(len(each) != d + self.intercept for each in point):
                refuse("points", f"must have {outputs} lists of {d + self.intercept} entries a step")
        if (self.loss.name == "squared") != (self.loss.half is not None and self.loss.middle is not None):
            refuse("loss.half", "middle and half belong to the squared loss, and to no other")
        if self.loss.weights is not None and len(self.loss.weights) != max(outputs, 2):
            refuse("loss.weights", "must have one weight for each class")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, in the order of the schema."""
        written: dict[str, Any] = without_none(msgspec.to_builtins(self))
        written.setdefault("map", None)
        written.setdefault("data_dependent", None)
        written["encoding"].setdefault("intercept_value", None)
        return written

    def to_json(self) -> str:
        """Return the report as JSON; numbers have the digits that bring the same floats back."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2).decode() + "\n"


def build_descent_report(
    *,
    guarantee: Guarantee,
    loss: DescentLoss,
    encoding: RowEncoding,
    mapping: Floats | None,
    centre: Floats,
    intercept: bool,
    points: Floats,
    clip: float,
    mu_step: float,
    mu_gram: float,
    mu_count: float,
    beforehand: float,
    rho: float,
) -> DescentReport:
    """Write the report of a descent from its released path.

    Guarantee: post-processing of what is public and released already: free.

    Args:
        guarantee: The worst-case guarantee.
        loss: The loss.
        encoding: How a raw row becomes a row of the fit; without a constant column.
        mapping: The map, (features, features), or None.
        centre: (features,).
        intercept: Whether there is a constant column.
        points: (steps, columns, outputs): where the gradients were taken.
        clip: The clip of a row's gradient.
        mu_step: What a row of that length costs in one step.
        mu_gram: What the largest row costs in the Gram matrix.
        mu_count: What a row costs at most in counts, in a second matrix and in the last sum of classes.
        beforehand: The pure epsilon of the choice.
        rho: The probability with which a bound may fail.

    Raises:
        RangeError: rho makes no sense.
        SchemaError: the encoding does not fit the path.
    """
    if not 0 < rho < 1:
        raise RangeError(f"rho is a probability above 0 and below 1, got {rho:g}; 1e-6 is usual")
    log_term = math.log(2 * len(RATES) / rho) * _UP
    largest = mu_gram**2 + mu_count**2 + len(points) * mu_step**2
    try:
        return DescentReport(
            schema="privacy-report/1",
            mechanism="descent",
            neighbours="add-or-remove-one-row",
            guarantee=guarantee,
            loss=loss,
            encoding=encoding,
            map=None if mapping is None else mapping.tolist(),
            centre=centre.tolist(),
            intercept=intercept,
            points=np.swapaxes(points, 1, 2).tolist(),
            clip=clip,
            mu_step=mu_step,
            mu_gram=mu_gram,
            mu_count=mu_count,
            beforehand=beforehand,
            row_slack=row_slack(mapping, len(centre)),
            rho=rho,
            rates=list(RATES),
            log_term=log_term,
            scope="one-person",
            maximum=float(from_variance(np.array([largest]), RATES, log_term)[0] + beforehand) * _UP,
        )
    except ValueError as error:
        raise SchemaError(str(error)) from None


def row_slack(mapping: Floats | None, features: int) -> float:
    """Bound how far the integers of a mapped row are from its real numbers, in Euclidean norm.

    Codes are off by less than 2⁻¹⁴ an entry; the map's whole numbers by ½ of 2^{-(s - 2)}, where s is 26 less the bits
    of its largest entry, and at most 40; z by ½ of 2⁻¹².
    """
    root = math.sqrt(features)
    if mapping is None:
        return root * 2.0**-14 * _UP
    largest = max(float(np.abs(mapping).max()), 2.0**-14)
    shift = min(40, math.floor(25.99 - math.log2(largest)))
    of_map = 2.0**-12 * (0.5 + (0.5 * root * 2.0**14 + 0.5) * 2.0**-shift)
    return root * (of_map + 2.0**-14 * float(np.linalg.norm(mapping, 2))) * _UP


def descent_bounds(report: DescentReport, rows: Floats, targets: Floats) -> Floats:
    """Bound |log p_D - log p_D±z| of the transcript for encoded rows (norm at most `data_norm`) and their targets."""
    variance = path_variance(report, rows / report.encoding.data_norm, targets)
    return from_variance(variance, report.rates, report.log_term) + report.beforehand


def from_variance(variance: Floats, rates: Any, log_term: float) -> Floats:
    """Return V/2 + min over a of (a·V/2 + log_term/a)."""
    rate = np.asarray(rates)[:, None]
    return np.asarray(variance / 2 + np.min(rate * variance / 2 + log_term / rate, axis=0))


def path_variance(report: DescentReport, rows: Floats, targets: Floats) -> Floats:
    """Return V, rounded up: the squares of how far a row moves each release, in units of its noise."""
    z = rows if report.map is None else np.clip((rows - np.asarray(report.centre)) @ np.asarray(report.map), -256, 256)
    size = np.sqrt(np.sum(z * z, axis=1) + report.intercept * (1.0 if report.map is not None else _HALF) ** 2)
    size = size + report.row_slack
    own = (np.sum(rows * rows, axis=1) + _HALF**2) / (1 + _HALF**2)
    total = (report.mu_gram * own) ** 2 + report.mu_count**2
    for point in report.points:
        theta = np.asarray(point).T
        slopes = theta[: rows.shape[1]]
        slack = report.row_slack * float(np.sqrt(np.max(np.sum(slopes * slopes, axis=0))))
        predicted = z @ slopes
        if report.intercept:
            predicted = predicted + theta[-1] * (1.0 if report.map is not None else _HALF)
        length = np.minimum(size * error_lengths(report.loss, predicted, targets, slack), report.clip)
        total = total + (length / report.clip * report.mu_step) ** 2
    return np.asarray(total)


def error_lengths(loss: DescentLoss, predicted: Floats, targets: Floats, slack: float) -> Floats:
    """Bound the length of the loss's derivative in its predictors."""
    if loss.name == "squared":
        assert loss.half is not None
        assert loss.middle is not None
        return np.asarray(np.abs(predicted[:, 0] - (targets - loss.middle) / loss.half) + slack + _ERROR_SLACK)
    weights = np.asarray(loss.weights if loss.weights is not None else [1.0] * max(predicted.shape[1], 2))
    if loss.name == "logistic":
        margin = np.clip(targets * predicted[:, 0] - slack - _STEP, -700, 700)
        return np.asarray(weights[(targets > 0).astype(int)] / (1 + np.exp(margin)) + _ERROR_SLACK)
    own = targets.astype(np.int64)
    shares = np.exp(predicted - predicted.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    shares[np.arange(len(own)), own] = 0.0
    away = shares.sum(axis=1)
    length = np.sqrt(away**2 + np.sum(shares * shares, axis=1)) * np.exp(np.minimum(2 * (slack + _STEP), 700))
    return np.asarray(weights[own] * length + math.sqrt(predicted.shape[1]) * _ERROR_SLACK)

"""The published reports of descents and of additive models: the path, and the bound that one person computes from it.

A descent releases a noisy Gram matrix, perhaps a count and a choice, and T noisy gradients at points that are released,
too. A row moves each gradient by a vector whose length anybody can compute from the point and the row, so the loss of
the whole transcript is V/2 + S: V the sum of the squares of these lengths in units of the noise, S a sum of normal
numbers with these lengths. V is known step by step but random, so S is bounded by a supermartingale, not by a normal
quantile (descent proof page, section 6). Lengths are computed in floats and rounded up by what the integers of the fit
may differ from them.

After the lines, whose path is a descent's, an additive model releases counts, a Gram matrix and noisy gradients at
released points. What a row moves in each is looked up by the cells that its values fall into, so the bound of the
descent page holds with these lengths (additive-model proof page, section 7). Values become cells by the operations of
training on its own floats, and tables hold the integers of the fit, so predictors and lengths are those of the fit but
for the rounding of floats.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np

from sidelight.errors import RangeError, SchemaError
from sidelight.privacy_page.losses import Floats, Positive
from sidelight.privacy_page.published import Guarantee, NotNegative, RowEncoding, WrittenReport, check_encoding, refuse

#: The rates of the supermartingale: ¼·2^{j/2}.
RATES = tuple(0.25 * 2 ** (j / 2) for j in range(16))
#: Mapped rows are cut off here, errors are rounded by less than this, and predictors of classes by less than this.
_LARGEST_Z, _ERROR_SLACK, _STEP = 256.0, 2.0**-13, 1 / 256
#: How far an entry of a row of length at most 1 is from its code.
_CODE_SLACK = 2.0**-14 + 2.0**-20
_HALF = 0.5
_UP = 1 + 1e-12


class DescentLoss(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The loss: squared (in half ranges about a middle), logistic or softmax, with weights of at most 1 a class."""

    name: Literal["squared", "logistic", "softmax"]
    middle: float | None = None
    half: Positive | None = None
    weights: list[Positive] | None = None


class DescentReport(WrittenReport, frozen=True, kw_only=True):
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
    _nulls: ClassVar[tuple[str, ...]] = ("map", "data_dependent")

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
    largest = mu_gram**2 + mu_count**2 + len(points) * mu_step**2
    shared = _shared_parts(rho=rho, largest=largest, beforehand=beforehand, up=_UP)
    try:
        return DescentReport(
            mechanism="descent",
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
            row_slack=row_slack(mapping, len(centre)),
            **shared,
        )
    except ValueError as error:
        raise SchemaError(str(error)) from None


def _shared_parts(*, rho: float, largest: float, beforehand: float, up: float) -> dict[str, Any]:
    """Return the fields that follow from the largest sum of squares a row can have, rounded up by the factor `up`."""
    if not 0 < rho < 1:
        raise RangeError(f"rho is a probability above 0 and below 1, got {rho:g}; 1e-6 is usual")
    log_term = math.log(2 * len(RATES) / rho) * up
    return {
        "schema": "privacy-report/1",
        "neighbours": "add-or-remove-one-row",
        "beforehand": beforehand,
        "rho": rho,
        "rates": list(RATES),
        "log_term": log_term,
        "scope": "one-person",
        "maximum": float(from_variance(np.array([largest]), RATES, log_term)[0] + beforehand) * up,
    }


def row_slack(mapping: Floats | None, features: int) -> float:
    """Bound how far the integers of a mapped row are from its real numbers, in Euclidean norm.

    Codes are off by less than 2⁻¹⁴ + 2⁻²⁰ an entry: they are cut, and entries of a table were cut to 2⁻²⁰ before, and
    multiplied by a share just below 1/√k; the map's whole numbers by ½ of 2^{-(s - 2)}, where s is 26 less the bits of
    its largest entry, and at most 40; z by ½ of 2⁻¹².
    """
    root = math.sqrt(features)
    if mapping is None:
        return root * _CODE_SLACK * _UP
    largest = max(float(np.abs(mapping).max()), 2.0**-14)
    shift = min(40, math.floor(25.99 - math.log2(largest)))
    of_map = 2.0**-12 * (0.5 + (0.5 * root * 2.0**14 + 0.5) * 2.0**-shift)
    return root * (of_map + _CODE_SLACK * float(np.linalg.norm(mapping, 2))) * _UP


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


#: Fine cells of a number.
FINE_CELLS = 1024
#: Steps of a table's numbers from the middle of a range to its end.
TABLE_LEVELS = 1 << 20
_UP_TABLES = 1 + 1e-9


class ColumnPath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one column adds: `offset` by fine cell of a number or by level, the rest by cell.

    `cell` is the cell of each fine cell or level; `steps` has for every step what each cell adds to the predictor (a
    list for each output), `square` the squared length of each cell's part of z, `leading` that of its part in the
    matrix.
    """

    cell: list[int]
    offset: list[list[float]]
    steps: list[list[list[float]]]
    square: list[NotNegative]
    leading: list[NotNegative]


class AdditiveReport(WrittenReport, frozen=True, kw_only=True):
    """A privacy report of an additive model.

    `lines` is the report of the line stage, null without one; `constants` has one list of numbers a step, one for each
    output; `clips` one clip a step; `radius` is the length to which rows of the matrix are shortened; `mu_step`,
    `mu_gram` and `mu_count` are what the largest row could cost in one step, in the matrix, and in counts, of which
    every row's bound includes all.
    """

    schema: Literal["privacy-report/1"]
    mechanism: Literal["additive"]
    neighbours: Literal["add-or-remove-one-row"]
    guarantee: Guarantee
    loss: DescentLoss
    encoding: RowEncoding
    lines: DescentReport | None
    columns: Annotated[list[ColumnPath], msgspec.Meta(min_length=1)]
    constants: Annotated[list[list[float]], msgspec.Meta(min_length=1)]
    clips: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    radius: NotNegative
    mu_step: Positive
    mu_gram: NotNegative
    mu_count: NotNegative
    beforehand: NotNegative
    rho: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    rates: Annotated[list[Positive], msgspec.Meta(min_length=1)]
    log_term: Positive
    scope: Literal["one-person"]
    maximum: NotNegative
    data_dependent: None = None
    _nulls: ClassVar[tuple[str, ...]] = ("lines", "data_dependent")

    def __post_init__(self) -> None:
        check_encoding(self.encoding, self.loss.name)
        features, steps = self.encoding.features, len(self.clips)
        if len(self.columns) != len(features):
            refuse("columns", f"must have {len(features)} entries, one for each feature, got {len(self.columns)}")
        if len(self.constants) != steps:
            refuse("constants", f"must have one entry for each of {steps} steps")
        for place, (column, feature) in enumerate(zip(self.columns, features, strict=True)):
            if feature.levels is None and feature.inverse_half is None:
                refuse(
                    f"encoding.features.{place}.inverse_half",
                    "missing; without it a value at the edge of a cell is looked up in another one than in training: "
                    "write the report again with this version",
                )
            codes = FINE_CELLS if feature.levels is None else len(feature.levels)
            cells = len(column.square)
            if len(column.cell) != codes or len(column.offset) != codes or max(column.cell) >= cells:
                refuse(f"columns.{place}.cell", f"must name one of {cells} cells for each of {codes} values")
            if len(column.leading) != cells or len(column.steps) != steps:
                refuse(f"columns.{place}.steps", f"must have {steps} steps of {cells} cells")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, in the order of the schema."""
        return super().to_dict() | ({} if self.lines is None else {"lines": self.lines.to_dict()})


def build_additive_report(*, rho: float, **parts: Any) -> AdditiveReport:
    """Write the report of an additive model from its released path.

    Guarantee: post-processing of what is public and released already: free.

    Args:
        rho: The probability with which a bound may fail.
        parts: The fields of `AdditiveReport` but for those that follow from them.

    Raises:
        RangeError: rho makes no sense.
        SchemaError: the parts do not fit each other.
    """
    lines: DescentReport | None = parts["lines"]
    largest = parts["mu_gram"] ** 2 + parts["mu_count"] ** 2 + len(parts["clips"]) * parts["mu_step"] ** 2
    if lines is not None:
        largest += lines.mu_gram**2 + lines.mu_count**2 + len(lines.points) * lines.mu_step**2
    shared = _shared_parts(rho=rho, largest=largest, beforehand=parts.pop("beforehand"), up=_UP_TABLES)
    try:
        return AdditiveReport(mechanism="additive", **shared, **parts)
    except ValueError as error:
        raise SchemaError(str(error)) from None


def additive_bounds(report: AdditiveReport, rows: Floats, targets: Floats) -> Floats:
    """Bound |log p_D - log p_D±z| of the transcript for encoded rows and their targets."""
    variance = curve_variance(report, rows, targets)
    if report.lines is not None:
        variance = variance + path_variance(report.lines, rows / report.encoding.data_norm, targets)
    return from_variance(variance, report.rates, report.log_term) + report.beforehand


def curve_variance(report: AdditiveReport, rows: Floats, targets: Floats) -> Floats:
    """Return V of everything but the lines, rounded up."""
    codes = fine_codes(report, rows)
    steps, outputs = len(report.clips), len(report.constants[0])
    square, leading = np.ones(len(rows)), np.zeros(len(rows))
    outputs_before = np.zeros((steps, len(rows), outputs)) + np.asarray(report.constants)[:, None, :]
    for column, code in zip(report.columns, codes.T, strict=True):
        cell = np.asarray(column.cell)[code]
        square += np.asarray(column.square)[cell]
        leading += np.asarray(column.leading)[cell]
        outputs_before += np.asarray(column.offset)[code][None] + np.asarray(column.steps)[:, cell]
    size = np.sqrt(square) * _UP_TABLES
    largest = report.radius**2
    own = np.minimum(leading * _UP_TABLES, largest) / largest if largest else np.zeros(len(rows))
    total = (report.mu_gram * own) ** 2 + report.mu_count**2
    for clip, predicted in zip(report.clips, outputs_before, strict=True):
        length = np.minimum(size * error_lengths(report.loss, predicted, targets, 0.0), clip)
        total = total + (length / clip * report.mu_step) ** 2
    return np.asarray(total)


def fine_codes(report: AdditiveReport, rows: Floats) -> Any:
    """Return the fine cell or level of each feature of encoded rows, whose numbers are whole codes of training."""
    found, start = [], 0
    for feature in report.encoding.features:
        part = rows[:, start : start + feature.width]
        start += feature.width
        if feature.levels is not None:
            found.append(part.argmax(axis=1))
            continue
        low, high = feature.ends
        # encoded rows hold whole codes that training's operations made; the floats back to them err by less than 2⁻²⁵
        near = ((part[:, 0] - low) / (high - low) * 2 - 1) * TABLE_LEVELS
        code = np.trunc(near + np.copysign(2.0**-20, near)).astype(np.int64)
        found.append(np.minimum((code + TABLE_LEVELS) >> 11, FINE_CELLS - 1))
    return np.stack(found, axis=1)

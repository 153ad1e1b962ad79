"""The published report of an additive model: its tables and its path, and the bound that one person computes from it.

After the lines, whose path is a descent's, an additive model releases counts, a Gram matrix and noisy gradients at
released points. What a row moves in each is looked up by the cells that its values fall into, so the bound of the
descent page holds with these lengths (additive-model proof page, section 7). Tables hold the integers of the fit, so
predictors and lengths are those of the fit but for the rounding of floats.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from sidelight.errors import RangeError, SchemaError
from sidelight.privacy_page.descent_report import (
    RATES,
    DescentLoss,
    DescentReport,
    error_lengths,
    from_variance,
    path_variance,
)
from sidelight.privacy_page.losses import Floats, Positive
from sidelight.privacy_page.published import Guarantee, NotNegative, RowEncoding, check_encoding, refuse, without_none

#: Fine cells of a number.
FINE_CELLS = 1024
_LEVELS = 1 << 20
_UP = 1 + 1e-9


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


class AdditiveReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    def __post_init__(self) -> None:
        check_encoding(self.encoding, self.loss.name)
        features, steps = self.encoding.features, len(self.clips)
        if len(self.columns) != len(features):
            refuse("columns", f"must have {len(features)} entries, one for each feature, got {len(self.columns)}")
        if len(self.constants) != steps:
            refuse("constants", f"must have one entry for each of {steps} steps")
        for place, (column, feature) in enumerate(zip(self.columns, features, strict=True)):
            codes = FINE_CELLS if feature.levels is None else len(feature.levels)
            cells = len(column.square)
            if len(column.cell) != codes or len(column.offset) != codes or max(column.cell) >= cells:
                refuse(f"columns.{place}.cell", f"must name one of {cells} cells for each of {codes} values")
            if len(column.leading) != cells or len(column.steps) != steps:
                refuse(f"columns.{place}.steps", f"must have {steps} steps of {cells} cells")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, in the order of the schema."""
        written: dict[str, Any] = without_none(msgspec.to_builtins(self))
        written["lines"] = None if self.lines is None else self.lines.to_dict()
        written.setdefault("data_dependent", None)
        written["encoding"].setdefault("intercept_value", None)
        return written

    def to_json(self) -> str:
        """Return the report as JSON; numbers have the digits that bring the same floats back."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2).decode() + "\n"


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
    if not 0 < rho < 1:
        raise RangeError(f"rho is a probability above 0 and below 1, got {rho:g}; 1e-6 is usual")
    log_term = math.log(2 * len(RATES) / rho) * _UP
    lines: DescentReport | None = parts["lines"]
    largest = parts["mu_gram"] ** 2 + parts["mu_count"] ** 2 + len(parts["clips"]) * parts["mu_step"] ** 2
    if lines is not None:
        largest += lines.mu_gram**2 + lines.mu_count**2 + len(lines.points) * lines.mu_step**2
    most = float(from_variance(np.array([largest]), RATES, log_term)[0] + parts["beforehand"]) * _UP
    try:
        return AdditiveReport(
            schema="privacy-report/1",
            mechanism="additive",
            neighbours="add-or-remove-one-row",
            rho=rho,
            rates=list(RATES),
            log_term=log_term,
            scope="one-person",
            maximum=most,
            **parts,
        )
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
    told = np.zeros((steps, len(rows), outputs)) + np.asarray(report.constants)[:, None, :]
    for column, code in zip(report.columns, codes.T, strict=True):
        cell = np.asarray(column.cell)[code]
        square += np.asarray(column.square)[cell]
        leading += np.asarray(column.leading)[cell]
        told += np.asarray(column.offset)[code][None] + np.asarray(column.steps)[:, cell]
    size = np.sqrt(square) * _UP
    largest = report.radius**2
    own = np.minimum(leading * _UP, largest) / largest if largest else np.zeros(len(rows))
    total = (report.mu_gram * own) ** 2 + report.mu_count**2
    for clip, predicted in zip(report.clips, told, strict=True):
        length = np.minimum(size * error_lengths(report.loss, predicted, targets, 0.0), clip)
        total = total + (length / clip * report.mu_step) ** 2
    return np.asarray(total)


def fine_codes(report: AdditiveReport, rows: Floats) -> Any:
    """Return the fine cell or level of each feature of encoded rows."""
    found, start = [], 0
    for feature in report.encoding.features:
        part = rows[:, start : start + feature.width]
        start += feature.width
        if feature.levels is not None:
            found.append(part.argmax(axis=1))
            continue
        low, high = feature.ends
        # codes are whole numbers of 2⁻²⁰ half ranges, cut towards the middle; floats may end just below one
        code = np.trunc(((part[:, 0] - low) / (high - low) * 2 - 1) * _LEVELS * (1 + 1e-13)).astype(np.int64)
        found.append(np.minimum((code + _LEVELS) >> 11, FINE_CELLS - 1))
    return np.stack(found, axis=1)

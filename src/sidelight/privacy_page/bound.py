"""The bound that one person reads: formula (2) of the report, from a published file and one row, and nothing else.

This is the reference that the page's JavaScript is tested against, and works on many rows at once, so that a curator
can look at its distribution over public or generated people. Over the training rows that distribution is private. The
person's row must be encoded as the training rows were (ranges, levels, row policy, constant column): a forgotten
constant column makes the row shorter than it was, and the bound too small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import msgspec
import numpy as np

from sidelight.aggregates.clipped_vector import codes_of_number
from sidelight.errors import SchemaError, nearest
from sidelight.privacy_page.losses import Floats, Reach, reach, softmax_reach
from sidelight.privacy_page.published import (
    DataDependent,
    Feature,
    Member,
    PublishedReport,
    RowEncoding,
    check_finite,
    check_version,
    sentence,
)
from sidelight.privacy_page.stepwise_reports import (
    TABLE_LEVELS,
    AdditiveReport,
    DescentReport,
    additive_bounds,
    descent_bounds,
)
from sidelight.readable import number_text
from sidelight.records.cells import text_of
from sidelight.records.dates import Calendar

AnyReport = PublishedReport | DescentReport | AdditiveReport


def read_report(report: AnyReport | dict[str, Any] | str | bytes) -> AnyReport:
    """Read a published report from its JSON text or its dict, strictly.

    Raises:
        SchemaError: a field is missing, unknown, of another version or out of range; the message names the field.

    >>> read_report('{"schema": "privacy-report/9"}')
    Traceback (most recent call last):
        ...
    sidelight.errors.SchemaError: field schema: this version reads "privacy-report/1", got 'privacy-report/9'; ...
    """
    if isinstance(report, PublishedReport | DescentReport | AdditiveReport):
        return report
    if isinstance(report, str | bytes):
        try:
            report = msgspec.json.decode(report)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SchemaError(f"a privacy report must be a JSON file: {error}") from None
    if not isinstance(report, dict):
        raise SchemaError(f"a privacy report must be a JSON object, got {type(report).__name__}")
    check_version(report)
    check_finite(report, "")
    try:
        if report.get("mechanism") == "descent":
            return msgspec.convert(report, DescentReport)
        if report.get("mechanism") == "additive":
            return msgspec.convert(report, AdditiveReport)
        return msgspec.convert(report, PublishedReport)
    except msgspec.ValidationError as error:
        raise SchemaError(sentence(str(error))) from None


def encode_features(features: Sequence[Feature], row: Mapping[str, Any] | Sequence[Any]) -> Floats:
    """Turn one raw row (values by name, or in the order of the features) into numbers, before the row policy.

    Raises:
        SchemaError: a feature is missing, unknown, no number, or refused by its rule; the message names it.
    """
    entries: list[float] = []
    for feature, value in zip(features, _in_order(features, row), strict=True):
        entries += _level(feature, value) if feature.levels is not None else [_number(feature, value)]
    return np.asarray(entries, dtype=np.float64)


def bounded_rows(encoding: RowEncoding, rows: Floats) -> Floats:
    """Apply the row policy to encoded rows (n, columns) and append the constant column."""
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    scaled = np.divide(rows, largest, out=np.zeros_like(rows), where=largest > 0)  # squares cannot overflow
    length = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True))
    full = np.divide(encoding.data_norm, length, out=np.zeros_like(length), where=length > 0)
    change = (largest > full) | (encoding.row_policy == "normalize")  # largest·length > data_norm, without overflow
    bounded = np.where(change, scaled * full, rows)
    if encoding.intercept_value is None:
        return bounded
    return np.hstack([bounded, np.full((rows.shape[0], 1), encoding.intercept_value)])


def encode_row(encoding: RowEncoding, row: Mapping[str, Any] | Sequence[Any]) -> Floats:
    """Turn one raw row into the row of the fit, shape (1, columns)."""
    return bounded_rows(encoding, encode_features(encoding.features, row)[None, :])


def encode_label(encoding: RowEncoding, label: Any) -> float:
    """Turn one label into the target of the loss: -1 or 1, the number of a class, or a number clamped to its range.

    Raises:
        SchemaError: the label is none of the declared ones, or no number.
    """
    declared = encoding.label
    if declared.lo is not None and declared.hi is not None:
        return min(max(_finite("label", label), declared.lo), declared.hi)
    known = declared.classes or [str(declared.negative), str(declared.positive)]
    text = str(label)
    found = text if text in known else text_of(label)  # classes of an array are as Python writes them, or as a table
    if found not in known:
        raise SchemaError(f"label: {text!r} is no class of this model; {nearest(text, known)}")
    place = known.index(found)
    return float(place) if declared.classes is not None else 2.0 * place - 1.0


def _in_order(features: Sequence[Feature], row: Mapping[str, Any] | Sequence[Any]) -> list[Any]:
    names = [feature.name for feature in features]
    if isinstance(row, Mapping):
        for name in row:
            if name not in names:
                raise SchemaError(f"{name}: this model has no such feature; {nearest(str(name), names)}")
        for name in names:
            if name not in row:
                raise SchemaError(f"{name}: missing; give a value for every feature")
        return [row[name] for name in names]
    if isinstance(row, str) or len(row) != len(names):
        raise SchemaError(f"a row has {len(names)} values ({', '.join(names[:5])}, ...), got {len(row)}")
    return list(row)


def _number(feature: Feature, value: Any) -> float:
    number = _finite(feature.name, value) if feature.calendar is None else _date(feature, feature.calendar, value)
    if number in (feature.missing_values or ()):
        raise SchemaError(f"{feature.name}: training took {_shown(value)} as missing; the report holds no bound for it")
    if feature.lo is None or feature.hi is None:
        return number
    if feature.rejects and not feature.lo <= number <= feature.hi:
        low, high = (number_text(end, digits=15) for end in (feature.lo, feature.hi))
        raise SchemaError(f"{feature.name}: must lie in {low} .. {high}; a row like this could not have been used")
    start, end = feature.ends
    if feature.middle is not None and feature.inverse_half is not None:
        ends = {"low": feature.lo, "high": feature.hi}
        (code,) = codes_of_number(
            number, **ends, middle=feature.middle, factor=feature.inverse_half, levels=TABLE_LEVELS
        )
        return float((start + end) / 2 + code * ((end - start) / 2 / TABLE_LEVELS))
    share = (min(max(number, feature.lo), feature.hi) - feature.lo) / (feature.hi - feature.lo)
    return start + share * (end - start)


def _level(feature: Feature, value: Any) -> list[float]:
    levels, (off, on) = feature.levels or [], feature.ends
    text = text_of(value)
    found = feature.level_of(text)
    if found is None and text is not None and str(value) in levels:  # True is "true" in a table, but not in every array
        found = str(value)
    if found is None and feature.rejects:
        # only a feature that says so refuses; earlier versions did not say which level takes unknown values
        why = "a row like this could not have been used" if feature.outside else "the report holds no bound for it"
        raise SchemaError(f"{feature.name}: {text!r} is no level; {nearest(text or '', levels)}; {why}")
    return [on if level == found else off for level in levels]


def _date(feature: Feature, calendar: Calendar, value: Any) -> float:
    """Return a date as training counted it."""
    number = calendar.of_cell(value)
    if not np.isfinite(number):
        raise SchemaError(f"{feature.name}: a date belongs here, such as {feature.start!r}, got {_shown(value)}")
    return number


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise SchemaError(f"{name}: a number belongs here, got {_shown(value)}")
    number = float(value)
    if not np.isfinite(number):
        raise SchemaError(f"{name}: a finite number belongs here, got {number}")
    return number


def _shown(value: Any) -> str:
    return "nothing" if value is None or value == "" else repr(value)


Interval = tuple[Floats, Floats]


def report_bound(
    report: AnyReport | dict[str, Any] | str | bytes,
    row: Mapping[str, Any] | Sequence[Any],
    label: Any,
    *,
    member: Member = "unknown",
) -> float:
    """Bound what a release revealed about one person: |log p_D(o) - log p_D±z(o)|.

    Guarantee: except with probability `rho` over the noise of the release, the loss of the release (its exact minimum
    and its output step, or a descent's noisy sums before they are rounded: a stronger observer's view) is at most the
    bound, for a row fixed before the noise was drawn
    (scope "everyone": for any row). Post-processing of published values and the person's own row: free
    (per-instance proof page, Theorems 3 to 6; descent proof page, section 6).

    Args:
        report: A published report: JSON text, its dict, or as `read_report` gives it.
        row: The person's values by feature name, or in the order of the features.
        label: The person's label, as a class or a number.
        member: Whether the person was in the data; only a paid report tells the cases apart, and "unknown" takes the
            larger bound.

    Raises:
        SchemaError: a field of the report or of the row is missing, unknown or impossible; the message names it.
    """
    known = read_report(report)
    encoded = encode_row(known.encoding, row)
    target = np.array([encode_label(known.encoding, label)])
    return float(_bounds(known, encoded, target, member)[0])


def bounds_of_rows(
    report: AnyReport | dict[str, Any] | str | bytes, rows: Any, targets: Any, *, member: Member = "unknown"
) -> Floats:
    """Return the bound for many rows of numbers that are encoded already, before the row policy, and their targets.

    Targets are -1 and 1, numbers of classes, or numbers in the label's range. Rows of a table are cut to steps, as
    `encode_row` and training do. For public or generated rows: the distribution of bounds over the training rows
    depends on all of them, and is not free.
    """
    known = read_report(report)
    encoded = bounded_rows(known.encoding, np.asarray(rows, dtype=np.float64))
    wanted = np.asarray(targets, dtype=np.float64)
    label = known.encoding.label
    if label.lo is not None and label.hi is not None:
        wanted = np.clip(wanted, label.lo, label.hi)
    return _bounds(known, encoded, wanted, member)


def _bounds(report: AnyReport, rows: Floats, targets: Floats, member: Member) -> Floats:
    if isinstance(report, DescentReport):
        return descent_bounds(report, rows, targets)
    if isinstance(report, AdditiveReport):
        return additive_bounds(report, rows, targets)
    norm = np.sqrt(np.sum(rows * rows, axis=1))
    theta = np.asarray(report.theta, dtype=np.float64)
    predictor = rows @ theta.T
    factor = noise_factor(report, rows, norm)
    lam, sigma = report.regularisation, report.sigma
    if theta.ndim == 2:
        classes = theta.shape[0]
        away = softmax_reach(predictor, norm, targets, report.slack)
        weights = np.asarray(getattr(report.loss, "weights", None) or np.ones(classes))[targets.astype(np.int64)]
        trace = weights * np.minimum(1 - 1 / classes, 2 * away) * norm * norm
        bent = (classes - 1) * np.log1p(trace / ((classes - 1) * lam))
        steep = np.sqrt(2) * weights * away * norm
        return np.asarray(bent + steep**2 / (2 * sigma**2) + steep * factor / sigma + output_step(report))
    found = reach(report.loss, predictor=predictor, norm=norm, target=targets, slack=report.slack)
    if report.data_dependent is not None:
        return paid_bounds(report, rows, norm, found, member) + output_step(report)
    steep = found.steepest
    bent = np.log1p(found.bend_high / lam)
    return np.asarray(bent + steep**2 / (2 * sigma**2) + steep * factor / sigma + output_step(report))


def noise_factor(report: PublishedReport, rows: Floats, norm: Floats) -> Floats:
    """Return how many σ the noise along a row may reach."""
    if report.q_axis is None:
        return np.full_like(norm, report.q)
    largest = np.sum(np.abs(rows), axis=1) * report.q_axis
    by_entries = np.divide(largest, norm, out=np.full_like(norm, np.inf), where=norm > 0)
    return np.asarray(np.minimum(report.q, by_entries))


def output_step(report: PublishedReport) -> float:
    """Bound the loss of the output step, the same for everyone: μ²/2 + μq; and of what was released before the fit."""
    reached = report.q if report.q_out is None else report.q_out
    return report.mu_out**2 / 2 + report.mu_out * reached + (report.beforehand or 0.0)


def paid_bounds(report: PublishedReport, rows: Floats, norm: Floats, found: Reach, member: Member) -> Floats:
    """Bound the loss of the fit and of the two extra releases, without the output step (Theorem 6).

    The extra releases make the interval of the loss narrower, and reveal something themselves; that overhead is always
    added. The Hessian may be indefinite after noise: every matrix is tested before it is used, and none is
    pseudo-inverted.
    """
    paid = report.data_dependent
    assert paid is not None
    signs: dict[Member, tuple[Literal[1, -1], ...]] = {"yes": (-1,), "no": (1,), "unknown": (1, -1)}
    intervals = [signed_interval(report, rows, norm, found, sign=sign) for sign in signs[member]]
    largest = np.max([np.maximum(np.abs(low), np.abs(high)) for low, high in intervals], axis=0)
    return np.asarray(largest + overhead(paid, found))


def signed_interval(
    report: PublishedReport, rows: Floats, norm: Floats, found: Reach, *, sign: Literal[1, -1]
) -> Interval:
    """Enclose log p_D - log p_D±z: the person is added (sign 1) or removed (sign -1)."""
    paid, variance = report.data_dependent, report.sigma**2
    assert paid is not None
    below, above = _curvature(report, rows, norm, found, sign=sign)
    square_low, square_high = found.flattest**2 / (2 * variance), found.steepest**2 / (2 * variance)
    # gᵀx/‖x‖ lies in an interval, f'·‖x‖ in another; their product at the four corners
    centre, spread = along_gradient(report, paid, rows, norm)
    ends = [
        sign * slope * g / variance for slope in (found.low, found.high) for g in (centre - spread, centre + spread)
    ]
    return below + square_low + np.min(ends, axis=0), above + square_high + np.max(ends, axis=0)


def along_gradient(report: PublishedReport, paid: DataDependent, rows: Floats, norm: Floats) -> Interval:
    """Return centre and half-width of the interval of gᵀx/‖x‖, shrunk towards its known law N(0, σ²)."""
    own, extra = report.sigma**2, paid.sigma2**2
    share = own / (own + extra)
    along = np.divide(rows @ np.asarray(paid.gradient), norm, out=np.zeros_like(norm), where=norm > 0)
    half = report.sigma * paid.sigma2 / np.sqrt(own + extra) * paid.q
    return share * along, np.full_like(norm, half)


def overhead(paid: DataDependent, found: Reach) -> Floats:
    """Bound what the extra releases revealed about the person: μ_z²/2 + μ_z·q."""
    square = (found.steepest / paid.sigma2) ** 2
    if paid.sigma3 is not None:
        square = square + found.bend_high**2 / (2 * paid.sigma3**2)
    size = np.sqrt(square)
    return np.asarray(size**2 / 2 + size * paid.q)


def leverage(report: PublishedReport, rows: Floats, norm: Floats) -> Interval:
    """Bound xᵀH⁻¹x at the exact minimum, from below and from above, for every row."""
    paid, lam = report.data_dependent, report.regularisation
    assert paid is not None
    above = norm**2 / lam
    below = np.zeros_like(norm)
    if paid.hessian is None or paid.kappa is None or paid.zeta is None:
        return below, above
    hessian, identity = np.asarray(paid.hessian), np.eye(rows.shape[1])
    stretch = np.exp(paid.zeta)
    for matrix in _lower_matrices(hessian, lam, paid.kappa):
        if (value := _quadratic(matrix, rows)) is not None:
            above = np.minimum(above, stretch * value)
    highest = _quadratic(hessian + paid.kappa * identity, rows)
    if highest is not None:
        below = np.minimum(highest / stretch, above)
    return below, above


def _lower_matrices(hessian: Floats, lam: float, kappa: float) -> Iterator[Floats]:
    """Return (1-w)·λI + w·(Ĥ - κI), all below H where ‖noise‖ <= κ; w = 0, the free bound, is always there."""
    identity = np.eye(len(hessian))
    for w in (lam / (lam + 2 * kappa), 0.5, 0.75, 1.0):
        yield (1 - w) * lam * identity + w * (hessian - kappa * identity)


def _quadratic(matrix: Floats, rows: Floats) -> Floats | None:
    """Return xᵀM⁻¹x for every row, or None where M is not positive definite."""
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(np.sum(np.linalg.solve(root, rows.T) ** 2, axis=0))


def _curvature(report: PublishedReport, rows: Floats, norm: Floats, found: Reach, *, sign: Literal[1, -1]) -> Interval:
    """Enclose the term of the determinant, -log(1 + s·f''·μ)."""
    below, above = leverage(report, rows, norm)
    square = np.maximum(norm**2, 1e-300)
    least, most = found.bend_low / square * below, found.bend_high / square * above
    if sign == 1:
        return -np.log1p(most), -np.log1p(least)
    free = np.log1p(found.bend_high / report.regularisation)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(most < 1, np.minimum(-np.log1p(-np.minimum(most, 1.0)), free), free)
        low = np.where(least < 1, np.minimum(-np.log1p(-np.minimum(least, 1.0)), high), high)
    return low, high

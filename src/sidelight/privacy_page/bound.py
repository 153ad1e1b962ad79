"""The bound that one person reads: formula (2) of the report, from a published file and one row, and nothing else.

This is the reference that the page's JavaScript is tested against, and works on many rows at once, so that a curator
can look at its distribution over public or generated people. Over the training rows that distribution is private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.privacy_page.encoded_rows import bounded_rows, encode_label, encode_row
from sidelight.privacy_page.paid import paid_bounds
from sidelight.privacy_page.published import Member, PublishedReport, read_report
from sidelight.privacy_page.reach import reach, softmax_reach

Floats = NDArray[np.float64]


def report_bound(
    report: PublishedReport | dict[str, Any] | str | bytes,
    row: Mapping[str, Any] | Sequence[Any],
    label: Any,
    *,
    member: Member = "unknown",
) -> float:
    """Bound what a release revealed about one person: |log p_D(o) - log p_D±z(o)|.

    Guarantee: except with probability `rho` over the noise of the release, the loss of the release (its exact minimum
    and its output step, a stronger observer's view) is at most the bound, for a row fixed before the noise was drawn
    (scope "everyone": for any row). Post-processing of published values and the person's own row: free
    (per-instance proof page, Theorems 3 to 6).

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
    report: PublishedReport | dict[str, Any] | str | bytes, rows: Any, targets: Any, *, member: Member = "unknown"
) -> Floats:
    """Give the bound for many rows of numbers that are encoded already, before the row policy, and their targets.

    Targets are -1 and 1, numbers of classes, or numbers in the label's range. For public or generated rows: the
    distribution of bounds over the training rows depends on all of them, and is not free.
    """
    known = read_report(report)
    encoded = bounded_rows(known.encoding, np.asarray(rows, dtype=np.float64))
    wanted = np.asarray(targets, dtype=np.float64)
    label = known.encoding.label
    if label.lo is not None and label.hi is not None:
        wanted = np.clip(wanted, label.lo, label.hi)
    return _bounds(known, encoded, wanted, member)


def _bounds(report: PublishedReport, rows: Floats, targets: Floats, member: Member) -> Floats:
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
    """Give how many σ the noise along a row may reach."""
    if report.q_axis is None:
        return np.full_like(norm, report.q)
    largest = np.sum(np.abs(rows), axis=1) * report.q_axis
    by_entries = np.divide(largest, norm, out=np.full_like(norm, np.inf), where=norm > 0)
    return np.asarray(np.minimum(report.q, by_entries))


def output_step(report: PublishedReport) -> float:
    """Bound the loss of the output step, the same for everyone: μ²/2 + μq."""
    reached = report.q if report.q_out is None else report.q_out
    return report.mu_out**2 / 2 + report.mu_out * reached

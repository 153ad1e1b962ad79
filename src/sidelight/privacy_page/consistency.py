"""What must hold between the fields of a published report, beyond each field by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sidelight.privacy_page.published import Feature, Label, PublishedReport

_TWO_CLASSES = ("logistic", "smoothed-hinge")


def check_consistency(report: PublishedReport) -> None:
    """Refuse a report whose fields contradict one another.

    Raises:
        ValueError: with a message that begins with the field's name; reading turns it into a `SchemaError`.
    """
    names = [feature.name for feature in report.encoding.features]
    for place, feature in enumerate(report.encoding.features):
        _check_feature(feature, f"encoding.features.{place}")
        if names.index(feature.name) != place:
            _refuse(f"encoding.features.{place}.name", f"{feature.name!r} stands there twice")
    _check_label(report.encoding.label, loss_name(report))
    weights = getattr(report.loss, "weights", None)
    if isinstance(weights, list) and len(weights) != len(report.encoding.label.classes or []):
        _refuse("loss.weights", "must have one weight for each class")
    _check_theta(report)
    everyone = report.scope == "everyone"
    for field, present, wanted in (
        ("q_axis", report.q_axis is not None, everyone),
        ("q_out", report.q_out is not None, everyone or loss_name(report) == "softmax"),
        ("n_public", report.n_public is not None, report.scope == "all-n"),
    ):
        if present != wanted:
            _refuse(field, f"{'missing' if wanted else 'does not belong'} in scope {report.scope!r} of this loss")
    if report.data_dependent is not None:
        _check_paid(report)


def loss_name(report: PublishedReport) -> str:
    """Give the name of the loss as it stands in the file."""
    return str(type(report.loss).__struct_config__.tag)


def _refuse(field: str, why: str) -> None:
    raise ValueError(f"field {field}: {why}")


def _check_feature(feature: Feature, field: str) -> None:
    if (feature.lo is None) != (feature.hi is None):
        _refuse(f"{field}.{'lo' if feature.lo is None else 'hi'}", "missing; a range has both ends")
    if feature.lo is not None and feature.hi is not None:
        if feature.levels is not None:
            _refuse(f"{field}.levels", "a feature has a range or levels, not both")
        if not feature.lo < feature.hi:
            _refuse(f"{field}.hi", f"must be above lo, got {feature.hi:g} and {feature.lo:g}")
    elif feature.levels is None and (feature.to is not None or feature.outside is not None):
        _refuse(f"{field}.{'to' if feature.to else 'outside'}", "does not belong to a number without a range")
    if feature.levels is not None and len(set(feature.levels)) != len(feature.levels):
        _refuse(f"{field}.levels", "a level stands there twice")


def _check_label(label: Label, loss: str) -> None:
    if loss in _TWO_CLASSES:
        wanted = {"negative", "positive"}
    elif loss == "softmax":
        wanted = {"classes"}
    else:
        wanted = {"lo", "hi"}
    for name in ("negative", "positive", "classes", "lo", "hi"):
        present = getattr(label, name) is not None
        if present != (name in wanted):
            _refuse(f"encoding.label.{name}", f"{'does not belong to' if present else 'missing for'} the {loss} loss")
    if label.negative is not None and label.negative == label.positive:
        _refuse("encoding.label.positive", "must differ from negative")
    if label.classes is not None and len(set(label.classes)) != len(label.classes):
        _refuse("encoding.label.classes", "a class stands there twice")
    if label.lo is not None and label.hi is not None and not label.lo < label.hi:
        _refuse("encoding.label.hi", f"must be above lo, got {label.hi:g} and {label.lo:g}")


def _check_theta(report: PublishedReport) -> None:
    columns, classes = report.encoding.columns, report.encoding.label.classes
    rows = report.theta if classes is not None else [report.theta]
    if classes is not None and len(rows) != len(classes):
        _refuse("theta", f"must have {len(classes)} lists, one for each class, got {len(rows)}")
    for row in rows:
        if not isinstance(row, list) or any(isinstance(entry, list) for entry in row):
            shape = "a list for each class" if classes is not None else "a list of numbers"
            _refuse("theta", f"must be {shape}")
        elif len(row) != columns:
            _refuse("theta", f"must have {columns} entries (features, levels, constant column), got {len(row)}")


def _check_paid(report: PublishedReport) -> None:
    paid, columns, loss = report.data_dependent, report.encoding.columns, loss_name(report)
    assert paid is not None
    if loss == "softmax" or report.scope != "one-person":
        _refuse("data_dependent", f"must be null for scope {report.scope!r} and the {loss} loss")
    if len(paid.gradient) != columns:
        _refuse("data_dependent.gradient", f"must have {columns} entries, got {len(paid.gradient)}")
    parts = {name: getattr(paid, name) for name in ("hessian", "sigma3", "kappa", "zeta")}
    for name, value in parts.items():
        if (value is None) != (paid.hessian is None):
            _refuse(f"data_dependent.{name}", "hessian, sigma3, kappa and zeta are all given, or all null")
    if paid.hessian is not None:
        if loss not in ("logistic", "log-cosh"):
            _refuse("data_dependent.hessian", f"must be null for the {loss} loss, whose curvature jumps")
        square = len(paid.hessian) == columns and all(len(row) == columns for row in paid.hessian)
        if not square or any(paid.hessian[i][j] != paid.hessian[j][i] for i in range(columns) for j in range(i)):
            _refuse("data_dependent.hessian", f"must be a symmetric matrix of {columns} rows")

"""The published privacy report: every field that may leave, and no other.

A report is a small JSON file that accompanies a model. It holds public constants and values that were released already,
so it costs nothing; with it anyone computes a bound on what the model revealed about one row. The schema is the
whitelist: a field that is not here can neither be written nor read. Numbers of the page's arithmetic are in the file
(quantiles, slack), so a page needs no inverse normal. Optional fields that are None are left out of the JSON, but for
those that are null in the schema (`data_dependent`, `intercept_value`).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec

from sidelight.errors import SchemaError
from sidelight.privacy_page.losses import Loss, Positive
from sidelight.readable import number_text
from sidelight.records.dates import Calendar
from sidelight.records.readings import TextReading, check_labels

SCHEMA: Final = "privacy-report/1"
Scope = Literal["one-person", "all-n", "everyone"]
Member = Literal["yes", "no", "unknown"]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
_TWO_CLASSES = ("logistic", "smoothed-hinge")


class Guarantee(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The worst-case guarantee of the release: (ε, δ) for every person."""

    epsilon: Positive
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)]


class Feature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One input of a person's row: a number, or one of several levels.

    A number with `lo` and `hi` is clamped to them (`outside` "clamp", the default) or refused ("reject"), and mapped
    linearly to `to` (default [0, 1]). A number without them is used as it is. A level becomes one entry of `to[1]` in
    its own column and `to[0]` (default 1 and 0) in the others; an unknown level is refused ("reject", the default), or
    gives `to[0]` everywhere ("clamp").

    What a table's schema declares about texts is written along, and read as in training: `unknown` is the level that
    takes texts that are none of the levels, `missing` the one that takes empty cells; `spellings` are other texts of
    levels, `missing_texts` those that mean missing; with `casefold` capitals make no difference, with `strip` white
    space. A number with `start` and `unit` is a date: the whole days or hours since that public start. `missing_values`
    are numbers or dates that training took as missing; the report holds no bound for them.

    A number of a table was cut to 2²⁰ steps on each side of the middle of its range, in floats. `middle` and
    `inverse_half` (of half the range) are the floats of training, and the page repeats its operations: computed from
    `lo` and `hi` in another order, a value at the edge of a step comes out in the next one.
    """

    name: Text
    lo: float | None = None
    hi: float | None = None
    levels: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    to: Annotated[list[float], msgspec.Meta(min_length=2, max_length=2)] | None = None
    outside: Literal["clamp", "reject"] | None = None
    unknown: str | None = None
    missing: str | None = None
    spellings: dict[str, list[Text]] | None = None
    missing_texts: list[Text] | None = None
    missing_values: list[float] | None = None
    casefold: bool | None = None
    strip: bool | None = None
    start: Text | None = None
    unit: Literal["day", "hour"] | None = None
    middle: float | None = None
    inverse_half: Positive | None = None

    @property
    def width(self) -> int:
        """The number of columns it becomes."""
        return 1 if self.levels is None else len(self.levels)

    @property
    def rejects(self) -> bool:
        """Whether a value outside is refused."""
        return (self.outside or ("clamp" if self.levels is None else "reject")) == "reject"

    @property
    def ends(self) -> tuple[float, float]:
        """Where `lo` and `hi`, or off and on, are mapped to."""
        return (0.0, 1.0) if self.to is None else (self.to[0], self.to[1])

    @property
    def calendar(self) -> Calendar | None:
        """How dates are counted; None for other features."""
        if self.start is None or self.unit is None:
            return None
        return Calendar.since(self.start, self.unit, where=self.name)

    @property
    def reading(self) -> TextReading:
        """How texts become levels."""
        pairs = [(text, each) for each in self.levels or [] for text in (each, *(self.spellings or {}).get(each, ()))]
        missing = tuple(self.missing_texts or ())
        return TextReading(tuple(pairs), strip=bool(self.strip), casefold=bool(self.casefold), missing=missing)

    def level_of(self, text: str | None) -> str | None:
        """Return the level that a text had in training, None is a missing cell; None where it had none."""
        levels = self.levels or []
        if text in levels:
            return text
        found = self.reading.of_text(text)
        if found is None:
            return self.missing
        return found if found in levels else self.unknown


class LabelEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is predicted: two classes, several classes, or a number in a range (beyond it is clamped).

    A two-class label has `negative` and `positive`, a softmax `classes`, a regression `lo` and `hi`.
    """

    negative: str | None = None
    positive: str | None = None
    classes: Annotated[list[str], msgspec.Meta(min_length=2)] | None = None
    lo: float | None = None
    hi: float | None = None


class RowEncoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a raw row became a row of the fit: features in order, norm bound, constant column last."""

    features: Annotated[list[Feature], msgspec.Meta(min_length=1)]
    row_policy: Literal["clip", "normalize"]
    data_norm: Positive
    intercept_value: Positive | None
    label: LabelEncoding

    @property
    def columns(self) -> int:
        """The number of coefficients of one predictor, the constant column included."""
        return sum(feature.width for feature in self.features) + (self.intercept_value is not None)


class DataDependent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The extra releases of a paid report: gradient with noise sigma2, Hessian with symmetric noise sigma3."""

    gradient: list[float]
    sigma2: Positive
    hessian: list[list[float]] | None
    sigma3: Positive | None
    kappa: Positive | None
    zeta: NotNegative | None
    q: Positive


class WrittenReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every privacy report does: become plain values and JSON, in the order of the schema.

    `entropy` is there only where the model was made with seeded noise: it is not private, and no bound holds.
    """

    entropy: Literal["seeded: not private"] | None = None
    #: Fields that are written as null where they are absent, in order.
    _nulls: ClassVar[tuple[str, ...]] = ("data_dependent",)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, in the order of the schema."""
        written: dict[str, Any] = without_none(msgspec.to_builtins(self))
        for name in self._nulls:
            written.setdefault(name, None)
        written["encoding"].setdefault("intercept_value", None)
        return written

    def to_json(self) -> str:
        """Return the report as JSON; numbers have the digits that bring the same floats back."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict()), indent=2).decode() + "\n"


class PublishedReport(WrittenReport, frozen=True, kw_only=True, rename={"regularisation": "lambda"}):
    """A privacy report. `theta` has one list for each class of a softmax, else the coefficients themselves.

    `q` bounds the noise along one row; in scope "everyone" it is the quantile of the whole noise vector's norm, and
    `q_axis` that of its largest entry: the factor is min(q, ‖x‖₁·q_axis/‖x‖₂). `q_out`, where present, replaces `q` in
    the output step. `n_public` is the public number of people of scope "all-n". `beforehand` is the pure epsilon of
    what was released before the fit (a choice between predictions, a count), which everybody's bound includes.
    """

    schema: Literal["privacy-report/1"]
    mechanism: Literal["objective-perturbation"]
    neighbours: Literal["add-or-remove-one-row"]
    guarantee: Guarantee
    loss: Loss
    encoding: RowEncoding
    theta: list[float | list[float]]
    regularisation: Positive
    sigma: Positive
    mu_out: NotNegative
    beforehand: NotNegative | None = None
    slack: NotNegative
    rho: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    q: Positive
    q_axis: Positive | None = None
    q_out: Positive | None = None
    scope: Scope
    n_public: Annotated[int, msgspec.Meta(ge=1)] | None = None
    maximum: NotNegative
    data_dependent: DataDependent | None

    def __post_init__(self) -> None:
        check_consistency(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, in the order of the schema."""
        written = super().to_dict()
        if isinstance(written["data_dependent"], dict):
            for name in ("hessian", "sigma3", "kappa", "zeta"):
                written["data_dependent"].setdefault(name, None)
        return written


def check_version(report: dict[str, Any]) -> None:
    """Refuse a report of another version."""
    if "schema" not in report:
        raise SchemaError(f'field schema: missing; a privacy report begins with "schema": "{SCHEMA}"')
    if report["schema"] != SCHEMA:
        raise SchemaError(
            f'field schema: this version reads "{SCHEMA}", got {report["schema"]!r}; write the report again with this '
            "version of sidelight, or read it with the one that wrote it"
        )


def check_finite(value: Any, path: str) -> None:
    """Refuse NaN and infinity, which JSON has no words for, and which comparisons let through."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SchemaError(f"field {path}: must be a finite number, got {value}")
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        check_finite(item, f"{path}.{key}".lstrip("."))


def sentence(message: str) -> str:
    """Turn msgspec's words into ours: the field first."""
    text, _, place = message.partition(" - at `")
    inside = place.rstrip("`").removeprefix("$").lstrip(".")
    if " field `" in text:
        name = text.rsplit("`", 2)[1]
        word = "missing" if "missing" in text else "unknown, and a report holds nothing beyond its schema"
        return f"field {inside + '.' if inside else ''}{name}: {word}"
    return f"field {inside}: {text[0].lower()}{text[1:]}" if inside else text


def without_none(value: Any) -> Any:
    """Return plain values without those that are None."""
    if isinstance(value, dict):
        return {key: without_none(item) for key, item in value.items() if item is not None}
    return [without_none(item) for item in value] if isinstance(value, list) else value


def check_consistency(report: PublishedReport) -> None:
    """Refuse a report whose fields contradict one another.

    Raises:
        ValueError: with a message that begins with the field's name; reading turns it into a `SchemaError`.
    """
    check_encoding(report.encoding, loss_name(report))
    weights = getattr(report.loss, "weights", None)
    if isinstance(weights, list) and len(weights) != len(report.encoding.label.classes or []):
        refuse("loss.weights", "must have one weight for each class")
    _check_theta(report)
    everyone = report.scope == "everyone"
    for field, present, wanted in (
        ("q_axis", report.q_axis is not None, everyone),
        ("q_out", report.q_out is not None, everyone or loss_name(report) == "softmax"),
        ("n_public", report.n_public is not None, report.scope == "all-n"),
    ):
        if present != wanted:
            refuse(field, f"{'missing' if wanted else 'does not belong'} in scope {report.scope!r} of this loss")
    if report.data_dependent is not None:
        _check_paid(report)


def check_encoding(encoding: RowEncoding, loss: str) -> None:
    """Refuse features and labels that contradict themselves or the loss."""
    names = [feature.name for feature in encoding.features]
    for place, feature in enumerate(encoding.features):
        _check_feature(feature, f"encoding.features.{place}")
        if names.index(feature.name) != place:
            refuse(f"encoding.features.{place}.name", f"{feature.name!r} stands there twice")
    _check_label(encoding.label, loss)


def loss_name(report: PublishedReport) -> str:
    """Return the name of the loss as it stands in the file."""
    return str(type(report.loss).__struct_config__.tag)


def refuse(field: str, why: str) -> None:
    """Refuse a field that contradicts another."""
    raise ValueError(f"field {field}: {why}")


def _check_feature(feature: Feature, field: str) -> None:
    if (feature.lo is None) != (feature.hi is None):
        refuse(f"{field}.{'lo' if feature.lo is None else 'hi'}", "missing; a range has both ends")
    if feature.lo is not None and feature.hi is not None:
        if feature.levels is not None:
            refuse(f"{field}.levels", "a feature has a range or levels, not both")
        if not feature.lo < feature.hi:
            refuse(f"{field}.hi", f"must be above lo, got {number_text(feature.hi)} and {number_text(feature.lo)}")
        if not all(math.isfinite(end - start) for start, end in ((feature.lo, feature.hi), feature.ends)):
            refuse(f"{field}.hi", "must be nearer to lo, and the ends of to nearer to each other: they overflow")
        if feature.middle is not None and feature.inverse_half is not None:
            half, middle = feature.hi / 2 - feature.lo / 2, feature.hi / 2 + feature.lo / 2
            if max(abs(feature.middle - middle), abs(1 / feature.inverse_half - half)) > half / 2:  # they are rounded
                refuse(f"{field}.middle", "must be that of lo and hi, and inverse_half 1 over half their distance")
    elif feature.levels is None and (feature.to is not None or feature.outside is not None):
        refuse(f"{field}.{'to' if feature.to else 'outside'}", "does not belong to a number without a range")
    given = (feature.middle is not None, feature.inverse_half is not None)
    if any(given) and (not all(given) or feature.lo is None):
        refuse(f"{field}.middle", "a number that was cut to steps has lo, hi, middle and inverse_half")
    if feature.levels is not None and len(set(feature.levels)) != len(feature.levels):
        refuse(f"{field}.levels", "a level stands there twice")
    _check_texts(feature, field)


def _check_texts(feature: Feature, field: str) -> None:
    """Refuse declarations about texts that belong to no level, or mean two, and dates that are none."""
    levels = feature.levels or []
    texts = ("unknown", "missing", "spellings", "missing_texts", "casefold", "strip")
    for name in texts if feature.levels is None else ():
        if getattr(feature, name) is not None:
            refuse(f"{field}.{name}", "belongs to a feature with levels, and to no other")
    if levels and feature.missing_values is not None:
        refuse(f"{field}.missing_values", "belongs to a number or date")
    for name, level in (("unknown", feature.unknown), ("missing", feature.missing)):
        if level is not None and level not in levels:
            refuse(f"{field}.{name}", "must be one of the levels")
    if any(level not in levels for level in feature.spellings or {}):
        refuse(f"{field}.spellings", "must be of the levels")
    if (feature.start is None) != (feature.unit is None) or (feature.start is not None and feature.lo is None):
        refuse(f"{field}.start", "a date has start, unit, lo and hi")
    try:
        calendar = feature.calendar
        check_labels(feature.reading, name=feature.name)
    except SchemaError as error:
        refuse(field, str(error))
    if calendar is not None and not all(calendar.has(end) for end in (feature.lo, feature.hi) if end is not None):
        refuse(field, "lo and hi must be dates of the years 0001 to 9999")


def _check_label(label: LabelEncoding, loss: str) -> None:
    if loss in _TWO_CLASSES:
        wanted = {"negative", "positive"}
    elif loss == "softmax":
        wanted = {"classes"}
    else:
        wanted = {"lo", "hi"}
    for name in ("negative", "positive", "classes", "lo", "hi"):
        present = getattr(label, name) is not None
        if present != (name in wanted):
            refuse(f"encoding.label.{name}", f"{'does not belong to' if present else 'missing for'} the {loss} loss")
    if label.negative is not None and label.negative == label.positive:
        refuse("encoding.label.positive", "must differ from negative")
    if label.classes is not None and len(set(label.classes)) != len(label.classes):
        refuse("encoding.label.classes", "a class stands there twice")
    if label.lo is not None and label.hi is not None and not label.lo < label.hi:
        refuse("encoding.label.hi", f"must be above lo, got {number_text(label.hi)} and {number_text(label.lo)}")


def _check_theta(report: PublishedReport) -> None:
    columns, classes = report.encoding.columns, report.encoding.label.classes
    rows = report.theta if classes is not None else [report.theta]
    if classes is not None and len(rows) != len(classes):
        refuse("theta", f"must have {len(classes)} lists, one for each class, got {len(rows)}")
    for row in rows:
        if not isinstance(row, list) or any(isinstance(entry, list) for entry in row):
            shape = "a list for each class" if classes is not None else "a list of numbers"
            refuse("theta", f"must be {shape}")
        elif len(row) != columns:
            refuse("theta", f"must have {columns} entries (features, levels, constant column), got {len(row)}")


def _check_paid(report: PublishedReport) -> None:
    paid, columns, loss = report.data_dependent, report.encoding.columns, loss_name(report)
    assert paid is not None
    if loss == "softmax" or report.scope != "one-person":
        refuse("data_dependent", f"must be null for scope {report.scope!r} and the {loss} loss")
    if len(paid.gradient) != columns:
        refuse("data_dependent.gradient", f"must have {columns} entries, got {len(paid.gradient)}")
    parts = {name: getattr(paid, name) for name in ("hessian", "sigma3", "kappa", "zeta")}
    for name, value in parts.items():
        if (value is None) != (paid.hessian is None):
            refuse(f"data_dependent.{name}", "hessian, sigma3, kappa and zeta are all given, or all null")
    if paid.hessian is not None:
        if loss not in ("logistic", "log-cosh"):
            refuse("data_dependent.hessian", f"must be null for the {loss} loss, whose curvature jumps")
        square = len(paid.hessian) == columns and all(len(row) == columns for row in paid.hessian)
        if not square or any(paid.hessian[i][j] != paid.hessian[j][i] for i in range(columns) for j in range(i)):
            refuse("data_dependent.hessian", f"must be a symmetric matrix of {columns} rows")

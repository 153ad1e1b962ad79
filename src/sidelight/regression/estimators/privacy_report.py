"""`model.privacy_report()`, the file to publish with a model.

The report is read from the release and its public request, never from training rows, so that it can also be written
from a model that was saved and loaded.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, Self, TypeVar, get_args

import msgspec
import numpy as np
from sklearn.utils.validation import check_is_fitted

from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.privacy_page import Feature, Scope
from sidelight.privacy_page.build import FitConstants, build_report, features_of, label_of
from sidelight.privacy_page.losses import (
    ClippedPoisson,
    Huber,
    LogCosh,
    Logistic,
    Loss,
    SmoothedHinge,
    Softmax,
    SquaredClipped,
    Weights,
)
from sidelight.privacy_page.published import (
    DataDependent,
    Guarantee,
    LabelEncoding,
    PublishedReport,
    RowEncoding,
    WrittenReport,
)
from sidelight.privacy_page.stepwise_reports import DescentLoss, DescentReport, build_descent_report
from sidelight.records import Category, Date, Number
from sidelight.records.numbers import exact_number, nearest_float
from sidelight.regression.curator import exact_losses, fit_and_keep, kept_fit, require_curator
from sidelight.regression.descent.rules import SecondLook, Shares, shares
from sidelight.regression.losses import Floats
from sidelight.regression.table_rows import RowEncoder, range_of, scaled_number
from sidelight.release import Release

AReport = TypeVar("AReport", bound=WrittenReport)

#: Released coefficients are multiples of at most this share of the output noise.
_SHOWN = 1 / 8
#: What was spent before the fit.
_BEFOREHAND = ("choice_epsilon", "count_epsilon")


class PrivacyReportMixin:
    """Adds `privacy_report` to a private linear model."""

    release_: Release
    n_features_in_: int

    def privacy_report(
        self,
        *,
        rho: float = 1e-6,
        scope: Scope = "one-person",
        n_public: int | None = None,
        features: Sequence[Feature | dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Return the report that may be published with a model; it costs no privacy.

        Guarantee: a function of what was released (the coefficients, or a descent's path) and public constants.
        `report_bound` computes from it a bound that holds except with probability `rho` (per-instance proof page,
        Theorems 3 to 5; descent proof page, section 6).

        Args:
            rho: The probability, over the noise of the fit, with which a bound may fail.
            scope: "one-person": for each person who is fixed beforehand; "all-n": for `n_public` such people at once;
                "everyone": for any row, even one chosen after seeing the model. A descent has "one-person" alone.
            n_public: A public number of people, for "all-n".
            features: How X was made from what a person knows: numbers with a range, levels of a category (see
                `sidelight.privacy_page.Feature`). Without it the columns of X are asked for as they are; a model of a
                table asks for its columns and cuts their values as training did (targets are on a grid of a millionth).

        >>> import numpy as np
        >>> from sidelight.privacy_page import report_bound
        >>> from sidelight.regression.estimators import LogisticRegression
        >>> X, y = np.array([[0.6, 0.1], [-0.6, 0.2]] * 2000), np.array(["yes", "no"] * 2000)
        >>> model = LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["no", "yes"]).fit(X, y)
        >>> report = model.privacy_report()
        >>> report["guarantee"]
        {'epsilon': 1.0, 'delta': 1e-06}
        >>> report_bound(report, {"x0": 0.6, "x1": 0.1}, "yes") < report["maximum"]
        True
        """
        check_is_fitted(self)
        return report_of(
            self.release_,
            classes=getattr(self, "classes_", None),
            names=getattr(self, "feature_names_in_", None),
            features=_columns(self) if features is None else features,
            rho=rho,
            scope=scope,
            n_public=n_public,
        ).to_dict()

    def fit_keeping_noise(self, X: Any, y: Any, *, i_am_the_curator: bool = False) -> Self:  # noqa: N803
        """Fit, and keep the noise in this process for `_true_losses`: for audits by the owner of the data.

        Args:
            X, y: As for `fit`.
            i_am_the_curator: Say True, or it is refused: what is kept gives rows away.
        """
        require_curator(i_am_the_curator=i_am_the_curator)
        if getattr(self, "_descends", False):
            raise RangeError(
                "exact losses are computed for solver='objective'; fit that to audit it. Nothing was charged"
            )
        fit_and_keep(self, X, y, i_am_the_curator=i_am_the_curator)
        return self

    def _true_losses(
        self,
        X: Any,  # noqa: N803
        y: Any,
        *,
        member: Literal["yes", "no"],
        i_am_the_curator: bool = False,
    ) -> Floats:
        """Return the exact signed losses of the fit for rows that are (or are not) in its data. Never publish them."""
        require_curator(i_am_the_curator=i_am_the_curator)
        return exact_losses(kept_fit(self), X, y, member=member, i_am_the_curator=i_am_the_curator)


def report_of(
    release: Release,
    *,
    classes: Sequence[Any] | None,
    names: Sequence[str] | None = None,
    features: Sequence[Feature | dict[str, Any]] | None = None,
    rho: float = 1e-6,
    scope: Scope = "one-person",
    n_public: int | None = None,
    data_dependent: DataDependent | None = None,
) -> PublishedReport | DescentReport:
    """Write the report of a released linear model."""
    request = release.query
    if request["kind"] not in ("linear_model", "linear_model_with_paid_report"):
        raise RangeError(
            "there is a privacy report for one joint model; for one per class, report each, and add bounds and rhos"
        )
    if request.get("solver") == "descent":
        found = descent_report_of(
            release, classes=classes, names=names, features=features, rho=rho, scope=scope, n_public=n_public
        )
        return branded(found, release)
    middle = float(request.get("target_centre", 0))  # what a regression counts its targets from
    weights = np.asarray(release.value["coefficients"], dtype=np.float64)
    intercept_value = None if request["intercept"] == "none" else float(request["intercept"])
    encoding = _encoding(request, classes, names, features, width=weights.shape[1], intercept_value=intercept_value)
    theta = weights
    if intercept_value is not None:
        constants = (np.asarray(release.value["intercept"], dtype=np.float64) + middle) / intercept_value
        theta = np.hstack([weights, constants[:, None]])
    report = build_report(
        loss=loss_of(request),
        encoding=encoding,
        theta=theta.tolist() if encoding.label.classes is not None else theta[0].tolist(),
        constants=constants_of(request),
        rho=rho,
        scope=scope,
        n_public=n_public,
        data_dependent=data_dependent,
    )
    return branded(report, release)


def branded(report: AReport, release: Release) -> AReport:
    """Return the report with the brand of its release: seeded noise is not private, and its report says so."""
    return report if release.private else msgspec.structs.replace(report, entropy=SEEDED_BRANDING)


def descent_report_of(
    release: Release,
    *,
    classes: Sequence[Any] | None,
    names: Sequence[str] | None,
    features: Sequence[Feature | dict[str, Any]] | None,
    rho: float,
    scope: Scope,
    n_public: int | None,
) -> DescentReport:
    """Write the report of a descent from its released path."""
    request, value = release.query, release.value
    if scope != "one-person" or n_public is not None:
        raise RangeError(
            f"the report of a descent holds for one person, got scope={scope!r}; leave scope and n_public out, or fit "
            "with solver='objective'"
        )
    if "points" not in value:
        raise RangeError(
            "a descent stores its path for reports up to 256 features and 32768 numbers; this model is wider, and only "
            "solver='objective' has a report for it"
        )
    encoding = _encoding(request, classes, names, features, width=int(request["features"]), intercept_value=None)
    geometry = request["geometry"]
    if request.get("geometry_of", str(value["chosen"])) != str(value["chosen"]):
        geometry = "private"  # public rows that were not chosen
    parts = shares(
        request["loss"],
        geometry,
        candidates=request["predictions"] != "0",
        rows_declared=request["rows"] != "none",
        intercept=request["intercept"] != "none",
    ).with_look(get_args(SecondLook)[int(value.get("second_look", 0))])
    return path_report(
        value,
        loss=descent_loss(request),
        encoding=encoding,
        shares=parts,
        mu=exact_number(request["mu"], name="mu"),
        intercept=request["intercept"] != "none",
        bits=28 if geometry == "none" else 26,
        guarantee=Guarantee(epsilon=float(request["epsilon"]), delta=float(request["delta"])),
        rho=rho,
    )


def cost_of(mu: Fraction, share: Fraction) -> float:
    """Return what the largest row of a person who has one costs in a part; noise scales are rounded up."""
    return float(mu) * math.sqrt(share) * (1 + 1e-12)


def path_report(
    value: Mapping[str, Any],
    *,
    loss: DescentLoss,
    encoding: RowEncoding,
    shares: Shares,
    mu: Fraction,
    intercept: bool,
    bits: int,
    guarantee: Guarantee,
    rho: float,
) -> DescentReport:
    """Write the report of the path of a descent, as its release stores it."""
    points = np.asarray(value["points"], np.float64)
    width = encoding.columns
    return build_descent_report(
        guarantee=guarantee,
        loss=loss,
        encoding=encoding,
        mapping=np.asarray(value["map"], np.float64) if "map" in value else None,
        centre=np.asarray(value["centre"], np.float64) if "centre" in value else np.zeros(width),
        intercept=intercept,
        points=points,
        clip=math.floor(float(value["clip"]) * 2.0**bits) * 2.0**-bits,
        mu_step=cost_of(mu, shares.steps / len(points)),
        mu_gram=cost_of(mu, shares.gram),
        # a row moves these by at most as much, whatever it is
        mu_count=cost_of(mu, shares.count + shares.scales + shares.second_gram + shares.offset),
        beforehand=choice_epsilon(mu, shares.choice),
        rho=rho,
    )


def choice_epsilon(mu: Fraction, share: Fraction) -> float:
    """Return the pure epsilon of a choice that has a share of mu²; 0 without one."""
    return float(Budget("mu", mu**2).part(share).spread) * (1 + 1e-12) if share else 0.0


def descent_loss(request: Mapping[str, Any]) -> DescentLoss:
    """Return the loss of a fit by noisy gradients from its request."""
    if request["loss"] == "squared":
        return DescentLoss(
            name="squared", middle=float(request.get("target_centre", 0)), half=float(request["half_range"])
        )
    weights = [float(weight) for weight in request.get("class_weights", "").split()]
    return DescentLoss(name=request["loss"], weights=[weight / max(weights) for weight in weights] or None)


def constants_of(request: Mapping[str, Any]) -> FitConstants:
    """Read the public numbers of a fit from its request."""
    return FitConstants(
        epsilon=float(request["epsilon"]),
        delta=float(request["delta"]),
        regularisation=float(request["regularisation"]),
        sigma=float(request["noise_scale"]),
        tolerance=float(request["tolerance"]),
        sigma_out=float(request["output_noise_scale"]),
        rounding_step=float(request["output_noise_scale"]) * _SHOWN,
        beforehand=math.nextafter(
            float(sum(exact_number(request.get(name, "0"), name=name) for name in _BEFOREHAND)), math.inf
        )
        if "choice_epsilon" in request
        else 0.0,
    )


def loss_of(request: Mapping[str, Any]) -> Loss:
    """Read the loss of a fit from its request."""
    name = request.get("loss")
    if name == "logistic":
        negative, positive = (float(weight) for weight in request["class_weights"].split())
        return Logistic(weights=Weights(negative=negative, positive=positive))
    if name == "softmax":
        weights = [float(weight) for weight in request.get("class_weights", "").split()]
        return Softmax(weights=weights or None)
    if name == "smoothed_hinge":
        return SmoothedHinge(width=float(request["width"]))
    if name == "log_cosh":
        return LogCosh(kappa=float(request["scale"]))
    if name == "huber":
        return Huber(kappa=float(request["threshold"]))
    if name == "squared_clipped":
        return SquaredClipped(clip=float(request["clip"]))
    if name == "poisson":
        return ClippedPoisson(clip=float(request["clip"]))
    raise RangeError(f"there is no privacy report for the {name} loss")


def _encoding(
    request: Mapping[str, Any],
    classes: Sequence[Any] | None,
    names: Sequence[str] | None,
    declared: Sequence[Feature | dict[str, Any]] | None,
    *,
    width: int,
    intercept_value: float | None,
) -> RowEncoding:
    """Return how a person's row is read: by what is declared, else by the names of the columns."""
    usual = [f"x{i}" for i in range(width)] if names is None else names
    encoding = RowEncoding(
        features=[Feature(name=str(name)) for name in usual] if declared is None else features_of(declared),
        row_policy=request["on_violation"],
        data_norm=float(request["data_norm"]),
        intercept_value=intercept_value,
        label=label_encoding(request, classes),
    )
    found = encoding.columns - (intercept_value is not None)
    if found != width:
        raise RangeError(
            f"the features give {found} columns, and the model has {width}; a category counts once for each of its "
            "levels"
        )
    return encoding


def label_encoding(request: Mapping[str, Any], classes: Sequence[Any] | None) -> LabelEncoding:
    """Return how a person's outcome is read."""
    if classes is not None:
        if request["loss"] == "softmax":
            return LabelEncoding(classes=[str(name) for name in classes])
        return label_of(names=list(classes))
    if request["loss"] == "poisson":
        return label_of(bounds=(0.0, float(request["largest_count"])))
    low, high = ast.literal_eval(request["target_range"])
    return label_of(bounds=(float(low), float(high)))


def _columns(model: Any) -> list[Feature] | None:
    """Declare the columns of the table that a model was fitted to; None for a model of arrays."""
    encoding = getattr(model, "encoding_", None)
    return None if encoding is None else declared_features(encoding.columns)


def declared_features(columns: Sequence[Number | Category]) -> list[Feature]:
    """Return columns as a report asks for them, scaled as rows of tables are, with what the schema says of texts."""
    share = RowEncoder(tuple(columns)).share
    return [_number(each, share) if isinstance(each, Number) else _category(each, share) for each in columns]


def _number(column: Number, share: float) -> Feature:
    low, high = map(float, range_of(column))
    scaled = scaled_number(column)
    floats = {"middle": nearest_float(scaled.centres[0]), "inverse_half": nearest_float(1 / scaled.radius)}
    dates = {"start": column.start, "unit": column.unit} if isinstance(column, Date) else {}
    missing = filter(math.isfinite, column.reading.missing_values if column.reading else ())
    to = [-share, share]
    return Feature(name=column.name, lo=low, hi=high, to=to, missing_values=list(missing) or None, **floats, **dates)  # type: ignore[arg-type]


def _category(column: Category, share: float) -> Feature:
    labels, unknown, missing = list(column.labels), column.unknown_code, column.missing_code
    return Feature(
        name=column.name,
        levels=labels,
        to=[0.0, share],
        outside="reject" if unknown is None else None,
        unknown=None if unknown is None else labels[unknown],
        missing=None if missing is None else labels[missing],
        spellings={label: list(texts) for label, texts in column.aliases} or None,
        missing_texts=list(column.missing_texts) or None,
        casefold=column.casefold or None,
        strip=column.strip or None,
    )

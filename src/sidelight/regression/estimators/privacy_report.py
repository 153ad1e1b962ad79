"""`model.privacy_report()`: the file to publish beside a model, made of what the model has released already.

Everything is read from the release and its public request, never from training rows, so that a report can also be
written from a model that was saved and loaded.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sidelight.errors import RangeError
from sidelight.privacy_page import Feature, Scope
from sidelight.privacy_page.build import FitConstants, build_report, features_of, label_of
from sidelight.privacy_page.published import (
    Encoding,
    Huber,
    Label,
    LogCosh,
    Logistic,
    Loss,
    PublishedReport,
    SmoothedHinge,
    Softmax,
    SquaredClipped,
    Weights,
)
from sidelight.release import Release

#: Released coefficients are multiples of at most this share of the output noise.
_SHOWN = 1 / 8


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
        """Give the report that may be published beside the model; it costs no privacy.

        Guarantee: a function of the released coefficients and public constants. Whoever computes `report_bound` from it
        gets a bound that holds except with probability `rho` (per-instance proof page, Theorems 3 to 5).

        Args:
            rho: The probability, over the noise of the fit, with which a bound may fail.
            scope: "one-person": for each person who is fixed beforehand; "all-n": for `n_public` such people at once;
                "everyone": for any row, even one chosen after seeing the model.
            n_public: A public number of people, for "all-n".
            features: How X was made from what a person knows: numbers with a range, levels of a category (see
                `sidelight.privacy_page.Feature`). Without it the columns of X are asked for as they are.

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
            middle=_middle(self),
            names=getattr(self, "feature_names_in_", None),
            features=features,
            rho=rho,
            scope=scope,
            n_public=n_public,
        ).to_dict()


def report_of(
    release: Release,
    *,
    classes: Sequence[Any] | None,
    middle: float = 0.0,
    names: Sequence[str] | None = None,
    features: Sequence[Feature | dict[str, Any]] | None = None,
    rho: float = 1e-6,
    scope: Scope = "one-person",
    n_public: int | None = None,
) -> PublishedReport:
    """Write the report of a released linear model; `middle` is what a regression counts its targets from."""
    request = release.query
    weights = np.asarray(release.value["coefficients"], dtype=np.float64)
    intercept_value = None if request["intercept"] == "none" else float(request["intercept"])
    declared = _features(weights.shape[1], names, features)
    encoding = Encoding(
        features=declared,
        row_policy=request["on_violation"],
        data_norm=float(request["data_norm"]),
        intercept_value=intercept_value,
        label=_label(request, classes, middle),
    )
    if encoding.columns - (intercept_value is not None) != weights.shape[1]:
        raise RangeError(
            f"the features give {encoding.columns - (intercept_value is not None)} columns, and the model has "
            f"{weights.shape[1]}; a category counts once for each of its levels"
        )
    theta = weights
    if intercept_value is not None:
        constants = (np.asarray(release.value["intercept"], dtype=np.float64) + middle) / intercept_value
        theta = np.hstack([weights, constants[:, None]])
    return build_report(
        loss=loss_of(request),
        encoding=encoding,
        theta=theta.tolist() if encoding.label.classes is not None else theta[0].tolist(),
        constants=constants_of(request),
        rho=rho,
        scope=scope,
        n_public=n_public,
    )


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
    )


def loss_of(request: Mapping[str, Any]) -> Loss:
    """Read the loss of a fit from its request."""
    name = request.get("loss")
    if name == "logistic":
        negative, positive = (float(weight) for weight in request["class_weights"].split())
        return Logistic(weights=Weights(negative=negative, positive=positive))
    if name == "softmax":
        return Softmax()
    if name == "smoothed_hinge":
        return SmoothedHinge(width=float(request["width"]))
    if name == "log_cosh":
        return LogCosh(kappa=float(request["scale"]))
    if name == "huber":
        return Huber(kappa=float(request["threshold"]))
    if name == "squared_clipped":
        return SquaredClipped(clip=float(request["clip"]))
    raise RangeError(f"there is no privacy report for the {name} loss")


def _features(
    width: int, names: Sequence[str] | None, declared: Sequence[Feature | dict[str, Any]] | None
) -> list[Feature]:
    if declared is not None:
        return features_of(declared)
    return [Feature(name=str(name)) for name in (names if names is not None else [f"x{i}" for i in range(width)])]


def _label(request: Mapping[str, Any], classes: Sequence[Any] | None, middle: float) -> Label:
    if classes is not None:
        if request["loss"] == "softmax":
            return Label(classes=[str(name) for name in classes])
        return label_of(names=list(classes))
    low, high = ast.literal_eval(request["target_range"])
    return label_of(bounds=(low + middle, high + middle))


def _middle(model: Any) -> float:
    """Give what a regression added to its released intercept."""
    if hasattr(model, "classes_"):
        return 0.0
    return float(model.intercept_) - float(np.reshape(model.release_.value["intercept"], -1)[0])

"""How each thing that `prediction=` takes is read: public rows, stated coefficients, earlier models and releases.

Before any charge, and without a look at a private row. What comes out is in the units of one fit
(`regression.model_predictions`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError
from sidelight.predictions import PublicData
from sidelight.predictions.public_data import refuse_look_alike
from sidelight.records import Table
from sidelight.records.numbers import exact_number
from sidelight.regression.coefficient_prediction import (
    CoefficientPrediction,
    StatedModel,
    StoredNoise,
    check_classes,
    outputs_of,
    released_origin,
    stated,
)
from sidelight.regression.losses import Floats
from sidelight.regression.losses.loss import numbers_of, positions_of
from sidelight.regression.model_predictions import (
    Candidate,
    PredictedCoefficients,
    PredictedFit,
    Predictions,
    PublicExamples,
)
from sidelight.regression.rows import bounded_rows
from sidelight.regression.table_rows import RowEncoder, TableUnits, declared_columns
from sidelight.release import Release

#: Coefficients in the fit's units beyond this are no prediction: their sums with rows must stay finite.
_FARTHEST = 1e100
#: Public rows below this number are no prediction: nothing can be said about how far off they are.
FEWEST_ROWS = 10
#: Predictions of one fit: each is a candidate of the paid choice, which then has less to say.
MOST_PREDICTIONS = 64
#: A geometry, and so an account of how far off a coefficient is in it, is made up to this many features.
_WITH_GEOMETRY = 1000


def predictions_of(given: Any, wanted: PredictedFit) -> Predictions:
    """Read `prediction=`: None, one prediction or a list of them. Reads no private row.

    A prediction is a `CoefficientPrediction`, a fitted model of this library or a `sl.Release` of one, public rows
    with the target as their last column (by name for a table, or a frame), or a pair (rows, targets) of public data.

    Raises:
        RangeError: it is none of these, or about other features or classes, or has too few rows.
    """
    found = [_candidate(each, wanted) for each in several_predictions(given)]
    public_rows = [each for each in found if isinstance(each, PublicExamples)]
    return Predictions(
        candidates=tuple(each for each in found if not (isinstance(each, PublicExamples) and each.targets is None)),
        rows=max(public_rows, key=lambda each: each.size, default=None),
    )


def several_predictions(given: Any) -> list[Any]:
    """Return what `prediction=` holds, one or several, as a list; empty for None."""
    parts = [] if given is None else given if isinstance(given, list) else [given]
    if given is not None and not 0 < len(parts) <= MOST_PREDICTIONS:
        raise RangeError(f"prediction takes between 1 and {MOST_PREDICTIONS} predictions, got {len(parts)}")
    return parts


def _candidate(given: Any, wanted: PredictedFit) -> Candidate:
    for each in given if isinstance(given, tuple) else (given,):
        refuse_look_alike(each, CoefficientPrediction, PublicData)
    if isinstance(given, CoefficientPrediction) and given.earlier:
        found = _candidate(given.coefficients, wanted)
        assert isinstance(found, PredictedCoefficients)
        older = None if found.variances is None else found.variances * (1.0 + float(given.age or 0.0))
        return replace(found, variances=older)
    if isinstance(given, CoefficientPrediction):
        names = wanted.names if wanted.units is None else wanted.units.names
        model = stated(given, features=wanted.features, names=names, classes=wanted.classes)
        return _coefficients(replace(model, table_units=wanted.units is not None), wanted)
    if isinstance(given, PublicData):
        return _examples(given, None, wanted)
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(each, PublicData) for each in given):
        return _examples(given[0], given[1], wanted)
    if isinstance(given, Release):
        return _coefficients(_of_release(given, wanted), wanted)
    if isinstance(getattr(given, "release_", None), Release) and hasattr(given, "coef_"):
        return _coefficients(_of_model(given, wanted), wanted)
    raise RangeError(f"prediction is {_hint(given)}")


def _hint(given: Any) -> str:
    kind = type(given).__name__
    if isinstance(given, Table):
        return "a sidelight.Table, which is private; pass public rows as sl.PublicData, or an earlier model"
    if hasattr(given, "coef_"):
        return f"a {kind} of another library; write sl.CoefficientPrediction(model.coef_, model.intercept_, origin=...)"
    if hasattr(given, "get_params"):
        return f"a {kind} that is not fitted; fit it first, or state coefficients"
    if isinstance(given, tuple):
        return "a tuple; a pair is (sl.PublicData(rows, ...), sl.PublicData(targets, ...)), several are a list"
    return (
        f"a {kind}; it takes sl.PublicData(rows, 'where they come from'), sl.CoefficientPrediction(...), an earlier "
        "model or release, or a list of these"
    )


def _examples(rows: PublicData, targets: PublicData | None, wanted: PredictedFit) -> PublicExamples:
    if wanted.read_table is not None:
        if targets is not None:
            raise RangeError("public rows of a table have their target among their columns, by name; give one frame")
        raw, labels = wanted.read_table(rows)
    elif targets is not None:
        raw, labels = _pair(rows, targets, wanted)
    else:
        raw, labels = _with_target(rows, wanted)
    keep = np.isfinite(raw).all(axis=1)
    places = None
    if labels is not None:
        places, known = _targets(labels, wanted)
        keep &= known
        places = places[keep]
    raw = np.asarray(raw[keep])
    if len(raw) < FEWEST_ROWS:
        raise RangeError(
            f"a prediction from public rows needs at least {FEWEST_ROWS} of them without a missing value and with a "
            f"declared target, got {len(raw)}; state coefficients with sl.CoefficientPrediction, or leave it out"
        )
    if places is not None and wanted.classes is not None and len(np.unique(places)) < 2:
        raise RangeError("the public rows of the prediction are all of one class; give some of at least two classes")
    _check_lengths(raw, wanted)
    bounded, _, _ = bounded_rows(raw, data_norm=wanted.data_norm, on_violation=wanted.on_violation)
    given = (rows,) if targets is None else (rows, targets)
    features = np.asarray(bounded) / float(wanted.data_norm)
    return PublicExamples(features=features, targets=places, origin=rows.origin, given=given, raw=raw)


def _check_lengths(raw: Floats, wanted: PredictedFit) -> None:
    """Refuse public rows that are longer than rows may be: they were not scaled as the rows of the fit are."""
    if wanted.on_violation != "clip" or wanted.units is not None:
        return  # every row gets the same length, or is scaled by the declared ranges
    _, norms, _ = bounded_rows(raw, data_norm=Fraction(10) ** 300, on_violation="clip")
    long = int(np.sum(norms > float(wanted.data_norm) * (1 + 1e-9)))
    if long:
        raise RangeError(
            f"{long} of the {len(raw)} public rows of the prediction are longer than data_norm "
            f"({float(wanted.data_norm):.6g}), the longest {float(norms.max()):.6g}; scale them as X is scaled, or "
            "leave out those that are too long. Nothing was charged"
        )


def _with_target(rows: PublicData, wanted: PredictedFit) -> tuple[Floats, NDArray[Any] | None]:
    """Split public rows into features and target: the last column, or the one that is no feature."""
    names, features = rows.names, wanted.features
    if names is not None and wanted.names is not None and set(wanted.names) <= set(names):
        others = [name for name in names if name not in set(wanted.names)]
        if len(others) > 1:
            raise RangeError(
                f"the public rows have {len(others)} columns besides the features, {others[0]!r} and {others[1]!r}; "
                "give the target as the only one, or a pair (sl.PublicData(rows, ...), sl.PublicData(targets, ...))"
            )
        numbers = rows.numbers_of(list(wanted.names))
        return numbers, None if not others else rows.column(others[0])
    if names is not None and wanted.classes is not None and len(names) == features + 1:
        return rows.numbers_of(list(names[:-1])), rows.column(names[-1])  # labels may be texts
    numbers = rows.numbers_of(None)
    if numbers.ndim != 2 or numbers.shape[1] not in (features, features + 1):
        width = numbers.shape[1] if numbers.ndim == 2 else 1
        raise RangeError(
            f"public rows must have the {features} feature(s) and the target as last column, {features + 1} in all, "
            f"got {width}; or give a pair (sl.PublicData(rows, ...), sl.PublicData(targets, ...))"
        )
    return numbers[:, :features], None if numbers.shape[1] == features else numbers[:, features]


def _pair(rows: PublicData, targets: PublicData, wanted: PredictedFit) -> tuple[Floats, NDArray[Any]]:
    named = wanted.names is not None and rows.names is not None and set(wanted.names) <= set(rows.names)
    numbers = rows.numbers_of(list(wanted.names) if named and wanted.names is not None else None)
    if numbers.ndim != 2 or numbers.shape[1] != wanted.features:
        width = numbers.shape[1] if numbers.ndim == 2 else 1
        raise RangeError(f"the public rows have {width} column(s), the model {wanted.features} feature(s)")
    labels = targets.column(None)
    if len(labels) != len(numbers):
        raise RangeError(f"there are {len(numbers)} public rows and {len(labels)} public targets; give one per row")
    return numbers, labels


def _targets(labels: NDArray[Any], wanted: PredictedFit) -> tuple[Floats, NDArray[np.bool_]]:
    """Return places of classes, or numbers in half ranges from the middle."""
    if wanted.classes is not None:
        places, known = positions_of(labels, wanted.classes)
        if not known.any():
            raise RangeError(
                f"the public rows of the prediction have none of the declared classes {list(wanted.classes)}; give the "
                "same labels, of the same type"
            )
        return places.astype(np.float64), known
    values, known = numbers_of(labels)
    low, high = wanted.target_range or (-1e15, 1e15)
    return (np.clip(values[:, 0], low, high) - wanted.middle) / wanted.half, known


def _of_model(given: Any, wanted: PredictedFit) -> StatedModel:
    """Read a fitted model of this library."""
    release: Release = given.release_
    check_classes(getattr(given, "classes_", None), wanted.classes)
    _check_kind(getattr(given, "classes_", None), wanted)
    weights, constants = np.atleast_2d(np.asarray(given.coef_, np.float64)), np.atleast_1d(given.intercept_)
    model = StatedModel(
        coefficients=weights,
        intercepts=np.asarray(constants, np.float64),
        spread=None,
        noise=_stored_noise(release),
        source=released_origin(release),
        what="an earlier model",
        seeded=not release.private,
    )
    units, names = getattr(getattr(given, "encoding_", None), "units", None), getattr(given, "feature_names_in_", None)
    return _for_columns(model, units, names, wanted)


def _of_release(release: Release, wanted: PredictedFit) -> StatedModel:
    """Read a release of a model: of columns in their own units, or of features."""
    if not str(release.query.get("kind", "")).startswith("linear_model"):
        raise RangeError(f"a {release.kind} release is no prediction of a linear model; pass one of a model")
    classes = release.query.get("classes")
    theirs = None if classes is None else tuple(ast.literal_eval(classes))
    check_classes(theirs, wanted.classes)
    _check_kind(theirs, wanted)
    source, seeded = released_origin(release), not release.private
    more: dict[str, Any] = {"spread": None, "source": source, "what": "an earlier release", "seeded": seeded}
    columns, scaled = declared_columns(release.query), isinstance(release.value, Mapping)
    if not columns and wanted.units is not None and (scaled or any(wanted.units.calendars)):
        raise RangeError(
            "the earlier release does not say for which columns of a table its coefficients are: it is of an array or "
            "of a version before 0.6.0; pass the fitted model, or state them as sl.CoefficientPrediction"
        )
    units = RowEncoder(columns).units if columns else None
    if scaled:
        weights = np.atleast_2d(np.asarray(release.value["coefficients"], np.float64))
        constants = np.atleast_1d(np.asarray(release.value["intercept"], np.float64))
        constants = constants + float(release.query.get("target_centre", 0))
        model = StatedModel(coefficients=weights, intercepts=constants, noise=_stored_noise(release), **more)
        return _for_columns(model, units, release.query.get("inputs"), wanted)
    outputs = outputs_of(wanted.classes)
    both = np.asarray(release.value, np.float64).reshape(outputs, -1)
    names = release.labels[: both.shape[1] - 1]
    if outputs > 1 and theirs is not None:
        names = tuple(name.removeprefix(f"{theirs[0]}: ") for name in names)
    _check_names(names, wanted.names if wanted.units is None else wanted.units.names)
    model = StatedModel(coefficients=both[:, :-1], intercepts=both[:, -1], noise=None, table_units=True, **more)
    return model if units is None or wanted.units is None else _for_columns(model, units, names, wanted)


def _for_columns(
    model: StatedModel, theirs: TableUnits | None, names: Sequence[str] | None, wanted: PredictedFit
) -> StatedModel:
    """Return a model of the wanted columns, in their own units where ranges or starts differ; refuse other columns."""
    mine = wanted.units
    if theirs is None and mine is None:
        _check_names(names, wanted.names)
        return model
    if theirs is None or mine is None:
        one, other = ("an array", "a table") if theirs is None else ("a table", "an array")
        raise RangeError(f"the earlier model was fitted to {one}, this one is fitted to {other}: fit both to the same")
    _check_names(theirs.names, mine.names)
    if theirs == mine:
        return model
    weights, constants = model.coefficients, model.intercepts
    if not model.table_units:
        both = theirs.own(weights, constants).reshape(-1, len(theirs.names) + 1)
        weights, constants = both[:, :-1], both[:, -1]
    constants = constants + weights @ mine.later(theirs)
    return replace(model, coefficients=weights, intercepts=constants, noise=None, table_units=True)


def _check_kind(classes: Any, wanted: PredictedFit) -> None:
    if classes is None and wanted.classes is not None:
        raise RangeError("the prediction is a model of a number, and this model predicts classes; give one of its kind")


def _check_names(theirs: Sequence[str] | None, mine: Sequence[str] | None) -> None:
    if theirs is not None and mine is not None and tuple(theirs) != tuple(str(name) for name in mine):
        raise RangeError(
            f"the prediction is for the features {', '.join(theirs)}, this model has {', '.join(map(str, mine))}; both "
            "must be the same, in the same order"
        )


def _stored_noise(release: Release) -> StoredNoise | None:
    """Return what a fit by descent stored about its own noise, in the users' units; None for any other."""
    value = release.value if isinstance(release.value, Mapping) else {}
    if not {"noise", "map", "centre"} <= set(value):
        return None
    ways, centre = np.asarray(value["map"], np.float64), np.asarray(value["centre"], np.float64)
    variances = np.asarray(value["noise"], np.float64).reshape(len(centre) + 1, -1)
    norm = float(exact_number(str(release.query["data_norm"]), name="data_norm"))
    half = float(exact_number(str(release.query.get("half_range", 1)), name="half_range"))
    basis = np.zeros((len(centre) + 1,) * 2)
    basis[:-1, :-1] = half * ways / norm
    basis[-1, :-1] = -half * (centre @ ways)
    basis[-1, -1] = half
    return StoredNoise(basis=basis, variances=variances)


def _coefficients(model: StatedModel, wanted: PredictedFit) -> PredictedCoefficients:
    """Bring coefficients into the units of the fit: a linear map with the intercept's offset."""
    if model.coefficients.shape != (outputs_of(wanted.classes), wanted.features):
        raise RangeError(
            f"the prediction has coefficients for {model.coefficients.shape[1]} feature(s) and "
            f"{model.coefficients.shape[0]} output(s), the model {wanted.features} and {outputs_of(wanted.classes)}"
        )
    weights, constants = model.coefficients, model.intercepts
    factors, middles = np.ones(wanted.features), np.zeros(wanted.features)
    if model.table_units and wanted.units is not None:
        factors, middles = wanted.units.factors, wanted.units.middles
    stretch = float(wanted.data_norm) / (wanted.half * factors)
    shifted = (constants + weights @ middles - wanted.middle) / wanted.half
    if not wanted.has_intercept:
        if (np.abs(shifted) > 1e-9 * (1 + np.abs(weights * stretch).sum(axis=1))).any():
            raise SchemaError("the prediction has an intercept, and this model none; fit_intercept=True gives it one")
        shifted = np.zeros_like(shifted)
    with np.errstate(over="ignore"):  # the error below says it
        theta = np.vstack([(weights * stretch).T, shifted[None, :]])
    if not (np.abs(theta) <= _FARTHEST).all():  # NaN, too
        raise RangeError("the prediction has coefficients too large for this model's units; check their unit")
    basis, variances = None, None
    if wanted.features <= _WITH_GEOMETRY and (model.noise is not None or model.spread is not None):
        basis = np.diag(np.append(stretch, 1 / wanted.half))
        basis[-1, :-1] = middles / wanted.half
        if model.noise is not None:
            basis, variances = basis @ model.noise.basis, model.noise.variances
        elif model.spread is not None:
            variances = np.square(model.spread)[:, None]
    return PredictedCoefficients(
        theta=theta, origin=model.source, what=model.what, basis=basis, variances=variances, seeded=model.seeded
    )

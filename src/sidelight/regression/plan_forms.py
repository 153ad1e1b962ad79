"""`[[query]]` kinds that fit linear models: the parameters of an estimator, with the columns that it is fitted to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

from sidelight.plans.forms import (
    AMOUNT,
    LABEL,
    NUMBERS,
    REAL,
    TEXT,
    TEXTS,
    WHOLE,
    amount,
    choice,
    either,
    file_of,
    list_of,
    map_of,
    word,
)
from sidelight.plans.predictions import PUBLIC_FILE
from sidelight.plans.tables import OneOfForm, PlanKey, TableForm, table_of
from sidelight.predictions import PublicData
from sidelight.records.numbers import exact_number
from sidelight.regression.additive.plan import Monotone
from sidelight.regression.additive.predictions import CurvePrediction
from sidelight.regression.coefficient_prediction import CoefficientPrediction
from sidelight.regression.estimators.goal import SETTINGS, SOLVERS, with_settings
from sidelight.regression.model_query import ModelQuery
from sidelight.release import Release

#: Parameters that the declarations of a plan decide, or that a plan does not offer.
_WITHOUT = (
    *("data_norm", "target_range", "fit_intercept", "on_violation", "on_missing"),
    *("session", "random_state"),
)


_COLUMN_KEYS = {
    "target": PlanKey("target", TEXT, meaning="The column to predict."),
    "features": PlanKey("features", TEXTS, None, "The columns to predict from; all others if left out."),
}


def _which(prediction: Any) -> str:
    if isinstance(prediction, CoefficientPrediction):
        return "coefficients"
    return "public" if isinstance(prediction, PublicData) else "release"


_PREDICTION = OneOfForm(
    '{public = "rows.csv", origin = "..."}, {release = "model.json"} or {coefficients = {age = 0.02}, intercept = 1}',
    tables={
        "public": PUBLIC_FILE,
        "release": TableForm(
            make=lambda release: release,
            keys={
                "release": PlanKey(
                    "release",
                    file_of(lambda file, _: Release.from_json(file.read_text(encoding="utf-8"))),
                )
            },
            parts=lambda release: {"release": release},
        ),
        "coefficients": table_of(
            CoefficientPrediction,
            without=("classes", "age"),
            forms={
                "coefficients": NUMBERS,
                "intercept": NUMBERS,
                "scale": NUMBERS,
                "origin": TEXT,
            },
        ),
    },
    which=_which,
)


_CURVE = either(
    list_of(list_of(REAL), shape="points, such as [[20, -1.0], [60, 1.0]]"),
    map_of(REAL),
)
_KNOWN_CURVES = OneOfForm(
    '{public = "rows.csv", origin = "..."}, {release = "model.json"} or {curves = {age = [[20, -1], [60, 1]]}}',
    tables={
        "public": PUBLIC_FILE,
        "release": _PREDICTION.tables["release"],
        "curves": table_of(
            CurvePrediction, forms={"curves": map_of(_CURVE), "intercept": REAL, "scale": REAL, "origin": TEXT}
        ),
    },
    which=lambda given: "curves" if isinstance(given, CurvePrediction) else _which(given),
)


def _label(key: str) -> str | int:
    """Read a key of class_weight: TOML keys are texts, labels may be whole numbers."""
    return int(key) if key.removeprefix("-").isdigit() else key


_FORMS = {
    "prediction": either(_PREDICTION, list_of(_PREDICTION)),
    "classes": list_of(either(LABEL, WHOLE)),
    "class_weight": map_of(
        amount(lambda value, name: exact_number(value, name=f"class_weight of {name}")), name=_label
    ),
    "intercept_value": either(word(text=False, value=False), AMOUNT),
}


def additive_table(estimator: type) -> TableForm:
    """Return the table of a kind that fits additive models of this class."""
    own = table_of(
        estimator,
        without=("columns", "target_range", "session", "random_state"),
        forms={
            "prediction": either(_KNOWN_CURVES, list_of(_KNOWN_CURVES)),
            "classes": _FORMS["classes"],
            "monotone": map_of(choice(*get_args(Monotone))),
        },
        required=("epsilon", "delta"),
    )

    def make(*, target: str, features: list[str] | None = None, **given: Any) -> ModelQuery:
        if given.get("prediction") is not None and not isinstance(given["prediction"], list):
            given["prediction"] = [given["prediction"]]
        return ModelQuery(model=estimator(**given), target=target, features=features)

    def parts(query: ModelQuery) -> dict[str, Any]:
        return {**vars(query.model), "target": query.target, "features": query.features}

    return replace(own, make=make, keys={**_COLUMN_KEYS, **own.keys}, python=(ModelQuery,), parts=parts)


def model_table(estimator: Any) -> TableForm:
    """Return the table of a kind that fits models of this class: settings of its solvers are keys, too."""
    solvers = estimator._solvers
    own = table_of(
        estimator,
        without=_WITHOUT if len(solvers) > 1 else (*_WITHOUT, "solver"),
        forms={**_FORMS, "solver": choice(*solvers)},
        required=("epsilon", "delta"),
    )
    tables = [
        table_of(
            type(SOLVERS[each]),
            without=("tolerance", "minimiser", *(() if "loss" in own.keys else ("scale",))),
            names={"intercept_value": "intercept"},
            forms=_FORMS,
        )
        for each in solvers
    ]
    keys, hidden = {**_COLUMN_KEYS, **own.keys}, {**own.hidden}
    for each in tables:
        keys, hidden = {**keys, **each.keys}, {**hidden, **each.hidden}

    def make(*, target: str, features: list[str] | None = None, **given: Any) -> ModelQuery:
        if given.get("intercept_value") is False:
            given |= {"intercept_value": None, "fit_intercept": False}
        if given.get("prediction") is not None and not isinstance(given["prediction"], list):
            given["prediction"] = [given["prediction"]]
        settings = {name: given.pop(name) for name in SETTINGS if given.get(name) is not None}
        if settings:
            given["solver"] = with_settings(estimator.__name__, given.get("solver", solvers[0]), settings)
        return ModelQuery(
            model=estimator(**{name: each for name, each in given.items() if name not in SETTINGS}),
            target=target,
            features=features,
        )

    hidden = {name: usual for name, usual in hidden.items() if name not in ("fit_intercept", "solver")}
    return replace(own, make=make, keys=keys, hidden=hidden, python=(ModelQuery,), parts=_parts)


def _parts(query: ModelQuery) -> dict[str, Any]:
    model, settings = query.model, query.model._settings
    found = {name: getattr(SOLVERS[each], name) for each in model._solvers for name in vars(SOLVERS[each])}
    found |= {**vars(model), **vars(settings), "target": query.target, "features": query.features}
    found["solver"] = next(name for name, usual in SOLVERS.items() if isinstance(settings, type(usual)))
    return found if model.fit_intercept else found | {"intercept_value": False}

"""What the estimators share: the public checks, the way through the release pipeline, and the linear predictor.

A class only because scikit-learn wants one: parameters are stored as given and checked by `fit`, before any charge.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from functools import wraps
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted, validate_data

from sidelight.errors import REMOVED, RangeError, SchemaError, SidelightWarning, nearest, refuse_both_names
from sidelight.guarantees import positive
from sidelight.progress import progress
from sidelight.records import Category, Number, Schema, Table
from sidelight.regression.estimators.examples import examples, refuse_unusable, warn_of_repetition
from sidelight.regression.estimators.fit_query import FitQuery, Records, normalised_to, release_fit
from sidelight.regression.estimators.fitted_privacy import DescentPrivacy, FittedPrivacy, UsedPrediction
from sidelight.regression.estimators.forecast import ForecastMixin
from sidelight.regression.estimators.goal import (
    DESCENT_SETTINGS,
    OBJECTIVE_SETTINGS,
    SETTINGS,
    SOLVERS,
    DescentSettings,
    Goal,
    ObjectiveSettings,
    check_parameters,
    check_solver,
    check_table,
    needed,
    warn_of_noise,
    with_settings,
)
from sidelight.regression.estimators.privacy_report import PrivacyReportMixin
from sidelight.regression.estimators.table_encoding import (
    TableEncoding,
    TableExamples,
    encoding_for,
    has_names,
    labels_of,
    target_column,
    width_of,
)
from sidelight.regression.losses import Floats
from sidelight.regression.model_predictions import (
    PredictedFit,
    Predictions,
    ReadTable,
    declared_rows,
    refuse_private_rows,
)
from sidelight.regression.prediction_sources import predictions_of
from sidelight.regression.rows import bounded_rows
from sidelight.regression.table_rows import TableUnits
from sidelight.session import Session
from sidelight.session.paid_estimator import PaidEstimator
from sidelight.session.query import public_numbers


def _takes_old_settings(init: Any) -> Any:
    """Let a constructor take the settings of its solver by their own names, as it did until 0.5, with a warning."""

    known = inspect.signature(init).parameters

    @wraps(init)
    def taking(self: Any, **given: Any) -> None:
        name = type(self).__name__
        for each in given.keys() - known.keys() - SETTINGS.keys():
            if each in (gone := REMOVED.get(name, {})):
                raise TypeError(f"{name} no longer has the parameter {each!r}; {gone[each]}")
            raise TypeError(f"{name} has no parameter {each!r}; {nearest(each, [*known][1:])}")
        old = {each: given.pop(each) for each in given.keys() - known.keys()}
        if old:  # of a solver given by name; an object has its own
            refuse_both_names(name, old, "solver", given=not isinstance(given.get("solver", ""), str))
            given["solver"] = with_settings(name, given.get("solver", self._solvers[0]), old)
            words = ", ".join(f"{each}=..." for each in sorted(old))
            warnings.warn(
                f"write solver=sl.{type(given['solver']).__name__}({words}) instead of {words} of {name}",
                SidelightWarning,
                stacklevel=2,
            )
        init(self, **given)

    return taking


class LinearEstimator(ForecastMixin, PrivacyReportMixin, PaidEstimator, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A private linear model; see the classes that derive from it."""

    epsilon: Any
    delta: Any
    data_norm: Any
    fit_intercept: bool
    on_violation: Any
    on_missing: Any
    prediction: Any
    rows: int | None
    session: Session | None
    random_state: Any
    coef_: Any
    intercept_: Any
    solver: Any
    odds: Any
    #: The solvers that a model has, the usual one first.
    _solvers: ClassVar[tuple[str, ...]] = ("objective",)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" in vars(cls):
            cls.__init__ = _takes_old_settings(vars(cls)["__init__"])  # type: ignore[method-assign]

    @property
    def _settings(self) -> DescentSettings | ObjectiveSettings:
        """The settings of the solver: the usual ones, if it is given by its name."""
        found: Any = self.solver
        return SOLVERS.get(found, found) if isinstance(found, str) else found  # type: ignore[arg-type]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = self.random_state is None  # private: a second fit draws new noise and is paid again
        return tags

    def fit(self, X: Any, y: Any, *, key: str | None = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, fit and release.

        Args:
            X: Rows: an array, a sparse matrix, a frame or a list of rows.
            y: One target a row.
            key: With a session that has a ledger: the release is remembered under it, and asking again returns the
                stored model for nothing.
        """
        self._check_solver()
        with public_numbers(type(self).__name__):
            goal = self._goal()
        check_parameters(self)
        needed(self, "data_norm")
        found = examples(X, y, target_kinds=goal.target_kinds)
        named = type(self)()  # validate on a throwaway instance: a refused fit must leave this one as it was
        validate_data(named, X, skip_check_array=True)
        names = getattr(named, "feature_names_in_", None)
        predictions = self._predictions(
            goal, data_norm=self.data_norm, features=found.features, names=None if names is None else list(names)
        )
        refuse_private_rows(predictions.public, X)
        if self.on_missing == "raise":
            refuse_unusable(self, X, y, classes=goal.classes)
        if self.session is None and self.random_state is None:  # no account adds up, and nothing is stated to be public
            warn_of_repetition(self, found)
        self._release(goal, self._query(goal, found, predictions, data_norm=self.data_norm), table=None, key=key)
        for attribute in ("encoding_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(attribute, None)
        self.__dict__ |= {name: value for name, value in vars(named).items() if name.endswith("_in_")}
        return self

    def fit_table(
        self, table: Table, *, target: str, features: Sequence[str] | None = None, key: str | None = None
    ) -> Self:
        """Charge, and fit columns of a table, also of a file larger than memory or a Spark frame: in a few passes.

        Numbers are scaled by their public ranges and categories have one column for each declared label; each is
        divided by the square root of the number of columns, so that `data_norm` is 1 unless a smaller one is given.
        Rows that miss a value follow the schema. `encoding_` is that encoding as a transformer, and its names are those
        of the coefficients; `feature_names_in_` are the table's columns. `predict` and the like take a table, or a
        frame or a mapping with these columns, and encode it in the same way.

        Args:
            table: Rows with a schema; with a session its own table.
            target: The column to predict. Of a category come the classes, of a number the `target_range`.
            features: The columns to predict from; default all others.
            key: As in `fit`.
        """
        check_table(table)
        if self.on_missing == "raise":
            raise RangeError("on_missing='raise' is for arrays; a table's schema says what becomes of a missing value")
        with public_numbers(type(self).__name__):
            goal, encoding, query = self._query_of_columns(table.schema, target=target, features=features)
        in_memory = table.rows.length is not None
        with nullcontext() if in_memory else progress(f"fitting a model to {table.name}, which is read several times"):
            self._release(goal, query, table=table, key=key)
        self.encoding_: TableEncoding = encoding
        self.n_features_in_ = len(encoding.columns)
        self.feature_names_in_ = np.array([column.name for column in encoding.columns], dtype=object)
        return self

    def _goal(self, column: Number | Category | None = None) -> Goal:
        """Return what is to be learned; a table's target column fills in what the parameters leave out."""
        raise NotImplementedError

    @property
    def _descends(self) -> bool:
        return isinstance(self._settings, DescentSettings)

    def _check_solver(self) -> None:
        check_solver(self)

    def _query_of_columns(
        self, schema: Schema, *, target: str, features: Sequence[str] | None
    ) -> tuple[Goal, TableEncoding, FitQuery]:
        """Describe the fit of columns of a table: what is learned, how rows are encoded, and the query. Public."""
        self._check_solver()
        column = target_column(schema, target)
        goal = self._goal(column)
        check_parameters(self)
        encoding = encoding_for(schema, target=target, features=features)
        labels = None
        if isinstance(column, Category):
            assert goal.classes is not None
            labels = labels_of(column, goal.classes)
        data_norm = 1 if self.data_norm is None else self.data_norm
        found = TableExamples(encoding, column, labels)
        predictions = self._predictions(
            goal,
            data_norm=data_norm,
            features=found.features,
            names=encoding.names,
            units=encoding.units,
            read_table=found.public_examples,
        )
        return goal, encoding, self._query(goal, found, predictions, data_norm=data_norm)

    def _predictions(
        self,
        goal: Goal,
        *,
        data_norm: Any,
        features: int,
        names: Sequence[str] | None,
        units: TableUnits | None = None,
        read_table: ReadTable | None = None,
    ) -> Predictions:
        """Read `prediction=` in the units of this fit. Reads no private row."""
        if self.prediction is None:
            return Predictions()
        wanted = PredictedFit(
            features=features,
            names=names,
            data_norm=positive(data_norm, name="data_norm"),
            on_violation=self.on_violation,
            classes=None if goal.classes is None else tuple(goal.classes.tolist()),
            target_range=goal.target_range,
            middle=goal.middle,
            half=goal.half,
            has_intercept=self.fit_intercept,
            units=units,
            read_table=read_table,
        )
        return predictions_of(self.prediction, wanted)

    def _query(self, goal: Goal, found: Records, predictions: Predictions, *, data_norm: Any) -> FitQuery:
        """Describe the fit of examples that are not yet looked at."""
        own: Any = self._settings
        settings = {name: getattr(self, name) for name in ("epsilon", "delta", "on_violation")}
        settings["data_norm"] = data_norm
        if goal.targets is not None:
            settings |= {name: getattr(own, name) for name in DESCENT_SETTINGS}
            settings |= {"intercept": bool(self.fit_intercept), "odds": self.odds, "rows": self.rows}
        else:
            settings |= {name: getattr(own, name) for name in OBJECTIVE_SETTINGS}
            settings |= {"intercept": self._constant(data_norm), "solver": own.minimiser}
            declared_rows(self.rows, rows_at_most=own.rows_at_most)
            if predictions.described is not None:
                settings |= {"odds": self.odds, "rows": self.rows}
        return FitQuery(goal=goal, examples=found, settings=settings, predictions=predictions)

    def _release(self, goal: Goal, query: FitQuery, *, table: Table | None, key: str | None) -> None:
        """Release the fit and keep the result; nothing is kept of a refused fit."""
        released, plan = release_fit(query, self, table=table, key=key)
        self.release_, self.guarantee_ = released, released.guarantee
        self.__dict__.pop("prediction_", None)
        self.privacy_: Any
        if goal.targets is None:
            self.privacy_ = FittedPrivacy.of(plan, released.guarantee, value=released.value)
        else:
            self.privacy_ = DescentPrivacy.of(plan, released.guarantee, released.value)
            warn_of_noise(self.privacy_, "this model is")
        if self.prediction is not None:
            self.prediction_ = UsedPrediction.of(self.privacy_, released.prediction)
        self._keep(goal, np.asarray(released.value["coefficients"]), np.asarray(released.value["intercept"]))

    def _constant(self, data_norm: Any) -> Any:
        """Return the value of the constant column: as long as a row can be, whatever the unit of the features is."""
        if not self.fit_intercept:
            return None
        given = getattr(self._settings, "intercept_value", None)
        return data_norm if given is None else given

    def _keep(self, goal: Goal, coefficients: Floats, intercepts: Floats) -> None:
        """Set the attributes: coefficients are (outputs, features), intercepts (outputs,)."""
        self.coef_, self.intercept_ = coefficients, intercepts
        if goal.classes is not None:
            self.classes_ = goal.classes

    def _rows(self, rows: Any) -> Any:
        """Return new rows as the model wants them. Prediction is post-processing and free."""
        check_is_fitted(self)
        if hasattr(self, "encoding_"):
            checked = self._encoded(rows)
        elif isinstance(rows, Table):
            raise SchemaError("this model was fitted to an array, so it cannot read a table; use fit_table")
        else:
            checked = validate_data(self, rows, accept_sparse="csr", dtype=np.float64, reset=False)
        norm = normalised_to(self.release_)
        if norm is not None:  # a model of normalised rows
            checked, _, _ = bounded_rows(checked, data_norm=norm, on_violation="normalize")
        return checked

    def _encoded(self, rows: Any) -> Any:
        """Encode what a model of a table is asked about, as the table was encoded.

        An array has no names. One with as many columns as the table can only be meant in the columns' own units, unless
        there are as many encoded ones: then it might be either, and one of the two readings would be wrong in silence.
        """
        if not isinstance(rows, Table) and not has_names(rows):
            columns = [column.name for column in self.encoding_.columns]
            width = width_of(rows)
            if width != len(columns) or width == len(self.encoding_.names):
                raise SchemaError(
                    f"this model was fitted to the columns {', '.join(columns)} of a table, and an array of "
                    f"{'no columns' if width is None else f'{width} column(s)'} does not say which they are, or "
                    "whether they are scaled; pass a frame, a mapping or a sl.Table with these names, such as "
                    "pd.DataFrame(X, columns=model.feature_names_in_)"
                )
        return self.encoding_.matrix(self.encoding_.table(rows))


#: Why private models fail checks of scikit-learn on purpose.
_ROWS = "wants an error for a row that cannot be used; here no row raises, unless on_missing='raise'"
_LABELS = "wants an error for the labels that occur; they are private, and others than the declared take no part"
_DECLARED = "learns classes from y; here they are declared, because which labels occur is private"
_WEIGHTS = "weights of 1000 are noise of 1000 times the size"


def expected_failed_checks(model: Any) -> dict[str, str]:
    """Return the checks of scikit-learn that a model fails on purpose, each with its reason.

    For `sklearn.utils.estimator_checks.check_estimator(model, expected_failed_checks=expected_failed_checks(model))`.
    The tests of this library run it, and fail when the list is longer or shorter than it need be.

    >>> from sidelight.regression.estimators import LinearRegression
    >>> expected_failed_checks(LinearRegression(on_missing="raise"))
    {}
    """
    expected: dict[str, str] = {}
    if model.on_missing == "drop":
        expected |= {
            "check_dtype_object": _ROWS,
            "check_estimators_empty_data_messages": _ROWS,
            "check_estimators_nan_inf": _ROWS,
            "check_supervised_y_no_nan": _ROWS,
        }
    if not is_classifier(model):
        return expected
    expected["check_classifiers_classes"] = _DECLARED
    two = len(model.classes) == 2
    if model.on_missing == "drop":
        expected["check_classifiers_regression_target"] = _LABELS
        if two:
            expected["check_classifier_not_supporting_multiclass"] = _LABELS
    if hasattr(model, "class_weight"):
        expected["check_class_weight_classifiers"] = _WEIGHTS
        if not two:
            expected |= {"check_classifiers_train": _DECLARED, "check_decision_proba_consistency": _DECLARED}
    return expected

"""Private additive models: a curve per number, a table per category, an intercept; nothing to tune."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees import Amount
from sidelight.records import Category, Number, Schema, Table
from sidelight.records.engines.arrays import library_of
from sidelight.records.engines.frames import names_of
from sidelight.regression.additive.fine_codes import AdditiveExamples
from sidelight.regression.additive.plan import Lines, Monotone
from sidelight.regression.additive.predictions import additive_predictions
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.additive_forecast import simulated_fits
from sidelight.regression.estimators.additive_privacy_report import additive_report_of
from sidelight.regression.estimators.additive_query import AdditiveFit, AdditivePrivacy
from sidelight.regression.estimators.classifiers import ClassProbabilities
from sidelight.regression.estimators.curves import FittedCurvesMixin, curves_of
from sidelight.regression.estimators.examples import is_arrow_column, target_column_of, targets_of
from sidelight.regression.estimators.fit_query import release_fit
from sidelight.regression.estimators.fitted_privacy import UsedPrediction
from sidelight.regression.estimators.forecast import Forecast, ForecastMixin
from sidelight.regression.estimators.goal import (
    check_choices,
    check_price,
    check_table,
    declared_classes,
    needed,
    warn_of_noise,
)
from sidelight.regression.estimators.regressors import declared_range
from sidelight.regression.estimators.table_encoding import (
    TableEncoding,
    check_feature_columns,
    encoding_for,
    has_names,
    labels_of,
    target_column,
)
from sidelight.regression.losses import Floats
from sidelight.session import Session
from sidelight.session.paid_estimator import PaidEstimator
from sidelight.session.query import public_numbers

OnMissingNumber = Literal["cell", "drop"]
_COLUMNS = "the declarations of the columns of X: sl.Number(name, lower=, upper=) and sl.Category(name, labels)"


class AdditiveEstimator(FittedCurvesMixin, ForecastMixin, PaidEstimator, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A private additive model; see the classes that derive from it."""

    epsilon: Any
    delta: Any
    columns: Any
    prediction: Any
    rows: int | None
    odds: Any
    lines: Any
    monotone: Any
    on_missing: Any
    session: Session | None
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.non_deterministic = self.random_state is None  # private: a second fit draws new noise and is paid again
        return tags

    def fit(self, X: Any, y: Any, *, key: str | None = None) -> Self:  # noqa: N803  # as scikit-learn names it
        """Charge, fit and release. The protected unit is a row: a session must protect rows, and no person is declared.

        Args:
            X: Rows with the declared columns: a frame or a mapping by name, or an array in the order of `columns`.
            y: One target a row.
            key: With a session that has a ledger: the release is remembered under it, and asking again returns the
                stored model for nothing.
        """
        columns = self._columns_of_arrays()
        with public_numbers(type(self).__name__):
            target = self._target_of_arrays({column.name for column in columns})
            table = joined_table(TableEncoding(columns), X, y, target)
            fit = self._fit_of(table.schema, target=target.name, features=None, own=table)
        return self._release(fit, table=None, key=key)

    def fit_table(
        self, table: Table, *, target: str, features: Sequence[str] | None = None, key: str | None = None
    ) -> Self:
        """Charge, and fit columns of a table, also of a file larger than memory or a Spark frame: in a few passes.

        Args:
            table: Rows with a schema, which declares the columns and the protected unit; with a session its own table.
            target: The column to predict.
            features: The columns to predict from; default all others.
            key: As in `fit`.
        """
        check_table(table)
        with public_numbers(type(self).__name__):
            fit = self._fit_of(table.schema, target=target, features=features)
        return self._release(fit, table=table, key=key)

    def _targets(self, column: Number | Category) -> Targets:
        """Return what is learned; checks classes or range."""
        raise NotImplementedError

    def _target_of_arrays(self, taken: set[str]) -> Number | Category:
        """Declare the target of arrays by the model's own parameters."""
        raise NotImplementedError

    def _simulated(self, schema: Any, *, target: str | None, features: Any, rows: int | None, draws: int) -> Forecast:
        """Simulate the fits of an additive model."""
        return simulated_fits(self, schema, target=target, features=features, rows=rows, draws=draws)

    def _schema_of_arrays(self) -> Schema:
        """Return the declarations of arrays, the target last."""
        columns = self._columns_of_arrays()
        return Schema([*columns, self._target_of_arrays({column.name for column in columns})])

    def _columns_of_arrays(self) -> tuple[Number | Category, ...]:
        """Return the declared features of arrays; whatever else is declared is refused."""
        declared = Schema(needed(self, "columns", _COLUMNS))
        check_feature_columns((*declared.columns, *declared.links), taker=type(self).__name__)
        return tuple(column for column in declared.columns if isinstance(column, Number | Category))

    def _fit_of(
        self, schema: Schema, *, target: str, features: Sequence[str] | None, own: Table | None = None
    ) -> AdditiveFit:
        """Describe the fit of columns of a table. Public."""
        self._check()
        column = target_column(schema, target)
        targets = self._targets(column)
        encoding = encoding_for(schema, target=target, features=features)
        columns = tuple(encoding.columns)
        labels = labels_of(column, np.array(targets.classes)) if isinstance(column, Category) else None
        examples = AdditiveExamples(columns, column, labels, self.on_missing == "cell", own)
        return AdditiveFit(
            examples=examples,
            targets=targets,
            settings={name: getattr(self, name) for name in ("epsilon", "delta", "lines", "odds", "rows")},
            predictions=additive_predictions(self.prediction, examples, targets, encoding.units),
            monotone=self._monotone(columns, targets),
        )

    def privacy_report(self, *, rho: float = 1e-6) -> dict[str, Any]:
        """Return the report that may be published with the model; it costs no privacy.

        Guarantee: a function of what was released (the path and its tables) and public constants.
        `report_bound` computes from it a bound that holds, for a row fixed beforehand, except with probability `rho`
        (additive-model proof page, section 7). Rows are on a grid of a millionth of a range, and so is the bound.

        Args:
            rho: The probability, over the noise of the fit, with which a bound may fail.
        """
        check_is_fitted(self)
        return additive_report_of(
            self.release_, self.columns_, classes=getattr(self, "classes_", None), rho=rho
        ).to_dict()

    def _check(self) -> None:
        check_price(self)
        check_choices(self, {"lines": get_args(Lines), "on_missing": get_args(OnMissingNumber)})

    def _monotone(self, columns: Sequence[Number | Category], targets: Targets) -> dict[str, int]:
        given = {} if self.monotone is None else self.monotone
        if given and targets.outputs > 1:
            raise RangeError("monotone is for a number or two classes: of several, one class rises where another falls")
        if not isinstance(given, Mapping):
            raise RangeError('monotone maps columns to "increasing" or "decreasing", such as {"age": "increasing"}')
        numbers = [column.name for column in columns if isinstance(column, Number)]
        for name, way in given.items():
            if name not in numbers:
                raise RangeError(f"monotone names {name!r}, which is no numeric column; {nearest(str(name), numbers)}")
            if way not in get_args(Monotone):
                raise RangeError(f"monotone of {name!r} is {way!r}; {nearest(str(way), get_args(Monotone))}")
        return {name: 1 if way == "increasing" else -1 for name, way in given.items()}

    def _release(self, fit: AdditiveFit, *, table: Table | None, key: str | None) -> Self:
        """Release the fit and keep the result; nothing is kept of a refused fit."""
        released, plan = release_fit(fit, self, table=table, key=key, kind_name="the fit of an additive model")
        value = released.value
        self.release_, self.guarantee_ = released, released.guarantee
        self.privacy_ = AdditivePrivacy.of(plan, released.guarantee, value)
        self.columns_ = fit.examples.columns
        self.intercept_ = value["intercept"]
        targets = plan.targets
        self.curves_ = curves_of(self.columns_, value, classes=targets.classes, unit=targets.half)
        self.n_features_in_ = len(self.columns_)
        self.feature_names_in_ = np.array([column.name for column in self.columns_], dtype=object)
        self.__dict__.pop("prediction_", None)
        if self.prediction is not None:
            self.prediction_ = UsedPrediction.of(self.privacy_, released.prediction)
        warn_of_noise(self.privacy_, "the curves are")
        self._keep(plan.targets)
        return self

    def _keep(self, targets: Targets) -> None:
        """Set the attributes of the kind."""


class AdditiveRegressor(RegressorMixin, AdditiveEstimator):  # type: ignore[misc]
    """Fit an additive regression with (ε, δ)-differential privacy: a curve per number, a table per category.

    Guarantee: `guarantee_` after each fit: GDP(mu), the largest mu within (epsilon, delta), for one row added or
    removed (after `fit_table` of a table that declares persons, one person with all of their rows), exact on the
    machine: integer sums looked up row by row, with rounded Gaussian noise (additive-model proof page, Theorem A).

    Accuracy: lines first, then curves where the noisy rows show them; see the page on additive models for measured
    errors. A `prediction` takes the place of the lines and is used as far as the noisy rows agree with it.

    No confidence band is given: bands were measured, and those that were tried do not hold on correlated columns.

    Args:
        epsilon: The budget of one fit.
        delta: No default.
        columns: The declarations of X's columns, `Number`, `Date` and `Category`; `fit_table` takes those of the table.
        target_range: The public lower and upper bound of y; targets beyond are clamped, predictions too.
        prediction: What is known already: public rows as `sl.PublicData` with the target among their columns, an
            earlier additive model or its release, `sl.CurvePrediction`, `sl.CoefficientPrediction`, or a list of these.
        rows: About how many rows there are, as far as that is public; a wrong number costs accuracy only.
        odds: Prior odds of a prediction against none.
        lines: "auto" fits lines first unless there is a prediction; "none" never.
        monotone: Numbers whose curves only rise or fall, such as {"age": "increasing"}.
        on_missing: "cell" gives missing numbers a value of their own, "drop" leaves their rows out.
        session: The budget to charge; X must be rows of what it protects. One of persons wants `fit_table`.
        random_state: None. A whole number makes the noise reproducible and the model NOT PRIVATE: for tests.

    Attributes after a fit: `intercept_`, `curves_`, `feature_names_in_`, `n_features_in_`, `privacy_`, `guarantee_`,
    `release_`, and with a prediction `prediction_`. There is no training score: it would be a release.

    >>> import numpy as np
    >>> import sidelight as sl
    >>> ages = np.linspace(0, 100, 5000)
    >>> model = sl.AdditiveRegressor(
    ...     epsilon=1, delta="1e-6", columns=[sl.Number("age", lower=0, upper=100)], target_range=(0, 10)
    ... ).fit({"age": ages}, np.abs(ages - 50) / 5)
    >>> bool(abs(model.predict({"age": [10.0]})[0] - 8) < 1)
    True
    """

    target_range: Any

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        columns: Sequence[Number | Category] | None = None,
        target_range: tuple[float, float] | None = None,
        prediction: Any = None,
        rows: int | None = None,
        odds: Amount = 9,
        lines: Lines = "auto",
        monotone: Mapping[str, Monotone] | None = None,
        on_missing: OnMissingNumber = "cell",
        session: Session | None = None,
        random_state: int | None = None,
    ) -> None:
        self._store(locals())

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """Return the predicted target of each row, within the target's range."""
        low, high = self.target_range_
        return np.clip(self.decision_function(X), low, high)

    def _targets(self, column: Number | Category) -> Targets:
        low, high = declared_range(self.target_range, column)
        return Targets(kind="squared", target_range=(low, high), target_centre=low / 2 + high / 2)

    def _target_of_arrays(self, taken: set[str]) -> Number:
        needed(self, "target_range", "the public lower and upper bound of y, such as (0, 100); beyond is clamped")
        low, high = declared_range(self.target_range, None)
        return Number(free_name(taken), lower=low, upper=high)

    def _keep(self, targets: Targets) -> None:
        assert targets.target_range is not None
        self.target_range_ = targets.target_range


class AdditiveClassifier(ClassProbabilities, ClassifierMixin, AdditiveEstimator):  # type: ignore[misc]
    """Fit an additive model of classes with (ε, δ)-differential privacy: curves of log odds.

    Of more than two classes each has curves of its own, whose softmax is the probability: `intercept_` is then one
    number a class, and curves, contributions and decisions have one column a class.

    Guarantee: as `AdditiveRegressor`.

    Accuracy: as `AdditiveRegressor`.

    Args:
        classes: The labels, public; rows with others take no part.
        epsilon, delta, columns, prediction, rows, odds: As in `AdditiveRegressor`.
        lines, monotone, on_missing, session, random_state: As in `AdditiveRegressor`.

    >>> import numpy as np
    >>> import sidelight as sl
    >>> ages = np.linspace(0, 100, 5000)
    >>> model = sl.AdditiveClassifier(
    ...     epsilon=1, delta="1e-6", columns=[sl.Number("age", lower=0, upper=100)], classes=["no", "yes"]
    ... ).fit({"age": ages}, np.where(np.abs(ages - 50) < 20, "yes", "no"))
    >>> model.predict({"age": [5.0, 50.0, 95.0]}).tolist()
    ['no', 'yes', 'no']
    """

    classes: Any

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount | None = None,
        columns: Sequence[Number | Category] | None = None,
        classes: Any = None,
        prediction: Any = None,
        rows: int | None = None,
        odds: Amount = 9,
        lines: Lines = "auto",
        monotone: Mapping[str, Monotone] | None = None,
        on_missing: OnMissingNumber = "cell",
        session: Session | None = None,
        random_state: int | None = None,
    ) -> None:
        self._store(locals())

    def _targets(self, column: Number | Category) -> Targets:
        found = declared_classes(self.classes, column)
        return Targets(kind="logistic" if len(found) == 2 else "softmax", classes=tuple(found.tolist()))

    def _target_of_arrays(self, taken: set[str]) -> Category:
        return Category(free_name(taken), declared_classes(self.classes).tolist(), other=None)

    def _keep(self, targets: Targets) -> None:
        self.classes_ = np.array(targets.classes)


def joined_table(encoding: TableEncoding, rows: Any, y: Any, target: Number | Category) -> Table:
    """Return rows and targets of arrays as one table; no cell is looked at."""
    if isinstance(rows, Table):
        raise SchemaError("fit(X, y) takes arrays and frames; fit_table(table, target=...) takes a table")
    if y is None:
        raise SchemaError("fit requires y to be passed, but the target y is None; give one target per row")
    names = [column.name for column in encoding.columns]
    if has_names(rows):
        named = rows if isinstance(rows, Mapping) or library_of(rows) == "pandas" else names_of(rows) or names
        known = [name for name in named if isinstance(name, str)]
        missing = [name for name in names if name not in known]
        if missing:
            raise SchemaError(f"X has no column {missing[0]!r}; {nearest(missing[0], known)}")
        data = {name: rows[name] for name in names}
    else:
        data = encoding.by_name(rows)
    y = target_column_of(y)
    if is_arrow_column(y):  # by its declared type, as those of other libraries
        return Table({**data, target.name: y}, schema=[*encoding.columns, target])
    labels = y if hasattr(y, "shape") and hasattr(y, "dtype") else targets_of(y)  # no cell decides how another is read
    if len(labels.shape) == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if len(labels.shape) != 1:
        raise SchemaError(f"y must be one column, got {len(labels.shape)} dimensions; fit one model for each target")
    return Table({**data, target.name: labels}, schema=[*encoding.columns, target])


def free_name(taken: set[str]) -> str:
    """Return a name for the target that no column has."""
    name = "target"
    while name in taken:
        name += "_"
    return name

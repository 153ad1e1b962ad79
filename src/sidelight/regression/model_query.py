"""A linear model of a table as a query: priced without the data, released by any session, a candidate of a search.

An estimator fits and keeps the model; this is the same release as a value for plans and selections. The coefficients
are given for the columns as they are, not for the scaled features: that is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sidelight.errors import SchemaError
from sidelight.guarantees import exact
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.regression.losses import Floats
from sidelight.regression.rows import bounded_rows
from sidelight.release import Release
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared

if TYPE_CHECKING:  # scikit-learn takes a second to load
    from sidelight.regression.estimators.additive_models import AdditiveEstimator
    from sidelight.regression.estimators.additive_query import PreparedAdditive
    from sidelight.regression.estimators.fit_query import PreparedFit
    from sidelight.regression.estimators.forecast import Forecast
    from sidelight.regression.estimators.linear_estimator import LinearEstimator
    from sidelight.regression.estimators.table_encoding import TableEncoding


@dataclass(frozen=True, kw_only=True)
class ModelQuery:
    """Fit a model to columns of a table, as a query.

    Guarantee: that of the model (its `guarantee_` after `fit_table`): GDP within (epsilon, delta), or for objective
    perturbation ApproxDP(epsilon, delta) with two profiles.

    Accuracy: that of the model.

    The released value of a linear model has the coefficients in the order of the labels: for each output those of
    the columns (numbers in their own units, categories one per label) and the intercept. Values are clamped to their
    declared ranges before they are multiplied. With `on_violation="normalize"` rows are also brought to the full
    length, as for the fit: by `scores`, not by a product with the coefficients made by hand.

    Args:
        model: An estimator that is not fitted and has no session.
        target: The column to predict.
        features: The columns to predict from; all others if left out.

    >>> import sidelight as sl
    >>> schema = [sl.Number("age", lower=18, upper=90), sl.Category("renewed", ["no", "yes"], other=None)]
    >>> people = sl.Table({"age": [20, 80] * 4000, "renewed": ["no", "yes"] * 4000}, schema=schema)
    >>> query = ModelQuery(model=sl.LogisticRegression(epsilon=1, delta="1e-6"), target="renewed")
    >>> release = query.release(people)
    >>> release.labels, bool(release.value[0] > 0)
    (('age', 'intercept'), True)
    """

    model: LinearEstimator | AdditiveEstimator
    target: str
    features: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))
        if not hasattr(self.model, "_query_of_columns") and not hasattr(self.model, "_fit_of"):
            raise SchemaError(
                "ModelQuery wants a linear or additive model of sidelight, such as sl.LogisticRegression(...), got "
                f"{type(self.model).__name__}; it scales numbers and encodes categories by the schema, so that no "
                "pipeline is needed"
            )
        if getattr(self.model, "session", None) is not None:
            raise SchemaError("the model of a query has no session of its own; the query is released by one")

    def prepare(self, schema: Schema) -> PreparedModel | PreparedAdditive:
        """Plan and price the fit. Reads no row."""
        if hasattr(self.model, "_fit_of"):
            return self.model._fit_of(schema, target=self.target, features=self.features).prepare(schema)
        goal, encoding, query = self.model._query_of_columns(schema, target=self.target, features=self.features)
        classes = () if goal.classes is None else tuple(goal.classes.tolist())
        fit, names = query.prepare(schema), (*encoding.names, "intercept")
        return PreparedModel(
            claims=fit.claims,
            request={**fit.request, "model": type(self.model).__name__},
            labels=names if len(classes) <= 2 else tuple(f"{each}: {name}" for each in classes for name in names),
            prediction=fit.prediction,
            fit=fit,
            encoding=encoding,
            middle=goal.middle,
        )

    def declare(self) -> Number:
        """Refuse a bare array: a model needs named columns."""
        raise SchemaError("a model of columns wants sl.Table(data, schema=[...]); estimators fit arrays by fit(X, y)")

    def release(self, table: Table) -> Release:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, table)

    def forecast(self, schema: Schema, *, rows: int | None = None) -> Forecast:
        """Return how good the model is likely to be on new rows, before it is fitted. Reads no row, costs nothing.

        Args:
            schema: The declarations of the table.
            rows: About how many rows there will be, a public number; default `rows` of the model.
        """
        return self.model.forecast(schema, target=self.target, features=self.features, rows=rows)

    def scores(self, value: Any, columns: Mapping[str, Any], schema: Schema) -> Floats:
        """Return the model's outputs for other rows, as columns: for public scores. Post-processing, free.

        A classifier of two classes says the second of them (sorted) where its output is above 0, of several the one
        with the largest.

        Args:
            value: The value of a release of this query.
            columns: The other rows: arrays by the names of the features.
            schema: The declarations of the table.
        """
        from sidelight.regression.estimators.table_encoding import encoding_for

        if hasattr(self.model, "_fit_of"):
            declared = self.model._fit_of(schema, target=self.target, features=self.features).examples.columns
            rows = Table({c.name: columns[c.name] for c in declared}, schema=list(declared))
            return self.model._outputs(value, declared, rows, keep_missing=self.model.on_missing == "cell")
        encoding = encoding_for(schema, target=self.target, features=self.features)
        rows = encoding.matrix(Table({c.name: columns[c.name] for c in encoding.columns}, schema=encoding.columns))
        if self.model.on_violation == "normalize":  # as the fit does, and `predict`
            _, _, fit = self.model._query_of_columns(schema, target=self.target, features=self.features)
            length = exact(fit.prepare(schema).request["data_norm"], name="data_norm")
            rows, _, _ = bounded_rows(rows, data_norm=length, on_violation="normalize")
        weights, constants = encoding.units.scaled(np.asarray(value, np.float64))
        found = np.asarray(rows @ weights.T + constants)
        return np.asarray(found[:, 0] if found.shape[1] == 1 else found)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedModel(SurePrepared):
    """A planned model of a table; everything but `run` is public."""

    fit: PreparedFit
    encoding: TableEncoding
    middle: float

    @property
    def is_additive(self) -> bool:
        """Whether the fit does."""
        return self.fit.is_additive

    @property
    def instead(self) -> str:
        """What else would."""
        return self.fit.instead

    def check_rows(self, table: Table) -> None:
        """Refuse public rows of a prediction that are rows of the table."""
        self.fit.check_rows(table)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the rows, fit, and give the coefficients in the columns' own units."""
        answer = self.fit.run(table, source)
        weights, constants = answer.value["coefficients"], answer.value["intercept"] + self.middle
        return replace(answer, value=self.encoding.units.own(weights, constants))

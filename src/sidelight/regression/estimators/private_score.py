"""How good a classifier is on private rows: two noisy counts, right and wrong."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.mapped_vector import affine
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, Neighbours, Unit, decimal_text, positive, unit_to_text
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.additive import LaplaceNoise
from sidelight.noise import Source
from sidelight.records import Category, Schema, Table
from sidelight.regression.estimators.examples import Examples, examples
from sidelight.regression.estimators.fit_query import entropy_for, normalised_to, release_from
from sidelight.regression.estimators.goal import label_kinds
from sidelight.regression.estimators.table_encoding import TableExamples, labels_of, target_column
from sidelight.regression.losses.loss import positions_of
from sidelight.regression.rows import bounded_rows, is_sparse
from sidelight.release import Release
from sidelight.session import Answer, Session
from sidelight.session.paid_estimator import check_rows_of_unit
from sidelight.session.query import SurePrepared


class PrivateScoreMixin:
    """`dp_score` for a classifier with a linear predictor."""

    def dp_score(
        self,
        X: Any,  # noqa: N803  # as scikit-learn names it
        y: Any = None,
        *,
        epsilon: Amount,
        target: str | None = None,
        session: Session | None = None,
        key: str | None = None,
    ) -> Release:
        """Release the accuracy on private rows. (`score` is for public ones.)

        Guarantee: PureDP(epsilon) for one row added or removed, exact on the machine: a row changes one of the counts
        "right" and "wrong" by one, and both get discrete Laplace noise. Rows that were used for the fit compose with
        it; use other rows, or pass the session that paid for the fit.

        Accuracy: each count is off by about 1/epsilon. `value["score"]` is right / (right + wrong), within 0 and 1.

        Args:
            X: Rows, or a table (of a model that was fitted to one). Rows that cannot be used take no part.
            y: Their labels; not with a table.
            epsilon: The price.
            target: The column of the labels, with a table.
            session: The budget to charge; default a budget of exactly this score.
            key: As in `fit`.
        """
        check_is_fitted(self)
        model: Any = self
        positive(epsilon, name="epsilon")
        if isinstance(X, Table):
            if not hasattr(self, "encoding_") or target is None or y is not None:
                raise SchemaError("a table wants target=... and no y, and a model that was fitted with fit_table")
            column = target_column(X.schema, target)
            if not isinstance(column, Category):
                raise SchemaError(f"the target {target!r} must be a category")
            found: Examples | TableExamples = TableExamples(self.encoding_, column, labels_of(column, model.classes_))
        elif hasattr(self, "encoding_"):
            names = ", ".join(column.name for column in self.encoding_.columns)
            raise SchemaError(
                f"this model was fitted to the columns {names} of a table, so its score wants a table too; write "
                "dp_score(sl.Table(X, schema=[...]), target=...) with the column of the labels in it"
            )
        else:
            found = examples(X, y, target_kinds=label_kinds(model.classes_))
            if found.features != model.n_features_in_:
                raise SchemaError(f"the model has {model.n_features_in_} features, X has {found.features}")
        query = ScoreQuery(model=model, examples=found, epsilon=epsilon)
        table = X if isinstance(X, Table) else None
        released = release_from(query, session, table=table, entropy=entropy_for(model.random_state), key=key)
        assert isinstance(released, Release)
        return released


@dataclass(frozen=True, kw_only=True)
class ScoreQuery:
    """The accuracy of a released model on examples that are not yet looked at."""

    model: Any
    examples: Examples | TableExamples
    epsilon: Amount

    def prepare(self, schema: Schema) -> PreparedScore:
        """Price the score for the schema's protected unit. Reads no row."""
        unit = schema.unit
        if not isinstance(self.examples, TableExamples):
            check_rows_of_unit(schema)
        rows = rows_of_unit(unit)
        if rows != 1:
            raise RangeError(f"a score counts one row per person, and a person may have {rows}; bound persons to one")
        return PreparedScore(
            claims=LaplaceNoise(_bounded([0, 0], unit), epsilon=self.epsilon).claims,
            request={
                "kind": "model_score",
                "epsilon": decimal_text(positive(self.epsilon, name="epsilon")),
                "model": type(self.model).__name__,
                "model_sha256": self._model_digest(),
                **self.examples.request,
                "features": str(self.examples.features),
                "unit": unit_to_text(unit),
            },
            query=self,
            unit=unit,
        )

    def _model_digest(self) -> str:
        """Return the SHA-256 of all that decides which class the model gives a row."""
        model = self.model
        settings = (model.classes_.tolist(), *(model.release_.query[name] for name in ("data_norm", "on_violation")))
        digest = hashlib.sha256(repr(settings).encode())
        for part in (model.coef_, model.intercept_):
            digest.update(np.ascontiguousarray(part, np.float64).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedScore(SurePrepared):
    """A priced score; everything but `run` is public."""

    query: ScoreQuery
    unit: Unit

    @property
    def brings_private_data(self) -> bool:
        """Whether the examples are arrays, and not rows of the session's table."""
        return not isinstance(self.query.examples, TableExamples)

    def run(self, table: Table, source: Source) -> Answer:
        """Count, once, and add the noise."""
        counts = np.zeros(2, np.int64)
        if isinstance(self.query.examples, TableExamples):
            for rows, labels in self.query.examples.batches(table):
                counts += self._count(rows, labels)
        else:
            counts += self._count(*self.query.examples.read())
        noisy = LaplaceNoise(_bounded(counts.tolist(), self.unit), epsilon=self.query.epsilon).release(source)
        right, wrong = (int(count) for count in np.asarray(noisy))
        right, wrong = max(right, 0), max(wrong, 0)  # no count is less than 0
        both = right + wrong
        value = {"score": right / both if both else 0.5, "right": float(right), "wrong": float(wrong)}
        return Answer(value=value)

    def _count(self, rows: Any, labels: Any) -> np.ndarray:
        """Count right and wrong rows; each row by itself, and none makes it fail."""
        model = self.query.model
        scores, usable = linear_scores(model, rows)
        truth, known = positions_of(labels, tuple(model.classes_.tolist()))
        chosen = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)
        right = (chosen == truth)[usable & known]
        return np.array([right.sum(), len(right) - right.sum()])


def _bounded(counts: list[int], unit: Unit) -> Bounded:
    return Bounded(np.array(counts), sensitivity=Fraction(1), norm="l1", neighbours=Neighbours.ADD_REMOVE, unit=unit)


def linear_scores(model: Any, rows: Any) -> tuple[Any, Any]:
    """Return the predictors of rows as `fit` takes them, and which rows can be used.

    Column by column: a matrix product may round a row's last bits differently when another row is added, and a last bit
    decides between classes that tie, so that one row could move the counts by more than one.
    """
    # the norm bound matters for "normalize" only; otherwise rows are taken as they are, as in `predict`
    norm = normalised_to(model.release_)
    bounded, _, finite = bounded_rows(
        rows,
        data_norm=Fraction(10) ** 100 if norm is None else norm,  # so that no product overflows
        on_violation="clip" if norm is None else "normalize",
    )
    weights = np.asarray(model.coef_, np.float64)
    if is_sparse(bounded):  # SciPy goes through the stored entries of each row by themselves
        predictors = bounded @ weights.T
    else:
        predictors = affine(list(bounded.T), weights, np.zeros(weights.shape[1])).T
    return np.asarray(predictors + model.intercept_), finite

"""A fit as a query: priced from public numbers, charged, and only then shown its rows.

The rows of a model are a matrix that the user derived from the table (scaled, encoded, perhaps sparse), which the query
brings along, or columns of the session's own table. They are read in `run`, after the charge.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np

from sidelight.errors import NotPrivateWarning, RangeError, SidelightWarning
from sidelight.guarantees import Unit, exact
from sidelight.noise import Entropy, OSEntropy, Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.records import Number, Schema, Table
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.plan import DescentPlan, plan_descent
from sidelight.regression.descent.rules import most_mapped
from sidelight.regression.estimators.examples import Examples
from sidelight.regression.estimators.fitted_privacy import descent_error, objective_error
from sidelight.regression.estimators.goal import Goal
from sidelight.regression.estimators.table_encoding import TableExamples, refuse_rows_of_table
from sidelight.regression.fit_core import private_fit
from sidelight.regression.model_predictions import Predictions
from sidelight.regression.plan import LinearPlan, plan_linear
from sidelight.regression.predicted_objective import PredictedPlan, plan_with_predictions
from sidelight.release import Outcome, Release
from sidelight.session import Answer, Session
from sidelight.session.accounts import OneOffAccount
from sidelight.session.paid_estimator import check_rows_of_unit
from sidelight.session.pipeline import release_through
from sidelight.session.query import Query, SurePrepared

#: Examples that are not yet looked at.
Records = Examples | TableExamples


@dataclass(frozen=True, kw_only=True)
class FitQuery:
    """One private linear model of the given examples, which may have predictions.

    Args:
        goal: What is learned, and by which solver.
        examples: What is fitted, not yet looked at.
        settings: The other arguments of the solver's plan.
        predictions: What is known beforehand.
    """

    goal: Goal
    examples: Records
    settings: Mapping[str, Any]
    predictions: Predictions

    def prepare(self, schema: Schema) -> PreparedFit:
        """Plan and price everything that is released, for the schema's protected unit. Reads no private row."""
        if not isinstance(self.examples, TableExamples):
            check_rows_of_unit(schema)
        plan = self.plan(schema.unit)
        for text in (*plan.cautions(), *self._cautions(plan)):
            warnings.warn(text, SidelightWarning, stacklevel=7)
        return PreparedFit(
            claims=plan.claims,
            request=plan.request() | self.predictions.request | self.examples.request,
            prediction=self.predictions.described,
            plan=plan,
            examples=self.examples,
            predictions=self.predictions,
        )

    def _cautions(self, plan: DescentPlan | LinearPlan | PredictedPlan) -> tuple[str, ...]:
        """Return a warning where the rows' sparse form alone decides that a descent has no map."""
        features = self.examples.features
        if not self.examples.sparse or features > most_mapped(sparse=False) or not isinstance(plan, DescentPlan):
            return ()
        if plan.geometry != "none" or self.settings["geometry"] != "auto":
            return ()
        return (
            f"X is sparse with {features} columns, so that the descent takes its steps without a map of the columns, "
            f"and may learn much less than from dense rows; up to {most_mapped(sparse=True)} columns it has a map. "
            "Pass X.toarray(), or solver=sl.DescentSettings(geometry='private'), which makes rows dense as needed; "
            "geometry='none' says that this is meant",
        )

    def plan(self, unit: Unit) -> DescentPlan | LinearPlan | PredictedPlan:
        """Return the plan of the solver."""
        goal, known = self.goal, self.predictions
        more = {"features": self.examples.features, "unit": unit, **self.settings}
        if goal.targets is not None:
            rows = known.rows
            return plan_descent(
                targets=goal.targets,
                sparse=self.examples.sparse,
                public=None if rows is None else PublicMoments.of(rows.features),
                public_candidate=next((i for i, each in enumerate(known.candidates) if each is rows), None),
                candidates=known.candidates,
                **more,
            )
        assert goal.loss is not None
        if known.described is None:
            return plan_linear(loss=goal.loss, **more)
        if not known.candidates:
            raise RangeError(
                "public rows without targets tell objective perturbation nothing; give them with their targets, or use "
                "solver='descent', which learns from them how features vary"
            )
        return plan_with_predictions(known.candidates, half=goal.half, middle=goal.middle, loss=goal.loss, **more)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedFit(SurePrepared):
    """A planned fit of either solver; everything but `run` is public."""

    plan: DescentPlan | LinearPlan | PredictedPlan
    examples: Records
    predictions: Predictions

    @property
    def _descends(self) -> bool:
        return isinstance(self.plan, DescentPlan)

    @property
    def brings_private_data(self) -> bool:
        """Whether the examples are arrays, and not rows of the session's table."""
        return not isinstance(self.examples, TableExamples)

    @property
    def is_additive(self) -> bool:
        """Whether each pass over the rows of a table is a sum: a descent's is, objective perturbation searches them."""
        return self._descends and isinstance(self.examples, TableExamples)

    @property
    def instead(self) -> str:
        """The rows of a table, for a descent that was asked for arrays; else the solver whose passes are sums."""
        if self._descends:
            return "fit_table adds up the rows of a table"
        return "solver='descent' of LinearRegression and LogisticRegression adds rows up"

    def check_rows(self, table: Table) -> None:
        """Refuse public rows that are rows of the table."""
        if self.predictions.public and isinstance(self.examples, TableExamples):
            refuse_rows_of_table(self.predictions.public, self.examples, table)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples and fit. Released with the model: the choice, -1 for none, and the number of rows."""
        plan = self.plan
        if isinstance(plan, DescentPlan):
            found = descend(plan, self.examples.for_sums(table, plan.policy), source=source)
            return Answer(value=found.value(), error=descent_error(plan, found))
        bounded = self.examples.bounded(table, plan.policy)
        if isinstance(plan, PredictedPlan):
            fit, chosen, counted = plan.run(bounded, source=source)
            more = {"chosen": np.array(-1 if chosen is None else chosen), "rows": np.array(counted)}
            return Answer(value=fit.model() | more, error=objective_error(plan.fit))
        return Answer(value=private_fit(plan, bounded, source=source).model(), error=objective_error(plan))


class WatchedQuery:
    """A query that remembers what it prepared: the release pipeline returns only what it releases."""

    def __init__(self, query: Any, *, kind_name: str) -> None:
        self._query = query
        self.kind_name = kind_name
        self.prepared: Any = None

    def prepare(self, schema: Schema) -> Any:
        """Prepare the query for the rows' own schema, and remember it."""
        self.prepared = self._query.prepare(schema)
        return self.prepared


def release_fit(
    query: Any, model: Any, *, table: Table | None, key: str | None, kind_name: str = "the fit of a linear model"
) -> tuple[Release, Any]:
    """Charge the model's session, or a budget of exactly this fit, and release it; return its plan too."""
    entropy, watched = entropy_for(model.random_state, stacklevel=5), WatchedQuery(query, kind_name=kind_name)
    released = release_from(watched, model.session, table=table, entropy=entropy, key=key)
    assert isinstance(released, Release)  # a fit runs no private test that could refuse
    return released, watched.prepared.plan


def normalised_to(release: Release) -> Fraction | None:
    """Return the length that rows of a fitted model have, None where they stay as they are.

    As it was fitted: parameters of an estimator may be set to others afterwards.
    """
    asked = release.query
    return exact(asked["data_norm"], name="data_norm") if asked["on_violation"] == "normalize" else None


def release_from(
    query: Query, session: Session | None, *, table: Table | None, entropy: Entropy, key: str | None
) -> Outcome:
    """Charge the session, or a budget of exactly this query, and release."""
    if session is not None:
        if table is not None and session.table is not table:
            raise RangeError("the session protects another table; pass session.table, or a session of this table")
        return session.release(query, key=key)
    if key is not None:
        raise RangeError("a key names an entry of a ledger, and there is none; pass a session with a ledger")
    return release_through(query, _arrays() if table is None else table, OneOffAccount(), entropy=entropy)


@cache
def _arrays() -> Table:
    """Return a table without rows: arrays by themselves declare nothing but that the protected unit is a row."""
    return Table({"row": np.empty(0)}, schema=[Number("row")], name="arrays")


class SeededBytes:
    """Bytes that follow from a number. The stream of `sidelight.testing` is another; neither is ever a secret."""

    def __init__(self, seed: int) -> None:
        self._seed, self._next = str(seed).encode(), 0

    @property
    def branding(self) -> str:
        """Return the brand of bytes that are no secret."""
        return SEEDED_BRANDING

    def read(self, nbytes: int) -> bytes:
        """Return the next bytes of the stream."""
        block = b"sidelight/random_state\0" + self._seed + b"\0" + str(self._next).encode()
        self._next += 1
        return hashlib.shake_128(block, usedforsecurity=False).digest(nbytes)


def entropy_for(random_state: Any, *, stacklevel: int = 4) -> Entropy:
    """Return the operating system's entropy, or warn and give seeded bytes."""
    if random_state is None:
        return OSEntropy()
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise RangeError(
            f"random_state must be None or, in tests, a whole number, got {type(random_state).__name__}; private noise "
            "comes from the operating system"
        )
    warnings.warn(
        f"random_state={random_state}: anyone who knows this number can take the noise off the model, so it is NOT "
        "PRIVATE. For tests on public or generated data only; leave random_state out for real data",
        NotPrivateWarning,
        stacklevel=stacklevel,
    )
    return SeededBytes(int(random_state))

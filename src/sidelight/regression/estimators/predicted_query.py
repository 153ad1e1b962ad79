"""A fit with predictions, or by descent, as a query of the release door: one way through it for both solvers."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError, SidelightWarning
from sidelight.guarantees import Unit
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.regression.descent.away_rows import AwayExamples
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.plan import DescentPlan, plan_descent
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.fit_query import PlannedFit, Records
from sidelight.regression.estimators.table_examples import TableExamples, refuse_rows_of_table
from sidelight.regression.losses import Loss
from sidelight.regression.model_error import descent_error, objective_error
from sidelight.regression.model_predictions import Predictions
from sidelight.regression.predicted_objective import PredictedPlan, plan_with_predictions
from sidelight.regression.rows import Rows
from sidelight.session import Answer


@dataclass(frozen=True, kw_only=True)
class PredictedQuery(ABC):
    """One private linear model of the given examples, which may have predictions.

    Args:
        examples: What is fitted, not yet looked at.
        settings: The other arguments of the solver's plan.
        predictions: What is known beforehand.
    """

    examples: Records
    settings: Mapping[str, Any]
    predictions: Predictions

    @abstractmethod
    def plan(self, unit: Unit) -> DescentPlan | PredictedPlan:
        """Plan and price it for a protected unit. Reads no private row."""

    def prepare(self, schema: Schema) -> PreparedPrediction:
        """Plan and price everything that is released, for the schema's protected unit. Reads no private row."""
        plan = self.plan(schema.unit)
        for text in plan.cautions():
            warnings.warn(text, SidelightWarning, stacklevel=7)
        return PreparedPrediction(
            claims=plan.claims,
            request=plan.request() | self.predictions.request,
            prediction=self.predictions.described,
            plans=(plan,),
            examples=self.examples,
            predictions=self.predictions,
        )


@dataclass(frozen=True, kw_only=True)
class DescentQuery(PredictedQuery):
    """A model by descent; `settings` are the other arguments of `plan_descent`."""

    targets: Targets

    def plan(self, unit: Unit) -> DescentPlan:
        """Plan and price the Gram matrix, the count, the choice, the steps and the offset."""
        rows = self.predictions.rows
        return plan_descent(
            targets=self.targets,
            features=self.examples.features,
            sparse=self.examples.sparse,
            public=None if rows is None else PublicMoments.of(rows.features),
            public_candidate=next((i for i, each in enumerate(self.predictions.candidates) if each is rows), None),
            candidates=self.predictions.candidates,
            unit=unit,
            **self.settings,
        )


@dataclass(frozen=True, kw_only=True)
class PredictedObjectiveQuery(PredictedQuery):
    """A model by objective perturbation with predictions.

    `settings` are the other arguments of `plan_linear`, `odds` and `rows`; `half` and `middle` the units of a numeric
    target.
    """

    loss: Loss
    half: float
    middle: float

    def plan(self, unit: Unit) -> PredictedPlan:
        """Plan and price the count, the choice and the fit."""
        if not self.predictions.candidates:
            raise RangeError(
                "public rows without targets tell objective perturbation nothing; give them with their targets, or use "
                "solver='descent', which learns from them how features vary"
            )
        return plan_with_predictions(
            self.predictions.candidates,
            half=self.half,
            middle=self.middle,
            loss=self.loss,
            features=self.examples.features,
            unit=unit,
            **self.settings,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedPrediction(PlannedFit):
    """A planned fit that may have predictions; everything but `run` is public."""

    plans: tuple[DescentPlan | PredictedPlan, ...]
    predictions: Predictions

    @property
    def adds_up(self) -> bool:
        """Whether each pass over the rows of a table is a sum: a descent's is, objective perturbation searches them."""
        return isinstance(self.examples, TableExamples) and all(isinstance(each, DescentPlan) for each in self.plans)

    @property
    def instead(self) -> str:
        """The rows of a table, for a descent that was asked for arrays; else the solver whose passes are sums."""
        if all(isinstance(each, DescentPlan) for each in self.plans):
            return "fit_table adds up the rows of a table"
        return super().instead

    def check_rows(self, table: Table) -> None:
        """Refuse public rows that are rows of the table."""
        refuse_rows_of_table(self.predictions, self.examples, table)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples and fit. Released beside the model: the choice, -1 for none, and the number of rows."""
        (plan,) = self.plans
        if isinstance(plan, DescentPlan):
            found = descend(plan, self._rows(table, plan), source=source)
            return Answer(value=found.value(), error=descent_error(plan, found))
        fit, chosen, counted = plan.run(self.examples.bounded(table, plan.policy), source=source)
        told = {"chosen": np.array(-1 if chosen is None else chosen), "rows": np.array(counted)}
        return Answer(value=fit.model() | told, error=objective_error(plan.fit))

    def _rows(self, table: Table, plan: DescentPlan) -> Rows | AwayExamples:
        if isinstance(self.examples, TableExamples):
            return self.examples.where_they_are(table, plan.policy)
        return self.examples.bounded(table, plan.policy)

"""A fit by objective perturbation with predictions, as a query of the release door."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError, SidelightWarning
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.regression.estimators.fit_query import PlannedFit, Records
from sidelight.regression.estimators.table_examples import refuse_rows_of_table
from sidelight.regression.losses import Loss
from sidelight.regression.model_predictions import Predictions
from sidelight.regression.predicted_objective import PredictedPlan, plan_with_predictions
from sidelight.session import Answer


@dataclass(frozen=True, kw_only=True)
class PredictedQuery:
    """One private linear model of the given examples with predictions.

    `settings` are the other arguments of `plan_linear`, `odds` and `rows`; `half` and `middle` the units of a numeric
    target.
    """

    loss: Loss
    examples: Records
    settings: Mapping[str, Any]
    predictions: Predictions
    half: float
    middle: float

    def prepare(self, schema: Schema) -> PreparedPrediction:
        """Plan and price the choice and the fit for the schema's protected unit. Reads no private row."""
        if not self.predictions.candidates:
            raise RangeError(
                "public rows without targets tell objective perturbation nothing; give them with their targets, or use "
                "solver='descent', which learns from them how features vary"
            )
        plan = plan_with_predictions(
            self.predictions.candidates,
            half=self.half,
            middle=self.middle,
            loss=self.loss,
            features=self.examples.features,
            unit=schema.unit,
            **self.settings,
        )
        for text in plan.fit.cautions():
            warnings.warn(text, SidelightWarning, stacklevel=7)
        return PreparedPrediction(
            claims=plan.claims,
            request=plan.request() | self.predictions.request,
            prediction=self.predictions.described,
            plans=(plan,),
            examples=self.examples,
            predictions=self.predictions,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedPrediction(PlannedFit):
    """A planned fit with predictions; everything but `run` is public."""

    plans: tuple[PredictedPlan, ...]
    predictions: Predictions

    def check_rows(self, table: Table) -> None:
        """Refuse public rows that are rows of the table."""
        refuse_rows_of_table(self.predictions, self.examples, table)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples, choose and fit. Released beside the model: the choice, -1 for none, and the count."""
        (plan,) = self.plans
        fit, chosen, counted = plan.run(self.examples.bounded(table, plan.fit.policy), source=source)
        told = {"chosen": np.array(-1 if chosen is None else chosen), "rows": np.array(counted)}
        return Answer(value=fit.model() | told)

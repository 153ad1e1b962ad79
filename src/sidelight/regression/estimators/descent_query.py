"""A fit by descent as a query of the release door, and what is public about it afterwards.

`model.privacy_` and `model.prediction_` are read from the plan and from what was released, never from rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sidelight.errors import SidelightWarning
from sidelight.guarantees import Claims, Neighbours, short_text
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.plan import DescentPlan, plan_descent
from sidelight.regression.descent.rules import Shares
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.fit_query import PlannedFit, Records
from sidelight.regression.estimators.table_examples import refuse_rows_of_table
from sidelight.regression.model_predictions import Predictions
from sidelight.session import Answer


@dataclass(frozen=True, kw_only=True)
class DescentQuery:
    """One descent on the given examples. `settings` are the other arguments of `plan_descent`."""

    targets: Targets
    examples: Records
    settings: Mapping[str, Any]
    predictions: Predictions

    def prepare(self, schema: Schema) -> PreparedDescent:
        """Plan and price the fit for the schema's protected unit. Reads no private row."""
        rows = self.predictions.rows
        plan = plan_descent(
            targets=self.targets,
            features=self.examples.features,
            sparse=self.examples.sparse,
            public=None if rows is None else PublicMoments.of(rows.features),
            candidates=self.predictions.candidates,
            unit=schema.unit,
            **self.settings,
        )
        for text in plan.cautions():
            warnings.warn(text, SidelightWarning, stacklevel=7)
        return PreparedDescent(
            claims=plan.claims,
            request=plan.request() | self.predictions.request,
            prediction=self.predictions.described,
            plans=(plan,),
            examples=self.examples,
            predictions=self.predictions,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedDescent(PlannedFit):
    """A planned descent; everything but `run` is public."""

    plans: tuple[DescentPlan, ...]
    predictions: Predictions

    def check_rows(self, table: Table) -> None:
        """Refuse public rows that are rows of the table."""
        refuse_rows_of_table(self.predictions, self.examples, table)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples and fit."""
        (plan,) = self.plans
        return Answer(value=descend(plan, self.examples.bounded(table, plan.policy), source=source).value())


@dataclass(frozen=True, kw_only=True)
class DescentPrivacy:
    """The promise of one descent, and what was released on the way. Nothing here depends on the data but by releases.

    Args:
        epsilon: The promise; with `delta` for `neighbours`.
        delta: The promise.
        mu: The Gaussian differential privacy that the fit has, exact on the machine.
        neighbours: What two data sets differ by.
        unit: What is added or removed.
        shares: How mu² was divided between the Gram matrix, the count, the choice and the steps.
        loss: The loss and its parameters.
        geometry: "private", "public" or "none".
        passes: How many steps were taken.
        clip: Where a row's gradient was clipped.
        rows: The number of rows that the steps were made for: declared, or released, and then a little too large.
        noise_to_signal: The noise of one step beside what it moves; above 1 the noise outweighs the rows.
        chosen: The place of the prediction that the descent started from, or None.
        believed: How far the model was drawn (κ), None where it was not.
        fits: 1.
        predictions: How many predictions were given.
    """

    epsilon: Fraction
    delta: Fraction
    mu: Fraction
    neighbours: Neighbours
    unit: Any
    shares: Shares
    loss: dict[str, str]
    geometry: str
    passes: int
    clip: float
    rows: float
    noise_to_signal: float
    chosen: int | None
    believed: float | None
    fits: int = 1
    predictions: int = 0
    claims: Claims = field(repr=False)

    @classmethod
    def of(cls, plan: DescentPlan, claims: Claims, value: Mapping[str, Any]) -> DescentPrivacy:
        """Read them off a plan and what it released."""
        chosen, believed = int(value["chosen"]), float(value["believed"])
        return cls(
            epsilon=plan.epsilon,
            delta=plan.delta,
            mu=plan.mu,
            neighbours=Neighbours.ADD_REMOVE,
            unit=plan.unit,
            shares=plan.shares,
            loss=plan.targets.to_json(),
            geometry=plan.geometry,
            passes=int(value["passes"]),
            clip=float(value["clip"]),
            rows=float(value["rows"]),
            noise_to_signal=float(value["noise_to_signal"]),
            chosen=None if chosen < 0 else chosen,
            believed=None if believed < 0 else believed,
            predictions=len(plan.candidates),
            claims=claims,
        )

    def pld(self, *, step: float = 1e-4) -> Any:
        """Return dp_accounting's privacy loss distribution of the fit, pessimistic, to compose with others."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(1 / float(self.mu), value_discretization_interval=step)

    def __str__(self) -> str:
        return (
            f"({short_text(self.epsilon)}, {short_text(self.delta)})-DP, {self.neighbours} {self.unit}; "
            f"{self.loss['loss']} loss, descent of {self.passes} steps, mu {short_text(self.mu)}"
        )


@dataclass(frozen=True, kw_only=True)
class UsedPrediction:
    """What a fit made of its predictions: released, so it may be told.

    Args:
        given: How many predictions there were.
        chosen: The place of the one that was used, or None.
        believed: The factor κ by which its own doubts were multiplied; None where nothing was drawn to it. About 1: it
            is as good as it says; much above: it is not.
        rows: The number of rows that the fit counted with, released or declared.
        description: What was given and where it came from.
    """

    given: int
    chosen: int | None
    believed: float | None
    rows: float
    description: str

    def __str__(self) -> str:
        if self.chosen is None:
            return f"none of {self.given} prediction(s) was used: the rows disagree, or a draw did"
        if self.believed is None:
            return f"prediction {self.chosen} of {self.given} was the start; the model was not drawn towards it"
        return f"prediction {self.chosen} of {self.given} was used; its doubts were counted ×{self.believed:g}"

    @classmethod
    def of(cls, privacy: Any, described: Mapping[str, Any] | None) -> UsedPrediction:
        """Read it off a fit."""
        return cls(
            given=privacy.predictions,
            chosen=privacy.chosen,
            believed=privacy.believed if privacy.chosen is not None else None,
            rows=privacy.rows,
            description="" if described is None else str(described["description"]),
        )

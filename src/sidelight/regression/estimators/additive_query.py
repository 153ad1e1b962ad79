"""The fit of an additive model as a query: priced from public numbers, charged, and only then shown its rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sidelight.errors import SidelightWarning
from sidelight.guarantees import Claims, short_text
from sidelight.noise import Source
from sidelight.readable import number_text
from sidelight.records import Category, Date, Number, Schema, Table
from sidelight.regression.additive.fine_codes import AdditiveExamples
from sidelight.regression.additive.fit import fit_additive, fitted_value
from sidelight.regression.additive.plan import AdditivePlan, AdditiveShares, plan_additive
from sidelight.regression.additive.predictions import AdditivePredictions
from sidelight.regression.descent.targets import Targets
from sidelight.regression.estimators.fitted_privacy import StepwisePrivacy
from sidelight.regression.estimators.table_encoding import refuse_rows_of_table
from sidelight.session import Answer
from sidelight.session.paid_estimator import check_rows_of_unit
from sidelight.session.query import SurePrepared


@dataclass(frozen=True, kw_only=True)
class AdditiveFit:
    """One private additive model of the given examples.

    Args:
        examples: What is fitted, not yet looked at.
        targets: What is learned.
        settings: The other arguments of `plan_additive`.
        predictions: What is known beforehand.
        monotone: Columns whose curves only rise (1) or fall (-1).
    """

    examples: AdditiveExamples
    targets: Targets
    settings: Mapping[str, Any]
    predictions: AdditivePredictions
    monotone: Mapping[str, int]

    def prepare(self, schema: Schema) -> PreparedAdditive:
        """Plan and price everything that is released, for the schema's protected unit. Reads no private row."""
        if self.examples.own is not None:
            check_rows_of_unit(schema)
        plan = plan_additive(
            columns=self.examples.columns,
            targets=self.targets,
            line_features=len(self.examples.line_encoder.names),
            candidates=self.predictions.candidates,
            unit=schema.unit,
            **self.settings,
        )
        for text in plan.cautions():
            warnings.warn(text, SidelightWarning, stacklevel=7)
        described: dict[str, Any] = plan.request() | self.predictions.request
        described["columns"] = Schema(self.examples.columns).to_json()["columns"]
        described["inputs"] = [column.name for column in self.examples.columns]
        described["column"] = self.examples.target.name
        described["on_missing"] = "cell" if self.examples.keep_missing else "drop"
        read = (*self.examples.columns, self.examples.target)
        described["missing"] = {
            each.name: _missing_text(each, cell=self.examples.keep_missing and each is not self.examples.target)
            for each in read
        }
        if self.monotone:
            described["monotone"] = {
                name: "increasing" if way > 0 else "decreasing" for name, way in self.monotone.items()
            }
        return PreparedAdditive(
            claims=plan.claims,
            request=described,
            prediction=self.predictions.described,
            plan=plan,
            examples=self.examples,
            predictions=self.predictions,
            monotone=self.monotone,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedAdditive(SurePrepared):
    """A planned additive model; everything but `run` is public."""

    plan: AdditivePlan
    examples: AdditiveExamples
    predictions: AdditivePredictions
    monotone: Mapping[str, int]
    instead: ClassVar[str] = "fit_table adds up the rows of a table"  # the rows of a table

    @property
    def brings_private_data(self) -> bool:
        """Whether the examples are not rows of the session's table."""
        return self.examples.own is not None

    @property
    def is_additive(self) -> bool:
        """Each pass over the rows of a table is a sum."""
        return self.examples.own is None

    def check_rows(self, table: Table) -> None:
        """Refuse public rows that are rows of the table."""
        if self.predictions.public:
            own: Any = self.examples.own
            refuse_rows_of_table(self.predictions.public, self.examples, table if own is None else own)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples and fit."""
        found = fit_additive(self.plan, self.examples, table, source=source)
        return Answer(value=fitted_value(self.plan, found, monotone=self.monotone))


@dataclass(frozen=True, kw_only=True)
class AdditivePrivacy(StepwisePrivacy):
    """The promise of one additive model, and what was released on the way.

    Args:
        shares: How mu² was divided between lines, counts, Gram matrix, choice and steps.
        believed: The mean over the columns of κ, by which a prediction's own doubts were multiplied.
        components: The dimension of the steps, the intercept included.
        curves: In words, how far the counts allowed curves.
    """

    shares: AdditiveShares
    components: int
    curves: str

    @classmethod
    def of(cls, plan: AdditivePlan, claims: Claims, value: Mapping[str, Any]) -> AdditivePrivacy:
        """Read them off a plan and its release."""
        coarse = int(value["coarse"])
        words = "cells of every column follow its noisy counts"
        if coarse:
            words = f"too few rows for curves of {coarse} column(s): six cells of even width, and the lines do most"
        if int(value["stayed"]):
            words += f"; {int(value['stayed'])} step(s) had nowhere to go and stayed"
        believed = -1.0 if int(value["chosen"]) < 0 else float(np.mean(value["kappa"]))
        read = cls._read(plan, claims, value, believed=believed)
        return cls(**read, components=int(value["components"]), curves=words)

    def __str__(self) -> str:
        return (
            f"({short_text(self.epsilon)}, {short_text(self.delta)})-DP, {self.neighbours} {self.unit}; GDP of "
            f"{float(self.mu):.4g}; {self.passes} steps in {self.components} dimensions; {self.curves}"
        )


def split_by(values: Any, sizes: Any) -> list[Any]:
    """Split what a release stores side by side."""
    return np.split(np.asarray(values), np.cumsum(np.asarray(sizes, int))[:-1])


def _missing_text(column: Number | Category, *, cell: bool) -> str:
    """Return what becomes of a row that misses a column; `cell`: whether missing numbers have a value of their own."""
    if isinstance(column, Category):
        code = column.missing_code
        return "left out" if code is None else f"counted as {column.labels[code]}"
    if column.fill is None:
        return "a value of its own" if cell else "left out"
    return f"counted as {column.calendar.text(column.fill) if isinstance(column, Date) else number_text(column.fill)}"

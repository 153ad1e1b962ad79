"""A fit as a query of the release door: priced from public numbers, charged, and only then shown its rows.

The rows of a model are a matrix that the user derived from the table (scaled, encoded, perhaps sparse), so the query
brings them along instead of reading columns of the session's table. It reads them in `run`, after the charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sidelight.guarantees import Claims
from sidelight.noise import OSEntropy, Source
from sidelight.records import Number, Schema, Table
from sidelight.regression.estimators.examples import Examples
from sidelight.regression.fit_core import fit_plan
from sidelight.regression.losses import Loss
from sidelight.regression.plan import LinearPlan, plan_linear
from sidelight.regression.rows import ArrayRows
from sidelight.release import Release
from sidelight.session import Answer, Session
from sidelight.session.accounts import OneOffAccount
from sidelight.session.door import release_through


@dataclass(frozen=True, kw_only=True)
class FitQuery:
    """One private linear model of the given examples. `settings` are the other arguments of `plan_linear`."""

    loss: Loss
    examples: Examples
    settings: Mapping[str, Any]

    def prepare(self, schema: Schema) -> PreparedFit:
        """Plan and price the fit for the schema's protected unit. Reads no row."""
        plan = plan_linear(loss=self.loss, features=self.examples.features, unit=schema.unit, **self.settings)
        return PreparedFit(plan=plan, examples=self.examples)


@dataclass(frozen=True, kw_only=True)
class PreparedFit:
    """A planned fit; everything but `run` is public."""

    plan: LinearPlan
    examples: Examples

    @property
    def claims(self) -> Claims:
        """The price."""
        return self.plan.claims

    @property
    def numerics(self) -> Literal["idealized"]:
        """The linear term is drawn as floats."""
        return self.plan.numerics

    @property
    def request(self) -> Mapping[str, Any]:
        """The public description for ledger and report."""
        return self.plan.request()

    @property
    def prediction(self) -> None:
        """No side information is used."""
        return

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples, once, and fit."""
        del table  # the session's; the examples were derived from it
        rows, targets = self.examples.read()
        model = fit_plan(self.plan, ArrayRows(rows, targets, policy=self.plan.policy), source=source)
        outputs = self.plan.loss.outputs
        constant = np.zeros(outputs) if model.intercept is None else np.reshape(model.intercept, outputs)
        weights = model.coefficients.reshape(self.plan.features, outputs)
        return Answer(value={"coefficients": weights.T.copy(), "intercept": constant})


def release_fit(query: FitQuery, session: Session | None) -> Release:
    """Charge the session, or a budget of exactly this fit, and release the model."""
    if session is not None:
        outcome = session.release(query)
    else:
        # Arrays by themselves declare nothing but that the protected unit is a row, and so does this table.
        arrays = Table({"row": np.empty(0)}, schema=[Number("row")], name="arrays")
        outcome = release_through(query, arrays, OneOffAccount(), entropy=OSEntropy())
    assert isinstance(outcome, Release)  # a fit runs no private test that could refuse
    return outcome

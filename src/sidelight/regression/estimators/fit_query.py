"""A fit as a query of the release door: priced from public numbers, charged, and only then shown its rows.

The rows of a model are a matrix that the user derived from the table (scaled, encoded, perhaps sparse), which the query
brings along, or columns of the door's own table. They are read in `run`, after the charge.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sidelight.errors import RangeError, SidelightWarning
from sidelight.noise import Entropy, Source
from sidelight.records import Number, Schema, Table
from sidelight.regression.fit_core import fit_plan
from sidelight.regression.losses import Loss
from sidelight.regression.one_vs_rest import plan_one_vs_rest, together
from sidelight.regression.plan import LinearPlan, plan_linear
from sidelight.regression.rows import RowPolicy, Rows
from sidelight.release import Outcome
from sidelight.session import Answer, Session
from sidelight.session.accounts import OneOffAccount
from sidelight.session.door import release_through
from sidelight.session.query import Query, SurePrepared


class Records(Protocol):
    """Examples that are not yet looked at: the number of their features is public."""

    @property
    def features(self) -> int:
        """The number of features."""
        ...

    def bounded(self, table: Table, policy: RowPolicy) -> Rows:
        """Open the data."""
        ...


@dataclass(frozen=True, kw_only=True)
class FitQuery:
    """One private linear model of the given examples. `settings` are the other arguments of `plan_linear`.

    `one_vs_rest` holds the classes where there is to be one model a class; `loss` is then not used.
    """

    loss: Loss
    examples: Records
    settings: Mapping[str, Any]
    one_vs_rest: tuple[Any, ...] | None = None

    def prepare(self, schema: Schema) -> PreparedFit:
        """Plan and price the fit for the schema's protected unit. Reads no row."""
        more = {"features": self.examples.features, "unit": schema.unit, **self.settings}
        if self.one_vs_rest is None:
            plans: tuple[LinearPlan, ...] = (plan_linear(loss=self.loss, **more),)
        else:
            plans = plan_one_vs_rest(classes=self.one_vs_rest, **more)
        for text in plans[0].cautions():
            warnings.warn(text, SidelightWarning, stacklevel=7)
        described = plans[0].request()
        if len(plans) > 1:
            described |= {"kind": "linear_models", "label": "each class", "fits": str(len(plans))}
        claims = plans[0].claims if len(plans) == 1 else together(plans)
        return PreparedFit(claims=claims, request=described, plans=plans, examples=self.examples)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedFit(SurePrepared):
    """A planned fit; everything but `run` is public."""

    plans: tuple[LinearPlan, ...]
    examples: Records

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples and fit."""
        weights, constants = [], []
        for plan in self.plans:
            model = fit_plan(plan, self.examples.bounded(table, plan.policy), source=source)
            outputs = plan.loss.outputs
            constants.append(np.zeros(outputs) if model.intercept is None else np.reshape(model.intercept, outputs))
            weights.append(model.coefficients.reshape(plan.features, outputs).T)
        return Answer(value={"coefficients": np.concatenate(weights), "intercept": np.concatenate(constants)})


class _Watched:
    """A query that remembers what it was prepared to: the door shows only what it releases."""

    def __init__(self, query: FitQuery) -> None:
        self._query = query
        self.kind_name = "the fit of a linear model"
        self.plans: tuple[LinearPlan, ...] = ()

    def prepare(self, schema: Schema) -> PreparedFit:
        prepared = self._query.prepare(schema)
        self.plans = prepared.plans
        return prepared


def release_fit(
    query: FitQuery, session: Session | None, *, table: Table | None, entropy: Entropy, key: str | None
) -> tuple[Outcome, tuple[LinearPlan, ...]]:
    """Charge the session, or a budget of exactly this fit, and release the model; give its plans too."""
    watched = _Watched(query)
    return release_from(watched, session, table=table, entropy=entropy, key=key), watched.plans


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
    if table is None:
        # Arrays by themselves declare nothing but that the protected unit is a row, and so does this table.
        table = Table({"row": np.empty(0)}, schema=[Number("row")], name="arrays")
    return release_through(query, table, OneOffAccount(), entropy=entropy)

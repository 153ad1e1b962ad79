"""A fit as a query: priced from public numbers, charged, and only then shown its rows.

The rows of a model are a matrix that the user derived from the table (scaled, encoded, perhaps sparse), which the query
brings along, or columns of the session's own table. They are read in `run`, after the charge. Several classes may have
one logistic model each: plans of the same noise, priced together by numerical composition.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from sidelight.accounting import batch, gaussian_noise_scale
from sidelight.accounting.loss_distributions import compose
from sidelight.errors import NotPrivateWarning, RangeError, SidelightWarning
from sidelight.guarantees import Amount, ApproxDP, Claims, Unit, positive, short_text
from sidelight.guarantees.amounts import grid_ceil
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.objective_perturbation import LossShape, calibrate_objective
from sidelight.noise import Entropy, OSEntropy, Source
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.records import Number, Schema, Table
from sidelight.regression.descent.distributed_rows import DistributedExamples
from sidelight.regression.descent.fit import descend
from sidelight.regression.descent.geometry import PublicMoments
from sidelight.regression.descent.plan import DescentPlan, plan_descent
from sidelight.regression.estimators.fitted_privacy import descent_error, objective_error
from sidelight.regression.estimators.goal import Goal
from sidelight.regression.estimators.table_encoding import TableExamples, refuse_rows_of_table
from sidelight.regression.fit_core import private_fit
from sidelight.regression.losses import OneVsRestLoss
from sidelight.regression.model_predictions import Predictions
from sidelight.regression.plan import LinearPlan, plan_linear
from sidelight.regression.predicted_objective import PredictedPlan, plan_with_predictions
from sidelight.regression.rows import BoundedRows, RowPolicy
from sidelight.release import Outcome
from sidelight.session import Answer, Session
from sidelight.session.accounts import OneOffAccount
from sidelight.session.external_rows import check_rows_of_unit
from sidelight.session.pipeline import release_through
from sidelight.session.query import Query, SurePrepared

#: A noise scale is taken when it is within this of the smallest one.
_CLOSE = 1e-3
_MOST_TRIES = 20


class Records(Protocol):
    """Examples that are not yet looked at: the number of their features is public."""

    @property
    def features(self) -> int:
        """The number of features."""
        ...

    @property
    def sparse(self) -> bool:
        """Whether the rows come as a sparse matrix; public."""
        ...

    def bounded(self, table: Table, policy: RowPolicy) -> BoundedRows:
        """Open the data."""
        ...

    def for_sums(self, table: Table, policy: RowPolicy) -> BoundedRows | DistributedExamples:
        """Open the data for sums alone, which distributed rows give, too."""
        ...


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
        columns: dict[str, Any] = {}
        if isinstance(self.examples, TableExamples):
            columns = self.examples.request
        else:
            check_rows_of_unit(schema)
        plans = self.plans(schema.unit)
        for text in plans[0].cautions():
            warnings.warn(text, SidelightWarning, stacklevel=7)
        described = plans[0].request() | self.predictions.request | columns
        if len(plans) > 1:
            described |= {"kind": "linear_models", "label": "each class", "fits": str(len(plans))}
        return PreparedFit(
            claims=plans[0].claims if len(plans) == 1 else together(plans),
            request=described,
            prediction=self.predictions.described,
            plans=plans,
            examples=self.examples,
            predictions=self.predictions,
        )

    def plans(self, unit: Unit) -> tuple[Any, ...]:
        """Return the plan of the solver; one per class for one-vs-rest."""
        goal, known = self.goal, self.predictions
        more = {"features": self.examples.features, "unit": unit, **self.settings}
        if goal.targets is not None:
            rows = known.rows
            plan = plan_descent(
                targets=goal.targets,
                sparse=self.examples.sparse,
                public=None if rows is None else PublicMoments.of(rows.features),
                public_candidate=next((i for i, each in enumerate(known.candidates) if each is rows), None),
                candidates=known.candidates,
                **more,
            )
            return (plan,)
        assert goal.loss is not None
        if known.described is None:
            if goal.one_vs_rest and goal.classes is not None:
                return plan_one_vs_rest(classes=tuple(goal.classes.tolist()), **more)
            return (plan_linear(loss=goal.loss, **more),)
        if not known.candidates:
            raise RangeError(
                "public rows without targets tell objective perturbation nothing; give them with their targets, or use "
                "solver='descent', which learns from them how features vary"
            )
        return (plan_with_predictions(known.candidates, half=goal.half, middle=goal.middle, loss=goal.loss, **more),)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedFit(SurePrepared):
    """A planned fit of either solver; everything but `run` is public."""

    plans: tuple[Any, ...]
    examples: Records
    predictions: Predictions

    @property
    def _descends(self) -> bool:
        return isinstance(self.plans[0], DescentPlan)

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
            refuse_rows_of_table(self.predictions, self.examples, table)

    def run(self, table: Table, source: Source) -> Answer:
        """Read the examples and fit. Released beside the model: the choice, -1 for none, and the number of rows."""
        first = self.plans[0]
        if isinstance(first, DescentPlan):
            found = descend(first, self.examples.for_sums(table, first.policy), source=source)
            return Answer(value=found.value(), error=descent_error(first, found))
        if isinstance(first, PredictedPlan):
            fit, chosen, counted = first.run(self.examples.bounded(table, first.policy), source=source)
            more = {"chosen": np.array(-1 if chosen is None else chosen), "rows": np.array(counted)}
            return Answer(value=fit.model() | more, error=objective_error(first.fit))
        rows = ((plan, self.examples.bounded(table, plan.policy)) for plan in self.plans)
        models = [private_fit(plan, bounded, source=source).model() for plan, bounded in rows]
        value = {part: np.concatenate([each[part] for each in models]) for part in models[0]}
        return Answer(value=value, error=objective_error(first, fits=len(self.plans)))


class WatchedQuery:
    """A query that remembers what it prepared: the release pipeline returns only what it releases."""

    def __init__(self, query: Any, *, kind_name: str = "the fit of a linear model") -> None:
        self._query = query
        self.kind_name = kind_name
        self.prepared: Any = None

    def prepare(self, schema: Schema) -> Any:
        """Prepare the query for the rows' own schema, and remember it."""
        self.prepared = self._query.prepare(schema)
        return self.prepared


def release_fit(
    query: FitQuery, session: Session | None, *, table: Table | None, entropy: Entropy, key: str | None
) -> tuple[Outcome, tuple[Any, ...]]:
    """Charge the session, or a budget of exactly this fit, and release the model; give its plans too."""
    watched = WatchedQuery(query)
    return release_from(watched, session, table=table, entropy=entropy, key=key), watched.prepared.plans


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


def plan_one_vs_rest(
    *, classes: Sequence[Any], epsilon: Amount, delta: Amount, regularisation: Amount | None = None, **rest: Any
) -> tuple[LinearPlan, ...]:
    """Plan one model per class so that all together are (ε, δ)-DP; the other arguments are those of `plan_linear`.

    A joint softmax is usually the better buy: at K = 10, ε = 1, δ = 1e-5 it takes σ = 6.48R at λ = 10R², and K models,
    in all of which every record takes part, take at least 11.80R, the Gaussian mechanism's noise for √K gradients.

    Guarantee: each plan is what it says by itself, and `together` prices them: adaptive composition of K fits, per
    direction (objective-perturbation proof page, section 2). λ is 10R²/ε where none is given, as for a softmax.
    """
    at, chance = positive(epsilon, name="epsilon"), positive(delta, name="delta")
    losses = [OneVsRestLoss(classes=tuple(classes), label=label) for label in classes]
    first = plan_linear(loss=losses[0], epsilon=at, delta=chance, regularisation=regularisation, **rest)
    shape = first.mechanism.shape
    lam = first.mechanism.regularisation
    if regularisation is None:
        lam = max(lam, grid_ceil(40 * shape.curvature / at))
    sigma = smallest_noise(shape, fits=len(losses), epsilon=at, delta=chance, regularisation=lam)
    fixed = rest | {"regularisation": lam, "noise_scale": sigma}
    return tuple(plan_linear(loss=loss, epsilon=at, delta=chance, **fixed) for loss in losses)


def together(plans: Sequence[LinearPlan]) -> Claims:
    """Price the plans as one release, and prove again that it is within their (ε, δ)."""
    claims = batch([plan.claims for plan in plans], delta=plans[0].delta)
    target = ApproxDP(plans[0].epsilon, plans[0].delta, **claims.context)
    if not claims.implies(target):
        raise RangeError(f"the {len(plans)} models together do not prove {target}; raise delta, or use a softmax")
    return claims


def smallest_noise(
    shape: LossShape, *, fits: int, epsilon: Fraction, delta: Fraction, regularisation: Fraction
) -> Fraction:
    """Find the noise of each of several fits at which their composition is (ε, δ)-DP, to a tenth of a percent."""
    root = round_up(Interval.of(fits).sqrt().upper)
    low = gaussian_noise_scale(epsilon, delta, sensitivity=shape.gradient * root)  # below it no composition holds
    # a coarser grid than the price is read from: it errs on the private side, and by the square of its step
    step = max(1e-4, float(epsilon) / 2000)
    sigma = low * Fraction(1 + _CLOSE)
    high: Fraction | None = None
    for _ in range(_MOST_TRIES):
        mechanism = calibrate_objective(
            shape, epsilon=epsilon, delta=delta, regularisation=regularisation, noise_scale=sigma
        )
        profile = mechanism.profile()
        items = [(profile.remove, profile.add)] * fits
        spent = compose(items, step=step).epsilon(delta)
        if spent is not None and spent <= epsilon:
            high = sigma
        else:
            low = sigma
        if high is not None and high / low <= 1 + _CLOSE:
            return high
        if high is not None:
            sigma = grid_ceil(Fraction(math.sqrt(float(low) * float(high))))
        else:  # epsilon falls about as fast as the noise grows
            excess = 2.0 if spent is None else min(2.0, float(spent / epsilon))
            sigma = grid_ceil(low * Fraction(excess * (1 + _CLOSE / 2)))
    if high is not None:
        return high
    raise RangeError(
        f"no noise was found for {fits} models at ({short_text(epsilon)}, {short_text(delta)}) and regularisation "
        f"{short_text(regularisation)}; give a larger regularisation, or use a softmax"
    )


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


def entropy_for(random_state: Any) -> Entropy:
    """Return the operating system's entropy, or warn and give seeded bytes."""
    if random_state is None:
        return OSEntropy()
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise RangeError(
            f"random_state must be None or, in tests, a whole number, got {type(random_state).__name__}; private noise "
            "comes from the operating system"
        )
    warnings.warn(
        f"random_state={random_state}: whoever knows this number can take the noise off the model, so it is NOT "
        "PRIVATE. For tests on public or generated data only; leave random_state out for real data",
        NotPrivateWarning,
        stacklevel=4,
    )
    return SeededBytes(int(random_state))

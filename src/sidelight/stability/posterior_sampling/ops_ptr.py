"""OPS-PTR: posterior samples for penalties picked by chance, the best of which, judged by public rows, is released."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, ApproxDP, Claims, Neighbours, decimal_text, exact, positive
from sidelight.mechanisms.meter import Meter
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import private_lower_bound, private_upper_bound
from sidelight.noise import Source, below
from sidelight.records import Number, Schema, Table
from sidelight.regression.least_squares_codes import LeastSquaresCodes, least_squares_codes
from sidelight.release import Outcome
from sidelight.session import Answer, release_once
from sidelight.session.query import Refusal
from sidelight.stability.budgets import row_budget
from sidelight.stability.engine import PreparedCertificate, propose_and_certify
from sidelight.stability.posterior_sampling.ridge import (
    Ridge,
    checked_rows,
    largest_precision,
    penalty_grid,
    posterior_answer,
    posterior_price,
    residual_move,
)
from sidelight.stability.posterior_sampling.selection_price import SelectionPrice, selection_price
from sidelight.tuning import PublicScore, Runs, best_of, geometric

#: Of one run's budget, what the bound of the coefficients' length takes.
_BOUND_SHARE = 0.2
#: Penalties are tried from here on, in orders over the strength that they need: below it runs always come out empty.
_ROOM = 1.2
#: Penalties that are tried, in strengths that are needed: those below 1 are there for data whose eigenvalue helps. (The
#: source tries 2.5 to 2.5^10, most of which always come out empty at ε = 0.1.)
_TRIED = penalty_grid(2.0**-4, 2.0**5, 19)
EMPTY = "no run of the search kept within the budget that was proposed"


@dataclass(frozen=True, kw_only=True)
class OPSPTR:
    """Release a linear regression: posterior samples for random penalties, tested one by one, the best by a public
    score.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, numerics "idealized": the
    smallest eigenvalue once, then a private selection among tested samples, each bounded in both directions (stability
    proof page, Theorem 11). Nothing of the number of runs, or of runs that lost, is released.

    Accuracy: between the two, worth its price where the score is good and no penalty can be guessed; `AdaOPS` spends
    the same budget on one sample. `sl.LinearRegression` had a smaller error on every real set on which any of them
    learned something (how-to page "when to let the data decide"): use that unless you need a posterior sample.

    Args:
        features: Names of `Number` columns; rows longer than `feature_norm` are shortened.
        target: A `Number` column with both bounds.
        feature_norm: The public bound of a row's Euclidean norm.
        epsilon, delta: The price.
        score: Judges an answer (coefficients, then the intercept) by public data.
        runs: The law of the number of runs.
        penalties: The ridge penalties, for rows of length 1, that are tried; a public grid if left out.
        intercept, rows_at_most: As in `AdaOPS`.

    >>> import numpy as np
    >>> from sidelight.records import Number
    >>> x = np.linspace(-1, 1, 2000)
    >>> rows = Table({"x": x, "y": 0.5 * x}, schema=[Number("x"), Number("y", lower=-1, upper=1)])
    >>> score = PublicScore(lambda answer: -abs(answer.value[0] - 0.5), "distance to a published slope")
    >>> query = OPSPTR(features=["x"], target="y", feature_norm=1, epsilon=1, delta="1e-6", score=score)
    >>> print(query.release(rows).guarantee)
    ApproxDP(ε = 1, δ = 1e-6; idealized)
    """

    features: Sequence[str]
    target: str
    feature_norm: Amount
    epsilon: Amount
    delta: Amount
    score: PublicScore
    runs: Runs = field(default_factory=lambda: geometric(15))
    penalties: Sequence[Amount] | None = None
    intercept: Amount | None = None
    rows_at_most: int = 10**7

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        checked_rows(self.rows_at_most)
        if not isinstance(self.score, PublicScore):
            raise RangeError(
                f"the score must be a PublicScore, got {type(self.score).__name__}: no run pays for another"
            )
        if self.penalties is not None:
            object.__setattr__(self, "penalties", tuple(self.penalties))
            if not self.penalties:
                raise RangeError("penalties: at least one, or leave them out")

    def prepare(self, schema: Schema) -> PreparedCertificate[Ridge, float, tuple[_Candidate, ...]]:
        """Check the query against the schema and price it. Opens no data."""
        codes = least_squares_codes(
            schema,
            features=self.features,
            target=self.target,
            feature_norm=self.feature_norm,
            intercept=self.intercept,
        )
        row = row_budget(self.epsilon, self.delta, unit=schema.unit, neighbours=Neighbours.ADD_REMOVE)
        price = selection_price(row.epsilon, row.delta, self.runs)
        tried = self.penalties
        need = _ROOM * float(price.order)
        if tried is None:
            penalties = tuple(need * each for each in _TRIED)
        else:
            penalties = tuple(float(positive(each, name="penalty")) for each in tried)
        return propose_and_certify(
            _Proposal(codes, price, self.score, self.runs, penalties, self.rows_at_most),
            budget=row,
            within=Claims.of(ApproxDP(row.epsilon, row.delta, numerics="idealized")),
            request={
                "kind": "selected_posterior_sample",
                "features": list(self.features),
                "target": self.target,
                "feature_norm": decimal_text(exact(self.feature_norm, name="feature_norm")),
                "intercept": decimal_text(codes.intercept),
                "epsilon": decimal_text(exact(self.epsilon, name="epsilon")),
                "delta": decimal_text(exact(self.delta, name="delta")),
                "score": self.score.description,
                "runs": self.runs.to_json(),
                "penalties": [repr(each) for each in penalties],
                "order": decimal_text(price.order),
                "rows_at_most": str(self.rows_at_most),
            },
            refusal=EMPTY,
        )

    def release(self, table: Table) -> Outcome:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, table)

    def declare(self) -> Number:
        """Refuse a bare array: a regression needs named columns."""
        raise SchemaError("a regression wants sl.Table(data, schema=[...])")


@dataclass(frozen=True)
class _Candidate:
    """A penalty whose samples can be certified, and the leverage that the released eigenvalue leaves with it."""

    penalty: float
    leverage: float


@dataclass(frozen=True)
class _Proposal:
    codes: LeastSquaresCodes
    price: SelectionPrice
    score: PublicScore
    runs: Runs
    penalties: tuple[float, ...]
    rows_at_most: int

    def look(self, table: Table, source: Source) -> Ridge:
        return Ridge.look(table, self.codes)

    def certify(self, secret: Ridge, source: Source) -> float:
        """Release a lower bound of the smallest eigenvalue, once, outside the selection."""
        price = DrawPrice(
            law="rounded Gaussian",
            claims=self.price.eigenvalue_claims,
            statistic="a lower bound of the smallest eigenvalue",
            theorem="stability proof page, Theorem 11",
        )
        with source.paying(price):
            bound = private_lower_bound(
                secret.smallest_eigenvalue(self.rows_at_most),
                sensitivity=1.0,
                mu=self.price.eigenvalue_mu,
                failure=self.price.eigenvalue_failure,
                source=source,
            )
        return max(0.0, bound)

    def choose(self, certificate: float) -> tuple[_Candidate, ...] | None:
        need = _ROOM * float(self.price.order)
        kept = [each for each in self.penalties if each + certificate >= need]
        return tuple(_Candidate(each, 1 / (each + certificate)) for each in kept) or None

    def release(self, secret: Ridge, parameter: tuple[_Candidate, ...], source: Source) -> Answer | Refusal:
        def run(source: Source) -> tuple[Answer, float] | None:
            candidate = parameter[below(len(parameter), source)]
            meter = Meter(self.price.run_claims)
            with source.metered_by(meter):
                answer = self._sample(secret, candidate, source)
            meter.settle()
            return None if answer is None else (answer, float(self.score.function(answer)))

        search = DrawPrice(
            law="the best of a random number of posterior samples",
            claims=self.price.search_claims,
            statistic=f"{len(parameter)} penalties",
            theorem="stability proof page, Theorem 11",
        )
        with source.paying(search):
            best = best_of(run, self.runs, source=source)
        return Refusal(reason=EMPTY) if best is None else best

    def _sample(self, secret: Ridge, candidate: _Candidate, source: Source) -> Answer | None:
        rho = float(self.price.rho) * (1 - 1e-12)
        log_residual = private_upper_bound(
            secret.log_residual(candidate.penalty),
            sensitivity=residual_move(candidate.leverage),
            mu=math.sqrt(2 * _BOUND_SHARE * rho),
            failure=float(self.price.bound_failure),
            source=source,
            for_neighbours=1,
        )
        order = float(self.price.order)
        precision = largest_precision(
            (1 - _BOUND_SHARE) * rho * order,
            order,
            leverage=candidate.leverage,
            residual=math.exp(min(log_residual, 700.0)),
            directions="both",
        )
        if precision is None:
            return None
        price = posterior_price(
            self.price.order,
            leverage=candidate.leverage,
            residual=math.exp(min(log_residual, 700.0)),
            precision=precision,
            directions="both",
        )
        return posterior_answer(
            secret,
            self.codes,
            penalty=candidate.penalty,
            precision=precision,
            price=price,
            rows_at_most=self.rows_at_most,
            source=source,
        )

"""Two baselines that look at no property of the data: a posterior sample, and noise on the coefficients, for the worst.

Both bound the coefficients by a public number of rows, |θ| <= √n/(2√λ) for rows and targets of length 1; the bound of
the number of rows is therefore part of their guarantee, as the bounds of the columns are, and no data set is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, Claims, decimal_text, positive
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.additive import priced_normals
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source
from sidelight.published.adaops import Ridge, RidgePosterior, answer_on_grid, largest_precision, posterior_answer
from sidelight.records import Schema, Table
from sidelight.regression.least_squares_codes import LeastSquaresCodes, least_squares_codes
from sidelight.session import Answer
from sidelight.stability.propose_test_release import (
    PreparedProposal,
    ProposingQuery,
    RowBudget,
    amounts,
    check_rows_at_most,
    order_budget,
    row_budget,
)

_PENALTIES = tuple(np.geomspace(1e-2, 1e8, 301).tolist())


@dataclass(frozen=True, kw_only=True)
class BalancedOPS(ProposingQuery):
    """Linear regression by one posterior sample with noise for the worst data of at most `rows_at_most` rows.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units **among tables of at most
    `rows_at_most` rows**, numerics "idealized" (stability proof page, Theorem 9). Never refuses.

    Accuracy: the penalty has to be large enough for the worst data: `AdaOPS`, which looks, is nearly always better.

    Arguments: as for `AdaOPS`. `penalty` is the ridge penalty for rows of length 1; left out, a public rule sets it.
    """

    features: Sequence[str]
    target: str
    feature_norm: Amount
    epsilon: Amount
    delta: Amount
    rows_at_most: int
    intercept: Amount | None = None
    penalty: Amount | None = None
    order: Amount | None = None
    _wanted = "a regression wants sl.Table(data, schema=[...])"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        check_rows_at_most(self)

    def prepare(self, schema: Schema) -> _Worst:
        """Check the query against the schema and price it. Opens no data."""
        codes, row = _start(self, schema)
        budget = order_budget(row.epsilon, row.delta, order=self.order)
        total, order, width = float(budget.divergence) * (1 - 1e-12), float(budget.order), codes.statistics.width
        n = self.rows_at_most

        def noise(penalty: float) -> _Noise | None:
            residual = worst_residual(penalty, n)
            precision = largest_precision(total, order, leverage=1 / penalty, residual=residual, directions="forward")
            return None if precision is None else _Noise(penalty, precision, penalty + width / precision)

        return _prepared(_Posterior, self, codes, _chosen(noise, self.penalty), row, "balanced")


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation(ProposingQuery):
    """Linear regression with the same noise on every coefficient, for the worst data of at most `rows_at_most` rows.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units **among tables of at most
    `rows_at_most` rows**, numerics "idealized": one record moves the ridge solution by at most R/λ. Never refuses.

    Accuracy: the textbook's baseline; use `AdaOPS`, `sl.AdaSSP` or `sl.LinearRegression`.
    """

    features: Sequence[str]
    target: str
    feature_norm: Amount
    epsilon: Amount
    delta: Amount
    rows_at_most: int
    intercept: Amount | None = None
    penalty: Amount | None = None
    _wanted = "a regression wants sl.Table(data, schema=[...])"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        check_rows_at_most(self)

    def prepare(self, schema: Schema) -> _Worst:
        """Check the query against the schema and price it. Opens no data."""
        codes, row = _start(self, schema)
        mu, width = float(gdp_within(row.epsilon, row.delta)) * (1 - 1e-12), codes.statistics.width
        n = self.rows_at_most

        def noise(penalty: float) -> _Noise:
            deviation = worst_residual(penalty, n) / (penalty * mu)
            # noise of this size costs σ² tr(XᵀX + λ) in squared error, and the trace is at most n + λd
            return _Noise(penalty, deviation, penalty + deviation**2 * (n + penalty * width))

        return _prepared(_Isotropic, self, codes, _chosen(noise, self.penalty), row, "output perturbation")


def worst_residual(penalty: float, rows_at_most: int) -> float:
    """Return 1 + √n/(2√λ), at most 1 + n/λ: no residual of n rows of length 1 is larger.

    |θ| = |(XᵀX + λ)^-1 Xᵀy| <= |y| max s/(s² + λ) <= √n/(2√λ), and <= |Xᵀy|/λ <= n/λ.
    """
    return 1 + min(math.sqrt(rows_at_most) / (2 * math.sqrt(penalty)), rows_at_most / penalty)


#: A baseline's own theorem prices its one draw; the meter counts nothing else.
_PRICED = DrawPrice(law="for the worst data", claims=Claims.of(ApproxDP("1e-9", "1e-30", numerics="idealized")))


@dataclass(frozen=True)
class _Noise:
    """A penalty, the precision or the deviation that goes with it, and what both cost in fit by a public rule."""

    penalty: float
    size: float
    cost: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Worst(PreparedProposal[Ridge, None, _Noise]):
    codes: LeastSquaresCodes
    noise: _Noise
    rows_at_most: int

    def look(self, table: Table, source: Source) -> Ridge:
        return Ridge.look(table, self.codes)

    def certify(self, secret: Ridge, source: Source) -> None:
        return None

    def choose(self, certificate: None) -> _Noise:
        return self.noise


class _Posterior(_Worst):
    def answer(self, secret: Ridge, parameter: _Noise, source: Source) -> Answer:
        chosen = RidgePosterior(parameter.penalty, parameter.size, _PRICED)
        return posterior_answer(secret, self.codes, chosen, rows_at_most=self.rows_at_most, source=source)


class _Isotropic(_Worst):
    def answer(self, secret: Ridge, parameter: _Noise, source: Source) -> Answer:
        noise = parameter.size * priced_normals(self.codes.statistics.width, price=_PRICED, source=source)
        return answer_on_grid(secret.solution(parameter.penalty) + noise, self.codes, least_deviation=parameter.size)


def _start(query: BalancedOPS | OutputPerturbation, schema: Schema) -> tuple[LeastSquaresCodes, RowBudget]:
    return least_squares_codes(schema, query), row_budget(query.epsilon, query.delta, unit=schema.unit)


def _chosen(noise: Callable[[float], _Noise | None], penalty: Amount | None) -> _Noise:
    """Return the noise of the penalty that was asked for, or of the public grid's best."""
    given = _PENALTIES if penalty is None else (float(positive(penalty, name="penalty")),)
    found = [each for each in map(noise, given) if each is not None]
    if not found:
        raise RangeError(
            f"penalty {penalty} is too small for a posterior sample at this epsilon and order; leave it out, or use a "
            "larger one"
        )
    return min(found, key=lambda each: each.cost)


def _prepared(
    kind: type[_Worst],
    query: BalancedOPS | OutputPerturbation,
    codes: LeastSquaresCodes,
    noise: _Noise,
    row: RowBudget,
    variant: str,
) -> _Worst:
    return kind(
        claims=row.idealized,
        within=Claims.of(ApproxDP(row.epsilon, row.delta, numerics="idealized")),
        request={
            "kind": "ridge_regression_for_the_worst_data",
            "variant": variant,
            "features": list(query.features),
            "target": query.target,
            **amounts(query, "feature_norm"),
            "intercept": decimal_text(codes.intercept),
            **amounts(query, "epsilon", "delta"),
            "penalty": repr(noise.penalty),
            "noise": repr(noise.size),
            "rows_at_most": str(query.rows_at_most),
        },
        refusal="never",
        codes=codes,
        noise=noise,
        rows_at_most=query.rows_at_most,
    )

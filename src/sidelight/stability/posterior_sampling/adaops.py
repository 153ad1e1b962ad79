"""AdaOPS: linear regression by one posterior sample whose noise adapts to how well the data determine it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sidelight.errors import SchemaError
from sidelight.guarantees import RDP, Amount, Claims, Neighbours, decimal_text, exact, positive
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import private_lower_bound, private_upper_bound, upper_quantile
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.regression.least_squares_codes import LeastSquaresCodes, least_squares_codes
from sidelight.release import Outcome
from sidelight.session import Answer, release_once
from sidelight.stability.budgets import OrderBudget, order_budget, row_budget
from sidelight.stability.engine import PreparedCertificate, propose_and_certify
from sidelight.stability.posterior_sampling.ridge import (
    Ridge,
    checked_rows,
    checked_shares,
    largest_precision,
    penalty_grid,
    posterior_answer,
    posterior_price,
    residual_move,
)

#: Penalties that may be chosen, for rows of length 1: from none worth mentioning to more than data ever weigh.
_PENALTIES = penalty_grid(1e-2, 1e8, 301)
#: Before the norm of the coefficients is released, it is taken to be 1: a guess that chooses the penalty, no more.
_GUESSED_RESIDUAL = 2.0
#: Of delta, what each of the two private bounds may fail with; the rest is for the conversion.
_FAILURE = Fraction(1, 6)


@dataclass(frozen=True, kw_only=True)
class AdaOPS:
    """Release a linear regression as one sample from the ridge posterior, with noise as small as the data allow.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, numerics "idealized". First
    the smallest eigenvalue of the Gram matrix and the length of the coefficients are bounded privately; penalty and
    noise are chosen from these two numbers alone, so that the sample keeps within its budget at one public Renyi order
    (stability proof page, Theorems 2 and 9).

    Accuracy: that of ridge regression plus noise whose covariance is the inverse Gram matrix over a precision: well
    determined directions get little. Use it for a posterior sample on large data whose columns vary independently:
    where the smallest eigenvalue, for rows of length 1, surely exceeds some 120/epsilon. Elsewhere use
    `sl.LinearRegression`: it had a smaller error on every real set on which either learned anything, often by a factor
    (how-to page "when to let the data decide"). This one hardly ever refuses, and costs the same.

    Args:
        features: Names of `Number` columns; rows longer than `feature_norm` are shortened.
        target: A `Number` column with both bounds.
        feature_norm: The public bound of a row's Euclidean norm.
        epsilon, delta: The price.
        intercept: The value of the constant column, 0 for none; half as long as a row can be if left out.
        rows_at_most: Only sets how finely the answer is rounded: a larger table is no less private.
        eigenvalue_share: The share of the budget for the eigenvalue's bound; with 0 the eigenvalue is taken to be 0.
        norm_share: The share for the bound of the coefficients' length.
        order: The Renyi order, at least 2; chosen by public numbers if left out.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 20_000)
    >>> rows = Table({"x": x, "y": 0.5 * x}, schema=[Number("x"), Number("y", lower=-1, upper=1)])
    >>> fit = AdaOPS(features=["x"], target="y", feature_norm=1, epsilon=1, delta="1e-6").release(rows)
    >>> bool(0.3 < fit.value[0] < 0.7)
    True
    """

    features: Sequence[str]
    target: str
    feature_norm: Amount
    epsilon: Amount
    delta: Amount
    intercept: Amount | None = None
    rows_at_most: int = 10**7
    eigenvalue_share: Amount = "0.15"
    norm_share: Amount = "0.15"
    order: Amount | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        checked_rows(self.rows_at_most)
        checked_shares(**self._shares)
        positive(self.norm_share, name="norm_share")

    @property
    def _shares(self) -> dict[str, Fraction]:
        return {name: exact(getattr(self, name), name=name) for name in ("eigenvalue_share", "norm_share")}

    def prepare(self, schema: Schema) -> PreparedCertificate[Ridge, Certificate, Posterior]:
        """Check the query against the schema and price it. Opens no data."""
        codes = least_squares_codes(
            schema,
            features=self.features,
            target=self.target,
            feature_norm=self.feature_norm,
            intercept=self.intercept,
        )
        row = row_budget(self.epsilon, self.delta, unit=schema.unit, neighbours=Neighbours.ADD_REMOVE)
        shares, left = self._shares, checked_shares(**self._shares)
        failures = 2 if shares["eigenvalue_share"] else 1
        budget = order_budget(row.epsilon, row.delta * (1 - failures * _FAILURE), order=self.order)
        proposal = _Proposal(
            codes=codes,
            budget=budget,
            eigenvalue_mu=budget.mu(shares["eigenvalue_share"]),
            norm_mu=budget.mu(shares["norm_share"]),
            sample_budget=float(left * budget.divergence) * (1 - 1e-12),
            failure=float(row.delta * _FAILURE),
            rows_at_most=self.rows_at_most,
        )
        return propose_and_certify(
            proposal,
            budget=row,
            within=Claims.of(RDP({budget.order: budget.divergence}, numerics="idealized")),
            request={
                "kind": "posterior_sample",
                "features": list(self.features),
                "target": self.target,
                "feature_norm": decimal_text(exact(self.feature_norm, name="feature_norm")),
                "intercept": decimal_text(codes.intercept),
                "epsilon": decimal_text(exact(self.epsilon, name="epsilon")),
                "delta": decimal_text(exact(self.delta, name="delta")),
                "order": decimal_text(budget.order),
                "rows_at_most": str(self.rows_at_most),
                **{name: decimal_text(share) for name, share in shares.items()},
            },
            refusal="no penalty and noise keep within the budget that was proposed",
        )

    def release(self, table: Table) -> Outcome:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, table)

    def declare(self) -> Number:
        """Refuse a bare array: a regression needs named columns."""
        raise SchemaError("a regression wants sl.Table(data, schema=[...])")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is known of the data, with noise: eigenvalue from below, penalty chosen by it, residual from above."""

    eigenvalue_lower: float
    penalty: float
    residual_upper: float


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """Which member of the family is drawn from."""

    penalty: float
    precision: float
    price: DrawPrice


@dataclass(frozen=True, kw_only=True)
class _Proposal:
    codes: LeastSquaresCodes
    budget: OrderBudget
    eigenvalue_mu: float
    norm_mu: float
    sample_budget: float
    failure: float
    rows_at_most: int

    def look(self, table: Table, source: Source) -> Ridge:
        return Ridge.look(table, self.codes)

    def certify(self, secret: Ridge, source: Source) -> Certificate:
        eigenvalue_lower = 0.0
        if self.eigenvalue_mu:
            value = secret.smallest_eigenvalue(self.rows_at_most)
            bound = private_lower_bound(
                value, sensitivity=1.0, mu=self.eigenvalue_mu, failure=self.failure, source=source
            )
            eigenvalue_lower = max(0.0, bound)
        penalty = self.best_penalty(eigenvalue_lower)
        if penalty is None:
            return Certificate(eigenvalue_lower=eigenvalue_lower, penalty=math.nan, residual_upper=math.nan)
        upper = private_upper_bound(
            secret.log_residual(penalty),
            sensitivity=residual_move(1 / (penalty + eigenvalue_lower)),
            mu=self.norm_mu,
            failure=self.failure,
            source=source,
        )
        return Certificate(
            eigenvalue_lower=eigenvalue_lower, penalty=penalty, residual_upper=math.exp(min(upper, 700.0))
        )

    def choose(self, certificate: Certificate) -> Posterior | None:
        precision = self._precision(certificate.penalty, certificate.eigenvalue_lower, certificate.residual_upper)
        if precision is None:
            return None
        price = posterior_price(
            self.budget.order,
            leverage=1 / (certificate.penalty + certificate.eigenvalue_lower),
            residual=certificate.residual_upper,
            precision=precision,
            directions="forward",
        )
        return Posterior(penalty=certificate.penalty, precision=precision, price=price)

    def release(self, secret: Ridge, parameter: Posterior, source: Source) -> Answer:
        return posterior_answer(
            secret,
            self.codes,
            penalty=parameter.penalty,
            precision=parameter.precision,
            price=parameter.price,
            rows_at_most=self.rows_at_most,
            source=source,
        )

    def best_penalty(self, eigenvalue_lower: float) -> float | None:
        """Choose the penalty from the released eigenvalue: the least λ + d/γ, about what bias and noise cost in fit.

        The posterior's noise adds d/γ to the squared error; γ is what a guessed length of the coefficients would allow.
        Public and released numbers only.
        """
        quantile = upper_quantile(self.failure)
        best, best_cost = None, math.inf
        for penalty in _PENALTIES:
            move = residual_move(1 / (penalty + eigenvalue_lower))
            guess = _GUESSED_RESIDUAL * math.exp(min(quantile * move / self.norm_mu, 100.0))
            precision = self._precision(penalty, eigenvalue_lower, guess)
            if precision is None:
                continue
            cost = penalty + self.codes.statistics.width / precision
            if cost < best_cost:
                best, best_cost = penalty, cost
        return best

    def _precision(self, penalty: float, eigenvalue_lower: float, residual: float) -> float | None:
        strength = penalty + eigenvalue_lower
        if not strength > 1:  # a NaN is refused here, too
            return None
        order = float(self.budget.order)
        return largest_precision(
            self.sample_budget, order, leverage=1 / strength, residual=residual, directions="forward"
        )

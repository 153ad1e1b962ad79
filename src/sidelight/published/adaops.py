"""AdaOPS: linear regression by one posterior sample whose noise adapts to how well the data determine it.

Rows and targets are scaled to length 1: |x| <= 1, |y| <= 1. The sample is N(θ, (γH)^-1) with H = XᵀX + λI and
θ = H^-1 Xᵀy; h bounds the leverage xᵀH^-1x (1 over the smallest eigenvalue of H), R the residual |y - xᵀθ| (1 + |θ|).
How private one sample is, given the data, are exact Renyi divergences: hand-made, because the printed formulas of the
literature use a tail that is too short and count additions only (stability proof page, Theorem 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.collect import collect
from sidelight.errors import RangeError
from sidelight.guarantees import RDP, Amount, Claims, decimal_text, exact, positive
from sidelight.mechanisms.additive import priced_normals
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import private_lower_bound, private_upper_bound, upper_quantile
from sidelight.noise import Source, public_grid, to_grid
from sidelight.records import Schema, Table
from sidelight.regression.least_squares_codes import LeastSquaresCodes, least_squares_codes
from sidelight.session import Answer
from sidelight.stability.propose_test_release import (
    EIGENVALUE_TOLERANCE,
    OrderBudget,
    PreparedProposal,
    ProposingQuery,
    amounts,
    check_rows_at_most,
    order_budget,
    row_budget,
)

Floats = NDArray[np.float64]

#: "forward": M(X) from M(X') for every neighbour X' of X. "both": M(X') from M(X), too, by numbers of X alone.
Directions: TypeAlias = Literal["forward", "both"]

#: Penalties that may be chosen, for rows of length 1: from none worth mentioning to more than data ever weigh.
_PENALTIES = tuple(np.geomspace(1e-2, 1e8, 301).tolist())
#: Before the norm of the coefficients is released, it is taken to be 1: a guess that chooses the penalty, no more.
_GUESSED_RESIDUAL = 2.0
#: Of delta, what each of the two private bounds may fail with; the rest is for the conversion.
_FAILURE = Fraction(1, 6)
_LIMIT_STEPS = 2.0**48


@dataclass(frozen=True, kw_only=True)
class AdaOPS(ProposingQuery):
    """Release a linear regression as one sample from the ridge posterior, with noise as small as the data allow.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, numerics "idealized". First
    the smallest eigenvalue of the Gram matrix and the length of the coefficients are bounded privately; penalty and
    noise are chosen from these two numbers alone, so that the sample keeps within its budget at one public Renyi order
    (stability proof page, Theorems 2 and 9).

    Accuracy: that of ridge regression plus noise whose covariance is the inverse Gram matrix over a precision: well
    determined directions get little. Use `sl.LinearRegression` instead: it had a smaller error on every real set on
    which either learned anything, often by a factor (how-to page "when to let the data decide"). This one is for a
    posterior sample on large data whose columns vary independently: where the smallest eigenvalue, for rows of length
    1, surely exceeds some 120/epsilon. It hardly ever refuses, and costs the same.

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
    >>> from sidelight.records import Number
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
    _wanted = "a regression wants sl.Table(data, schema=[...])"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        check_rows_at_most(self)
        if exact(self.eigenvalue_share, name="eigenvalue_share") + positive(self.norm_share, name="norm_share") >= 1:
            raise RangeError("eigenvalue_share and norm_share are shares of the budget and must leave some of it")

    def prepare(self, schema: Schema) -> PreparedAdaOPS:
        """Check the query against the schema and price it. Opens no data."""
        codes = least_squares_codes(schema, self)
        row = row_budget(self.epsilon, self.delta, unit=schema.unit)
        eigenvalue_share, norm_share = (
            exact(share, name="share") for share in (self.eigenvalue_share, self.norm_share)
        )
        failures = 2 if eigenvalue_share else 1
        budget = order_budget(row.epsilon, row.delta * (1 - failures * _FAILURE), order=self.order)
        return PreparedAdaOPS(
            claims=row.idealized,
            within=Claims.of(RDP({budget.order: budget.divergence}, numerics="idealized")),
            request={
                "kind": "posterior_sample",
                "features": list(self.features),
                "target": self.target,
                **amounts(self, "feature_norm"),
                "intercept": decimal_text(codes.intercept),
                **amounts(self, "epsilon", "delta"),
                "order": decimal_text(budget.order),
                "rows_at_most": str(self.rows_at_most),
                **amounts(self, "eigenvalue_share", "norm_share"),
            },
            refusal="no penalty and noise keep within the budget that was proposed",
            codes=codes,
            budget=budget,
            eigenvalue_mu=budget.mu(eigenvalue_share),
            norm_mu=budget.mu(norm_share),
            sample_budget=float((1 - eigenvalue_share - norm_share) * budget.divergence) * (1 - 1e-12),
            failure=float(row.delta * _FAILURE),
            rows_at_most=self.rows_at_most,
        )


class RidgeCertificate(NamedTuple):
    """What is known of the data, with noise: eigenvalue from below, penalty chosen by it, residual from above."""

    eigenvalue_lower: float
    penalty: float
    residual_upper: float


class RidgePosterior(NamedTuple):
    """Which member of the family is drawn from."""

    penalty: float
    precision: float
    price: DrawPrice


@dataclass(frozen=True, repr=False)
class Ridge:
    """XᵀX by its eigenvalues and eigenvectors, and Xᵀy in these axes; rows and targets of length 1 at most. Secret."""

    values: Floats = field(repr=False)
    vectors: Floats = field(repr=False)
    cross: Floats = field(repr=False)

    @classmethod
    def of(cls, gram: Floats, cross: Floats) -> Ridge:
        """Decompose once: every penalty after that costs no more than a product."""
        values, vectors = np.linalg.eigh(gram)
        return cls(np.maximum(values, 0.0), vectors, vectors.T @ cross)

    @classmethod
    def look(cls, table: Table, codes: LeastSquaresCodes) -> Ridge:
        """Read the rows, once, and scale the integers that come out."""
        moments = collect(table, codes.statistics)
        length = codes.statistics.squared_length
        height = math.sqrt(length) * codes.statistics.target_bound
        return cls.of(np.asarray(moments.gram.value, np.float64) / length, np.asarray(moments.cross.value) / height)

    def smallest_eigenvalue(self, rows_at_most: int) -> float:
        """Return the smallest eigenvalue of XᵀX, lowered by a public tolerance. One record moves it by at most 1."""
        return float(self.values[0]) - EIGENVALUE_TOLERANCE * rows_at_most

    def log_residual(self, penalty: float) -> float:
        """Return ln(1 + |θ|), which bounds every residual's logarithm."""
        return math.log1p(float(np.linalg.norm(self.cross / (self.values + penalty))))

    def solution(self, penalty: float) -> Floats:
        """Return θ = (XᵀX + λ)^-1 Xᵀy."""
        return np.asarray(self.vectors @ (self.cross / (self.values + penalty)))

    def sample(self, penalty: float, precision: float, price: DrawPrice, source: Source) -> Floats:
        """Draw from N(θ, (γ(XᵀX + λ))^-1): the density exp(-γ/2 (|y - Xθ|² + λ|θ|²))."""
        spread = np.sqrt(precision * (self.values + penalty))
        noise = priced_normals(len(self.values), price=price, source=source) / spread
        return np.asarray(self.vectors @ (self.cross / (self.values + penalty) + noise))

    def __repr__(self) -> str:
        return "Ridge(private)"


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedAdaOPS(PreparedProposal[Ridge, RidgeCertificate, RidgePosterior]):
    """An `AdaOPS` fitted to a schema."""

    codes: LeastSquaresCodes
    budget: OrderBudget
    eigenvalue_mu: float
    norm_mu: float
    sample_budget: float
    failure: float
    rows_at_most: int

    def look(self, table: Table, source: Source) -> Ridge:
        """Read the moments of the rows."""
        return Ridge.look(table, self.codes)

    def certify(self, secret: Ridge, source: Source) -> RidgeCertificate:
        """Bound the smallest eigenvalue, choose a penalty by it, and bound the residuals."""
        eigenvalue_lower = 0.0
        if self.eigenvalue_mu:
            value = secret.smallest_eigenvalue(self.rows_at_most)
            bound = private_lower_bound(
                value, sensitivity=1.0, mu=self.eigenvalue_mu, failure=self.failure, source=source
            )
            eigenvalue_lower = max(0.0, bound)
        penalty = self.best_penalty(eigenvalue_lower)
        if penalty is None:
            return RidgeCertificate(eigenvalue_lower, math.nan, math.nan)
        upper = private_upper_bound(
            secret.log_residual(penalty),
            sensitivity=residual_move(1 / (penalty + eigenvalue_lower)),
            mu=self.norm_mu,
            failure=self.failure,
            source=source,
        )
        return RidgeCertificate(eigenvalue_lower, penalty, math.exp(min(upper, 700.0)))

    def choose(self, certificate: RidgeCertificate) -> RidgePosterior | None:
        """Return the least noise that the bounds allow."""
        eigenvalue_lower, penalty, residual = certificate
        strength = penalty + eigenvalue_lower
        if not strength > 1:  # a NaN is refused here, too
            return None
        return least_noise(
            self.sample_budget,
            self.budget.order,
            penalty=penalty,
            leverage=1 / strength,
            residual=residual,
            directions="forward",
        )

    def answer(self, secret: Ridge, parameter: RidgePosterior, source: Source) -> Answer:
        """Draw one posterior sample."""
        return posterior_answer(secret, self.codes, parameter, rows_at_most=self.rows_at_most, source=source)

    def best_penalty(self, eigenvalue_lower: float) -> float | None:
        """Choose the penalty from the released eigenvalue: the least λ + d/γ, about what bias and noise cost in fit.

        The posterior's noise adds d/γ to the squared error; γ is what a guessed length of the coefficients would allow.
        Public and released numbers only.
        """
        quantile, order = upper_quantile(self.failure), float(self.budget.order)
        best, best_cost = None, math.inf
        for penalty in _PENALTIES:
            strength = penalty + eigenvalue_lower
            if not strength > 1:
                continue
            move = residual_move(1 / strength)
            guess = _GUESSED_RESIDUAL * math.exp(min(quantile * move / self.norm_mu, 100.0))
            precision = largest_precision(
                self.sample_budget, order, leverage=1 / strength, residual=guess, directions="forward"
            )
            if precision is None:
                continue
            cost = penalty + self.codes.statistics.width / precision
            if cost < best_cost:
                best, best_cost = penalty, cost
        return best


def answer_on_grid(point: Floats, codes: LeastSquaresCodes, *, least_deviation: float) -> Answer:
    """Round a noisy θ to the public grid of its smallest possible noise, and give it in the units of the columns."""
    exponent = public_grid(least_deviation)
    rounded = np.ldexp(to_grid(point, exponent, limit=math.ldexp(_LIMIT_STEPS, exponent)).astype(np.float64), exponent)
    height = codes.statistics.target_bound / math.sqrt(codes.statistics.squared_length)
    coefficients, intercept = codes.in_units(rounded * height)
    return Answer(value=np.append(coefficients, intercept), labels=codes.labels)


def posterior_answer(
    ridge: Ridge, codes: LeastSquaresCodes, chosen: RidgePosterior, *, rows_at_most: int, source: Source
) -> Answer:
    """Draw one posterior sample and round it."""
    least = 1 / math.sqrt(chosen.precision * (chosen.penalty + rows_at_most))
    return answer_on_grid(ridge.sample(*chosen, source), codes, least_deviation=least)


def least_noise(
    budget: float, order: Fraction, *, penalty: float, leverage: float, residual: float, directions: Directions
) -> RidgePosterior | None:
    """Return the posterior with the least noise that keeps within the budget at one Renyi order, and its price."""
    precision = largest_precision(budget, float(order), leverage=leverage, residual=residual, directions=directions)
    if precision is None:
        return None
    divergence = posterior_divergence(
        float(order), leverage=leverage, residual=residual, precision=precision, directions=directions
    )
    price = DrawPrice(
        law="a posterior sample",
        claims=Claims.of(RDP({order: Fraction(divergence)}, numerics="idealized")),
        statistic=f"coefficients at precision {precision:.6g}",
        theorem="stability proof page, section on posterior samples",
    )
    return RidgePosterior(penalty, precision, price)


def posterior_divergence(
    order: float, *, leverage: float, residual: float, precision: float, directions: Directions
) -> float:
    """Return the largest divergence of an order over all added and removed records; infinite where it has no bound.

    >>> round(posterior_divergence(8, leverage=0.02, residual=3, precision=0.5, directions="forward"), 10)
    0.4112684667
    """
    curvature, slope = _terms(order, leverage, directions)
    return curvature + slope * precision * residual * residual


def largest_precision(
    budget: float, order: float, *, leverage: float, residual: float, directions: Directions
) -> float | None:
    """Return the largest γ whose divergence is at most the budget; None if there is none. A NaN anywhere gives None.

    >>> round(largest_precision(1, 20, leverage=0.01, residual=2, directions="forward"), 6)
    2.044084
    """
    curvature, slope = _terms(order, leverage, directions)
    if not (math.isfinite(curvature) and slope > 0 and residual > 0 and math.isfinite(residual)):
        return None
    precision = (budget - curvature) / (slope * residual * residual) * (1 - 1e-12)
    return precision if precision > 0 and math.isfinite(precision) else None


def _terms(order: float, leverage: float, directions: Directions) -> tuple[float, float]:
    """Return the divergence as (what remains at γ = 0, what multiplies γR²); infinite outside the range of validity."""
    if not order >= 2:
        raise RangeError(f"posterior sampling is certified for orders of at least 2, got {order}")
    h, t = leverage, order - 1
    reach = t * h if directions == "forward" else order * h
    if not (h > 0 and reach < 1):
        return math.inf, math.inf
    if directions == "forward":
        return -math.log1p(h) / 2 - math.log1p(-t * h) / (2 * t), order * h / (2 * (1 + h) * (1 - t * h))
    at_zero = math.log1p(-h) / 2 + (math.log1p(-h) - math.log1p(-order * h)) / (2 * t)
    return at_zero, order * h / (2 * (1 - h) * (1 - order * h))


def residual_move(leverage: float) -> float:
    """Return how far one record moves ln(1 + |θ|), added or removed: -ln(1 - h) (Lemma 10); infinite for h >= 1.

    The smaller ln(1 + h) of the literature holds for additions only.
    """
    return -math.log1p(-leverage) if 0 <= leverage < 1 else math.inf

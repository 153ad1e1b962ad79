"""Logistic regression with noise on its minimum, as little as the privately tested strength of its convexity allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.clipped_vector import ClippedVector
from sidelight.aggregates.coding import CategoryCoding, CombinedCoding
from sidelight.aggregates.collect import coded_rows
from sidelight.errors import NotCertifiedError, RangeError, SchemaError
from sidelight.guarantees import GDP, RDP, Amount, Claims, decimal_text, exact, positive
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.additive import priced_normals
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import private_lower_bound
from sidelight.noise import Source, public_grid, to_grid
from sidelight.published.logistic_divergence import (
    SLOPE,
    STRENGTH_MOVE,
    Precision,
    largest_shaped_precision,
    minimum_move,
    private_precision,
    shaped_divergence,
)
from sidelight.records import Schema, Table
from sidelight.regression.fit_core import certified_minimum
from sidelight.regression.losses import LogisticLoss
from sidelight.regression.objective import Objective
from sidelight.regression.rows import RowPolicy, StreamedRows
from sidelight.session import Answer
from sidelight.stability.propose_test_release import (
    PreparedProposal,
    ProposingQuery,
    amounts,
    check_rows_at_most,
    order_budget,
    row_budget,
)

Shape: TypeAlias = Literal["isotropic", "hessian"]
Floats = NDArray[np.float64]

LEVELS = 1 << 14
#: Of delta, what the private bound of the strength may fail with.
_FAILURE = Fraction(1, 6)
#: Of the budget, what the bound of the number of rows takes: it need not be tight, floats are precise enough.
COUNT_SHARE = Fraction(1, 1000)
#: Of delta, what it may fail with.
COUNT_FAILURE = Fraction(1, 60)
#: The minimum is not rounded before the noise; on so fine a grid floats are what they are.
_FINEST = -100
_LIMIT_STEPS = 2.0**48


@dataclass(frozen=True, kw_only=True)
class StableLogistic(ProposingQuery):
    """Release a logistic regression by output perturbation, with noise adapted to a private bound of the strength of
    convexity.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, numerics "idealized"
    (stability proof page, Theorems 2, 12 and 14), for tables of any number of rows. The minimum is certified; what it
    misses is part of the bound, by a private bound of the number of rows that takes a thousandth of the budget.

    Accuracy: noise of s/μ on every coefficient of rows of length 1, s about 1 over the strength; with `shape="hessian"`
    well determined directions get less. Use `sl.LogisticRegression` instead: it is better on most data.

    Args:
        features: Names of `Number` columns; rows longer than `feature_norm` are shortened.
        target: A `Category` of two labels, the second of which is the positive one.
        feature_norm: The public bound of a row's Euclidean norm.
        epsilon, delta: The price.
        intercept: The value of the constant column, 0 for none.
        penalty: λ for rows of length 1, above 1; if left out, it balances bias and the worst noise of `rows_at_most`
            rows.
        shape: "isotropic" noise, or "hessian": less of it in directions that are well determined.
        rows_at_most: For the default of `penalty` and nothing else.
        strength_share: The share of the budget for the bound of the strength.
        order: The Renyi order, for "hessian" only.

    >>> import numpy as np
    >>> from sidelight.records import Category, Number
    >>> x = np.linspace(-1, 1, 5000)
    >>> schema = [Number("x"), Category("bought", ["no", "yes"], other=None)]
    >>> rows = Table({"x": x, "bought": np.where(x > 0, "yes", "no")}, schema=schema)
    >>> query = StableLogistic(features=["x"], target="bought", feature_norm=1, epsilon=2, delta="1e-6")
    >>> bool(query.release(rows).value[0] > 0)
    True
    """

    features: Sequence[str]
    target: str
    feature_norm: Amount
    epsilon: Amount
    delta: Amount
    intercept: Amount = 1
    penalty: Amount | None = None
    shape: Shape = "isotropic"
    rows_at_most: int = 10**6
    strength_share: Amount = "0.15"
    order: Amount | None = None
    _wanted = "a logistic regression wants sl.Table(data, schema=[...])"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        check_rows_at_most(self)
        if self.shape not in ("isotropic", "hessian"):
            raise RangeError(f"shape is 'isotropic' or 'hessian', got {self.shape!r}")
        if not 0 < exact(self.strength_share, name="strength_share") < 1 - COUNT_SHARE:
            raise RangeError(f"strength_share must lie strictly between 0 and 0.999, got {self.strength_share}")
        if self.penalty is not None and not exact(self.penalty, name="penalty") > SLOPE:
            raise RangeError(
                f"penalty must be above 1, for rows of length 1, got {self.penalty}; below, nothing is proved"
            )
        if self.order is not None and self.shape == "isotropic":
            raise RangeError("an order is for shape='hessian'; isotropic noise is priced without one")

    def prepare(self, schema: Schema) -> PreparedLogistic:
        """Check the query against the schema and price it. Opens no data."""
        rows = _coded(self, schema)
        row = row_budget(self.epsilon, self.delta, unit=schema.unit)
        share, left = exact(self.strength_share, name="strength_share"), row.delta * (1 - _FAILURE - COUNT_FAILURE)
        rest_share = 1 - share - COUNT_SHARE
        order = None
        if self.shape == "isotropic":
            whole = gdp_within(row.epsilon, left)
            within = Claims.of(GDP(whole, numerics="idealized"))
            mu = float(whole) * (1 - 1e-12)
            count_mu, strength_mu = mu * math.sqrt(COUNT_SHARE), mu * math.sqrt(share)
            rest = mu * math.sqrt(rest_share) * (1 - 1e-12)
        else:
            budget = order_budget(row.epsilon, left, order=self.order)
            within = Claims.of(RDP({budget.order: budget.divergence}, numerics="idealized"))
            mu, order = math.sqrt(2 * budget.rho), budget.order
            count_mu, strength_mu = budget.mu(COUNT_SHARE), budget.mu(share)
            rest = float(rest_share * budget.divergence) * (1 - 1e-12)
        if self.penalty is None:
            penalty = Fraction(max(2, round((self.rows_at_most / (2 * mu * mu)) ** (1 / 3))))
        else:
            penalty = exact(self.penalty, name="penalty")
        return PreparedLogistic(
            claims=row.idealized,
            within=within,
            request={
                "kind": "stable_logistic_regression",
                "features": list(self.features),
                "target": self.target,
                **amounts(self, "feature_norm", "intercept", "epsilon", "delta"),
                "penalty": decimal_text(penalty),
                "shape": self.shape,
                "order": "none" if order is None else repr(float(order)),
                "strength_share": decimal_text(share),
                "count_share": decimal_text(COUNT_SHARE),
                "rows_at_most": str(self.rows_at_most),
            },
            refusal="the data do not make the objective convex enough for the noise that was proposed",
            rows=rows,
            penalty=penalty,
            count_mu=count_mu,
            strength_mu=strength_mu,
            rest=rest,
            order=order,
            count_failure=float(row.delta * COUNT_FAILURE),
            failure=float(row.delta * _FAILURE),
        )


@dataclass(frozen=True)
class _UnitRows:
    """How columns become rows of length 1: integer codes over their largest length."""

    names: tuple[str, ...]
    coding: CombinedCoding
    constant: int
    unit: Fraction

    @property
    def length(self) -> float:
        return math.sqrt(LEVELS**2 + self.constant**2)

    @property
    def width(self) -> int:
        return len(self.names) + (self.constant > 0)

    def batches(self, table: Table) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
        for codes in coded_rows(table, self.coding):
            parts = [code.astype(np.float64) for code in codes[:-1]]
            if self.constant:
                parts.append(np.full(len(codes[0]), float(self.constant)))
            yield np.column_stack(parts) / self.length, codes[-1]

    def in_units(self, point: Floats) -> tuple[Floats, float]:
        """Return coefficients for the columns, and the intercept."""
        width = len(self.names)
        constant = float(point[width]) * self.constant / self.length if self.constant else 0.0
        return point[:width] / (self.length * float(self.unit)), constant


@dataclass(frozen=True, repr=False)
class _Minimum:
    """The minimum and the Hessian there, by eigenvalues. Secret, but for the precision. No values: not certified."""

    precision: Precision
    point: Floats = field(repr=False)
    values: Floats = field(repr=False)
    vectors: Floats = field(repr=False)


class Convexity(NamedTuple):
    """What was released: a lower bound of the strength, NaN for none, and the precision of everything computed."""

    strength: float
    precision: Precision


class MinimumNoise(NamedTuple):
    """Deviation of isotropic noise, or precision of shaped noise; the other is None. `least`: in any direction."""

    deviation: float | None
    precision: float | None
    least: float
    price: DrawPrice


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedLogistic(PreparedProposal[_Minimum, Convexity, MinimumNoise]):
    """A `StableLogistic` fitted to a schema."""

    rows: _UnitRows
    penalty: Fraction
    count_mu: float
    strength_mu: float
    rest: float
    order: Fraction | None
    count_failure: float
    failure: float

    def look(self, table: Table, source: Source) -> _Minimum:
        """Minimise, as precisely as a private bound of the number of rows allows to prove."""
        loss = LogisticLoss(classes=(0, 1))
        policy = RowPolicy(loss=loss, features=self.rows.width, data_norm=Fraction(1), intercept=None)
        objective = Objective(
            rows=StreamedRows(lambda: self.rows.batches(table), policy=policy),
            loss=loss,
            row_norm=Fraction(1),
            regularisation=self.penalty,
            linear=np.zeros((self.rows.width, 1)),
        )
        precision = private_precision(
            objective.count(),
            penalty=float(self.penalty),
            mu=self.count_mu,
            failure=self.count_failure,
            source=source,
        )
        try:
            point = certified_minimum(objective, tolerance=precision.tolerance, exponent=_FINEST)
        except NotCertifiedError:  # the bound of the rows failed, which delta covers: a refusal like any other
            nothing = np.empty(0)
            return _Minimum(precision, nothing, nothing, nothing)
        values, vectors = np.linalg.eigh(objective.hessian(point))
        return _Minimum(precision, point[:, 0], values, vectors)

    def certify(self, secret: _Minimum, source: Source) -> Convexity:
        """Bound the strength from below."""
        precision = secret.precision
        if not len(secret.values):
            return Convexity(math.nan, precision)
        bound = private_lower_bound(
            float(secret.values[0]) - precision.slack,
            sensitivity=STRENGTH_MOVE + 2 * precision.slack,
            mu=self.strength_mu,
            failure=self.failure,
            source=source,
        )
        return Convexity(max(float(self.penalty), bound), precision)

    def choose(self, certificate: Convexity) -> MinimumNoise | None:
        """Return the least noise that the strength allows."""
        known, inexactness = certificate.precision, certificate.precision.inexactness
        if self.order is None:
            move = minimum_move(certificate.strength, inexactness=inexactness)
            if not math.isfinite(move):
                return None
            deviation = move / self.rest
            mu = Fraction(move) / Fraction(deviation)
            return MinimumNoise(deviation, None, deviation, self._price(GDP(mu, numerics="idealized")))
        known_strength: dict[str, Any] = {
            "strength": certificate.strength,
            "directions": "forward",
            "inexactness": inexactness,
        }
        precision = largest_shaped_precision(self.rest, float(self.order), **known_strength)
        if precision is None:
            return None
        divergence = shaped_divergence(float(self.order), precision=precision, **known_strength)
        price = self._price(RDP({self.order: Fraction(divergence)}, numerics="idealized"))
        return MinimumNoise(None, precision, 1 / math.sqrt(precision * known.largest_eigenvalue), price)

    def _price(self, claim: GDP | RDP) -> DrawPrice:
        return DrawPrice(
            law="Gaussian around the minimum",
            claims=Claims.of(claim),
            statistic=f"{self.rows.width} coefficients",
            theorem="stability proof page, section on logistic regression",
        )

    def answer(self, secret: _Minimum, parameter: MinimumNoise, source: Source) -> Answer:
        """Return the minimum with noise, in the units of the columns."""
        noise = priced_normals(self.rows.width, price=parameter.price, source=source)
        if parameter.deviation is not None:
            point = secret.point + parameter.deviation * noise
        else:
            assert parameter.precision is not None
            point = secret.point + secret.vectors @ (noise / np.sqrt(parameter.precision * secret.values))
        exponent = public_grid(parameter.least)
        codes = to_grid(np.asarray(point), exponent, limit=math.ldexp(_LIMIT_STEPS, exponent))
        coefficients, intercept = self.rows.in_units(np.ldexp(codes.astype(np.float64), exponent))
        return Answer(value=np.append(coefficients, intercept), labels=(*self.rows.names, "intercept"))


def _coded(query: StableLogistic, schema: Schema) -> _UnitRows:
    """Code the columns by what the schema declares."""
    category = schema.category(query.target)
    if len(category.labels) != 2:
        raise SchemaError(
            f"the target {query.target!r} needs two labels, got {len(category.labels)}; with two write other=None to "
            "leave out rows with another label"
        )
    radius = positive(query.feature_norm, name="feature_norm")
    numbers = tuple(schema.number(name) for name in query.features)
    centres = (Fraction(0),) * len(numbers)
    vector = ClippedVector(columns=numbers, radius=radius, levels=LEVELS, centres=centres)
    unit = radius / LEVELS
    constant = (exact(query.intercept, name="intercept") / unit + Fraction(1, 2)).__floor__()
    if not 0 <= constant < 1 << 200:
        raise RangeError(f"intercept must be 0 or more, and not far beyond feature_norm, got {query.intercept}")
    coding: Any = CombinedCoding((vector, CategoryCoding(category)))
    return _UnitRows(tuple(query.features), coding, constant, unit)

"""OPS-PTR: posterior samples for penalties picked by chance, the best of which, judged by public rows, is released.

One run releases a bound of the coefficients' length and a sample; it satisfies a Renyi bound of ρα at the orders up to
one public order, but for a small probability. That is a privacy profile, and the profile theorem of private selection
prices the best of a random number of runs (stability proof page, Theorem 11; tuning proof page, Theorem 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, RDP, Amount, ApproxDP, Claims, Profile, decimal_text, positive
from sidelight.guarantees.conversions import gdp_within, renyi_delta, renyi_epsilon
from sidelight.guarantees.intervals import round_up
from sidelight.mechanisms.meter import Meter
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import private_lower_bound, private_upper_bound
from sidelight.noise import Source, below
from sidelight.published.adaops import Ridge, least_noise, posterior_answer, residual_move
from sidelight.records import Schema, Table
from sidelight.regression.least_squares_codes import LeastSquaresCodes, least_squares_codes
from sidelight.session import Answer, Refusal
from sidelight.stability.propose_test_release import (
    PreparedProposal,
    ProposingQuery,
    amounts,
    check_rows_at_most,
    order_budget,
    row_budget,
)
from sidelight.tuning import Poisson, PublicScore, Runs, best_of, geometric, ratio_bound
from sidelight.tuning.pricing import log_delta

if TYPE_CHECKING:
    from sidelight.guarantees.curves import Floats

#: Of one run's budget, what the bound of the coefficients' length takes.
_BOUND_SHARE = 0.2
#: Penalties are tried from here on, in orders over the strength that they need: below it runs always come out empty.
_ROOM = 1.2
#: Penalties that are tried, in strengths that are needed: those below 1 are there for data whose eigenvalue helps. (The
#: source tries 2.5 to 2.5^10, most of which always come out empty at ε = 0.1.)
_TRIED = tuple(np.geomspace(2.0**-4, 2.0**5, 19).tolist())
_EMPTY = "no run of the search kept within the budget that was proposed"
_THEOREM = "stability proof page, Theorem 11"

_ORDERS = 48
_ATTEMPTS = 8
#: Of epsilon and delta, what the eigenvalue's release takes (its failure takes as much of delta again).
_FIRST = Fraction(1, 10)
#: Of what one run may fail with, the part of its private bound.
_BOUND_FAILURE = Fraction(1, 3)
#: The order is chosen as if this share of epsilon was left to one run; a guess that costs accuracy only.
_GUESS = Fraction(3, 5)


@dataclass(frozen=True, kw_only=True)
class OPSPTR(ProposingQuery):
    """Release a linear regression: posterior samples for random penalties, tested one by one, the best by a public
    score.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, numerics "idealized": the
    smallest eigenvalue once, then a private selection among tested samples, each bounded in both directions (stability
    proof page, Theorem 11). Nothing of the number of runs, or of runs that lost, is released.

    Accuracy: worth its price where the score is good and no penalty can be guessed; `AdaOPS` spends the same budget on
    one sample. Use `sl.LinearRegression` instead unless you need a posterior sample: it had a smaller error on every
    real set on which any of them learned something (how-to page "when to let the data decide").

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
    _wanted = "a regression wants sl.Table(data, schema=[...])"

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        check_rows_at_most(self)
        if not isinstance(self.score, PublicScore):
            raise RangeError(
                f"the score must be a PublicScore, got {type(self.score).__name__}: no run pays for another"
            )
        if self.penalties is not None:
            object.__setattr__(self, "penalties", tuple(self.penalties))
            if not self.penalties:
                raise RangeError("penalties: at least one, or leave them out")

    def prepare(self, schema: Schema) -> PreparedOPSPTR:
        """Check the query against the schema and price it. Opens no data."""
        codes = least_squares_codes(schema, self)
        row = row_budget(self.epsilon, self.delta, unit=schema.unit)
        price = selection_price(row.epsilon, row.delta, self.runs)
        if self.penalties is None:
            penalties = tuple(_ROOM * float(price.order) * each for each in _TRIED)
        else:
            penalties = tuple(float(positive(each, name="penalty")) for each in self.penalties)
        return PreparedOPSPTR(
            claims=row.idealized,
            within=Claims.of(ApproxDP(row.epsilon, row.delta, numerics="idealized")),
            request={
                "kind": "selected_posterior_sample",
                "features": list(self.features),
                "target": self.target,
                **amounts(self, "feature_norm"),
                "intercept": decimal_text(codes.intercept),
                **amounts(self, "epsilon", "delta"),
                "score": self.score.description,
                "runs": self.runs.to_json(),
                "penalties": [repr(each) for each in penalties],
                "order": decimal_text(price.order),
                "rows_at_most": str(self.rows_at_most),
            },
            refusal=_EMPTY,
            codes=codes,
            price=price,
            score=self.score,
            runs=self.runs,
            penalties=penalties,
            rows_at_most=self.rows_at_most,
        )


@dataclass(frozen=True)
class _Candidate:
    """A penalty whose samples can be certified, and the leverage that the released eigenvalue leaves with it."""

    penalty: float
    leverage: float


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedOPSPTR(PreparedProposal[Ridge, float, tuple[_Candidate, ...]]):
    """An `OPSPTR` fitted to a schema."""

    codes: LeastSquaresCodes
    price: SelectionPrice
    score: PublicScore
    runs: Runs
    penalties: tuple[float, ...]
    rows_at_most: int

    def look(self, table: Table, source: Source) -> Ridge:
        """Read the moments of the rows."""
        return Ridge.look(table, self.codes)

    def certify(self, secret: Ridge, source: Source) -> float:
        """Release a lower bound of the smallest eigenvalue, once, outside the selection."""
        price = DrawPrice(
            law="rounded Gaussian",
            claims=self.price.eigenvalue_claims,
            statistic="a lower bound of the smallest eigenvalue",
            theorem=_THEOREM,
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
        """Keep the penalties that are large enough with this eigenvalue."""
        need = _ROOM * float(self.price.order)
        kept = [each for each in self.penalties if each + certificate >= need]
        return tuple(_Candidate(each, 1 / (each + certificate)) for each in kept) or None

    def answer(self, secret: Ridge, parameter: tuple[_Candidate, ...], source: Source) -> Answer | Refusal:
        """Search among tested samples."""

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
            theorem=_THEOREM,
        )
        with source.paying(search):
            best = best_of(run, self.runs, source=source)
        return Refusal(reason=_EMPTY) if best is None else best

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
        chosen = least_noise(
            (1 - _BOUND_SHARE) * rho * float(self.price.order),
            self.price.order,
            penalty=candidate.penalty,
            leverage=candidate.leverage,
            residual=math.exp(min(log_residual, 700.0)),
            directions="both",
        )
        if chosen is None:
            return None
        return posterior_answer(secret, self.codes, chosen, rows_at_most=self.rows_at_most, source=source)


@dataclass(frozen=True)
class RareRenyiCurve:
    """The profile of a mechanism that keeps Renyi bounds but for a probability: H_x <= failure + min over orders."""

    rho: Fraction
    orders: tuple[Fraction, ...]
    failure: Fraction

    def delta(self, x: Fraction) -> Fraction:
        at = float(x)
        order = min(self.orders, key=lambda a: log_delta(float(a), float(self.rho) * float(a), at))
        return min(Fraction(1), self.failure + renyi_delta(self.rho * order, order - 1, x))

    def floats(self, x: Floats) -> Floats:
        return np.array([float(self.delta(Fraction(float(each)))) * (1 + 1e-12) for each in x])

    def gaussian_tail_from(self, mu: float) -> float | None:
        return None

    def to_json(self) -> dict[str, Any]:
        return {"type": "rare_renyi", "rho": decimal_text(self.rho), "failure": decimal_text(self.failure)}


@dataclass(frozen=True, kw_only=True)
class SelectionPrice:
    """How (epsilon, delta) is divided: a tenth of both for the eigenvalue, a tenth of delta for its failure."""

    epsilon: Fraction  # of everything, for a row
    delta: Fraction
    eigenvalue_mu: float  # Gaussian privacy of the eigenvalue's release, and how often its bound is wrong at most
    eigenvalue_failure: float
    order: Fraction  # the highest Renyi order of one run, at which samples are calibrated
    rho: Fraction  # Renyi divergence per order of one run, bound and sample together
    bound_failure: Fraction  # how often the bound of a run is wrong, at most

    @property
    def eigenvalue_claims(self) -> Claims:
        """What the release of the eigenvalue costs a row, with the probability that its bound is wrong."""
        found = _of_eigenvalue(self.eigenvalue_mu, self.delta)
        failed = found.delta + Fraction(self.eigenvalue_failure)
        return Claims.of(ApproxDP(found.epsilon, failed, numerics="idealized"))

    @property
    def search_claims(self) -> Claims:
        """What the search costs a row: all that is left (Theorem 11)."""
        left = _left_for_search(self.epsilon, self.delta, self.eigenvalue_mu)
        return Claims.of(ApproxDP(left, self.delta * (1 - 2 * _FIRST), numerics="idealized"))

    @property
    def run_claims(self) -> Claims:
        """What one run of the search may cost a row, but for the probability that its bound is wrong."""
        return Claims.of(RDP({self.order: self.rho * self.order}, numerics="idealized"))


def _of_eigenvalue(mu: float, delta: Fraction) -> ApproxDP:
    found = Claims.of(GDP(Fraction(mu), numerics="idealized")).approx_at(delta * _FIRST)
    assert found is not None
    return found


def _left_for_search(epsilon: Fraction, delta: Fraction, mu: float) -> Fraction:
    """Return the epsilon of the search: its share, less what the eigenvalue's was rounded up by."""
    return min(epsilon * (1 - _FIRST), epsilon - _of_eigenvalue(mu, delta).epsilon)


def _float_below(amount: Fraction) -> float:
    """Return a float that is not above the amount: what it is added to must not exceed the price."""
    found = float(amount)
    return found if Fraction(found) <= amount else math.nextafter(found, 0.0)


@lru_cache(maxsize=64)
def selection_price(epsilon: Fraction, delta: Fraction, runs: Runs) -> SelectionPrice:
    """Divide a budget: the largest ρ of one run for which the whole search is proved to be (epsilon, delta)-private."""
    each = (1 - 2 * _FIRST) * delta / round_up(runs.mean().upper)
    failure = each * _BOUND_FAILURE
    order = order_budget(epsilon * _GUESS, each - failure).order
    first_mu = float(gdp_within(epsilon * _FIRST, delta * _FIRST)) * (1 - 1e-12)
    left = _left_for_search(epsilon, delta, first_mu)

    most = order_budget(left, each - failure, order=order).divergence / order
    guess = _guessed_rho(float(left), float(each), float(failure), _orders(order), float(most), runs)
    rho = Fraction(0)
    for _ in range(_ATTEMPTS):  # the guess is made with floats; what is used is proved
        guess *= 1 - 1e-3
        tried = Fraction(math.floor(guess * 1e18), 10**18)
        if tried > 0 and search_epsilon(tried, order=order, each=each, failure=failure, runs=runs) <= left:
            rho = tried
            break
    if rho <= 0:
        raise RangeError(
            f"epsilon {float(epsilon):.4g} leaves nothing for a run of the search; use fewer runs, or AdaOPS"
        )
    return SelectionPrice(
        epsilon=epsilon,
        delta=delta,
        eigenvalue_mu=first_mu,
        eigenvalue_failure=_float_below(delta * _FIRST),
        order=order,
        rho=rho,
        bound_failure=failure,
    )


def search_epsilon(rho: Fraction, *, order: Fraction, each: Fraction, failure: Fraction, runs: Runs) -> Fraction:
    """Return the epsilon of the search where E[K] `each` is its delta: one run's at `each`, plus the tilt."""
    orders = _orders(order)
    one = min(renyi_epsilon(rho * a, a - 1, each - failure) for a in orders)
    curve = RareRenyiCurve(rho, orders, failure)
    return one + ratio_bound(Claims.of(Profile(curve, curve)), runs)


def _guessed_rho(
    left: float, each: float, failure: float, orders: tuple[Fraction, ...], most: float, runs: Runs
) -> float:
    """Bisect `search_epsilon` in floats."""
    grid = [float(a) for a in orders]

    def delta(rho: float, x: float) -> float:
        return min(1.0, failure + math.exp(min(0.0, min(log_delta(a, rho * a, x) for a in grid))))

    def total(rho: float) -> float:
        one = min(rho * a + math.log1p(-1 / a) - (math.log(each - failure) + math.log(a)) / (a - 1) for a in grid)
        if isinstance(runs, Poisson):
            return one + float(runs.rate) * delta(rho, 0.0)
        low, high = 0.0, left
        for _ in range(40):
            x = (low + high) / 2
            enough = math.expm1(x) >= (1 / float(runs.gamma) - 1) * delta(rho, x)
            low, high = (low, x) if enough else (x, high)
        return one + (1 + float(runs.eta)) * high

    low, high = 0.0, most
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if total(middle) <= left else (low, middle)
    return low


def _orders(highest: Fraction) -> tuple[Fraction, ...]:
    grid = [2 * (float(highest) / 2) ** (place / (_ORDERS - 1)) for place in range(_ORDERS - 1)]
    return (*sorted({Fraction(round(a, 3)).limit_denominator(1000) for a in grid}), highest)

"""What clear votes of teachers cost, how that they are clear is proposed and tested, and which proposal to make.

A query that is won clearly costs less than one that is close. The cost of one noisy vote is that of Papernot et al.
(2018), Theorem 6: the data-dependent analysis of Gaussian noisy maxima. It depends on the votes and is secret; only a
private test may use it (stability proof page, section 4). Tested is the number of teachers who would have to change
until the summed cost exceeds the proposed budget; the literature's test smooths a sensitivity instead and pays more
(Theorem 8). In logarithms throughout: an error probability of exp(-1000) is an ordinary number.

Proposals are chosen from public things alone: numbers, and votes that are public or simulated. The votes of the private
teachers never come here: a proposal chosen from them would reveal them. A wrong guess costs a refusal, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, ApproxDP, decimal_text, exact, positive
from sidelight.guarantees.amounts import last_where
from sidelight.guarantees.conversions import gdp_epsilon, renyi_epsilon
from sidelight.mechanisms.tests_and_bounds import GaussianTest, upper_quantile
from sidelight.noise import Source
from sidelight.readable import at_most
from sidelight.stability.pate.votes import checked_votes

Floats = NDArray[np.float64]

#: Quantiles are computed in floats: a step is made this much longer, and the start this much lower, so that rounding
#: can hide neither a movement nor an excess.
_SLACK = 1e-9
#: Points at which the cost is checked to fall with the quantile.
_CHECKED = 4096
#: Beyond, error probabilities leave the range of floats; the cost there is taken to be the cost here, from above.
LARGEST_QUANTILE = 35.0
#: Noisy votes are compared on a grid of 1/FINE of a vote.
FINE = 1024
#: Sums of floats may be rounded down: budgets are compared a little lower, divergences charged a little higher.
_ROUNDING = 1e-9
_TEST_SCALES = (2, 3, 4, 5, 7, 10, 14, 20, 28, 40)


def log_error_probability(votes: ArrayLike, *, noise_scale: float, tie_margin: float = 0.0) -> Floats:
    """Return, for each query, the logarithm of a bound q of the probability that the noisy winner is not the true one.

    q = Σ Φ(-(gap - tie_margin)/(√2 σ)) over the other classes, at most 1 - 1/C. `tie_margin` is the width of the grid
    on which noisy votes are compared.

    >>> votes = [[390, 4, 2, 1, 1, 1, 1, 0, 0, 0]]
    >>> round(float(log_error_probability(votes, noise_scale=40)[0]), 8)
    -24.28860976
    """
    from scipy.special import log_ndtr, logsumexp

    counts = np.asarray(votes, np.float64)
    winner = counts.argmax(axis=1)
    gaps = counts[np.arange(len(counts)), winner][:, None] - counts - tie_margin
    terms = log_ndtr(-gaps / (math.sqrt(2) * noise_scale))
    terms[np.arange(len(counts)), winner] = -np.inf
    return np.asarray(np.minimum(logsumexp(terms, axis=1), _largest_log_q(counts.shape[1])))


def noisy_max_renyi(log_q: ArrayLike, *, noise_scale: float, order: float) -> Floats:
    """Return the Rényi divergence of one noisy vote from its neighbours', of this order, forward.

    Two orders m₂ = σ√(ln 1/q) and m₁ = m₂ + 1 with their data-independent bounds m/σ² are combined; where the theorem's
    conditions fail the data-independent α/σ² holds, which also caps the result.

    >>> float(noisy_max_renyi([-24.28860976], noise_scale=40, order=5)[0])
    1.980708...e-11
    """
    if not order > 1:
        raise RangeError(f"Renyi orders are above 1, got {order}")
    logs = np.asarray(log_q, np.float64)
    plain = order / noise_scale**2
    with np.errstate(all="ignore"):  # conditions that fail leave infinities and NaN, which are replaced below
        bound, applies = _two_orders(logs, noise_scale, order)
    return np.where(applies & (bound < plain), np.maximum(bound, 0.0), plain)  # NaN compares false: the plain bound


def _two_orders(log_q: Floats, sigma: float, order: float) -> tuple[Floats, Any]:
    second = sigma * np.sqrt(-log_q)
    first = second + 1
    e1, e2 = first / sigma**2, second / sigma**2
    correction = np.log(first / (first - 1)) + np.log(second / (second - 1))
    applies = (first >= order) & (second > 1) & (log_q + e2 < 0) & (log_q <= (second - 1) * e2 - second * correction)
    t = order - 1
    log_right, log_rest = np.log1p(-np.exp(log_q)), np.log1p(-np.exp((log_q + e2) * (1 - 1 / second)))
    agree = (t + 1) * log_right - t * log_rest  # ln[(1-q) A^t], A = (1-q)/(1-(q e^e2)^(1-1/m2)); near 0
    differ = log_q + t * (e1 - log_q / (first - 1))  # ln[q B^t]
    # near 1 the sum loses its digits: add what exceeds 1
    sum_of_both = np.where(differ < 1, np.log1p(np.expm1(agree) + np.exp(differ)), np.logaddexp(agree, differ))
    return sum_of_both / t, applies


def vote_quantile(log_q: ArrayLike, *, classes: int) -> Floats:
    """Return w = -Φ⁻¹(q/(C-1)): one teacher moves it by at most √2/σ (stability proof page, Lemma 7)."""
    from scipy.special import ndtri_exp

    return -np.asarray(ndtri_exp(np.asarray(log_q, np.float64) - math.log(classes - 1)), np.float64)


def log_q_at(quantile: ArrayLike, *, classes: int) -> Floats:
    """Return ln q at a quantile w, with the same cap."""
    from scipy.special import log_ndtr

    logs = log_ndtr(-np.asarray(quantile, np.float64)) + math.log(classes - 1)
    return np.asarray(np.minimum(logs, _largest_log_q(classes)))


def _largest_log_q(classes: int) -> float:
    return math.log1p(-1 / classes)


@dataclass(frozen=True, kw_only=True)
class VoteCost:
    """The cost of a vote as a function of its quantile w: Rényi divergence at one public order."""

    noise_scale: float
    order: float
    classes: int

    @classmethod
    def of(cls, order: Amount, noise_scale: float, votes: ArrayLike) -> VoteCost:
        """Return the cost for as many classes as the votes have."""
        return cls(
            noise_scale=noise_scale, order=float(exact(order, name="order")), classes=int(np.asarray(votes).shape[1])
        )

    @property
    def step(self) -> float:
        """How far one teacher moves a quantile."""
        return math.sqrt(2) / self.noise_scale * (1 + _SLACK) + _SLACK

    def at(self, quantile: ArrayLike) -> Floats:
        """Return the cost, or if it does not always fall with the quantile, its least value on a grid up to there.

        A q that is too large bounds the error probability as well, so the cost at a smaller quantile is always valid.
        """
        wanted = np.asarray(quantile, np.float64)
        if self._falls:
            return self._raw(wanted)
        places = np.clip(np.searchsorted(self._grid, wanted, side="right") - 1, 0, _CHECKED - 1)
        return np.asarray(self._least_so_far[places])

    def _raw(self, quantile: Floats) -> Floats:
        logs = log_q_at(np.minimum(quantile, LARGEST_QUANTILE), classes=self.classes)
        return noisy_max_renyi(logs, noise_scale=self.noise_scale, order=self.order)

    @cached_property
    def _grid(self) -> Floats:
        lowest = float(vote_quantile(math.log1p(-1 / self.classes), classes=self.classes))
        return np.linspace(lowest, LARGEST_QUANTILE, _CHECKED)

    @cached_property
    def _least_so_far(self) -> Floats:
        return np.minimum.accumulate(self._raw(self._grid))

    @cached_property
    def _falls(self) -> bool:
        values = self._raw(self._grid)
        return bool(np.all(np.diff(values) <= 1e-12 * values[:-1]))


def quantiles_of(votes: ArrayLike, cost: VoteCost, *, tie_margin: float) -> Floats:
    """Return the quantile of every query's vote. Secret."""
    logs = log_error_probability(votes, noise_scale=cost.noise_scale, tie_margin=tie_margin)
    return vote_quantile(logs, classes=cost.classes)


def vote_distance(quantiles: Floats, cost: VoteCost, *, budget: float, cap: int) -> int:
    """Return how many teachers must change until the summed cost exceeds the budget, at most `cap`; 0 if it does now.

    >>> cost = VoteCost(noise_scale=40, order=10, classes=10)
    >>> votes = [[390, 4, 2, 1, 1, 1, 1, 0, 0, 0], [300, 60, 20, 5, 5, 5, 2, 1, 1, 1]]
    >>> w = quantiles_of(votes, cost, tie_margin=0.0)
    >>> [vote_distance(w, cost, budget=budget, cap=1000) for budget in (0.001, 0.005, 0.01, 0.012)]
    [37, 52, 111, 116]
    """

    def within(teachers: int) -> bool:
        return bool(cost.at(quantiles - _SLACK - teachers * cost.step).sum() <= budget)  # NaN is not within

    if not within(0):
        return 0
    return min(cap, last_where(within, 0, cap) + 1)  # distances of `cap` and beyond are alike


@dataclass(frozen=True, kw_only=True)
class ClearVotes:
    """The proposal that the votes are clear: their Rényi cost at a public `order` is at most `budget`.

    The test adds noise of `test_scale` to the number of teachers who would have to change before that is false. All
    four numbers are public and fixed before the votes are looked at.
    """

    budget: Amount
    order: Amount = 25
    test_scale: Amount = 10
    delta: Amount

    def __post_init__(self) -> None:
        check_proposal(self.budget, self.order, self.delta)
        positive(self.test_scale, name="test_scale")

    @cached_property
    def price(self) -> ApproxDP:
        """The guarantee of test and labels together: half of delta for a false pass, half for the conversion."""
        order, scale = exact(self.order, name="order"), exact(self.test_scale, name="test_scale")
        return certified_price(order / (2 * scale**2) + exact(self.budget, name="budget"), order, delta=self.delta)

    @cached_property
    def test(self) -> GaussianTest:
        """The test of the distance."""
        return GaussianTest(
            scale=exact(self.test_scale, name="test_scale"), false_pass=exact(self.delta, name="delta") / 2
        )

    def clear(self, votes: NDArray[np.int64], noise_scale: float, source: Source) -> bool:
        """Draw the test's noise and decide."""
        return self.test.passes(self._distance(votes, noise_scale), source)

    def chance(self, votes: NDArray[np.int64], noise_scale: float) -> float:
        """Return how likely these votes pass. As secret as the votes: for public or simulated ones."""
        from scipy.special import ndtr

        ahead = self._distance(votes, noise_scale) - self.test.threshold + 0.5
        return float(ndtr(ahead / float(exact(self.test_scale, name="test_scale"))))

    def _distance(self, votes: NDArray[np.int64], noise_scale: float) -> int:
        cost = VoteCost.of(self.order, noise_scale, votes)
        budget = float(exact(self.budget, name="budget")) * (1 - _ROUNDING)
        return vote_distance(quantiles_of(votes, cost, tie_margin=1 / FINE), cost, budget=budget, cap=self.test.cap)

    def to_json(self) -> dict[str, str]:
        """Return strings only."""
        names = ("budget", "order", "test_scale", "delta")
        return {name: decimal_text(exact(getattr(self, name), name=name)) for name in names}


def plain_epsilon(queries: int, noise_scale: Amount, *, delta: Amount) -> float:
    """Return the epsilon of labels without a proposal: what a proposal has to beat.

    >>> round(plain_epsilon(200, 40, delta="1e-5"), 2)
    1.99
    """
    square = 2 * queries / positive(noise_scale, name="noise_scale") ** 2
    return float(gdp_epsilon(GDP.from_squares(square).mu, exact(delta, name="delta")))


def cheapest_proposal(
    queries: int, noise_scale: Amount, *, delta: Amount, votes: ArrayLike, chance: float = 0.99
) -> ClearVotes | None:
    """Choose a proposal from public votes that look like the private ones; None if the plain price is lower.

    `votes` are public or simulated: a guess of what the teachers will say. They decide what is proposed, never what is
    promised. The test of such votes passes with at least the given `chance`.
    """
    simulated, sigma = checked_votes(votes), float(positive(noise_scale, name="noise_scale"))
    best, best_epsilon = None, plain_epsilon(queries, noise_scale, delta=delta)
    scale_up = queries / len(simulated)
    for order in (*range(2, 20, 2), *range(20, 100, 5)):
        cost = VoteCost(noise_scale=sigma, order=order, classes=simulated.shape[1])
        quantiles = quantiles_of(simulated, cost, tie_margin=1 / FINE)
        for test_scale in _TEST_SCALES:
            test = GaussianTest(scale=Fraction(test_scale), false_pass=exact(delta, name="delta") / 2)
            teachers = test.threshold + math.ceil(test_scale * upper_quantile(1 - chance))
            budget = scale_up * float(cost.at(quantiles - teachers * cost.step).sum()) * 1.01
            if not budget < queries * order / sigma**2:
                continue
            found = ClearVotes(budget=float(f"{budget:.6g}"), order=order, test_scale=test_scale, delta=delta)
            if float(found.price.epsilon) < best_epsilon:
                best, best_epsilon = found, float(found.price.epsilon)
    return best


def pass_chance(proposal: ClearVotes, *, noise_scale: Amount, votes: ArrayLike) -> float:
    """Return how likely a proposal passes if the votes are these: public or simulated ones, one row per query.

    >>> votes = [[380, 15, 5]] * 200
    >>> proposal = ClearVotes(budget="0.02", order=25, delta="1e-5")
    >>> round(pass_chance(proposal, noise_scale=40, votes=votes), 3)
    0.995
    """
    return proposal.chance(checked_votes(votes), float(positive(noise_scale, name="noise_scale")))


@dataclass(frozen=True, kw_only=True)
class VotePrice:
    """What labels will cost, known before any charge; public numbers only."""

    queries: int
    noise_scale: Amount
    delta: Amount
    plain: float
    proposal: ClearVotes | None
    chance: float | None = None  # of passing the test if the votes are as expected, None if nothing is expected

    @property
    def epsilon(self) -> float:
        """The epsilon that will be charged."""
        return self.plain if self.proposal is None else float(self.proposal.price.epsilon)

    def __str__(self) -> str:
        start = f"labels of {self.queries} queries, noise {self.noise_scale}, delta {self.delta}: "
        plain = at_most(self.plain)
        if self.proposal is None:
            return f"{start}epsilon {plain}, whatever the votes; nothing is tested, nothing can be refused"
        share = f"{self.epsilon / self.plain:.0%} of the plain {plain}"
        least = math.floor(1e4 * min(self.chance or 0, 0.9999)) / 1e4  # never shown as certain
        likely = "" if self.chance is None else f", with probability {least:.4g} or more if the votes are as expected"
        return f"{start}epsilon {at_most(self.epsilon)}, {share}; released if the votes are clear{likely}, else refused"


def proposal_table(
    queries: int,
    noise_scale: Amount,
    *,
    delta: Amount,
    budgets: Iterable[Amount],
    order: Amount = 25,
    test_scale: Amount = 10,
    votes: ArrayLike | None = None,
) -> list[VotePrice]:
    """Return the total epsilon against the proposed budget, with the chance to pass if public `votes` are given.

    >>> for row in proposal_table(200, 40, delta="1e-5", budgets=["0.01", "0.1", "1"], votes=[[380, 15, 5]]):
    ...     print(row.proposal.budget, round(row.epsilon, 2), round(row.epsilon / row.plain, 2), round(row.chance, 2))
    0.01 0.47 0.24 0.98
    0.1 0.56 0.28 1.0
    1 1.46 0.73 1.0
    """
    simulated = None if votes is None else checked_votes(votes)
    proposed = (ClearVotes(budget=budget, order=order, test_scale=test_scale, delta=delta) for budget in budgets)
    return [vote_price(queries, noise_scale, delta=delta, proposal=each, votes=simulated) for each in proposed]


def vote_price(
    queries: int,
    noise_scale: Amount,
    *,
    delta: Amount,
    proposal: ClearVotes | None,
    votes: NDArray[np.int64] | None = None,
) -> VotePrice:
    """Return the price of labels, with the chance to pass if the votes are like these public ones."""
    chance = None
    if proposal is not None and votes is not None:
        stretched = votes[np.arange(queries) % len(votes)]
        chance = pass_chance(proposal, noise_scale=noise_scale, votes=stretched)
    plain = plain_epsilon(queries, noise_scale, delta=delta)
    return VotePrice(
        queries=queries, noise_scale=noise_scale, delta=delta, plain=plain, proposal=proposal, chance=chance
    )


def certified_price(divergence: Fraction, order: Fraction, *, delta: Amount) -> ApproxDP:
    """Return the price of a test and a release within this Renyi divergence but for a rare event (Theorem 2).

    Half of delta is for the rare event, half for the conversion; here the two probabilities add up.
    """
    failure = exact(delta, name="delta")
    return ApproxDP(max(renyi_epsilon(divergence, order - 1, failure / 2), Fraction(0)), failure)


def check_proposal(budget: Amount, order: Amount, delta: Amount) -> None:
    """Refuse numbers that propose nothing."""
    positive(budget, name="budget")
    if exact(order, name="order") <= 1:
        raise RangeError(f"Renyi orders are above 1, got {order}")
    check_delta(delta)


def check_delta(delta: Amount) -> None:
    """Refuse what is no probability."""
    if not 0 < exact(delta, name="delta") < 1:
        raise RangeError(f"delta must lie strictly between 0 and 1, got {delta}; 1e-5 is usual for labels")

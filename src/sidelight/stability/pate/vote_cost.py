"""What votes cost, and how many teachers would have to change before that is more than a proposed budget.

An integer of sensitivity 1, 0 exactly where the budget is exceeded already: what `GaussianTest` wants. Not in the
literature's test, which smooths a sensitivity instead and pays more (stability proof page, Theorem 8).

The cost of one noisy vote, given how clearly it was won, is that of Papernot et al. (2018), Theorem 6: the
data-dependent analysis of Gaussian noisy maxima. Everything here is secret: it depends on the votes. Only a private
test may use it (stability proof page, section 4). In logarithms throughout: an error probability of exp(-1000) is an
ordinary number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import Amount, exact

Floats = NDArray[np.float64]


#: Quantiles are computed in floats: a step is made this much longer, and the start this much lower, so that rounding
#: can hide neither a movement nor an excess.
_SLACK = 1e-9

#: Points at which the cost is checked to fall with the quantile.
_CHECKED = 4096

#: Beyond, error probabilities leave the range of floats; the cost there is taken to be the cost here, from above.
LARGEST_QUANTILE = 35.0


def checked_votes(votes: ArrayLike) -> NDArray[np.int64]:
    """Return vote counts as integers, one row a query, one column a class; refuse what no count can be."""
    array = np.asarray(votes)
    if array.ndim != 2 or array.shape[1] < 2:
        raise RangeError(
            f"votes want one row a query and one column a class, at least two classes; got shape {array.shape}"
        )
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)) or np.any(array != np.floor(array)):
        raise RangeError("votes are counts of teachers: whole numbers, and some are not")
    if np.any(array < 0):
        raise RangeError("votes are counts of teachers: none may be negative")
    return np.asarray(array, np.int64)


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
        # written so that NaN is not within
        return bool(cost.at(quantiles - _SLACK - teachers * cost.step).sum() <= budget)

    if not within(0):
        return 0
    low, high = 0, cap  # within(low); distances of `cap` and beyond are alike
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if within(middle) else (low, middle)
    return min(cap, low + 1)

"""DP-SGD for logistic regression in NumPy, the usual competitor: with tuning paid for (honest) and not (dishonest).

Poisson batches of 256 on average, 60 epochs, every gradient clipped to √2, Gaussian noise on the sum, Adam; ten
learning rates from 1e-8 to 1e-1. Accounted by dp_accounting in Rényi orders, for rows added or removed.

Dishonest: every learning rate is tried, the best by test accuracy is kept, and one run is paid for. Honest: K runs, K
Poisson with mean 15.4 (more than ten with probability 0.9), each with a learning rate drawn from the grid, and the
price is that of the selection (Papernot and Steinke 2022). Both pick the winner by its test accuracy, as in the thesis:
an honest user would pay for that score too, so the honest line flatters DP-SGD. Runs of one call share their batches,
which changes the law of no single run; a real release would draw each anew.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

BATCH, EPOCHS, CLIP = 256, 60, math.sqrt(2)
RATES = np.logspace(-8, -1, 10)
MEAN_RUNS = 15.4
#: The noise is rounded up by about as much.
_PRECISION = 1e-4


@dataclass(frozen=True)
class Runs:
    """Some runs that are trained side by side: one noise multiplier and one learning rate each."""

    multipliers: np.ndarray
    rates: np.ndarray


def steps(rows: int) -> int:
    """Return the number of steps of 60 epochs."""
    return EPOCHS * math.ceil(rows / BATCH)


@lru_cache(maxsize=64)
def noise_multiplier(rows: int, *, epsilon: float, delta: float, honest: bool) -> float:
    """Return the smallest noise multiplier whose run (or whose selection of runs) is (epsilon, delta)-private."""
    from scipy.optimize import brentq

    price = selection_epsilon if honest else run_epsilon
    low = high = 1.0
    while price(high, rows, delta) > epsilon:
        low, high = high, 2 * high
    while price(low, rows, delta) <= epsilon:
        low, high = low / 1.25, low

    def excess(log_multiplier: float) -> float:
        return math.log(min(price(math.exp(log_multiplier), rows, delta), 1e300) / epsilon)

    found = math.exp(brentq(excess, math.log(low), math.log(high), xtol=_PRECISION))
    while price(found, rows, delta) > epsilon:
        found *= 1 + _PRECISION
    return found


def renyi(multiplier: float, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Rényi orders and divergences of one run."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = [1 + x / 10 for x in range(1, 100)] + [*range(11, 64), 128, 256, 512, 1024]
    logging.getLogger("absl").setLevel(logging.ERROR)  # orders for which its series fails are left out, with a warning
    accountant = RdpAccountant(orders)
    accountant.compose(PoissonSampledDpEvent(BATCH / rows, GaussianDpEvent(multiplier)), steps(rows))
    return np.array(orders), np.array(accountant._rdp)  # no public way to read the curve


def run_epsilon(multiplier: float, rows: int, delta: float) -> float:
    """Return the epsilon of one run."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    return float(compute_epsilon(*renyi(multiplier, rows), delta)[0])


def selection_epsilon(multiplier: float, rows: int, delta: float) -> float:
    """Return the epsilon of the best of Poisson(15.4) runs; for this mean the same as `sidelight.tuning` proves."""
    from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon

    orders, each = renyi(multiplier, rows)
    # Papernot and Steinke (2022), Theorem 6, with the mean plus the chance of no run where they print the mean.
    tilts = np.array([compute_delta(orders, each, math.log1p(1 / (order - 1)))[0] for order in orders])
    weight = math.log(MEAN_RUNS + math.exp(-MEAN_RUNS))
    return float(compute_epsilon(orders, each + MEAN_RUNS * tilts + weight / (orders - 1), delta)[0])


def train(rows: np.ndarray, labels: np.ndarray, runs: Runs, rng: np.random.Generator) -> np.ndarray:
    """Train every run; return coefficients of shape (columns of `rows`, runs). Labels are -1 and 1.

    `rows` hold the intercept column and have norm at most √2: a gradient is a slope in [-1, 1] times its row, so the
    clipping to √2 never shortens one, and is checked instead of computed.
    """
    n, width = rows.shape
    rows, labels = rows.astype(np.float32), labels.astype(np.float32)  # a benchmark of accuracy, twice as fast
    rates, scale = runs.rates.astype(np.float32), (runs.multipliers * CLIP).astype(np.float32)
    assert np.linalg.norm(rows, axis=1).max() <= CLIP * (1 + 1e-6), "gradients would be longer than the clip"
    weights = np.zeros((width, len(rates)), dtype=np.float32)
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, steps(n) + 1):
        chosen = rng.choice(n, rng.binomial(n, BATCH / n), replace=False, shuffle=False)  # each row with q by itself
        gradient = noisy_gradient(rows[chosen], labels[chosen, None], weights, scale, rng)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient * gradient
        weights -= rates * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
    return weights


def noisy_gradient(
    batch: np.ndarray, signs: np.ndarray, weights: np.ndarray, scale: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the sum of a batch's gradients with noise of one standard deviation a run, over the mean batch size."""
    slopes = -signs / (1 + np.exp(np.clip(signs * (batch @ weights), -80, 80)))
    noise = scale * rng.standard_normal(weights.shape, dtype=np.float32)
    return np.asarray((batch.T @ slopes + noise) / BATCH)


def accuracies(
    train_set: tuple[np.ndarray, np.ndarray],
    test_set: tuple[np.ndarray, np.ndarray],
    *,
    epsilons: Sequence[float],
    delta: float,
    seed: int,
) -> dict[tuple[str, float], float]:
    """Return the test accuracy of ("honest" or "dishonest", epsilon) on one split; rows without the intercept."""
    rng = np.random.default_rng(seed)
    (x, y), (x_test, y_test) = (_with_intercept(part) for part in (train_set, test_set))
    parts: dict[tuple[str, float], slice] = {}
    multipliers: list[float] = []
    rates: list[float] = []
    for epsilon in epsilons:
        for name in ("dishonest", "honest"):
            multiplier = noise_multiplier(len(x), epsilon=epsilon, delta=delta, honest=name == "honest")
            tried = RATES if name == "dishonest" else rng.choice(RATES, rng.poisson(MEAN_RUNS))
            parts[name, epsilon] = slice(len(rates), len(rates) + len(tried))
            rates += tried.tolist()
            multipliers += [multiplier] * len(tried)
    weights = train(x, y, Runs(np.array(multipliers), np.array(rates)), rng)
    right = ((x_test @ weights > 0) == (y_test[:, None] > 0)).mean(axis=0)
    # No run at all (probability 2e-7): the answer is a constant, as every class is as good as another.
    return {key: float(right[part].max(initial=0.5)) for key, part in parts.items()}


def _with_intercept(part: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    rows, labels = part
    return np.column_stack([rows, np.ones(len(rows))]), np.where(labels > 0, 1.0, -1.0)

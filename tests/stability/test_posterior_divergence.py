"""Posterior sampling: the data-dependent loss against true divergences of neighbouring pairs, both directions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from benchmarks.baselines.posterior_losses import (
    gaussian_pair_delta,
    nonprivate_gaussian_divergence,
    nonprivate_posterior_divergence,
    nonprivate_posterior_loss,
)

from sidelight.errors import RangeError
from sidelight.mechanisms.tests_and_bounds import upper_quantile
from sidelight.published.adaops import largest_precision, posterior_divergence, residual_move

KINDS = ("add", "add backward", "remove", "remove backward")


def tail_epsilon(*, leverage: float, residual: float, precision: float, delta: float) -> float:
    """Return an epsilon at `delta` by a tail bound, forward, added or removed: larger than what divergences give.

    t = z(δ/2): t R √(γh) + γR²h/(2(1 - h)) + max(t²h/2, -ln(1 - h)/2). For comparison with the literature, which writes
    √(ln(2/δ)) for t and is wrong.
    """
    if not 0 <= leverage < 1:
        return math.inf
    t = upper_quantile(delta / 2)
    middle = precision * residual**2 * leverage / (2 * (1 - leverage))
    spread = max(t * t * leverage / 2, -math.log1p(-leverage) / 2)
    return t * residual * math.sqrt(precision * leverage) + middle + spread


@pytest.mark.parametrize(
    ("h", "residual", "precision", "order", "forward", "both"),
    [
        (0.02, 3, 0.5, 8, 0.4112684667, 0.4382271934),
        (0.01, 2, 25, 10, 5.4403687668, 5.6119421204),
        (0.001, 1.5, 400, 20, 9.1651518407, 9.1928714068),
    ],
)
def test_reference_divergences(
    h: float, residual: float, precision: float, order: float, forward: float, both: float
) -> None:
    given = {"leverage": h, "residual": residual, "precision": precision}
    assert posterior_divergence(order, **given, directions="forward") == pytest.approx(forward, rel=1e-9)
    assert posterior_divergence(order, **given, directions="both") == pytest.approx(both, rel=1e-9)


def test_reference_losses() -> None:
    found = [nonprivate_posterior_loss(0.01, 10, 1, 4, kind) for kind in ("add", "add backward", "remove")]
    assert found == pytest.approx([5.8882330e-05, 2.7533706e-05, 3.7029500e-05], rel=1e-6)
    assert tail_epsilon(leverage=0.01, residual=10, precision=1, delta=1e-6) == pytest.approx(5.51632962, rel=1e-8)


def test_reference_precision() -> None:
    found = [largest_precision(1, 20, leverage=0.01, residual=2, directions=d) for d in ("forward", "both")]
    assert found == pytest.approx([2.044083952, 1.978846554], rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_true_losses_by_integration(kind: str) -> None:
    h, r, gamma, epsilon = 0.03, 4.0, 2.0, 1.5
    sign = 1 if kind.startswith("add") else -1
    mean, variance = sign * r * math.sqrt(gamma * h) / (1 + sign * h), 1 / (1 + sign * h)
    z = np.linspace(-30, 30, 2_000_001)
    p = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    q = np.exp(-((z - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    if kind.endswith("backward"):
        p, q = q, p
    step = z[1] - z[0]
    delta = np.maximum(p - math.exp(epsilon) * q, 0).sum() * step
    assert nonprivate_posterior_loss(h, r, gamma, epsilon, kind) == pytest.approx(delta, rel=1e-4)
    order = 3.0
    seen = (p > 1e-100) & (q > 1e-100)
    moment = math.log((p[seen] ** order * q[seen] ** (1 - order)).sum() * step) / (order - 1)
    assert nonprivate_posterior_divergence(h, r, gamma, order, kind) == pytest.approx(moment, rel=1e-6)


def test_a_pair_of_equal_variances_is_the_gaussian_mechanism() -> None:
    assert gaussian_pair_delta(1.0, 1.0, 1.0) == pytest.approx(0.126936738, rel=1e-8)
    assert gaussian_pair_delta(-0.5, 1.0, 0.5) == pytest.approx(0.0524403233, rel=1e-8)
    assert gaussian_pair_delta(0.0, 1.0, 0.5) == 0


def printed_epsilon(h: float, residual: float, gamma: float, delta: float) -> float:
    """The formula of the literature, with its tail √ln(2/δ): a planted wrong constant."""
    tail = math.log(2 / delta)
    return math.sqrt(gamma * residual**2 * h * tail) + gamma * residual**2 * h / (2 * (1 + h)) + (1 + tail) * h / 2


@pytest.mark.planted("a tail of the literature that does not hold")
def test_the_printed_tail_is_caught() -> None:
    epsilon = printed_epsilon(0.01, 10, 1, 1e-6)
    assert epsilon == pytest.approx(4.38161599, rel=1e-8)
    assert nonprivate_posterior_loss(0.01, 10, 1, epsilon, "add") == pytest.approx(1.324555e-05, rel=1e-6)
    right = tail_epsilon(leverage=0.01, residual=10, precision=1, delta=1e-6)
    assert max(nonprivate_posterior_loss(0.01, 10, 1, right, kind) for kind in ("add", "remove")) <= 1e-6


def random_pair(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
    """Rows and targets of length at most 1, one more record, often the worst one, and a penalty."""
    d, n = int(rng.integers(1, 5)), int(rng.integers(3, 60))
    x = rng.normal(size=(n, d)) * rng.uniform(0.1, 1, size=d)
    x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
    y = np.clip(x @ rng.normal(size=d) * rng.uniform(0, 2) + rng.normal(size=n) * 0.3, -1, 1)
    penalty = float(rng.uniform(1.5, 30))
    _, vectors = np.linalg.eigh(x.T @ x)
    record = vectors[:, 0] if rng.random() < 0.5 else rng.normal(size=d)
    record = record / np.linalg.norm(record)
    theta = np.linalg.solve(x.T @ x + penalty * np.eye(d), x.T @ y)
    target = -float(np.sign(record @ theta) or 1.0)
    return x, y, record, target, penalty


def posterior(x: np.ndarray, y: np.ndarray, penalty: float, precision: float) -> tuple[np.ndarray, np.ndarray]:
    gram = x.T @ x + penalty * np.eye(x.shape[1])
    return np.linalg.solve(gram, x.T @ y), precision * gram


def bounds_at(x: np.ndarray, y: np.ndarray, penalty: float) -> tuple[float, float]:
    strength = penalty + float(np.linalg.eigvalsh(x.T @ x)[0])
    theta, _ = posterior(x, y, penalty, 1.0)
    return 1 / strength, 1 + float(np.linalg.norm(theta))


def ratios(count: int, seed: int) -> np.ndarray:
    """True divergence over stated bound, for each random pair: forward and both, at both data sets of the pair."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        x, y, record, target, penalty = random_pair(rng)
        more_x, more_y = np.vstack([x, record]), np.append(y, target)
        precision = float(rng.uniform(0.05, 20))
        here, there = (posterior(a, b, penalty, precision) for a, b in ((x, y), (more_x, more_y)))
        for (a, b), mine, other in (((x, y), here, there), ((more_x, more_y), there, here)):
            h, residual = bounds_at(a, b, penalty)
            top = 1 / h
            order = float(rng.uniform(2, max(2.0001, min(30.0, 0.9 * top))))
            given = {"leverage": h, "residual": residual, "precision": precision}
            forward = nonprivate_gaussian_divergence(order, *mine, *other)
            backward = nonprivate_gaussian_divergence(order, *other, *mine)
            stated = posterior_divergence(order, **given, directions="forward")
            both = posterior_divergence(order, **given, directions="both")
            found.append((forward / stated, max(forward, backward) / both))
    return np.array(found)


def test_no_neighbour_of_random_data_loses_more_than_stated() -> None:
    found = ratios(1000, seed=1)
    assert found.max() <= 1 + 1e-9
    assert found[:, 0].max() > 0.98  # attained: no constant can be smaller
    assert found[:, 1].max() > 0.95


def test_additions_alone_are_not_enough() -> None:
    """The negative control: a forward bound used for both directions is refuted, as is a residual without |θ|."""
    rng = np.random.default_rng(2)
    worst = 0.0
    for _ in range(300):
        x, y, record, target, penalty = random_pair(rng)
        more_x, more_y = np.vstack([x, record]), np.append(y, target)
        here, there = posterior(x, y, penalty, 5.0), posterior(more_x, more_y, penalty, 5.0)
        h, residual = bounds_at(more_x, more_y, penalty)
        order = 2.0
        stated = posterior_divergence(order, leverage=h, residual=residual, precision=5.0, directions="forward")
        worst = max(worst, nonprivate_gaussian_divergence(order, *here, *there) / stated)
    assert worst > 1.05


def test_the_residual_moves_as_stated_and_not_as_printed() -> None:
    rng = np.random.default_rng(3)
    stated, printed = 0.0, 0.0
    for _ in range(2000):
        x, y, record, target, penalty = random_pair(rng)
        more_x, more_y = np.vstack([x, record]), np.append(y, target)
        for a, b, c, e in ((x, y, more_x, more_y), (more_x, more_y, x, y)):
            h, residual = bounds_at(a, b, penalty)
            move = abs(math.log(bounds_at(c, e, penalty)[1] / residual))
            stated, printed = max(stated, move / residual_move(h)), max(printed, move / math.log1p(h))
    assert stated <= 1 + 1e-9
    assert printed > 1.1  # ln(1 + h), for additions only


def test_divergence_per_order_never_falls() -> None:
    for directions in ("forward", "both"):
        for h in (0.001, 0.01, 0.03):
            orders = np.linspace(2, 0.95 / h if h > 0.01 else 60, 200)
            rates = [
                posterior_divergence(a, leverage=h, residual=2, precision=3, directions=directions) / a for a in orders
            ]
            assert (np.diff(rates) >= -1e-12).all()


def test_outside_its_range_nothing_is_certified() -> None:
    for h in (1.0, 2.0, math.nan, 0.0, -1.0):
        assert largest_precision(1, 20, leverage=h, residual=2, directions="forward") is None
    for residual in (math.nan, math.inf, 0.0):
        assert largest_precision(1, 20, leverage=0.01, residual=residual, directions="both") is None
    assert largest_precision(math.nan, 20, leverage=0.01, residual=2, directions="both") is None
    assert largest_precision(1e-9, 20, leverage=0.04, residual=2, directions="both") is None
    assert posterior_divergence(20, leverage=0.06, residual=1, precision=1, directions="forward") == math.inf
    with pytest.raises(RangeError, match="orders of at least 2"):
        posterior_divergence(1.5, leverage=0.01, residual=1, precision=1, directions="forward")
    with pytest.raises(RangeError, match="kind"):
        nonprivate_posterior_loss(0.01, 1, 1, 1, "sideways")  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="leverage"):
        nonprivate_posterior_loss(1.5, 1, 1, 1, "remove")

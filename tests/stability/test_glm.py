"""Logistic regression with tested convexity: its losses against true divergences, releases, refusals, mistakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.baselines.posterior_losses import nonprivate_gaussian_divergence
from scipy.optimize import minimize
from scipy.special import expit

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.published.logistic_divergence import (
    STRENGTH_MOVE,
    Precision,
    largest_shaped_precision,
    minimum_move,
    shaped_divergence,
)
from sidelight.published.stable_logistic import Convexity, StableLogistic
from sidelight.release import Refused, Release
from sidelight.testing import seeded_release


@pytest.mark.parametrize(
    ("strength", "precision", "order", "forward", "both"),
    [
        (50, 1, 4, 0.0459868754, 0.0473053098),
        (20, 0.5, 8, 0.2206664649, 0.2517578919),
        (200, 10, 16, 0.4467384962, 0.4498558024),
    ],
)
def test_reference_divergences(strength: float, precision: float, order: float, forward: float, both: float) -> None:
    given = {"strength": strength, "precision": precision}
    assert shaped_divergence(order, **given, directions="forward") == pytest.approx(forward, rel=1e-8)
    assert shaped_divergence(order, **given, directions="both") == pytest.approx(both, rel=1e-8)


def test_reference_moves() -> None:
    assert minimum_move(50) == pytest.approx(0.0202027073, rel=1e-8)
    printed = {penalty: 0.25 + 1 / (1 - 1 / penalty) for penalty in (2, 10)}
    assert printed == {2: pytest.approx(2.25), 10: pytest.approx(1.3611111)}
    assert min(printed.values()) > STRENGTH_MOVE  # ours needs no condition on the penalty and is smaller


def fitted(x: np.ndarray, y: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """The minimum and the Hessian there, by Newton's method."""
    theta = np.zeros(x.shape[1])
    first = minimize(
        lambda t: np.logaddexp(0, -y * (x @ t)).sum() + penalty / 2 * t @ t,
        theta,
        jac=lambda t: -x.T @ (y * expit(-y * (x @ t))) + penalty * t,
        method="BFGS",
    ).x
    for _ in range(8):
        bend = expit(x @ first) * expit(-(x @ first))
        hessian = (x.T * bend) @ x + penalty * np.eye(len(first))
        first = first - np.linalg.solve(hessian, -x.T @ (y * expit(-y * (x @ first))) + penalty * first)
    bend = expit(x @ first) * expit(-(x @ first))
    return first, (x.T * bend) @ x + penalty * np.eye(len(first))


def random_pairs(count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        d, n = int(rng.integers(1, 4)), int(rng.integers(2, 120))
        x = rng.normal(size=(n, d)) * rng.uniform(0.3, 2)
        x /= np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True))
        y = np.where(rng.random(n) < expit(x @ rng.normal(size=d) * 6), 1.0, -1.0)
        penalty = float(rng.uniform(1.05, 12))
        less = fitted(x, y, penalty)
        new = less[0] / max(np.linalg.norm(less[0]), 1e-9) if rng.random() < 0.7 else rng.normal(size=d)
        new = new / max(np.linalg.norm(new), 1e-9)
        label = -1.0 if new @ less[0] > 0 else 1.0  # what the model least expects
        more = fitted(np.vstack([x, new]), np.append(y, label), penalty)
        yield less, more


@pytest.mark.planted(
    "half the move of a posterior, a fifth of its curvature", of=("AdaOPS", "OPSPTR", "StableLogistic")
)
def test_no_neighbour_of_random_data_loses_more_than_stated() -> None:
    worst = dict.fromkeys(("move", "strength", "forward", "both"), 0.0)
    wrong_move = wrong_strength = 0.0
    for less, more in random_pairs(300, seed=1):
        strengths = [float(np.linalg.eigvalsh(h)[0]) for _, h in (less, more)]
        gap = float(np.linalg.norm(less[0] - more[0]))
        worst["strength"] = max(worst["strength"], abs(strengths[0] - strengths[1]) / STRENGTH_MOVE)
        wrong_strength = max(wrong_strength, abs(strengths[0] - strengths[1]) / 0.05)
        for own, other, strength in ((less, more, strengths[0]), (more, less, strengths[1])):
            worst["move"] = max(worst["move"], gap / minimum_move(strength))
            wrong_move = max(wrong_move, gap / (minimum_move(strength) / 2))
            for order in (2.0, 4.0):
                for precision in (0.2, 2.0, 20.0):
                    given = {"strength": strength, "precision": precision}
                    a, b = (own[0], precision * own[1]), (other[0], precision * other[1])
                    forward = nonprivate_gaussian_divergence(order, *a, *b)
                    backward = nonprivate_gaussian_divergence(order, *b, *a)
                    stated = shaped_divergence(order, **given, directions="forward")
                    both = shaped_divergence(order, **given, directions="both")
                    worst["forward"] = max(worst["forward"], forward / stated)
                    worst["both"] = max(worst["both"], max(forward, backward) / both)
    assert max(worst.values()) <= 1
    assert min(worst["move"], worst["forward"]) > 0.5  # not far from attained
    assert wrong_move > 1  # planted: half the move
    assert wrong_strength > 1  # planted: a fifth of the curvature alone


def test_outside_its_range_nothing_is_certified() -> None:
    for strength in (0.5, 1.0, math.nan, 2.0):  # at 2, w is above 1, where the formula would turn negative
        assert shaped_divergence(2, strength=strength, precision=1, directions="both") == math.inf
        assert largest_shaped_precision(1, 2, strength=strength, directions="both") is None
    assert minimum_move(math.nan) == math.inf
    assert shaped_divergence(50, strength=40, precision=1, directions="forward") == math.inf
    assert largest_shaped_precision(math.nan, 4, strength=50, directions="forward") is None
    with pytest.raises(RangeError, match="at least 2"):
        shaped_divergence(1.5, strength=50, precision=1, directions="both")


GIVEN: dict[str, Any] = {
    "features": ["a", "b"],
    "target": "y",
    "feature_norm": 1,
    "epsilon": 1,
    "delta": "1e-6",
    "rows_at_most": 10**5,
}
SCHEMA = [sl.Number("a"), sl.Number("b"), sl.Category("y", ["no", "yes"], other=None)]


def table(n: int, seed: int = 0) -> sl.Table:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2)) / math.sqrt(2)
    y = np.where(rng.random(n) < expit(x @ [4, -3]), "yes", "no")
    return sl.Table({"a": x[:, 0], "b": x[:, 1], "y": y}, schema=SCHEMA)


@pytest.mark.parametrize("shape", ["isotropic", "hessian"])
def test_many_rows_are_learned_from(shape: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    data = table(40_000)
    query = StableLogistic(**GIVEN, penalty=50, shape=shape)
    found = seeded_release(query, data, seed=1)
    assert isinstance(found, Release)
    assert str(found.guarantee) == "ApproxDP(ε = 1, δ = 1e-6; idealized)"
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(40_000, 2)) / math.sqrt(2)
    y = rng.random(40_000) < expit(x @ [4, -3])
    # what has length 1 here has length √2 there, so the penalty of the raw columns is twice as large
    rows = np.column_stack([x, np.ones(len(x))])
    plain = LogisticRegression(C=1 / 100, fit_intercept=False, tol=1e-10).fit(rows, y).coef_[0]
    assert found.value == pytest.approx(plain, abs=0.25)


def test_convex_data_get_less_noise_and_the_rest_costs_the_same() -> None:
    proposal: Any = StableLogistic(**GIVEN, penalty=5).prepare(sl.Schema(SCHEMA))

    def chosen(strength: float) -> Any:
        return proposal.choose(Convexity(strength, Precision(10**5, 5.0)))

    assert chosen(500.0).deviation < 0.02 * chosen(5.0).deviation
    for none in (math.nan, 1.0, -3.0):
        assert chosen(none) is None
    shaped = StableLogistic(**GIVEN, penalty=2, shape="hessian")
    refused, released = (seeded_release(shaped, table(n), seed=1) for n in (200, 40_000))
    assert isinstance(refused, Refused)
    assert isinstance(released, Release)
    assert refused.guarantee == released.guarantee
    assert refused.query == released.query


def test_no_rows_are_no_error() -> None:
    found = seeded_release(StableLogistic(**GIVEN), table(0), seed=1)
    assert np.isfinite(found.value).all()


def test_mistakes_are_found_before_any_charge() -> None:
    schema = sl.Schema(SCHEMA)
    for options, text in (
        ({"penalty": 1}, "above 1"),
        ({"shape": "round"}, "shape"),
        ({"strength_share": 1}, "strength_share"),
        ({"order": 8}, "hessian"),
        ({"rows_at_most": -1}, "rows_at_most"),
    ):
        with pytest.raises(RangeError, match=text):
            StableLogistic(**(GIVEN | options))
    with pytest.raises(RangeError, match="at least 2"):
        StableLogistic(**GIVEN, shape="hessian", order="1.2").prepare(schema)
    three = [*SCHEMA[:2], sl.Category("y", ["no", "yes"])]
    with pytest.raises(SchemaError, match="two labels"):
        StableLogistic(**GIVEN).prepare(sl.Schema(three))
    with pytest.raises(SchemaError, match="Table"):
        StableLogistic(**GIVEN).declare()

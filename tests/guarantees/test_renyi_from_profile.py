"""zCDP from two profiles: exact finite pairs stay below it, and without the other direction's profile they do not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.baselines.objective_perturbation import closed_form_zcdp

from sidelight.guarantees import Claims, Profile
from sidelight.guarantees import from_profile as module
from sidelight.guarantees.curves import ApproxCurve, HingedGaussianCurve, ZCDPCurve
from sidelight.guarantees.from_profile import zcdp_from_profile
from sidelight.mechanisms.objective_calibration import calibrate_objective
from sidelight.mechanisms.objective_perturbation import LossShape, ObjectivePerturbation

F = Fraction


@dataclass(frozen=True)
class FinitePair:
    """The exact profile of two laws on a few outcomes."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    def floats(self, x: Any) -> Any:
        p, q = np.array(self.p), np.array(self.q)
        return np.maximum(p - np.exp(x)[:, None] * q, 0).sum(axis=1)

    def delta(self, x: Fraction) -> Fraction:
        return Fraction(float(self.floats(np.array([float(x)]))[0]))

    def gaussian_tail_from(self, mu: float) -> float:
        return max(math.log(a / b) for a, b in zip(self.p, self.q, strict=True)) + 1e-9

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError


def exact_rho(p: Any, q: Any) -> float:
    orders = np.concatenate([1 + np.geomspace(1e-6, 1e3, 4000)])
    ratio, logs = np.log(p / q), np.log(q)
    top = (orders[:, None] * ratio + logs).max(axis=1)
    moments = top + np.log(np.exp(orders[:, None] * ratio + logs - top[:, None]).sum(axis=1))
    return float((moments / (orders * (orders - 1))).max())


def random_pair(seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(5, 0.7)) + 1e-3, rng.dirichlet(np.full(5, 0.7)) + 1e-3
    return p / p.sum(), q / q.sum()


@pytest.mark.parametrize("seed", range(25))
def test_exact_pairs_stay_below_and_close(seed: int) -> None:
    p, q = random_pair(seed)
    exact = max(exact_rho(p, q), exact_rho(q, p))
    found = zcdp_from_profile(FinitePair(tuple(p), tuple(q)), FinitePair(tuple(q), tuple(p)))
    assert found is not None
    assert exact <= float(found) <= exact * 1.02


def test_without_the_other_direction_exact_pairs_exceed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = module._log_integral
    monkeypatch.setattr(module, "_log_integral", lambda x, mine, other, *rest: whole(x, mine, other * 1e-9, *rest))
    refuted = 0
    for seed in range(10):
        p, q = random_pair(seed)
        found = zcdp_from_profile.__wrapped__(FinitePair(tuple(p), tuple(q)), FinitePair(tuple(q), tuple(p)))
        refuted += float(found) < max(exact_rho(p, q), exact_rho(q, p))
    assert refuted == 10


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "1", "5"])
def test_randomised_response_is_reached(epsilon: str) -> None:
    exact = float(epsilon) * math.tanh(float(epsilon) / 2)
    found = float(zcdp_from_profile(ApproxCurve(F(epsilon)), ApproxCurve(F(epsilon))) or 0)
    assert exact <= found <= 1.01 * exact


@pytest.mark.parametrize("mu", ["0.01", "0.3", "3"])
def test_the_gaussian_is_never_below_its_own(mu: str) -> None:
    curve = HingedGaussianCurve(F(mu))
    exact = float(mu) ** 2 / 2
    assert exact <= float(zcdp_from_profile(curve, curve) or 0) <= 1.1 * exact
    both = Claims.of(Profile(curve, curve)).zcdp()
    assert both is not None
    assert float(both.rho) == pytest.approx(exact, rel=1e-4)


def test_no_tail_no_claim() -> None:
    assert zcdp_from_profile(ZCDPCurve(F(1, 10)), ZCDPCurve(F(1, 10))) is None
    assert zcdp_from_profile(ApproxCurve(F(1), F(1, 10**6)), ApproxCurve(F(1))) is None


@pytest.mark.parametrize(
    ("shape", "lam", "sigma", "closed"),
    [
        (LossShape(gradient=F(1), curvature=F(1), sign_definite=True), F(20), F(5), 0.13896),
        (LossShape(gradient=F(1), curvature=F(1, 4), sign_definite=True), F(2), F(4), 0.23390),
        (
            LossShape(gradient=F(1), curvature=F(1, 4), sign_definite=True),
            F("0.96532019"),
            F("3.73063163"),
            0.35613,
        ),
    ],
)
def test_both_directions_prove_less_than_the_closed_form_of_one(
    shape: LossShape, lam: Fraction, sigma: Fraction, closed: float
) -> None:
    fit = ObjectivePerturbation(shape=shape, noise_scale=sigma, regularisation=lam)
    assert float(closed_form_zcdp(fit)) == pytest.approx(closed, abs=6e-5)
    found = Claims.of(fit.profile()).zcdp()
    assert found is not None
    assert float(fit.mu) ** 2 / 2 < float(found.rho) < closed / 2


def test_renyi_orders_of_a_fit_lie_on_both_sides() -> None:
    """A third way to the same number: the orders' own closed forms are above the integral at large orders."""
    shape = LossShape(gradient=F(1), curvature=F(1, 4), envelope="logistic", sign_definite=True)
    fit = calibrate_objective(shape, epsilon=1, delta="1e-6")
    found = Claims.of(fit.profile()).zcdp()
    assert found is not None
    assert 0.0483 < float(found.rho) < 0.0487

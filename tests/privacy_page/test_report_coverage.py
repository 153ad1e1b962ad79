"""Coverage: over fresh noise a bound fails at most as often as it says, and planted mistakes fail more often.

The small simulations run always: rho is large, so that a bound that is too small shows within a few hundred fits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from densities import objective

from sidelight.mechanisms.goe_norm import goe_norm_quantile
from sidelight.privacy_page import bounds_of_rows
from sidelight.privacy_page.bound import along_gradient, leverage
from sidelight.privacy_page.build import FitConstants, build_report, label_of
from sidelight.privacy_page.losses import LogCosh, Logistic, Softmax, Weights
from sidelight.privacy_page.published import DataDependent, Feature, PublishedReport, RowEncoding
from sidelight.regression.curator import full_hessian, losses_at
from sidelight.regression.losses import LogCoshLoss, LogisticLoss, SoftmaxLoss
from sidelight.regression.solver import newton

#: A third of rho goes to the noise of the fit, the only event that matters here. Much regularisation and little noise
#: make the bound tight: its term for the curvature is small compared with its term for the noise.
RHO, NOMINAL = 0.6, 0.2
SIGMA_OUT = 1e-3
BINARY = Logistic(weights=Weights(negative=1, positive=1))
COLUMNS = 4


class Simulation:
    """A small data set with a constant column, fitted again and again with fresh noise."""

    def __init__(
        self,
        kind: str,
        *,
        people: int = 120,
        sigma: float = 1.5,
        lam: float = 20.0,
        constant: float = 2.0,
        seed: int = 5,
    ) -> None:
        self.sigma, self.lam, self.constant = sigma, lam, constant
        rng = np.random.default_rng(seed)
        raw = rng.normal(size=(people, COLUMNS))
        raw /= np.maximum(1, np.linalg.norm(raw, axis=1))[:, None]
        score = raw @ rng.normal(size=COLUMNS) * 3
        self.raw, self.kind, self.rng = raw, kind, rng
        self.x = np.hstack([raw, np.full((people, 1), constant)])
        labels: Any
        if kind == "logistic":
            labels = np.where(score + rng.logistic(size=people) > 0, 1, -1)
            self.loss, self.written, self.label = LogisticLoss(classes=(-1, 1)), BINARY, label_of(names=[-1, 1])
        elif kind == "softmax":
            labels = np.argmax(raw @ rng.normal(size=(COLUMNS, 3)) * 3 + rng.gumbel(size=(people, 3)), axis=1)
            self.loss, self.written, self.label = SoftmaxLoss(classes=(0, 1, 2)), Softmax(), label_of(names="abc")
        else:
            labels = np.clip(score + rng.normal(size=people), -3, 3)
            self.loss, self.written = LogCoshLoss(scale=0.5), LogCosh(kappa=0.5)
            self.label = label_of(bounds=(-3.0, 3.0))
        self.targets = np.asarray(labels, dtype=float)
        self.objective = objective(self.loss, self.x, list(labels), lam=lam)
        self.block = next(iter(self.objective.rows.blocks()))

    def fit(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Give the perturbed objective, its exact minimum, and what is released."""
        shape = self.objective.linear.shape
        noisy = replace(self.objective, linear=self.sigma * self.rng.normal(size=shape))
        direct = self.loss.outputs == 1
        theta = newton(noisy, np.zeros(shape), goal=1e-10, direct=direct)
        return noisy, theta, theta + SIGMA_OUT * self.rng.normal(size=shape)

    def report(self, released: np.ndarray, *, rho: float = RHO, **more: Any) -> PublishedReport:
        encoding = RowEncoding(
            features=[Feature(name=f"x{i}") for i in range(COLUMNS)],
            row_policy="clip",
            data_norm=1.0,
            intercept_value=self.constant,
            label=self.label,
        )
        constants = FitConstants(
            epsilon=1, delta=1e-5, regularisation=self.lam, sigma=self.sigma, tolerance=1e-9, sigma_out=SIGMA_OUT
        )
        theta = released.T.tolist() if self.loss.outputs > 1 else released[:, 0].tolist()
        return build_report(loss=self.written, encoding=encoding, theta=theta, constants=constants, rho=rho, **more)

    def exact(self, fit: Any, theta: np.ndarray, sign: Any) -> np.ndarray:
        return np.asarray(losses_at(fit, theta, self.block, sigma=self.sigma, sign=sign))

    def misses(self, fits: int, change: Any = None, *, sign: Any = -1, **more: Any) -> np.ndarray:
        """Give how often each person's loss passed the bound without its output step."""
        missed = np.zeros(len(self.x))
        for _ in range(fits):
            noisy, theta, released = self.fit()
            report = self.report(released, **more)
            if change is not None:
                report = change(report)
            reached = report.q if report.q_out is None else report.q_out
            bounds = bounds_of_rows(report, self.raw, self.targets) - report.mu_out**2 / 2 - report.mu_out * reached
            missed += np.abs(self.exact(noisy, theta, sign)) > bounds
        return missed / fits


@pytest.mark.parametrize("kind", ["logistic", "log-cosh", "softmax"])
@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_fail_at_most_as_often_as_they_say(kind: str, sign: Any) -> None:
    missed = Simulation(kind).misses(60, sign=sign)
    assert np.mean(missed) <= NOMINAL  # over all people; each by itself is noisier
    assert np.max(missed) <= NOMINAL + 0.3


@pytest.mark.parametrize("scope", [{"scope": "all-n", "n_public": 120}, {"scope": "everyone"}])
def test_wider_scopes_hold_for_all_people_at_once(scope: dict[str, Any]) -> None:
    simulation = Simulation("logistic")
    all_at_once = 0
    for _ in range(60):
        noisy, theta, released = simulation.fit()
        bounds = bounds_of_rows(simulation.report(released, rho=0.1, **scope), simulation.raw, simulation.targets)
        all_at_once += bool(np.any(np.abs(simulation.exact(noisy, theta, -1)) > bounds))
    assert all_at_once / 60 <= 0.1 + 0.15


def without_constant(report: PublishedReport) -> PublishedReport:
    """Planted: the page forgets the constant column, so rows are too short and predictors off."""
    encoding = msgspec.structs.replace(report.encoding, intercept_value=None)
    return msgspec.structs.replace(report, encoding=encoding, theta=report.theta[:-1])


def half_quantile(report: PublishedReport) -> PublishedReport:
    """Planted: one-sided instead of two-sided quantiles would be milder; this halves q."""
    return msgspec.structs.replace(report, q=report.q / 2)


def sigma_is_variance(report: PublishedReport) -> PublishedReport:
    """Planted: the variance is published as the standard deviation."""
    return msgspec.structs.replace(report, sigma=report.sigma**2)


@pytest.mark.planted("a constant of a privacy report forgotten")
@pytest.mark.parametrize("bug", [without_constant, half_quantile, sigma_is_variance])
def test_planted_mistakes_are_seen(bug: Any) -> None:
    missed = Simulation("logistic").misses(60, bug, sign=1)
    assert np.mean(missed) > NOMINAL


def test_a_flipped_sign_in_the_logarithm_is_seen() -> None:
    """With the wrong sign exact losses of removed and added rows no longer belong to one ratio of densities."""
    simulation = Simulation("logistic", people=12)
    noisy, theta, _ = simulation.fit()
    right = simulation.exact(noisy, theta, -1)
    hessian, x = full_hessian(noisy, theta), simulation.block.dense
    ones = np.ones((12, 1))
    bend = simulation.loss.second_derivative(simulation.block.predict(theta), simulation.block.targets, ones, ones)[
        :, 0
    ]
    leverages = bend * np.einsum("ni,ij,nj->n", x, np.linalg.inv(hessian), x)
    wrong = right + np.log1p(-leverages) - np.log1p(leverages)
    assert np.all(leverages < 1)  # a member's own curvature is in H
    fresh = []
    for i in range(12):
        keep = np.arange(12) != i
        without = objective(simulation.loss, x[keep], list(simulation.targets[keep].astype(int)), lam=simulation.lam)
        own = replace(without, linear=-without.gradient(theta))
        person = simulation.block.part(i, i + 1)
        fresh.append(-losses_at(own, theta, person, sigma=simulation.sigma, sign=1)[0])
    assert right == pytest.approx(np.array(fresh), rel=1e-6, abs=1e-9)
    assert np.min(np.abs(wrong - fresh)) > 1e-3


def paid_part(simulation: Simulation, noisy: Any, released: np.ndarray, *, tau: float, q: float) -> DataDependent:
    rng, size = simulation.rng, COLUMNS + 1
    sigma2, sigma3 = 3.0, 0.4
    z = rng.normal(size=(size, size))
    hessian = full_hessian(noisy, released) + sigma3 * (z + z.T) / np.sqrt(2)
    hessian = (hessian + hessian.T) / 2
    gradient = -noisy.linear[:, 0] + sigma2 * rng.normal(size=size)
    return DataDependent(
        gradient=gradient.tolist(),
        sigma2=sigma2,
        hessian=hessian.tolist(),
        sigma3=sigma3,
        kappa=sigma3 * tau,
        zeta=np.sqrt(1 + simulation.constant**2) * SIGMA_OUT * 5,
        q=q,
    )


def paid_misses(fits: int, *, tau: float, **settings: Any) -> tuple[float, float]:
    """Give how often the interval of the gradient failed at 10 %, and how often a leverage bound failed."""
    simulation = Simulation("logistic", **settings)
    norm = np.linalg.norm(simulation.x, axis=1)
    gradient, levered = [], []
    for _ in range(fits):
        noisy, theta, released = simulation.fit()
        part = paid_part(simulation, noisy, released, tau=tau, q=1.6448536)
        report = simulation.report(released, data_dependent=part)
        centre, half = along_gradient(report, part, simulation.x, norm)
        along = (simulation.x @ -noisy.linear[:, 0]) / norm
        gradient.append(np.mean(np.abs(along - centre) > half))
        exact = np.einsum("ni,ij,nj->n", simulation.x, np.linalg.inv(full_hessian(noisy, theta)), simulation.x)
        low, high = leverage(report, simulation.x, norm)
        levered.append(np.any((exact < low) | (exact > high)))
    return float(np.mean(gradient)), float(np.mean(levered))


def test_paid_intervals_and_a_wrong_normalisation_of_the_hessian() -> None:
    level = goe_norm_quantile(COLUMNS + 1, 0.01)
    gradient, levered = paid_misses(100, tau=level, sigma=4.0, lam=2.0)
    assert 0.05 < gradient < 0.16  # 10 % exactly, in expectation
    assert levered <= 0.03
    _, wrong = paid_misses(100, tau=level / np.sqrt(2), sigma=4.0, lam=2.0)  # the scale of a part of the literature
    assert wrong > 0.05
    _, far = paid_misses(30, tau=0.6 * np.sqrt(COLUMNS + 1), sigma=4.0, lam=2.0)
    assert far > 0.8


@pytest.mark.slow
def test_coverage_of_the_reference() -> None:
    """1500 fits, d = 5, n = 300, σ = 4, λ = 2, ρ = 0.1: free bounds miss at most 10 %, the gradient's interval 10 %."""
    for kind in ("logistic", "log-cosh", "softmax"):
        simulation = Simulation(kind, people=300, sigma=4.0, lam=2.0, constant=1.0)
        missed = simulation.misses(1500 if kind != "softmax" else 300, rho=0.1)
        assert np.max(missed) <= 0.1 + 0.06
        assert np.mean(missed) <= 0.1
        if kind == "logistic":
            assert np.max(missed) > 0  # the bound is not vacuous
    gradient, levered = paid_misses(1500, tau=goe_norm_quantile(COLUMNS + 1, 1e-4), people=300, sigma=4.0, lam=2.0)
    assert gradient == pytest.approx(0.1, abs=0.025)
    assert levered <= 0.002

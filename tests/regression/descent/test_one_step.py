"""The distance of a number's model from the one-step estimate: what it bounds, and that stated errors rest on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import sidelight as sl
from sidelight.regression.descent.geometry import Floats, Geometry
from sidelight.regression.descent.one_step import OneStepDistance, one_step_distance
from sidelight.regression.descent.rules import Schedule
from sidelight.regression.estimators import fit_query

N = 4000
Law = Callable[[np.random.Generator], tuple[Floats, Floats]]


def contradicting(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Targets that are their column in 7 of 10 rows, and that of another row in the others: two far groups."""
    x, other = (rng.choice([-0.9, 0.9], N) + 0.05 * rng.normal(size=N) for _ in range(2))
    return np.clip(x, -1, 1)[:, None], np.clip(np.where(rng.random(N) < 0.7, x, other), -1, 1)


def rare(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Few targets at the other end of the range, more of them where the column is large."""
    x = rng.uniform(-1, 1, (N, 1))
    return x, np.where(rng.random(N) < 0.15 * (1 + x[:, 0]), 1.0, -1.0)


def subgroups(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Two groups of rows whose slopes are those of different columns: the bias is not along the model's slopes."""
    x = np.clip(0.5 * rng.normal(size=(N, 4)), -1, 1)
    return x / 2, np.clip(np.where(rng.random(N) < 0.7, x[:, 0], 1.5 * x[:, 1]), -1, 1)


@pytest.mark.parametrize(("law", "before"), [(contradicting, 1.0), (rare, 1.0), (subgroups, 0.0)])
def test_errors_that_are_biased_by_the_clip_are_stated(
    law: Law, before: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of the fits is further off than stated; without the first step most of them are, where bias is large."""
    without: list[float] = []
    stated = fit_query.descent_error

    def both(plan: object, fitted: object) -> object:
        without.append(float(stated(plan, replace(fitted, one_step=None)).at(0.95)[0]))  # type: ignore[type-var, arg-type]
        return stated(plan, fitted)  # type: ignore[arg-type]

    monkeypatch.setattr(fit_query, "descent_error", both)
    rows, targets = law(np.random.default_rng(6))
    columns = np.column_stack([rows, np.ones(N)])
    best = columns @ np.linalg.lstsq(columns, targets, rcond=None)[0]
    model = sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(-1, 1))
    off, said = [], []
    for seed in range(12):
        model.set_params(random_state=seed).fit(rows, targets)
        off.append(np.sqrt(np.mean((model.predict(rows) - best) ** 2)))
        said.append(model.release_.error.at(0.95)[0])
    assert np.max(np.array(off) / said) < 1
    assert np.mean(np.array(off) > without) >= before
    assert np.median(said) < 6 * np.median(off)


def test_public_rows_that_correct_the_clip_are_not_surer_than_they_are() -> None:
    """A hundred public rows say little of a rare end of the range, however many private rows there are."""
    off, said = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        (rows, targets), (more, known) = rare(rng), rare(rng)
        columns = np.column_stack([rows, np.ones(N)])
        best = columns @ np.linalg.lstsq(columns, targets, rcond=None)[0]
        public = sl.PublicData(np.column_stack([more[:100], known[:100]]), "others of the same law")
        model = sl.LinearRegression(epsilon=1, delta="1e-6", data_norm=1, target_range=(-1, 1), random_state=seed)
        model.set_params(prediction=public, odds=10**6).fit(rows, targets)
        off.append(np.sqrt(np.mean((model.predict(rows) - best) ** 2)))
        said.append(model.release_.error.at(0.95)[0])
    assert np.max(np.array(off) / said) < 1


@pytest.mark.parametrize("columns", [1, 2, 6, 20])
@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("bias", [0.0, 2.0, 20.0])
def test_the_bound_holds_as_often_as_a_normal_number(columns: int, noise: float, bias: float) -> None:
    """Distances are drawn with noise 1 in every direction, and errors with the stated noise about the same bias."""
    rng = np.random.default_rng(7)
    drawn, made = rng.normal(size=(2, 10_000, columns)) * np.array([1.0, noise])[:, None, None]
    drawn[..., 0] += bias
    made[..., 0] += bias
    off = np.linalg.norm(made, axis=1)
    for size, share in ((1.645, 0.05), (2.326, 0.01)):
        said = []
        for each in np.linalg.norm(drawn, axis=1):
            distance = OneStepDistance(size=float(each), spread=(columns - 1) ** 0.5, deviation=1.0)
            fixed, rise = distance.error(noise * columns**0.5, noise)
            said.append(fixed + rise * size)
        failed = np.mean(off > np.array(said))
        assert failed <= share + 4.5 * (share / 10_000) ** 0.5
        assert bias or np.median(said) < 4.5 * np.quantile(off, 1 - share) + 4.5  # and it is not far too wide


def made(h: list[float], **more: object) -> Geometry:
    d = len(h)
    whole = {"map": np.eye(d), "inverse": np.eye(d), "centre": np.zeros(d), "h": np.append(h, 1.0), "trace": 1.0}
    return Geometry(**whole | {"rows": 1000.0, "counted": 1000.0} | more)  # type: ignore[arg-type]


STEPS = Schedule(noise=0.1, passes=8, tail=6, clip_share=0.5, clip=1.0, step=1.2, constant_step=1.8)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_distance_is_that_of_the_predictions(shift: float) -> None:
    """Gradients h·(θ - θ*) without a clip lead to θ* in one whole step; what the model is off by is the distance."""
    h, best = np.array([0.5, 0.25, 1.0]), np.array([0.4, -0.6, 0.2])
    path = np.zeros((2, 3, 1))
    path[1, :, 0] = [1.2, 1.2, 1.8] * (h * best)
    theta = (best + np.array([shift, 0.0, 0.0]))[:, None]
    found = one_step_distance(path, theta, made([0.5, 0.25]), steps=STEPS, step_noise=0.01)
    assert found.size == pytest.approx(shift * 0.5**0.5, abs=1e-12)
    assert found.deviation == pytest.approx(0.01 / 0.25**0.5)
    assert found.spread == pytest.approx(0.01 * (1 / 0.5 + 1) ** 0.5) or found.spread == found.size


def test_noise_of_the_matrix_is_counted() -> None:
    """The mean of zzᵀ is off by symmetric noise; what that moves a product by has the stated variance."""
    rng = np.random.default_rng(8)
    h, scale, theta = np.array([0.6, 0.5, 0.4]), 0.02, np.array([[0.5], [-0.4], [0.3], [0.2]])
    geometry = made(list(h), surely=np.append(h - 4 * scale, 1.0))
    moved = []
    for _ in range(4000):
        upper = np.triu(rng.normal(size=(3, 3)), 1) / 2**0.5
        noise = scale * (upper + upper.T + np.diag(rng.normal(size=3)))
        moved.append(noise @ theta[:3, 0])
    found = geometry.product_noise(theta[:, 0])[:3] - 2 * scale**2 * theta[3, 0] ** 2
    np.testing.assert_allclose(found, np.var(moved, axis=0), rtol=0.1)
    assert (replace(geometry, surely=None).product_noise(theta[:, 0]) == 0).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e300])
def test_paths_that_are_not_numbers_state_something_finite(wrong: float) -> None:
    path, theta = np.full((2, 3, 1), wrong), np.full((3, 1), wrong)
    found = one_step_distance(path, theta, made([0.5, 0.25]), steps=STEPS, step_noise=wrong)
    assert np.isfinite([found.error(0.0, 0.0), found.error(1e305, 1e305)]).all()
    assert np.isfinite([found.size, found.spread, found.deviation]).all()

"""Paid reports: the reference example, the price, indefinite matrices, and the whole release pipeline."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from example_reports import tiny
from scipy.sparse import csr_array

import sidelight as sl
from sidelight.accounting.loss_distributions import compose
from sidelight.errors import BudgetError, RangeError, SchemaError
from sidelight.guarantees import HingedGaussianCurve
from sidelight.mechanisms.goe_norm import goe_norm_quantile
from sidelight.mechanisms.objective_perturbation import LossShape, ObjectivePerturbation
from sidelight.noise import Source
from sidelight.privacy_page import bounds_of_rows, read_report, report_bound
from sidelight.privacy_page.bound import along_gradient, leverage, overhead
from sidelight.privacy_page.losses import LogCosh, Logistic, Weights, reach
from sidelight.published.paid_report import (
    PaidFit,
    drift,
    hessian_codes,
    hessian_reach,
    noisy_gradient,
    noisy_hessian,
    paid_report_of,
    plan_paid,
)
from sidelight.regression.curator import exact_losses, full_hessian, keep_noise
from sidelight.regression.losses import HuberLoss, LogCoshLoss, LogisticLoss, SoftmaxLoss
from sidelight.regression.rows import BoundedArrays, RowPolicy
from sidelight.testing import SeededEntropy, SeededSession, seeded_release

H = np.array([[1.334449312291, 0.119988000800], [0.119988000800, 1.222328011115]])
GRADIENT = np.array([-0.4225575832, -0.8584897271])
NOISE = 0.1 * np.array([[0.3, -1.1], [0.2, 0.5]])
Q = 4.8916384757


def paid(**changes: Any) -> dict[str, Any]:
    """The reference example: σ₂ = 1, σ₃ = 0.1, e = (0.7, -0.4), no slack."""
    hessian = H + (NOISE + NOISE.T) / np.sqrt(2)
    part = {
        "gradient": (GRADIENT + np.array([0.7, -0.4])).tolist(),
        "sigma2": 1.0,
        "hessian": hessian.tolist(),
        "sigma3": 0.1,
        "kappa": 0.1 * 7.526508925,
        "zeta": 0.0,
        "q": Q,
    }
    return tiny(data_dependent=part | changes)


def parts(row: list[float], label: float, report: dict[str, Any]) -> tuple[float, float, float, float]:
    """Lower and upper leverage, overhead, and the bound without it."""
    known = read_report(report)
    x = np.array([row])
    norm = np.linalg.norm(x, axis=1)
    found = reach(known.loss, predictor=x @ np.array(known.theta), norm=norm, target=np.array([label]), slack=0.0)
    assert known.data_dependent is not None
    low, high = leverage(known, x, norm)
    extra = overhead(known.data_dependent, found)[0]
    return (
        float(low[0]),
        float(high[0]),
        float(extra),
        float(bounds_of_rows(known, x, [label], member="yes")[0] - extra),
    )


def test_reference_example() -> None:
    report = paid()
    assert report["data_dependent"]["gradient"] == pytest.approx([0.2774424168, -1.2584897271], abs=1e-10)
    assert report["data_dependent"]["hessian"][0] == pytest.approx([1.376875719162, 0.056348390493], abs=1e-11)
    assert goe_norm_quantile(2, 1e-6) == pytest.approx(7.5265089, abs=6e-7)
    low, high, extra, bound = parts([0.6, 0.8], 1.0, report)
    assert (low, high) == pytest.approx((0.46982965, 1.0), abs=6e-9)
    assert extra == pytest.approx(10.6637556, abs=6e-8)
    assert bound == pytest.approx(0.7119923351, abs=6e-9)
    x, hessian, kappa = np.array([0.6, 0.8]), np.array(report["data_dependent"]["hessian"]), 0.7526508925
    weights = (0.0, 1 / (1 + 2 * kappa), 0.5, 0.75, 1.0)
    found = [x @ np.linalg.solve((1 - w) * np.eye(2) + w * (hessian - kappa * np.eye(2)), x) for w in weights]
    assert found == pytest.approx([1.000000, 1.177065, 1.232570, 1.397033, 1.615896], abs=6e-7)
    *_, extra, _ = parts([0.8, -0.6], -1.0, report)
    assert extra == pytest.approx(10.4934086, abs=6e-8)
    assert report_bound(report, [0.8, -0.6], -1, member="no") - extra == pytest.approx(0.7026001415, abs=6e-9)


def test_not_knowing_whether_one_was_in_the_data_takes_the_larger() -> None:
    for row, label in (([0.6, 0.8], 1), ([0.8, -0.6], -1), ([0.1, 0.0], 1)):
        each = [report_bound(paid(), row, label, member=member) for member in ("yes", "no")]  # type: ignore[arg-type]
        assert report_bound(paid(), row, label) == max(each)


def test_an_indefinite_hessian_falls_back_to_the_free_leverage() -> None:
    """Noise larger than the matrix: no weight but 0 is positive definite, and nothing is pseudo-inverted."""
    for hessian in ([[-40.0, 0.0], [0.0, -40.0]], [[0.0, 30.0], [30.0, 0.0]]):
        low, high, _, _ = parts([0.6, 0.8], 1.0, paid(hessian=hessian))
        assert high == pytest.approx(1.0)  # ‖x‖²/λ
        assert 0.0 <= low <= high
    low, high, _, _ = parts([0.6, 0.8], 1.0, paid(hessian=[[80.0, 0.0], [0.0, 80.0]]))
    assert high < 0.02  # a well-determined model: worth paying for
    assert low == pytest.approx(1 / 80.7526508925)


def test_a_very_negative_gradient_is_not_a_small_report() -> None:
    """Without the absolute value a gradient estimate that is very negative would make the report small."""
    plain = report_bound(paid(), [0.6, 0.8], 1)
    for far in ([-40.0, -40.0], [40.0, 40.0]):
        assert report_bound(paid(gradient=far), [0.6, 0.8], 1) > plain + 3


def test_shrinking_is_narrower_than_either_bound_and_exact() -> None:
    rng = np.random.default_rng(2)
    known = read_report(paid())
    sigma, extra = known.sigma, 1.0
    x = np.array([[0.6, 0.8]])
    assert known.data_dependent is not None
    _, half = along_gradient(known, known.data_dependent, x, np.array([1.0]))
    assert half[0] < Q * min(sigma, extra)
    b = rng.normal(size=(40_000, 2)) * sigma
    e = rng.normal(size=(40_000, 2)) * extra
    share = sigma**2 / (sigma**2 + extra**2)
    error = (-b @ x[0]) - share * ((-b + e) @ x[0])
    assert np.std(error) == pytest.approx(half[0] / Q, rel=0.03)


def test_reference_accounting() -> None:
    """R = 1, λ = 2.5, σ = 8, σ₂ = 16, σ₃ = 4, δ = 1e-5; the same direction twice gives that direction's epsilon."""
    extra = float(np.hypot(1 / 16, 0.25 / (np.sqrt(2) * 4)))
    assert extra == pytest.approx(0.07654655, abs=6e-9)
    gauss = HingedGaussianCurve(Fraction("0.07654656"))
    for bound, remove in (("tight", 0.5180), ("generic", 0.6121)):
        fit = ObjectivePerturbation(
            shape=LossShape(gradient=Fraction(1), curvature=Fraction(1, 4), envelope="logistic", sign_definite=True),
            noise_scale=Fraction(8),
            regularisation=Fraction(5, 2),
            bound=bound,  # type: ignore[arg-type]
        ).profile()
        for curve, reference in ((fit.remove, remove), (fit.add, 0.5168)):
            found = compose([(curve, curve), (gauss, gauss)], step=1e-4).epsilon(Fraction("1e-5"))
            assert found is not None
            assert float(found) == pytest.approx(reference, abs=6e-5)


SETTINGS: dict[str, Any] = {"features": 3, "epsilon": 1, "delta": "1e-5", "data_norm": 1}


@pytest.fixture(scope="module")
def plans() -> dict[str, Any]:
    loss = LogisticLoss(classes=(0, 1))
    return {preset: plan_paid(loss=loss, preset=preset, **SETTINGS) for preset in ("free", "gradient", "thesis")}


def test_presets_keep_the_target_together(plans: dict[str, Any]) -> None:
    free, gradient, thesis = plans["free"], plans["gradient"], plans["thesis"]
    assert free.gradient_noise is None
    assert free.hessian_noise is None
    for plan in (gradient, thesis):
        found = plan.claims.approx_at(Fraction("1e-5")).epsilon
        assert Fraction(999, 1000) <= found <= 1
        assert plan.claims.numerics == "idealized"
    sigma = {name: float(plan.fit.mechanism.noise_scale) for name, plan in plans.items()}
    assert sigma["gradient"] / sigma["free"] == pytest.approx(np.sqrt(2), rel=0.1)
    assert 3 < sigma["thesis"] / sigma["free"] < 4.5
    own = thesis.fit.mechanism.mu
    assert float(thesis.gradient_mu / own) == pytest.approx(3.5)
    assert float(thesis.hessian_mu / own) == pytest.approx(0.5)
    # μ₃ = β/(√2·σ₃), μ₂ = L/σ₂
    assert float(thesis.hessian_noise) == pytest.approx(0.5 / (np.sqrt(2) * float(thesis.hessian_mu)), rel=1e-9)
    assert float(thesis.gradient_noise) == pytest.approx(np.sqrt(2) / float(thesis.gradient_mu), rel=1e-9)


def test_what_has_no_paid_report_is_refused_before_any_charge() -> None:
    binary = LogisticLoss(classes=(0, 1))
    for loss, more, words in (
        (SoftmaxLoss(classes=(0, 1, 2)), {}, "softmax"),
        (HuberLoss(target_range=(0, 1)), {"preset": "thesis"}, "jumps"),
        (binary, {"preset": "cheap"}, "preset"),
        (binary, {"shares": (-1, 0)}, "negative"),
        (binary, {"shares": (0, 1)}, "comes with"),
        (binary, {"preset": "thesis", "rows_at_most": 10**7}, "rows"),
    ):
        with pytest.raises(RangeError, match=words):
            plan_paid(loss=loss, **SETTINGS, **more)


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(4000, 3)) / 2
    return rows, (rows @ [3.0, -1.0, 0.5] + rng.logistic(size=4000) > 0).astype(int)


@pytest.fixture(scope="module")
def released(people: Any) -> tuple[Any, Any]:
    table = sl.Table({"row": np.zeros(1)}, schema=[sl.Number("row")], name="people")
    session = SeededSession(table, budget=sl.ApproxDP("1.05", "1.5e-5"), routes=["basic"], seed="paid")
    query = PaidFit(
        loss=LogisticLoss(classes=(0, 1)),
        X=people[0],
        y=people[1],
        epsilon=1,
        delta="1e-5",
        data_norm=1,
        preset="thesis",
    )
    assert "0." not in repr(query)
    with keep_noise(i_am_the_curator=True) as kept:
        release = session.release(query)
    with pytest.raises(BudgetError):
        session.release(query)  # it was charged
    return release, kept.fit


def small(rows: Any, labels: Any, **changes: Any) -> Any:
    """A paid fit of a few rows, with the noise of one seed."""
    given = {"loss": LogisticLoss(classes=(0, 1)), "epsilon": 1, "delta": "1e-6", "data_norm": 1} | changes
    table = sl.Table({"row": np.zeros(1)}, schema=[sl.Number("row")], name="people")
    return seeded_release(PaidFit(X=rows, y=labels, **given), table, seed=3)


@pytest.mark.parametrize(
    "odd", ["x", None, [0.1], {}, 10**400, float("nan"), 1j, object()], ids=lambda odd: type(odd).__name__
)
def test_no_cell_decides_whether_a_paid_fit_fails(people: Any, odd: Any) -> None:
    """A row with a cell or a label that cannot be used is left out, and no other row is read differently."""
    rows, labels = people[0][:300].tolist(), people[1][:300].tolist()
    without = small(rows, labels).value
    in_array = np.array(rows, object)
    in_array = np.vstack([in_array, np.zeros((1, 3), object)])
    in_array[-1, 1] = odd
    for X, y in (
        ([*rows, [0.1, odd, 0.1]], [*labels, 1]),
        (in_array, [*labels, 1]),
        ([*rows, [0.1, 0.1, 0.1]], [*labels, odd]),
    ):
        found = small(X, y).value
        assert all(np.array_equal(found[name], without[name]) for name in without)


def test_frames_and_sparse_rows_are_read_as_arrays_are(people: Any) -> None:
    rows, labels = people[0][:300], people[1][:300]
    wanted = small(rows, labels).value
    for X in (pd.DataFrame(rows), csr_array(rows), rows.tolist()):
        found = small(X, pd.Series(labels)).value
        assert all(found[name] == pytest.approx(wanted[name], abs=1e-6) for name in wanted)


def test_rows_of_a_paid_fit_are_refused_in_words_and_before_the_charge() -> None:
    table = sl.Table({"row": np.zeros(1)}, schema=[sl.Number("row")], name="people")
    session = SeededSession(table, budget=sl.ApproxDP(2, "1e-5"), seed=1)
    before = str(session.remaining)
    given: dict[str, Any] = {"loss": LogisticLoss(classes=(0, 1)), "epsilon": 1, "delta": "1e-6", "data_norm": 1}
    for X, y, message in (
        ([[0.1, 0.2], [0.1]], [0, 1], "differ in length"),
        ([[0.1], [0.2]], [0], "same length"),
        (np.array([["a"], ["b"]]), [0, 1], "must hold numbers"),
        (np.zeros((2, 1)), np.array(["0", "1"]), "y must hold numbers"),
        (np.zeros(2), [0, 1], "two dimensions"),
    ):
        with pytest.raises(SchemaError, match=message):
            session.release(PaidFit(X=X, y=y, **given))
    with pytest.raises(SchemaError, match="y must hold texts"):
        session.release(
            PaidFit(X=np.zeros((2, 1)), y=np.zeros(2), **given | {"loss": LogisticLoss(classes=("n", "y"))})
        )
    assert str(session.remaining) == before


def test_the_whole_way(released: Any, people: Any) -> None:
    release, fit = released
    assert release.guarantee.numerics == "idealized"
    report = paid_report_of(release, classes=[0, 1])
    assert json.loads(report.to_json()) == report.to_dict()
    part = report.data_dependent
    assert part is not None
    rows, labels = people
    true = exact_losses(fit, rows, labels, member="yes", i_am_the_curator=True)
    bounds = bounds_of_rows(report, rows, 2 * labels - 1, member="yes")
    assert np.all(np.abs(true) <= bounds)
    assert np.all(bounds <= report.maximum)
    # leverage: below and above the exact one, at the exact minimum
    x = np.hstack([rows / np.maximum(1, np.linalg.norm(rows, axis=1))[:, None], np.ones((len(rows), 1))])
    exact = np.einsum("ni,ij,nj->n", x, np.linalg.inv(full_hessian(fit.objective, fit.point)), x)
    low, high = leverage(report, x, np.linalg.norm(x, axis=1))
    assert np.all(low <= exact)
    assert np.all(exact <= high)
    assert np.median(high) < 0.5 * np.median(np.sum(x**2, axis=1) / report.regularisation)  # it was worth something
    # gradient: the interval holds
    centre, half = along_gradient(report, part, x, np.linalg.norm(x, axis=1))
    along = (x @ -fit.objective.linear[:, 0]) / np.linalg.norm(x, axis=1)
    assert np.all(np.abs(along - centre) <= half)


def test_the_noise_of_gradient_and_hessian(released: Any, plans: dict[str, Any]) -> None:
    """Law of the two extra noises against their scales; a scale thirty percent off is seen."""
    _, fit = released
    plan, source = plans["thesis"], Source(SeededEntropy("extra"))
    scale = plan.gradient_noise
    draws = np.array([noisy_gradient(fit, scale, source) for _ in range(700)]) + fit.objective.linear[:, 0]
    z = (draws / float(scale)).ravel()
    assert np.mean(z**2) == pytest.approx(1, abs=6 * np.sqrt(2 / z.size))
    assert abs(np.mean((z / 1.3) ** 2) - 1) > 6 * np.sqrt(2 / z.size)
    exact = full_hessian(fit.objective, fit.released)
    noisy = np.array([noisy_hessian(fit, plan, source) for _ in range(150)])
    assert np.array_equal(noisy, noisy.transpose(0, 2, 1))
    noise = noisy - exact
    sigma3 = float(plan.hessian_noise)
    off, on = noise[:, *np.triu_indices(4, 1)] / sigma3, noise[:, range(4), range(4)] / (np.sqrt(2) * sigma3)
    for sample in (off, on):
        assert np.mean(sample**2) == pytest.approx(1, abs=6 * np.sqrt(2 / sample.size))
        assert abs(np.mean((sample / 1.3) ** 2) - 1) > 4 * np.sqrt(2 / sample.size)
    assert np.linalg.norm(noise, 2, axis=(1, 2)).max() < hessian_reach(sigma3, 4, 1e-6, np.sqrt(2))


def test_one_row_moves_the_grid_of_the_hessian_by_at_most_its_sensitivity(plans: dict[str, Any]) -> None:
    plan = plans["thesis"]
    rng = np.random.default_rng(4)
    unit = float(plan.hessian_unit)
    for _ in range(50):
        x = np.append(rng.normal(size=3), 0.0)
        x = np.append(x[:3] / np.linalg.norm(x), 1.0)
        moved = np.rint(0.25 * np.outer(x, x) / unit)
        assert np.linalg.norm(moved) <= plan.hessian_sensitivity


def test_drift_bounds_the_change_of_curvature() -> None:
    """f'' changes by at most e^(M·|Δu|): logistic with M = 1, log-cosh with M = 2/κ; half of it is too little."""
    from sidelight.privacy_page.build import FitConstants

    constants = FitConstants(epsilon=1, delta=1e-5, regularisation=2, sigma=5, tolerance=0.0, sigma_out=1e-3)
    for loss, pace in ((Logistic(weights=Weights(negative=1, positive=1)), 1.0), (LogCosh(kappa=0.25), 8.0)):
        assert drift(loss, constants, 4, 1.5, 1e-6) == pytest.approx(pace * 1.5 * constants.slack(5.9, 4), rel=0.1)
    u = np.linspace(-2, 3, 4001)
    for loss, pace in ((LogisticLoss(classes=(-1, 1)), 1.0), (LogCoshLoss(scale=0.5), 4.0)):
        target, ones = np.ones((u.size, 1)), np.ones((u.size, 1))
        bend = [loss.second_derivative((u + shift)[:, None], target, ones, ones) for shift in (0.0, 0.2)]
        ratio = np.max(np.abs(np.log(bend[1] / bend[0])))
        assert 0.5 * pace * 0.2 < ratio <= pace * 0.2 * (1 + 1e-9)


@pytest.mark.parametrize("loss", [LogisticLoss(classes=(0, 1)), LogCoshLoss(scale="0.3")], ids=lambda loss: loss.name)
def test_the_codes_of_a_row_are_its_own(loss: Any) -> None:
    """The same bits for a row alone or among others, unlike with a matrix product."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 37)) / 6, rng.integers(0, 2, 600)
    policy = RowPolicy(loss=loss, features=37, data_norm=Fraction(1), intercept=1.0)
    (block,) = BoundedArrays(x, y, policy=policy).blocks()
    theta = rng.normal(size=(38, 1))
    together = hessian_codes(loss, block, theta, 2.0**-44)
    for place in range(0, 600, 3):
        alone = hessian_codes(loss, block.part(place, place + 1), theta, 2.0**-44)
        assert (alone[0] == together[place]).all()
    pair = hessian_codes(loss, block.part(100, 103), theta, 2.0**-44)
    assert (pair == together[100:103]).all()

"""True losses of a fit: formula (1) against densities, for the curator only."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from densities import LOSSES, ROWS, at_minimum, log_density, objective, one_block
from sklearn.base import clone

from sidelight.errors import CuratorOnlyError
from sidelight.privacy_page import bounds_of_rows
from sidelight.regression.curator import exact_losses, full_hessian, keep_noise, losses_at
from sidelight.regression.estimators import LogisticRegression

PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "data_norm": 1, "solver": "objective"}
THETA = np.array([[0.3], [-0.2]])


def point(loss: Any) -> np.ndarray:
    return THETA if loss.outputs == 1 else np.array([[0.3, -0.1, 0.2], [-0.2, 0.4, 0.1]])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("sign", [1, -1])
def test_formula_against_finite_differences_of_log_densities(name: str, sign: Any) -> None:
    loss, labels = LOSSES[name]
    theta, sigma = point(loss), 2.0
    small, large = objective(loss, ROWS[:3], labels[:3]), objective(loss, ROWS, labels)
    data, neighbour = (small, large) if sign == 1 else (large, small)
    exact = log_density(data, theta, sigma=sigma) - log_density(neighbour, theta, sigma=sigma)
    block = one_block(loss, ROWS[3:], labels[3:])
    (found,) = losses_at(at_minimum(data, theta), theta, block, sigma=sigma, sign=sign)
    assert found == pytest.approx(exact, abs=2e-8)
    if "beyond" not in name:  # there the curvature is 0
        (flipped,) = -losses_at(at_minimum(data, theta), theta, block, sigma=sigma, sign=-sign)
        assert abs(flipped - exact) > 1e-3


def test_the_two_signs_are_one_ratio() -> None:
    """Added to D and removed from D' is the same ratio of the same densities, with opposite sign."""
    loss, labels = LOSSES["softmax"]
    theta = point(loss)
    block = one_block(loss, ROWS[3:], labels[3:])
    small, large = objective(loss, ROWS[:3], labels[:3]), objective(loss, ROWS, labels)
    added = losses_at(at_minimum(small, theta), theta, block, sigma=2.0, sign=1)
    removed = losses_at(at_minimum(large, theta), theta, block, sigma=2.0, sign=-1)
    assert added == pytest.approx(-removed, rel=1e-12)


def test_reference_numbers_of_the_logistic_example() -> None:
    loss, _ = LOSSES["logistic"]
    data = at_minimum(objective(loss, ROWS[:3], [1, -1, 1]), THETA)
    assert -data.linear[:, 0] == pytest.approx([-0.4225575832, -0.8584897271], abs=1e-10)
    hessian = full_hessian(data, THETA)
    assert hessian == pytest.approx(
        np.array([[1.334449312291, 0.119988000800], [0.119988000800, 1.222328011115]]), abs=1e-11
    )
    for x, y, sign, slope, bend, leverage, reference, flipped in (
        ([0.6, 0.8], 1, -1, -0.4950001667, 0.2499750017, 0.7291827221, 0.115494906415, -0.2532),
        ([0.8, -0.6], -1, 1, 0.5890404341, 0.2420718011, 0.8522595842, -0.118121312925, 0.3005),
    ):
        block = one_block(loss, np.array([x]), [y])
        predictor = block.predict(THETA)
        assert loss.first_derivative(predictor, block.targets, block.norms)[0, 0] == pytest.approx(slope, abs=1e-10)
        ones = np.ones_like(predictor)
        assert loss.second_derivative(predictor, block.targets, block.norms, ones)[0, 0] == pytest.approx(
            bend, abs=1e-10
        )
        assert np.array(x) @ np.linalg.solve(hessian, x) == pytest.approx(leverage, abs=1e-10)
        (found,) = losses_at(data, THETA, block, sigma=2.0, sign=sign)  # type: ignore[arg-type]
        assert found == pytest.approx(reference, abs=1e-11)
        # the sign inside the logarithm the other way round is another number, and a test would see it
        wrong = found + np.log1p(sign * bend * leverage) - np.log1p(-sign * bend * leverage)
        assert wrong == pytest.approx(flipped, abs=5e-5)


def test_reference_numbers_of_the_clipped_squared_example() -> None:
    loss, _ = LOSSES["squared-clipped"]
    data = at_minimum(objective(loss, ROWS[:3], [0.5, -0.3, 0.2]), THETA)
    for x, y, sign, reference in (
        ([0.6, 0.8], 0.5, -1, 0.485111261184),
        ([0.8, -0.6], 2.0, 1, 0.0125),
        ([0.8, -0.6], -0.4, 1, -0.309640511826),
    ):
        block = one_block(loss, np.array([x]), [y])
        (found,) = losses_at(data, THETA, block, sigma=2.0, sign=sign)  # type: ignore[arg-type]
        assert found == pytest.approx(reference, abs=1e-7)  # norms are rounded up


@pytest.fixture(scope="module")
def people() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 3)) / 2
    return rows, (rows[:, 0] + rng.normal(size=400) / 3 > 0).astype(int)


@pytest.fixture(scope="module")
def model(people: Any) -> LogisticRegression:
    fresh = LogisticRegression(**PRICE, classes=[0, 1])
    return fresh.fit_keeping_noise(*people, i_am_the_curator=True)


def test_a_kept_fit_gives_losses_within_the_published_bounds(model: Any, people: Any) -> None:
    rows, labels = people
    bounds = bounds_of_rows(model.privacy_report(), rows, 2 * labels - 1)
    true = model._true_losses(rows, labels, member="yes", i_am_the_curator=True)
    assert np.all(np.abs(true) < bounds)
    outside = np.array([[0.1, 0.2, -0.3], [np.nan, 0, 0]])
    added = model._true_losses(outside, [0, 1], member="no", i_am_the_curator=True)
    assert np.isfinite(added[0])
    assert np.isnan(added[1])  # could not have taken part


def test_nobody_gets_them_without_saying_so(model: Any, people: Any) -> None:
    fresh = LogisticRegression(**PRICE, classes=[0, 1])
    for attempt in (
        lambda: model._true_losses(*people, member="yes"),
        lambda: model._true_losses(*people, member="yes", i_am_the_curator=1),
        lambda: fresh.fit_keeping_noise(*people),
        lambda: keep_noise().__enter__(),
    ):
        with pytest.raises(CuratorOnlyError, match="i_am_the_curator"):
            attempt()
    assert not hasattr(fresh, "coef_")  # refused before the charge


def test_no_copy_of_a_model_holds_the_noise(model: Any, people: Any) -> None:
    with keep_noise(i_am_the_curator=True) as kept:
        other = LogisticRegression(**PRICE, classes=[0, 1]).fit(*people)
    noise = kept.fit.objective.linear.ravel()
    text = pickle.dumps(other)
    for value in [*noise, *kept.fit.point.ravel()]:  # neither b nor the minimum before its output noise
        assert np.float64(value).tobytes() not in text
        assert not any(np.any(np.asarray(v) == value) for v in vars(other).values() if isinstance(v, np.ndarray))
    for copied in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), clone(model).fit(*people), other):
        with pytest.raises(CuratorOnlyError, match="not kept"):
            copied._true_losses(*people, member="yes", i_am_the_curator=True)
    for secret in (kept, kept.fit):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(secret)
        with pytest.raises(TypeError, match="pickled"):
            copy.deepcopy(secret)
    assert repr(kept.fit) == "PrivateFit(private)"


def test_a_later_fit_does_not_answer_for_an_earlier_one(people: Any) -> None:
    again = LogisticRegression(**PRICE, classes=[0, 1])
    again.fit_keeping_noise(*people, i_am_the_curator=True).fit(*people)
    with pytest.raises(CuratorOnlyError, match="not kept"):
        again._true_losses(*people, member="yes", i_am_the_curator=True)


def test_a_fit_outside_the_block_is_not_kept(people: Any) -> None:
    with keep_noise(i_am_the_curator=True) as kept:
        pass
    LogisticRegression(**PRICE, classes=[0, 1]).fit(*people)
    assert kept.fit is None
    with pytest.raises(CuratorOnlyError):
        exact_losses(None, *people, member="yes")  # type: ignore[arg-type]  # refused before anything is looked at

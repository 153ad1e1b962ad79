"""One model a class: priced together by numerical composition, with the reference number of ten classes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.accounting.loss_distributions import compose
from sidelight.mechanisms.objective_perturbation import LossShape, ObjectivePerturbation, calibrate_objective
from sidelight.regression.estimators.fit_query import plan_one_vs_rest, smallest_noise, together
from sidelight.regression.losses import OneVsRestLoss, SoftmaxLoss
from sidelight.testing import SeededSession

LOGISTIC = LossShape(gradient=Fraction(1), curvature=Fraction(1, 4), envelope="logistic", sign_definite=True)
DELTA = Fraction(1, 10**5)


def test_ten_classes_need_11_80_of_noise_and_a_softmax_6_48() -> None:
    def at(lam: int) -> float:
        found = smallest_noise(LOGISTIC, fits=10, epsilon=Fraction(1), delta=DELTA, regularisation=Fraction(lam))
        return float(found)

    assert at(10**6) == pytest.approx(11.80, abs=0.015)  # the Gaussian mechanism of √10 gradients: 11.797
    assert 11.80 < at(10) < 11.95
    softmax = calibrate_objective(
        SoftmaxLoss(classes=tuple(range(10))).shape(Fraction(1)), epsilon=1, delta=DELTA, regularisation=10
    )
    assert float(softmax.noise_scale) == pytest.approx(6.48, abs=0.01)


def test_the_control_a_tenth_less_noise_does_not_compose() -> None:
    for sigma, within in (("11.95", True), ("10.7", False)):
        fit = ObjectivePerturbation(shape=LOGISTIC, noise_scale=Fraction(sigma), regularisation=Fraction(10))
        spent = compose([(fit.profile().remove, fit.profile().add)] * 10, step=1e-4).epsilon(DELTA)
        assert spent is not None
        assert (spent <= 1) == within


def test_plans_prove_their_price_together() -> None:
    plans = plan_one_vs_rest(classes=("a", "b", "c"), features=2, epsilon=1, delta=DELTA, data_norm=1)
    assert len(plans) == 3
    assert len({plan.mechanism.noise_scale for plan in plans}) == 1
    claims = together(plans)
    target = sl.ApproxDP(1, DELTA).under(numerics="idealized")
    assert claims.implies(target)
    alone = float(plans[0].mechanism.noise_scale)
    assert alone > 1.5 * 3.73 * 2**0.5  # more than one fit at the same price would need


def test_the_loss_of_one_class_sees_all_the_others() -> None:
    loss = OneVsRestLoss(classes=("a", "b", "c"), label="b")
    targets, keep = loss.admit(np.array(["a", "b", "c", "z"]))
    assert targets[:, 0].tolist()[:3] == [-1, 1, -1]
    assert keep.tolist() == [True, True, True, False]
    assert loss.to_json()["label"] == "'b'"


@pytest.fixture(scope="module")
def fitted() -> tuple[sl.LogisticRegression, np.ndarray, np.ndarray, SeededSession]:
    X = np.random.default_rng(3).uniform(-0.5, 0.5, (4000, 3))
    y = np.argmax(X, axis=1)
    people = sl.Table({"row": np.empty(0)}, schema=[sl.Number("row")])
    session = SeededSession(people, budget=sl.ApproxDP(9, "1e-4"), seed=1, routes=["basic"])
    model = sl.LogisticRegression(
        epsilon=8,
        delta="1e-5",
        data_norm=1,
        classes=range(3),
        multi_class="one_vs_rest",
        solver="objective",
        session=session,
    )
    return model.fit(X, y), X, y, session


def test_a_model_of_three_classes(fitted: tuple[sl.LogisticRegression, np.ndarray, np.ndarray, SeededSession]) -> None:
    model, X, y, session = fitted
    assert model.coef_.shape == (3, 3)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))
    assert (model.predict_proba(X).argmax(axis=1) == model.predict(X)).all()
    assert model.privacy_.fits == 3
    assert model.guarantee_.implies(sl.ApproxDP(8, "1e-5").under(numerics="idealized"))
    assert model.release_.query["fits"] == "3"
    assert "8" in str(session.spent)
    assert model.privacy_.pld(step=1e-2).get_epsilon_for_delta(1e-5) == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize("solver", ["descent", "objective"])
@pytest.mark.filterwarnings("ignore::sidelight.errors.WeakFitWarning")
def test_two_classes_are_one_model_either_way(solver: Any) -> None:
    price: dict[str, Any] = {"epsilon": 1, "delta": "1e-5", "data_norm": 1, "solver": solver}
    model = sl.LogisticRegression(**price, classes=[0, 1], multi_class="one_vs_rest")
    assert model.fit(np.zeros((5, 2)), np.ones(5)).privacy_.fits == 1

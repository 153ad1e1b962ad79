"""Stated errors of every released model, checked on generated rows."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.readable import at_most
from sidelight.regression.estimators.fitted_privacy import descent_error, objective_error
from sidelight.regression.losses import LogisticLoss
from sidelight.regression.plan import plan_linear

RNG = np.random.default_rng(31)
ROWS = RNG.normal(size=(4000, 5)) * [0.3, 0.25, 0.2, 0.2, 0.15]
ROWS /= np.maximum(np.linalg.norm(ROWS, axis=1, keepdims=True), 1)
SLOPES = np.array([0.8, -0.6, 0.5, 0.0, 0.7])
NUMBERS = np.clip(ROWS @ SLOPES + 0.2 * RNG.normal(size=4000), -1, 1)
CLASSES = (4 * ROWS @ SLOPES + RNG.logistic(size=4000) > 0).astype(int)
PRICE: dict[str, Any] = {"epsilon": 0.5, "delta": "1e-6", "data_norm": 1}
PUBLIC = sl.PublicData(np.column_stack([ROWS[:400], NUMBERS[:400]]), "the first rows")
MODELS = {
    "number": (sl.LinearRegression(target_range=(-1, 1), **PRICE), NUMBERS),
    "predicted": (sl.LinearRegression(target_range=(-1, 1), prediction=PUBLIC, **PRICE), NUMBERS),
    "stein": (
        sl.LinearRegression(target_range=(-1, 1), solver=sl.DescentSettings(shrinkage="stein"), **PRICE),
        NUMBERS,
    ),
    "unshrunk": (
        sl.LinearRegression(target_range=(-1, 1), solver=sl.DescentSettings(shrinkage="none"), **PRICE),
        NUMBERS,
    ),
    "objective": (sl.LinearRegression(target_range=(-1, 1), solver="objective", **PRICE), NUMBERS),
    "predicted objective": (
        sl.LinearRegression(target_range=(-1, 1), solver="objective", prediction=PUBLIC, **PRICE),
        NUMBERS,
    ),
    "classes": (sl.LogisticRegression(classes=[0, 1], **PRICE), CLASSES),
    "without a map": (
        sl.LogisticRegression(classes=[0, 1], solver=sl.DescentSettings(geometry="none"), **PRICE),
        CLASSES,
    ),
    "margin": (sl.LinearSVC(classes=[0, 1], **PRICE), CLASSES),
}


@pytest.mark.parametrize("name", MODELS)
def test_no_model_is_released_without_an_error(name: str) -> None:
    model, targets = MODELS[name]
    release = model.fit(ROWS[400:], targets[400:]).release_
    assert release.error is not None
    (bound,) = release.error.at(0.95)
    assert 0 < bound < 1000
    if name == "without a map":
        assert bound == 100  # no probability is further off
    else:
        assert release.error.at(0.5)[0] < bound < release.error.at(0.999)[0]
    assert f"off by {at_most(bound)} {release.error.unit}" in str(release)
    assert type(release).from_json(release.to_json()).error == release.error


@pytest.mark.parametrize("settings", [{}, {"solver": sl.DescentSettings(geometry="none")}, {"solver": "objective"}])
@pytest.mark.filterwarnings("ignore:the noise")
@pytest.mark.parametrize("epsilon", ["1e-4", 0.01, 0.1, 1])
@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_no_probability_is_said_to_be_further_off_than_100_points(
    settings: dict[str, Any], epsilon: float, classes: list[int]
) -> None:
    model = sl.LogisticRegression(**PRICE | settings | {"epsilon": epsilon}, classes=classes)
    error = model.fit(ROWS, CLASSES).release_.error
    again = type(error).from_json(error.to_json())
    for confidence in (0.5, 0.95, 0.999, 1 - 1e-12):
        assert 0 < error.at(confidence)[0] <= 100
        assert again.at(confidence) == error.at(confidence)


def test_a_model_of_a_table_has_the_error_of_its_fit() -> None:
    schema = [sl.Number("x", lower=-1, upper=1), sl.Number("y", lower=-100, upper=100)]
    table = sl.Table({"x": ROWS[:, 0], "y": 100 * NUMBERS}, schema=schema)
    model = sl.LinearRegression(epsilon=1, delta="1e-6")
    release = sl.ModelQuery(model=model, target="y").release(table)
    assert release.error is not None
    assert 0.1 < release.error.at(0.95)[0] < 50  # in the unit of y


@pytest.mark.parametrize("name", ["number", "predicted", "classes"])
def test_descents_are_hardly_further_off_than_they_say(name: str) -> None:
    model, targets = MODELS[name]
    rows, told = ROWS[400:], targets[400:]
    truth = ROWS @ SLOPES
    if name == "classes":  # clipping makes their log odds larger
        calm = sl.LogisticRegression(**PRICE | {"epsilon": 50}, classes=[0, 1], random_state=0).fit(rows, told)
        truth = ROWS @ calm.coef_.ravel() + calm.intercept_[0]
    points = 25 if name == "classes" else 1
    within = []
    for seed in range(30):
        model.set_params(random_state=seed).fit(rows, told)
        found = ROWS @ model.coef_.ravel() + float(np.ravel(model.intercept_)[0])
        within.append(points * np.sqrt(np.mean((found - truth) ** 2)) <= model.release_.error.at(0.95)[0])
    model.set_params(random_state=None)
    assert np.mean(within) >= 0.7  # 95 % meant; seeds are fixed


def test_errors_are_finite_whatever_the_public_numbers_are() -> None:
    tiny = sl.LinearRegression(epsilon="1e-12", delta="1e-15", data_norm=1, target_range=(-1e150, 1e150), rows=1)
    for model in (tiny, sl.LogisticRegression(**PRICE | {"epsilon": "1e-9"}, classes=[0, 1], solver="objective")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the noise outweighs the rows
            error = model.fit(ROWS[:50], CLASSES[:50]).release_.error
        assert error is not None
        assert np.isfinite(error.at(0.95)).all()


def test_a_wrong_prediction_is_said_to_be_what_the_error_rests_on() -> None:
    wrong = sl.CoefficientPrediction(-SLOPES, scale=0.001, origin="a guess")
    model = sl.LinearRegression(
        **PRICE | {"epsilon": 0.03}, target_range=(-1, 1), prediction=wrong, odds=10**6, random_state=1
    )
    release = model.fit(ROWS[:400], NUMBERS[:400]).release_
    assert release.value["chosen"] == 0
    off = np.sqrt(np.mean((ROWS @ (np.ravel(model.coef_) - SLOPES) + np.ravel(model.intercept_)[0]) ** 2))
    assert off > 10 * release.error.at(0.95)[0]  # so that it must not be stated without this
    assert "the prediction is as good as it says" in release.error.assumption
    alone = model.set_params(prediction=None).fit(ROWS[:400], NUMBERS[:400]).release_
    assert "prediction is" not in alone.error.assumption


def test_what_is_assumed_of_the_clip_is_said() -> None:
    """The first step shows its bias; from a prediction it does not, and public rows correct it."""
    model = sl.LinearRegression(target_range=(-1, 1), odds=10**6, **PRICE)
    stated = sl.CoefficientPrediction(list(SLOPES), scale=0.1)
    said = {}
    for name, prediction in {"none": None, "coefficients": stated, "rows": PUBLIC}.items():
        release = model.set_params(prediction=prediction).fit(ROWS[400:], NUMBERS[400:]).release_
        said[name] = release.error.assumption
    assert "the clip moves the model no further than its first step shows" in said["none"]
    assert "the clip takes as much off errors that are too high as off those that are too low" in said["coefficients"]
    assert "clip" not in said["rows"]


@pytest.mark.parametrize("kind", ["number", "classes"])
def test_without_a_map_the_error_is_that_of_the_noise(kind: str) -> None:
    """Errors not counted from the best linear model, which plain steps do not reach."""
    settings = PRICE | {"solver": sl.DescentSettings(geometry="none"), "rows": 3600}
    settings |= {"target_range": (-1, 1)} if kind == "number" else {"classes": [0, 1]}
    made = sl.LinearRegression if kind == "number" else sl.LogisticRegression
    targets = NUMBERS if kind == "number" else CLASSES

    def fitted(**more: Any) -> Any:
        return made(**settings | more).fit(ROWS[400:], targets[400:])

    calm = fitted(epsilon=200, random_state=0)
    for seed in range(12):
        model = fitted(random_state=seed)
        moved = ROWS @ np.ravel(model.coef_ - calm.coef_) + np.ravel(model.intercept_ - calm.intercept_)[0]
        error = model.release_.error
        assert (25 if kind == "classes" else 1) * np.sqrt(np.mean(moved**2)) <= error.at(0.95)[0]
    assert "the same steps without noise" in error.assumption
    if kind == "number":
        assert np.sqrt(np.mean((calm.predict(ROWS) - ROWS @ SLOPES) ** 2)) > 0.02


@pytest.mark.parametrize("name", MODELS)
def test_only_a_theorem_is_called_a_worst_case(name: str) -> None:
    model, targets = MODELS[name]
    release = model.fit(ROWS[400:], targets[400:]).release_
    proved = model.solver == "objective"
    assert release.error.proved == proved
    assert ("worst case at 95 %" in str(release)) == proved
    assert ("estimated at 95 %, not proved" in str(release)) == (not proved)
    assert type(release.error).from_json(release.error.to_json()) == release.error


@pytest.mark.parametrize("half", [1e-170, 1e160, 1e300])
def test_errors_are_in_the_unit_of_the_target_however_large(half: float) -> None:
    said = []
    for unit in (1.0, half):
        model = sl.LinearRegression(target_range=(-unit, unit), **PRICE).set_params(random_state=1)
        said.append(model.fit(ROWS[400:], NUMBERS[400:] * unit).release_.error.at(0.95)[0] / unit)
    assert said[1] == pytest.approx(said[0], rel=1e-6)


def test_the_bound_of_objective_perturbation_is_its_theorem() -> None:
    plan = plan_linear(loss=LogisticLoss(classes=(0, 1)), features=3, epsilon=1, delta="1e-6", data_norm=1, intercept=1)
    m, draws = plan.mechanism, RNG.normal(size=(20_000, 4))
    moved = 25 * float(plan.row_norm) * float(m.noise_scale / m.regularisation) * np.linalg.norm(draws, axis=1)
    moved = np.minimum(moved, 100)  # as probabilities are
    for confidence in (0.5, 0.95, 0.999):
        # what strong convexity allows at most is beyond the bound more seldom than it says
        assert np.mean(moved > objective_error(plan).at(confidence)[0]) <= 1 - confidence


#: A bias in percentage points, and the deviations of the noise of columns before the factor 1.5, as probabilities.
PARTS = [(0.0, [0.01]), (0.0, [0.01, 0.01, 0.002]), (3.0, [0.02, 0.01]), (20.0, [0.02] + 12 * [0.01])]


@pytest.mark.parametrize(("bias", "deviations"), PARTS)
def test_theorem_n(bias: float, deviations: list[float]) -> None:
    """The error is exceeded no more often than stated, whatever the direction of the bias, and is not far too wide."""
    weights = np.array(deviations) ** 2
    shares = SimpleNamespace(offset=1)
    plan: Any = SimpleNamespace(targets=SimpleNamespace(kind="logistic"), candidates=(), shares=shares)
    released: dict[str, Any] = {"bias": bias / 100, "error": weights, "unseen": 0.0, "remaining": 0.0, "chosen": None}
    released["one_step"] = None
    fitted: Any = SimpleNamespace(geometry=SimpleNamespace(map=np.eye(1), hides=False), **released)
    error = descent_error(plan, fitted)
    noise = 150 * np.array(deviations) * np.random.default_rng(5).normal(size=(100_000, len(weights)))
    for direction in (np.eye(len(weights))[0], np.eye(len(weights))[-1], np.sqrt(weights / weights.sum())):
        off = np.linalg.norm(noise + bias * direction, axis=1)
        for confidence in (0.2, 0.5, 0.8, 0.95, 0.99, 0.999):
            made = np.quantile(off, confidence)
            assert made < 1.005 * error.at(confidence)[0]  # the quantile is of 100,000 draws
            assert confidence != 0.95 or error.at(confidence)[0] < 1.4 * made

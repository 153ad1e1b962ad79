"""Additive models of several classes: a softmax of curves, exact sums, and a clip that holds for all at once."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import NotPrivateWarning, RangeError, WeakFitWarning
from sidelight.regression.additive.counts import target_level
from sidelight.regression.additive.public_fit import fit_public
from sidelight.regression.additive.row_sums import ONE, CurveErrors, gradient_of
from sidelight.regression.descent.targets import Targets

AGE, PLAN = sl.Number("age", lower=0, upper=100), sl.Category("plan", ["free", "team"], other=None)
CLASSES = ("low", "middle", "high")
TARGETS = Targets(kind="softmax", classes=CLASSES)


def people(count: int = 6000, seed: int = 1) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    age, plan = rng.uniform(0, 100, count), rng.choice(["free", "team"], count)
    odds = np.stack([np.where(plan == "team", 1.5, 0.0), np.abs(age - 50) / 8 - 3, (age - 50) / 30], axis=1)
    return {"age": age, "plan": plan}, np.array(CLASSES)[(odds + rng.gumbel(size=odds.shape)).argmax(axis=1)]


def classifier(**more: Any) -> sl.AdditiveClassifier:
    settings: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "columns": [AGE, PLAN], "classes": CLASSES}
    return sl.AdditiveClassifier(**settings | {"random_state": 3} | more)


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        warnings.simplefilter("ignore", WeakFitWarning)
        yield


def test_it_learns_where_each_class_lies() -> None:
    rows, y = people()
    new, wanted = people(2000, seed=2)
    model = classifier().fit(rows, y)
    right = float(np.mean(model.predict(new) == wanted))
    table = sl.Table({**rows, "y": y}, schema=[AGE, PLAN, sl.Category("y", list(CLASSES), other=None)])
    line = sl.LogisticRegression(epsilon=2, delta="1e-6", random_state=3).fit_table(table, target="y")
    assert right > float(np.mean(line.predict(new) == wanted)) + 0.05
    assert right > 0.6
    chances = model.predict_proba(new)
    assert chances.shape == (2000, 3)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    parts = model.contributions(new)
    assert parts.shape == (2000, 2, 3)
    np.testing.assert_allclose(model.intercept_ + parts.sum(axis=1), model.decision_function(new))
    curve = model.curve("age")
    assert curve.values.shape == (len(curve.counts), 3)
    middle = curve.values[:, model.classes_.tolist().index("middle")]
    assert min(middle[0], middle[-1]) > middle[len(middle) // 2] + 1
    assert all(f"{name}: " in curve.sentence() for name in CLASSES)
    assert len(model.plot().axes) >= 5
    row = {"age": 50.0, "plan": "free"}
    assert len(model.plot_row(row).axes) == 1
    assert model.explain(row).sentence().startswith("output (high, low, middle)")


def test_an_earlier_model_and_public_rows_are_worth_their_rows() -> None:
    rows, y = people()
    few: dict[str, Any] = {"epsilon": "0.1", "delta": "1e-5"}
    earlier = classifier(epsilon=4).fit(rows, y)
    public, known = people(1500, seed=9)
    told = sl.PublicData({**public, "target": known}, "a survey")
    new, wanted = people(2000, seed=2)
    best = float(np.mean(earlier.predict(new) == wanted))
    for given in (earlier, sl.Release.from_json(earlier.release_.to_json()), told):
        model = classifier(**few, prediction=given).fit(rows, y)
        assert model.prediction_.chosen == 0
        assert float(np.mean(model.predict(new) == wanted)) > best - 0.05
    stated = sl.CurvePrediction({"age": [(0, 1.0), (100, -1.0)]})
    with pytest.raises(RangeError, match="several classes"):
        classifier(prediction=stated).fit(rows, y)


def test_a_public_fit_finds_the_softmax_of_its_rows() -> None:
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 2, 6000)
    odds = np.array([[0.0, 1.0, -1.0], [1.0, -1.0, 0.0]])[labels]
    places = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
    found = fit_public([PLAN], labels[:, None], places[:, None].astype(float), targets=TARGETS)
    both = found.offset.tables[0] + found.offset.constant
    both -= both.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(both, [[0.0, 1.0, -1.0], [1.0, -1.0, 0.0]], atol=0.15)


def test_the_clip_holds_for_all_classes_at_once() -> None:
    rng = np.random.default_rng(5)
    tables = [rng.integers(-(2**13), 2**13, (3, 2)), rng.integers(-(2**13), 2**13, (2, 2))]
    squares = tuple((table**2).sum(axis=1).astype(float) for table in tables)
    predictors = tuple(rng.normal(0, 2.0**29, (len(table), 3)).round() for table in tables)
    for clip in (1, 1000, 2**22, 2**26):
        sums = CurveErrors(targets=TARGETS, predictors=predictors, constant=0.0, squares=squares, clip=clip)
        rows = list(itertools.product(range(3), range(2), range(3)))
        parts = []
        for first, second, label in rows:
            codes, target = np.array([[first, second]]), np.array([[float(label)]])
            moved = gradient_of(sums(codes, target), tables)
            assert moved.shape == (5, 3)
            assert int((moved.astype(object) ** 2).sum()) <= clip**2
            parts.append(moved)
        codes = np.array([row[:2] for row in rows])
        together = gradient_of(sums(codes, np.array([[float(row[2])] for row in rows])), tables)
        np.testing.assert_array_equal(together, sum(parts))
    z = np.concatenate([[ONE], tables[0][2], tables[1][1]])
    assert int(z @ z) == ONE**2 + int(squares[0][2] + squares[1][1])


def test_a_level_of_classes_is_finite_whatever_was_counted() -> None:
    for counts in ([0.0, 0.0, 0.0], [-5.0, 1e6, 3.0], [10.0, 20.0, 70.0]):
        level = target_level("softmax", np.array(counts), rows=100.0, deviation=3.0)
        assert np.isfinite(level.base).all()
        assert abs(float(np.sum(level.base))) < 1e-9
        assert sum(level.shares) == pytest.approx(1)
    np.testing.assert_allclose(level.shares, [0.107, 0.204, 0.689], atol=0.002)


def test_no_data_makes_a_fit_of_several_classes_fail() -> None:
    for age, label in (([], "low"), ([50.0], "high"), (np.full(40, np.nan), "middle"), (np.full(40, 100.0), "none")):
        for epsilon in ("0.01", 20):
            model = classifier(epsilon=epsilon)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit({"age": age, "plan": np.full(len(age), "free")}, np.full(len(age), label))
            assert np.isfinite(model.decision_function({"age": [0.0, np.nan], "plan": ["free", "none"]})).all()

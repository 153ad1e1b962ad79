"""The bound of one person: reference numbers, the encoding, the scopes, and the traps that make a report too small."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from example_reports import ADULT, published, tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from report_cases import CONSTANTS, FILE, cases, reports

from sidelight.errors import SchemaError
from sidelight.privacy_page import bounds_of_rows, read_report, report_bound
from sidelight.privacy_page.bound import encode_features, encode_label, encode_row
from sidelight.privacy_page.build import FitConstants, NoiseQuantiles, build_report, largest_bound, report_quantiles
from sidelight.privacy_page.losses import Logistic, Softmax, Weights
from sidelight.privacy_page.published import Feature, LabelEncoding, RowEncoding

SQUARED = {"name": "squared-clipped", "clip": 1.0}
LOG_COSH = {"name": "log-cosh", "kappa": 0.5}
FULL = {"mu_out": 0.01, "slack": 1.0217108006e-3, "q": 5.1035540029}
Z1, Z2, Z3 = [0.6, 0.8], [0.8, -0.6], [0.0, 0.5]


@pytest.mark.parametrize(
    ("changes", "row", "label", "reference"),
    [
        ({}, Z1, "1", 1.4644326284),
        ({}, Z2, "-1", 1.7008382973),
        ({"loss": SQUARED}, Z1, 0.5, 1.8959404147),
        ({"loss": SQUARED}, Z2, 2.0, 2.5708192378),
        ({"loss": SQUARED}, Z2, -0.4, 2.6241698013),
        (FULL, Z1, "1", 1.5686526171),
        (FULL, Z2, "-1", 1.8150401507),
        (FULL, Z3, "1", 0.7901590580),
        ({"loss": SQUARED, **FULL}, Z1, 0.5, 2.0006155952),
        ({"loss": SQUARED, **FULL}, Z2, 2.0, 2.7278625415),
        ({"loss": SQUARED, **FULL}, Z2, -0.4, 2.7585846754),
        ({"loss": LOG_COSH, **FULL}, Z1, 0.5, 1.3889899619),
        ({"loss": LOG_COSH, **FULL}, Z2, 2.0, 1.3601096347),
    ],
)
def test_reference_bounds(changes: dict[str, Any], row: list[float], label: Any, reference: float) -> None:
    assert report_bound(tiny(**changes), row, label) == pytest.approx(reference, abs=6e-11)


def test_reference_output_step_and_slack() -> None:
    constants = FitConstants(epsilon=1, delta=1e-5, regularisation=1, sigma=2, tolerance=1e-6, sigma_out=2e-4)
    assert constants.slack(5.1035540029, 2) == pytest.approx(1.0217108006e-3, abs=1e-13)
    assert constants.mu_out == pytest.approx(0.01)
    assert report_bound(tiny(**FULL), [0.0, 0.0], "1") == pytest.approx(
        0.0510855400, abs=1e-10
    )  # r = 0: the step alone


def test_reference_maxima() -> None:
    logistic = Logistic(weights=Weights(negative=1, positive=1))
    flat = NoiseQuantiles(along=4.8916384757, axis=None, output=4.8916384757, slack=4.8916384757)
    exact = FitConstants(epsilon=1, delta=1e-5, regularisation=1, sigma=2, tolerance=0, sigma_out=0)
    encoding = read_report(tiny()).encoding
    assert largest_bound(logistic, encoding=encoding, constants=exact, reached=flat) == pytest.approx(
        2.7939627892, abs=1e-10
    )
    wide = RowEncoding(
        features=[Feature(name=f"x{i}") for i in range(104)],
        row_policy="normalize",
        data_norm=1.0,
        intercept_value=1.0,
        label=LabelEncoding(negative="a", positive="b"),
    )
    for scope, maximum in (
        ({}, 1.655238),
        ({"scope": "all-n", "n_public": 45222}, 2.132687),
    ):
        report = build_report(loss=logistic, encoding=wide, theta=[0.0] * 105, constants=ADULT, **scope)  # type: ignore[arg-type]
        assert report.maximum == pytest.approx(maximum, abs=6e-7)
        if not scope:
            assert report.slack == pytest.approx(0.00135519, abs=5e-9)
            assert report.mu_out**2 / 2 + report.mu_out * report.q == pytest.approx(0.027368, abs=6e-7)


def test_a_norm_bound_without_the_constant_column_is_too_small() -> None:
    """R = data_norm forgets the column: its maximum is exceeded by an ordinary person."""
    report = read_report(published())
    without = read_report(published() | {"encoding": published()["encoding"] | {"intercept_value": 1e-9}})
    wrong = largest_bound(
        report.loss,
        encoding=without.encoding,
        constants=CONSTANTS,
        reached=report_quantiles(1e-6, scope="one-person", columns=4),
    )
    right = largest_bound(
        report.loss,
        encoding=report.encoding,
        constants=CONSTANTS,
        reached=report_quantiles(1e-6, scope="one-person", columns=4),
    )
    worst = build_report(loss=report.loss, encoding=report.encoding, theta=[-2, -2, -2, -2], constants=CONSTANTS)
    bound = report_bound(worst, {"age": 100, "sex": "F"}, ">50K")
    assert wrong < bound <= right


def test_a_missing_intercept_under_reports() -> None:
    """The trap itself: the same row without its constant column gets a smaller bound than it should."""
    report = published() | {"theta": [0.5, 0.2, -0.3, -2.0]}
    person = ({"age": 40, "sex": "M"}, ">50K")
    forgot = report | {"encoding": report["encoding"] | {"intercept_value": None}, "theta": report["theta"][:3]}
    assert report_bound(forgot, *person) < 0.7 * report_bound(report, *person)


def test_both_label_orders() -> None:
    """Which class counts as positive is what the file says, not the alphabet."""
    row = {"age": 40, "sex": "M"}
    report = published()
    swapped = report | {
        "encoding": report["encoding"] | {"label": {"negative": ">50K", "positive": "<=50K"}},
        "theta": [-entry for entry in report["theta"]],
    }
    for label in ("<=50K", ">50K"):
        assert report_bound(report, row, label) == pytest.approx(report_bound(swapped, row, label), rel=1e-14)
    assert report_bound(report, row, "<=50K") != pytest.approx(report_bound(report, row, ">50K"), rel=1e-2)
    assert encode_label(read_report(swapped).encoding, ">50K") == -1.0


def test_the_encoding() -> None:
    features = [
        Feature(name="age", lo=0, hi=100),
        Feature(name="sex", levels=["F", "M"], to=[-0.5, 0.5]),
        Feature(name="score"),
        Feature(name="dose", lo=-1, hi=1, to=[1, 3]),
    ]
    row = {"age": 25, "sex": "M", "score": -7, "dose": 0}
    assert encode_features(features, row) == pytest.approx([0.25, -0.5, 0.5, -7, 2])
    assert encode_features(features, [250, "F", 0.5, -9]) == pytest.approx([1.0, 0.5, -0.5, 0.5, 1.0])  # clamped
    ignored = [Feature(name="sex", levels=["F", "M"], outside="clamp")]
    assert encode_features(ignored, ["X"]) == pytest.approx([0, 0])
    encoding = RowEncoding(
        features=features, row_policy="clip", data_norm=1.0, intercept_value=2.0, label=LabelEncoding(lo=-1, hi=1)
    )
    encoded = encode_row(encoding, row)
    assert encoded[0, -1] == 2.0
    assert np.linalg.norm(encoded[0, :-1]) == pytest.approx(1.0)
    short = encode_row(encoding, {"age": 1, "sex": "M", "score": 0, "dose": -1})
    assert np.linalg.norm(short[0, :-1]) == pytest.approx(1.0)  # 0.01, -0.5, 0.5, 0, 1 is longer than 1
    full = RowEncoding(
        features=[Feature(name="a"), Feature(name="b")],
        row_policy="normalize",
        data_norm=2.0,
        intercept_value=None,
        label=LabelEncoding(lo=-1, hi=1),
    )
    assert encode_row(full, [3e-200, 4e-200])[0] == pytest.approx([1.2, 1.6])
    assert encode_row(full, [3e200, 4e200])[0] == pytest.approx([1.2, 1.6])
    assert encode_row(full, [0, 0])[0] == pytest.approx([0, 0])
    assert encode_label(full, 7) == 1.0


@pytest.mark.parametrize(
    ("row", "label", "words"),
    [
        ({"age": 40}, ">50K", "sex: missing"),
        ({"age": 40, "sex": "F", "height": 3}, ">50K", "height: this model has no such feature"),
        ({"age": "forty", "sex": "F"}, ">50K", "age: a number belongs here, got 'forty'"),
        ({"age": None, "sex": "F"}, ">50K", "age: a number belongs here, got nothing"),
        ({"age": True, "sex": "F"}, ">50K", "age: a number"),
        ({"age": float("nan"), "sex": "F"}, ">50K", "age: a finite number"),
        ({"age": float("inf"), "sex": "F"}, ">50K", "age: a finite number"),
        ({"age": 40, "sex": "f"}, ">50K", "sex: 'f' is no level"),
        ({"age": 40, "sex": "F"}, "50K", "label: '50K' is no class"),
        ([40], ">50K", "a row has 2 values"),
        ("ab", ">50K", "a row has 2 values"),
    ],
)
def test_bad_input_is_named(row: Any, label: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        report_bound(published(), row, label)


def test_what_training_would_have_rejected_is_said() -> None:
    strict = published()
    strict["encoding"] = strict["encoding"] | {
        "features": [{"name": "age", "lo": 0, "hi": 100, "outside": "reject"}, {"name": "sex", "levels": ["F", "M"]}]
    }
    with pytest.raises(SchemaError, match=r"age: must lie in 0 \.\. 100; a row like this could not have been used"):
        report_bound(strict, [101, "F"], ">50K")
    with pytest.raises(SchemaError, match="label: a number"):
        report_bound(tiny(loss=SQUARED), Z1, "much")


def test_exponentials_that_run_away_are_right() -> None:
    """exp(y·u - h) is infinite for θ of size 1e6: the slope is 0, the bound the output step; 1 on the other side."""
    report = tiny(theta=[1e6, 0.0])
    assert report_bound(report, [1.0, 0.0], "1") == pytest.approx(0.0, abs=1e-300)
    steep = 1 / 8 + 4.8916384757 / 2
    assert report_bound(report, [1.0, 0.0], "-1") == pytest.approx(steep)
    for loss in (LOG_COSH, {"name": "huber", "kappa": 0.5}, SQUARED, {"name": "poisson", "clip": 0.5}):
        label = {"lo": 0.0, "hi": 5.0}
        wild = tiny(loss=loss, theta=[1e6, 0.0])
        wild["encoding"] = wild["encoding"] | {"label": label}
        for row in ([1.0, 0.0], [-1.0, 0.0], [0.0, 0.0], [1e-300, 0.0]):
            assert math.isfinite(report_bound(wild, row, 1.0))


def test_the_shared_cases_are_current_and_many() -> None:
    stored = json.loads(FILE.read_text())
    fresh = cases()
    _assert_alike(stored["reports"], fresh["reports"])
    assert stored["refused"] == fresh["refused"]
    assert len(stored["refused"]) == 9
    assert len(stored["cases"]) >= 200
    for old, new in zip(stored["cases"], fresh["cases"], strict=True):
        _assert_alike(old, new)
        assert old["bound"] <= stored["reports"][old["report"]]["maximum"]


def test_stored_cases_that_are_off_are_noticed() -> None:
    """The comparison can fail: a digit that no libm explains, a text, a missing key, a list that is cut."""
    report = {"epsilon": 1.0, "name": "age", "theta": [0.1, 0.2], "levels": None}
    _assert_alike(report, {**report, "epsilon": 1.0 + 2e-15})
    for change in ({"epsilon": 1.0 + 1e-11}, {"name": "sex"}, {"theta": [0.1]}, {"levels": []}, {"extra": 1}):
        with pytest.raises(AssertionError):
            _assert_alike(report, {**report, **change})


def _assert_alike(stored: Any, fresh: Any) -> None:
    """Compare what another architecture wrote: equal, but for the last digits of floats.

    Bounds and maxima are sums of at most a few hundred terms of one sign, each with an exp, log or quantile that a
    libm may round differently: relative errors of some 1e-15, held to 1e-13.
    """
    if isinstance(stored, dict):
        assert isinstance(fresh, dict)
        assert stored.keys() == fresh.keys()
        for key, value in stored.items():
            _assert_alike(value, fresh[key])
    elif isinstance(stored, list):
        assert isinstance(fresh, list)
        assert len(stored) == len(fresh)
        for left, right in zip(stored, fresh, strict=True):
            _assert_alike(left, right)
    elif isinstance(stored, float):
        assert fresh == pytest.approx(stored, rel=1e-13)
    else:
        assert type(fresh) is type(stored)
        assert fresh == stored


def test_nobody_exceeds_the_maximum() -> None:
    rng = np.random.default_rng(3)
    for name, report in reports().items():
        width = report.encoding.columns - (report.encoding.intercept_value is not None)
        rows = rng.normal(size=(300, width)) * 10.0 ** rng.uniform(-3, 3, size=(300, 1))
        label = report.encoding.label
        if label.classes is not None:
            targets = rng.integers(0, len(label.classes), 300)
        else:
            targets = rng.choice([-1, 1], 300) if label.lo is None else rng.uniform(-9, 9, 300)
        bounds = bounds_of_rows(report, rows, targets)
        assert np.all(bounds <= report.maximum), name
        assert np.max(bounds) > 0.3 * report.maximum, name


def test_one_row_and_many_rows_agree() -> None:
    report = tiny(**FULL)
    many = bounds_of_rows(report, np.array([Z1, Z2, Z3]), [1, -1, 1])
    single = [report_bound(report, row, label) for row, label in ((Z1, 1), (Z2, -1), (Z3, 1))]
    assert many == pytest.approx(single, rel=1e-15)


finite = st.floats(-2, 2)


@settings(max_examples=60)
@given(row=st.tuples(finite, finite), theta=st.tuples(finite, finite), slack=st.floats(0, 0.5), more=st.floats(0, 0.5))
def test_laws_of_the_bound(row: Any, theta: Any, slack: float, more: float) -> None:
    """More slack, a wider scope or a larger quantile never lowers a bound; a bound is never negative."""
    for loss, label in (
        ({"name": "logistic", "weights": {"-1": 1, "1": 2}}, "-1"),
        (LOG_COSH, 0.3),
        (SQUARED, 0.3),
        ({"name": "huber", "kappa": 0.7}, 0.3),
        ({"name": "smoothed-hinge", "width": 0.5}, "1"),
        ({"name": "poisson", "clip": 1.0}, 2.0),
    ):
        narrow = report_bound(tiny(loss=loss, theta=list(theta), slack=slack), list(row), label)
        assert 0 <= narrow < math.inf
        assert narrow <= report_bound(tiny(loss=loss, theta=list(theta), slack=slack + more), list(row), label) + 1e-12
        assert narrow <= report_bound(tiny(loss=loss, theta=list(theta), slack=slack, q=5.5), list(row), label)


@settings(max_examples=40)
@given(row=st.tuples(finite, finite), slack=st.floats(0, 0.3), seed=st.integers(0, 99))
def test_slope_and_curvature_reach_over_every_point_of_the_slack(row: Any, slack: float, seed: int) -> None:
    """Whatever the exact minimum within the slack, its bound without slack is no larger: intervals enclose."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=2)
    x = encode_row(read_report(tiny()).encoding, list(row))[0]
    inside = theta + rng.uniform(-1, 1) * slack * x / max(np.linalg.norm(x), 1e-12)
    for loss, label in (
        ({"name": "logistic", "weights": {"-1": 1, "1": 2}}, "1"),
        (LOG_COSH, 0.3),
        (SQUARED, 0.3),
        ({"name": "huber", "kappa": 0.7}, 0.3),
        ({"name": "smoothed-hinge", "width": 0.5}, "1"),
        ({"name": "poisson", "clip": 1.0}, 2.0),
    ):
        around = report_bound(tiny(loss=loss, theta=theta.tolist(), slack=slack), list(row), label)
        assert report_bound(tiny(loss=loss, theta=inside.tolist()), list(row), label) <= around + 1e-9


def test_scope_everyone_takes_the_better_of_two_bounds_of_the_noise() -> None:
    logistic = Logistic(weights=Weights(negative=1, positive=1))
    encoding = RowEncoding(
        features=[Feature(name=f"x{i}") for i in range(50)],
        row_policy="clip",
        data_norm=1.0,
        intercept_value=None,
        label=LabelEncoding(negative="a", positive="b"),
    )
    report = build_report(loss=logistic, encoding=encoding, theta=[0.0] * 50, constants=CONSTANTS, scope="everyone")
    assert report.q_axis is not None
    assert report.q_axis < report.q
    axis, spread = [1.0] + [0.0] * 49, [50**-0.5] * 50
    room = report.slack / 4 * (report.q + 1) / 4.5  # the slope is at most ½ + h/4
    for row, factor in ((axis, report.q_axis), (spread, report.q)):
        bound = report_bound(report, row, "a") - math.log1p(0.25 / 1.75) - 0.125 / 4.5**2 - _step(report)
        assert bound == pytest.approx(factor * 0.5 / 4.5, abs=room)


def _step(report: Any) -> float:
    return float(report.mu_out**2 / 2 + report.mu_out * report.q_out)


def test_a_softmax_of_two_equal_columns_costs_more_than_its_logistic_model() -> None:
    """Two classes as a softmax: the same slope times √2, since both columns move."""
    soft = build_report(
        loss=Softmax(),
        encoding=RowEncoding(
            features=[Feature(name="x")],
            row_policy="clip",
            data_norm=1.0,
            intercept_value=None,
            label=LabelEncoding(classes=["a", "b"]),
        ),
        theta=[[0.0], [0.0]],
        constants=FitConstants(epsilon=1, delta=1e-5, regularisation=1, sigma=2, tolerance=0, sigma_out=0),
    )
    bound = report_bound(soft, [1.0], "a")
    assert bound == pytest.approx(math.log1p(0.5) + 0.25 / 4 + math.sqrt(2) * 0.5 * soft.q / 2)
    assert bound < soft.maximum

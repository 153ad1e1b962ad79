"""The page's JavaScript, run in Chromium, gives the numbers of the Python reference and of the specification."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_additive_reports import GRIDS, KINDS, cells_report, column_of, fitted

import sidelight as sl
from sidelight.privacy_page import report_bound
from sidelight.privacy_page.losses import Loss
from sidelight.privacy_page.page import privacy_page
from sidelight.privacy_page.published import Scope
from sidelight.regression.additive.fine_codes import prediction_codes

pytestmark = pytest.mark.browser

CASES = json.loads(Path(__file__).with_name("cases.json").read_text(encoding="utf-8"))
TOLERANCE = 1e-12
JUDGE = """([reports, cases]) => cases.map((each) =>
    sidelight.bound(each.values, each.label, each.member, reports[each.report]).bound)"""
Bounds = Callable[[dict[str, Any], list[dict[str, Any]]], list[float]]


@pytest.fixture(scope="module")
def javascript(the_browser: Any) -> Iterator[Bounds]:
    """Ask the script of a real page for bounds, many at once."""
    page = the_browser.new_page()
    page.set_content(privacy_page(CASES["reports"]["logistic/one-person"]))

    def bounds(reports: dict[str, Any], cases: list[dict[str, Any]]) -> list[float]:
        return [float(each) for each in page.evaluate(JUDGE, [reports, cases])]

    yield bounds
    page.close()


def in_order(report: dict[str, Any], row: dict[str, Any]) -> list[Any]:
    return [row[feature["name"]] for feature in report["encoding"]["features"]]


def test_the_shared_cases(javascript: Bounds) -> None:
    cases = CASES["cases"]
    assert len(cases) >= 200
    asked = [{**case, "values": in_order(CASES["reports"][case["report"]], case["row"])} for case in cases]
    given_bounds = javascript(CASES["reports"], asked)
    for case, bound in zip(cases, given_bounds, strict=True):
        assert bound == pytest.approx(case["bound"], rel=TOLERANCE, abs=TOLERANCE), case


def test_every_loss_scope_and_policy_is_among_the_cases() -> None:
    """A loss that Python learns and the page does not would fail here first."""
    every = [CASES["reports"][case["report"]] for case in CASES["cases"]]
    descents = {report["loss"]["name"] for report in every if report["mechanism"] == "descent"}
    assert descents == {"squared", "logistic", "softmax"}
    asked = [report for report in every if report["mechanism"] != "descent"]
    assert {report["loss"]["name"] for report in asked} == {each.__struct_config__.tag for each in get_args(Loss)}
    assert {report["scope"] for report in asked} == set(get_args(Scope))
    assert {report["encoding"]["row_policy"] for report in asked} == {"clip", "normalize"}
    assert {report["encoding"]["intercept_value"] is None for report in asked} == {True, False}
    assert {report["data_dependent"] is None for report in asked} == {True, False}


@pytest.mark.parametrize("kind", KINDS)
def test_additive_models_have_the_bounds_of_python(javascript: Bounds, kind: str) -> None:
    model, rows, y = fitted(kind)
    report = model.privacy_report()
    cases, expected = [], []
    for place in range(20):
        row = {name: rows[name][place].item() for name in rows}
        cases.append({"report": "r", "values": in_order(report, row), "label": y[place].item(), "member": "unknown"})
        expected.append(report_bound(report, row, y[place].item()))
    assert javascript({"r": report}, cases) == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize("grid", GRIDS)
def test_values_on_edges_are_looked_up_in_the_cells_of_the_fit(javascript: Bounds, grid: str) -> None:
    """Each fine cell has a bound of its own, so that equal bounds are equal cells."""
    column, values = column_of(grid)
    report = cells_report(column, cell=list(range(1024)), square=[place / 64 for place in range(1024)])
    codes = prediction_codes([column], sl.Table({"x": values}, schema=[column]))[:, 0]
    (low, high), _ = GRIDS[grid]
    inside = [float(low) + (place + 0.5) / 1024 * (float(high) - float(low)) for place in range(1024)]
    of_cell = np.array([report_bound(report, [x], "yes") for x in inside])
    assert np.diff(of_cell).min() > 1e-6
    cases = [{"report": "r", "values": [x], "label": "yes", "member": "unknown"} for x in values]
    found = javascript({"r": report.to_dict()}, cases)
    np.testing.assert_allclose(found, of_cell[codes], rtol=TOLERANCE)


def test_a_forgotten_constant_column_would_be_noticed(javascript: Bounds) -> None:
    """The control: the comparison fails for a page that forgets the intercept, or turns the label round."""
    (case,) = [case for case in CASES["cases"] if case["report"] == "logistic/one-person"][5:6]
    for change in ("intercept", "label"):
        report = copy.deepcopy(CASES["reports"]["logistic/one-person"])
        if change == "intercept":
            assert report["encoding"].pop("intercept_value") is not None
        else:
            label = report["encoding"]["label"]
            label["negative"], label["positive"] = label["positive"], label["negative"]
        (bound,) = javascript({"r": report}, [{**case, "report": "r", "values": in_order(report, case["row"])}])
        assert abs(bound - case["bound"]) > 1e-3


def tiny(loss: dict[str, Any], *, q: float, slack: float = 0.0, mu_out: float = 0.0) -> dict[str, Any]:
    classes = loss["name"] == "logistic"
    return {
        "schema": "privacy-report/1",
        "mechanism": "objective-perturbation",
        "neighbours": "add-or-remove-one-row",
        "guarantee": {"epsilon": 1.0, "delta": 1e-5},
        "loss": loss,
        "encoding": {
            "features": [{"name": "a"}, {"name": "b"}],
            "row_policy": "clip",
            "data_norm": 1.0,
            "intercept_value": None,
            "label": {"negative": "-", "positive": "+"} if classes else {"lo": -9.0, "hi": 9.0},
        },
        "theta": [0.3, -0.2],
        "lambda": 1.0,
        "sigma": 2.0,
        "mu_out": mu_out,
        "slack": slack,
        "rho": 1e-6,
        "q": q,
        "scope": "one-person",
        "maximum": 2.8,
        "data_dependent": None,
    }


LOGISTIC = {"name": "logistic", "weights": {"-1": 1, "1": 1}}
SQUARED = {"name": "squared-clipped", "clip": 1.0}
LOG_COSH = {"name": "log-cosh", "kappa": 0.5}
PLAIN = {"q": 4.8916384757}
FULL = {"q": 5.1035540029, "slack": 1.0217108006e-3, "mu_out": 0.01}


@pytest.mark.parametrize(
    ("loss", "settings_", "row", "label", "bound"),
    [
        (LOGISTIC, PLAIN, [0.6, 0.8], "+", 1.4644326284),
        (LOGISTIC, PLAIN, [0.8, -0.6], "-", 1.7008382973),
        (SQUARED, PLAIN, [0.6, 0.8], 0.5, 1.8959404147),
        (SQUARED, PLAIN, [0.8, -0.6], 2.0, 2.5708192378),
        (SQUARED, PLAIN, [0.8, -0.6], -0.4, 2.6241698013),
        (LOGISTIC, FULL, [0.6, 0.8], "+", 1.5686526171),
        (LOGISTIC, FULL, [0.8, -0.6], "-", 1.8150401507),
        (LOGISTIC, FULL, [0.0, 0.5], "+", 0.7901590580),
        (SQUARED, FULL, [0.6, 0.8], 0.5, 2.0006155952),
        (SQUARED, FULL, [0.8, -0.6], 2.0, 2.7278625415),
        (SQUARED, FULL, [0.8, -0.6], -0.4, 2.7585846754),
        (LOG_COSH, FULL, [0.6, 0.8], 0.5, 1.3889899619),
        (LOG_COSH, FULL, [0.8, -0.6], 2.0, 1.3601096347),
        (LOGISTIC, FULL, [0.0, 0.0], "+", 0.0510855400),
    ],
)
def test_reference_numbers(
    javascript: Bounds, loss: Any, settings_: dict[str, float], row: list[float], label: Any, bound: float
) -> None:
    report = tiny(loss, **settings_)
    case = {"report": "r", "values": row, "label": label, "member": "unknown"}
    assert javascript({"r": report}, [case])[0] == pytest.approx(bound, abs=2e-9)


def test_the_paid_reference(javascript: Bounds) -> None:
    report = tiny(LOGISTIC, **PLAIN)
    report["data_dependent"] = {
        "gradient": [0.2774424168, -1.2584897271],
        "sigma2": 1.0,
        "hessian": [[1.376875719162, 0.056348390493], [0.056348390493, 1.293038689233]],
        "sigma3": 0.1,
        "kappa": 0.7526508925,
        "zeta": 0.0,
        "q": 4.8916384757,
    }
    people = [([0.6, 0.8], "+", "yes", 0.7119923351 + 10.6637556), ([0.8, -0.6], "-", "no", 0.7026001415 + 10.4934086)]
    for row, label, member, bound in people:
        case = {"report": "r", "values": row, "label": label, "member": member}
        unknown = {**case, "member": "unknown"}
        found, either = javascript({"r": report}, [case, unknown])
        assert found == pytest.approx(bound, abs=2e-7)
        assert either >= found


def test_a_thousand_random_rows(javascript: Bounds) -> None:
    generator = np.random.default_rng(11)
    names = list(CASES["reports"])
    cases, wanted = [], []
    for turn in range(1000):
        name = names[turn % len(names)]
        report = CASES["reports"][name]
        row = {
            "age": float(generator.uniform(-20, 130)),
            "income": float(generator.normal() * 10.0 ** generator.integers(0, 8)),
            "sex": "FM"[turn % 2],
            "dose": float(generator.uniform(0, 10)),
            "region": ["north", "south", "ab c", "?"][int(generator.integers(4))],
            "score": float(generator.normal() * 10.0 ** generator.integers(-3, 3)),
        }
        declared = report["encoding"]["label"]
        known = declared.get("classes") or [declared.get("negative"), declared.get("positive")]
        label = float(generator.uniform(-3, 7)) if "lo" in declared else known[int(generator.integers(len(known)))]
        member = ("yes", "no", "unknown")[turn % 3]
        cases.append({"report": name, "values": in_order(report, row), "label": label, "member": member})
        wanted.append(report_bound(report, row, label, member=member))  # type: ignore[arg-type]
    assert javascript(CASES["reports"], cases) == pytest.approx(wanted, rel=TOLERANCE, abs=TOLERANCE)


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(sorted(CASES["reports"])),
    age=finite,
    income=finite,
    score=finite,
    dose=st.floats(0, 10),
    sex=st.sampled_from("FM"),
    region=st.sampled_from(["north", "south", "ab c", ""]),
    share=st.floats(0, 1),
)
def test_any_row(javascript: Bounds, name: str, share: float, **row: Any) -> None:
    """Any finite values: the same bound, a finite one that no rounding makes negative."""
    report = CASES["reports"][name]
    declared = report["encoding"]["label"]
    known = declared.get("classes") or [declared.get("negative"), declared.get("positive")]
    label = 20 * share - 10 if "lo" in declared else known[min(int(share * len(known)), len(known) - 1)]
    (bound,) = javascript({name: report}, [{"report": name, "values": in_order(report, row), "label": label}])
    assert math.isfinite(bound)
    assert bound >= 0
    assert bound == pytest.approx(report_bound(report, row, label), rel=1e-9, abs=1e-9)

"""Whatever is written from a release or a fit with seeded noise says that it is not private."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.disclosures import FACTS
from typer.testing import CliRunner

import sidelight as sl
from sidelight.cli.app import app
from sidelight.errors import SchemaError
from sidelight.ledger import open_ledger
from sidelight.privacy_page import read_report
from sidelight.privacy_page.page import privacy_page
from sidelight.regression.estimators.privacy_report import report_of
from sidelight.report import Item, Report, disclosure_page, render
from sidelight.testing import SeededSession, seeded_release

RNG = np.random.default_rng(3)
X = RNG.uniform(-0.5, 0.5, (200, 2))
Y = (X[:, 0] > 0).astype(int)
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
LINEAR: dict[str, Any] = {**PRICE, "data_norm": 1}
COLUMNS = [sl.Number(name, lower="-0.5", upper="0.5") for name in ("x0", "x1")]
MODELS: dict[str, Callable[..., Any]] = {
    "objective": lambda **more: sl.LogisticRegression(classes=[0, 1], solver="objective", **LINEAR, **more),
    "descent": lambda **more: sl.LogisticRegression(classes=[0, 1], **LINEAR, **more),
    "regression": lambda **more: sl.LinearRegression(target_range=(0, 1), **LINEAR, **more),
    "additive": lambda **more: sl.AdditiveClassifier(classes=[0, 1], columns=COLUMNS, **PRICE, **more),
}
TABLE = sl.Table({"g": ["a", "b"] * 100}, schema=[sl.Category("g", ["a", "b"], other=None)], name="people")
CLEAR = sl.Table({"g": ["a"] * 199 + ["b"]}, schema=TABLE.schema, name="people")
MODE = sl.StableMode("g", epsilon=1, delta="1e-6")


def says_so(text: str) -> bool:
    return "not private" in text.lower() and "seed" in text.lower()


@pytest.mark.filterwarnings("ignore::sidelight.errors.NotPrivateWarning", "ignore::sidelight.errors.PrivacyWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_privacy_report_and_page_of_a_seeded_model_say_so(name: str, tmp_path: Path) -> None:
    model = MODELS[name](random_state=0).fit(X, Y)
    for made in (model, pickle.loads(pickle.dumps(model))):
        report = made.privacy_report()
        text = read_report(report).to_json()
        assert says_so(json.dumps(report))
        assert says_so(text)
        assert says_so(privacy_page(report).split("<script", 1)[0])  # in words, not in the data of the script alone
        assert read_report(text) == read_report(report)
    file = tmp_path / "report.json"
    file.write_text(text)
    answer = CliRunner().invoke(app, ["privacy-page", str(file), "-o", str(tmp_path / "page.html")])
    assert answer.exit_code == 0
    assert says_so(answer.output)
    assert says_so((tmp_path / "page.html").read_text().split("<script", 1)[0])


@pytest.mark.filterwarnings("ignore::sidelight.errors.PrivacyWarning")
@pytest.mark.parametrize("name", MODELS)
def test_those_of_a_private_model_do_not(name: str) -> None:
    report = MODELS[name]().fit(X, Y).privacy_report()
    assert "entropy" not in report
    assert not says_so(json.dumps(report))
    assert not says_so(privacy_page(report))
    with pytest.raises(SchemaError, match="entropy"):  # there is one brand, and no word for its absence
        read_report({**report, "entropy": "os"})


@pytest.mark.filterwarnings("ignore::sidelight.errors.NotPrivateWarning")
def test_a_report_of_a_session_for_tests_is_branded_by_its_release() -> None:
    release = MODELS["objective"](random_state=0).fit(X, Y).release_
    assert report_of(release, classes=[0, 1]).entropy == release.circumstances.entropy


@pytest.mark.parametrize(
    "outcome",
    [
        seeded_release(sl.Count(by="g", epsilon=1), TABLE, seed=1),
        seeded_release(sl.SyntheticTable(sl.marginals(1), epsilon=1), TABLE, seed=1),
        seeded_release(MODE, CLEAR, seed=1),
        seeded_release(MODE, TABLE, seed=1),
    ],
    ids=["table", "synthetic", "answer", "refusal"],
)
def test_a_seeded_outcome_says_so_wherever_it_is_written(outcome: Any) -> None:
    report = Report(title="A day", day="2026-01-01", items=(Item(title="One", outcome=outcome),))
    written = [outcome.to_json(), str(outcome), repr(outcome), report.to_json(), render(report)]
    written += [outcome._repr_html_()] if hasattr(outcome, "_repr_html_") else []
    assert all("NOT PRIVATE" in text or says_so(text) for text in written)
    if isinstance(outcome, sl.Release):
        assert outcome.to_dict()["private"] is False


def test_a_deployment_record_says_so(tmp_path: Path) -> None:
    with open_ledger(f"sqlite:///{tmp_path}/tests.db", testing=True) as ledger:
        session = SeededSession(TABLE, seed=1, budget=sl.PureDP(2), ledger=ledger)
        session.release(sl.Count(by="g", epsilon=1))
        made = session.disclosure(**FACTS)
        for text in (made.to_yaml(), made._repr_html_(), disclosure_page(made)):
            assert says_so(text)

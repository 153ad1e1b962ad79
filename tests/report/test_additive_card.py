"""The card of an additive model: a panel and a sentence a column, read from the release alone."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.report import Item, Report, render
from sidelight.report.values import additive_card

COLUMNS = [sl.Number("age", lower=0, upper="100.5"), sl.Category("plan", ["free", "1 to 2"], other=None)]


def released(classes: int = 0, **more: Any) -> sl.Release:
    rng = np.random.default_rng(1)
    rows = {"age": rng.uniform(0, 100, 2000), "plan": rng.choice(["free", "1 to 2"], 2000)}
    y = np.abs(rows["age"] - 50) / 10 + (rows["plan"] == "free")
    price: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "columns": COLUMNS, "random_state": 1, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not classes:
            return sl.AdditiveRegressor(**price, target_range=(0, 8)).fit(rows, y).release_
        names = [f"<{place}>" for place in range(classes)]
        labels = np.array(names)[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
        return sl.AdditiveClassifier(**price, classes=names).fit(rows, labels).release_


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_every_column_has_a_panel_and_a_sentence(classes: int) -> None:
    release = sl.Release.from_json(released(classes).to_json())
    page = render(Report(title="t", day="2026-01-01", items=(Item(title="spending", outcome=release),)))
    labels = re.findall(r'<svg role="img" aria-label="(age|plan): ([^"]*)"', page)
    assert sorted(name for name, _ in labels) == ["age", "plan"]
    assert dict(labels)["age"].count("from") >= 2
    assert "No confidence band" in page
    assert "±" not in page[page.index("What each column adds") : page.index("Shares of the variance")]
    assert "<0>" not in page
    assert ("One line or dot for each class" in page) == (classes == 3)
    assert page.count('class="curve line') == max(1, classes if classes > 2 else 1)
    assert "Dashed" not in page


def test_a_prediction_that_was_used_is_dashed() -> None:
    guess = sl.CurvePrediction({"age": [(0, 3.0), (50, -2.0), (100, 3.0)]}, intercept=3.0)
    card = additive_card(released(prediction=guess))
    assert card is not None
    assert card["predicted"]
    assert dict(card["facts"])["Began with"].startswith("prediction 1 of 1")
    assert "curve stated" in next(chart for name, chart, _ in card["columns"] if name == "age")


def test_the_days_of_a_curve_are_dates() -> None:
    when = sl.Date("when", start="2019-01-01", end="2019-12-31")
    model = sl.AdditiveRegressor(epsilon=9, delta="1e-6", columns=[when], target_range=(0, 10), random_state=1)
    days = np.tile(np.arange(365), 10)
    with pytest.warns(sl.errors.NotPrivateWarning):
        model.fit({"when": np.datetime64("2019-01-01") + days}, days / 36.5)
    words = model.curve("when").sentence()
    assert re.fullmatch(r"when: rises from 2019-0[1-3]-\d\d to 2019-1[0-2]-\d\d", words)
    card = additive_card(sl.Release.from_json(model.release_.to_json()))
    assert card is not None
    ((_, chart, said),) = card["columns"]
    assert f"when: {said}" == words
    assert re.findall(r">(\d{4}-\d\d-\d\d)<", chart) == ["2019-01-01", "2019-12-31"]
    panel = model.plot().axes[1]
    assert panel.xaxis.get_major_formatter()(31.0) == "2019-02-01"


def test_a_release_that_was_changed_has_numbers_instead() -> None:
    release = released()
    three = sl.Schema([COLUMNS[0], sl.Category("plan", ["a", "b", "c"])]).to_json()["columns"]
    person, label = {"kind": "person", "name": "who", "max_rows": "3"}, {"kind": "label", "name": "town"}
    for columns in (three, ["age: 0 to 100.5", "plan: free, 1 to 2"], [], [{"kind": "number"}], [person], [label]):
        changed = replace(release, query={**release.query, "columns": columns})
        assert additive_card(changed) is None
        assert "spending" in render(Report(title="t", day="d", items=(Item(title="spending", outcome=changed),)))

"""Reports of additive models: lengths of the published path are above those of the integers, and hardly so."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import NotPrivateWarning, RangeError, SchemaError
from sidelight.privacy_page import bounds_of_rows, read_report, report_bound
from sidelight.privacy_page.bound import encode_label, encode_row
from sidelight.privacy_page.page import privacy_page
from sidelight.privacy_page.stepwise_reports import AdditiveReport, curve_variance, fine_codes
from sidelight.regression.additive.fine_codes import FineRows, prediction_codes
from sidelight.regression.additive.row_sums import ONE, CurveErrors, LeadingGram, columns_of

COLUMNS = [
    sl.Number("age", lower=18, upper=90),
    sl.Number("hours", lower="0.1", upper="0.7"),
    sl.Category("plan", ["free", "team", "firm"], other=None),
]
KINDS = ("number", "two", "three")


def people(count: int = 1500) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(3)
    rows: dict[str, np.ndarray] = {"age": rng.integers(18, 91, count).astype(float)}
    rows |= {"hours": rng.uniform(0.1, 0.7, count), "plan": rng.choice(["free", "team", "firm"], count)}
    return rows, np.abs(rows["age"] - 50) / 5 + 3 * (rows["plan"] == "team") + rng.normal(0, 1, count)


def fitted(kind: str, **more: Any) -> tuple[Any, dict[str, np.ndarray], Any]:
    rows, y = people()
    settings: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "columns": COLUMNS, "random_state": 4, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "number":
            return sl.AdditiveRegressor(**settings, target_range=(0, 12)).fit(rows, y), rows, y
        classes = ["low", "mid", "high"][: 2 if kind == "two" else 3]
        labels = np.array(classes)[np.digitize(y, [4] if kind == "two" else [2, 6])]
        return sl.AdditiveClassifier(**settings, classes=classes).fit(rows, labels), rows, labels


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", ["auto", "none"])
def test_the_path_is_above_that_of_the_integers(kind: str, lines: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    own = FineRows.added_up
    monkeypatch.setattr(FineRows, "added_up", lambda self, each: (asked.append(each), own(self, each))[1])
    model, rows, y = fitted(kind, lines=lines)
    report = read_report(model.privacy_report())
    assert isinstance(report, AdditiveReport)
    assert (report.lines is None) == (lines == "none")
    some = [{name: rows[name][at] for name in rows} for at in range(60)]
    encoded = np.concatenate([encode_row(report.encoding, row) for row in some])
    targets = np.array([encode_label(report.encoding, y[at]) for at in range(60)])
    table = sl.Table({name: rows[name][:60] for name in rows}, schema=COLUMNS)
    codes = prediction_codes(COLUMNS, table)
    np.testing.assert_array_equal(fine_codes(report, encoded), codes)
    coded, _ = (model._targets(model._schema_of_arrays().columns[-1])).admit(np.asarray(y[:60], dtype=object))
    exact = np.full(60, report.mu_count**2)
    clips = iter(report.clips)
    for each in asked:
        if isinstance(each, LeadingGram):
            length = (each.rows(codes) ** 2).sum(axis=1) / each.radius**2
            exact += (report.mu_gram * length) ** 2
        if isinstance(each, CurveErrors):
            errors = each.errors(columns_of(codes), coded).reshape(60, -1)
            squares = ONE**2 + sum(t[c] for t, c in zip(each.squares, columns_of(codes), strict=True))
            assert next(clips) == each.clip * 2.0**-26
            exact += ((errors**2).sum(axis=1) * squares / float(each.clip) ** 2) * report.mu_step**2
    found = curve_variance(report, encoded, targets)
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found <= exact * (1.05 if kind != "three" else 1.2) + 1e-6).all()
    bounds = bounds_of_rows(report, encoded, targets)
    assert (bounds <= report.maximum).all()
    assert report_bound(report.to_json(), some[0], y[0]) == pytest.approx(float(bounds[0]), rel=1e-12)


def test_the_parts_add_up_to_the_price_and_a_choice_stands_outside() -> None:
    guess = sl.CurvePrediction({"age": [(18, 3.0), (50, -3.0), (90, 4.0)]}, intercept=4.0)
    for model in (fitted("number")[0], fitted("number", prediction=guess, rows=1500)[0]):
        report = read_report(model.privacy_report())
        assert isinstance(report, AdditiveReport)
        total = len(report.clips) * report.mu_step**2 + report.mu_gram**2 + report.mu_count**2
        if report.lines is not None:
            lines = report.lines
            total += len(lines.points) * lines.mu_step**2 + lines.mu_gram**2 + lines.mu_count**2
        choice = Fraction(5, 100) if report.beforehand else Fraction(0)
        assert total == pytest.approx(float(model.privacy_.mu**2 * (1 - choice)), rel=1e-9)


def test_edges_of_cells_are_those_of_the_fit() -> None:
    model, _, _ = fitted("number")
    report = read_report(model.privacy_report())
    assert isinstance(report, AdditiveReport)
    for column, (low, high) in (("age", (18.0, 90.0)), ("hours", (0.1, 0.7))):
        grid = {"age": np.full(1025, 20.0), "hours": np.full(1025, 0.2), "plan": np.full(1025, "free")}
        grid[column] = low + (high - low) * (np.arange(1025) / 1024)
        wanted = prediction_codes(COLUMNS, sl.Table(grid, schema=COLUMNS))
        encoded = np.concatenate([encode_row(report.encoding, [grid[c][at] for c in grid]) for at in range(1025)])
        found = fine_codes(report, encoded)
        if column == "age":  # edges that floats can say
            np.testing.assert_array_equal(found, wanted)
        assert np.abs(found - wanted).max() <= 1


def test_a_page_is_made_and_nonsense_is_refused() -> None:
    model, _, _ = fitted("two")
    report = model.privacy_report()
    assert "additiveBound" in privacy_page(report)
    with pytest.raises(RangeError, match="rho"):
        model.privacy_report(rho=0)
    for change, match in (
        ({"columns": report["columns"][:2]}, "columns"),
        ({"constants": report["constants"][:2]}, "constants"),
        ({"rows": 3}, "rows"),
    ):
        with pytest.raises(SchemaError, match=match):
            read_report({**report, **change})
    wide = [sl.Number(f"x{place}", lower=0, upper=1) for place in range(257)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        warnings.simplefilter("ignore")
        large = sl.AdditiveRegressor(
            epsilon=1, delta="1e-6", columns=wide, target_range=(0, 1), random_state=1, lines="none"
        )
        large.fit(np.zeros((20, 257)), np.zeros(20))
    with pytest.raises(RangeError, match="has no report"):
        large.privacy_report()

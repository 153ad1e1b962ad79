"""Reports of additive models: lengths of the published path are above those of the integers, and hardly so."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.coding import CombinedCoding
from sidelight.aggregates.collect import coded_rows
from sidelight.errors import NotPrivateWarning, RangeError, SchemaError
from sidelight.privacy_page import bounds_of_rows, read_report, report_bound
from sidelight.privacy_page.bound import encode_features, encode_label, encode_row
from sidelight.privacy_page.page import privacy_page
from sidelight.privacy_page.published import Guarantee, LabelEncoding, RowEncoding
from sidelight.privacy_page.stepwise_reports import (
    AdditiveReport,
    ColumnPath,
    DescentLoss,
    build_additive_report,
    curve_variance,
    fine_codes,
)
from sidelight.regression.additive.fine_codes import FineRows, prediction_codes
from sidelight.regression.additive.row_sums import ONE, CurveErrors, LeadingGram, columns_of
from sidelight.regression.estimators.privacy_report import declared_features
from sidelight.regression.table_rows import LEVELS, RowEncoder, coding_of

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
        np.testing.assert_array_equal(found, wanted)
        lines = np.concatenate(list(RowEncoder(tuple(COLUMNS)).rows(codes_in_training(COLUMNS, grid))))
        np.testing.assert_array_equal(encoded, lines)


#: Columns whose values often lie on edges of cells: (bounds, number of values at even distances, both ends included).
GRIDS = {
    "0..10.24 by 0.01": ((0, "10.24"), [place / 100 for place in range(1025)]),
    "0..102.4 by 0.1": ((0, "102.4"), [place / 10 for place in range(1025)]),
    "0..5.12 by 0.01": ((0, "5.12"), [place / 100 for place in range(513)]),
    "0..98 by 0.5": ((0, 98), [place / 2 for place in range(197)]),
    "-0.7..0.1 by 1/1280": (("-0.7", "0.1"), [(place - 896) / 1280 for place in range(1025)]),
    "1/3..2/3 by 1/3072": ((Fraction(1, 3), Fraction(2, 3)), [(1024 + place) / 3072 for place in range(1025)]),
    "far from 0": ((10**9, 10**9 + Fraction(1, 10)), [10**9 + place / 10240 for place in range(1025)]),
}


def codes_in_training(columns: list[Any], cells: dict[str, Any]) -> tuple[np.ndarray, ...]:
    """Return the codes that a fit makes of rows, column by column."""
    coding = CombinedCoding(tuple(coding_of(column) for column in columns))
    parts = list(coded_rows(sl.Table(cells, schema=columns), coding))
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))


def column_of(grid: str) -> tuple[Any, list[float]]:
    """Return a grid's column, and its values with the floats above and below them."""
    (low, high), values = GRIDS[grid]
    each = np.array(values)
    near = [each, np.nextafter(each, np.inf), np.nextafter(each, -np.inf)]
    return sl.Number("x", lower=low, upper=high), np.concatenate(near).tolist()


def cells_report(column: Any, *, cell: list[int], square: list[float]) -> AdditiveReport:
    """Return a report, made by hand, of one column with these cells."""
    width = len(square)
    return build_additive_report(
        rho=1e-6,
        guarantee=Guarantee(epsilon=1.0, delta=1e-6),
        loss=DescentLoss(name="logistic"),
        encoding=RowEncoding(
            features=declared_features([column]),
            row_policy="clip",
            data_norm=1.0,
            intercept_value=None,
            label=LabelEncoding(negative="no", positive="yes"),
        ),
        lines=None,
        columns=[
            ColumnPath(cell=cell, offset=[[0.0]] * 1024, steps=[[[0.0]] * width], square=square, leading=[0.0] * width)
        ],
        constants=[[0.0]],
        clips=[8.0],
        radius=0.0,
        mu_step=1.0,
        mu_gram=0.0,
        mu_count=0.0,
        beforehand=0.0,
    )


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("others", [0, 1, 4])
def test_values_on_edges_have_the_codes_of_the_fit(grid: str, others: int) -> None:
    """Every code, not only every cell, whatever share of the row the column has."""
    column, values = column_of(grid)
    columns = [column, *(sl.Number(f"other{place}", lower=0, upper=1) for place in range(others))]
    cells = {each.name: values if each is column else [1.0] * len(values) for each in columns}
    wanted = codes_in_training(columns, cells)[0]
    rows = np.stack([encode_features(declared_features(columns), [x] + [1.0] * others) for x in values])
    np.testing.assert_array_equal(rows[:, 0], wanted * (RowEncoder(tuple(columns)).share / LEVELS))
    report = cells_report(column, cell=list(range(1024)), square=[1.0] * 1024)
    encoded = np.concatenate([encode_row(report.encoding, [x]) for x in values])
    fine = prediction_codes([column], sl.Table({"x": values}, schema=[column]))
    np.testing.assert_array_equal(fine_codes(report, encoded), fine)


def test_the_bound_on_an_edge_is_that_of_the_cell_in_training() -> None:
    """73.5 of 0..98 is the edge of cells 767 and 768, and falls short of it in training."""
    column = sl.Number("x", lower=0, upper=98)
    assert prediction_codes([column], sl.Table({"x": [73.5]}, schema=[column])).tolist() == [[767]]
    report = cells_report(column, cell=[0] * 768 + [1] * 256, square=[40.0, 0.0])
    high, edge, low = (report_bound(report.to_json(), [x], "yes") for x in (73.4, 73.5, 73.6))
    assert edge == high > 1.5 * low


def test_the_bound_of_a_fit_on_an_edge_is_that_of_the_cell_in_training() -> None:
    rng = np.random.default_rng(8)
    x = rng.integers(0, 1025, 6000) / 100
    columns = [sl.Number("x", lower=0, upper="10.24"), sl.Number("y", lower=0, upper=12)]
    # most rows lie on edges of fine cells, and one in five of these falls short of its edge
    table = sl.Table({"x": x, "y": np.clip(x / 2 + 5 * (x > 9.285) + rng.normal(0, 1, 6000), 0, 12)}, schema=columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sl.AdditiveRegressor(epsilon=2, delta="1e-6", random_state=3).fit_table(table, target="y")
    report = model.privacy_report()
    edges = np.arange(1025) / 100
    fine = prediction_codes(columns[:1], sl.Table({"x": edges}, schema=columns[:1]))[:, 0]
    assert fine[929] == 928
    curves = read_report({**report, "lines": None})  # lines see the code itself
    moved = 0
    for place in np.flatnonzero(np.diff(report["columns"][0]["cell"])) + 1:  # edges of cells
        below, edge, above = (report_bound(curves, [each], 6) for each in edges[place] + np.array([-0.005, 0, 0.005]))
        assert edge == (below if fine[place] < place else above) != (above if fine[place] < place else below)
        moved += fine[place] < place
    assert moved


def test_a_report_without_the_floats_of_training_is_refused() -> None:
    report = cells_report(sl.Number("x", lower=0, upper=98), cell=[0] * 1024, square=[1.0]).to_dict()
    (feature,) = report["encoding"]["features"]
    for change, match in (
        ({"middle": None, "inverse_half": None}, "inverse_half: missing; .* write the report again"),
        ({"middle": None}, "middle: a number that was cut"),
        ({"middle": 98.0}, "middle: must be that of lo and hi"),
        ({"inverse_half": 0.002}, "middle: must be that of lo and hi"),
        ({"lo": None, "hi": None, "to": None}, "middle: a number that was cut"),
    ):
        changed = {name: each for name, each in (feature | change).items() if each is not None}
        with pytest.raises(SchemaError, match=match):
            read_report({**report, "encoding": {**report["encoding"], "features": [changed]}})


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

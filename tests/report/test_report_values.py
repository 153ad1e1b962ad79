"""Values of every kind in the report: matrices as tiles, vectors as bars, mappings as rows, no bound that is none."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from sidelight.guarantees import Claims, PureDP
from sidelight.release import Circumstances, Release, TailBound, outcome_from_json
from sidelight.report import Item, Report, render
from sidelight.report.shapes import bar_chart, matrix_chart
from sidelight.report.values import matrix_of, rows_of


def release_of(value: object, labels: tuple[str, ...] = (), error: TailBound | None = None) -> Release:
    where = Circumstances(dataset="d", engine="numpy", version="0", entropy="os", numerics="exact")
    return Release(
        query={"kind": "covariance"},
        value=value,
        labels=labels,
        guarantee=Claims.of(PureDP(1)),
        error=error,
        prediction=None,
        circumstances=where,
    )


def page_of(release: Release) -> str:
    return render(Report(title="t", day="2026-11-15", items=(Item(title="q", outcome=release),)))


MATRIX = np.array([[2.0, -1.0], [-1.0, 0.5]])
BOUND = TailBound(unit="in operator norm", assumption="rows are short", fixed=(0.1,), per_log=(0.01,))


def test_a_matrix_is_drawn_and_listed_with_its_bound_once() -> None:
    release = release_of({"matrix": MATRIX, "rows": 12.0, "noisy": None}, ("age", "<hours>"), BOUND)
    for each in (release, outcome_from_json(release.to_json())):
        page = page_of(each)
        assert page.count('class="tile plus"') == 4  # two tiles, drawn wide and narrow
        assert page.count('class="tile minus"') == 4
        assert "None" not in page
        assert page.count("in operator norm</td>") == 1
        assert "<hours>" not in page
        assert "&lt;hours&gt;" in page


def test_large_arrays_are_counted() -> None:
    labels = tuple(f"c{k}" for k in range(90))
    release = release_of({"matrix": np.eye(90), "mean": np.zeros(90)}, labels)
    page = page_of(release)
    assert "90 × 90 numbers" in page
    assert 'class="tile' not in page


def test_rows_of_a_model() -> None:
    value = {"coefficients": np.array([[0.5, -2.0]]), "intercept": np.array([0.25])}
    rows = rows_of(release_of(value), None)
    assert rows == [("coefficients", "1 0.5; 2 -2", None), ("intercept", "0.25", None)]


def test_a_labelled_vector_has_bars() -> None:
    release = release_of(np.array([1.0, -2.0, 0.0]), ("a", "b", "c"))
    assert 'class="tile minus"' in page_of(release)


def test_a_single_label_needs_no_chart() -> None:
    assert "<svg" not in page_of(release_of("Bonn", ("mode",))).split('id="releases"')[1]


@pytest.mark.parametrize("values", [[0.0, 0.0], [-1.0, -2.0], [1e300, 1.0]])
def test_charts_are_well_formed(values: list[float]) -> None:
    for drawn in (
        bar_chart(["a", "b & c"], np.array(values)),
        matrix_chart(["a", "b"], np.outer(values, [1e-200, 1.0])),
    ):
        ElementTree.fromstring(f"<div>{drawn}</div>")


def test_no_matrix_where_labels_do_not_fit() -> None:
    assert matrix_of(release_of(MATRIX, ("a",))) is None
    assert matrix_of(release_of({"matrix": np.full((1, 1), np.nan)}, ("a",))) is None

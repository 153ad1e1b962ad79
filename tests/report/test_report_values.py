"""Values of every kind in the report: matrices as tiles, vectors as bars, mappings as rows, no bound that is none."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.guarantees import Claims, PureDP
from sidelight.release import Circumstances, Release, TailBound, outcome_from_json
from sidelight.report import Item, Report, render
from sidelight.report.charts import bar_chart, cut, matrix_chart, text_width
from sidelight.report.values import Group, listing_of, matrix_of


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
        assert page.count("it is off by at most 0.13 in operator norm, if rows are short.") == 1
        assert "Within</th>" not in page
        assert "<hours>" not in page
        assert "&lt;hours&gt;" in page


def test_large_arrays_are_counted() -> None:
    labels = tuple(f"c{k}" for k in range(90))
    release = release_of({"matrix": np.eye(90), "mean": np.zeros(90)}, labels)
    page = page_of(release)
    assert "90 × 90 numbers" in page
    assert 'class="tile' not in page


def test_a_model_without_labels_is_written_in_lines() -> None:
    value = {"coefficients": np.array([[0.5, -2.0]]), "intercept": np.array([0.25])}
    (group,) = listing_of(release_of(value), None).shown
    assert group == Group(heading=None, rows=(("coefficients", "0.5, -2", ()), ("intercept", "0.25", ())))


def test_how_it_was_computed_stands_among_the_settings() -> None:
    shrinkage = {"factor": 0.5, "identity": True}
    value = {"matrix": MATRIX, "mean": np.array([3.0, 4.0]), "noisy": 2 * MATRIX, "rows": 9.0, "shrinkage": shrinkage}
    release = release_of({**value, "noise_scale": 0.25}, ("age", "hours"))
    for each in (release, outcome_from_json(release.to_json())):
        listing = listing_of(each, None)  # type: ignore[arg-type]
        assert [(group.heading, [row[:2] for row in group.rows]) for group in listing.shown] == [
            (None, [("rows", "9")]),
            ("mean", [("age", "3"), ("hours", "4")]),
            ("matrix", [("age × age", "2"), ("age × hours", "-1"), ("hours × hours", "0.5")]),
        ]
        assert dict(listing.technical) == {
            "noise_scale": ("0.25",),
            "noisy": ("age: 4, -2", "hours: -2, 1"),
            "shrinkage: factor": ("0.5",),
            "shrinkage: identity": ("yes",),
        }
        table, settings = page_of(each).split("The exact guarantee and settings")  # type: ignore[arg-type]
        assert "shrinkage" not in table
        assert "<dt>noise_<wbr>scale</dt>" in settings


def test_as_many_weights_as_columns_are_no_columns() -> None:
    value = {"weights": np.array([0.25, 0.75]), "means": np.array([[1.0, 2.0], [3.0, 4.0]]), "certified": True}
    first, *means = listing_of(release_of(value, ("age", "hours")), None).shown
    assert first.rows == (("certified", "yes", ()), ("weights", "0.25, 0.75", ()))
    assert [group.heading for group in means] == ["means 1", "means 2"]


def test_what_is_long_is_folded() -> None:
    labels = tuple(f"c{k}" for k in range(5))
    listing = listing_of(release_of({"matrix": np.eye(5), "rows": 9.0}, labels), None)
    assert [group.heading for group in listing.shown] == [None]
    assert listing.folded_rows == 15
    assert "<summary>15 more entries</summary>" in page_of(release_of({"matrix": np.eye(5), "rows": 9.0}, labels))
    assert "<summary>All 15 entries</summary>" in page_of(release_of(np.eye(5), labels))
    bars = release_of(np.arange(8.0), tuple("abcdefgh"))
    assert "<summary>All 8 entries</summary>" in page_of(bars)


def test_a_weak_estimate_is_said_above_the_table() -> None:
    page = page_of(release_of({"mean": np.array([1.0]), "weak": True, "warnings": ["a <group> was dropped"]}, ("age",)))
    assert "With this budget and so many rows the estimate is not certified" in page
    assert "A &lt;group&gt; was dropped." in page
    assert "Note." not in page_of(release_of({"mean": np.array([1.0]), "weak": False}, ("age",)))


def test_one_number_has_its_name_and_its_bound_in_a_sentence() -> None:
    bound = TailBound(unit="units of the column", assumption="records are clamped", fixed=(0.0,), per_log=(1.0,))
    page = page_of(release_of(38.5, ("median",), bound))
    assert '<th scope="row">median</th><td>38.5</td>' in page
    assert "it is off by at most 3 units of the column, if records are clamped." in page
    exact = TailBound(unit="units of the column", assumption="records are clamped", fixed=(0.0,), per_log=(0.0,))
    assert "It is exact, if records are clamped." in page_of(release_of(38.5, ("median",), exact))


def test_the_numbers_beside_bars_have_room() -> None:
    drawn = bar_chart(["a", "b"], np.array([123456.789, -0.0000123456789]))
    for picture in ElementTree.fromstring(f"<div>{drawn}</div>"):
        width = float(picture.attrib["width"])
        for text in picture.iter("text"):
            if text.attrib["class"] == "tick":
                assert float(text.attrib["x"]) + text_width(text.text or "") <= width


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


def test_entries_of_a_matrix_have_the_digits_that_its_bound_leaves() -> None:
    wide = TailBound(unit="in operator norm", assumption="rows are short", fixed=(7.55e6,), per_log=(0.0,))
    matrix = np.array([[383450912.0, 91037.9], [91037.9, 28224.0]])
    listing = listing_of(release_of({"matrix": matrix}, ("income", "hours"), wide), [7.55e6])
    assert [row[1] for row in listing.shown[-1].rows] == ["383,500,000", "100,000", "0"]


@pytest.mark.parametrize("key", ["law", "statistic", "cost", "times", "over"])
def test_a_line_of_what_was_drawn_that_is_not_whole_is_refused_before_it_is_shown(key: str) -> None:
    released = sl.Count(epsilon=1).release(sl.Table({"age": [1.0, 2.0]}, schema=[sl.Number("age")]))
    stored = json.loads(released.to_json())
    assert outcome_from_json(json.dumps(stored)).spending == released.spending
    del stored["circumstances"]["spending"][0][key]
    with pytest.raises(RangeError, match="changed or is not whole"):
        outcome_from_json(json.dumps(stored))


@pytest.mark.parametrize("room", [0.0, 12.0, 77.0, 150.0, 199.9])
def test_a_label_is_cut_to_the_longest_part_that_has_room(room):
    for label in ("", "ill", "W" * 40, "good and 好好 bakers of é\u0301clairs" * 3, "i" * 30 + " " * 9):
        parts = [label[:size] for size in range(len(label) + 1)]
        fitting = [part for part in parts if text_width(part) + text_width("…") <= room]
        wanted = label if text_width(label) <= room else f"{max(fitting, key=len, default='').rstrip()}…"
        assert cut(label, room) == wanted


def test_the_chart_of_a_long_label_is_drawn_at_once():
    """The room of each of its beginnings was measured from the first letter on: minutes for 20,000 letters."""
    start = time.process_time()
    assert "…" in str(bar_chart(["x" * 20_000, "y"], np.array([1.0, 2.0])))
    assert time.process_time() - start < 5

"""Statistics of dates are shown as dates: on the screen, in frames and in the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.release import outcome_from_json
from sidelight.report import Item, Report, write_report

VISITS = sl.Table(
    {"visit": np.datetime64("2020-01-01") + np.arange(2000), "sex": ["F", "M"] * 1000},
    schema=[sl.Date("visit", start="2020-01-01", end="2025-12-31"), sl.Category("sex", ["F", "M"], other=None)],
)
QUERIES = [
    sl.Quantiles([0.5], column="visit", epsilon=50),
    sl.Quantiles([0.5], column="visit", by="sex", epsilon=50),
    sl.Mean("visit", by="sex", epsilon=50),
    sl.Summary("visit", epsilon=50),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_a_release_shows_dates(query: sl.Quantiles, tmp_path: Path) -> None:
    release = query.release(VISITS)
    assert "2022-09-" in str(release)
    assert "2022-09-" in release._repr_html_()
    assert "2022-09-" in str(release.to_dict()["values"])
    stored = outcome_from_json(release.to_json())
    assert str(stored) == str(release)
    frame = release.to_pandas()
    assert any("2022-09-" in str(each)[:8] for name in frame.columns for each in frame[name])
    item = Item(title="Visits", outcome=release)
    write_report(Report(title="Dates", items=(item,), day="2026-01-01"), tmp_path / "report.html")
    assert "2022-09-" in (tmp_path / "report.html").read_text()


def test_bins_are_dates() -> None:
    release = sl.Histogram("visit", bins=2, epsilon=1).release(VISITS)
    assert release.value["visit"] == ["[2020-01-01, 2023-01-01)", "[2023-01-01, 2025-12-31]"]


def test_numbers_that_are_no_dates_stay_numbers() -> None:
    release = sl.Mean("visit", epsilon=50).release(VISITS)
    assert release.shown["noise_sd"].dtype.kind == "f"
    assert release.shown["mean"].dtype.kind == "M"
    assert release.value["mean"].dtype.kind == "f"
    spread = sl.StandardDeviation("visit", epsilon=50).release(VISITS)
    assert spread.shown[spread.value.columns[0]].dtype.kind == "f"


#: Every statistic of a number, and which columns of its table are dates.
STATISTICS: list[tuple[Any, set[str]]] = [
    (sl.Mean("visit", by="sex", epsilon=50), {"mean", "mean_plain", "low", "high"}),
    (sl.Summary("visit", epsilon=50), {"mean", "q25", "q50", "q75", "low", "high"}),
    (sl.Quantiles([0.5], column="visit", by="sex", epsilon=50), {"q50"}),
    (sl.Sum("visit", by="sex", epsilon=50), set()),
    (sl.Variance("visit", by="sex", epsilon=50), {"mean", "mean_low", "mean_high"}),
    (sl.StandardDeviation("visit", by="sex", epsilon=50), {"mean", "mean_low", "mean_high"}),
    (sl.Histogram("visit", bins=2, epsilon=50), set()),
    (sl.Histogram("visit", bins="private", epsilon=50), set()),
    (sl.Count(by=sl.col("visit").cut(["2022-01-01"]), epsilon=50), set()),
]


@pytest.mark.parametrize(("query", "dates"), STATISTICS)
def test_only_what_lies_among_the_dates_is_shown_as_one(query: Any, dates: set[str]) -> None:
    shown = query.release(VISITS).shown
    found = {name for name in shown.columns if shown[name].dtype.kind == "M"}
    assert found == dates & set(shown.columns)
    for name in found:
        assert np.all((shown[name] > np.datetime64("2019-06-01")) & (shown[name] < np.datetime64("2026-06-01")))

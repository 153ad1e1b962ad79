"""The card of statistics by group: bars on one scale, intervals, predictions, and a fold."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from report.report_fixtures import make_release as make_release
from sidelight.group_table import GroupTable
from sidelight.release import Release
from sidelight.report import Item, Report
from sidelight.report.groups import MOST_OPEN, groups_card
from sidelight.report.render import render


def table(rows: int, **columns: Any) -> GroupTable:
    return GroupTable(
        keys=["job"], groups=[(f"job {place}",) for place in range(rows)], columns=columns, notes={"clip": [0, 80.5]}
    )


def page(release: Release) -> str:
    return render(Report(title="Groups", day="2026-11-15", items=(Item(title="By job", outcome=release),)))


@pytest.fixture
def counts(make_release: Callable[..., Release]) -> Release:
    values = np.arange(30) - 2
    value = table(30, count=values, low=values - 3.0, high=values + 3.0, noise_sd=[1.5] * 30)
    known = [[f"job {place}", repr(float(each) + 1)] for place, each in enumerate(values)]
    prediction = {"description": "last year", "origin": {"kind": "public"}, "values": known}
    query = {"kind": "count", "by": ["job"], "confidence": "0.9"}
    return make_release(query=query, value=value, labels=(), error=None, prediction=prediction)


def test_a_group_without_prediction_and_shares_have_no_circle(counts: Release) -> None:
    told = dict(counts.prediction or {})
    some = groups_card(replace(counts, prediction={**told, "values": told["values"][:1]}))
    assert [line.numbers[2] for line in some["open"][:2]] == ["-1", "–"]
    assert "expected" in some["open"][0].bar
    assert "expected" not in some["open"][1].bar
    assert groups_card(replace(counts, prediction={**told, "shares": "yes"}))["titles"] == ["count", "interval"]
    assert "With 90 % confidence" in page(counts)
    assert "The circle is what was predicted" in page(counts)


def test_a_ranking_is_drawn_by_its_counts_and_a_summary_by_its_mean(make_release: Callable[..., Release]) -> None:
    ranked = table(2, rank=[1, 2], count=[9, 5], low=[8, 4], high=[10, 6])
    card = groups_card(make_release(query={"kind": "top_k"}, value=ranked, labels=(), error=None))
    assert card["titles"] == ["rank", "count", "interval"]
    assert card["first"] == "count"
    whole = table(2, count=[9, 5], mean=[1.5, 2], q50=[1, 2], low=[1, 1], high=[2, 3])
    card = groups_card(make_release(query={"kind": "summary"}, value=whole, labels=(), error=None))
    assert card["titles"] == ["count", "mean", "interval", "q50"]
    alone = table(2, rank=[1, 2])
    assert not groups_card(make_release(query={"kind": "top_k"}, value=alone, labels=(), error=None))["drawn"]


def test_a_row_has_its_bar_its_interval_and_its_prediction(counts: Release) -> None:
    card = groups_card(counts)
    assert card["titles"] == ["count", "interval", "predicted"]
    assert card["open"][0].numbers == ("-2", "-5 to 1", "-1")
    assert 'aria-label="count -2, from -5 to 1, predicted -1"' in card["open"][0].bar
    assert card["noise"] == "1.5"


def test_many_groups_are_folded(counts: Release) -> None:
    card = groups_card(counts)
    assert (len(card["open"]), len(card["folded"])) == (MOST_OPEN, 30 - MOST_OPEN)
    text = page(counts)
    assert f"<summary>{30 - MOST_OPEN} more groups</summary>" in text
    assert "job 29" in text
    assert "clip" in text
    assert "0, 80.5" in text


def test_all_bars_have_one_scale(counts: Release) -> None:
    card = groups_card(counts)
    widths = [
        float(re.search(r'<rect[^>]* width="([0-9.]+)"', line.bar)[1])  # type: ignore[index]
        for line in [*card["open"], *card["folded"]]
    ]
    sizes = np.abs(np.arange(30) - 2)
    assert np.allclose(widths[3:], widths[-1] * sizes[3:] / sizes[-1], atol=0.1)


def test_drawings_are_xml_and_labels_are_escaped(make_release: Callable[..., Release]) -> None:
    value = GroupTable(keys=["<b>"], groups=[("<i>&",), ("ü",)], columns={"<mean>": [1.5, -2], "<mean>_low": [1, -3]})
    release = make_release(query={"kind": "mean"}, value=value, labels=(), error=None)
    text = page(release)
    assert "<b>" not in text
    assert "<i>" not in text
    for line in groups_card(release)["open"]:
        ElementTree.fromstring(str(line.bar))


@pytest.mark.parametrize("values", [[np.nan, 1.0], [0.0, 0.0], [1e308, -1e308], [5.0]])
def test_no_value_breaks_the_page(make_release: Callable[..., Release], values: list[float]) -> None:
    value = table(len(values), mean=values, low=[np.nan] * len(values), high=values)
    text = page(make_release(query={"kind": "mean"}, value=value, labels=(), error=None))
    assert "nan" not in text.replace("nance", "").replace("finan", "")
    assert 'inf"' not in text


def test_two_statistics_have_their_own_intervals(make_release: Callable[..., Release]) -> None:
    value = table(2, n=[5, 6], n_low=[4, 5], n_high=[6, 7], pay=[1.5, 2.5], pay_low=[1, 2], pay_high=[2, 3])
    card = groups_card(make_release(query={"kind": "sql"}, value=value, labels=(), error=None))
    assert card["titles"] == ["n", "interval", "pay", "interval"]
    assert card["open"][1].numbers == ("6", "5 to 7", "2.5", "2 to 3")


def test_no_group_and_one_group(make_release: Callable[..., Release]) -> None:
    none = make_release(query={"kind": "count"}, value=table(0, count=[]), labels=(), error=None)
    assert "No group was released" in page(none)
    one = GroupTable(keys=[], groups=[()], columns={"mean": [41.5]})
    assert "41.5" in page(make_release(query={"kind": "mean"}, value=one, labels=(), error=None))


def test_one_wide_interval_leaves_room_for_the_others(make_release: Callable[..., Release]) -> None:
    value = table(3, mean=[40.0, 50.0, 45.0], low=[38.0, 47.0, 0.0], high=[42.0, 53.0, 1e6])
    card = groups_card(make_release(query={"kind": "mean"}, value=value, labels=(), error=None))
    widths = [float(re.search(r'class="tile plus".*?width="([0-9.]+)"', line.bar)[1]) for line in card["open"]]
    assert widths[1] > 100  # of 190: the widest interval goes beyond the picture
    assert [line.bar.count('class="whisker"') for line in card["open"]] == [3, 3, 2]  # a line and its end marks
    nothing = table(2, mean=[0.0, 0.0], low=[-3.0, -3.0], high=[3.0, 3.0])
    card = groups_card(make_release(query={"kind": "mean"}, value=nothing, labels=(), error=None))
    assert card["open"][0].bar.count('class="whisker"') == 3

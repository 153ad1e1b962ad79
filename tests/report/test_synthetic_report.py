"""Synthetic tables in the report: what was asked, marginals as bars and tiles, what was measured with what noise."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.release import Release, outcome_from_json
from sidelight.report import Item, Report, render, write_report
from sidelight.report.synthetic import MOST_PAIRS, column_chart, open_table, pair_chart, synthetic_card
from sidelight.testing import seeded_release

ROWS = 2000


@cache
def release_of(**choices: Any) -> Release:
    """A small table with names that must be escaped, made with seeded noise."""
    rng = np.random.default_rng(4)
    sex = rng.choice(["F", "M"], ROWS)
    data = {
        "sex": sex,
        "job x <hour>": np.where(rng.random(ROWS) < 0.9, np.where(sex == "F", "nurse", "driver"), "cook & baker"),
        "age": rng.integers(16, 100, ROWS),
    }
    schema = [
        sl.Category("sex", ["F", "M"], other=None),
        sl.Category("job x <hour>", ["nurse", "driver", "cook & baker"], other=None),
        sl.Number("age", lower=16, upper=99, granularity=1),
    ]
    workload = choices.pop("workload", sl.marginals(2))
    query = sl.SyntheticTable(workload, epsilon=choices.pop("epsilon", 2), **choices)
    outcome = seeded_release(query, sl.Table(data, schema=schema, name="town"), seed=1)
    assert isinstance(outcome, Release)
    return outcome


def page_of(*releases: Release) -> str:
    items = tuple(Item(title=f"Table {place}", outcome=each) for place, each in enumerate(releases))
    return render(Report(title="t", day="2026-11-15", items=items))


def test_the_page_says_what_was_asked_and_what_it_cost() -> None:
    facts = dict(synthetic_card(release_of())["facts"])
    assert facts["Price"] == "PureDP(ε = 2)"
    assert facts["Engine"].startswith("marginals: ")
    assert facts["Asked for"] == "3 marginals: sex × job x <hour>, sex × age, job x <hour> × age"
    assert facts["Columns"] == "sex (2 values), job x <hour> (3 values), age (16 values)"
    assert facts["Rows"].endswith("released with noise")
    assert dict(synthetic_card(release_of(rows=ROWS))["facts"])["Rows"] == "2,000, a public number"


def test_bars_and_tiles_show_the_shares_of_the_release() -> None:
    release = release_of()
    card = synthetic_card(release)
    made = sl.Synthetic(release)
    assert [name for name, _ in card["columns"]] == ["sex", "job x <hour>", "age"]
    assert sorted(name for name, _ in card["pairs"]) == sorted(
        ["sex × job x <hour>", "sex × age", "job x <hour> × age"]
    )
    (share,) = [chart for name, chart in card["columns"] if name == "sex"]
    widths = [float(width) for width in re.findall(r'<rect class="tile plus"[^>]* width="([\d.]+)"', share)]
    shares = made.answer("sex").shares  # type: ignore[union-attr]
    assert np.allclose(np.array(widths) / max(widths), shares / shares.max(), atol=0.01)
    (tiles,) = [chart for name, chart in card["pairs"] if name == "sex × job x <hour>"]
    strengths = [float(value) for value in re.findall(r'fill-opacity="([\d.]+)"', tiles)]
    pair = made.answer(["sex", "job x <hour>"]).shares  # type: ignore[union-attr]
    assert np.allclose(strengths, np.maximum(pair / pair.max(), 0.03).ravel(), atol=0.006)


def test_what_was_measured_has_its_noise_and_what_was_not_says_so() -> None:
    release = release_of(rounds=1)
    card = synthetic_card(release)
    measured = {" × ".join(each.columns) for each in sl.Synthetic(release).measurements}
    assert len(measured) == 1
    assert {line["name"] for line in card["lines"] if line["noise"]} == measured
    assert len(card["lines"]) == 3
    (line,) = sl.Synthetic(release).report()
    (drawn,) = [each for each in card["lines"] if each["noise"]]
    assert drawn["noise"] == f"±\u00a0{line['noise_deviation']:.3g}"
    page = page_of(release)
    assert page.count("<td>not measured</td>") == 2
    assert "what the fitted distribution says of it" in page


@pytest.mark.parametrize(("bound", "shown"), [(1234.5, "1,240"), (15.2256, "15.3"), (0.43127, "0.432"), (7.0, "7")])
def test_a_bound_is_shown_where_there_is_one_rounded_up(
    bound: float, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = {"columns": ["sex"], "cells": 2, "noise_deviation": None, "expected_error": None}
    monkeypatch.setattr(sl.Synthetic, "report", lambda self, workload=None: [{**line, "bound": bound}])
    page = page_of(release_of())
    assert f"<td>±\u00a0{shown}</td>" in page
    assert '<th scope="col">Bound</th>' in page
    monkeypatch.setattr(sl.Synthetic, "report", lambda self, workload=None: [line])
    assert "Bound</th>" not in page_of(release_of())


def test_the_page_holds_no_arrays_and_escapes_names() -> None:
    page = page_of(release_of())
    assert "<hour>" not in page
    assert "&lt;hour&gt;" in page
    assert "array(" not in page
    assert "NOT PRIVATE" in page
    assert release_of().value["distribution"]["units"] not in page


def test_a_stored_release_gives_the_same_page() -> None:
    release = release_of()
    assert page_of(outcome_from_json(release.to_json())) == page_of(release)  # type: ignore[arg-type]


def test_groups_that_the_public_rows_miss_are_named_by_their_ends() -> None:
    """A group of values stood there as the value of its number: 19 for 152 to 159."""
    rng = np.random.default_rng(0)
    schema = [sl.Number("y", lower=0, upper=299, granularity=1)]
    table = sl.Table({"y": rng.integers(0, 300, 20_000)}, schema=schema)
    public = sl.PublicData({"y": rng.integers(0, 150, 5000)}, "the lower half")
    query = sl.SyntheticTable(
        sl.prefixes("y"), columns=["y"], bins={"y": 300}, engine="support", prediction=public, rho="0.5"
    )
    release = seeded_release(query, table, seed=1)
    missed = sl.Synthetic(release).missed
    assert any(entry["widths"][0] > 1 for entry in missed)
    for entry in missed:
        assert entry["cell"][0] * entry["widths"][0] >= 150
    assert any(" to " in cell for cell in synthetic_card(release)["missed"])


def test_other_engines() -> None:
    single = synthetic_card(release_of(engine="mwem", rounds=4))
    assert dict(single["facts"])["Measured"].startswith("4 single queries, each with noise of scale")
    public = {"sex": ["F"] * 40, "job x <hour>": ["nurse"] * 40, "age": [30, 31] * 20}
    import pandas as pd

    public_rows = sl.PublicData(pd.DataFrame(public), "forty nurses")
    support = release_of(engine="support", prediction=public_rows)
    missed = synthetic_card(support)["missed"]
    assert any("sex M" in cell for cell in missed)
    page = page_of(support)
    assert "The public rows miss a region" in page
    assert "40 public rows (forty nurses)" in page


def test_one_of_each_is_one() -> None:
    facts = dict(synthetic_card(release_of(workload=sl.marginals(sets=[["sex", "age"]]), rounds=1))["facts"])
    assert facts["Asked for"] == "1 marginal: sex × age"
    assert facts["Measured"] == "1 marginal; which one was chosen privately"
    single = dict(synthetic_card(release_of(engine="mwem", rounds=1))["facts"])
    assert single["Measured"].startswith("1 single query, with noise of scale")


def test_many_pairs_are_counted() -> None:
    names = [f"c{place}" for place in range(6)]
    rng = np.random.default_rng(0)
    table = sl.Table(
        {name: rng.integers(0, 3, 500) for name in names},
        schema=[sl.Category(name, [0, 1, 2], other=None) for name in names],
    )
    release = seeded_release(sl.SyntheticTable(epsilon=1), table, seed=2)
    card = synthetic_card(release)  # type: ignore[arg-type]
    assert len(card["pairs"]) == MOST_PAIRS
    assert card["pairs_left_out"] == 15 - MOST_PAIRS
    assert card["folded"]
    page = page_of(release)  # type: ignore[arg-type]
    assert "9 more pairs are in the release" in page
    assert "All 15 marginals" in page


@pytest.mark.parametrize("change", ["units", "points", "rows"])
def test_a_damaged_release_is_an_error_that_says_so(change: str) -> None:
    data = json.loads(release_of().to_json())
    mapping = data["value"]["mapping"]
    if change == "rows":
        mapping["rows"] = "many"
    else:
        packed = mapping["distribution"]["mapping"]
        packed[change] = packed[change][:-20] if change == "units" else packed[change] + 1
    with pytest.raises(RangeError, match="damaged"):
        open_table(outcome_from_json(json.dumps(data)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("down", "across"), [(1, 1), (2, 14), (15, 3), (3, 40), (30, 30)])
def test_charts_are_well_formed_and_fit(down: int, across: int) -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(down * across)).reshape(down, across)
    labels = [f"<{place}> & a rather long label" for place in range(max(down, across))]
    for drawn in (
        pair_chart(labels[:down], labels[:across], shares, label="a & b"),
        pair_chart(labels[:down], labels[:across], np.zeros((down, across)), label="none"),
        column_chart("a & b", labels[:across], shares.sum(axis=0)),
        column_chart("none", labels[:across], np.zeros(across)),
    ):
        picture = ElementTree.fromstring(f"<div>{drawn}</div>")[0]
        width, height = (float(picture.attrib[side]) for side in ("width", "height"))
        for tile in picture.iter("rect"):
            assert 0 <= float(tile.attrib["x"]) <= width - float(tile.attrib["width"]) + 0.1
            assert 0 <= float(tile.attrib["y"]) <= height - float(tile.attrib["height"]) + 0.1


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (360, "dark")])
def test_the_page_fits_a_telephone(the_browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    from test_report_in_browser import opened

    items = (Item(title="One", outcome=release_of()), Item(title="Two", outcome=release_of(engine="mwem", rounds=4)))
    path = write_report(Report(title="t", day="2026-11-15", items=items), tmp_path / "report.html")
    with opened(the_browser, path, width=width, scheme=scheme) as (page, requests, messages):
        assert requests == [path.as_uri()]
        assert page.locator(".small svg").count() == 12
        assert page.locator(".small svg").first.is_visible()
        wide, seen = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= seen
        assert messages == []

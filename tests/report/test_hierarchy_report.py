"""What a report shows of a table of a hierarchy: pictures with words, the bias of small cells, and other areas."""

from __future__ import annotations

import csv
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sidelight as sl
from sidelight.cli.app import app
from sidelight.report.contents import Item, Report
from sidelight.report.hierarchies import count_biases, counts_outside, hierarchy_pictures, level_steps
from sidelight.report.render import render
from sidelight.summaries.tree_tables import TreeNotes
from sidelight.testing import seeded_release

LEAVES = [f"{top}{town}{leaf:02}" for top in "xy" for town in "12" for leaf in range(20)]
GEO = sl.Hierarchy("leaf", {"state": 1, "town": 2})
SCHEMA = [sl.Category("leaf", LEAVES, other=None)]
_RNG = np.random.default_rng(38)
_WEIGHTS = _RNG.gamma(0.3, 1.0, len(LEAVES))
ROWS = _RNG.choice(LEAVES, 4000, p=_WEIGHTS / _WEIGHTS.sum()).tolist()
PEOPLE = sl.Table({"leaf": ROWS}, schema=SCHEMA)
QUERY = sl.Count(by=replace(GEO, caps={"town": 40}), rho="0.02")


@pytest.fixture(scope="module")
def release() -> Any:
    return seeded_release(QUERY, PEOPLE, seed="report of a hierarchy")


def test_every_picture_says_in_words_what_it_shows(release: Any) -> None:
    page = render(Report(title="t", day="2026-11-17", items=(Item(title="towns", outcome=release),)))
    told = re.findall(r'aria-label="([^"]*)"', page)
    ladder = next(each for each in told if each.startswith("Levels from the top"))
    steps = level_steps(release.value, TreeNotes.of(release.value))
    assert [step.name for step in steps] == ["all", "state", "town", "leaf"]
    assert [step.nodes for step in steps] == [1, 2, 4, 80]
    assert all(step.name in ladder for step in steps)
    assert ", cap 40" in ladder
    assert steps[2].half <= 40
    widest = (np.asarray(release.value["high"]) - np.asarray(release.value["unbiased"]))[-80:].max()
    assert steps[3].half == pytest.approx(widest, rel=1e-9)  # what the table prints
    price = next(each for each in told if each.startswith("Where the price went"))
    assert sum(map(float, re.findall(r"([\d.]+) %", price))) == pytest.approx(100, abs=0.5)
    assert all(f">{step.name} {100 * float(step.share):.3g} %<" in page for step in steps)  # however small it is
    assert "about 0.2 of the 4 cells of level town" in page
    assert "What small cells look like" in page
    assert any(each.startswith("How far published counts are off on average. an empty cell: +") for each in told)
    assert "an empty cell: +" in page
    assert "sha256" not in page  # the note from which areas are computed is for programs


def test_a_typical_number_is_that_of_totals() -> None:
    """Absolute noise of many cells must not add up in it, and counts outside their intervals are counted."""
    kinds = [f"k{place}" for place in range(40)]
    schema = [*SCHEMA, sl.Category("kind", kinds, other=None)]
    table = sl.Table({"leaf": ROWS, "kind": ["k0"] * len(ROWS)}, schema=schema)
    made = seeded_release(sl.Count(by=[GEO, "kind"], rho="0.02"), table, seed="typical")
    value: Any = made.value
    steps = level_steps(value, TreeNotes.of(value))
    assert steps[0].typical == pytest.approx(len(ROWS), rel=0.2)
    assert steps[3].cells == 80 * 40
    outside = (value["count"] < value["low"]) | (value["count"] > value["high"])
    assert counts_outside(value) == (int(outside.sum()), len(value["count"]))
    assert outside.any()
    page = render(Report(title="t", day="2026-11-17", items=(Item(title="kinds", outcome=made),)))
    assert f"{int(outside.sum())} published counts lie outside the interval" in page.replace(",", "")


def test_exact_totals_are_named_in_the_table() -> None:
    states = {"state": dict(Counter(leaf[0] for leaf in ROWS))}
    made = seeded_release(sl.Count(by=replace(GEO, public_totals=states), rho="0.02"), PEOPLE, seed="exact")
    page = render(Report(title="t", day="2026-11-17", items=(Item(title="exact", outcome=made),)))
    assert page.count('<td data-title="exact">public</td>') == 3  # everything, and two states
    assert page.count('<td data-title="exact">–</td>') == 84


def test_the_weight_of_a_prediction_is_drawn_by_level() -> None:
    leaves = [f"{town:02}{leaf:02}" for town in range(20) for leaf in range(10)]
    rows = np.repeat(np.array(leaves, object), _RNG.poisson(200, len(leaves)))
    table = sl.Table({"leaf": rows}, schema=[sl.Category("leaf", leaves, other=None)])
    geo = sl.Hierarchy("leaf", {"town": 2})
    told = dict.fromkeys(leaves, 200.0)
    used, none = (
        seeded_release(sl.Count(by=geo, rho="0.0005", prediction=each), table, seed="weights") for each in (told, None)
    )
    pages = [
        render(Report(title="t", day="2026-11-17", items=(Item(title="towns", outcome=each),))) for each in (used, none)
    ]
    leaf = used.value.notes["prediction_by_level"]["leaf"]
    assert f"leaf: in 100 % of its cells, with a weight of {100 * leaf['weight']:.2g} %" in pages[0]
    assert "How far the prediction is followed" in pages[0]
    assert "How far the prediction is followed" not in pages[1]
    assert "<dt>prediction by level" not in pages[0]  # drawn, so not listed among the notes


def test_other_tables_have_no_pictures() -> None:
    plain = seeded_release(sl.Count(by="leaf", rho="0.02"), PEOPLE, seed=1)
    assert hierarchy_pictures(plain.value) is None


def test_the_stated_bias_is_that_of_releases(release: Any) -> None:
    """Empty cells are as much too high as 60 releases are on average; large ones are hardly off."""
    stated = count_biases(release.value, TreeNotes.of(release.value))
    assert stated is not None
    true = Counter(ROWS)
    empty = [place for place, leaf in enumerate(LEAVES) if true[leaf] == 0]
    large = [place for place, leaf in enumerate(LEAVES) if true[leaf] > 60]
    assert min(len(empty), len(large)) > 5
    off: list[list[float]] = [[], []]
    for run in range(60):
        counts = seeded_release(QUERY, PEOPLE, seed=f"bias {run}").value.level("leaf")["count"]
        exact = np.array([true[leaf] for leaf in LEAVES])
        for found, places in zip(off, (empty, large), strict=True):
            found.append(float((counts[:80] - exact)[places].mean()))
    assert stated[0][1] == pytest.approx(np.mean(off[0]), rel=0.35)
    assert abs(np.mean(off[1]) - stated[2][1]) < 0.5 * stated[0][1]


def test_areas_in_the_report_and_as_a_table(release: Any, tmp_path: Path) -> None:
    stored, areas = tmp_path / "releases.json", tmp_path / "areas.csv"
    stored.write_text(release.to_json(), encoding="utf-8")
    lines = [("lake", "x100"), ("lake", "x201"), ("hill", "y100")]
    areas.write_text("area,leaf\n" + "".join(f"{a},{leaf}\n" for a, leaf in lines), encoding="utf-8")

    def run(*words: Any) -> Any:
        return CliRunner().invoke(app, list(map(str, words)))

    page, table = tmp_path / "report.html", tmp_path / "areas_out.csv"
    assert run("report", stored, "--areas", areas, "-o", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "Other areas" in text
    assert "lake" in text
    assert run("table", stored, "--areas", areas, "-o", table).exit_code == 0
    with table.open(encoding="utf-8") as file:
        found = {row["area"]: row for row in csv.DictReader(file)}
    wanted = sl.areas(release, {"lake": ["x100", "x201"], "hill": ["y100"]})
    assert [float(found[name]["unbiased"]) for name in ("lake", "hill")] == wanted["unbiased"].tolist()
    for ending in ("csv", "parquet"):
        whole = tmp_path / f"whole.{ending}"
        assert run("table", stored, "-o", whole).exit_code == 0
        assert whole.stat().st_size > 500
    areas.write_text("area,street\nlake,x100\n", encoding="utf-8")
    assert run("report", stored, "--areas", areas, "-o", page).exit_code != 0
    assert run("table", stored, "--areas", areas, "-o", table, "--overwrite").exit_code != 0
    areas.write_text("area,leaf\nlake,nowhere\n", encoding="utf-8")
    assert run("report", stored, "--areas", areas, "-o", page).exit_code != 0

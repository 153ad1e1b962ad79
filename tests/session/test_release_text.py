"""A release as text: short arrays in digits, long ones in bytes, every bit back, nothing that is not finite."""

from __future__ import annotations

import json
import re
import sys

import matplotlib as mpl
import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import MissingPackageError, RangeError
from sidelight.guarantees import Claims, PureDP
from sidelight.release import Circumstances, Release
from sidelight.report import Item, Report, render
from sidelight.testing import seeded_release

mpl.use("Agg")


def release_of(value: object) -> Release:
    where = Circumstances(dataset="d", engine="numpy", version="0", entropy="os", numerics="exact")
    return Release(
        query={"kind": "test"},
        value=value,
        labels=(),
        guarantee=Claims.of(PureDP(1)),
        error=None,
        prediction=None,
        circumstances=where,
    )


@pytest.mark.parametrize("count", [3, 4096, 4097, 9000])
@pytest.mark.parametrize("kind", ["float64", "int64", "float32", "int32", ">f8"])
def test_every_bit_comes_back(count: int, kind: str) -> None:
    values = (np.random.default_rng(1).normal(size=(count, 1)) * 1e6).astype(kind)
    back = Release.from_json(release_of({"matrix": values, "n": 3}).to_json()).value
    assert back["n"] == 3
    assert back["matrix"].shape == (count, 1)
    assert back["matrix"].dtype.kind == values.dtype.kind
    assert (back["matrix"] == values).all()
    assert back["matrix"].flags.writeable


def test_long_arrays_are_written_in_bytes() -> None:
    written = json.loads(release_of(np.zeros(5000)).to_json())["value"]
    assert set(written) == {"bytes", "dtype", "shape"}
    assert set(json.loads(release_of(np.zeros(5)).to_json())["value"]) == {"array", "dtype"}


@pytest.mark.parametrize("count", [5, 5000])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_not_written(count: int, bad: float) -> None:
    values = np.zeros(count)
    values[3] = bad
    with pytest.raises(ValueError, match=r"finite|JSON compliant"):
        release_of(values).to_json()


def test_a_release_becomes_a_dictionary_and_frames() -> None:
    release = sl.Quantiles([0.25, 0.5, 0.75], epsilon=1, granularity=1).release([30, 40, 50] * 100)
    said = release.to_dict()
    assert said["kind"] == "quantiles"
    assert said["private"] is True
    assert [each["label"] for each in said["values"]] == ["25 %", "50 %", "75 %"]
    assert said["unit"] == "ranks"
    frame = release.to_pandas()
    assert frame["value"].tolist() == [each["value"] for each in said["values"]]
    assert frame.attrs["guarantee"].startswith("PureDP")
    assert release.to_polars()["within_95"].to_list() == frame["within_95"].tolist()
    json.dumps(said)


def test_notebooks_show_a_chart_and_the_error() -> None:
    page = sl.Quantiles([0.25, 0.5, 0.75], epsilon=1, granularity=1).release([30, 40, 50] * 100)._repr_html_()
    assert page.count("<rect") == 3
    assert "worst case at 95 %: off by" in page
    people = sl.Table({"age": [31, 47, 52] * 100}, schema=[sl.Number("age", granularity=1)], name="people")
    shown = sl.Session(people, budget=sl.ApproxDP(3, "1e-6"))._repr_html_()
    assert "together ApproxDP(ε = 3, δ = 1e-6)" in shown
    assert "declared sums are at most ε = 3" in shown


def test_an_estimate_is_never_called_a_worst_case() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 500)
    table = sl.Table({"x": x, "y": x / 2}, schema=[sl.Number(name, lower=-1, upper=1) for name in ("x", "y")])
    model = sl.LinearRegression(epsilon=2, delta="1e-6")
    release = seeded_release(sl.ModelQuery(model=model, target="y"), table, seed=1)
    assert release.error is not None
    assert not release.error.proved
    page = render(Report(title="models", day="2026-01-01", items=(Item(title="y", outcome=release),)))
    for text in (str(release), release._repr_html_(), page):
        assert "worst case" not in text
        assert "estimate" in text
        assert "With 95 % confidence it is off" not in text


def test_releases_are_plotted_with_their_error() -> None:
    release = sl.Quantiles([0.25, 0.5, 0.75], epsilon=1, granularity=1).release([30, 40, 50] * 100)
    axes = release.plot()
    assert [bar.get_width() for bar in axes.patches] == [each["value"] for each in release.to_dict()["values"]]
    assert "off by" in axes.get_xlabel()
    assert axes.get_title().startswith("quantiles · PureDP")
    people = sl.Table({"sex": ["F", "M"] * 50}, schema=[sl.Category("sex", ["F", "M"], other=None)])
    counted = sl.Count(by="sex", epsilon=1).release(people)
    again = counted.plot(axes)
    assert again is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["F", "M"]
    assert any("ErrorbarContainer" in type(each).__name__ for each in axes.containers)
    days = sl.Table(
        {"day": ["2024-03-05", "2024-05-01"] * 200}, schema=[sl.Date("day", start="2024-01-01", end="2024-12-31")]
    )
    drawn = sl.Quantiles([0.25, 0.75], column="day", epsilon=1).release(days).plot()
    assert len(drawn.lines[0].get_xdata()) == 2
    assert not drawn.patches  # points on a calendar, not bars from 1970
    with pytest.raises(RangeError, match="needs numbers with names"):
        release_of({"matrix": np.eye(2)}).plot()
    axes.figure.clear()
    drawn.figure.clear()


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingPackageError, match=r"pip install .sidelight\[plots\]"):
        sl.Quantiles([0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100).plot()


def test_notebooks_show_the_declarations_of_a_table_and_no_row() -> None:
    people = sl.Table({"age": [31, 47, 52] * 100}, schema=[sl.Number("age", lower=0, upper=99)], name="<people>")
    shown = people._repr_html_()
    assert "&lt;people&gt;" in shown
    assert "age" in shown
    assert not {"31", "47", "52", "300"} & set(re.findall(r"\d+", shown))


def test_notebooks_draw_the_leading_statistic_of_groups() -> None:
    people = sl.Table({"sex": ["F", "M"] * 50}, schema=[sl.Category("sex", ["F", "M"], other=None)])
    assert sl.Count(by="sex", epsilon=1).release(people)._repr_html_().count("<rect") == 2

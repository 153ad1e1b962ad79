"""The picture of one release: an SVG file that is well formed whatever labels say, and says what the table says."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

import sidelight as sl
from sidelight.report.render import MOST_DRAWN, picture
from sidelight.testing import seeded_release

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert(1)</script> & "x" ]]>'


def drawn(query: Any, labels: list[str]) -> ElementTree.Element | None:
    data = {"age": [30, 40, 50, 60] * 50, "job": [labels[place % len(labels)] for place in range(200)]}
    schema: list[Any] = [sl.Number("age", lower=0, upper=120, granularity=1), sl.Category("job", labels, other=None)]
    found = picture(seeded_release(query, sl.Table(data, schema=schema, name="people"), seed=1))
    return None if found is None else ElementTree.fromstring(found)


def test_groups_are_drawn_with_their_intervals_and_labels_as_text() -> None:
    whole = drawn(sl.Mean("age", by="job", epsilon=1), ["cook", HOSTILE])
    assert whole is not None
    assert whole.tag == f"{SVG}svg"
    rows = whole.findall(f"{SVG}svg")
    assert len(rows) == 2
    for row in rows:
        assert row.find(f"{SVG}rect") is not None
        assert len([line for line in row.findall(f"{SVG}line") if line.get("class") == "whisker"]) == 3
        words = row.get("aria-label", "")
        assert " from " in words
    texts = [each.text or "" for each in whole.findall(f"{SVG}text")]
    assert any(text.startswith("<script>") for text in texts)  # a text, cut to its room
    assert not any(each.tag.endswith(("script", "image", "a", "foreignObject")) for each in whole.iter())
    assert not any(name.startswith("on") or "href" in name for each in whole.iter() for name in each.attrib)


@pytest.mark.parametrize("query", [sl.Quantiles([0.25, 0.5, 0.75], column="age", epsilon=1)])
def test_quantiles_are_drawn_as_a_report_draws_them(query: Any) -> None:
    whole = drawn(query, ["cook", "nurse"])
    assert whole is not None
    assert len(whole.findall(f"{SVG}circle")) == 3
    assert "wide" not in (whole.get("class") or "")  # which a narrow page would hide


def test_one_number_has_no_picture_and_many_groups_are_cut() -> None:
    assert drawn(sl.Count(epsilon=1), ["cook"]) is None
    whole = drawn(sl.Count(by="job", epsilon=1), [f"job {place}" for place in range(60)])
    assert whole is not None
    assert len(whole.findall(f"{SVG}svg")) == MOST_DRAWN

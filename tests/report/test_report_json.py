"""Reports as JSON: back without a loss, and clear words for anything else."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from report_fixtures import *  # noqa: F403 - fixtures

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.release import Refused, Release
from sidelight.report import Report, render, report_from_json
from sidelight.testing import seeded_release


def read(text: str) -> Report:
    return report_from_json(text, title="Stored", day="2026-11-16")


def test_report_comes_back_and_renders_the_same(full_report: Report) -> None:
    back = read(full_report.to_json())
    assert back.to_json() == full_report.to_json()
    assert render(back) == render(full_report)


def test_one_release_or_a_list_will_do(make_release: Callable[..., Release], refused: Refused) -> None:
    one = make_release()
    alone = read(one.to_json())
    assert (alone.title, alone.items[0].title, alone.account) == ("Stored", "income", None)
    both = read(json.dumps([json.loads(one.to_json()), refused.to_json()]))
    assert [item.title for item in both.items] == ["income", "range"]
    assert isinstance(both.items[1].outcome, Refused)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected the JSON of releases.*breaks off at line 1"),
        ("3", "expected the JSON of releases"),
        ('{"type": "report"}', "expected the JSON of releases"),
        ('[{"a": 1}]', "got other JSON"),
        ('{"type": "report", "format": "99"}', "upgrade sidelight"),
    ],
)
def test_anything_else_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        read(text)


@pytest.mark.parametrize("label", ["x", "nan%", "inf", "", "300%", "-1%"])
def test_changed_labels_of_quantiles_are_shown_as_they_are(label: str) -> None:
    """A stored release with a label without a level, which raised an unexpected error."""
    values = np.arange(100.0)
    release = seeded_release(sl.Quantiles([0.25, 0.75], epsilon=1, bounds=(0, 99)), values, seed=1)
    changed = json.loads(release.to_json())
    assert "25 %" in changed["labels"]
    changed["labels"] = [label, *changed["labels"][1:]]
    assert "75 %" in render(read(json.dumps(changed)))


def test_changed_parameters_of_a_prediction_are_shown_as_they_are() -> None:
    priors = [sl.priors.Cauchy(place, 10) for place in (25, 75)]
    release = seeded_release(sl.Quantiles([0.25, 0.75], epsilon=1, prediction=priors), np.arange(100.0), seed=1)
    changed = json.loads(release.to_json())
    for each, value in zip(changed["prediction"]["priors"], ("not a number", [1, 2]), strict=True):
        each["location"] = value
    assert "not a number" in render(read(json.dumps(changed)))

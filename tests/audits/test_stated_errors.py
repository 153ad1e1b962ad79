"""What releases state about their errors is true of tables like those that users have, and a bound halved is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.audit_failures import tables
from benchmarks.audit_queries import cases
from benchmarks.stated_error_laws import LAWS
from benchmarks.stated_error_queries import ASKED, ELSEWHERE
from benchmarks.stated_errors import tried

import sidelight as sl
from sidelight.group_table import GroupTable
from sidelight.summaries import count_tables
from sidelight.synthesis import answers
from sidelight.testing import seeded_release

#: The statements that an attack from outside could not refute: counts, means, sums, proportions, labels and TopK.
HELD = ("Count by group", "Sum by group", "Mean by group", "Proportion by group", "TopK", "TopK, peeling", "SQL, sum")


def test_counts_sums_means_proportions_and_labels_keep_what_they_state() -> None:
    """60 releases of each: a statement that fails four times as often as it says is found."""
    asked = [each for each in ASKED if each.name in HELD]
    assert len(asked) == len(HELD)
    laws = [law for law in LAWS if law.name in ("half-integers", "few rows")]
    found = tried(asked, laws, releases=60)
    assert not found.refuted()
    assert len(found.tallies) > 50


def test_intervals_that_are_halved_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = count_tables.noise_bound
    monkeypatch.setattr(count_tables, "noise_bound", lambda *args, **rest: real(*args, **rest) / 2)
    (asked,) = (each for each in ASKED if each.name == "Count by group, 99 %")
    assert ("Count by group, 99 %", "few rows") in tried([asked], [LAWS[-1]], releases=300).refuted()


@pytest.mark.parametrize("factor", [1, 3])
def test_intervals_that_are_wider_than_need_be_are_measured(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    real = count_tables.noise_bound
    monkeypatch.setattr(count_tables, "noise_bound", lambda *args, **rest: real(*args, **rest) * factor)
    (asked,) = (each for each in ASKED if each.name == "Count by group, 99 %")
    usual, largest, _ = tried([asked], [LAWS[-1]], releases=300).widths()["Count by group, 99 %"]
    assert 0.6 * factor < usual <= largest < 1.6 * factor


def test_bounds_that_are_halved_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sl.Release.error_bound
    monkeypatch.setattr(sl.Release, "error_bound", lambda self, confidence: real(self, confidence) / 2)
    (asked,) = (each for each in ASKED if each.name == "Sum")
    assert ("Sum", "few rows") in tried([asked], [LAWS[-1]], releases=150).refuted()


@pytest.mark.parametrize("found", [False, True])
def test_errors_of_full_cells_are_looked_at_by_themselves(monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    """The noise alone as the standard error of a fitted count is refuted where most cells are empty."""
    if found:
        real = answers._Noisy.errors
        monkeypatch.setattr(
            answers._Noisy,
            "errors",
            lambda self, block, _: real(self, block, np.asarray(block.answers(self.counts), np.float64)),
        )
    asked = [each for each in ASKED if each.name == "SyntheticTable, mostly empty cells"]
    laws = [law for law in LAWS if law.name == "five values"]
    refuted = tried(asked, laws, releases=130).refuted()
    assert set(refuted) == ({(each.name, "five values") for each in asked} if found else set())


def test_every_query_that_states_an_error_is_tried() -> None:
    """Found by releasing one of each name of the registry."""
    columns = dict(tables())["ordinary"]
    tried_names = {each.name.split(",")[0].split(" ")[0] for each in ASKED}
    stating = set()
    for name, (query, schema) in cases().items():
        release: Any = seeded_release(query, sl.Table(columns, schema=schema), seed=1)
        if isinstance(release, sl.Release) and (release.error is not None or _has_intervals(release.value)):
            stating.add(name.split(",")[0])
    assert {"Count", "LinearRegression", "Covariance", "SQL"} <= stating
    assert stating <= tried_names | set(ELSEWHERE)


def _has_intervals(value: Any) -> bool:
    return isinstance(value, GroupTable) and any(column.endswith("low") for column in value.columns)


@pytest.mark.slow
def test_every_stated_error_on_every_law() -> None:
    assert not tried().refuted()

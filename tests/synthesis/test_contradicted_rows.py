"""A public number of rows that what was measured contradicts: said in the release, from released numbers."""

from __future__ import annotations

from typing import Any

import pytest

import sidelight as sl
from sidelight.report.synthetic import synthetic_card
from sidelight.synthesis.measurement import NoisyRows, RowsEstimate
from sidelight.testing import seeded_release

SCHEMA = [sl.Category("a", ["x", "y", "z"], other=None), sl.Category("b", ["p", "q"], other=None)]
DATA = {"a": ["x", "y", "x", "z"] * 500, "b": ["p", "q", "q", "q"] * 500}


def released(rows: int | None, engine: Any = "marginals") -> sl.Release:
    query = sl.SyntheticTable(sl.marginals(2), epsilon=1, rows=rows, engine=engine)
    found = seeded_release(query, sl.Table(DATA, schema=SCHEMA), seed="rows")
    assert isinstance(found, sl.Release)
    return found


@pytest.mark.parametrize("engine", ["marginals", "loglinear"])
@pytest.mark.parametrize("rows", [1000, 4000])
def test_a_wrong_number_is_said(rows: int, engine: Any) -> None:
    release = released(rows, engine)
    counted = sl.Synthetic(release).contradicted_rows
    assert counted is not None
    assert abs(counted - 2000) < 100  # of noise of deviation 5 at most
    words = f"which sum to about {counted:.0f} rows: check the public rows="
    assert words in str(release)
    assert words in str(sl.Release.from_json(release.to_json()))
    assert "check that number" in dict(synthetic_card(release)["facts"])["Rows"]


@pytest.mark.parametrize("rows", [2000, None])
def test_a_right_number_and_a_noisy_one_are_not_doubted(rows: int | None) -> None:
    release = released(rows)
    assert sl.Synthetic(release).contradicted_rows is None
    assert "sum to" not in str(release)


def test_four_deviations() -> None:
    sums = ((100.0, 5.0), (104.0, 5.0))  # mean 102 of deviation 3.54
    assert not RowsEstimate(None, sums=sums).contradicts(102 + 14.1)
    assert RowsEstimate(None, sums=sums).contradicts(102 + 14.2)
    first = NoisyRows(value=102.0, law="gaussian", scale=1e-3, deviation=1e-3)
    assert RowsEstimate(first, sums=sums).contradicts(102.01)

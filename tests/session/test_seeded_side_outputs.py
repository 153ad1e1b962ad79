"""Whatever is made with seeded noise says that it is not private: statements, tables, frames and predictions."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.guarantees.claims import SEEDED
from sidelight.ledger import open_ledger
from sidelight.release import outcome_from_json, read_outcomes
from sidelight.testing import SeededSession, seeded_release

TABLE = sl.Table(
    {"g": ["a", "b"] * 200, "x": list(range(100)) * 4},
    schema=[sl.Category("g", ["a", "b"], other=None), sl.Number("x", lower=0, upper=100, granularity=1)],
    name="rows",
)
COUNTS = seeded_release(sl.Count(by="g", epsilon=5), TABLE, seed=1)
ROWS = seeded_release(sl.SyntheticTable(sl.marginals(1), bins={"x": 4}, epsilon=5), TABLE, seed=1)
REAL = sl.SyntheticTable(sl.marginals(1), bins={"x": 4}, epsilon=5).release(TABLE)


@pytest.mark.parametrize("kept", [False, True])
def test_a_session_and_its_ledger_say_so(kept: bool, tmp_path: Path) -> None:
    with open_ledger(tmp_path / "b.db", testing=True) as ledger:
        session = SeededSession(TABLE, budget=sl.PureDP(1), seed=1, ledger=ledger if kept else None)
        for text in (session.statement(), session._repr_html_(), repr(session)):
            assert SEEDED in text
        if kept:
            assert SEEDED in ledger.open_scope("other", budget=sl.PureDP(1)).statement()
    real = sl.Session(TABLE, budget=sl.PureDP(1))
    assert "NOT PRIVATE" not in real.statement() + real._repr_html_() + repr(real)


def test_a_synthetic_table_says_so(tmp_path: Path) -> None:
    made, real = sl.Synthetic(ROWS), sl.Synthetic(REAL)
    assert made.table(3).attrs["private"] is False
    assert made.table(3, like=pd.DataFrame({"g": ["a"]})).attrs["private"] is False
    assert made.table(3, library="pyarrow").schema.metadata == {b"private": b"false"}
    for asked in ("x", sl.marginals(1)):
        found, ours = made.answer(asked), real.answer(asked)
        for each in found if isinstance(found, list) else [found]:
            assert (each.private, SEEDED in repr(each)) == (False, True)
        for each in ours if isinstance(ours, list) else [ours]:
            assert (each.private, SEEDED in repr(each)) == (True, False)
    assert all(each["private"] is False for each in made.report())
    assert SEEDED in repr(made)
    with pytest.warns(sl.NotPrivateWarning, match="do not publish"):
        made.write(tmp_path / "t.parquet")
    assert pq.read_schema(tmp_path / "t.parquet").metadata[b"private"] == b"false"
    assert SEEDED not in repr(real)
    assert "private" not in real.table(3).attrs
    assert "private" not in real.report()[0]
    real.write(tmp_path / "real.csv")  # without a warning


@pytest.mark.parametrize(
    "change", [lambda frame: frame, lambda frame: frame.head(2), lambda frame: frame.set_index("g")["count"]]
)
def test_a_frame_of_a_seeded_release_predicts_nothing(change: Any) -> None:
    frame = change(COUNTS.to_pandas())
    for prediction in (
        frame,
        sl.Predicted(frame, origin="somewhere", column=None if isinstance(frame, pd.Series) else "count"),
    ):
        session = sl.Session(TABLE, budget=sl.PureDP(1))
        with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
            session.release(sl.Count(by="g", epsilon="0.1", prediction=prediction))
        assert session.remaining == sl.Session(TABLE, budget=sl.PureDP(1)).remaining
        assert not seeded_release(sl.Count(by="g", epsilon="0.1", prediction=prediction), TABLE, seed=1).private
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        sl.PublicData(frame, "somewhere")
    with pytest.raises(RangeError, match="seeded noise, which gives no privacy"):
        sl.PublicData(sl.Synthetic(ROWS).table(9), "somewhere")
    sl.PublicData(sl.Count(by="g", epsilon=1).release(TABLE).to_pandas(), "released for real")


def test_stored_releases_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    text = COUNTS.to_json()
    with pytest.raises(RangeError, match="key twice"):
        outcome_from_json(text.replace('"circumstances":{', '"circumstances":{"entropy":"os",', 1))
    (tmp_path / "twice.json").write_text("[" + text.replace("{", '{"format":"1",', 1) + "]", encoding="utf-8")
    with pytest.raises(RangeError, match="key twice"):
        read_outcomes(tmp_path / "twice.json")
    stored = json.loads(text)
    stored["circumstances"]["numerics"] = "idealized"
    with pytest.raises(RangeError, match="contradict the guarantee"):
        outcome_from_json(json.dumps(stored))


def test_labels_with_line_breaks_stay_in_their_cells(tmp_path: Path) -> None:
    labels = ["a\rb", "a\nb", "a\r\nb", 'say "no"', "x,y", "", "=SUM(1)"]
    table = GroupTable(
        keys=["la\rbel"],
        groups=[(each,) for each in labels],
        columns={"count": range(7), "mean": [float("nan"), *[1.5] * 6], "supported": [True] * 7},
    )
    table.to_csv(tmp_path / "t.csv")
    with open(tmp_path / "t.csv", encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["la\rbel", "count", "mean", "supported"]
    assert [row[0] for row in rows] == labels
    assert rows[0][1:] == ["0", "", "True"]
    frame = pd.read_csv(tmp_path / "t.csv", keep_default_na=False, na_values={"mean": [""]}, lineterminator="\n")
    assert frame["mean"].isna().tolist() == [True, *[False] * 6]

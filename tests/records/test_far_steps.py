"""Declared bounds beyond 2**61 steps are refused where they are declared; columns of 64-bit ids stay usable."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.aggregates.view_rows import open_view
from sidelight.cli.look import _proposed
from sidelight.errors import RangeError
from sidelight.metadata.entries import bounds_of
from sidelight.records import Schema
from sidelight.session.query import prepare_query
from sidelight.testing import seeded_release

FAR = 2**61 + 1


@pytest.mark.parametrize(
    "declared",
    [
        {"lower": 3 * 10**18, "upper": 4 * 10**18, "granularity": 1},
        {"lower": 0, "upper": FAR, "granularity": 1},
        {"lower": -FAR, "upper": 0, "granularity": 1},
        {"lower": 10**19, "granularity": 1},
        {"upper": -(10**19), "granularity": 1},
        {"lower": 0, "upper": 10**15, "granularity": "0.0001"},
        {"granularity": 1, "missing": sl.Fill(FAR)},
    ],
)
def test_bounds_beyond_all_steps_are_refused_where_they_are_declared(declared: dict[str, Any]) -> None:
    """Counts of such a column were false, and failed after the charge as soon as there was a row."""
    with pytest.raises(RangeError, match=r"the bounds of 'n' lie more than 2\*\*61 steps"):
        sl.Number("n", **declared)


@pytest.mark.parametrize("step", [Fraction(2) ** 901, Fraction(1, 2**901)])
def test_steps_that_no_grid_has_are_refused_where_they_are_declared(step: Fraction) -> None:
    with pytest.raises(RangeError, match=r"between 2\*\*-900 and 2\*\*900"):
        sl.Number("n", granularity=step)


def test_counts_up_to_the_last_step_are_true() -> None:
    n = sl.Number("n", lower=-(2**61), upper=2**61, granularity=1)
    table = sl.Table({"n": [2.0**61] * 30 + [-(2.0**61)] * 10 + [2.0**60] * 5}, schema=[n])

    def count(where: Any) -> float:
        return float(seeded_release(sl.Count(where=where, epsilon=10**6), table, seed="far").value["unbiased"][0])

    assert [count(sl.col("n") >= end) for end in (2**61, 2**60, 0)] == [30, 35, 35]
    assert count(sl.col("n") <= -(2**61)) == 10
    assert count(sl.col("n") == 2**61) == 30


def test_constants_beyond_the_steps_of_an_open_column_are_refused() -> None:
    """Values are cut at 2**61 steps where no bound is declared: a comparison with more would be false of all rows."""
    n = sl.col("n")
    for condition in (n >= 3 * 10**18, n < -(10**19), n == 10**19, n.isin([1, 10**19]), n.lookup({10**19: "a"}) == "a"):
        with pytest.raises(RangeError, match=r"2\*\*61 steps"):
            prepare_query(sl.Count(where=condition, epsilon=1), Schema([sl.Number("n", granularity=1)]))
    with pytest.raises(RangeError, match=r"2\*\*61 steps"):
        prepare_query(sl.Count(by=n.cut([0, 10**19]), epsilon=1), Schema([sl.Number("n", granularity=1)]))
    bounded = Schema([sl.Number("n", lower=0, upper=9, granularity=1)])
    prepare_query(sl.Count(where=(n >= 10**19) | (n < 10**400), epsilon=1), bounded)  # of no row, and of every row


def _hashes() -> dict[str, Any]:
    return {
        "pid": np.array([2**63 - 1, 2**63 - 2, 5, 5], np.int64),
        "hash": np.array([2**64 - 1, 2**64 - 2, 0, 7], np.uint64),
        "stamp": np.array(["2024-01-01T00:00:00.000000001"] * 4, "datetime64[ns]"),
        "x": [1.0, 2.0, 3.0, 4.0],
    }


@pytest.mark.parametrize(
    "more",
    [
        [],
        [sl.Label("hash")],
        [sl.Category("hash", [2**64 - 1, 7])],
        [sl.Number("hash")],
        [sl.Number("hash", lower=0, upper=2**64)],
        [sl.Number("hash", granularity=1)],
        [sl.Date("stamp", start="2000-01-01", end="2050-01-01", unit="hour")],
    ],
)
def test_tables_with_columns_of_64_bits_are_usable(more: list[Any]) -> None:
    schema = [sl.PersonId("pid", max_rows=2), sl.Number("x", lower=0, upper=9, granularity=1), *more]
    table = sl.Table(_hashes(), schema=schema)
    count = seeded_release(sl.Count(where=sl.col("x") >= 1, epsilon=10**6), table, seed="hashes")
    assert count.value["unbiased"].tolist() == [3]


def test_folds_are_declared_within_all_steps() -> None:
    rows = {"pid": ["a", "a", "b"], "n": [1, 5, 2], "m": [1, 5, 2]}
    open_n, m = sl.Number("n", granularity=1), sl.Number("m", lower=0, upper=9, granularity=1)
    visit = sl.Table(rows, schema=[sl.PersonId("pid", max_rows=3), open_n, m])
    patient = sl.Table({"pid": ["a", "b"]}, schema=[sl.PersonId("pid", max_rows=1)])
    database = sl.Database({"patient": patient, "visit": visit}, name="clinic")
    for fold in (sl.fold.sum("visit", "m", upper=FAR), sl.fold.mean("visit", "m", granularity="1e-18")):
        with pytest.raises(RangeError, match=r"2\*\*61 steps"):
            sl.per_person(database, of="patient", made=fold)
    usable = {
        "spread": sl.fold.span("visit", "n"),
        "between": sl.fold.gap("visit", "n"),
        "average": sl.fold.mean("visit", "n", granularity="0.5"),
        "least": sl.fold.min("visit", sl.col("m") * 2),
    }
    view = sl.per_person(database, of="patient", **usable)
    for condition, wanted in ((sl.col("spread") == 4, 1), (sl.col("average") == 3, 1), (sl.col("least") >= 2, 2)):
        found = seeded_release(sl.Count(where=condition, epsilon=10**6), open_view(view), seed="folds")
        assert found.value["unbiased"].tolist() == [wanted]


def test_descriptions_of_unsigned_numbers_are_read_as_floats() -> None:
    wide = bounds_of({"minimum": 0, "maximum": 2**64 - 1}, whole=True)
    assert wide == {"kind": "number", "lower": "0", "upper": str(2**64 - 1)}
    assert bounds_of({"minimum": 0, "maximum": 9}, whole=True)["granularity"] == "1"
    for largest, step in ((2**64 - 1, None), (900, 1)):
        cells = Counter({str(largest - place): 1 for place in range(300)})
        declared = _proposed("hash", cells, set(), by_person=False)
        assert declared is not None
        assert declared.column.granularity == step

"""Means of persons: each counts once in a group, at the price and with the sensitivity of one row."""

from __future__ import annotations

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.testing import seeded_release


def loans(max_rows: int = 4) -> sl.Table:
    """Members of 30 who borrow once, and members of 70 who borrow four times."""
    member = np.concatenate([np.arange(300), np.repeat(np.arange(300, 600), 4)])
    age = np.where(member < 300, 30, 70)
    schema = [sl.PersonId("member", max_rows=max_rows), sl.Number("age", lower=0, upper=110, granularity=1)]
    return sl.Table({"member": member, "age": age}, schema=schema)


def test_each_person_counts_once() -> None:
    table = loans()
    persons = seeded_release(sl.Mean("age", of="persons", epsilon=100), table, seed="x")
    rows = seeded_release(sl.Mean("age", epsilon=100), table, seed="x")
    assert persons.value.mean == pytest.approx(50, abs=1)
    assert rows.value.mean == pytest.approx(62, abs=1)
    assert persons.value.count == pytest.approx(600, abs=3)
    assert "each person once" in str(persons)
    share = seeded_release(sl.Proportion("age >= 50", of="persons", epsilon=100), table, seed="x")
    assert share.value.proportion == pytest.approx(0.5, abs=0.02)


def test_the_noise_is_that_of_one_row() -> None:
    """The sensitivity falls with the rows of a person that count, which is what makes first plans useful."""
    drawn = {
        of: seeded_release(sl.Mean("age", of=of, epsilon=1), loans(), seed="x").spending[0]["statistic"]
        for of in ("persons", "rows")
    }
    once, four = (float(text.split("sensitivity ")[1].split(",")[0]) for text in drawn.values())
    assert four == 4 * once
    several = seeded_release(sl.Mean(["age"], of="persons", epsilon=100), loans(), seed="x")
    assert several.value["mean_age"][0] == pytest.approx(50, abs=1)


def test_a_request_without_it_is_as_it_was() -> None:
    assert "of" not in sl.Mean("age", epsilon=1).prepare(loans().schema).request
    assert sl.Mean("age", of="persons", epsilon=1).prepare(loans().schema).request["of"] == "persons"


def test_mistakes() -> None:
    bare = sl.Table({"age": [30, 70]}, schema=[sl.Number("age", lower=0, upper=110)])
    with pytest.raises(SchemaError, match="PersonId"):
        sl.Mean("age", of="persons", epsilon=1).release(bare)
    with pytest.raises(RangeError, match="leave it out"):
        sl.Mean("age", of="persons", max_rows_per_group=2, epsilon=1)
    with pytest.raises(RangeError, match="'persons' or 'rows'"):
        sl.Mean("age", of="members", epsilon=1)

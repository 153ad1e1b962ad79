"""Views of tables with no row, few rows and extreme declarations: nothing that rows hold makes a release fail."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

import sidelight as sl
from plain_statistics import made_rows
from sidelight.errors import SchemaError


def _database(persons: int, visits: int, drugs: int) -> sl.Database:
    n = sl.Number("n", lower=0, upper=9, granularity=1)
    person = {"who": ["a", "b"][:persons], "sex": ["F", "M"][:persons]}
    visit = {
        "who": ["a", "b", "b"][:visits],
        "k1": ["x", "y", "y"][:visits],
        "k2": ["1", "2", "2"][:visits],
        "n": [1, 2, 3][:visits],
        "lab": ["q", "r", "s"][:visits],
    }
    drug = {"k1": ["x", "y"][:drugs], "k2": ["1", "2"][:drugs], "n": [5, 6][:drugs]}
    own = [sl.PersonId("who", max_rows=3), sl.Key("k1", "k2"), sl.Reference("who", to="person"), n, sl.Label("lab")]
    sex = sl.Category("sex", ["F", "M"])
    return sl.Database(
        {
            "person": sl.Table(person, schema=[sl.PersonId("who", max_rows=1), sl.Key("who"), sex]),
            "visit": sl.Table(visit, schema=own),
            "drug": sl.Table(drug, schema=[sl.PersonVia("k1", "k2", to="visit", max_rows=5), n]),
        },
        name="clinic",
    )


@pytest.mark.parametrize("wards", [["n", "z"], ["z", "n"]])
def test_a_grouped_view_follows_no_key_of_one_of_several_rows(wards: list[str]) -> None:
    """Which row of a person comes first in the file decides nothing."""
    to_ward = sl.Reference("ward", to="ward")
    visit = sl.Table({"who": ["a", "a"], "ward": wards}, schema=[sl.PersonId("who", max_rows=5), to_ward])
    ward = sl.Table({"ward": ["n"], "floor": ["1"]}, schema=[sl.Key("ward"), sl.Category("floor", ["1"])], public=True)
    sex = [sl.PersonId("who", max_rows=1), sl.Category("sex", ["F"])]
    person = sl.Table({"who": ["a"], "sex": ["F"]}, schema=sex)
    database = sl.Database({"visit": visit, "ward": ward, "person": person}, name="clinic")
    for column in ("ward is found", "ward.floor"):
        with pytest.raises(SchemaError, match="is no column"):
            sl.per_person(database, of="visit", columns=[column])
    assert made_rows(sl.per_person(database, of="visit", columns=["person is found"])).length == 1


def _views(database: sl.Database) -> Iterator[Any]:
    fold = sl.fold
    drugs = {
        "some": fold.any("drug", sl.col("n") > 1),
        "every": fold.all("drug", sl.col("n") > 1),
        "total": fold.sum("drug", "n", upper=1e18),
        "average": fold.mean("drug", "n", granularity="0.00000000000000001"),
        "least": fold.min("drug", "n"),
        "early": fold.first("drug", "n", order="n"),
        "kinds": fold.distinct("drug", "n", upper=2),
        "spread": fold.span("drug", "n"),
        "between": fold.gap("drug", "n"),
    }
    yield database.view("visit", columns=["person.sex"], **drugs)
    yield database.view("drug", columns=["visit.lab", "visit.person.sex", "person.sex"])
    labels = {"usual": fold.mode("visit", "lab"), "late": fold.last("visit", ["lab", "n"], order="n")}
    yield sl.per_person(database, of="person", **labels, **drugs)
    yield sl.per_person(database, of="visit", where=sl.col("person.sex") == "F", **drugs)
    yield sl.per_person(database, of="drug", where=sl.col("visit.n") > 1, usual=fold.mode("visit", "lab"))


@pytest.mark.parametrize(("persons", "visits", "drugs"), [*product(range(3), range(4), range(3))])
def test_no_number_of_rows_makes_a_view_fail(persons: int, visits: int, drugs: int) -> None:
    database = _database(persons, visits, drugs)
    session = sl.Session(database, budget=sl.PureDP(9))
    for view in _views(database):
        held = made_rows(view)
        assert {*held.numbers, *held.texts} == {*view.schema.names} - {view.tables.owner_name(view.base)}
        session.release(sl.Count(epsilon=1), of=view)

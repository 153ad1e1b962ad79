"""The public description of a table."""

from __future__ import annotations

import json

import pytest

from sidelight.errors import SchemaError
from sidelight.guarantees.units import Person, Row
from sidelight.records import Category, Drop, Fill, Number, PersonId, Schema

FULL = Schema(
    [
        Number("age", lower=0, upper=120, granularity=1, missing=Fill(40)),
        Number("pay"),
        Category("sex", ["F", "M"]),
        Category("city", ["A", "B"], other=None, missing=Drop()),
        Category("flag", [1, 2], missing=Fill("2")),
        PersonId("who", max_rows=3),
    ]
)


def test_finds_declarations():
    assert FULL.number("age").granularity == 1
    assert FULL.category("sex").labels == ("F", "M", "other")
    assert FULL.person == PersonId("who", max_rows=3)
    assert FULL.unit == Person(column="who", max_rows=3)
    assert FULL.rows_per_unit == 3
    plain = Schema([Number("age")])
    assert (plain.unit, plain.person, plain.rows_per_unit) == (Row(), None, 1)


def test_unknown_column_names_the_nearest_and_what_to_declare():
    with pytest.raises(SchemaError, match=r"'agee' is not declared; declare Number\('agee'.*did you mean 'age'"):
        FULL.number("agee")
    with pytest.raises(SchemaError, match=r"declare Category\('town', \[...\]\)"):
        FULL.category("town")


def test_wrong_kind_says_what_is_needed():
    with pytest.raises(SchemaError, match="'sex' is declared as Category, a Number is needed"):
        FULL.number("sex")
    with pytest.raises(SchemaError, match="'who' is declared as PersonId, a Category is needed"):
        FULL.category("who")


def test_json_is_strings_only_and_comes_back():
    text = json.dumps(FULL.to_json())
    assert Schema.from_json(json.loads(text)) == FULL

    def leaves(value):
        if isinstance(value, dict):
            return [leaf for entry in value.values() for leaf in leaves(entry)]
        if isinstance(value, list):
            return [leaf for entry in value for leaf in leaves(entry)]
        return [value]

    assert all(isinstance(leaf, str) for leaf in leaves(FULL.to_json()))


def test_digest_tells_declarations_apart():
    assert FULL.digest() == Schema(FULL.columns).digest()
    assert len({Schema([Number("x", lower=low)]).digest() for low in (0, 1, None)}) == 3


@pytest.mark.parametrize(
    "columns",
    [
        [],
        [Number("a"), Category("a", ["x"])],
        [PersonId("p", max_rows=1), PersonId("q", max_rows=1)],
        [Number("a"), PersonId("p", max_rows=1), PersonId("q", max_rows=1)],
        ["age"],
    ],
)
def test_refuses(columns):
    with pytest.raises(SchemaError):
        Schema(columns)


def test_unknown_kind_in_json():
    with pytest.raises(SchemaError, match="did you mean 'number'"):
        Schema.from_json({"columns": [{"kind": "nummer", "name": "x"}]})

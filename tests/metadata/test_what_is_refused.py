"""Metadata that leave open whom a guarantee protects, or that say two things of one column, declare nothing."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sidelight.cli.app import app
from sidelight.errors import SchemaError, SidelightError
from sidelight.metadata import read_metadata, write_metadata
from sidelight.records import Category, Column, Date, Number, PersonId

AGE: dict[str, Any] = {"name": "age", "datatype": "integer", "minimum": 0, "maximum": 110}
SMART = "'': {'': {people: {%s age: {type: int, lower: 0, upper: 110}}}}"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("Person ID,age,sex\n" + "".join(f"p{n // 3},{n},F\n" for n in range(60)))


def csvw(*columns: dict[str, Any], **more: Any) -> Path:
    path = Path("meta.json")
    path.write_text(json.dumps({"url": "people.csv", "tableSchema": {"columns": list(columns)}, **more}))
    return path


def init(path: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["init", "people.csv", "--metadata", str(path), *words])
    return done.exit_code, " ".join(done.output.split())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"Person ID": {type: string, private_id: true},', "lacks max_rows: rows would be protected"),
        ("max_ids: 3, patient: {type: string, private_id: true},", "'patient' names the persons.* not in the file"),
        ("row_privacy: false, rows: 300,", "row_privacy is false, and no column says whose row it is"),
        (
            'max_ids: 3, "Person ID": {type: string, private_id: true}, sex: {type: string, private_id: true},',
            "'Person ID' and 'sex' that they name the persons; keep the mark of one",
        ),
    ],
)
def test_persons_who_cannot_be_protected_are_not_forgotten(text: str, words: str) -> None:
    path = Path("meta.yaml")
    path.write_text(SMART % text)
    status, said = init(path)
    assert status == 2
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(said)
    assert not Path("plan.toml").exists()


def test_an_option_says_who_the_persons_are() -> None:
    path = csvw({"name": "Person ID", "privacyId": True}, AGE)
    assert init(path)[0] == 2
    assert init(path, "--label", "Person ID")[0] == 2
    assert init(path, "--person", "Person ID", "--max-rows", "3")[0] == 0
    assert tomllib.loads(Path("plan.toml").read_text())["column"][0]["max_rows"] == 3


@pytest.mark.parametrize("titles", ["Person ID", ["Kennung", "Person ID"], {"en": "Person ID", "de": ["Kennung"]}])
def test_a_title_is_the_name_in_the_file(titles: object) -> None:
    person = {"name": "person_id", "titles": titles, "privacyId": True}
    assert init(csvw(person, AGE, privacyUnit="person_id", maxContributions=3))[0] == 0
    plan = tomllib.loads(Path("plan.toml").read_text())
    assert [(each["name"], each["kind"]) for each in plan["column"]] == [("Person ID", "person"), ("age", "number")]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"name": "sex", "privacyId": "false"}, "privacyId must be true or false"),
        ({"name": "sex", "keyValues": ["F"], "exhaustiveKeys": "false"}, "exhaustiveKeys must be true or false"),
        ({"name": "age", "datatype": "integer"}, "'age' twice"),
        ({"name": "x", "datatype": {"base": "integer", "minimum": 5}, "minimum": 0}, "said once, got 5 and 0"),
        ({"name": "x", "datatype": {"base": "double", "maxInclusive": 5, "maximum": 4}}, "said once, got 4 and 5"),
    ],
)
def test_what_can_be_meant_in_two_ways(column: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        read_metadata(csvw(column, AGE))


def test_other_words_for_bounds_are_read() -> None:
    for low, high in (("minInclusive", "maxInclusive"), ("minExclusive", "maxExclusive")):
        (found,) = read_metadata(csvw({"name": "x", "datatype": {"base": "integer", low: 0, high: 10}}))
        assert found.column == Number("x", lower=0, upper=10, granularity=1)


def test_the_last_second_of_a_year_lies_in_its_last_hour() -> None:
    ends = {"minimum": "2021-01-01T00:00:01", "maximum": "2021-12-31T23:59:59+02:00"}
    (found,) = read_metadata(csvw({"name": "d", "datatype": "dateTime", **ends}))
    assert found.column == Date("d", start="2021-01-01 00:00", end="2021-12-31 21:00", unit="hour")
    with pytest.raises(SchemaError, match=r"inside an hour.*write the hour in which it lies"):
        Date("d", start="2021-01-01", end="2021-12-31T23:59:59", unit="hour")


@pytest.mark.parametrize("number", ["Infinity", "1e999999999"])
def test_numbers_beyond_all_bounds_are_refused(number: str) -> None:
    path = Path("meta.json")
    own = f'"sidelight": {{"kind": "person", "max_rows": {number}}}'
    path.write_text(f'{{"fields": [{{"name": "x", "type": "number", {own}}}]}}')
    with pytest.raises(SidelightError):
        read_metadata(path)


@pytest.mark.parametrize("text", ["😀", "a\u2028b", "c\x85", "d\x7f", "e\ufeff", "f\x9f"])
def test_every_label_can_be_read_again(text: str) -> None:
    columns: list[Column] = [Category(text, [text, "b"]), Number("x")]
    write_metadata(Path("meta.yaml"), columns, name="people")
    assert [each.column for each in read_metadata(Path("meta.yaml"))] == columns


@pytest.mark.parametrize("name", ["max_ids", "row_privacy", "rows"])
def test_a_column_cannot_stand_for_what_is_said_of_its_table(name: str) -> None:
    with pytest.raises(SchemaError, match="said of a table"):
        write_metadata(Path("meta.yaml"), [Number(name), PersonId("p", max_rows=2)], name="people")
    assert not Path("meta.yaml").exists()


def test_a_plan_that_no_command_accepts_is_not_left_behind() -> None:
    def plan(*words: str) -> int:
        return CliRunner().invoke(app, ["init", "people.csv", *words]).exit_code

    assert plan("--person", "Person ID") == 2
    assert not Path("plan.toml").exists()
    Path("plan.toml").write_text("title = 'mine'")
    assert plan("--person", "Person ID", "--overwrite") == 2
    assert Path("plan.toml").read_text() == "title = 'mine'"
    Path("people.csv").write_text("rows\n1\n")
    Path("plan.toml").unlink()
    assert plan("--number", "rows:0:1", "--write-metadata", "out.yaml") == 2
    assert not Path("plan.toml").exists()

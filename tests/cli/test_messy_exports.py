"""Files as people have them: `init` takes how they are written, `check` proposes it, and metadata says it."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.messy_files import ALL, Export, session, wrong_numbers
from benchmarks.metadata_round_trip import FILES, differences, draw_schema
from typer.testing import CliRunner

from benchmarks import messy_files
from sidelight.cli.app import app
from sidelight.errors import SchemaError
from sidelight.metadata import read_metadata
from sidelight.metadata.other_formats import _from_unicode, _to_unicode
from sidelight.records import Category, Date, Number, PersonId
from sidelight.records.reading_proposals import propose_reading

ROWS = "who;sex;cost;day\n" + "".join(
    f"{('p', ' p', 'P')[n % 3]}{n // 3};{('m', 'M', 'Male', 'w', 'k.A.')[n % 5]};{n % 9}.{n:03d},5;"
    f"{1 + n % 28}.{1 + n % 12}.2024\n"
    for n in range(90)
)
DECLARED = [
    "--person",
    "who",
    "--number",
    "cost:0:9999",
    "--category",
    "sex:M,W",
    "--date",
    "day:2020-01-01:2025-12-31",
]
READ = ["--decimal", ",", "--thousands", ".", "--date-format", "%d.%m.%Y", "--missing-text", "k.A."]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(ROWS, encoding="utf-8-sig")
    return tmp_path


def typed(*words: str, status: int = 0) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == status, result.output
    return result.output


def test_options_become_declarations_that_read_every_cell() -> None:
    typed(
        "init",
        "people.csv",
        *DECLARED[:-4],
        "--category",
        "sex:M=male=m==1,W",
        *DECLARED[-2:],
        *READ,
        "--casefold",
        "--strip",
    )
    columns = {each["name"]: each for each in tomllib.loads(Path("plan.toml").read_text())["column"]}
    assert columns["cost"]["decimal"] == ","
    assert columns["day"]["formats"] == ["%d.%m.%Y"]
    assert columns["sex"]["aliases"] == {"M": ["male", "m=1"]}
    assert columns["who"]["casefold"] is True
    said = typed("check", "plan.toml")
    assert "unreadable" not in said.partition("\n- ")[2]
    assert "declare" not in said.replace("declared", "")
    typed("run", "plan.toml")


def test_check_proposes_what_would_read_the_cells() -> None:
    typed("init", "people.csv", *DECLARED)
    said = typed("check", "plan.toml", "--json", "check.json")
    found = {each["column"]: each for each in json.loads(Path("check.json").read_text())["proposals"]}
    assert found["cost"]["declare"] == ['decimal = ",", thousands = "."']
    assert found["cost"]["reads"] == 90
    assert found["day"]["declare"] == ['formats = ["%d.%m.%Y"]']
    assert found["sex"]["declare"] == ['casefold = true, aliases = {M = ["Male"]}, missing_texts = ["k.A."]']
    assert found["who"]["declare"] == ["strip = true, casefold = true"]
    assert "if the program that wrote the file writes so" in said


def choices(column: Any, *texts: str) -> Any:
    found = propose_reading(column, Counter(texts))
    return None if found is None else [dict(choice) for choice in found.choices]


def test_what_can_be_read_in_two_ways_is_not_decided() -> None:
    day = Date("d", start="2020-01-01", end="2025-12-31")
    assert choices(day, "01/02/2024", "03/04/2024") == [{"formats": ["%d/%m/%Y"]}, {"formats": ["%m/%d/%Y"]}]
    assert choices(day, "01/02/2024", "13/04/2024") == [{"formats": ["%d/%m/%Y"]}]
    assert choices(day, "2024-01-02", "13.4.2024") == [{"formats": ["%d.%m.%Y", "iso"]}]
    number = Number("x")
    assert choices(number, "1,234", "2,500") == [{"decimal": ","}, {"decimal": ".", "thousands": ","}]
    assert choices(number, "1.234", "2.500") == [{"decimal": "."}, {"decimal": ",", "thousands": "."}]
    assert choices(number, "1.234", "2.5") is None
    assert choices(number, "1.234,5", "12,5", "7") == [{"decimal": ",", "thousands": "."}]
    assert choices(Number("x", decimal=",", thousands="."), "1.234,5", "12,5") is None
    assert choices(Category("s", ["F", "M"]), "F", "M") is None
    assert choices(PersonId("p", max_rows=1), "a", "unknown") == [{"missing_texts": ["unknown"]}]


def test_init_without_a_terminal_says_what_it_needs() -> None:
    said = typed("init", "people.csv", status=2)
    assert "no plan was written" in said
    assert "sidelight init people.csv" in said.replace("\n", " ")
    assert not Path("plan.toml").exists()


@pytest.mark.parametrize("place", [0, 6])
@pytest.mark.parametrize("readings", [True, False])
def test_reports_of_messy_exports_are_right(
    place: int, readings: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messy_files, "PEOPLE", 150)
    assert session(ALL[place], tmp_path, seed=place, readings=readings) == 0


@pytest.mark.planted("a declaration that does not fit the file")
def test_a_wrong_declaration_gives_wrong_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure of right reports can fail: points for thousands are declared, and the file has decimal points."""
    monkeypatch.setattr(messy_files, "PEOPLE", 150)
    wrong = Export("wrong", ".", ",", "%d/%m/%Y", {"F": ("F",), "M": ("M",)}, delimiter=";")
    monkeypatch.setattr(messy_files, "_number", lambda export, value: f"{value:.2f}".replace(".", ","))
    assert session(wrong, tmp_path, seed=1, readings=True) > 0
    assert wrong_numbers({"items": []}, {"people": 1, "by": [1], "means": [1.0], "cost": [1], "days": [1]}) == 5


@pytest.mark.parametrize("kind", FILES)
def test_schemas_come_back_from_metadata_as_they_were(kind: str, tmp_path: Path) -> None:
    assert sum(differences(draw_schema(seed), kind, tmp_path) for seed in range(30)) == 0


def test_metadata_of_others_is_declared_and_what_lacks_is_said() -> None:
    """A document as csvw-eo makes one, options that win over it, and a column with incomplete metadata."""
    Path("meta.json").write_text(
        json.dumps(
            {
                "@context": ["http://www.w3.org/ns/csvw"],
                "maxContributions": 4,
                "tableSchema": {
                    "columns": [
                        {"name": "who", "datatype": "string", "privacyId": True, "required": None},
                        {"name": "sex", "datatype": "string", "keyValues": ["M", "W"], "maxGroupsPerUnit": 1},
                        {"name": "cost", "datatype": "double", "minimum": 0.1, "maximum": 5, "privacyId": None},
                        {"name": "day", "datatype": {"base": "date", "format": "dd.MM.yyyy"}},
                        {"name": "elsewhere", "datatype": "integer", "keyValues": [1, 2]},
                    ]
                },
            }
        )
    )
    said = typed("init", "people.csv", "--metadata", "meta.json", "--number", "cost:0:7")
    plan = tomllib.loads(Path("plan.toml").read_text())
    assert [each["kind"] for each in plan["column"]] == ["person", "category", "number"]
    assert plan["column"][0]["max_rows"] == 4
    assert plan["column"][1]["per_person"] == 1
    assert plan["column"][2]["upper"] == 7
    assert "is incomplete for 'day' (missing: start, end)" in said.replace("\n", " ")
    assert "'elsewhere'" in said


def test_smartnoise_and_others_as_they_are_written_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "pums.yaml").write_text(
        "Database:\n  PUMS:\n    PUMS:\n      rows: 1000\n      max_ids: 3\n"
        "      age: {type: int, lower: 0, upper: 100}\n"
        "      pid: {type: int, private_id: True}\n      married: {type: boolean}\n      race: {type: string}\n"
    )
    age, person, married, race = read_metadata(tmp_path / "pums.yaml")
    assert age.column == Number("age", lower=0, upper=100, granularity=1)
    assert person.column == PersonId("pid", max_rows=3)
    assert married.column == Category("married", ["true", "false"])
    assert (race.column, race.lacking) == (None, ("kind",))
    field = {"name": "m", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein", "false"]}
    (tmp_path / "s.json").write_text(json.dumps({"resources": [{"schema": {"fields": [field]}}]}))
    (found,) = read_metadata(tmp_path / "s.json")
    assert found.column == Category("m", ["true", "false"], aliases={"true": ["ja"], "false": ["nein"]})


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", "[]", "none of CSVW"),
        ("a.yaml", "a: [", "not YAML"),
        ("a.json", '{"tableSchema": {"columns": [3]}}', "not built"),
        ("a.json", '{"fields": [{"name": "x", "type": "number", "decimalChar": ";"}]}', "decimal of column"),
        ("a.json", '{"fields": [{"name": "x", "type": "number", "constraints": {"minimum": "y"}}]}', "lower"),
        ("a.yaml", "a: &a {b: *a}", "aliases"),
        (
            "a.yaml",
            "'': {'': {d: {max_ids: 10, max_ids: 1, id: {type: int, private_id: true}}}}",
            "'max_ids' is given twice",
        ),
        ("a.yaml", "'': {'': {d: {a: {type: int, upper: 9}, a: {type: int, upper: 5}}}}", "'a' is given twice"),
        ("a.json", '{"fields": [{"name": "a", "type": "integer", "type": "string"}]}', "'type' is given twice"),
        ("a.yaml", "'': {'': {d: {max_ids: 8, row_privacy: 'False', a: {type: int}}}}", "row_privacy must be true or"),
        ("a.yaml", "'': {'': {d: {max_ids: 8, a: {type: int, private_id: 'no'}}}}", "a: private_id must be true or"),
        ("a.yaml", "'': {'': {d: {max_ids: 2.7, a: {type: int, private_id: true}}}}", "max_ids is how many rows"),
        ("a.yaml", "'': {'': {d: {max_ids: true, a: {type: int, private_id: true}}}}", "max_ids is how many rows"),
        (
            "a.yaml",
            "\n".join(["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{l: *a{n - 1}, r: *a{n - 1}}}" for n in range(1, 40))]),
            "aliases",
        ),
        ("a.json", '{"a": ' * 900 + "{}" + "}" * 900, "none of CSVW|not built|not JSON"),
    ],
)
def test_metadata_that_cannot_be_meant_is_refused(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=words):
        read_metadata(tmp_path / name)


@pytest.mark.parametrize("kind", ["smartnoise", "csvw", "frictionless", "croissant"])
def test_one_of_several_tables_is_chosen_by_its_name_or_none(kind: str, tmp_path: Path) -> None:
    """The first one was taken without a word: other bounds, and rows were protected in place of persons."""
    named = {
        "smartnoise": lambda *names: {
            "": {"": {name: {"row_privacy": True, name[0]: {"type": "int"}} for name in names}}
        },
        "csvw": lambda *names: {
            "tables": [{"url": f"data/{name}.csv", "tableSchema": {"columns": [{"name": name[0]}]}} for name in names]
        },
        "frictionless": lambda *names: {
            "resources": [{"name": name, "schema": {"fields": [{"name": name[0]}]}} for name in names]
        },
        "croissant": lambda *names: {"recordSet": [{"name": name, "field": [{"name": name[0]}]} for name in names]},
    }[kind]
    path = tmp_path / "m.json"
    path.write_text(json.dumps(named("other", "data")))
    assert [each.name for each in read_metadata(path, of="data")] == ["d"]
    assert [each.name for each in read_metadata(path, of="other")] == ["o"]
    for asked in ("third", ""):
        with pytest.raises(SchemaError, match=r"2 tables \(other, data\), and none of them is named"):
            read_metadata(path, of=asked)
    path.write_text(json.dumps(named("other")))
    assert [each.name for each in read_metadata(path, of="data")] == ["o"]


def test_metadata_is_for_what_is_public() -> None:
    said = typed("init", "people.csv", "--look", "--write-metadata", "out.json", status=2)
    assert "private rows" in said
    assert not Path("out.json").exists()
    typed("init", "people.csv", *DECLARED, "--write-metadata", "out.json")
    typed("init", "people.csv", *DECLARED, "--write-metadata", "out.json", "-o", "other.toml", status=2)


def test_forms_of_dates_in_unicode() -> None:
    for form in ("%d.%m.%Y", "%d/%m/%y %H:%M:%S", "%I:%M %p %d-%b-%Y", "%Y-%m-%dT%H:%M%z"):
        assert _from_unicode(_to_unicode(form)) == form
    assert _to_unicode("%A %d %B %Y") is None


def test_the_privacy_unit_of_csvw_is_the_person(tmp_path: Path) -> None:
    def read(*marked: str, **more: object) -> list[str]:
        columns = [{"name": name, "datatype": "string", "privacyId": name in marked} for name in ("patient", "doctor")]
        (tmp_path / "m.json").write_text(json.dumps({"tableSchema": {"columns": columns}, **more}))
        return [each.kind for each in read_metadata(tmp_path / "m.json")]

    assert read(privacyUnit="patient", maxContributions=3) == ["person", ""]
    assert read("patient", privacyUnit="patient", maxContributions=3) == ["person", ""]
    assert read("doctor", maxContributions=3) == ["", "person"]
    assert read() == read(maxContributions=1) == ["", ""]
    for marked, unit in (["doctor"], "patient"), ([], "household"), (["patient", "doctor"], "patient"):
        with pytest.raises(SchemaError, match="privacyUnit must name"):
            read(*marked, privacyUnit=unit, maxContributions=3)
    with pytest.raises(SchemaError, match="whose row it is"):
        read(maxContributions=3)


def test_how_many_rows_a_person_has_is_read_on_every_level_or_refused(tmp_path: Path) -> None:
    """It was dropped without a word: rows were then protected one by one."""
    columns = [{"name": "pid", "datatype": "string"}, {"name": "age", "datatype": "integer", "minimum": 0}]
    schema: dict[str, Any] = {"columns": columns}
    people: dict[str, Any] = {"privacyUnit": "pid", "maxContributions": 5}
    path = tmp_path / "meta.json"
    for document in (
        {"tableSchema": schema, **people},
        {"tables": [{"url": "a.csv"}], "tableSchema": schema, **people},
        {"tables": [{"url": "a.csv", "tableSchema": schema}], **people},
        {"tableSchema": schema | people},
    ):
        path.write_text(json.dumps(document), encoding="utf-8")
        assert next(each.kind for each in read_metadata(path)) == "person", document
    path.write_text(json.dumps({"tableSchema": schema | people, "maxContributions": 2}), encoding="utf-8")
    with pytest.raises(SchemaError, match="said once"):
        read_metadata(path)
    table = '"":\n  "":\n    t:\n      max_ids: 5\n{}      pid:\n        type: string\n      age:\n        type: int\n'
    other = tmp_path / "meta.yaml"
    other.write_text(table.format(""), encoding="utf-8")
    with pytest.raises(SchemaError, match="private_id"):
        read_metadata(other)
    other.write_text(table.format("      row_privacy: true\n"), encoding="utf-8")
    assert len(read_metadata(other)) == 2

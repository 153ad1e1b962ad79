"""No control character and no mark of direction of a label, a name, a title or an origin reaches a person."""

from __future__ import annotations

import io
import json
import re
import warnings
import xml.dom.minidom
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import sidelight as sl
from sidelight.cli.app import app
from sidelight.client.remote_answers import RemoteTable, price_from_json
from sidelight.errors import RangeError, SidelightWarning, SourceError
from sidelight.group_table import GroupTable
from sidelight.predictions import public
from sidelight.readable import alike, shown_text
from sidelight.release import Refused, outcome_from_json
from sidelight.report.contents import Item, Report
from sidelight.report.render import picture, render
from sidelight.testing import SeededSession

HIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff]")
#: Clears a screen, sets its title, is read by terminals that know C1, turns a line round, adds lines.
HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b31m\u202eevil\u2066\u2028\x85\xad\r\nFAKE: all fine"


@pytest.mark.parametrize(
    "drawn_as_nothing", ["\xad", "\u034f", "\u115f", "\u180e", "\u2064", "\u3164", "\ufffa", "\U000e0041", "\ufe0f"]
)
def test_two_labels_that_differ_never_look_alike(drawn_as_nothing: str) -> None:
    table = sl.Table(
        {"town": ["Bonn"] * 50}, schema=[sl.Category("town", ["Bonn", f"Bonn{drawn_as_nothing}"], other=None)]
    )
    release = sl.Count(by="town", epsilon=5).release(table)
    for text in (str(release), release._repr_html_()):
        assert drawn_as_nothing not in text
    assert drawn_as_nothing in release.to_json()


def test_the_selector_of_a_symbol_is_shown_as_it_is() -> None:
    assert shown_text("\u2764\ufe0f") == "\u2764\ufe0f"
    assert shown_text("Bonn\ufe0f \u2764\ufe0f\ufe0f") == "Bonn\\ufe0f \u2764\ufe0f\\ufe0f"
    assert alike("\u2764\ufe0f") == alike("\u2764")


def assert_plain(text: str) -> None:
    assert HIDDEN.search(text) is None
    assert "\nFAKE" not in text or text.startswith("<!doctype html>")  # a line break of a page is a space


def table(column: str, label: str, name: str) -> sl.Table:
    rows = {"age": np.arange(400) % 90, column: np.resize([label, "driver"], 400)}
    schema = [sl.Number("age", lower=0, upper=120, granularity=1), sl.Label(column)]
    return sl.Table(rows, schema=schema, name=name)


@pytest.mark.parametrize("where", ["label", "column", "table", "origin"])
def test_what_a_release_shows(where: str) -> None:
    column, label, name, origin = (
        HOSTILE if where == each else each for each in ("column", "label", "table", "origin")
    )
    session = SeededSession(table(column, label, name), budget=sl.ApproxDP(50, "1e-3"), seed=1)
    prediction = sl.Predicted({label: 30, "driver": 40, label + "x": 3}, origin=origin, doubt=0.1)
    asked = [
        sl.Mean("age", by=column, epsilon=5, delta="1e-6", prediction=prediction),
        sl.TopK(column, k=1, epsilon=5, delta="1e-6"),
        sl.Count(by=column, epsilon=5, delta="1e-6"),
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        releases: list[Any] = [session.release(each) for each in asked]
    shown = [str(each.message) for each in caught]
    shown += [repr(prediction), session.statement(), session._repr_html_(), repr(session), repr(session.remaining)]
    for release in releases:
        assert not isinstance(release, Refused)
        shown += [str(release), release._repr_html_(), str(release.error), repr(release.circumstances)]
        drawn = io.StringIO()
        release.plot().figure.savefig(drawn, format="svg")
        xml.dom.minidom.parseString(drawn.getvalue())
        shown += [drawn.getvalue(), picture(release) or ""]
        assert type(release).from_json(release.to_json()) == release
    items = tuple(Item(title=HOSTILE, outcome=each) for each in releases)
    shown.append(render(Report(title=HOSTILE, day="2025-01-01", items=items)))
    for each in shown:
        assert_plain(each)
    if where == "label":
        assert "\\x1b[2J" in str(releases[0])
        assert label in releases[0].value["column"]  # what programs read keeps the text
        assert label in releases[0].to_pandas()["column"].tolist()
        assert label in json.loads(releases[0].to_json())["value"]["groups"]["groups"][0] + ["driver", label]


def test_a_release_from_elsewhere() -> None:
    release = sl.Quantiles([0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100)
    stored = json.loads(release.to_json())
    stored["labels"] = [HOSTILE]
    stored["prediction"] = {"description": HOSTILE, "origin": {"kind": "public", "description": HOSTILE}}
    stored["circumstances"]["dataset"] = HOSTILE
    stored["error"]["unit"] = stored["error"]["likely"]["assumption"] = HOSTILE
    found: Any = outcome_from_json(json.dumps(stored))
    for text in (str(found), repr(found), found._repr_html_()):
        assert_plain(text)
    refused = {**{key: stored[key] for key in ("format", "query", "guarantee", "circumstances")}, "type": "refused"}
    no: Any = outcome_from_json(json.dumps(refused | {"reason": f"<b>{HOSTILE}"}))
    assert_plain(str(no))
    assert_plain(no._repr_html_())
    assert "&lt;b&gt;" in no._repr_html_()
    assert_plain(str(public(HOSTILE)))


def test_what_a_server_says() -> None:
    schema = table("job", "a", "t").schema
    remote = RemoteTable(
        name=HOSTILE, schema=schema, promise=HOSTILE, kinds=(), remaining={}, sharing="", durations={}, limits={}
    )
    assert_plain(remote._repr_html_())
    price = {"guarantee": HOSTILE, "charge": {HOSTILE: "1"}, "remaining": {}, "after": None, "seconds": 1}
    priced = price_from_json(price | {"expected": {"text": HOSTILE}, "notes": [], "request": {}})
    assert_plain(str(priced))
    assert_plain(priced._repr_html_())


def test_errors_and_warnings() -> None:
    for kind in (RangeError, SourceError, SidelightWarning):
        assert HIDDEN.search(str(kind(f"no column {HOSTILE}"))) is None


def test_the_command_line(tmp_path: Path) -> None:
    title = json.dumps(HOSTILE).replace("\x7f", "")
    rows = "\n".join(f'{20 + place % 50},"{(HOSTILE, "ok")[place % 2]}"' for place in range(600))
    (tmp_path / "d.csv").write_text("age,lab\n" + rows + "\n", encoding="utf-8", newline="")
    plan = f"""
title = {title}
[source]
path = "d.csv"
[[column]]
name = "age"
lower = 0
upper = 120
granularity = 1
[[column]]
name = "lab"
kind = "label"
[budget]
epsilon = 9
delta = 1e-5
[[query]]
kind = "count"
by = "lab"
title = {title}
epsilon = 5
delta = 1e-6
"""
    (tmp_path / "plan.toml").write_text(plan, encoding="utf-8")
    run = CliRunner()
    output, stored = tmp_path / "report.html", tmp_path / "releases.json"
    commands = [
        ["plan", str(tmp_path / "plan.toml")],
        ["run", str(tmp_path / "plan.toml"), "-o", str(output), "--json", str(stored)],
        ["table", str(stored), "-o", str(tmp_path / "t.csv")],
    ]
    for command in commands:
        found = run.invoke(app, command)
        assert found.exit_code == 0, found.output
        assert_plain(found.output)
    assert_plain(output.read_text(encoding="utf-8"))


def test_a_table_of_groups_in_html() -> None:
    made = GroupTable(keys=[HOSTILE], groups=[(HOSTILE,)], columns={HOSTILE + "x": [1.5]}, notes={"chosen": HOSTILE})
    assert_plain(repr(made))
    assert_plain(made._repr_html_())
    assert "<td dir='auto'>" in made._repr_html_()


def test_html_is_written_by_one_function() -> None:
    """Pages of the report are escaped by their templates, and as a whole by `filled`."""
    package = Path(sl.__file__).parent
    found = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(
            r"^import html$|^from html import|\bhtml\.escape\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert found == ["readable.py"]

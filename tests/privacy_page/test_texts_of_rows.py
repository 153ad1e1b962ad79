"""A person's texts and dates are read as training read them: aliases, capitals, other labels, missing cells, dates."""

from __future__ import annotations

import datetime
import json
import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from page_browser import *  # noqa: F403 - fixtures

import sidelight as sl
from sidelight.errors import SchemaError
from sidelight.privacy_page import read_report, report_bound
from sidelight.privacy_page.bound import encode_row
from sidelight.privacy_page.published import Feature
from sidelight.privacy_page.stepwise_reports import fine_codes
from sidelight.readable import shown_script, shown_text
from sidelight.regression.additive.fine_codes import prediction_codes

PLAN = sl.Category(
    "plan", ["solo", "team"], aliases={"team": ["T", "große Gruppe"]}, casefold=True, strip=True, missing_texts=["n/a"]
)
KIND = sl.Category("kind", ["a", "b", "true", "7"], other="b", missing=sl.Fill("a"))
STRICT = sl.Category("strict", ["x", "y"], other=None)
VISIT = sl.Date("visit", start="2020-01-01", end="2025-12-31", missing_texts=["2020-02-02"])
HOUR = sl.Date("hour", start="2020-01-01 06:00", end="2020-01-31", unit="hour")
SCHEMA = [PLAN, KIND, STRICT, VISIT, HOUR]
TEXTS = ["solo", "SOLO ", "team", "T", "t", "GROSSE  gruppe", "family", "other", "n/a", "N/A", "Solo", "", "İ", "x y"]
TEXTS += ["solo\x85", "T\x1c", "große\ufeffgruppe", "große\u2003gruppe"]
ROW: dict[str, Any] = {"plan": "solo", "kind": "a", "strict": "x", "visit": "2021-01-01", "hour": "2020-01-02 07:30"}
Y = sl.Number("y", lower=0, upper=10)


def rows(count: int = 400) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [value] * count for name, value in ROW.items()}
    found["plan"] = [TEXTS[at % 8] for at in range(count)]
    found["visit"] = [datetime.date(2020, 1, 1) + datetime.timedelta(days=5 * at) for at in range(count)]
    return found | {"y": [float(at % 10) for at in range(count)]}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sl.AdditiveRegressor(epsilon=1, delta="1e-6", random_state=1)
        model.fit_table(sl.Table(rows(), schema=[*SCHEMA, Y]), target="y")
        found: dict[str, Any] = model.privacy_report()
    found.pop("entropy")  # its page says NOT PRIVATE, and these tests are not about that
    return found


def codes_of(report: dict[str, Any], changed: dict[str, Any]) -> list[int]:
    known = read_report(report)
    return list(fine_codes(known, encode_row(known.encoding, ROW | changed))[0])  # type: ignore[arg-type]


def trained(changed: dict[str, Any]) -> list[int]:
    table = sl.Table({name: [value] for name, value in (ROW | changed).items()}, schema=SCHEMA)
    return list(prediction_codes(SCHEMA, table)[0])


CHANGES = [
    *({"plan": text} for text in TEXTS),
    *({"kind": cell} for cell in ("a", "b", "B", "other", None, "True", "7.0")),
    *({"kind": cell} for cell in (True, np.False_, 7.0, np.int64(7), np.float32("nan"), Decimal("NaN"))),
    *(
        {"visit": day}
        for day in ("2020-01-01", "2019-05-05", "2030-01-01", datetime.date(2024, 2, 29), "2021-03-04 23:59")
    ),
    *({"visit": day} for day in ("2021-01-01 00:30+01:00", "2021-01-01T23:30:00.5 -0230", "2021-03-04 10:00Z")),
    *({"hour": text} for text in ("2020-01-01 06:59", "2020-01-03T04:00", datetime.datetime(2020, 1, 4, 5, 6))),
]


@pytest.mark.parametrize("changed", CHANGES, ids=str)
def test_a_row_is_read_as_in_training(report: dict[str, Any], changed: dict[str, Any]) -> None:
    assert codes_of(report, changed) == trained(changed)
    assert report_bound(report, ROW | changed, 5.0) > 0


def test_a_linear_model_reads_them_in_the_same_way() -> None:
    table = sl.Table(rows(), schema=[*SCHEMA, Y])
    model = sl.LinearRegression(epsilon=1, delta="1e-6", random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = read_report(model.fit_table(table, target="y").privacy_report())
    for place in (0, 1, 5, 6):
        row = {name: rows()[name][place] for name in ROW}
        np.testing.assert_allclose(encode_row(known.encoding, row)[0], model.encoding_.matrix(table)[place], atol=1e-6)


def test_what_the_schema_says_is_in_the_report_and_comes_back(report: dict[str, Any]) -> None:
    plan, kind, strict, visit, hour = report["encoding"]["features"]
    assert (plan["unknown"], plan["missing"], plan["spellings"]) == ("other", "other", {"team": ["T", "große Gruppe"]})
    assert (plan["casefold"], plan["strip"], plan["missing_texts"]) == (True, True, ["n/a"])
    assert (kind["unknown"], kind["missing"], "spellings" in kind) == ("b", "a", False)
    assert (strict["outside"], "unknown" in strict) == ("reject", False)
    assert (visit["start"], visit["unit"], hour["unit"]) == ("2020-01-01", "day", "hour")
    assert read_report(json.dumps(report)).to_dict() == report


def test_a_value_that_training_left_out_is_said_to_be_left_out(report: dict[str, Any]) -> None:
    for value in ("z", None):
        with pytest.raises(SchemaError, match=r"strict: .* could not have been used"):
            report_bound(report, ROW | {"strict": value}, 5.0)
    for value in (366, 20210101.5, "1.1.2021", "0000-01-01", "\t2021-01-01", "2021-01-01 10:00:00.1234567890", None):
        with pytest.raises(SchemaError, match="visit: a date belongs here, such as '2020-01-01'"):
            report_bound(report, ROW | {"visit": value}, 5.0)


def test_a_number_or_date_that_means_missing_has_no_bound() -> None:
    day = sl.Date("day", start="1900-01-01", end="2025-12-31", missing_texts=["1900-01-01", "k.A."])
    age = sl.Number("age", lower=0, upper=120, missing=sl.Fill(40), missing_texts=["999", "-1", "inf", "?"])
    table = sl.Table(rows() | {"day": rows()["visit"], "age": rows()["y"]}, schema=[day, age, Y])
    found = read_report(
        sl.LinearRegression(epsilon=1, delta="1e-6", random_state=1).fit_table(table, target="y").privacy_report()
    )
    assert [feature.missing_values for feature in found.encoding.features] == [[0.0], [999.0, -1.0]]
    row = {"day": "2021-01-01", "age": 5}
    assert report_bound(found, row, 5.0) > 0
    for changed in ({"day": "1900-01-01"}, {"age": 999}, {"age": -1.0}):
        with pytest.raises(SchemaError, match=f"{next(iter(changed))}: training took .* as missing"):
            report_bound(found, row | changed, 5.0)


def older(report: dict[str, Any]) -> dict[str, Any]:
    """The report as an earlier version wrote it."""
    found: dict[str, Any] = json.loads(json.dumps(report))
    for feature in found["encoding"]["features"]:
        for name in (
            "unknown",
            "missing",
            "spellings",
            "missing_texts",
            "missing_values",
            "casefold",
            "strip",
            "start",
            "unit",
            "outside",
        ):
            feature.pop(name, None)
    if found["lines"]:
        found["lines"]["encoding"] = found["encoding"]
    return found


def test_a_report_of_an_earlier_version_is_read_and_claims_nothing_about_unknown_values(report: dict[str, Any]) -> None:
    old = older(report)
    row = ROW | {"visit": 366, "hour": 25}
    assert report_bound(old, row, 5.0) == report_bound(report, ROW, 5.0)
    with pytest.raises(SchemaError, match=r"plan: 'family' is no level.*the report holds no bound for it"):
        report_bound(old, row | {"plan": "family"}, 5.0)


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        ({"levels": ["a"], "unknown": "b"}, "unknown: must be one of the levels"),
        ({"levels": ["a"], "missing": "b"}, "missing: must be one of the levels"),
        ({"levels": ["a"], "spellings": {"b": ["c"]}}, "spellings: must be of the levels"),
        ({"levels": ["a", "b"], "spellings": {"a": ["b"]}}, "reads 'b' as 'a' and as 'b'"),
        ({"levels": ["a"], "missing_values": [1]}, "missing_values: belongs to a number or date"),
        ({"lo": -1.7e308, "hi": 1.7e308}, "hi: must be nearer to lo"),
        ({"lo": 0, "hi": 1, "to": [-1e308, 1e308]}, "hi: must be nearer to lo"),
        ({"lo": 0, "hi": 1, "strip": True}, "strip: belongs to a feature with levels"),
        ({"lo": 0, "hi": 1, "start": "2020-01-01"}, "start: a date has start, unit, lo and hi"),
        ({"lo": 0, "hi": 1, "start": "soon", "unit": "day"}, "'soon' is not a date"),
        # the page stopped where JavaScript has no such date
        (
            {"lo": 0, "hi": 1e8, "start": "2020-01-01", "unit": "day"},
            "lo and hi must be dates of the years 0001 to 9999",
        ),
        (
            {"lo": -1e8, "hi": 0, "start": "2020-01-01", "unit": "hour"},
            "lo and hi must be dates of the years 0001 to 9999",
        ),
        (
            {"lo": 0, "hi": 2914635, "start": "2020-01-01", "unit": "day"},
            "lo and hi must be dates of the years 0001 to 9999",
        ),
    ],
)
def test_declarations_that_contradict_themselves(report: dict[str, Any], feature: dict[str, Any], words: str) -> None:
    wrong = json.loads(json.dumps(report))
    wrong["encoding"]["features"][1] = {"name": "kind", **feature}
    with pytest.raises(SchemaError, match=words):
        read_report(wrong)


def test_a_declared_feature_may_name_them() -> None:
    assert Feature(name="sex", levels=["F", "M"], spellings={"F": ["w"]}).level_of("w") == "F"


@pytest.mark.browser
def test_the_page_reads_them_as_well(opened: Any, report: dict[str, Any]) -> None:
    seen = opened(report)
    page = seen.page
    assert page.get_by_label("plan").locator("option").all_inner_texts()[1:] == [
        "solo",
        "team",
        "other (or anything else)",
    ]
    assert "from 2020-01-01 to 2025-12-31" in seen.text("#f3-hint")
    page.get_by_text("Paste a whole row").click()
    changes = [each for each in CHANGES if isinstance(next(iter(each.values())), str | None)]
    for changed in changes:
        row = ROW | changed
        cells = ["" if row[name] is None else str(row[name]) for name in ROW]
        page.locator("#paste").fill(",".join([*ROW, "y"]) + "\n" + ",".join([*cells, "5"]))
        found = float(page.locator("#exact-bound").text_content())
        assert found == pytest.approx(report_bound(report, row, 5.0), rel=1e-9), changed
    for text in ("2021-02-30", "0000-01-01", "2021-01-01 10:00:00.1234567890"):
        page.get_by_label("visit").fill(text)
        assert "is not a date. Write it like 2020-01-01." in seen.text("#f3-trouble")
    page.get_by_label("visit").fill("2031-01-01")
    assert "Training used 2025-12-31 instead" in seen.text("#f3-heed")
    page.get_by_label("visit").fill("2020-02-02")
    assert seen.text("#f3-heed") == "Training took this value as missing, and this report has no bound for it."
    assert "no bound for a row like this, because of “visit”" in seen.text("#refusal")
    page.locator("#paste").fill(",".join([*ROW, "y"]) + "\nsolo, a,x,2021-01-01,2020-01-02,5")
    assert seen.text("#f1-trouble") == "Please choose one."  # in a file " a" is another text than "a"
    page.get_by_label("kind").select_option(label="a")
    page.get_by_label("strict").select_option(label="something else")
    assert "could not have been used, because of “strict”" in seen.text("#refusal")
    assert seen.messages == []


@pytest.mark.browser
def test_the_page_shows_what_is_hidden_in_names_and_levels(opened: Any, small_report: dict[str, Any]) -> None:
    hostile = "M\u202e\u200b\x85\t\U000e0041\ufe0f"
    small_report["encoding"]["features"][2] = {"name": f"sex{hostile}", "levels": ["M", hostile]}
    page = opened(small_report).page
    shown = page.locator("#f2 option").all_inner_texts()
    assert shown[1:3] == ["M", shown_text(hostile)] == ["M", r"M\u202e\u200b\x85\t\U000e0041\ufe0f"]
    assert page.locator("label[for=f2]").inner_text() == "sex" + shown_text(hostile)
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)])) + "\u2764\ufe0f\ufe0f"
    assert page.evaluate(f"(text) => {{ {shown_script()} return shownText(text); }}", every) == shown_text(every)

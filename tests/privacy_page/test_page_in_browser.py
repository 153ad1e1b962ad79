"""The page in a browser: typing, pasting, files, mistakes, keyboard, phone, no network traffic."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.privacy_page import report_bound

pytestmark = pytest.mark.browser

Open = Callable[..., Any]
ROW = {"age": 39.0, "dose": 2.5, "sex": "F"}


def type_row(page: Any, *, age: str = "39", dose: str = "2.5", sex: str = "F", outcome: str = "<=50K") -> None:
    page.get_by_label("age").fill(age)
    page.get_by_label("dose").fill(dose)
    page.get_by_label("sex").select_option(label=sex)
    page.get_by_label("The outcome").select_option(label=outcome)


def exact(seen: Any) -> float:
    return float(seen.page.locator("#exact-bound").text_content())


def beside(page: Any, label: str) -> str:
    """Return the message of a field, found through aria-describedby as a screen reader does."""
    places = page.get_by_label(label).get_attribute("aria-describedby").split()[1:]
    return " ".join(filter(None, (page.locator(f"#{place}").inner_text() for place in places)))


def test_typing_shows_the_bound_the_worst_case_and_the_guarantee(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    assert "as soon as all fields are filled in" in seen.text("#waiting")
    assert "1.656" in seen.text("#maximum")
    assert "ε = 1" in seen.text("#guarantee")
    assert "10⁻⁵" in seen.text("#guarantee")
    assert "Idealized: it is proved for real-number arithmetic" in seen.text("#guarantee-means")
    type_row(seen.page)
    bound = report_bound(small_report, ROW, "<=50K")
    assert exact(seen) == pytest.approx(bound, rel=1e-12)
    factor = math.ceil(math.exp(bound) * 100) / 100
    assert seen.text("#sentence") == (
        "Except with probability one in a million, seeing this model changes nobody’s odds about whether you were in "
        f"the data by more than a factor {factor:.2f}."
    )
    assert seen.text("#odds") == f"×\u2009{factor:.2f}"
    assert seen.text("#bound") == f"{math.ceil(bound * 1000) / 1000:.3f}"
    high = math.exp(bound) / (1 + math.exp(bound))
    assert f"{math.ceil(high * 1000) / 10:.1f} % after" in seen.text("#beliefs")
    drawn = seen.page.evaluate(
        "(() => { const mark = document.querySelector('#scale .mark'), rail = document.querySelector('#scale .rail');"
        " return (mark.cx.baseVal.value - rail.x.baseVal.value) / rail.width.baseVal.value })()"
    )
    assert drawn == pytest.approx(bound / small_report["maximum"], abs=2e-3)
    assert "Your bound is" in seen.page.locator("#scale svg").get_attribute("aria-label")
    # another answer at once, without a button
    seen.page.get_by_label("The outcome").select_option(label=">50K")
    assert exact(seen) == pytest.approx(report_bound(small_report, ROW, ">50K"), rel=1e-12)
    assert seen.messages == []


def test_mistakes_are_told_beside_their_fields(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    page = seen.page
    type_row(page, age="abc")
    assert beside(page, "age") == "“abc” is not a number."
    assert page.get_by_label("age").get_attribute("aria-invalid") == "true"
    assert page.locator("#answer").is_hidden()
    assert "“age”" in seen.text("#waiting")
    page.get_by_label("age").fill("1,5")
    assert "Write it with a point" in beside(page, "age")
    page.get_by_label("age").fill("")
    page.get_by_role("button", name="Show what it revealed").click()
    assert beside(page, "age") == "Please fill this in."
    assert page.evaluate("document.activeElement.id") == page.get_by_label("age").get_attribute("id")
    assert seen.text("#form-said") == "One field needs your attention."
    page.get_by_label("age").fill("140")
    assert beside(page, "age") == "This is outside the range. Training used 100 instead, and so does this page."
    assert page.get_by_label("age").get_attribute("aria-invalid") is None
    assert exact(seen) == pytest.approx(report_bound(small_report, {**ROW, "age": 100.0}, "<=50K"), rel=1e-12)
    assert "longer than the limit of 1.2" in seen.text("#row-heed")
    page.get_by_label("age").fill("10")
    assert beside(page, "age") == ""
    assert seen.text("#row-heed") == ""
    assert seen.text("#form-said") == ""


def test_no_row_leaves_the_answer_of_another(opened: Open, small_report: dict[str, Any]) -> None:
    small_report["encoding"]["features"][1] = {"name": "dose"}
    seen = opened(small_report)
    type_row(seen.page)
    type_row(seen.page, dose="1.7976931348623157e308")
    bound = report_bound(small_report, {**ROW, "dose": 1.7976931348623157e308}, "<=50K")
    assert exact(seen) == pytest.approx(bound, rel=1e-12)
    assert "its length is more than 10³⁰⁸" in seen.text("#row-heed")
    assert seen.messages == []
    seen.page.evaluate("() => { Math.log1p = () => { throw new Error('as no row should') } }")
    type_row(seen.page, dose="1")
    assert "cannot work out a bound" in seen.text("#refusal")
    assert seen.page.locator("#answer").is_hidden()
    assert seen.text("#bound") == "–"
    assert "as no row should" in seen.messages[0]


def test_a_row_that_could_not_have_been_used(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    type_row(seen.page, dose="10.5")
    assert beside(seen.page, "dose") == "Rows with a value outside 0 to 10 were not used."
    assert seen.text("#refusal").startswith("A row like this could not have been used, because of “dose”.")
    assert seen.page.locator("#answer").is_hidden()
    type_row(seen.page, sex="something else")
    assert "not in the list" in beside(seen.page, "sex")
    assert seen.text("#refusal").startswith("This report has no bound for a row like this, because of “sex”.")
    assert "not in the data" not in seen.text("#refusal")  # training may have counted it as another level
    type_row(seen.page)
    assert seen.page.locator("#answer").is_visible()


def test_pasting_a_row(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    seen.page.get_by_text("Paste a whole row").click()
    for text in (
        "39,2.5,F,<=50K",
        "39\t2.5\tF\t<=50K\n",
        "sex;label;age;dose\r\nF;<=50K;39;2.5\r\n",
        '"dose","income","age","sex"\n"2.5","<=50K","39","F"',
        "\ufeffAGE, Dose, Sex, y\n39, 2.5, F, <=50K",
    ):
        seen.page.get_by_role("button", name="Empty all fields").click()
        seen.page.locator("#waiting").wait_for()
        seen.page.locator("#paste").fill(text)
        assert exact(seen) == pytest.approx(report_bound(small_report, ROW, "<=50K"), rel=1e-12)
        assert seen.text("#paste-said") == "The fields are filled in. Please check them below."


def test_what_cannot_be_pasted_is_told(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    seen.page.get_by_text("Paste a whole row").click()
    for text, words in {
        "39,2.5": "This line has 2 values. It needs 3, in the order of the fields, or 4 with the outcome last.",
        "age,sex\n39,F": "No column is called “dose”.",
        "age,dose,sex": "These are the names only. The values are missing: put them in a second line.",
        "39,2.5,F,<=50K\n40,2.5,F,<=50K": "These are several rows. Paste one only, yours.",
        "39,2.5,F": "The outcome was not in the line: please add it below.",
    }.items():
        seen.page.locator("#paste").fill(text)
        assert words in seen.text("#paste-said")
        assert seen.page.locator("#answer").is_hidden()
    seen.page.locator("#paste").fill("old,2.5,X,<=50K")
    assert beside(seen.page, "age") == "“old” is not a number."
    assert seen.page.get_by_label("sex").input_value() == "other"


def test_picking_a_file_and_a_row(opened: Open, small_report: dict[str, Any], tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("id,age,dose,sex,label\n1,20,1,M,>50K\n2,39,2.5,F,<=50K\n\n3,70,9,M,>50K\n", encoding="utf-8")
    seen = opened(small_report)
    seen.page.get_by_text("Pick a CSV file").click()
    seen.page.locator("#file").set_input_files(people)
    seen.page.get_by_text("Row 1 of 3 is in the fields now").wait_for()
    assert exact(seen) == pytest.approx(
        report_bound(small_report, {"age": 20, "dose": 1, "sex": "M"}, ">50K"), rel=1e-12
    )
    seen.page.get_by_label("Which row is yours?").fill("2")
    assert exact(seen) == pytest.approx(report_bound(small_report, ROW, "<=50K"), rel=1e-12)
    seen.page.get_by_label("Which row is yours?").fill("4")
    assert seen.text("#file-said") == "Choose a row from 1 to 3."
    picture = tmp_path / "picture.csv"
    picture.write_bytes(b"PK\x03\x04\x00\x00\x00")
    seen.page.locator("#file").set_input_files(picture)
    seen.page.get_by_text("This is not a text file").wait_for()
    assert seen.page.locator("#picker").is_hidden()
    seen.page.get_by_role("button", name="Empty all fields").click()
    seen.page.locator("#waiting").wait_for()
    assert seen.page.get_by_label("age").input_value() == ""
    assert seen.text("#file-said") == ""
    assert {url.partition(":")[0] for url in seen.requests} == {"file"}


def test_the_keyboard_is_enough(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    keys = seen.page.keyboard
    for _ in range(2):
        keys.press("Tab")
    assert seen.page.evaluate("document.activeElement.textContent") == "Pick a CSV file"
    outline = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"  # one sees where one is
    keys.press("Tab")
    keys.type("39")
    keys.press("Tab")
    keys.type("2.5")
    keys.press("Tab")
    keys.type("F")
    keys.press("Tab")
    keys.type("<")
    keys.press("Tab")
    keys.press("Enter")
    assert exact(seen) == pytest.approx(report_bound(small_report, ROW, "<=50K"), rel=1e-12)
    assert seen.page.evaluate("document.activeElement.id") == "result"
    keys.press("Tab")
    keys.press("Enter")
    assert seen.page.locator("#parts").is_visible()


CONTRAST = Path(__file__).with_name("page_contrast.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (900, "light")])
def test_it_can_be_read_and_fits(opened: Open, small_report: dict[str, Any], width: int, scheme: str) -> None:
    """4.5 to 1 for all text (WCAG AA), nothing to scroll sideways; empty, answered, with mistakes, and all opened."""
    small_report["encoding"]["features"][0]["name"] = "years_since_the_first_employment_contract" * 2
    seen = opened(small_report, width=width, scheme=scheme)
    background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(17, 20, 27)" if scheme == "dark" else "rgb(247, 245, 240)")
    for state in ("empty", "mistakes", "answer", "opened"):
        if state == "mistakes":
            seen.page.locator("#f0").fill("abc")
            seen.page.locator("#f1").fill("11")
            seen.page.get_by_role("button", name="Show what it revealed").click()
        elif state == "answer":
            for place, value in (("#f0", "139"), ("#f1", "2.5")):
                seen.page.locator(place).fill(value)
            seen.page.locator("#f2").select_option(index=1)
            seen.page.locator("#outcome-field").select_option(index=1)
            assert seen.page.locator("#answer").is_visible()
        elif state == "opened":
            for summary in seen.page.locator("summary").all():
                summary.click()
        wide, there = seen.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= there, state
        seen.page.evaluate("document.activeElement.blur()")
        ratios = seen.page.evaluate(CONTRAST)
        assert len(ratios) > 30
        assert min(ratios)[0] >= 4.5, (state, min(ratios))
    seen.page.set_viewport_size({"width": 480, "height": 800})
    seen.page.wait_for_function("document.querySelector('#scale svg').viewBox.baseVal.width <= 480")  # drawn anew
    assert seen.messages == []


def test_a_report_that_contradicts_itself_is_told(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report | {"maximum": 0.1})
    type_row(seen.page)
    assert seen.text("#scale-words").startswith("This report contradicts itself")
    seen.page.get_by_label("age").fill("")
    assert seen.text("#scale-words").startswith("Equal steps")
    seen = opened(small_report)
    type_row(seen.page)
    assert seen.text("#scale-words").startswith("Equal steps")


def test_from_a_fitted_model_to_its_page(opened: Open) -> None:
    """What a model publishes by itself is what the page reads: a row that is too long, and both labels."""
    rows = np.array([[0.9, 0.8], [-0.6, 0.2], [0.1, -0.4]] * 500)
    labels = np.array(["yes", "no", "no"] * 500)
    model = sl.LogisticRegression(epsilon=1, delta="1e-6", data_norm=1, classes=["no", "yes"], solver="objective").fit(
        rows, labels
    )
    report = model.privacy_report(features=[{"name": "income", "lo": 0, "hi": 10, "to": [-1, 1]}, {"name": "score"}])
    seen = opened(report)
    shown = {}
    for label in ("yes", "no"):
        seen.page.get_by_label("income").fill("9.5")
        seen.page.get_by_label("score").fill("0.8")
        seen.page.get_by_label("The outcome").select_option(label=label)
        shown[label] = exact(seen)
        assert shown[label] == pytest.approx(report_bound(report, [9.5, 0.8], label), rel=1e-12)
    assert shown["yes"] < shown["no"]  # the model finds "yes" likelier here, so that "no" would pull harder
    assert "longer than the limit of 1" in seen.text("#row-heed")


@pytest.mark.parametrize(
    ("loss", "label", "theta"),
    [
        ({"name": "log-cosh", "kappa": 0.25}, {"lo": 0, "hi": 10}, None),
        ({"name": "softmax"}, {"classes": ["low", "middle", "high"]}, 3),
    ],
)
def test_other_outcomes_have_their_own_field(
    opened: Open, small_report: dict[str, Any], loss: dict[str, Any], label: dict[str, Any], theta: int | None
) -> None:
    small_report["loss"] = loss
    small_report["encoding"]["label"] = label
    if theta:
        small_report["theta"] = [[0.1 * k + 0.01 * i for i in range(5)] for k in range(theta)]
        small_report["q_out"] = small_report["q"]
    seen = opened(small_report)
    outcome: Any = "middle" if theta else 12.5
    for place, value in (("#f0", "39"), ("#f1", "2.5")):
        seen.page.locator(place).fill(value)
    seen.page.locator("#f2").select_option(label="F")
    field = seen.page.get_by_label("The outcome")
    field.select_option(label="middle") if theta else field.fill("12.5")
    assert exact(seen) == pytest.approx(report_bound(small_report, ROW, outcome), rel=1e-12)
    if not theta:
        assert beside(seen.page, "The outcome").startswith("This is outside the range. Training used 10 instead")


def test_only_a_paid_report_asks_whether_you_were_in_the_data(opened: Open, small_report: dict[str, Any]) -> None:
    seen = opened(small_report)
    assert seen.page.get_by_text("Were you in the data?", exact=True).count() == 0
    small_report["data_dependent"] = {
        "gradient": [1.0, -2.0, 0.5, 3.0, -4.0],
        "sigma2": 8.0,
        "hessian": None,
        "sigma3": None,
        "kappa": None,
        "zeta": None,
        "q": 5.2293,
    }
    seen = opened(small_report)
    type_row(seen.page)
    shown = {}
    for member, words in (("unknown", "I do not know"), ("yes", "yes"), ("no", "no")):
        seen.page.get_by_role("radio", name=words, exact=True).check()
        shown[member] = exact(seen)
        wanted = report_bound(small_report, ROW, "<=50K", member=member)  # type: ignore[arg-type]
        assert shown[member] == pytest.approx(wanted, rel=1e-12)
    assert shown["unknown"] == max(shown.values())
    assert len(set(shown.values())) == 2
    assert "the extra published numbers" in seen.page.locator("#parts").text_content()


def test_scopes_are_put_in_words(opened: Open, small_report: dict[str, Any]) -> None:
    assert "each person by themselves" in opened(small_report).text("#is")
    everyone = {**small_report, "scope": "everyone", "q_axis": 5.5, "q_out": 7.0, "q": 6.5, "rho": 0.0003}
    seen = opened(everyone)
    assert "every possible row at once" in seen.text("#is")
    assert "made up after looking" not in seen.text("#is-not")
    assert "one in 3,333" in seen.text("#is")
    many = {**small_report, "scope": "all-n", "n_public": 45222, "rho": 1e-3}
    seen = opened(many)
    assert "45,222 people at once" in seen.text("#is")
    assert "one in a thousand" in seen.text("#is")
    words = re.sub(r"\s+", " ", seen.text("#about-title ~ .twins"))
    assert "certainty, given" not in words
    for truth in ("was this row in the data", "a little more than was published", "not the guarantee", "several rows"):
        assert truth in words.lower()

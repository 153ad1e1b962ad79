"""The small functions of the page, run in Chromium: what is shown is never smaller than what is true; CSV is read."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest

from sidelight.readable import shown_script

pytestmark = pytest.mark.browser

Call = Callable[[str, Any], Any]
POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


@pytest.fixture(scope="module")
def call(the_browser: Any) -> Iterator[Call]:
    """Run a piece of JavaScript that knows the page's functions, with one argument `given`."""
    page = the_browser.new_page()
    folder = files("sidelight.privacy_page").joinpath("template")
    known = shown_script() + "\n".join(folder.joinpath(name).read_text("utf-8") for name in ("words.js", "form.js"))

    def run(code: str, given: Any) -> Any:
        return page.evaluate(f"(given) => {{ {known}\nreturn {code}; }}", given)

    yield run
    page.close()


def number_in(text: str) -> float:
    """Read "1.38", "1,235", "4.9 × 10⁸", "10⁻⁵"."""
    text = text.replace(",", "")
    head, _, power = text.rpartition("10") if text != text.translate(POWERS) else (text, "", "")
    return float(head.strip(" ×") or 1) * 10.0 ** int(power.translate(POWERS) or 0)


def test_bounds_and_factors_are_rounded_up(call: Call) -> None:
    generator = np.random.default_rng(4)
    bounds = [0.0, 1e-9, 0.693, math.log(1.38), *(10 ** generator.uniform(-6, 2.3, size=400)).tolist()]
    factors, shown = call("[given.map(factorText), given.map(boundText)]", bounds)
    for bound, factor, text in zip(bounds, factors, shown, strict=True):
        assert number_in(factor) >= math.exp(bound) * (1 - 1e-11)
        assert number_in(factor) <= math.exp(bound) * 1.012
        assert number_in(text) >= bound * (1 - 1e-11)
        assert number_in(text) <= bound + max(1e-3, 0.02 * bound)
    assert call("factorText(given)", math.log(1.38)) == "1.38"
    assert call("factorText(given)", 2000.0) == "more than 10²⁹⁹"


def test_beliefs_enclose_what_bayes_allows(call: Call) -> None:
    for before in (0.1, 0.5, 0.9):
        for bound in (0.0, 0.01, 0.322, 1.66, 8.0, 900.0):
            low, high = call(
                "(({low, high}) => [percentDown(low), percentUp(high)])(beliefs(...given))", [before, bound]
            )
            odds = before / (1 - before)
            up = 1 / (1 + math.exp(-bound) / odds)
            down = 1 - 1 / (1 + math.exp(-bound) * odds)
            assert float(high.removesuffix(" %")) >= 100 * up - 1e-9
            assert float(high.removesuffix(" %")) <= 100 * up + 0.1 + 1e-9
            assert float(low.removesuffix(" %")) <= 100 * down + 1e-9
            assert float(low.removesuffix(" %")) >= 100 * down - 0.1 - 1e-9


@pytest.mark.parametrize(
    ("chance", "words"),
    [
        (1e-6, "one in a million"),
        (1e-3, "one in a thousand"),
        (0.1, "one in ten"),
        (0.05, "one in 20"),
        (3e-6, "one in 333,333"),
        (0.7, "70 %"),
        (0.5, "one in 2"),
        (0.501, "51 %"),
        (1e-10, "one in ten billion"),
        (1e-11, "one in a hundred billion"),
        (1.0000001e-9, "one in 999,999,900"),
        (3e-13, "one in 3,333,333,333,333"),
        (1e-15, "one in 10¹⁵"),
        (3e-17, "one in 10¹⁶"),
        (1e-300, "one in 10³⁰⁰"),
        (5e-324, "one in 10³²³"),
    ],
)
def test_small_chances_are_said_and_never_made_smaller(call: Call, chance: float, words: str) -> None:
    assert call("chanceText(given)", chance) == words


def test_no_chance_is_said_to_be_smaller_than_it_is(call: Call) -> None:
    """From one in 1,000,000,000 on the number of cases was too large, and one in infinity below 5.6e-309."""
    chances = (10 ** np.random.default_rng(5).uniform(-14.9, -0.4, size=600)).tolist()
    for chance, words in zip(chances, call("given.map(chanceText)", chances), strict=True):
        text = words.removeprefix("one in ").replace("ten", "10").replace("a hundred", "100")
        found = number_in(text) if "%" not in words else 100 / number_in(text[:-2])
        assert 1 / found >= chance * (1 - 1e-11)
        assert 1 / found <= chance * 1.5


def test_what_was_promised_is_rounded_up(call: Call) -> None:
    """δ = 3.31543e-5 was shown as 3.315 × 10⁻⁵, and ε = 1/3 as 0.3333333333."""
    sizes = [*(10 ** np.random.default_rng(6).uniform(-14, 18, size=600)).tolist(), 1 / 3, 9.99961e-5, 1e-300, 1.7e308]
    for size, text in zip(sizes, call("given.map(promisedNumber)", sizes), strict=True):
        assert size * (1 - 2e-12) <= number_in(text)
        assert number_in(text) <= size * 1.0011
    shown = call("given.map(promisedNumber)", [3.31543e-5, 1 / 3, 1.0, 1e-5, 0.0, 2 + 1e-13, -1 / 3])
    assert shown == ["3.316 × 10⁻⁵", "0.3333333334", "1", "10⁻⁵", "0", "2", "-0.3333333333"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("39", 39),
        (" -2.5 ", -2.5),
        ("−3", -3),
        ("1e3", 1000),
        (".5", 0.5),
        ("5.", 5),
        ("+7", 7),
        ("", None),
        ("1,5", None),
        ("1 000", None),
        ("0x10", None),
        ("Infinity", None),
        ("NaN", None),
        ("1e999", None),
        ("--1", None),
        ("1.2.3", None),
    ],
)
def test_numbers_as_people_write_them(call: Call, text: str, value: float | None) -> None:
    assert call("numberOf(given)", text) == value


def test_csv_is_read_as_python_writes_it(call: Call) -> None:
    """Cells with separators, quotes and line ends inside; plain first lines decide which separator it is."""
    generator = np.random.default_rng(9)
    alphabet = np.array(list('ab1.,;\t"\n é'))
    tables, texts = [], []
    for turn in range(150):
        width, height = int(generator.integers(2, 6)), int(generator.integers(1, 5))
        names = [[f"name {place}" for place in range(width)]]
        table = names + [
            ["x" + "".join(generator.choice(alphabet, size=generator.integers(0, 6))) + "y" for _ in range(width)]
            for _ in range(height)
        ]
        out = io.StringIO()
        csv.writer(
            out,
            delimiter=",;\t"[turn % 3],
            quoting=csv.QUOTE_ALL if turn % 2 else csv.QUOTE_MINIMAL,
            lineterminator="\n" if turn % 4 else "\r\n",
        ).writerows(table)
        tables.append(table)
        texts.append(out.getvalue())
    assert call("given.map(rowsOf)", texts) == tables


def test_columns_are_found_by_name_where_there_is_no_doubt(call: Call) -> None:
    """ "Age" and "age" are two features; another spelling of both is none of them."""
    features = [{"name": "Age"}, {"name": "age"}]
    code = "layoutOf(rowsOf(given.text), given.features)"
    found = call(code, {"features": features, "text": "age,Age,y\n1,2,no"})
    assert (found["places"], found["outcome"], found["start"]) == ([1, 0], 2, 1)
    assert "No column is called" in call(code, {"features": features, "text": "Age,AGE\n1,2"})["problem"]
    found = call(code, {"features": [{"name": "Age"}], "text": "id, AGE ,other\n1,2,3"})
    assert (found["places"], found["outcome"]) == ([1], -1)

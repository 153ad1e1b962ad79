"""The page says what it must, loads nothing, and quotes nothing unescaped."""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_fixtures import *  # noqa: F403 - fixtures

from sidelight.errors import SourceError
from sidelight.group_table import GroupTable
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claim, Claims, Neighbours, Person, PureDP
from sidelight.readable import as_read
from sidelight.release import Release
from sidelight.report import Account, Item, Report, check_writable, render, write_report, write_text
from sidelight.report.charts import matrix_chart
from sidelight.report.words import reading, short, ticks

VOID = {"meta", "br", "wbr", "line", "circle", "rect", "polygon", "polyline", "path"}


class Balance(HTMLParser):
    """Checks that every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def page_of(*releases: Release) -> str:
    items = tuple(Item(title=f"question {i}", outcome=each) for i, each in enumerate(releases))
    return render(Report(title="A title", day="2026-11-15", items=items))


def test_page_is_well_formed_and_has_every_part(full_report: Report) -> None:
    page = render(full_report)
    checker = Balance()
    checker.feed(page)
    assert checker.open == []
    for text in [
        "Ages and incomes",
        "2026-11-15",
        "PureDP(ε = 0.5)",
        "Everything released is (3, 1e-6)-DP.",
        "bookkeeping",
        "One pure query up to ε 1.8.",
        "6c29441ef59130134cff38a3c0490c82878cea894ca8c8135ac0a542de9bfee0",
        "Cauchy(location=35000, scale=20000), a guess",
        "a person&#39;s guess, made without looking at the records",
        "Too few stable records.",
        "±\u00a013 ranks",  # 7 + 2 log 20
        "if no ties",
        "6.0× smaller",
        "10.0 ranks on average in the draws above",
        "The people are generated.",
    ]:
        assert text in page, text


def test_one_release_is_one(make_release: Callable[..., Release]) -> None:
    assert ">1 private release, with its guarantee, its expected error" in page_of(make_release())
    assert ">2 private releases, each with its guarantee, its expected error" in page_of(make_release(), make_release())


def test_page_loads_nothing(full_report: Report) -> None:
    page = render(full_report)
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert not re.search(r"<script|<link|<img|<iframe|@import|url\(|\ssrc=|\shref=|https?://", page)


def test_svgs_are_xml_with_finite_coordinates(full_report: Report) -> None:
    drawings = re.findall(r"<svg.*?</svg>", render(full_report), flags=re.DOTALL)
    assert len(drawings) == 1 + 2 * 4  # the mark; strips and three quantile charts, wide and narrow
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        width, height = (float(size) for size in root.attrib["viewBox"].split()[2:])
        for element in root.iter():
            for name, limit in (
                ("x", width),
                ("cx", width),
                ("x1", width),
                ("x2", width),
                ("y", height),
                ("cy", height),
            ):
                if name in element.attrib:
                    assert 0 <= float(element.attrib[name]) <= limit


def test_seeded_releases_are_branded(make_release: Callable[..., Release]) -> None:
    real = make_release()
    seeded = make_release(circumstances=replace(real.circumstances, entropy="seeded(7)"))
    assert "NOT PRIVATE" not in page_of(real)
    page = page_of(real, seeded)
    assert page.count("NOT PRIVATE") == 2  # the banner and the card itself
    assert 'role="alert"' in page


def test_text_is_escaped_everywhere(make_release: Callable[..., Release]) -> None:
    evil = "<script>alert(1)</script>"
    release = make_release(
        3,
        query={"kind": evil, "column": evil},
        labels=(evil, "b", "c"),
        prediction={"description": evil, "origin": {"kind": evil, "description": evil}},
        circumstances=replace(make_release().circumstances, dataset=evil, engine=evil, entry_id=evil, ledger_head=evil),
    )
    report = Report(title=evil, day=evil, introduction=evil, items=(Item(title=evil, outcome=release),))
    assert "<script" not in render(report)


def test_other_kinds_get_a_table_and_no_chart(make_release: Callable[..., Release]) -> None:
    scalar = make_release(1, query={"kind": "count"}, value=1234.5, labels=(), error=None)
    page = page_of(scalar)
    assert "1,234.5" in page
    assert 'class="wide"' not in page


def test_infinite_and_equal_values_do_not_break_the_chart(make_release: Callable[..., Release]) -> None:
    assert 'class="wide"' not in page_of(make_release(3, value=np.array([1.0, 2.0, np.inf])))
    assert 'class="wide"' in page_of(make_release(3, value=np.array([0.0, 0.0, 0.0])))


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        (Claims.of(PureDP(1)), ["more than 2.72 times", "at most 73.2 % after", "at most 2.7 % after", "any one row"]),
        (
            Claims.of(ApproxDP(1, "1e-6")),
            ["more than 2.72 times", "may fail with a chance of at most 1e-6, one in 1,000,000"],
        ),
        (Claims.of(GDP("0.24")), ["may fail with a chance", "GDP(μ = 0.24)"]),
        (Claims.of(PureDP(1, unit=Person("id", 3))), ["any one person (with up to 3 rows)"]),
    ],
)
def test_guarantee_in_words(make_release: Callable[..., Release], claims: Claims, words: list[str]) -> None:
    page = page_of(make_release(claims=claims))
    for text in words:
        assert text in page


def test_a_prediction_for_each_level_is_folded(make_release: Callable[..., Release]) -> None:
    prior = {"family": "half_cauchy", "location": "16006.5123456", "scale": "1.0", "origin": {"kind": "guess"}}
    prediction = {
        "description": "long; long; long",
        "priors": [prior] * 3,
        "origin": {"kind": "public", "description": "X"},
    }
    page = page_of(make_release(3, prediction=prediction))
    assert page.count("half cauchy: location 16,006.5, scale 1") == 3
    assert "long; long" not in page
    assert "which costs no privacy (X)" in page


def test_an_epsilon_that_means_nothing_shows_no_beliefs(make_release: Callable[..., Release]) -> None:
    assert "% after" not in page_of(make_release(claims=Claims.of(PureDP(50))))


def test_several_releases_say_what_holds_together(make_release: Callable[..., Release]) -> None:
    one = make_release()
    both = page_of(one, one).replace("\u00a0", " ")
    assert "PureDP(ε = 1): 2 releases together, the sum" in both
    assert "can change by at most a factor of 2.72, whether your row is in the data or not." in both
    assert "the sum" not in page_of(one)
    assert "the sum" not in page_of(one, make_release(claims=Claims.of(GDP(1))))
    assert "the sum" not in page_of(one, make_release(claims=Claims.of(PureDP(1, unit=Person("id", 3)))))


def test_results_come_first_and_hashes_last(make_release: Callable[..., Release]) -> None:
    account = Account(
        statement="Everything is ApproxDP(ε = 3, δ = 1e-6)",
        uses=(),
        remaining="nothing",
        place="budget.db",
        head="6c29441ef591",
        epsilon=3.0,
        delta=1e-6,
    )
    items = (Item(title="The first question", outcome=make_release()),)
    page = render(Report(title="A title", day="2026-11-15", items=items, account=account))
    places = [
        page.index(each) for each in ("a factor of 20.1", "The first question", "What may still be", "6c29441ef591")
    ]
    assert places == sorted(places)
    assert "one in 1,000,000" in page


def test_seeded_noise_has_no_headline(make_release: Callable[..., Release]) -> None:
    """The control: the same page with noise that anyone can repeat promises nothing."""
    assert 'class="statement headline"' in page_of(make_release())
    one = make_release()
    seeded = replace(one, circumstances=replace(one.circumstances, entropy="seeded"))
    assert 'class="statement headline"' not in page_of(seeded)


def test_the_headline_says_what_neighbours_are(make_release: Callable[..., Release]) -> None:
    replaced = make_release(claims=Claims.of(PureDP(1, neighbours=Neighbours.REPLACE)))
    assert "whether your row says what it says or anything else." in page_of(replaced)
    person = make_release(claims=Claims.of(PureDP(1, unit=Person("id", 3))))
    assert "whether your rows are in the data or not." in page_of(person)


@pytest.mark.parametrize("budget", [GDP(1), ZCDP("0.1"), PureDP(2), ApproxDP(3, "1e-6")])
def test_every_kind_of_budget_reads_as_an_epsilon_and_a_delta(budget: Claim) -> None:
    epsilon, delta = reading(Claims.of(budget))
    assert (delta == 0) == isinstance(budget, PureDP)
    if delta:
        assert Claims.of(budget).approx_at(delta) == ApproxDP(epsilon, delta)


def test_ranks_say_of_about_how_many_where_a_release_says_it(make_release: Callable[..., Release]) -> None:
    one = make_release()
    counted = replace(one, query={"kind": "gaussian"}, value={"rows": 3021.4, "mean": np.zeros(1)}, labels=("a",))
    assert "of about 3,020" in page_of(one, counted)
    some = replace(one, query={**one.query, "where": "age > 30"})
    assert "of about" not in page_of(some, counted)  # it is of some of the rows
    whole = {"keys": [], "groups": [()], "columns": {"count": [3021]}}
    for of, told in (("rows", True), ("persons", False)):  # a rank is a row
        table = GroupTable(**whole, notes={"of": of})
        asked = replace(one, query={"kind": "count"}, value=table, labels=(), error=None)
        assert ("of about 3,020" in page_of(one, asked)) == told
    assert "of about" not in page_of(one)
    assert "The number of records is private" in page_of(one)


def test_a_matrix_prints_its_numbers() -> None:
    drawn = str(matrix_chart(("age", "pay"), np.array([[1.5, -20.0], [-20.0, 12345.0]])))
    for text in (">1.5<", ">-20<", ">12.35k<"):
        assert drawn.count(text) >= 2  # wide and narrow


def test_writing_is_atomic_and_checked_beforehand(tmp_path: Path, make_release: Callable[..., Release]) -> None:
    path = tmp_path / "report.html"
    report = Report(title="A title", day="2026-11-15", items=(Item(title="q", outcome=make_release()),))
    check_writable(path)
    assert write_report(report, path) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(SourceError, match="is a directory"):
        check_writable(tmp_path)
    with pytest.raises(SourceError, match="does not exist"):
        check_writable(tmp_path / "no" / "report.html")
    with pytest.raises(SourceError, match="cannot be written"):
        write_text(tmp_path / "no" / "report.html", "text")


def test_numbers_read_well() -> None:
    assert [as_read(x) for x in (0, 1.5, 1234567.25, 1e20, float("nan"))] == [
        "0",
        "1.5",
        "1,234,567.25",
        "1e+20",
        "nan",
    ]
    assert [short(x) for x in (9_999, 10_000, 2_500_000, 3e9, -20_000)] == ["9,999", "10k", "2.5M", "3G", "-20k"]
    assert ticks(0, 1, about=5) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(5, 5, about=3) == [5]


def test_the_headline_keeps_what_qualifies_its_claim(make_release: Callable[..., Release]) -> None:
    """Of one release or of several: one that is idealized makes their sum so, and persons stay persons."""
    rough = make_release(claims=Claims.of(PureDP("0.5", numerics="idealized")))
    assert "PureDP(ε = 0.5; idealized): one release" in html.unescape(page_of(rough)).replace("\u00a0", " ")
    assert "PureDP(ε = 1; idealized): 2 releases" in html.unescape(page_of(make_release(), rough)).replace(
        "\u00a0", " "
    )
    person = make_release(claims=Claims.of(PureDP("0.5", unit=Person("id", 3))))
    assert "PureDP(ε = 0.5): one release" not in html.unescape(page_of(person)).replace("\u00a0", " ")

"""What is printed of a guarantee or a bound holds: promises are rounded up, the rarity of a failure down."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.guarantees import GDP, ZCDP, ApproxDP, Claims, PureDP
from sidelight.guarantees.amounts import bound_text
from sidelight.readable import at_least, at_most, percent
from sidelight.release import NO_ASSUMPTION, TailBound
from sidelight.report import Item, Report, render
from sidelight.report.words import headline, promise, ticks

AMOUNTS = st.fractions(min_value=Fraction(1, 10**12), max_value=Fraction(10**6))
BILLIONTH = Fraction(1, 10**9)


@given(AMOUNTS)
def test_a_printed_amount_is_at_least_the_promised_one(amount: Fraction) -> None:
    printed = Fraction(bound_text(amount))
    assert amount <= printed * (1 + BILLIONTH)
    assert printed <= amount * (1 + Fraction(2, 10**5))
    assert bound_text(printed) == bound_text(Fraction(bound_text(printed)))


def test_claims_are_printed_so() -> None:
    third = Fraction(1, 3)
    assert [str(claim) for claim in (PureDP(third), ZCDP(third), GDP(third), ApproxDP(third, third / 10**7))] == [
        "PureDP(ε = 0.333334)",
        "ZCDP(ρ = 0.333334)",
        "GDP(μ = 0.333334)",
        "ApproxDP(ε = 0.333334, δ = 3.33334e-8)",
    ]
    assert str(PureDP("0.1")) == "PureDP(ε = 0.1)"
    assert str(GDP(2 + Fraction(1, 10**12))) == "GDP(μ = 2)"
    assert bound_text(Fraction(1, 3 * 10**400)).startswith("1/3")


@pytest.mark.parametrize("epsilon", ["1e-9", "0.001", "0.004", "0.03", "0.25", "0.7", "1", "2.3", "5", "9.99"])
def test_factors_and_beliefs_in_words_are_not_below_what_is_proved(epsilon: str) -> None:
    told = promise(Claims.of(PureDP(epsilon)))
    found = re.search(r"more than ([\d,.]+) times", told.plain)
    assert found is not None
    factor = math.exp(float(epsilon))
    said = float(found[1].replace(",", ""))
    assert factor <= said * (1 + 1e-9)
    assert said <= factor * 1.011
    for belief in told.beliefs:
        after = belief.before * factor / (belief.before * factor + 1 - belief.before)
        assert after <= float(f"{100 * belief.after:.1f}") / 100 * (1 + 1e-9)


@pytest.mark.parametrize("delta", ["1e-6", "1.4e-6", "3e-6", "0.0013987", "1/299999999"])
def test_a_failure_is_not_called_rarer_than_it_is(delta: str) -> None:
    told = promise(Claims.of(ApproxDP(1, delta))).caveat
    found = re.search(r"at most ([\d.e-]+), one in ([\d,]+)", told)
    assert found is not None
    exact = Fraction(delta)
    assert Fraction(found[1]) * (1 + BILLIONTH) >= exact
    assert Fraction(1, int(found[2].replace(",", ""))) >= exact


@pytest.mark.parametrize("delta", ["1e-15", "1e-16", "3e-300", "5e-309", "1e-310", "7e-400", "1e-999"])
def test_the_odds_of_a_failure_that_no_float_holds_are_a_power_of_ten(delta: str) -> None:
    """Below 5.6e-309 the report of what was paid for failed."""
    told = promise(Claims.of(ApproxDP(1, delta))).caveat
    found = re.search(r"one in 10 to the power of (\d+)\.", told)
    assert found is not None
    assert 0 <= 1 / Fraction(delta) - 10 ** int(found[1]) < 9 * 10 ** int(found[1])
    small = headline(1.0, max(float(delta), 5e-324), unit="row", term="").plain
    assert "but for a chance of one in 10 to the power of" in small


def test_a_report_of_a_refusal_of_a_tiny_delta_is_written() -> None:
    number = sl.Number("x", lower=0, upper=10, granularity=1)
    table = sl.Table({"x": [1.0, 9.0] * 200}, schema=[number])
    refused = sl.StableMedian("x", epsilon=1, delta="1e-310").release(table)
    page = render(Report(title="t", day="2026-01-01", items=(Item(title="y", outcome=refused),)))
    assert "at most 1e-310, one in 10 to the power of 310." in page


@pytest.mark.parametrize("epsilon", [13.8, 13.9, 20, 690, 699.9, 700.1, 1000, 10**6])
def test_a_large_factor_is_not_said_to_be_smaller(epsilon: float) -> None:
    """From 700 on it was said to be that of 700."""
    told = promise(Claims.of(PureDP(epsilon))).plain
    power = re.search(r"10 to the power of (\d+) times", told)
    if power is None:
        said = re.search(r"more than ([\d,]+) times", told)
        assert said is not None
        assert math.exp(epsilon) <= float(said[1].replace(",", "")) <= 1.02 * math.exp(epsilon)
    else:
        assert 0 <= int(power[1]) * math.log(10) - epsilon < math.log(10)
    assert told.partition(" than ")[2].partition(" times")[0] in headline(epsilon, 0, unit="row", term="").plain


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_a_printed_bound_is_at_least_the_bound(bound: float) -> None:
    printed = float(at_most(bound).replace(",", ""))
    assert bound <= printed * (1 + 1e-9)
    assert printed <= bound * 1.0101


@given(st.floats(min_value=1e-6, max_value=1e12))
def test_a_printed_limit_from_below_is_at_most_the_limit(limit: float) -> None:
    printed = float(at_least(limit).replace(",", ""))
    assert limit * (1 - 0.0101) <= printed <= limit * (1 + 1e-9)


def test_a_price_that_is_said_to_suffice_is_not_below_it() -> None:
    for within in (3, 7.7, 50, 123.4):
        needed = sl.epsilon_for(sl.Count(epsilon=1), sl.Schema([sl.Number("age")]), within=within)
        said = re.search(r"epsilon = ([\d.]+) is needed", str(needed))
        assert said is not None
        assert Fraction(said[1]) >= needed.amount


@pytest.mark.parametrize("bound", [5e-324, 1e-322, 1.2345e-320, 3.3e-310, 1e-300, 1.7e308])
def test_a_bound_of_any_size_is_printed(bound: float) -> None:
    assert bound <= float(at_most(bound).replace(",", "")) <= 2 * bound


@pytest.mark.parametrize("high", [5e-324, 1e-323, 1e-310, 1e308])
def test_an_axis_of_any_length_has_ticks(high: float) -> None:
    assert all(0 <= each <= high for each in ticks(0, high, about=5))


@pytest.mark.parametrize("bound", [0.3004, 7.4, 34.44, 239.41, 1234.4, 98765.0])
@pytest.mark.parametrize("unit", ["ranks", "rows"])
def test_what_a_release_and_a_report_say_of_an_error_is_not_less_than_it_is(bound: float, unit: str) -> None:
    release = sl.Quantiles([0.25, 0.5], epsilon=1, granularity=1).release([30, 40, 50] * 100)
    likely = TailBound(unit=unit, assumption="a", fixed=(0.7004 * bound,) * 2, per_log=(0.0, 0.0))
    error = TailBound(unit=unit, assumption=NO_ASSUMPTION, fixed=(bound,) * 2, per_log=(0.0, 0.0), likely=likely)
    told = replace(release, error=error)
    page = render(Report(title="t", day="2026-01-01", items=(Item(title="y", outcome=told),)))
    page = page.replace("“Within ± 10 ranks”", "")  # an example
    for text in (str(told), told._repr_html_(), page):
        stated = re.findall(rf"(?:95 %: off by|±\s?(?:&#160;|&nbsp;)?)\s?([\d,.]+) {unit}", text)
        usual = re.findall(rf"[lL]ikely error at 95 %.*?([\d,]+(?:\.\d+)?) {unit}", text)
        assert stated
        assert usual
        if text is page:  # the column of the likely error comes first
            rows = [stated[place : place + 2] for place in range(0, 4, 2)]
            assert all(float(first.replace(",", "")) >= 0.7004 * bound for first, _ in rows)
            stated = [second for _, second in rows]
        assert all(float(each.replace(",", "")) >= bound for each in stated)
        assert all(float(each.replace(",", "")) >= 0.7004 * bound for each in usual)


@pytest.mark.parametrize("share", [0.9999, 0.99999, 0.999999, 0.9999999, 1 - 2.0**-53])
def test_no_share_below_one_is_called_all(share: float) -> None:
    assert Fraction(percent(share).removesuffix(" %")) / 100 == Fraction(repr(share))
    assert percent(Fraction(share), decimals=1) == "99.9 %"
    needed = sl.epsilon_for(sl.Count(epsilon=1), sl.Schema([sl.Number("age")]), within=50, confidence=share)
    assert f"with {percent(share)} confidence" in str(needed)


def test_a_budget_of_which_something_is_left_is_not_used_up() -> None:
    table = sl.Table({"age": [1.0]}, schema=[sl.Number("age", lower=0, upper=1)], name="p")
    session = sl.Session(table, budget=PureDP(100), ledger=None)
    session.release(sl.Count(epsilon="99.97"))
    assert "(99.9 %)" in str(session.spent)
    session.release(sl.Count(epsilon="0.03"))
    assert "(100.0 %)" in str(session.spent)

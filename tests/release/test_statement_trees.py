"""Operations on released numbers give a value or NULL, whatever was released: none raises after the charge."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.release.statement_trees import _LENIENT, _STRICT, StatementRow, evaluated, interval, passes_interval

#: What each operation takes, as `sql_scalars` admits it: numbers (n), the written digits of ROUND (d), truths (b),
#: texts (t), or all of one type (*); the last is repeated where a + follows.
TAKEN = {
    **dict.fromkeys(("+", "-", "*", "/", "//", "%"), "nn"),
    **dict.fromkeys(("neg", "abs", "floor", "ceil", "trunc", "sqrt", "sign", "double"), "n"),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "nullif"), "**"),
    **dict.fromkeys(("strict_greatest", "strict_least", "greatest", "least", "coalesce", "in"), "*+"),
    **dict.fromkeys(("upper", "lower"), "t"),
    **dict.fromkeys(("and", "or"), "b+"),
    "round": "nd",
    "whole": "n",
    "||": "tt",
    "like": "tt",
    "ilike": "tt",
    "not": "b",
    "is null": "*",
    "concat": "t+",
}
HUGE, TINY = Fraction(10) ** 400, Fraction(1, 10**400)
ODD = [Fraction(), HUGE, TINY, HUGE + TINY, Fraction(1, 3), Fraction(2**63), Fraction(10) ** 160, Fraction(1, 10**160)]
ODD_FLOATS = [0.0, -0.0, 0.3, 5e-324, 1e-300, 1e300, 1.7e308, math.inf, -math.inf, math.nan]
NUMBERS = st.one_of(
    st.none(),
    st.sampled_from([*ODD, *(-each for each in ODD)]),
    st.sampled_from(ODD_FLOATS),
    st.floats(),
    st.fractions(),
)
CELLS = {
    "n": NUMBERS,
    "b": st.sampled_from([None, True, False]),
    "t": st.none() | st.text("aB%_\\\n", max_size=5),
}


@st.composite
def trees(draw: Any, kind: str = "n", depth: int = 3) -> Any:
    """Return a tree that gives a cell of this type: its leaves are released numbers that stand there as they are."""
    results = {**dict.fromkeys(("||", "upper", "lower", "concat"), "t")}
    results |= dict.fromkeys(
        ("=", "<>", "<", "<=", ">", ">=", "in", "and", "or", "not", "is null", "like", "ilike"), "b"
    )
    same = {"strict_greatest", "strict_least", "greatest", "least", "coalesce", "nullif"}
    words = [word for word in TAKEN if word in same or results.get(word, "n") == kind]
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return ["number", draw(CELLS[kind])]
    if draw(st.integers(0, 9)) == 0:
        return ["case", [draw(trees("b", depth - 1)), draw(trees(kind, depth - 1))], draw(trees(kind, depth - 1))]
    word = draw(st.sampled_from(words))
    any_type = kind if word in same else draw(st.sampled_from("nbt"))
    taken = TAKEN[word].replace("*", any_type)
    if taken[-1] == "+":
        taken = taken[0] * draw(st.integers(1, 3))
    parts = [
        ["constant", "whole", str(draw(st.integers(-400, 400)))] if each == "d" else draw(trees(each, depth - 1))
        for each in taken
    ]
    return [word, *parts]


class Released(dict[Any, Any]):
    """Released numbers, each called what it is."""

    def __missing__(self, cell: Any) -> Any:
        return cell


def test_every_operation_is_tried() -> None:
    assert {*TAKEN} == {*_STRICT, *_LENIENT}


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from("nbt").flatmap(trees))
def test_no_operation_raises(tree: Any) -> None:
    cell = evaluated(tree, StatementRow((), Released(), totals=False))
    assert cell is None or isinstance(cell, (Fraction, float, bool, str))


@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("word", ["+", "-", "*", "/", "//", "%"])
@given(a=NUMBERS, b=NUMBERS)
def test_no_arithmetic_of_two_numbers_raises(word: str, a: Any, b: Any) -> None:
    cell = evaluated([word, ["number", a], ["number", b]], StatementRow((), Released(), totals=False))
    assert cell is None or not math.isnan(cell if isinstance(cell, float) else 0.0)


@pytest.mark.parametrize("word", [word for word, taken in TAKEN.items() if taken in ("n", "nd")])
def test_no_operation_of_one_odd_number_raises(word: str) -> None:
    row = StatementRow((), Released(), totals=False)
    digits = [["constant", "whole", "2"]] if word == "round" else []
    for cell in (*ODD, *(-each for each in ODD), *ODD_FLOATS, None):
        found = evaluated([word, ["number", cell], *digits], row)
        assert found is None or isinstance(found, (Fraction, float))


@settings(max_examples=500, deadline=None)
@given(trees(), st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=3))
def test_no_interval_raises(tree: Any, ends: list[tuple[Any, Any]]) -> None:
    names = iter(range(10**6))

    def renamed(node: Any) -> Any:
        if node[0] == "number":
            return ["number", f"n{next(names) % len(ends)}"]
        if node[0] in ("constant", "case"):
            return node
        return [node[0], *map(renamed, node[1:])]

    tree = renamed(tree)
    if not passes_interval(tree):
        return
    sides = {
        f"n{at}_{word}": end for at, pair in enumerate(ends) for word, end in zip(("low", "high"), pair, strict=True)
    }
    low, high = interval(tree, StatementRow((), {}, totals=False, ends=sides))
    assert isinstance(low, float)
    assert isinstance(high, float)


@pytest.mark.parametrize("sign", [1, -1])
def test_an_interval_holds_a_number_beyond_the_floats(sign: int) -> None:
    ends = dict(zip(("x_low", "x_high"), sorted((sign * 3.0, sign * 4.0)), strict=True))
    row = StatementRow((), {}, totals=False, ends=ends)
    huge = ["constant", "whole", "1" + "0" * 308]
    for tree in (
        ["*", ["*", ["number", "x"], huge], huge],
        ["/", ["number", "x"], ["/", ["constant", "whole", "1"], huge]],
    ):
        low, high = interval(tree, row)
        truth = evaluated(tree, StatementRow((), {"x": Fraction(sign * 7, 2)}, totals=False))
        assert low <= min(truth, Fraction(10) ** 309) if sign > 0 else high >= max(truth, -(Fraction(10) ** 309))
        assert max(abs(low), abs(high)) == math.inf


def test_exact_results_stay_exact() -> None:
    row = StatementRow((), Released(), totals=False)
    for a, b, quotient, rest in ((7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (Fraction(7, 2), 1, 3, Fraction(1, 2))):
        leaves = [["number", Fraction(each)] for each in (a, b)]
        assert evaluated(["//", *leaves], row) == quotient
        assert evaluated(["%", *leaves], row) == rest
    assert evaluated(["%", ["number", HUGE], ["number", Fraction(7)]], row) == 10**400 % 7
    assert evaluated(["/", ["number", Fraction(1)], ["number", TINY]], row) is None
    assert evaluated(["sqrt", ["number", HUGE]], row) == math.inf
    assert evaluated(["%", ["number", 5.5], ["number", -2.0]], row) == 1.5


def test_a_statement_shows_its_table_whatever_was_released() -> None:
    table = sl.Table({"x": [1.0] * 1000}, schema=[sl.Number("x", lower=0, upper=100, granularity=1)])
    big, small = "1" + "0" * 58, "0." + "0" * 55 + "1"
    for number, wanted in (
        (f"SQRT(COUNT(*) * {' * '.join([big] * 5)} * 10000000000000000000)", math.inf),
        (f"1 / (COUNT(*) * {' * '.join([small] * 6)})", math.nan),
        (f"COUNT(*) % ({' * '.join([small] * 6)})", 0.0),
    ):
        released = sl.Session(table, budget=sl.PureDP(9)).sql(f"SELECT {number} AS r FROM t", epsilon=1)
        assert released.shown["r"].tolist() == pytest.approx([wanted], nan_ok=True)

"""Which cases of a test `make test` runs: every value of every parameter where that fits, and every planted bug."""

from __future__ import annotations

import json
import os
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import pytest

from quick_cases import FILE, find_slow, number_kept, spread, updated


@pytest.mark.parametrize("sizes", [(5,), (2, 3), (4, 4, 2), (2, 2, 2, 2, 2), (36, 3)])
def test_every_value_of_every_parameter_is_kept(sizes: tuple[int, ...]) -> None:
    cases = [set(enumerate(values)) for values in product(*map(range, sizes))]
    kept = spread([{(str(name), value) for name, value in case} for case in cases], max(sizes))
    assert len(kept) == max(sizes)
    for name, size in enumerate(sizes):
        assert {value for place in kept for own, value in cases[place] if own == name} == set(range(size))


def test_cases_of_one_parameter_are_spread() -> None:
    kept = sorted(spread([{("only", place)} for place in range(100)], 10))
    assert len(kept) == 10
    assert all(1 < after - before < 20 for before, after in pairwise(kept))
    assert spread([{("only", 0)}], 3) == {0}
    assert spread([], 3) == set()


@pytest.mark.parametrize(
    ("cases", "seconds", "kept"),
    [
        (100, None, 100),
        (100, 0.002, 100),
        (100, 0.01, 20),
        (100, 0.3, 10),
        (3, 0.45, 1),
        (1, 0.45, 1),
        (1, 0.6, 0),
        (9, 1.5, 1),
        (9, 2.5, 0),
    ],
)
def test_some_of_a_second_is_spent_or_a_square_root_of_the_cases(cases: int, seconds: float | None, kept: int) -> None:
    assert number_kept(cases, seconds) == kept


def test_cases_of_a_planted_bug_may_take_longer() -> None:
    assert number_kept(8, 0.25, planted=True) == 8
    assert number_kept(12, 0.25, planted=True) == 3


def case(name: str, **marks: Any) -> Any:
    """What the choice sees of a test."""
    found = {each: SimpleNamespace(args=(value,)) for each, value in marks.items()}
    return SimpleNamespace(nodeid=name, get_closest_marker=found.get)


def test_every_file_and_every_planted_bug_keeps_its_quickest_test() -> None:
    items = [
        case("a::long", planted="noise"),
        case("a::longer", planted="noise"),
        case("a::other", planted="sensitivity"),
        case("a::same", planted="sensitivity"),
        case("a::law"),
        case("a::needed", quick_cases=1),
        case("a::already", slow=True, planted="charge"),
        case("b::first"),
        case("b::second"),
    ]
    seconds = {"a::long": 6.0, "a::longer": 7.0, "a::other": 9.0, "a::law": 2.0, "a::needed": 9.0}
    seconds |= {"b::first": 8.0, "b::second": 7.0}
    assert [item.nodeid for item in find_slow(items, seconds)] == ["a::longer", "a::other", "a::law", "b::first"]


@pytest.mark.skipif("SIDELIGHT_SECONDS" in os.environ, reason="all cases run where they are measured")
@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("number", range(3))
def test_the_mark_leaves_the_others_to_the_audit(number: int, request: pytest.FixtureRequest) -> None:
    assert (request.node.get_closest_marker("slow") is None) == (number == 0)


def test_what_was_measured_is_kept_for_tests_that_did_not_run() -> None:
    known = {"gone": 2.0, "faster": 3.0, "elsewhere": 4.0}
    found = json.loads(updated(known, {"faster": [0.1], "gone": [0.1], "many": [0.25] * 4}))
    assert found == {"elsewhere": 4.0, "many": 0.25}


def test_the_file_names_tests_that_there_are() -> None:
    """Every named file exists; run `make seconds` after larger changes to drop old tests."""
    root = FILE.parents[1]
    files = {name.partition("::")[0] for name in json.loads(FILE.read_text(encoding="utf-8"))}
    assert {name for name in files if not (root / name).is_file()} == set()

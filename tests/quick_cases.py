"""Which cases of the tests `make test` runs: those that fit into minutes; `make audit` runs the others, too.

`seconds.json` has how long one case of each test takes that takes long; `make seconds` measures it anew, on two cores
that do nothing else. A test that is not in it runs as a whole. A test that holds one thing for many parameters runs for
as many of them as fit into `TOGETHER` seconds, and for a square root of their number at least: a defect of its kind
shows in a few cases, and the rest looks for one that is rare. Of cases that take longer than `ONLY` each, one runs, if
it takes `ONE` at most. A test that is a single such case is slow. Where a bug is planted all cases may take `ONE`
together, and the quickest test that plants it runs however long it takes, as does the quickest of a file of long ones:
every planted bug is looked for in `make test`, and nothing goes without a test. `@pytest.mark.quick_cases(number)`
states the number by hand, and wins.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping
from math import isqrt
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("seconds.json")
#: Seconds that all cases of a test may take together, that one may take which is the only one, and one of several.
TOGETHER, ONLY, ONE = 0.2, 0.5, 2.0
#: Below this, all cases of a test are not worth a line of the file.
_WORTH = 0.3


def number_kept(cases: int, seconds: float | None, *, planted: bool = False) -> int:
    """Return how many cases of a test run in `make test`, by what one of them takes; a planted bug may take longer."""
    if seconds is None or seconds * cases <= (ONE if planted else TOGETHER):
        return cases
    if seconds > ONLY:
        return int(cases > 1 and seconds <= ONE)
    return min(cases, max(int(TOGETHER / seconds), isqrt(cases)))


def spread(cases: list[set[tuple[str, int]]], number: int) -> set[int]:
    """Return which cases are kept: each in turn the one with the most values of parameters that no other one has.

    Of several such cases, that which comes first when all are ordered by multiples of the golden ratio, modulo 1: they
    are spread over the list, whatever its length is a multiple of.
    """
    order = sorted(range(len(cases)), key=lambda place: place * 0.6180339887498949 % 1)
    kept: set[int] = set()
    seen: set[tuple[str, int]] = set()
    while order and len(kept) < number:
        best = max(order, key=lambda place: len(cases[place] - seen))
        order.remove(best)
        kept.add(best)
        seen |= cases[best]
    return kept


def find_slow(items: list[pytest.Item], seconds: Mapping[str, float]) -> list[pytest.Item]:
    """Return the cases that `make test` leaves out; those that are slow by a mark of their own are not looked at."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not item.get_closest_marker("slow"):
            tests.setdefault(_test_of(item.nodeid), []).append(item)
    left: list[pytest.Item] = []
    for name, cases in tests.items():
        stated = cases[0].get_closest_marker("quick_cases")
        number = (
            stated.args[0] if stated else number_kept(len(cases), seconds.get(name), planted=_bug(cases[0]) is not None)
        )
        if number < len(cases):
            kept = spread([_values(item) for item in cases], number)
            left += [item for place, item in enumerate(cases) if place not in kept]
    slow = set(map(id, left))
    held = {each for cases in tests.values() for item in cases if id(item) not in slow for each in _subjects(item)}
    for item in sorted(left, key=lambda item: seconds.get(_test_of(item.nodeid), 0.0)):
        if not _subjects(item) <= held:
            held |= _subjects(item)
            slow.discard(id(item))
    return [item for item in left if id(item) in slow]


def _test_of(nodeid: str) -> str:
    return nodeid.partition("[")[0]


def _values(item: pytest.Item) -> set[tuple[str, int]]:
    parameters = getattr(item, "callspec", None)
    return set() if parameters is None else set(parameters.indices.items())


def _bug(item: pytest.Item) -> str | None:
    mark = item.get_closest_marker("planted")
    return None if mark is None else str(mark.args[0])


def _subjects(item: pytest.Item) -> set[str | None]:
    """Return what must not go without a test: the file, and the bug that is planted."""
    return {item.nodeid.partition("::")[0], _bug(item)}


class Stopwatch:
    """A plugin that writes down how long every test took."""

    def __init__(self, config: pytest.Config) -> None:
        self._writes = not hasattr(config, "workerinput")
        self._found: dict[str, list[float]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = time.perf_counter()
        try:
            return (yield)
        finally:
            item.user_properties.append(("seconds", time.perf_counter() - before))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and self._writes:
            spent = [float(str(value)) for name, value in report.user_properties if name == "seconds"]
            self._found.setdefault(_test_of(report.nodeid), []).extend(spent)

    def pytest_sessionfinish(self) -> None:
        if self._writes:
            known = json.loads(FILE.read_text(encoding="utf-8"))
            FILE.write_text(updated(known, self._found), encoding="utf-8")


def updated(known: Mapping[str, float], found: Mapping[str, list[float]]) -> str:
    """Return the text of the file, with the tests that ran written anew and the others as they were."""
    new = {name: round(sum(each) / len(each), 3) for name, each in found.items() if sum(each) > _WORTH}
    kept = {name: value for name, value in known.items() if name not in found} | new
    return json.dumps(kept, indent=0, sort_keys=True) + "\n"


def pytest_configure(config: pytest.Config) -> None:
    """Measure, if `make seconds` asks for it."""
    if os.environ.get("SIDELIGHT_SECONDS"):
        config.pluginmanager.register(Stopwatch(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what `make test` leaves out, before tests are chosen by their marks; `make seconds` runs all."""
    if not os.environ.get("SIDELIGHT_SECONDS"):
        for item in find_slow(items, json.loads(FILE.read_text(encoding="utf-8"))):
            item.add_marker(pytest.mark.slow)

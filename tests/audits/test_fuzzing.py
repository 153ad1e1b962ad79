"""Inputs that are nearly right: no traceback reaches a user and no private mark leaves (`fuzz_targets`).

`make fuzz` does the same for minutes, and guided by coverage where atheris is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from fuzz_targets import TARGETS, end_service, fuzz
from fuzz_tools import NAME, NUMBER, Choices, Defect, allowed, look_for_marks, watched
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

#: Cases for each target in every run of the tests: those that start the command line take longest.
QUICK = {"plan": 8, "release": 12, "ledger": 10, "csv": 25, "parquet": 15, "service": 20}


@pytest.fixture(autouse=True, scope="module")
def _no_service_is_left() -> Iterator[None]:
    yield
    end_service()


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_breaks_and_nothing_leaves(name: str) -> None:
    @settings(max_examples=QUICK[name], deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.binary(max_size=80))
    def inputs(data: bytes) -> None:
        TARGETS[name](data)

    inputs()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_breaks_for_a_minute(name: str, record_property: Callable[[str, object], None]) -> None:
    tried, found = fuzz(name, 40, seed=1)
    record_property("audit", f"fuzzing: {name}: {tried} inputs; {len(found)} defects")
    assert found == {}


#: Inputs that broke something, and what it was: never again.
BROKE = {
    "a release without the unit of its error": (
        "release",
        "c50db553c89a6cb2ecfddab075d9509a9d4df72b2c943515378e1041e7",
    ),
    "a release without its value": ("release", "5cf3a278f8041973b8"),
    "a release without its kind": ("release", "e1ae6a5d91a113ceb318e74ec8912fdcc094"),
    "a release without its engine": ("release", "53657efad7c756d6228c4b45540f61d14261eddd8d63e0547a734e388584"),
}


@pytest.mark.parametrize("what", BROKE)
def test_what_broke_once(what: str) -> None:
    name, data = BROKE[what]
    TARGETS[name](bytes.fromhex(data))


@pytest.mark.planted("an error that quotes a cell, a warning that does, an exception of somebody else")
def test_defects_are_found() -> None:
    with watched() as say:
        say("nothing private")

    def fail() -> None:
        raise ValueError("could not convert")

    with pytest.raises(Defect, match="ValueError"):
        allowed(fail, lambda _: None)
    for private in (f"bad cell {NUMBER}", f"unknown label {NAME!r}", f"{NUMBER:.9e}"):
        with pytest.raises(Defect, match="left"):
            look_for_marks(private)


def test_choices_end_quietly() -> None:
    choose = Choices(b"\x05\x00\x02\x00ab")
    assert [choose.below(10), choose.raw(), choose.below(10), choose.pick("abc"), choose.raw()] == [
        5,
        b"ab",
        0,
        "a",
        b"",
    ]

"""What is computed when somebody asks: error bounds and lists of draws, from released things alone, once."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
from collections.abc import Callable
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.noise import Source
from sidelight.quantiles.tree import even_levels
from sidelight.records import Table
from sidelight.release.when_asked import unasked
from sidelight.testing import seeded_release

VALUES = np.random.default_rng(1).normal(size=10_000)
GROUPS = np.random.default_rng(2).integers(0, 100, 20_000)
#: A query of each form whose bound is computed later, by what it is called in the details.
LATER = {
    "select": sl.Quantiles(even_levels(9), epsilon=1, bounds=(-10, 10)),
    "cells": sl.Quantiles(even_levels(99), epsilon=1, bounds=(-10, 10)),
    "codes": sl.Quantiles(even_levels(20), epsilon=1, bounds=(-10, 10), granularity=1),
    "tree": sl.Quantiles(even_levels(9), epsilon="0.001", bounds=(-10, 10)),
}
#: Modules whose objects hold records, or draw.
PRIVATE = ("sidelight.aggregates.", "sidelight.records.engines", "sidelight.predictions.pieces")


def reached_from(*begun: Any) -> list[Any]:
    """Return the objects that some hold, but for classes, modules and the globals of functions."""
    seen: dict[int, Any] = {}
    left = list(begun)
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, (type, ModuleType)):
            continue
        seen[id(one)] = one
        left += [one.__closure__, one.__defaults__] if isinstance(one, FunctionType) else gc.get_referents(one)
    return list(seen.values())


def private_in(found: list[Any]) -> list[Any]:
    """Return those that hold records or draw noise, and arrays as long as the table."""
    return [
        each
        for each in found
        if isinstance(each, (Table, Source))
        or type(each).__module__.startswith(PRIVATE)
        or (isinstance(each, np.ndarray) and each.size >= 1000)
    ]


@pytest.mark.parametrize("form", LATER)
def test_what_waits_holds_released_things_alone(form: str) -> None:
    release = seeded_release(LATER[form], VALUES, seed="waiting")
    assert release.details is not None
    assert release.details["form"] == form
    waiting = unasked(release, "error"), unasked(release.circumstances, "spending")
    assert all(map(callable, waiting))
    assert not private_in(reached_from(*waiting))
    assert release.error is not None
    assert release.error is release.error
    assert unasked(release, "error") is release.error


def test_rows_that_wait_are_seen() -> None:
    release = sl.Quantiles([0.5], epsilon=1).release(VALUES)
    table = Table({"x": VALUES}, schema=[sl.Number("x")])
    assert private_in(reached_from(lambda: (release, table)))


@pytest.mark.parametrize("form", LATER)
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda release: pickle.loads(pickle.dumps(release))])
def test_copies_hold_what_was_computed(form: str, again: Callable[[Any], Any]) -> None:
    release = seeded_release(LATER[form], VALUES, seed="copied")
    other = again(release)
    assert not callable(unasked(other, "error"))
    assert other == release
    assert sl.Release.from_json(release.to_json()) == other


def test_what_is_changed_in_a_value_does_not_change_its_bound() -> None:
    first, second = (seeded_release(LATER["select"], VALUES, seed="changed") for _ in range(2))
    first.value[:] = 1.0
    assert first.error == second.error


def calls_of(run: Callable[[], Any]) -> int:
    """Count the calls of Python functions."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.parametrize(
    ("query", "data", "most"),
    [
        (LATER["select"], VALUES, 17_000),
        (LATER["cells"], VALUES, 38_000),
        (
            sl.Count(by="group", epsilon="0.1"),
            sl.Table({"group": GROUPS}, schema=[sl.Category("group", range(100), other=None)]),
            1_900,
        ),
    ],
)
def test_a_release_is_this_much_work(query: Any, data: Any, most: int) -> None:
    """A third more than it is: of Python's calls, which are the same on every machine, and not of seconds."""
    seeded_release(query, data, seed="a warm start")
    assert calls_of(lambda: seeded_release(query, data, seed="work")) < most

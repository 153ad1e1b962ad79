"""The digits that are shown follow from the interval, and what is shown holds: a number lies within its interval."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidelight as sl
from sidelight.group_table import GroupTable
from sidelight.readable import number_text, supported
from sidelight.report.groups import groups_card
from sidelight.report.words import axis_texts

SIZES = st.floats(1e-12, 1e16)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def table_of(value: float, low: float, high: float, *, name: str = "mean") -> GroupTable:
    columns = {name: [value], f"{name}_plain": [value], "noise_sd": [(high - low) / 4], "low": [low], "high": [high]}
    return GroupTable(keys=["g"], groups=[("a",)], columns=columns)


def cells(table: GroupTable) -> dict[str, str]:
    head, row = (re.split(" {2,}", line.strip()) for line in repr(table).split("\n")[:2])
    return dict(zip(head, row, strict=True))


@given(
    size=SIZES,
    sign=st.sampled_from([1, -1]),
    share=st.floats(1e-12, 2),
    off=st.floats(0, 1),
    name=st.sampled_from(["mean", "count"]),
)
def test_a_printed_number_lies_within_its_printed_interval(
    size: float, sign: int, share: float, off: float, name: str
) -> None:
    low = sign * size
    high = low + size * share
    value = min(max(low + off * (high - low), low), high)
    shown = cells(table_of(value, low, high, name=name))
    assert number(shown["low"]) <= number(shown[name]) <= number(shown["high"])
    assert number(shown["low"]) <= low + abs(low) * 1e-14  # outward, but for what floats hold
    assert number(shown["high"]) >= high - abs(high) * 1e-14
    assert shown[f"{name}_plain"] == shown[name] or name == "count"


@given(size=SIZES, sign=st.sampled_from([1, -1]), error=SIZES, least=st.sampled_from([0, 6]))
def test_texts_with_the_same_error_stay_in_order(size: float, sign: int, error: float, least: int) -> None:
    value = sign * size
    low, high = (supported(value, error, rounded=away, least=least) for away in (math.floor, math.ceil))
    assert number(low) <= number(supported(value, error, least=least)) <= number(high)


def test_small_numbers_are_as_readable_as_before() -> None:
    assert cells(table_of(41183.71771770316, 41181.3413630129, 41186.206384905454)) == {
        "g": "a",
        "mean": "41183.7",
        "mean_plain": "41183.7",
        "noise_sd": "1.21626",
        "low": "41181.3",
        "high": "41186.3",
    }
    rounded = GroupTable(keys=[], groups=[()], columns={"q50": [12345.67], "q75": [1 / 3], "rank": [3]})
    assert repr(rounded).split() == ["q50", "q75", "rank", "12345.67", "0.333333", "3"]


STAMPS = 1_234_567_800 + np.arange(3000) % 200
SCHEMA = [
    sl.Number("v", lower=1_234_567_000, upper=1_234_569_000, granularity=1),
    sl.Category("g", ["a", "b"], other=None),
]
QUERIES = [
    sl.Mean("v", by="g", epsilon=5),
    sl.Mean("v", epsilon=5),
    sl.Sum("v", by="g", epsilon=5),
    sl.Summary("v", epsilon=5),
    sl.StandardDeviation("v", epsilon=5),
    sl.Quantiles([0.5], column="v", by="g", epsilon=5),
    sl.Quantiles([0.25, 0.5], column="v", epsilon=5),
    sl.Distribution("v", epsilon=5),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_time_stamps_are_shown_with_the_digits_of_their_interval(query: Any) -> None:
    table = sl.Table({"v": STAMPS, "g": np.resize(["a", "b"], 3000)}, schema=SCHEMA)
    release = sl.testing.seeded_release(query, table, seed=1)
    for text in (str(release), release._repr_html_()):
        assert "e+" not in text
        assert re.search(r"1,234,56\d,\d{3}", text) or type(query) is sl.Sum
    if isinstance(release.value, GroupTable):
        card = groups_card(release)
        for row in card["open"]:
            assert "e+" not in " ".join(row.numbers) + (row.bar or "")
    if release.error is not None and " lie within " in release.error.assumption:
        assert "1,234,567,000 to 1,234,569,000" in release.error.assumption


def test_limits_and_axes_are_no_empty_ranges() -> None:
    assert number_text(1234567898.25, digits=15) == "1,234,567,898.25"
    assert len({*axis_texts([1_234_567_800.0, 1_234_567_900.0])}) == 2

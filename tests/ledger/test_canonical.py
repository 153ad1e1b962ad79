"""Canonical JSON: one value, one text; what is not of that form is refused."""

from __future__ import annotations

import enum
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import LedgerError
from sidelight.ledger.chain import canonical, is_canonical, read

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.text(st.characters(max_codepoint=127), max_size=8)
VALUES = st.recursive(
    st.none() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=15,
)


@given(VALUES)
def test_reading_what_was_written_gives_the_same_value_and_the_same_bytes(value: object) -> None:
    text = canonical(value)
    assert read(text) == value
    assert is_canonical(text)


@given(st.dictionaries(KEYS, TEXT, min_size=2, max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, str]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert canonical(value) == canonical(backwards)
    assert list(json.loads(canonical(value))) == sorted(value)


def test_escapes_only_where_json_demands_them() -> None:
    assert canonical('"\\/\b\t\n\f\r\x00\x1f\x7f é ∑ 😀') == ('"\\"\\\\/\\b\\t\\n\\f\\r\\u0000\\u001f\x7f é ∑ 😀"')


@pytest.mark.parametrize("value", [1, 0.5, True, float("nan"), b"x", {1: "a"}, {"é": "a"}, {"a": {"b": [2]}}, "\ud800"])
def test_anything_but_strings_lists_and_mappings_with_ascii_keys_is_refused(value: object) -> None:
    with pytest.raises(LedgerError):
        canonical(value)


def test_the_message_says_where_the_number_stands() -> None:
    with pytest.raises(LedgerError, match=r"int at value\.levels\[1\]"):
        canonical({"levels": ["0.5", 1]})


def test_numpy_strings_and_string_enums_are_their_text() -> None:
    class Kind(enum.StrEnum):
        COUNT = "count"

    assert canonical([np.str_("a"), Kind.COUNT]) == '["a","count"]'


@pytest.mark.parametrize(
    "text",
    ['{"a":"1","a":"2"}', "1", "[1]", "1e5", "NaN", "true", "{", '{"a":"1"} x', "[" * 100_000, '"\\ud800"'],
)
def test_texts_that_read_otherwise_than_they_hash_are_refused(text: str) -> None:
    assert not is_canonical(text)


@pytest.mark.parametrize("text", ['{"b":"1","a":"2"}', '{"a": "1"}', '"\\u0041"', '"\\/"', '{"a":"1"}\n'])
def test_another_writing_of_the_same_value_is_not_canonical(text: str) -> None:
    read(text)
    assert not is_canonical(text)

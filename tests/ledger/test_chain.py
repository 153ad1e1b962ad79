"""The hash chain: its test vectors, and every kind of edit seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sidelight.errors import LedgerError
from sidelight.ledger.chain import (
    NO_HASH,
    LedgerEvent,
    chained,
    checked_head,
    checked_time,
    event_from_line,
    event_hash,
    is_time,
    link_problem,
    now_utc,
)

KEY = b"k" * 32


def genesis(key: bytes | None = None) -> LedgerEvent:
    return chained(
        seq=0,
        at_utc="2026-01-01T00:00:00.000000Z",
        kind="open",
        body={"ledger_id": "00000000-0000-4000-8000-000000000000", "schema": "1"},
        prev_hash=NO_HASH,
        key=key,
    )


def second(key: bytes | None = None) -> LedgerEvent:
    return chained(
        seq=1,
        at_utc="2026-01-01T00:00:01.000000Z",
        kind="reserve",
        scope_id="people",
        entry_id="k#1",
        body={
            "charge": {"epsilon": "100000000000000000000000000000"},
            "claims": [{"epsilon": "0.1", "type": "PureDP"}],
            "idem_key": "k",
        },
        prev_hash=genesis(key).hash,
        key=key,
    )


def test_reference_vectors() -> None:
    assert genesis().hash == "6c29441ef59130134cff38a3c0490c82878cea894ca8c8135ac0a542de9bfee0"
    assert second().hash == "da20051ef68bb1a703dc6b7262148c884622684a4d3ec5893a32479cc10b6e58"


def test_an_intact_chain_has_no_problem() -> None:
    assert link_problem(genesis(), previous=None) is None
    assert link_problem(second(), previous=genesis()) is None
    assert link_problem(second(KEY), previous=genesis(KEY), key=KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 2},
        {"at_utc": "2026-01-01T00:00:02.000000Z"},
        {"kind": "release"},
        {"kind": "open"},
        {"scope_id": "other"},
        {"scope_id": None},
        {"entry_id": "k#2"},
        {"body": "{}"},
        {"body": '{"idem_key":"k","idem_key":"k"}'},
        {"body": " " + second().body},
        {"prev_hash": NO_HASH},
        {"hash": NO_HASH},
    ],
)
def test_every_changed_field_is_seen(change: dict[str, object]) -> None:
    assert link_problem(replace(second(), **change), previous=genesis()) is not None  # type: ignore[arg-type]


def test_a_chain_with_another_key_or_none_is_seen() -> None:
    for key in (None, b"x" * 32):
        assert link_problem(genesis(KEY), previous=None, key=key) is not None
        assert link_problem(genesis(key), previous=None, key=KEY) is not None


def test_a_line_reads_back_as_the_same_event() -> None:
    for event in (genesis(), second()):
        again = event_from_line(event.to_line())
        assert again == event
        assert event_hash(again) == event.hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"v":"1"', '"v":"2"'),
        ('"seq":"1"', '"seq":"01"'),
        ('"seq":"1"', '"seq":"-1"'),
        ('"seq":"1"', '"seq":null'),
        ('"seq":"1"', '"seq":1'),
        ('"seq":"1",', ""),
        ('"entry_id":"k#1"', '"entry_id":["k#1"]'),
        ('"kind":"reserve"', '"kind":"reserve","more":null'),
    ],
)
def test_a_malformed_line_is_refused(old: str, new: str) -> None:
    line = second().to_line()
    assert old in line
    with pytest.raises(LedgerError):
        event_from_line(line.replace(old, new))


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-01", "2026-01-01T00:00:00Z", "2026-02-30T00:00:00.000000Z", "2026-01-01T00:00:00.000000+00:00"],
)
def test_only_one_way_to_write_a_time(text: str) -> None:
    assert not is_time(text)
    with pytest.raises(LedgerError, match="at_utc"):
        checked_time(text)


def test_now_is_a_time_and_a_head_has_64_digits() -> None:
    assert is_time(now_utc())
    assert checked_head(genesis().hash) == genesis().hash
    with pytest.raises(LedgerError, match="64 hexadecimal"):
        checked_head("latest")

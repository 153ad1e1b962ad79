"""Tokens: only hashes are kept, and revoking one is seen by a running service."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from sidelight.errors import RangeError, RefusedError
from sidelight.experts.service.store import Tokens


def bearer(token):
    return f"Bearer {token}"


def code_of(tokens, header):
    with pytest.raises(RefusedError) as caught:
        tokens.client_of(header)
    return caught.value.code


def test_a_token_names_its_client_and_is_not_in_the_file(tmp_path):
    path = tmp_path / "tokens.json"
    first, second = Tokens(path).issue("north", "south")
    tokens = Tokens(path)
    assert tokens.client_of(bearer(first)) == "north"
    assert tokens.client_of(f"bearer   {second} ") == "south"
    text = path.read_text()
    for token in (first, second):
        assert token.split("_", 2)[2] not in text
        assert len(token.split("_", 2)[2]) == 43  # 256 bits
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_unknown_missing_and_revoked_tokens(tmp_path):
    path = tmp_path / "tokens.json"
    tokens = Tokens(path)
    for header in (None, "", "Bearer", "Basic abc", "Bearer "):
        assert code_of(tokens, header) == "no_token"
    assert code_of(tokens, "Bearer sl_a_b") == "unknown_token"
    (token,) = Tokens(path).issue("north")
    assert tokens.client_of(bearer(token)) == "north"  # the file is new to this reader
    assert code_of(tokens, bearer(token[:-1])) == "unknown_token"
    assert code_of(tokens, bearer(token + "x")) == "unknown_token"
    assert code_of(tokens, "Bearer sl_\udcff_x") == "unknown_token"
    Tokens(path).revoke("north")
    assert code_of(tokens, bearer(token)) == "revoked_token"
    with pytest.raises(RangeError, match="nothing was revoked"):
        tokens.revoke("north")


def test_a_new_token_revokes_the_old_one(tmp_path):
    tokens = Tokens(tmp_path / "tokens.json")
    (old,) = tokens.issue("north")
    (new,) = tokens.issue("north")
    assert code_of(tokens, bearer(old)) == "revoked_token"
    assert tokens.client_of(bearer(new)) == "north"


def test_writers_do_not_lose_each_others_tokens(tmp_path):
    path = tmp_path / "tokens.json"
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda place: Tokens(path).issue(f"client {place}")[0], range(24)))
    assert {Tokens(path).client_of(bearer(token)) for token in made} == {f"client {place}" for place in range(24)}

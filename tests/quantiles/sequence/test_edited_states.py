"""State files that somebody edited: used, or refused in words; no edit leaves an error of Python."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from daily_fixtures import *  # noqa: F403 - fixtures
from daily_fixtures import Make, day, features, today

from sidelight.errors import RangeError, SidelightError
from sidelight.quantiles import PubPrev, PubProx, PubTrack

LEARNERS: dict[str, Any] = {
    "previous": PubPrev(8, 2),
    "regression": PubProx(8, 2, features=2, plausible=(0, 120)),
    "cocob": PubProx(8, 2, features=2, plausible=(0, 120), method="cocob"),
    "tracked": PubTrack(features=2),
}
#: What a field is replaced by.
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        0,
        -1,
        10**400,
        1e400,
        "",
        "nan",
        "inf",
        "-0x1p+2000",
        "0x1.8p+1",
        "\ud800",
        "2025-11-31",
        "9" * 5000,
    ),
    *([], {}, [[]], ["nan"], {"shape": ["-1"]}, [None] * 3, ["0x1p+0"] * 2, "f" * 64),
)


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value of a JSON document, the longest lists by their first and last entries."""
    if path:
        yield path
    keys = (
        list(node) if isinstance(node, dict) else sorted({0, len(node) - 1}) if isinstance(node, list) and node else []
    )
    for key in keys:
        yield from places(node[key], (*path, key))


def edited(text: str, rng: random.Random, *, signed: bool) -> str:
    """Return a state with a value replaced, removed or doubled; with its own checksum, if it is signed."""
    content = json.loads(text)
    *way, last = rng.choice(list(places(content)))
    node = content
    for key in way:
        node = node[key]
    how = rng.random()
    if how < 0.7:
        node[last] = rng.choice(ODD)
    elif how < 0.85 or not isinstance(node, list):
        del node[last]
    else:
        node.insert(last, node[last])
    if signed:
        content.pop("checksum", None)
        written = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        content["checksum"] = hashlib.sha256(written.encode()).hexdigest()
    return json.dumps(content, sort_keys=True, ensure_ascii=True)


def damaged(text: str, rng: random.Random) -> bytes:
    """Return a file with bytes cut off, changed or put in: no JSON, as a rule."""
    raw = bytearray(text.encode())
    place = rng.randrange(len(raw))
    change = rng.choice(["cut", "byte", "nested", "other"])
    if change == "cut":
        return bytes(raw[:place])
    if change == "byte":
        raw[place] = rng.randrange(256)
        return bytes(raw)
    if change == "nested":
        return b"[" * 100_000
    return rng.choice([b"[1]", b"7", b"null", b'"text"', b"{}", b'{"checksum": 1}', b"\xff\xfe", b"NaN", b"1e999999"])


def outcome(make: Make, learner: Any, t: int) -> str:
    """Return "used" or "refused", or the error of Python that came."""
    try:
        sequence = make(learner)
        sequence.predict(features(t) if getattr(learner, "features", 0) else [], day=day(t))
    except SidelightError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "used"


@pytest.mark.parametrize("name", LEARNERS)
def test_an_edited_state_is_used_or_refused_in_words(make: Make, name: str) -> None:
    learner, rng = LEARNERS[name], random.Random(name)
    numbers = [] if name == "previous" else features(0)
    sequence = make(learner)
    for t in range(2):
        sequence.release(today(t), day=day(t), features=numbers)
    path = Path(str(sequence.state_file))
    text = path.read_text()
    found = []
    for attempt in range(60):
        new = damaged(text, rng) if attempt % 3 == 0 else edited(text, rng, signed=attempt % 3 == 1).encode()
        path.write_bytes(new)
        found.append(outcome(make, learner, 2))
        assert found[-1] in ("used", "refused"), new[:300]
    assert found.count("refused") >= 30
    path.write_text(text)
    assert outcome(make, learner, 2) == "used"


@pytest.mark.parametrize("name", ["regression", "cocob", "tracked"])
def test_a_day_of_huge_features_is_refused_and_none_stops_the_sequence(make: Make, name: str) -> None:
    """A feature of 1e160 was learned as NaN, and no later day could be released."""
    sequence = make(LEARNERS[name])
    with pytest.raises(RangeError, match="another unit"):
        sequence.release(today(0), day=day(0), features=[1e160, 1.0])
    for t, given in enumerate(([1e6, -1e6], [1e6, 1e6], [0.0, 1e-300])):
        sequence.release(today(t), day=day(t), features=given)
    assert make(LEARNERS[name]).days == 3


def test_a_day_that_teaches_nothing_finite_is_left_out(make: Make) -> None:
    """As a ledger of an older version may hold it."""
    sequence = make(LEARNERS["regression"])
    release = sequence.release(today(0), day=day(0), features=[1.0, 1.0])
    learned = sequence._state.learned
    import numpy as np

    assert sequence.plan.learn(learned, np.array([1e160, 1.0]), release) is learned  # type: ignore[arg-type]

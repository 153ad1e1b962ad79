"""The seeded stream is the same bytes on every machine (reference words), and it says that it is not private."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.testing import SeededEntropy

FIRST_WORDS: dict[int | str, str] = {
    0: "48e0963d8cb500ff ef174245abd430a3 e343fccfc2d13947 24d97ba0e1760728 "
    "110531bb985ad6ae b8fee1da89ddd3ea 47e6df5b8fedd9aa 7daa8a31b1835ae3",
    1: "689c61762faf5809 c0d54a1c10a844eb 27a8b144c7550d7e 46971576a0f5942b "
    "9d9fc801a4d2f152 798110ef2f96d70d 78d6fa2d58b8c500 1987bf9f6ac99f85",
    "sidelight": "21b487552fceee4f 9e1c6553f4720e37 155448567c06795d ba0be895ef2504d8 "
    "5a3b470bd4fb3cab 97773b7d7adf4ee5 c16d965bb59dd6ff 8e63b0635bd2c865",
}


def words(entropy: SeededEntropy, n: int) -> list[str]:
    return [f"{int(w):016x}" for w in np.frombuffer(entropy.read(8 * n), "<u8")]


@pytest.mark.parametrize("seed", FIRST_WORDS)
def test_first_words(seed: int | str) -> None:
    assert words(SeededEntropy(seed), 8) == FIRST_WORDS[seed].split()


def test_later_blocks_and_children() -> None:
    stream = words(SeededEntropy(0), 100_000)
    assert (stream[1024], stream[99_999]) == ("e2270c9dfd920381", "aaa603cae237694f")
    assert words(SeededEntropy(0).child("noise"), 2) == ["ad53cf14b79aef32", "bac7e3ce1f99896c"]
    assert words(SeededEntropy(0, ("noise",)), 2) == ["ad53cf14b79aef32", "bac7e3ce1f99896c"]


@given(st.lists(st.integers(0, 20_000), max_size=6))
def test_pieces_join_to_the_stream(pieces: list[int]) -> None:
    entropy = SeededEntropy(7)
    joined = b"".join(entropy.read(n) for n in pieces)
    assert joined == SeededEntropy(7).read(sum(pieces))


def test_names_are_injective() -> None:
    starts = {
        SeededEntropy(seed, path).read(16)
        for seed, path in [(1, ()), ("1", ()), (b"1", ()), (1, ("a", "b")), (1, ("ab",)), (1, ("a",)), (1, ("", "a"))]
    }
    assert len(starts) == 7
    assert SeededEntropy(1).child("a").child("b").read(16) == SeededEntropy(1, ("a", "b")).read(16)


def test_brand_and_bad_seeds() -> None:
    assert SeededEntropy(0).branding == "seeded: not private"
    for bad in (True, 1.5, None):
        with pytest.raises(RangeError, match="a seed is"):
            SeededEntropy(bad)  # type: ignore[arg-type]

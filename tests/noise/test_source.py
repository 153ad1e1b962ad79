"""A source hands out each byte once, and refuses wherever a byte could be handed out twice."""

from __future__ import annotations

import copy
import os
import pickle
import threading

import numpy as np
import pytest

from sidelight.errors import NoiseError, StrictError
from sidelight.noise import OSEntropy, Source
from sidelight.testing import SeededEntropy


class Recorded:
    """A stream that remembers how many bytes each request asked for."""

    branding = "seeded: not private"

    def __init__(self, seed: int) -> None:
        self.inner = SeededEntropy(seed)
        self.asked: list[int] = []

    def read(self, nbytes: int) -> bytes:
        self.asked.append(nbytes)
        return self.inner.read(nbytes)


def test_words_are_the_stream() -> None:
    source = Source(SeededEntropy(0))
    assert [hex(w) for w in source.words(2).tolist()] == ["0x48e0963d8cb500ff", "0xef174245abd430a3"]
    assert source.words32(2).tolist() == [0xC2D13947, 0xE343FCCF]
    assert source.words(1).dtype == np.uint64
    assert source.words32(1).dtype == np.uint32


def test_bits_pool_order() -> None:
    """`bits` takes ceil(k/8) bytes, drops a remainder that is too short, and refills with at least 512 bytes."""
    entropy = Recorded(3)
    source = Source(entropy)
    stream = SeededEntropy(3).read(512 + 600 + 512)
    taken = [source.bits(4001 - 1), source.bits(12), source.bits(800 * 6), source.bits(1)]
    assert entropy.asked == [512, 600, 512]
    assert taken[0] == int.from_bytes(stream[:500], "little")
    assert taken[1] == int.from_bytes(stream[500:502], "little") >> 4
    assert taken[2] == int.from_bytes(stream[512:1112], "little")
    assert taken[3] == stream[1112] >> 7
    assert source.bits(0) == 0


def test_close_drops_the_pool() -> None:
    with Source(SeededEntropy(0)) as source:
        source.bits(8)
        assert len(source._pool) == 511
    assert source._pool == b""
    for draw in (source.words, source.words32, source.bits):
        with pytest.raises(NoiseError, match="closed"):
            draw(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_refused_in_a_forked_child() -> None:
    source = Source(OSEntropy())
    source.bits(8)
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:  # the child reports how many kinds of draw were refused
        refused = 0
        for draw in (source.words, source.words32, source.bits):
            try:
                draw(1)
            except NoiseError:
                refused += 1
        os.write(write_end, bytes([refused]))
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read_end, 1) == bytes([3])
    os.close(read_end)
    os.close(write_end)
    assert 0 <= source.bits(8) < 256


def test_refused_in_another_thread() -> None:
    source = Source(OSEntropy())
    errors: list[BaseException] = []

    def use() -> None:
        for draw in (source.words, source.words32, source.bits):
            try:
                draw(1)
            except NoiseError as error:
                errors.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(errors) == 3
    assert source.words(1).size == 1


@pytest.mark.parametrize("duplicate", [pickle.dumps, copy.copy, copy.deepcopy])
def test_no_copies(duplicate) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(NoiseError, match="cannot be pickled or copied"):
        duplicate(Source(OSEntropy()))


def test_branding_and_numerics() -> None:
    assert Source(OSEntropy()).branding == "os"
    assert Source(SeededEntropy(0)).branding == "seeded: not private"
    source = Source(SeededEntropy(0))
    assert source.numerics == "exact"
    source.note_idealized()
    assert source.numerics == "idealized"
    strict = Source(SeededEntropy(0), declared="exact")
    with pytest.raises(StrictError, match="idealized"):
        strict.note_idealized()
    assert strict.numerics == "exact"


def test_repr_shows_no_bytes_and_no_counts() -> None:
    source = Source(SeededEntropy(0))
    source.bits(8)
    source.fallbacks["strip"] += 1
    assert repr(source) == "Source(branding='seeded: not private', numerics='exact')"


def test_os_entropy_keeps_nothing_and_differs() -> None:
    assert OSEntropy.__slots__ == ()
    assert OSEntropy().read(32) != OSEntropy().read(32)
    assert len(OSEntropy().read(7)) == 7

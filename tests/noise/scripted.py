"""Entropies for tests that need to know every byte: played from a script, or recorded."""

from __future__ import annotations

from itertools import cycle

from sidelight.testing import SeededEntropy


class Played:
    """Each request is answered with its own pattern of bytes, repeated; the last pattern serves all later requests."""

    branding = "seeded: not private"

    def __init__(self, *patterns: bytes) -> None:
        self._patterns = list(patterns)

    def read(self, nbytes: int) -> bytes:
        pattern = self._patterns.pop(0) if len(self._patterns) > 1 else self._patterns[0]
        return bytes(byte for byte, _ in zip(cycle(pattern), range(nbytes), strict=False))


class Recorded:
    """A seeded stream that remembers its answers."""

    branding = "seeded: not private"

    def __init__(self, seed: int) -> None:
        self._inner = SeededEntropy(seed)
        self.answers: list[bytes] = []

    def read(self, nbytes: int) -> bytes:
        self.answers.append(self._inner.read(nbytes))
        return self.answers[-1]


class Dry:
    """An entropy that must not be asked."""

    branding = "seeded: not private"

    def read(self, nbytes: int) -> bytes:
        raise AssertionError(f"asked for {nbytes} bytes: the revealed bits should have decided")

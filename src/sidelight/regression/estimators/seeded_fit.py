"""`random_state`: reproducible noise for tests, with a warning and a brand, because a known seed publishes the data."""

from __future__ import annotations

import hashlib
import warnings
from numbers import Integral
from typing import Any

from sidelight.errors import PrivacyWarning, RangeError
from sidelight.noise import Entropy, OSEntropy
from sidelight.noise.source import SEEDED_BRANDING


class NotPrivateWarning(PrivacyWarning):
    """What comes out is not private: its noise can be reproduced. For tests on public or generated data only."""


class SeededBytes:
    """Bytes that follow from a number. The stream of `sidelight.testing` is another; neither is ever a secret."""

    def __init__(self, seed: int) -> None:
        self._seed, self._next = str(seed).encode(), 0

    @property
    def branding(self) -> str:
        """Return the brand of bytes that are no secret."""
        return SEEDED_BRANDING

    def read(self, nbytes: int) -> bytes:
        """Return the next bytes of the stream."""
        block = b"sidelight/random_state\0" + self._seed + b"\0" + str(self._next).encode()
        self._next += 1
        return hashlib.shake_128(block, usedforsecurity=False).digest(nbytes)


def entropy_for(random_state: Any) -> Entropy:
    """Return the operating system's entropy, or warn and give seeded bytes."""
    if random_state is None:
        return OSEntropy()
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise RangeError(
            f"random_state must be None or, in tests, a whole number, got {type(random_state).__name__}; private noise "
            "comes from the operating system"
        )
    warnings.warn(
        f"random_state={random_state}: whoever knows this number can take the noise off the model, so it is NOT "
        "PRIVATE. For tests on public or generated data only; leave random_state out for real data",
        NotPrivateWarning,
        stacklevel=4,
    )
    return SeededBytes(int(random_state))

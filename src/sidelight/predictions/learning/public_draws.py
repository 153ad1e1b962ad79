"""Reproducible choices about public data: a shuffle, and uniform numbers for resampling. This is not noise.

Nothing private depends on these numbers and nothing is hidden by them, so they are a function of a public seed: the
same fit comes out everywhere. SHAKE-128 from `hashlib`, so that no version of a library changes the stream.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

_PREFIX = b"sidelight/public/1\0"


def public_words(seed: str, count: int) -> NDArray[np.uint64]:
    """Return 64-bit words that depend on the public seed alone."""
    stream = hashlib.shake_128(_PREFIX + seed.encode(), usedforsecurity=False).digest(8 * count)
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def public_permutation(seed: str, size: int) -> NDArray[np.intp]:
    """Return a permutation of range(size): the order of hashed words.

    >>> public_permutation("any text", 5).tolist()
    [3, 4, 2, 1, 0]
    """
    return np.argsort(public_words(seed, size), kind="stable")


def public_uniforms(seed: str, *shape: int) -> NDArray[np.float64]:
    """Return numbers strictly inside (0, 1), on the multiples of 2**-53 moved by half a step."""
    words = public_words(seed, int(np.prod(shape))) >> np.uint64(11)
    return ((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

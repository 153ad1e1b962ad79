"""Where random bytes come from: the seam between the samplers and the operating system.

Production uses `OSEntropy` and nothing else. The only other implementation is the seeded one of `sidelight.testing`,
whose brand follows every release that it touched.
"""

from __future__ import annotations

import os
from typing import Protocol

#: The brand of bytes that an attacker cannot predict.
OS_BRANDING = "os"
#: The brand of bytes that anybody who knows the seed can reproduce.
SEEDED_BRANDING = "seeded: not private"


class Entropy(Protocol):
    """Uniform random bytes, and a word on whether they are secret."""

    @property
    def branding(self) -> str:
        """Return where the bytes come from; the release door copies this into the release."""
        ...

    def read(self, nbytes: int) -> bytes:
        """Return exactly `nbytes` uniform bytes that were never returned before."""
        ...


class OSEntropy:
    """The operating system's generator. It keeps nothing, so nothing can be used twice.

    A failure of the operating system propagates: there is no second choice.
    """

    __slots__ = ()

    @property
    def branding(self) -> str:
        """Return "os": the bytes are secret."""
        return OS_BRANDING

    def read(self, nbytes: int) -> bytes:
        """Return `nbytes` bytes of `os.urandom`."""
        return os.urandom(nbytes)

"""Exact coins: rational probabilities, and probabilities exp(-p/q) that no float represents."""

from __future__ import annotations

from sidelight.errors import RangeError
from sidelight.noise.integers import below
from sidelight.noise.source import Source


def bernoulli(p: int, q: int, source: Source) -> bool:
    """Return True with probability p/q exactly, for integers 0 <= p <= q, q > 0."""
    if not 0 <= p <= q or q < 1:
        raise RangeError(f"a coin needs 0 <= p <= q and q >= 1, got p={p}, q={q}")
    return below(q, source) < p


def bernoulli_exp(p: int, q: int, source: Source) -> bool:
    """Return True with probability exp(-p/q) exactly, for integers p >= 0, q > 0.

    Guarantee: exact (Canonne, Kamath and Steinke 2020): floor(p/q) coins of exp(-1), then one of exp(-fraction). The
    number of rounds depends on p/q: where p/q depends on data, so does the time.

    >>> from sidelight.noise import OSEntropy, Source
    >>> with Source(OSEntropy()) as source:
    ...     bernoulli_exp(0, 1, source)
    True
    """
    if p < 0 or q < 1:
        raise RangeError(f"exp(-p/q) needs p >= 0 and q >= 1, got p={p}, q={q}")
    for _ in range(p // q):
        if not _unit_exp(1, 1, source):
            return False
    return _unit_exp(p % q, q, source)


def _unit_exp(p: int, q: int, source: Source) -> bool:
    """Flip exp(-p/q) for 0 <= p <= q: P(K > k) = (p/q)^k / k!, and the sum over odd K alternates to exp(-p/q)."""
    k = 1
    while below(q * k, source) < p:
        k += 1
    return k % 2 == 1

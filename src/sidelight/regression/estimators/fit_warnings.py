"""What a fit warns of: rows that are fitted again without a session, and noise that can be reproduced.

Fits of the same rows without a session are each paid for by themselves, and nobody adds them up. So the rows of every
such fit are remembered as a sketch: their 256 smallest prints (`records.row_prints`), in this process and nowhere else.
Two sketches say how much two sets of rows have in common, whatever their order, so that the folds of a
cross-validation, copies and a loop over settings are found. It is a warning to whoever holds the rows, once a set of
rows; no release depends on it. `random_state` gives reproducible noise for tests, with a warning and a brand, because
a known seed publishes the data.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np

from sidelight.errors import NotPrivateWarning, RangeError
from sidelight.guarantees import exact, short_text
from sidelight.noise import Entropy, OSEntropy
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.records.row_prints import Prints, row_prints
from sidelight.regression.estimators.examples import Examples
from sidelight.session.paid_estimator import drivers_of, warn_at_users_line

_SKETCH, _REMEMBERED = 256, 64

#: Sets of fewer distinct rows than this are not told apart.
_FEWEST = 20
_SHARE = 0.5


@dataclass(eq=False)
class _Known:
    """Rows that were fitted: their sketch and width, how often, at which epsilons together, and whether it was told."""

    sketch: Prints
    columns: int
    fits: int
    epsilon: Fraction
    told: bool = False


_KNOWN: list[_Known] = []


def warn_of_repetition(model: Any, found: Examples) -> None:
    """Warn, once for a set of rows, when it is fitted a second time without a session."""
    drivers = drivers_of(model)
    if drivers.tuned or drivers.search is not None:  # paid for by the search, or told of already
        return
    sketch = _sketch(found)
    if sketch is None:
        return
    epsilon = exact(model.epsilon, name="epsilon")
    known = _find(sketch, found.features)
    if known is None:
        _KNOWN.append(_Known(sketch, found.features, 1, epsilon))
        del _KNOWN[:-_REMEMBERED]
        return
    known.fits, known.epsilon = known.fits + 1, known.epsilon + epsilon
    if not known.told:
        known.told = True
        warn_at_users_line(
            "rows that a private model was fitted to before in this process are fitted again without a session: the "
            f"prices add up (epsilon {short_text(known.epsilon)} so far), and nobody counts them. Pass session=..., "
            "which adds up and refuses what does not fit; search settings with sl.Selection. This is told once for "
            "these rows, and harmless if they are public"
        )


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


def _sketch(found: Examples) -> Prints | None:
    """Return the smallest prints of rows; None where nothing can be said: too few rows, or rows that are much alike."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what cells have to say is said by nobody
            prints = row_prints(found.read()[0])
    except Exception:  # nor here: whoever opens such rows behind the door gets an error without its cause
        return None
    if prints is None or len(prints) < _FEWEST:
        return None
    smallest = np.partition(prints, min(2 * _SKETCH, len(prints)) - 1)[: 2 * _SKETCH]
    distinct = np.unique(smallest)
    return None if len(distinct) < max(_FEWEST, len(smallest) // 2) else distinct[:_SKETCH]


def _find(sketch: Prints, columns: int) -> _Known | None:
    """Return the rows among the known ones that have at least half in common with a sketch."""
    for known in _KNOWN:
        if known.columns != columns:
            continue
        # Below the smaller of the two largest prints both sketches are complete (if a sketch is not full, always).
        ends = [each[-1] for each in (sketch, known.sketch) if len(each) == _SKETCH]
        first, second = (each[each <= min(ends)] if ends else each for each in (sketch, known.sketch))
        least = min(len(first), len(second))
        if least >= _FEWEST // 2 and len(np.intersect1d(first, second)) >= _SHARE * least:
            return known
    return None

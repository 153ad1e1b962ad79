"""Run a random number of times and keep the best: the loop that the selection theorem is about, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from sidelight.errors import NoiseError, RangeError, StrictError
from sidelight.noise import Source, below
from sidelight.tuning.runs import Runs

T = TypeVar("T")


def best_of(run: Callable[[Source], tuple[T, float] | None], runs: Runs, *, source: Source) -> T | None:
    """Run K times with K drawn from `runs`, and return the result with the highest score; None where no run gave one.

    Guarantee: with `run` private **including its score**, the price is `selection_claims` (tuning proof page). The
    result alone may be published: not K, not the other results, not how long it took.

    A run that fails, or whose score is NaN or minus infinity, counts as a run without a result: an exception that
    passed through would tell of all runs at once, which nothing pays for. Of equal scores the first wins; runs are
    exchangeable, so this has the law of a tie broken by chance.
    """
    best: tuple[T, float] | None = None
    for _ in range(runs.draw(source)):
        result = _attempt(run, source)
        if result is not None and result[1] > -math.inf and (best is None or result[1] > best[1]):
            best = result
    return None if best is None else best[0]


def select(
    candidates: Sequence[Callable[[Source], T | None]],
    score: Callable[[T], float],
    *,
    runs: Runs,
    source: Source,
) -> tuple[int, T] | None:
    """Try candidates picked by chance, a random number of times, and return the best as (position, result).

    Guarantee: if every candidate has the claims `base` and `score` reads nothing private but its argument, the pair has
    `selection_claims(base, runs, ...)`. For queries and tables use `Selection`, which checks and charges all of it.

    >>> from sidelight.noise import OSEntropy, Source
    >>> from sidelight.tuning import geometric
    >>> with Source(OSEntropy()) as source:
    ...     select([lambda source: 7], score=float, runs=geometric(5), source=source)
    (0, 7)
    """
    if not candidates:
        raise RangeError("a selection wants at least one candidate, got none")

    def run(source: Source) -> tuple[tuple[int, T], float] | None:
        place = below(len(candidates), source)
        result = candidates[place](source)
        return None if result is None else ((place, result), float(score(result)))

    return best_of(run, runs, source=source)


def _attempt(run: Callable[[Source], tuple[T, float] | None], source: Source) -> tuple[T, float] | None:
    try:
        return run(source)
    except (NoiseError, StrictError):  # no data decides these: the whole release is at fault
        raise
    except Exception:
        if source.branding != "os":  # a test on data that is not private: show the cause
            raise
        return None

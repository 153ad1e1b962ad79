"""The strip sampler: exact half-normal and exponential variates X = (J + U) / 2**digits, with a fair sign, in bulk.

Hand-made because no library draws exact variates at this speed (OpenDP: some hundred times slower). The digits of the
output are raw random bits, so precision is free at any scale. Proof: noise proof page, Theorem 2. The order in which
words are consumed is part of the seeded contract.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sidelight.noise.enclosures import LazyReal, Strips, exact_keep, exact_strip
from sidelight.noise.source import Source
from sidelight.noise.tables import (
    KEEP_BITS,
    KEEP_BITS_2,
    STRIP_BITS,
    STRIP_BITS_2,
    StripTables,
    strip_tables,
    taylor_exp_neg,
)

#: Draws to a chunk: about 200 kB of words, so that everything stays in the cache.
CHUNK = 1 << 14
#: The float filter leaves a case doubtful within this distance; the proved error is 500 times smaller.
_MARGIN = 2.0**-40

_SIGN = np.uint32(31)
_KEEP_MASK = np.uint32((1 << KEEP_BITS) - 1)
_CELL_MASK = np.uint32((1 << STRIP_BITS) - 1)


class Draws(NamedTuple):
    """Variates (strip + U) / 2**digits: `words` holds the first 64 bits of each U.

    `deep` holds the pair (J, U) of the draws that the slow method decided: J may be of any size there and U may have
    more than 64 bits. It must be used instead of the vector copy.
    """

    strip: NDArray[np.uint32]
    words: NDArray[np.uint64]
    negative: NDArray[np.bool_]
    deep: dict[int, tuple[int, LazyReal]]


def draw(law: Strips, n: int, source: Source) -> Draws:
    """Return n independent variates: the first n kept of enough trials; the surplus is thrown away, never saved."""
    parts: list[Draws] = []
    have = 0
    while have < n:
        need = n - have
        trials, kept = run_trials(law, need + need // 24 + 8, source)
        index = kept.nonzero()[0][:need]
        deep = {}
        for trial, pair in trials.deep.items():
            if kept[trial]:
                at = int(np.searchsorted(index, trial))
                if at < index.size:
                    deep[have + at] = pair
        parts.append(Draws(trials.strip[index], trials.words[index], trials.negative[index], deep))
        have += index.size
    if len(parts) == 1:
        return parts[0]
    return Draws(
        np.concatenate([np.empty(0, np.uint32), *(part.strip for part in parts)]),
        np.concatenate([np.empty(0, np.uint64), *(part.words for part in parts)]),
        np.concatenate([np.empty(0, np.bool_), *(part.negative for part in parts)]),
        {at: pair for part in parts for at, pair in part.deep.items()},
    )


def run_trials(law: Strips, m: int, source: Source) -> tuple[Draws, NDArray[np.bool_]]:
    """Make m independent trials; also say which are kept.

    Stage 1 spends 12 bytes a trial and settles 96-98 % of them by table look-up: where 16 bits of R decide the strip
    and 15 bits of V lie below the least keep probability of that strip.
    """
    tables = strip_tables(law.name)
    first = source.words32(m)
    words = source.words(m)
    cell = first >> np.uint32(KEEP_BITS)
    cell &= _CELL_MASK
    packed = tables.cells.take(cell.astype(np.intp), mode="wrap")
    keep = first & _KEEP_MASK
    kept = keep < (packed & np.uint32(0xFFFF))
    packed >>= np.uint32(16)
    trials = Draws(packed, words, (first >> _SIGN).view(np.int32).astype(np.bool_), {})
    open_trials = np.arange(m) if source.force_scalar else (~kept).nonzero()[0]
    if open_trials.size:
        _second_stage(law, tables, first, trials, kept, open_trials, source)
    return trials, kept


def _second_stage(
    law: Strips,
    tables: StripTables,
    first: NDArray[np.uint32],
    trials: Draws,
    kept: NDArray[np.bool_],
    open_trials: NDArray[np.intp],
    source: Source,
) -> None:
    """Settle the open trials with 8 bytes more each: 28 for R (44 bits now) and 36 for V (51 bits now)."""
    more = source.words(open_trials.size)
    start = first[open_trials].astype(np.uint64)
    strip_more, keep_more = STRIP_BITS_2 - STRIP_BITS, KEEP_BITS_2 - KEEP_BITS
    r = (start >> np.uint64(KEEP_BITS) & np.uint64(_CELL_MASK)) << np.uint64(strip_more) | more >> np.uint64(keep_more)
    v = (start & np.uint64(_KEEP_MASK)) << np.uint64(keep_more) | more & np.uint64((1 << keep_more) - 1)
    strip = np.searchsorted(tables.thresholds, r, "right")
    on_threshold = tables.thresholds[np.maximum(strip, 1) - 1] == r
    position = trials.words[open_trials].astype(np.float64) * 2.0**-64
    bound = taylor_exp_neg(law.float_exponent(strip, position))
    level = v.astype(np.float64) * 2.0**-KEEP_BITS_2
    keeps = level + (2.0**-KEEP_BITS_2 + _MARGIN) <= bound
    doubtful = on_threshold | ~(keeps | (level >= bound + _MARGIN))
    if source.force_scalar:
        doubtful[:] = True
    trials.strip[open_trials] = strip
    kept[open_trials] = keeps
    for i in doubtful.nonzero()[0].tolist():
        trial = int(open_trials[i])
        kept[trial] = _scalar_trial(law, int(r[i]), int(v[i]), trial, trials, source)


def _scalar_trial(law: Strips, r: int, v: int, trial: int, trials: Draws, source: Source) -> bool:
    source.fallbacks["strip"] += 1
    j = exact_strip(law, LazyReal(r, STRIP_BITS_2, source))
    u = LazyReal(int(trials.words[trial]), 64, source)
    kept = exact_keep(law, j, u, LazyReal(v, KEEP_BITS_2, source))
    trials.strip[trial] = 0  # a placeholder: the true strip may not fit
    trials.deep[trial] = (j, u)
    return kept

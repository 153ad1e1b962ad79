"""A release every day of values that repeat: `PubTrack` over the query alone, in ranks off.

    python -m benchmarks.daily_heavy_values

Counts between expected places say little about a value in which many rows lie; the query alone searches for it. A
declared granularity that is as coarse as the values mends that for round numbers, but not for one heavy value.
"""

from __future__ import annotations

import datetime
import warnings
from statistics import fmean

import numpy as np

import sidelight as sl
from benchmarks.daily_few_levels import FIRST, gap
from benchmarks.measuring import sized
from sidelight.ledger import open_ledger
from sidelight.testing import SeededSequence, seeded_release

DAYS, SEEDS, SKIPPED = sized((30, 2, 5), (2, 1, 1))
ROWS = 800


def _day(kind: str, rng: np.random.Generator) -> np.ndarray:
    spread = np.rint(80 * np.exp(0.5 * rng.standard_normal(ROWS))) / 10
    if kind == "multiples of 5":
        return np.rint(rng.gamma(2, 5, ROWS) / 5) * 5.0
    if kind == "seven in ten are 0":
        return np.where(rng.random(ROWS) < 0.7, 0.0, spread)
    return spread


def _gaps(kind: str, granularity: str, query: sl.Quantiles) -> tuple[float, float]:
    schema = [sl.Number("minutes", lower=0, granularity=granularity)]
    tracked, alone = [], []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        with open_ledger("sqlite://", testing=True) as ledger:
            kept = {"schema": schema, "budget": sl.PureDP(1000), "ledger": ledger, "scope": "days"}
            sequence = SeededSequence(query, sl.PubTrack(), seed=seed, **kept)
            for t in range(DAYS):
                values = _day(kind, rng)
                found = sequence.release({"minutes": values}, day=FIRST + datetime.timedelta(t)).value
                if t < SKIPPED:
                    continue
                plain = seeded_release(query, sl.Table({"minutes": values}, schema=schema), seed=1000 * seed + t)
                tracked.append(gap(query, np.asarray(found), values))
                alone.append(gap(query, np.asarray(plain.value), values))
    return fmean(tracked), fmean(alone)


def main() -> None:
    """Print the table."""
    kinds = (
        ("no value repeats", "0.1"),
        ("multiples of 5", "0.1"),
        ("multiples of 5", "5"),
        ("seven in ten are 0", "0.1"),
    )
    for levels in ([0.25, 0.5, 0.75], [0.1, 0.3, 0.5, 0.7, 0.9], [place / 10 for place in range(1, 10)]):
        for epsilon in ("0.1", "0.5"):
            query = sl.Quantiles(levels, column="minutes", epsilon=epsilon)
            for kind, granularity in kinds:
                tracked, alone = _gaps(kind, granularity, query)
                words = f"{len(levels)} levels, epsilon {epsilon}, {kind}, granularity {granularity}"
                print(f"{words}: PubTrack {tracked:.1f}, alone {alone:.1f}", flush=True)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

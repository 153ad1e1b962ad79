"""A release every day of one, three or five levels: the gain of `PubTrack` over the query without a prediction.

    python -m benchmarks.daily_few_levels

One level is selected without dividing the budget, so that counts lose to it where there are rows enough. On these days
it was chosen from how many rows on `PubTrack` selects.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator
from statistics import fmean

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from sidelight.ledger import open_ledger
from sidelight.testing import SeededSequence, seeded_release

SCHEMA = [sl.Number("minutes", lower=0, granularity="0.1")]
FIRST = datetime.date(2025, 1, 6)
DAYS, SEEDS = sized((40, 3), (2, 1))
#: How far the typical value moves from day to day, and by how much it is larger at weekends.
KINDS = sized({"calm": (0.01, 1.0), "drifting": (0.06, 1.0), "weekends": (0.02, 1.4)}, {"calm": (0.01, 1.0)})


def days(kind: str, seed: int, rows: int) -> Iterator[np.ndarray]:
    """Return the values of one day after the other."""
    rng, typical = np.random.default_rng(seed), 8.0
    moves, weekend = KINDS[kind]
    for t in range(DAYS):
        typical *= np.exp(moves * rng.standard_normal())
        level = typical * (weekend if t % 7 >= 5 else 1)
        count = int(rows * np.exp(0.1 * rng.standard_normal()))
        yield np.rint(10 * level * np.exp(0.5 * rng.standard_normal(count))) / 10


def gap(query: sl.Quantiles, released: np.ndarray, values: np.ndarray) -> float:
    """Return by how many ranks the levels are off, on average."""
    ordered, wanted = np.sort(values), np.array([float(level) for level in query.levels]) * len(values)
    low, high = (np.searchsorted(ordered, released, side) for side in ("left", "right"))
    return float(np.maximum(np.maximum(low - wanted, wanted - high), 0).mean())


def tracked(query: sl.Quantiles, kind: str, seed: int, rows: int) -> float:
    """Return the mean gap of `PubTrack`, the first day left out."""
    with open_ledger("sqlite://", testing=True) as ledger:
        kept = {"schema": SCHEMA, "budget": sl.PureDP(1000), "ledger": ledger, "scope": "days"}
        sequence = SeededSequence(query, sl.PubTrack(), seed=seed, **kept)
        released = [
            (sequence.release({"minutes": values}, day=FIRST + datetime.timedelta(t)).value, values)
            for t, values in enumerate(days(kind, seed, rows))
        ]
    return fmean(gap(query, np.asarray(found), values) for found, values in released[1:])


def plain(query: sl.Quantiles, kind: str, seed: int, rows: int) -> float:
    """Return the mean gap of the query by itself."""
    tables = (sl.Table({"minutes": values}, schema=SCHEMA) for values in days(kind, seed, rows))
    released = [(seeded_release(query, table, seed=1000 * seed + t), table) for t, table in enumerate(tables)]
    found = zip(released, days(kind, seed, rows), strict=True)
    return fmean(gap(query, np.asarray(release.value), values) for (release, _), values in found)


def main() -> None:
    """Print the table."""
    for levels in ([0.5], [0.9], [0.25, 0.5, 0.75], [0.1, 0.3, 0.5, 0.7, 0.9]):
        for epsilon, rows in (("0.1", 300), ("0.1", 2000), ("1", 300)):
            query = sl.Quantiles(levels, column="minutes", epsilon=epsilon)
            for kind in KINDS:
                pair = [fmean(each(query, kind, seed, rows) for seed in range(SEEDS)) for each in (tracked, plain)]
                print(f"{levels} epsilon {epsilon}, {rows} rows, {kind}: PubTrack {pair[0]:.1f}, alone {pair[1]:.1f}")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()

"""How often stated errors of quantiles, distributions and days are refuted on ordinary rounded columns."""

from __future__ import annotations

import datetime
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.rounded_laws import LAWS, band_refuted, refuted
from sidelight.quantiles.tree import even_levels
from sidelight.testing import seeded_release

RELEASES = sized(100, 1)
#: What is asked, of how many records; `test` says whether a release is refuted.
Setting = tuple[str, Any, int, Callable[[sl.Release, np.ndarray], bool]]
SETTINGS: tuple[Setting, ...] = (
    ("quartiles, 1000 rows, epsilon 1", sl.Quantiles([0.25, 0.5, 0.75], epsilon=1), 1000, refuted),
    ("9 levels, 3000 rows, epsilon 1", sl.Quantiles(even_levels(9), epsilon=1), 3000, refuted),
    ("20 levels, 3000 rows, epsilon 0.3", sl.Quantiles(even_levels(20), epsilon="0.3"), 3000, refuted),
    ("20 levels, 300 rows, epsilon 1 (tree)", sl.Quantiles(even_levels(20), epsilon=1), 300, refuted),
    ("99 levels, 10,000 rows, epsilon 1", sl.Quantiles(even_levels(99), epsilon=1), 10_000, refuted),
    ("99 levels, 10,000 rows, epsilon 0.1", sl.Quantiles(even_levels(99), epsilon="0.1"), 10_000, refuted),
    (
        "9 levels, 3000 rows, epsilon 1, steps of 0.01 declared",
        sl.Quantiles(even_levels(9), epsilon=1, granularity="0.01"),
        3000,
        refuted,
    ),
    ("band, 10,000 rows, epsilon 1", sl.Distribution(epsilon=1), 10_000, band_refuted),
    ("band, 1000 rows, epsilon 0.3", sl.Distribution(epsilon="0.3"), 1000, band_refuted),
)


def misses(law: str, setting: Setting, releases: int) -> tuple[int, int, int, float]:
    """Return refuted stated errors, refuted likely ones, all likely ones, and a size.

    The size is the median over releases of the largest stated error at 95 %, in ranks.
    """
    name, query, rows, test = setting
    missed, unlikely, carried, sizes = 0, 0, 0, []
    for trial in range(releases):
        values = LAWS[law](np.random.default_rng([len(law), rows, trial]), rows)
        if query.granularity is not None:
            values = np.round(values, 2)
        release = seeded_release(query, values, seed=f"{law}, {name}, {trial}")
        missed += test(release, values)
        sizes.append(float(release.error_bound(0.95).max()))
        if test is refuted and release.error is not None and release.error.likely is not None:
            carried += 1
            gaps = sl.quantiles.nonprivate_gap(values, query.levels, release.value)
            unlikely += bool((gaps > release.error_bound(0.95, assuming="spread") + 1e-9).any())
    return missed, unlikely, carried, float(np.median(sizes))


def days_missed(days: int = 28, *, growth: float = 1.05, rows: int = 2000) -> tuple[int, int, int]:
    """Return of a growing series of rounded amounts how many days there were, were selected, and were refuted."""
    rng, start, missed, selected = np.random.default_rng(days), datetime.date(2026, 1, 5), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        sequence = sl.Sequence(
            sl.Quantiles([0.25, 0.5, 0.75], column="amount", epsilon=1),
            sl.PubTrack(),
            schema=[sl.Number("amount")],
            budget=sl.PureDP(days),
            ledger=f"sqlite:///{folder}/budget.db",
            scope="amounts",
        )
        for day in range(days):
            values = 10 * np.round(rng.lognormal(5.0, 0.5, rows) * growth**day / 10)
            release = sequence.release({"amount": values}, day=start + datetime.timedelta(day))
            assert isinstance(release, sl.Release)
            selected += (release.details or {}).get("form") != "counted"
            missed += refuted(release, values)
    return days, selected, missed


def main(releases: int = RELEASES) -> None:
    """Print for every law and setting the releases whose stated error was refuted, and the same of likely errors."""
    days, selected, missed = days_missed()
    print(f"days of PubTrack, growing | stated {missed} of {days} | {selected} selected", flush=True)
    for setting in SETTINGS:
        for law in LAWS:
            missed, unlikely, carried, size = misses(law, setting, releases)
            print(
                f"{setting[0]} | {law} | stated {missed} of {releases} | likely {unlikely} of {carried} | {size:.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RELEASES)

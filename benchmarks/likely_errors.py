"""Whether likely errors of quantiles hold on columns that nothing was calibrated on: rounded, clustered, smooth.

    python -m benchmarks.likely_errors [releases]

An error is the number of records strictly between a released value and the nearest correct quantile. A law refutes the
likely error of a setting if more releases exceed it than one in a thousand would where 5 % may.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

import sidelight as sl
from benchmarks.measuring import sized
from benchmarks.rounded_laws import LAWS, Draw
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import even_levels
from sidelight.testing import seeded_release

#: Laws that no constant of the likely error was chosen on; those of `rounded_laws` are what it was calibrated with.
FRESH: Mapping[str, Draw] = {
    "salaries rounded to 500": lambda rng, rows: 500 * np.round(rng.lognormal(10.3, 0.6, rows) / 500),
    "minutes heaped at quarter hours": lambda rng, rows: np.where(
        rng.random(rows) < 0.5, 15 * np.round(rng.gamma(3, 14, rows) / 15), np.round(rng.gamma(3, 14, rows))
    ),
    "30 % zeros beside a gamma in steps of 0.1": lambda rng, rows: np.where(
        rng.random(rows) < 0.3, 0.0, np.round(rng.gamma(2.0, 3.0, rows), 1)
    ),
    "grades in half points": lambda rng, rows: np.round(20 * rng.beta(5, 3, rows)) / 2,
    "Zipf counts": lambda rng, rows: np.minimum(rng.zipf(1.8, rows), 1000).astype(np.float64),
    "three clusters": lambda rng, rows: rng.choice([3.0, 11.0, 40.0], rows) + 0.05 * rng.standard_normal(rows),
    "a spike of 40 %": lambda rng, rows: np.where(
        rng.random(rows) < 0.4, 7.77 + 1e-4 * rng.random(rows), rng.normal(9.0, 4.0, rows)
    ),
    "Student's t": lambda rng, rows: 100 + 15 * rng.standard_t(3, rows),
    "two normals": lambda rng, rows: np.where(rng.random(rows) < 0.5, rng.normal(20, 3, rows), rng.normal(60, 9, rows)),
    "exponential": lambda rng, rows: rng.exponential(5.0, rows),
}
#: Laws that were fresh until they showed something: that spikes need more where released counts contradict a level.
SPENT: Mapping[str, Draw] = {
    "a spike of 20 %": lambda rng, rows: np.where(
        rng.random(rows) < 0.2, 99 + 1e-6 * rng.random(rows), rng.gamma(9.0, 10.0, rows)
    ),
    "a spike of 70 %": lambda rng, rows: np.where(  # refuted what was stated for two levels
        rng.random(rows) < 0.7, 5 + 1e-6 * rng.random(rows), rng.normal(9.0, 4.0, rows)
    ),
}
SMOOTH = ("Student's t", "two normals", "exponential")

SETTINGS: Mapping[str, tuple[sl.Quantiles, int]] = {
    "one median, 300 rows, epsilon 1": (sl.Quantiles([0.5], epsilon=1), 300),
    "two levels, 1000 rows, epsilon 1": (sl.Quantiles([0.1, 0.9], epsilon=1), 1000),
    "quartiles, 1000 rows, epsilon 1": (sl.Quantiles([0.25, 0.5, 0.75], epsilon=1), 1000),
    "deciles, 300 rows, epsilon 0.5": (sl.Quantiles(even_levels(9), epsilon="0.5"), 300),
    "deciles, 3000 rows, epsilon 1": (sl.Quantiles(even_levels(9), epsilon=1), 3000),
    "20 levels, 3000 rows, epsilon 0.3": (sl.Quantiles(even_levels(20), epsilon="0.3"), 3000),
}


@dataclass(frozen=True)
class Kept:
    """Of how many releases of a law a likely error was stated and exceeded, and both errors' sizes."""

    releases: int
    stated: int
    exceeded: int
    likely: float  # median of the largest
    made: float  # its 95 % quantile

    @property
    def refuted(self) -> bool:
        """Whether that happens less than once in a thousand where 5 % of what is stated may be exceeded."""
        return self.exceeded > binom.ppf(0.999, self.stated, 0.05) if self.stated else False


def kept(draw: Draw, query: sl.Quantiles, rows: int, *, name: str, releases: int) -> Kept:
    """Release quantiles of a law, and count where their likely error was exceeded."""
    exceeded, likely, made = 0, [], []
    for trial in range(releases):
        values = draw(np.random.default_rng([rows, trial]), rows)
        release = seeded_release(query, values, seed=f"{name}, {trial}")
        between = nonprivate_gap(values, query.levels, release.value, ties="between")
        made.append(float(between.max()))
        if release.error is not None and release.error.likely is not None:
            bound = release.error.likely.at(0.95)
            likely.append(float(bound.max()))
            exceeded += bool((between > bound).any())
    typical = float(np.median(likely)) if likely else float("nan")
    return Kept(releases, len(likely), exceeded, typical, float(np.quantile(made, 0.95)))


def measured(laws: Mapping[str, Draw], releases: int) -> Iterable[tuple[str, str, Kept]]:
    """Yield every law and setting with what was measured."""
    for setting, (query, rows) in list(SETTINGS.items())[: sized(len(SETTINGS), 2)]:
        # errors of one level are 0 to 3 records: their quantile needs many releases, which take little time
        more = sized(10, 1) if len(query.levels) == 1 else 1
        for law, draw in laws.items():
            yield setting, law, kept(draw, query, rows, name=f"{law}, {setting}", releases=more * releases)


def measure(releases: int = sized(40, 1)) -> Mapping[str, float]:
    """Count the fresh laws and settings that refute a likely error, and compare it on smooth ones with the error."""
    found = list(measured(FRESH, releases))
    ratios = [each.likely / max(each.made, 1.0) for _, law, each in found if law in SMOOTH]
    stated, exceeded = (sum(getattr(each, name) for _, _, each in found) for name in ("stated", "exceeded"))
    return {
        "refuted": float(sum(each.refuted for _, _, each in found)),
        "exceeded": exceeded / max(stated, 1),
        "over_error": float(np.nanmax(ratios)),
    }


def main(releases: int = sized(20, 1)) -> None:
    """Print for every law, those of the calibration included, how often a likely error was stated and exceeded."""
    for setting, law, each in measured({**FRESH, **SPENT, **LAWS}, releases):
        star = "" if law in FRESH else " (calibrated with)"
        print(
            f"{setting} | {law}{star} | stated {each.stated} of {each.releases} | exceeded {each.exceeded} | "
            f"likely {each.likely:.0f}, made {each.made:.0f}{' REFUTED' if each.refuted else ''}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))

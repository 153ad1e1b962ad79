"""Ordinary columns: rounded, tied, heaped and clustered records, on which stated errors are refuted or hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import exact_levels
from sidelight.release import Release

Draw = Callable[[np.random.Generator, int], np.ndarray]


def _mostly_zero(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.6, 0.0, rng.lognormal(3.0, 1.0, rows))


def _spikes(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.where(rng.random(rows) < 0.7, 17.3 + 1e-9 * rng.random(rows), rng.normal(20.0, 8.0, rows))


def _seven_clusters(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.asarray(10.0 * rng.integers(0, 7, rows) + 1e-3 * rng.standard_normal(rows))


#: Laws of ordinary columns without a declared granularity.
ROUNDED: Mapping[str, Draw] = {
    "half-integers": lambda rng, rows: np.round(2 * rng.normal(50.0, 10.0, rows)) / 2,
    "money rounded to 100": lambda rng, rows: 100 * np.round(rng.lognormal(8.0, 0.5, rows) / 100),
    "geometric whole numbers": lambda rng, rows: rng.geometric(0.1, rows).astype(np.float64),
    "five values": lambda rng, rows: rng.choice([0.2, 1.5, 2.0, 7.25, 30.0], rows, p=[0.1, 0.3, 0.25, 0.2, 0.15]),
    "seven clusters": _seven_clusters,
    "60 % zeros beside a lognormal": _mostly_zero,
    "a narrow spike": _spikes,
}


def _heaped(rng: np.random.Generator, rows: int) -> np.ndarray:
    ages = rng.normal(44.0, 16.0, rows)
    return np.where(rng.random(rows) < 0.4, 5 * np.round(ages / 5), np.round(ages))


def _prices(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.floor(rng.lognormal(3.0, 0.8, rows)) + rng.choice([0.99, 0.95, 0.5], rows, p=[0.7, 0.2, 0.1])


def _detection_limit(rng: np.random.Generator, rows: int) -> np.ndarray:
    return np.maximum(np.round(rng.lognormal(0.0, 1.2, rows), 2), 0.85)


#: Laws that no constant was chosen on.
HELD_OUT: Mapping[str, Draw] = {
    "ages heaped at multiples of five": _heaped,
    "prices that end in .99, .95 or .50": _prices,
    "concentrations cut at a detection limit": _detection_limit,
    "quarter hours": lambda rng, rows: np.round(4 * rng.gamma(4.0, 2.0, rows)) / 4,
    "Poisson counts": lambda rng, rows: rng.poisson(2.3, rows).astype(np.float64),
    "percentages in steps of 12.5": lambda rng, rows: 12.5 * np.round(8 * rng.beta(2.0, 5.0, rows)),
}

LAWS: Mapping[str, Draw] = {**ROUNDED, **HELD_OUT}


def likely_error(release: Release, *, confidence: float = 0.95) -> np.ndarray:
    """Return the likely error of released quantiles, for data without undeclared ties; the stated one without it."""
    carried = release.error is not None and release.error.likely is not None
    return release.error_bound(confidence, assuming="spread" if carried else None)


def refuted(release: Release, values: np.ndarray, *, confidence: float = 0.95) -> bool:
    """Return whether some released quantile of these records is off by more than the stated error.

    A value is off by the records strictly between it and the quantile: 0 where its tied records cover the level.
    """
    levels = exact_levels(str(level) for level in release.query["levels"])
    gaps = nonprivate_gap(values, levels, np.atleast_1d(np.asarray(release.value, np.float64)))
    return bool((gaps > release.error_bound(confidence) + 1e-9).any())


def band_refuted(release: Release, values: np.ndarray, *, confidence: float = 0.95) -> bool:
    """Return whether the true share at or below some place lies outside the band of a released distribution."""
    ordered = np.sort(values)
    places = np.unique(np.concatenate([ordered, np.nextafter(ordered, -np.inf)]))
    truth = np.searchsorted(ordered, places, "right") / ordered.size
    low, high = release.value.band(places, confidence=confidence)
    return bool(((truth < low - 1e-9) | (truth > high + 1e-9)).any())

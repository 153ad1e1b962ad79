"""Sets for linear regression, scaled without a look at the private rows: features of norm at most 1, a target range.

Bike sharing: calendar and weather codes one-hot as the data set describes them, weather as published (shares of public
maxima). UCI sets: their columns have neither names nor ranges and were centred by their publishers, so a tenth of the
rows (fold 0) is taken to be public; it gives the ranges, may be a prediction, and is never trained or tested on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks import real_data
from benchmarks.measuring import sized

UCI_WITH_1000_ROWS = (
    "airfoil",
    "gas",
    "keggdirected",
    "keggundirected",
    "protein",
    "pumadyn32nm",
    "sml",
    "solar",
)


@dataclass(frozen=True)
class Regression:
    """Features of norm at most 1, targets, and the public range of the targets; public rows and targets, if any."""

    name: str
    rows: np.ndarray
    targets: np.ndarray
    target_range: tuple[float, float]
    note: str
    public: tuple[np.ndarray, np.ndarray] | None = None

    def split(self, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Return a random fifth as the test part, and the rest to train on."""
        order = np.random.default_rng(seed).permutation(len(self.targets))
        test, train = np.split(order, [len(order) // 5])
        return (self.rows[train], self.targets[train]), (self.rows[test], self.targets[test])


def bike_sharing() -> Regression:
    """Return bikes hired in an hour, from the calendar and the weather; at most 1000, a guess made beforehand."""
    folder = real_data.find("bike_sharing")
    if folder is None:
        return _generated_bikes()
    codes = {"season": (1, 4), "mnth": (1, 12), "hr": (0, 23), "weekday": (0, 6), "weathersit": (1, 4)}
    flags = ("yr", "holiday", "workingday", "temp", "atemp", "hum", "windspeed")  # all within [0, 1] as published
    read = real_data.columns(folder / "hour.parquet", *codes, *flags, "cnt")
    columns = [
        (values[:, None] == np.arange(low, high + 1)).astype(float)
        for values, (low, high) in zip(read, codes.values(), strict=False)
    ]
    columns += [np.asarray(values, dtype=float)[:, None] - 0.5 for values in read[len(codes) : -1]]
    rows = np.hstack(columns)
    # five one-hot groups and seven numbers within [-1/2, 1/2]: no row is longer than √(5 + 7/4)
    return Regression(
        "bike_sharing",
        rows / np.sqrt(len(codes) + len(flags) / 4),
        read[-1].astype(float),
        (0, 1000),
        f"UCI Bike Sharing, {rows.shape[0]} hours x {rows.shape[1]}",
    )


def uci(name: str) -> Regression:
    """Return one of the UCI sets, scaled by the ranges of its public tenth."""
    folder = real_data.find("uci_regression")
    if folder is None:
        return _generated_uci(name)
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(folder / f"{name}.parquet").to_pydict()
    fold = np.array(table.pop("fold"))
    targets = np.array(table.pop("y"), dtype=float)
    rows = np.column_stack([np.array(values, dtype=float) for values in table.values()])
    return _by_public_tenth(name, rows, targets, fold == 0, "UCI")


def _by_public_tenth(name: str, rows: np.ndarray, targets: np.ndarray, public: np.ndarray, origin: str) -> Regression:
    low, high = rows[public].min(axis=0), rows[public].max(axis=0)
    half = np.where(high > low, (high - low) / 2, 1.0)
    scaled = np.clip((rows - (low + high) / 2) / half, -1, 1) / np.sqrt(rows.shape[1])
    bounds = float(targets[public].min()), float(targets[public].max())
    note = f"{origin}, {int((~public).sum())} x {rows.shape[1]}"
    return Regression(name, scaled[~public], targets[~public], bounds, note, (scaled[public], targets[public]))


def _generated_bikes() -> Regression:
    rng = np.random.default_rng(11)
    n = sized(17_000, 500)
    hour, weekday, weather = rng.integers(0, 24, n), rng.integers(0, 7, n), rng.random((n, 4))
    typical = 150 + 120 * np.sin((hour - 8) / 24 * 2 * np.pi) + 150 * weather[:, 0] + 20 * (weekday < 5)
    bikes = np.clip(np.rint(typical * np.exp(0.4 * rng.standard_normal(n))), 0, None)
    one_hot = [(hour[:, None] == np.arange(24)), (weekday[:, None] == np.arange(7))]
    rows = np.hstack([*one_hot, weather]).astype(float) / np.sqrt(6)
    return Regression("bike_sharing", rows, bikes, (0, 1000), f"STAND-IN: generated, {n} x {rows.shape[1]}")


def _generated_uci(name: str) -> Regression:
    rng = np.random.default_rng(len(name) * 1000 + ord(name[0]))
    n, d = int(rng.integers(1500, sized(20_000, 1600))), int(rng.integers(5, sized(30, 8)))
    mixing = rng.standard_normal((d, d)) / np.sqrt(d)
    rows = rng.standard_normal((n, d)) @ mixing
    targets = rows @ rng.standard_normal(d) + rng.standard_normal(n) * rng.uniform(0.2, 1.5)
    return _by_public_tenth(name, rows, targets, np.arange(n) % 10 == 0, "STAND-IN: generated")

"""How often the 95 % intervals of standard deviations, and of the means and counts beside them, miss.

Run `python -m benchmarks.spread_coverage`: the misses of each law, of releases with seeded noise; a few minutes.
`RELEASES=100` makes it quick.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

import sidelight as sl
from sidelight.noise import Source
from sidelight.session.query import prepare_query
from sidelight.testing import SeededEntropy

RELEASES = int(os.environ.get("RELEASES", "1000"))
Law = Callable[[np.random.Generator, int], NDArray[np.float64]]

#: Values of 0..100, clipped there.
LAWS: Mapping[str, Law] = {
    "normal": lambda draw, n: draw.normal(50, 15, n),
    "narrow normal": lambda draw, n: draw.normal(80, 2, n),
    "lognormal": lambda draw, n: draw.lognormal(2, 0.8, n),
    "exponential, rounded": lambda draw, n: np.round(draw.exponential(8, n)),
    "money rounded to 5": lambda draw, n: 5 * np.round(draw.gamma(2, 10, n) / 5),
    "half-integers": lambda draw, n: np.round(2 * draw.normal(20, 5, n)) / 2,
    "60 % zeros": lambda draw, n: np.where(draw.random(n) < 0.6, 0.0, draw.lognormal(3, 0.5, n)),
    "two ends": lambda draw, n: 100.0 * draw.integers(0, 2, n),
    "constant": lambda draw, n: np.full(n, 30.0),
    "one far value": lambda draw, n: np.r_[100.0, draw.normal(10, 1, n - 1)],
}
#: Price and rows.
CASES = (({"epsilon": 1}, 300), ({"epsilon": 1}, 3000), ({"epsilon": "0.1"}, 3000), ({"rho": "0.02"}, 1000))


def misses(law: Law, price: Mapping[str, object], rows: int, *, releases: int, seed: int) -> tuple[int, int, int]:
    """Return how many of the releases miss the standard deviation, the mean and the count of the clipped rows."""
    values = np.clip(law(np.random.default_rng(seed), rows), 0, 100)
    table = sl.Table({"x": values}, schema=[sl.Number("x", lower=0, upper=100)])
    prepared = prepare_query(sl.StandardDeviation("x", clip=(0, 100), **price), table.schema)
    true = {"": values.std(ddof=1), "mean_": values.mean(), "count_": float(rows)}
    missed = dict.fromkeys(true, 0)
    for place in range(releases):
        found = prepared.run(table, Source(SeededEntropy(1000 * seed + place))).value
        for name, value in true.items():
            low, high = found[f"{name}low"][0], found[f"{name}high"][0]
            missed[name] += not low - 0.01 <= value <= high + 0.01  # values are rounded to a code
    return missed[""], missed["mean_"], missed["count_"]


def main() -> None:
    """Print the share of misses of each law and case."""
    print(f"share of {RELEASES} releases that miss, in %: standard deviation, mean, count")
    for number, (name, law) in enumerate(LAWS.items()):
        shares = []
        for price, rows in CASES:
            found = misses(law, price, rows, releases=RELEASES, seed=number)
            shares.append(" ".join(f"{100 * each / RELEASES:4.1f}" for each in found))
        print(f"{name:22s}  " + "   ".join(shares), flush=True)


if __name__ == "__main__":
    main()

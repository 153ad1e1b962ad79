"""How often the 95 % intervals of standard deviations, and of their means and counts, miss.

Run `python -m benchmarks.spread_coverage`: the misses of each law, by seeded noise in many groups with the same rows.
`SPREAD_GROUPS=200` makes it quick.
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

GROUPS = int(os.environ.get("SPREAD_GROUPS", "2000"))
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
CASES = (({"epsilon": 1}, 100), ({"epsilon": 1}, 400), ({"epsilon": "0.3"}, 400), ({"rho": "0.02"}, 400))


def misses(law: Law, price: Mapping[str, object], rows: int, *, groups: int, seed: int) -> tuple[float, float, float]:
    """Return the share of groups that miss the standard deviation, the mean and the count of their clipped rows."""
    values = np.clip(law(np.random.default_rng(seed), rows), 0, 100)
    labels = [f"g{place}" for place in range(groups)]
    table = sl.Table(
        {"g": np.repeat(labels, rows), "x": np.tile(values, groups)},
        schema=[sl.Category("g", labels, other=None), sl.Number("x", lower=0, upper=100)],
    )
    query = sl.StandardDeviation("x", by="g", clip=(0, 100), **price)  # type: ignore[arg-type]
    with Source(SeededEntropy(f"spread {seed}")) as source:
        found = prepare_query(query, table.schema).run(table, source).value
    true = {"": values.std(ddof=1), "mean_": values.mean(), "count_": float(rows)}
    slack = 0.001  # values are rounded to a code
    missed = [
        np.mean((found[f"{name}low"] > value + slack) | (found[f"{name}high"] < value - slack))
        for name, value in true.items()
    ]
    return float(missed[0]), float(missed[1]), float(missed[2])


def main() -> None:
    """Print the share of misses of each law and case."""
    print(f"share of {GROUPS} groups that miss, in %: standard deviation, mean, count")
    print(" " * 24 + "   ".join(f"{price}, {rows} rows" for price, rows in CASES))
    for number, (name, law) in enumerate(LAWS.items()):
        shares = [misses(law, price, rows, groups=GROUPS, seed=number) for price, rows in CASES]
        told = "      ".join(" ".join(f"{100 * each:4.1f}" for each in found) for found in shares)
        print(f"{name:22s}  {told}", flush=True)


if __name__ == "__main__":
    main()

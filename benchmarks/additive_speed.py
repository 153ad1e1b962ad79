"""Processor seconds of an additive fit compared with its line stage: 100,000 rows of 20 columns.

python -m benchmarks.additive_speed
"""

from __future__ import annotations

import warnings

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, processor_time, sized


def measure() -> dict[str, float]:
    """Return the seconds of the whole fit, and without lines, which is more than the cost of curves after lines."""
    rng = np.random.default_rng(38)
    count = sized(100_000, 300)
    rows = rng.uniform(0, 1, (count, 20))
    y = np.clip(np.sin(6 * rows[:, 0]) + rows[:, 1] + rng.normal(0, 0.3, count), -3, 3)
    names = [f"x{place}" for place in range(20)]
    table = sl.Table(
        {**{name: rows[:, place] for place, name in enumerate(names)}, "y": y},
        schema=[*(sl.Number(name, lower=0, upper=1) for name in names), sl.Number("y", lower=-3, upper=3)],
    )
    figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for lines in ("none", "auto"):
            model = sl.AdditiveRegressor(epsilon=1, delta="1e-5", lines=lines)  # type: ignore[arg-type]
            figures[f"seconds_lines_{lines}"] = processor_time(lambda model=model: model.fit_table(table, target="y"))
    return figures


def main() -> None:
    """Print the figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()

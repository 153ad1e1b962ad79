"""Predictions on the data sets that their rules were chosen on: credit card clients and flights. No target uses them.

A tenth of the rows is public: drawn at random, tilted (each value of each column has a factor e^(0.3 N(0,1))), or
shuffled column by column with renamed categories. Ratios of mean errors to those without a prediction, three splits
each; then the same for a release of one half as the prediction of the other half; and how far off the number of rows of
a small table is. Needs the data; takes some minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

import sidelight as sl
from benchmarks.measuring import AbsentError, sized
from benchmarks.real_data import find
from benchmarks.synthesis_data import Case

SPLITS, PUBLIC_ROWS, ROWS, TILT = (*sized((3, 3000, 30_000), (1, 60, 500)), 0.3)
EPSILONS = ("1", "0.3", "0.1")


def split(columns: Sequence[np.ndarray], sizes: Sequence[int], *, tilt: float, seed: int) -> Case:
    """Take a part of the rows as public, by random weights that tilt every column."""
    rng = np.random.default_rng(seed)
    rows = np.stack(columns, axis=1).astype(np.int64)
    rows = rows[rng.permutation(len(rows))][: ROWS + PUBLIC_ROWS]
    weights = np.ones(len(rows))
    for place, size in enumerate(sizes):
        weights *= np.exp(tilt * rng.standard_normal(size))[rows[:, place]]
    public = np.zeros(len(rows), bool)
    public[np.argsort(-np.log(rng.random(len(rows))) / weights)[:PUBLIC_ROWS]] = True
    return Case(tuple(f"c{place}" for place in range(len(sizes))), tuple(sizes), rows[~public], rows[public])


def credit(*, tilt: float, seed: int) -> Case:
    """Credit card clients: sex, default, marriage, education, age, two months of payments."""
    folder = find("credit_default")
    assert folder is not None
    frame = pd.read_parquet(folder / "credit_default.parquet")
    age = np.digitize(frame["age"], [25, 30, 35, 40, 45, 50, 60])
    plain = [frame[name] for name in ("default_next_month", "marriage", "education")]
    columns = [frame["sex"] - 1, *plain, age, frame["pay_0"] + 2, frame["pay_2"] + 2]
    return split([np.asarray(each) for each in columns], (2, 2, 4, 7, 8, 11, 11), tilt=tilt, seed=seed)


def flights(*, tilt: float, seed: int) -> Case:
    """Flights: origin, weekend, month, carrier, delays, distance."""
    folder = find("nycflights13")
    assert folder is not None
    frame = pd.read_parquet(folder / "flights.parquet").dropna()
    day = pd.to_datetime(frame["date"])
    columns = [
        frame["origin"].astype("category").cat.codes,
        (day.dt.day_of_week >= 5).astype(int),
        day.dt.month - 1,
        frame["carrier"].astype("category").cat.codes,
        np.digitize(frame["dep_delay_min"], [-5, 0, 15, 60]),
        np.digitize(frame["distance_mi"], [300, 600, 900, 1200, 1800]),
        np.digitize(frame["arr_delay_min"], [-15, 0, 15, 60]),
    ]
    return split([np.asarray(each) for each in columns], (3, 2, 12, 16, 5, 6, 5), tilt=tilt, seed=seed)


def error(case: Case, epsilon: str, prediction: object = None) -> float:
    """Release once and compare."""
    return case.error_of(sl.SyntheticTable(epsilon=epsilon, prediction=prediction).release(case.table))


def public_ratios(make: Callable[..., Case], epsilon: str, *, tilt: float) -> tuple[float, float]:
    """Return the errors with public rows and with shuffled ones, in errors without."""
    found = []
    for seed in range(SPLITS):
        case = make(tilt=tilt, seed=seed)
        given = [sl.PublicData(case.frame(rows), "public part") for rows in (case.public, case.wrong)]
        found.append([error(case, epsilon, prediction) for prediction in (None, *given)])
    alone, public, wrong = np.mean(found, axis=0)
    return public / alone, wrong / alone


def earlier_ratio(make: Callable[..., Case], epsilon: str) -> float:
    """Return the error with a release of the other half of the rows, in errors without."""
    found = []
    for seed in range(SPLITS):
        case = make(tilt=0.0, seed=seed)
        half = len(case.private) // 2
        first, second = replace(case, private=case.private[:half]), replace(case, private=case.private[half:])
        last = sl.SyntheticTable(epsilon=epsilon).release(first.table)
        found.append([error(second, epsilon), error(second, epsilon, last)])
    alone, with_last = np.mean(found, axis=0)
    return float(with_last / alone)


def rows_deviations(*, releases: int = 100) -> tuple[float, float]:
    """Return how far off the number of 500 rows is with one 2 x 2 marginal at epsilon 1; and the first noise alone."""
    rng = np.random.default_rng(0)
    data = {"a": rng.integers(0, 2, 500), "b": rng.integers(0, 2, 500)}
    table = sl.Table(data, schema=[sl.Category(name, range(2), other=None) for name in data])
    query = sl.SyntheticTable(epsilon=1)
    found = [sl.Synthetic(query.release(table)).rows for _ in range(releases)]
    first = float(np.sqrt(2)) * 50  # the Laplace noise that 2 % of the price buys
    return float(np.sqrt(np.mean((np.array(found) - 500) ** 2))), first


def main() -> None:
    """Print all ratios."""
    if find("credit_default") is None or find("nycflights13") is None:
        raise AbsentError("credit_default and nycflights13 are needed; SIDELIGHT_DATA names the folder that has them")
    for epsilon in EPSILONS:
        for make in (credit, flights):
            for tilt in (0.0, TILT):
                public, wrong = public_ratios(make, epsilon, tilt=tilt)
                words = f"epsilon {epsilon:4s} {make.__name__:8s} tilt {tilt:3.1f}"
                print(f"{words}  public {public:5.3f}  shuffled {wrong:5.3f}", flush=True)
            if epsilon != EPSILONS[-1]:
                print(
                    f"epsilon {epsilon:4s} {make.__name__:8s} earlier {earlier_ratio(make, epsilon):5.3f}", flush=True
                )
    print("rows of 500, off by (rms): {:.1f}; by the first number alone {:.1f}".format(*rows_deviations()))


if __name__ == "__main__":
    main()

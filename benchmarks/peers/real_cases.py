"""The same questions on real sets, where they are (`SIDELIGHT_DATA`); a random tenth is the public sample."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import real_data
from benchmarks.peers.cases import (
    DELTA,
    PUBLIC_SHARE,
    Case,
    Data,
    Floats,
    counts_error,
    gap_of,
    group_truth,
    level_numbers,
    means_error,
    row_facts,
)
from benchmarks.peers.ratios import LEAST_TRIALS


def real() -> list[Case]:
    """Return the cases whose sets are on this machine."""
    found: list[Case] = []
    if real_data.find("adult") is not None:
        found += [*adult_groups(), adult_income()]
    if real_data.find("nycflights13") is not None:
        found.append(january_delays())
    return found


def public_part(rows: int, trial: int, *, stream: int) -> np.ndarray:
    """Return which rows are taken to be public in a trial."""
    return np.asarray(np.random.default_rng([trial, stream]).random(rows) < PUBLIC_SHARE / (1 + PUBLIC_SHARE))


@cache
def _adult_columns() -> tuple[np.ndarray, Floats, int]:
    """Return the group of each row (occupation and education), its hours a week, and the number of groups."""
    folder = real_data.find("adult")
    assert folder is not None
    keys = ["occupation", "education"]
    frame = pd.read_parquet(folder / "train.parquet", columns=[*keys, "hours_per_week"]).dropna()
    codes = [pd.factorize(frame[key].astype(str), sort=True) for key in keys]
    group = codes[0][0] * len(codes[1][1]) + codes[1][0]
    return group, frame["hours_per_week"].to_numpy(np.float64), len(codes[0][1]) * len(codes[1][1])


def adult_groups() -> list[Case]:
    """Return counts and mean hours of Adult by occupation and education."""
    group, hours, groups = _adult_columns()

    def draw(trial: int) -> Data:
        public = public_part(len(group), trial, stream=11)
        data = {"group": group[~public], "x": hours[~public], "public_group": group[public], "public_x": hours[public]}
        return data | group_truth(data, groups)

    facts: dict[str, Any] = {"groups": groups, "rows_at_most": 100_000}
    about = 1000 * round(len(group) / (1 + PUBLIC_SHARE) / 1000)
    words = f"Adult (census): about {about:,} rows by occupation and education"
    return [
        Case(
            name="counts of Adult",
            task="counts",
            title="Counts by group, Adult",
            rows=f"{words}, {groups} groups, many of them empty",
            measure="root mean square error of a count",
            draw=draw,
            error=counts_error,
            public=facts,
        ),
        Case(
            name="means of Adult",
            task="means",
            title="Means by group, Adult",
            rows=f"{words}, {groups} groups; hours a week, declared bounds 1 to 99",
            measure="root mean square error of a mean, over groups that have rows",
            draw=draw,
            error=means_error,
            public=facts | {"bounds": [1.0, 99.0]},
        ),
    ]


def january_delays() -> Case:
    """Return nine quantiles of the delays of New York's flights in January 2013, in whole minutes."""
    folder = real_data.find("nycflights13")
    assert folder is not None
    frame = pd.read_parquet(folder / "flights.parquet", columns=["date", "dep_delay_min"]).dropna()
    late = frame["dep_delay_min"].to_numpy(np.float64)[(pd.to_datetime(frame["date"]).dt.month == 1).to_numpy()]
    late = np.clip(late, -60, 1440)

    def draw(trial: int) -> Data:
        public = public_part(len(late), trial, stream=12)
        return {"x": late[~public], "public_x": late[public]}

    return Case(
        name="9 quantiles of flights",
        epsilon="0.1",
        task="quantiles",
        title="9 quantiles of delays, ε = 0.1",
        rows="departures from New York in January 2013, about 24,000; whole minutes, declared bounds -60 to 1440; "
        "answers are rounded to minutes for all",
        measure="the largest of the errors, in ranks; 0 for the right minute",
        draw=draw,
        error=gap_of(9, granularity=1),
        public={"levels": level_numbers(9), "bounds": [-60.0, 1440.0], "granularity": 1},
    )


def adult_income() -> Case:
    """Return logistic regression of Adult's incomes."""
    from benchmarks import linear_sets

    whole = linear_sets.adult()
    columns = whole.rows.shape[1]

    def draw(trial: int) -> Data:
        order = np.random.default_rng([trial, 13]).permutation(len(whole.labels))
        test, rest = np.split(order, [len(order) // 5])
        public = public_part(len(rest), trial, stream=14)
        return {
            "rows": whole.rows[rest[~public]],
            "target": whole.labels[rest[~public]],
            "public_rows": whole.rows[rest[public]],
            "public_target": whole.labels[rest[public]],
            "test_rows": whole.rows[test],
            "truth": whole.labels[test],
        }

    def error(data: Data, answer: Floats) -> float:
        return float(100 * np.mean((answer > 0.5) != (data["truth"] > 0.5)))

    return Case(
        name="logistic regression of Adult",
        task="logistic",
        title="Logistic regression, Adult",
        rows=f"Adult (census): {whole.note.split(', ')[1]} scaled to length 1, a fifth to test",
        measure="wrong labels in a hundred",
        draw=draw,
        error=error,
        delta=DELTA,
        public={"data_norm": 1.0, "row_bounds": row_facts(columns)["row_bounds"]},
        trials=LEAST_TRIALS,
    )

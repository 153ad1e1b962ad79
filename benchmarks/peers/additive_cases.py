"""Additive models on real sets with numbers, categories and bent relations, where they are (`SIDELIGHT_DATA`)."""

from __future__ import annotations

import numpy as np

from benchmarks import additive_sets
from benchmarks.additive_sets import Columned
from benchmarks.peers.cases import DELTA, PUBLIC_SHARE, Case, Data, Floats
from benchmarks.peers.ratios import LEAST_TRIALS

SETS = {"adult": "incomes of Adult", "bike": "hourly rentals of bicycles", "wine": "marks of wines"}


def additive() -> list[Case]:
    """Return the cases whose sets are on this machine."""
    found = [additive_sets.read(name) for name in SETS]
    return [_case(data) for data in found if not data.note]


def _case(data: Columned) -> Case:
    def draw(trial: int) -> Data:
        train, test = data.split(trial)
        public, private = np.split(train, [int(len(train) * PUBLIC_SHARE / (1 + PUBLIC_SHARE))])
        return {
            "rows": data.rows[private],
            "target": data.target[private],
            "public_rows": data.rows[public],
            "public_target": data.target[public],
            "test_rows": data.rows[test],
            "truth_places": test,
        }

    def error(drawn: Data, answer: Floats) -> float:
        return data.error(answer, drawn["truth_places"])

    classes = data.target_range is None
    return Case(
        name=f"additive model of {data.name}",
        task="additive",
        title=f"Additive model, {SETS[data.name]}",
        rows=f"{SETS[data.name]}: {len(data.target):,} rows of {data.rows.shape[1]} columns as they are, numbers in "
        "declared ranges and categories, a fifth to test",
        measure="log loss" if classes else "squared error, as a share of the target's variance",
        draw=draw,
        error=error,
        delta=DELTA,
        public={"bounds": data.bounds, "labels": data.labels, "target_range": data.target_range},
        trials=LEAST_TRIALS,
    )

"""Synthetic tables of NIST's national excerpt: ten columns, 4.5e7 cells, without and with Texas as public rows.

The score is 500·(2 - mean l1 distance over all 45 pairs), age in bins of five years: the k-marginal of SDNist 2.4 on
these columns (earlier versions drew pairs at random). Scores compare within these columns only. Seconds are processor
seconds of one release with its table; AIM is OpenDP's, in an environment of its own, with the rho that proves
(1, 1e-6). It compiles anew in every round and takes more than half an hour, so `make targets` runs it only where
SIDELIGHT_PATIENT is set.
The excerpts are NIST's (usnistgov/privacy_collaborative_research_cycle); a generated table stands in without them.
"""

from __future__ import annotations

import csv
import os
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import forget_peak, peak_gigabytes, print_figures, processor_time, sized
from benchmarks.real_data import find
from benchmarks.synthesis_data import Case

RUNS = sized(5, 1)
AGES = 20
#: Labels of each column, by NIST's dictionary; of ages the number of bins of five years.
LABELS: dict[str, list[str]] = {
    "AGEP": [str(place) for place in range(AGES)],
    "SEX": list("12"),
    "MSP": list("N123456"),
    "RAC1P": list("123456789"),
    "HOUSING_TYPE": list("123"),
    "OWN_RENT": list("012"),
    "EDU": ["N", *map(str, range(1, 13))],
    "PINCP_DECILE": list("N0123456789"),
    "DVET": list("N123456"),
    "DEYE": list("12"),
}
#: Rows of the stand-in, private and public.
STAND_IN = sized((27_253, 9_276), (400, 100))
#: Why AIM is left out of `make targets`.
AIM_SKIPPED = (
    "" if os.environ.get("SIDELIGHT_PATIENT") else "AIM takes half an hour here; set SIDELIGHT_PATIENT=1 to run it"
)
#: Of AIM's model: its own setting, 80 by default; less, so that its fits stay short.
AIM_MEGABYTES = 4
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def score_of(error: float) -> float:
    """Return the score of a mean total-variation distance, which is half an l1 distance."""
    return 1000.0 * (1.0 - error)


@cache
def national() -> Case:
    """Return the national excerpt with Texas as its public rows, or a generated table of the same sizes."""
    sizes = tuple(map(len, LABELS.values()))
    folder = find("nist_excerpts")
    if folder is None:
        print("nist_excerpts is not here; a generated table of the same sizes stands in", file=sys.stderr)
        rows, public = STAND_IN
        both = _generated(sizes, rows + public)
        return Case(tuple(LABELS), sizes, both[:rows], both[rows:])
    private, public_rows = (_read(folder / name) for name in ("national/national2019.csv", "texas/tx2019.csv"))
    return Case(tuple(LABELS), sizes, private, public_rows)


def texas() -> Case:
    """Return Texas with the national excerpt as its public rows."""
    case = national()
    return replace(case, private=case.public, public=case.private)


def _read(path: Path) -> np.ndarray:
    places = {name: {label: place for place, label in enumerate(labels)} for name, labels in LABELS.items()}
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [
            [
                min(int(row["AGEP"]) // 5, AGES - 1),
                *(places[name][row[name].partition(".")[0]] for name in LABELS if name != "AGEP"),
            ]
            for row in csv.DictReader(lines)
        ]
    return np.array(rows, np.int64)


def _generated(sizes: tuple[int, ...], rows: int) -> np.ndarray:
    """Return rows whose columns follow one hidden class."""
    rng = np.random.default_rng(2)
    hidden = rng.integers(0, 6, rows)
    columns = []
    for size in sizes:
        shares = np.cumsum(rng.dirichlet(np.full(size, 0.3), 6), axis=1)
        columns.append(np.minimum((rng.random(rows)[:, None] > shares[hidden]).sum(axis=1), size - 1))
    return np.stack(columns, axis=1)


def scores(case: Case, *, runs: int = RUNS, **query: Any) -> list[float]:
    """Return the scores of the tables of some releases."""
    table = case.table
    return [score_of(case.error_of(sl.SyntheticTable(**query).release(table))) for _ in range(runs)]


def measure() -> dict[str, float]:
    """Return mean scores, and the seconds and memory of a release with its table."""
    case = national()
    table = case.table
    forget_peak()
    seconds = processor_time(lambda: case.error_of(sl.SyntheticTable(**PRICE).release(table)))
    gigabytes = peak_gigabytes()
    texas_rows = sl.PublicData(case.frame(case.public), "Texas, another place of the same survey")
    alone = scores(case, **PRICE)
    return {
        "rows": float(len(case.private)),
        "cells": float(np.prod(case.sizes)),
        "seconds": seconds,
        "gigabytes": gigabytes,
        "score": float(np.mean(alone)),
        "lowest_score": min(alone),
        "pure_score": float(np.mean(scores(case, epsilon=1))),
        "public_score": float(np.mean(scores(case, prediction=texas_rows, **PRICE))),
        "texas_alone": score_of(case.error(case.public)),
    }


def against_aim() -> dict[str, float]:
    """Return the error of pairs of OpenDP's AIM, and ours as a share of it."""
    from benchmarks.peers.synthesis import PATIENT, peer_rows

    case = national()
    found = peer_rows(case, "aim", peer="opendp", patience=PATIENT, megabytes=AIM_MEGABYTES)
    aim = case.error(found.answers[0]) if found.answers else float("nan")
    ours = float(np.mean([1.0 - score / 1000.0 for score in scores(case, **PRICE)]))
    return {"opendp_aim_error": aim, "our_error": ours, "ours_vs_opendp_aim": ours / aim}


def main() -> None:
    """Print all figures."""
    print_figures(measure())


if __name__ == "__main__":
    main()

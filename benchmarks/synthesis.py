"""Synthetic tables of Adult at epsilon = 1: no prediction, the public part, or a wrong table; and MWEM as printed.

All pairs of the columns that `synthesis_data` chooses, adding or removing a row, full releases. "As printed" is
engine="mwem" with the public number of rows, noise for queries in [-1, 1], 20 rounds, the average as output.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import print_figures, sized
from benchmarks.synthesis_data import Case, adult
from sidelight.guarantees import Neighbours
from sidelight.noise import OSEntropy, Source
from sidelight.published.mwem import MWEMPlan
from sidelight.synthesis.domain import Mass
from sidelight.synthesis.measurement import PrivateMarginals, Protection
from sidelight.synthesis.single_queries import release_by_single_queries
from sidelight.synthesis.synthetic_rows import sample_codes

RUNS, PRINTED_RUNS, PRINTED_ROUNDS = sized((24, 2, 20), (1, 1, 2))  # six releases err by 4 %


def mean_error(case: Case, *, runs: int = RUNS, **query: Any) -> float:
    """Return the mean error of releases."""
    table = case.table
    return float(np.mean([case.error_of(sl.SyntheticTable(**query).release(table)) for _ in range(runs)]))


def printed_error(case: Case, *, epsilon: str = "1", runs: int = PRINTED_RUNS) -> float:
    """Return the mean error of the paper's algorithm as printed: public number of rows, Δ = 2, the average."""
    prepared = sl.SyntheticTable(epsilon=epsilon, engine="mwem", rows=len(case.private)).prepare(case.table.schema)
    plan = MWEMPlan(
        domain=prepared.domain,
        workload=prepared.workload,
        price=prepared.price,
        protection=Protection(neighbours=Neighbours.REPLACE),
        rows=len(case.private),
        rounds=PRINTED_ROUNDS,
        sensitivity="printed",
    )
    found = []
    for _ in range(runs):
        with Source(OSEntropy()) as source:
            counts = PrivateMarginals.from_codes(plan.domain, case.private, protection=plan.protection)
            fitted = release_by_single_queries(counts, plan, source=source)
            mass = Mass.of(plan.domain, fitted.weights, size=fitted.rows)
            found.append(case.error(sample_codes(mass, len(case.private), source)))
    return float(np.mean(found))


def measure() -> dict[str, float]:
    """Return errors and ratios by name."""
    case = adult()
    alone = mean_error(case, epsilon=1)
    public = mean_error(case, epsilon=1, prediction=sl.PublicData(case.frame(case.public), "public part of Adult"))
    wrong = mean_error(case, epsilon=1, prediction=sl.PublicData(case.frame(case.wrong), "shuffled on purpose"))
    printed = printed_error(case)
    return {
        "cells": float(np.prod(case.sizes)),
        "our_error": alone,
        "our_error_with_public_part": public,
        "our_error_with_wrong_table": wrong,
        "public_part_alone": case.error(case.public),
        "printed_mwem_error": printed,
        "ours_vs_printed_mwem": alone / printed,
        "public_vs_uniform": public / alone,
        "wrong_vs_uniform": wrong / alone,
    }


def main() -> None:
    """Print all figures."""
    print("columns:", ", ".join(adult().names))
    print_figures(measure())


if __name__ == "__main__":
    main()

"""`make bench-nist`: the page of NIST's excerpts, by many runs at several prices, with and without the other place.

The score is that of `benchmarks.nist`. Beside it the same over all triples of columns, which nothing here measured.
OpenDP's AIM is run by the same script where SIDELIGHT_PATIENT is set: it takes half an hour.
"""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized, written
from benchmarks.nist import AIM_SKIPPED, against_aim, national, score_of, texas
from benchmarks.synthesis_data import Case

PAGE = Path(__file__).resolve().parents[1] / "docs" / "nist-excerpts.md"
RUNS = sized(int(os.environ.get("RUNS", "20")), 1)
PRICES: dict[str, dict[str, Any]] = {
    "(0.1, 1e-6)": {"epsilon": "0.1", "delta": "1e-6"},
    "(1, 1e-6)": {"epsilon": 1, "delta": "1e-6"},
    "(10, 1e-6)": {"epsilon": 10, "delta": "1e-6"},
    "1, pure": {"epsilon": 1},
    "10, pure": {"epsilon": 10},
}
if sized(full=False, tiny=True):
    PRICES = {"1, pure": PRICES["1, pure"]}


HEAD = """\
# NIST's excerpts

Synthetic tables of two excerpts of the American Community Survey that NIST prepared for evaluating de-identification
(usnistgov/privacy_collaborative_research_cycle): ten columns, 4.5e7 cells, the plain install,
`sl.SyntheticTable(epsilon=..., delta=...)`, adding or removing one row. Written by `make bench-nist`
(`benchmarks/nist_page.py`).

The score is 500·(2 - mean l1 distance over all 45 pairs of columns), age in bins of five years. That is the form of
SDNist's k-marginal and not its number: SDNist draws its pairs at random. Compare scores within this page only. The
release measures pairs, which suits a score on pairs; the score on all 120 triples, which it did not measure, stands
beside it. The weight of the drawn points in the fit was chosen by the national score."""


def triple_score(case: Case, rows: np.ndarray) -> float:
    """Return the score over all triples of columns."""
    apart = []
    for triple in combinations(range(len(case.sizes)), 3):
        sizes = [case.sizes[place] for place in triple]
        shares = [
            np.bincount(np.ravel_multi_index(tuple(each[:, list(triple)].T), sizes), minlength=int(np.prod(sizes)))
            / len(each)
            for each in (case.private, rows)
        ]
        apart.append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return score_of(float(np.mean(apart)))


def line(case: Case, place: str, price: str, *, public: bool) -> str:
    """Return a line of the table."""
    known = sl.PublicData(case.frame(case.public), "the other place") if public else None
    table, pairs, triples = case.table, [], []
    for _ in range(RUNS):
        made = sl.Synthetic(sl.SyntheticTable(prediction=known, **PRICES[price]).release(table)).table()
        codes = np.stack([made[name].cat.codes.to_numpy(np.int64) for name in case.names], axis=1)
        pairs.append(score_of(case.error(codes)))
        triples.append(triple_score(case, codes))
    spread = f"{np.mean(pairs):.1f} ({min(pairs):.1f} to {max(pairs):.1f})"
    return f"| {place} | {price} | {'the other place' if public else 'none'} | {spread} | {np.mean(triples):.1f} |"


def page() -> str:
    """Return the page."""
    lines = [
        *HEAD.splitlines(),
        "",
        f"| place | price | public rows | score on pairs, runs: {RUNS} (range) | on triples |",
        "| --- | --- | --- | --- | --- |",
    ]
    for place, case in (("national", national()), ("Texas", texas())):
        lines += [line(case, place, price, public=public) for price in PRICES for public in (False, True)]
    if AIM_SKIPPED:
        lines += ["", f"OpenDP's AIM was not run for this page: {AIM_SKIPPED}."]
    else:
        found = against_aim()
        lines += [
            "",
            "OpenDP's AIM on the same columns of the national excerpt at (1, 1e-6), one run: "
            f"{score_of(found['opendp_aim_error']):.1f}.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page."""
    written(PAGE).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""`make bench-nist`: the page of NIST's excerpts, by many runs at several prices, with and without the other place.

    python -m benchmarks.nist_page [ours] [mst] [aim] [sdnist] [page]

The score is that of `benchmarks.nist`. With it the same over all triples of columns, which nothing here measured.
MST and AIM are run by the same script, AIM only where SIDELIGHT_PATIENT is set: half an hour. A run is
kept in a file with the page, so that a run can be made now and another later; the page says how many there are.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import sidelight as sl
from benchmarks.measuring import sized, written
from benchmarks.nist import AIM_MEGABYTES, AIM_SKIPPED, LABELS, PRICE, national, score_of, texas
from benchmarks.peers.environments import Peer, run, save_data
from benchmarks.peers.synthesis import PATIENT, peer_rows
from benchmarks.synthesis_data import Case

PAGE = Path(__file__).resolve().parents[1] / "docs" / "nist-excerpts.md"
#: A line for each run: appending one is a single write, so that two processes at once lose nothing.
KEPT = PAGE.with_suffix(".jsonl")
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
#: Peers of the national excerpt at (1, 1e-6), by method: what they are called, and how they are run. OpenDP's MST fails
#: at this price: "insufficient budget for query: 0.0008149999999999996 > 0.0008149999999999995", a rounding of its own.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mst": ("SmartNoise's MST", {"peer": "smartnoise-synth", "delta": 1e-6}),
    "aim": (
        f"OpenDP's AIM, a model of at most {AIM_MEGABYTES} MB",
        {"peer": "opendp", "megabytes": AIM_MEGABYTES},
    ),
}
#: The lines of what SDNist scored, and its scores in order; all but the first are better where they are smaller.
SDNIST, OURS = "SDNist: ", "ours, (1, 1e-6)"
SDNIST_SCORES = ("k_marginal", "propensity", "age", "housing", "unique")
KNOWN = {"sdnist": Peer(title="SDNist", program="with_sdnist", install=[["sdnist"]])}
#: By line of a table, the scores on pairs and on triples of every run.
Kept = dict[str, dict[str, list[float]]]


HEAD = """\
# NIST's excerpts

Synthetic tables of two excerpts of the American Community Survey that NIST prepared for evaluating de-identification
(usnistgov/privacy_collaborative_research_cycle): ten columns, 4.5e7 cells, the plain install,
`sl.SyntheticTable(epsilon=..., delta=...)`, adding or removing one row. Written by `make bench-nist`
(`benchmarks/nist_page.py`).

The score is 500·(2 - mean l1 distance over all 45 pairs of columns), age in bins of five years: the k-marginal of
SDNist 2.4, which takes all pairs of the columns that it is given. Earlier versions drew pairs at random, and its
reports have other columns, so compare scores within this page only.

The release measures pairs, which suits a score on pairs; the score on all 120 triples, which it did not measure, stands
in the last column. The weight of the drawn points in the fit was chosen by the national score."""

SDNIST_HEAD = """
SDNist's own program on one table each (`pip install sdnist`). Propensity is the mean squared error of a decision tree
that tells synthetic from real rows, 0 where it cannot; then rows that break its rules of age (a married child) and of
housing (an inmate who owns the jail), and rows that are unique in the national excerpt and stand in the table as well.

| rows | k-marginal | by the formula here | propensity | age | housing | unique rows |
| --- | --- | --- | --- | --- | --- | --- |"""


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


def codes_of(case: Case, release: Any) -> np.ndarray:
    """Return the synthetic rows of a release, coded."""
    made = sl.Synthetic(release).table()
    return np.stack([made[name].cat.codes.to_numpy(np.int64) for name in case.names], axis=1)


def places() -> dict[str, Case]:
    """Return the private tables by name."""
    return {"national": national(), "Texas": texas()}


def load() -> Kept:
    """Return what earlier runs kept; nothing in a tiny run."""
    kept: Kept = {}
    if sized(full=True, tiny=False) and KEPT.exists():
        for text in KEPT.read_text(encoding="utf-8").splitlines():
            run = json.loads(text)
            line = kept.setdefault(run.pop("line"), {})
            for name, value in run.items():
                line.setdefault(name, []).append(value)
    return kept


def keep(line: str, **scores: float) -> None:
    """Append the scores of a run to those that are kept."""
    text = json.dumps({"line": line, **{name: round(value, 6) for name, value in scores.items()}})
    with written(KEPT).open("ab", buffering=0) as file:
        file.write(f"{text}\n".encode())


def keep_rows(line: str, case: Case, rows: np.ndarray) -> None:
    """Score a table, and keep that."""
    keep(line, pairs=round(score_of(case.error(rows)), 2), triples=round(triple_score(case, rows), 2))


def ours() -> None:
    """Release until every line has its runs, one of each line after the other."""
    wanted = [
        (f"{place} | {price} | {'the other place' if public else 'none'}", case, price, public)
        for place, case in places().items()
        for price in PRICES
        for public in (False, True)
    ]
    for trial in range(RUNS):
        for line, case, price, public in wanted:
            if len(load().get(line, {"pairs": []})["pairs"]) <= trial:
                known = sl.PublicData(case.frame(case.public), "the other place") if public else None
                query = sl.SyntheticTable(prediction=known, **PRICES[price])
                keep_rows(line, case, codes_of(case, query.release(case.table)))


def peers(method: str) -> None:
    """Run a method of a peer once more."""
    title, settings = PEERS[method]
    case = national()
    found = peer_rows(case, method, patience=PATIENT, **settings)
    if not found.answers:
        print(f"{title}: {found.failure}", file=sys.stderr)
    for rows, seconds in zip(found.answers, found.processor, strict=True):
        print(f"{title}: {seconds:.0f} processor seconds", file=sys.stderr)
        keep_rows(title, case, rows)
        by_sdnist(title, case, rows)


def by_sdnist(title: str, case: Case, rows: np.ndarray) -> None:
    """Score rows by SDNist's own program, and keep that with the score by the formula here."""
    with tempfile.TemporaryDirectory() as folder:
        save_data(Path(folder), [{"private": case.private, "rows": rows}])
        settings: dict[str, Any] = {"trials": 1, "seconds": 1200, "known": KNOWN, "labels": LABELS}
        found = run("sdnist", "scores", data=Path(folder), **settings)
    if not found.answers:
        print(f"SDNist: {found.failure}", file=sys.stderr)
        return
    theirs = dict(zip(SDNIST_SCORES, map(float, found.answers[0]), strict=True))
    keep(SDNIST + title, formula=score_of(case.error(rows)), **theirs)


def sdnist() -> None:
    """Score one release of ours, with and without public rows, and the rows of both places."""
    case = national()
    by_sdnist("the national rows themselves", case, case.private)
    by_sdnist("Texas", case, case.public)
    for title, known in (
        (OURS, None),
        (f"{OURS}, Texas as public rows", sl.PublicData(case.frame(case.public), "Texas")),
    ):
        query = sl.SyntheticTable(prediction=known, **PRICE)
        by_sdnist(title, case, codes_of(case, query.release(case.table)))


def spread(scores: list[float]) -> str:
    """Return the mean, the range and the number of some scores."""
    return f"{np.mean(scores):.1f} ({min(scores):.1f} to {max(scores):.1f}) | {len(scores)}"


def page(kept: Kept) -> str:
    """Return the page of what is kept."""
    lines = [
        *HEAD.splitlines(),
        "",
        "| place | price | public rows | score on pairs (range) | runs | on triples |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    of_peers = [title for title, _ in PEERS.values()]
    by_it = [line for line in kept if line.startswith(SDNIST)]
    lines += [
        f"| {line} | {spread(kept[line]['pairs'])} | {np.mean(kept[line]['triples']):.1f} |"
        for line in sorted(kept.keys() - {*of_peers, *by_it}, key=_order)
    ]
    lines += [
        "",
        "MST and AIM (all pairs its workload) on the same columns of the national excerpt, by the same script, at",
        "(1, 1e-6). The size of AIM's model is a setting of its own, 80 MB by default; mbi's projections are computed",
        "in NumPy, which gives the same numbers without compiling for each.",
        "",
        "| method | score on pairs (range) | runs | on triples |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {title} | {spread(kept[title]['pairs'])} | {np.mean(kept[title]['triples']):.1f} |"
        if title in kept
        else f"| {title} | was not run | 0 | |"
        for title in of_peers
    ]
    if by_it:
        lines += [*SDNIST_HEAD.splitlines(), *(_scored(line.removeprefix(SDNIST), kept[line]) for line in by_it)]
    return "\n".join(lines) + "\n"


def _scored(title: str, scores: dict[str, list[float]]) -> str:
    last = {name: values[-1] for name, values in scores.items()}
    parts = " | ".join(f"{last[name]:.1f} %" for name in ("age", "housing", "unique"))
    return f"| {title} | {last['k_marginal']:.2f} | {last['formula']:.2f} | {last['propensity']:.4f} | {parts} |"


def _order(line: str) -> tuple[int, int, str]:
    place, price, public = line.split(" | ")
    return (place != "national", list(PRICES).index(price) if price in PRICES else 0, "b" if public == "none" else "c")


def main(parts: Sequence[str] = ()) -> None:
    """Run what is asked for, or everything, and write the page."""
    for part in parts or ["ours", "sdnist", "mst", *([] if AIM_SKIPPED else ["aim"])]:
        if part == "ours":
            ours()
        elif part == "sdnist":
            sdnist()
        elif part in PEERS:
            peers(part)
    written(PAGE).write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

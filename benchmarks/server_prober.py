"""Can an analyst feel a worker end? Prices at 50 a second while releases run that take long or no time at all.

    python -m benchmarks.server_prober

One server has a small and a large table with the same durations. Releases of both are asked in random order, and while
one runs, another analyst measures how long prices take. The mean latency of a slot is the attacker's number: how far
its AUC between the two tables is from a half, in standard deviations of chance, is `sigmas`, with `fill` (workers
compute until their slots end) and without. Only a machine that does nothing else says much.
"""

from __future__ import annotations

import math
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.analyst_server import serving, tokens_of, write_people, write_survey
from benchmarks.measuring import print_figures, sized

#: Slots of each table, rows of the large one, prices a second, and the part of a slot that is looked at, in seconds.
SLOTS, ROWS, RATE, WINDOW = sized(20, 1), sized(1_000_000, 500), 50, (0.1, 1.5)
_LEVELS = [f"{place / 100:g}" for place in range(1, 100)]
_BODY = {"query": {"kind": "quantiles", "column": "age", "levels": _LEVELS, "by": ["job"], "epsilon": "0.01"}}


def _survey(folder: Path, *, fill: bool) -> Path:
    """Write a survey of two tables that differ in their number of rows."""
    write_people(folder, rows=ROWS)
    (folder / "people.parquet").rename(folder / "large.parquet")
    file = write_survey(folder, fill=str(fill).lower())
    head, _, table = file.read_text().partition("[[table]]")
    large = table.replace('name = "people"', 'name = "large"').replace("people.parquet", "large.parquet")
    file.write_text(f"{head}[[table]]{table}\n[[table]]{large}")
    return file


def _latencies(url: str, token: str, stop: threading.Event, found: list[tuple[float, float]], first: int) -> None:
    """Request prices of new queries, at a steady rate; keep when each was sent and how long it took."""
    import httpx

    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        for place in range(10**6):
            query = {"kind": "count", "by": ["job"], "epsilon": f"0.1{first + place:06}"}
            sent = time.time()
            client.post("/v1/tables/people/price", json={"query": query, "forecast": False})
            found.append((sent, time.time() - sent))
            if stop.wait(max(0.0, 1 / RATE - (time.time() - sent))):
                return


def _slots(url: str, tokens: dict[str, str]) -> Iterator[tuple[str, float]]:
    """Yield for each release its table and the mean latency of prices while it may have run."""
    import httpx

    draw, order = random.Random("prober of a server"), ["people", "large"] * SLOTS
    draw.shuffle(order)
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {tokens['ada']}"}, timeout=60) as client:
        for place, table in enumerate(order):
            stop, found = threading.Event(), list[tuple[float, float]]()
            given = (url, tokens["bob"], stop, found, 10_000 * place)
            prober = threading.Thread(target=_latencies, args=given)
            prober.start()
            key = {"Idempotency-Key": f"slot {place}", "Prefer": "wait=30"}
            state: Any = client.post(f"/v1/tables/{table}/releases", json=_BODY, headers=key).json()
            stop.set()
            prober.join()
            start = datetime.fromisoformat(state.get("starts_at", "1970-01-01")).timestamp()
            inside = [took for sent, took in found if WINDOW[0] < sent - start < WINDOW[1]]
            if state.get("state") == "released" and inside:
                yield table, float(np.mean(inside))
            else:
                print(f"  slot {place} of {table}: {state.get('state')} {state.get('problem') or state.get('detail')}")


def _sigmas(numbers: list[tuple[str, float]]) -> tuple[float, float]:
    """Return the AUC of a latency between the tables, and how many standard deviations of chance it is from a half."""
    small, large = ([each for name, each in numbers if name == wanted] for wanted in ("people", "large"))
    if not small or not large:  # releases were dropped or refused: nothing was measured
        return math.nan, math.inf
    wins = np.mean([(b > a) + 0.5 * (b == a) for a in small for b in large])
    chance = np.sqrt((len(small) + len(large) + 1) / (12 * len(small) * len(large)))
    return float(wins), float(abs(wins - 0.5) / chance)


@cache
def measure() -> dict[str, float]:
    """Return how well latencies tell the tables apart, with `fill` and without."""
    found: dict[str, float] = {}
    for fill in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            file = _survey(Path(folder), fill=fill)
            tokens = tokens_of(file)
            with serving(file) as (url, _):
                numbers = list(_slots(url, tokens))
        name = "filled" if fill else "unfilled"
        found[f"{name}_auc"], found[f"{name}_sigmas"] = _sigmas(numbers)
        found[f"{name}_slots"] = len(numbers)
    return found


if __name__ == "__main__":
    print_figures(measure())

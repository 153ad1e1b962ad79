"""Synthetic tables of Adult against smartnoise-synth's MWEM and OpenDP's AIM, each in an environment of its own.

MWEM is pure, epsilon = 1. AIM has the rho that proves (1, 1e-6), and our releases compared with it have (1, 1e-6). Both
peers run while our tables are made. smartnoise-synth also has an AIM, with the same algorithm and library below; it had
not finished after half an hour here, so OpenDP's is measured. Without either, `python -m benchmarks.synthesis_aim` runs
the algorithm in NumPy with our fit.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import sidelight as sl
from benchmarks.peers.environments import Outcome, run, save_data
from benchmarks.synthesis import mean_error
from benchmarks.synthesis_data import Case, adult
from sidelight.guarantees.conversions import zcdp_within

EPSILON, DELTA = "1", "1e-6"
#: Seconds that the peers have in `measure`; alone on two cores MWEM took 90 and AIM 320.
PATIENCE, PATIENT = 480.0, 7200.0
#: By method.
PEERS = {"mwem": "smartnoise-synth", "aim": "opendp"}


def peer_error(case: Case, method: str, *, patience: float) -> float:
    """Return the error of a peer's table; NaN if it was not made in time."""
    found = peer_rows(case, method, peer=PEERS[method], patience=patience)
    if not found.answers:
        print(f"{method}: {found.failure}", file=sys.stderr)
        return float("nan")
    print(f"{method}: {found.seconds[0]:.0f} s", file=sys.stderr)
    return case.error(found.answers[0])


def peer_rows(case: Case, method: str, *, peer: str, patience: float, trials: int = 1, **more: Any) -> Outcome:
    """Return the tables that a peer made in time, at the price of all peers here."""
    rho = float(zcdp_within(Fraction(EPSILON), Fraction(DELTA)))
    told = {"sizes": list(case.sizes), "epsilon": float(EPSILON), "rho": rho, **more}
    with tempfile.TemporaryDirectory() as folder:
        save_data(Path(folder), [{"rows": case.private}])
        return run(peer, method, data=Path(folder), trials=trials, seconds=patience, patience=patience, **told)


def measure(*, patient: bool = False) -> dict[str, float]:
    """Return errors and ratios by name."""
    case = adult()
    patience = PATIENT if patient else PATIENCE
    with ThreadPoolExecutor(max_workers=len(PEERS)) as pool:
        waiting = [pool.submit(peer_error, case, method, patience=patience) for method in PEERS]
        pure = mean_error(case, epsilon=1, runs=2)
        price = {"epsilon": EPSILON, "delta": DELTA}
        ours = mean_error(case, runs=3, **price)
        public = sl.PublicData(case.frame(case.public), "public part of Adult")
        ours_public = mean_error(case, runs=3, prediction=public, **price)
        mwem, aim = (each.result() for each in waiting)
    return {
        "our_pure_error": pure,
        "our_error": ours,
        "our_error_with_public_part": ours_public,
        "smartnoise_mwem_error": mwem,
        "opendp_aim_error": aim,
        "ours_vs_smartnoise_mwem": pure / mwem,
        "ours_vs_opendp_aim": ours / aim,
        "ours_with_public_part_vs_opendp_aim": ours_public / aim,
    }


def main() -> None:
    """Print all figures; waits for the peers."""
    for name, value in measure(patient=True).items():
        print(f"{name:42s} {value:9.4g}")


if __name__ == "__main__":
    main()

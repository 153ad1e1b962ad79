"""Synthetic tables of Adult against smartnoise-synth's MWEM and AIM, which run in an environment of their own.

MWEM is pure, epsilon = 1; AIM has (1, 1e-6), and so do our releases beside it. A peer has PATIENCE seconds for its
table and its figures are NaN if it needs more; `python -m benchmarks.synthesis_peers` waits as long as it takes. Beside
AIM stands its algorithm in NumPy with our fit (`synthesis_aim`), which takes a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.peers import PeersError, cache_folder
from benchmarks.synthesis import mean_error
from benchmarks.synthesis_aim import aim_rows
from benchmarks.synthesis_data import Case, adult

EPSILON, DELTA = "1", "1e-6"
#: Seconds that a peer has in `measure`: MWEM may finish, AIM has not finished in half an hour.
PATIENCE = {"mwem": 300.0, "aim": 20.0}
PROGRAM = Path(__file__).with_name("synthesis_peer_program.py")
#: Without its dependencies opacus and pac-synth (6 GB), which MWEM and AIM do not use.
ALONE = ["smartnoise-synth==1.0.8"]
PACKAGES = ["smartnoise-sql>=1.0.10", "mbi>=1.1.0,<2", "Faker>=17", "disjoint-set>=0.9,<0.10"]


def prepare() -> Path:
    """Return the Python of an environment with the library; make it when missing."""
    folder = cache_folder().with_name("synthesis-peers")
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    record = folder / "installed.json"
    if record.exists() and json.loads(record.read_text()) == ALONE + PACKAGES:
        return python
    print(f"preparing an environment in {folder} (once, a few minutes) ...", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    for packages in (["--no-deps", *ALONE], PACKAGES):
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeersError(f"smartnoise-synth could not be installed: {done.stderr.strip()[-300:]}")
    record.write_text(json.dumps(ALONE + PACKAGES))
    return python


def peer_error(case: Case, peer: str, *, patience: float | None) -> float:
    """Return the error of the peer's table; NaN if it was not made in time."""
    try:
        python = prepare()
    except PeersError as error:
        print(f"{peer}: {error}", file=sys.stderr)
        return float("nan")
    with tempfile.TemporaryDirectory() as folder:
        rows, made = Path(folder) / "rows.npy", Path(folder) / "made.npy"
        np.save(rows, case.private)
        sizes = ",".join(map(str, case.sizes))
        command = [str(python), str(PROGRAM), peer, str(rows), sizes, EPSILON, DELTA, str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
        except subprocess.TimeoutExpired:
            print(f"{peer}: no table in {patience} s", file=sys.stderr)
            return float("nan")
        if done.returncode:
            print(f"{peer} failed: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return float("nan")
        return case.error(np.load(made))


def measure(*, patient: bool = False) -> dict[str, float]:
    """Return errors and ratios by name."""
    case = adult()
    pure = mean_error(case, epsilon=1, runs=1)
    price = {"epsilon": EPSILON, "delta": DELTA}
    ours = mean_error(case, runs=2, **price)
    public = sl.PublicTable(case.frame(case.public), "public part of Adult")
    ours_public = mean_error(case, runs=2, prediction=public, **price)
    mwem, aim = (peer_error(case, peer, patience=None if patient else PATIENCE[peer]) for peer in ("mwem", "aim"))
    stand_in = case.error(aim_rows(case, epsilon=float(EPSILON), delta=float(DELTA)))
    return {
        "our_pure_error": pure,
        "our_error": ours,
        "our_error_with_public_part": ours_public,
        "smartnoise_mwem_error": mwem,
        "smartnoise_aim_error": aim,
        "aim_in_numpy_error": stand_in,
        "ours_vs_smartnoise_mwem": pure / mwem,
        "ours_vs_smartnoise_aim": ours / aim,
        "ours_with_public_part_vs_smartnoise_aim": ours_public / aim,
        "ours_vs_aim_in_numpy": ours / stand_in,
        "ours_with_public_part_vs_aim_in_numpy": ours_public / stand_in,
    }


def main() -> None:
    """Print all figures; waits for the peers."""
    for name, value in measure(patient=True).items():
        print(f"{name:42s} {value:9.4g}")


if __name__ == "__main__":
    main()

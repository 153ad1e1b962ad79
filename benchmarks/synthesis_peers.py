"""Synthetic tables of Adult against smartnoise-synth's MWEM and AIM, which run in an environment of their own.

MWEM is pure, epsilon = 1; AIM has (1, 1e-6), and so do our releases beside it. A table of a peer takes many minutes at
1e5 cells, so it is made once and kept in the user's cache, under a name that says of which data and program it is;
`python -m benchmarks.synthesis_peers` waits for it as long as it takes, `measure` for PATIENCE seconds, and gives NaN
if there is none then. Beside AIM stands its algorithm in NumPy with our fit (`synthesis_aim`), which takes a minute.
"""

from __future__ import annotations

import hashlib
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

EPSILON, DELTA, PATIENCE = "1", "1e-6", 60
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


def kept_table(case: Case, peer: str) -> Path:
    """Return where the peer's table of this data and program is kept."""
    text = json.dumps([peer, case.sizes, EPSILON, DELTA, ALONE, PACKAGES]) + PROGRAM.read_text()
    digest = hashlib.sha256(text.encode() + np.ascontiguousarray(case.private).tobytes()).hexdigest()[:16]
    return cache_folder().with_name("synthesis-tables") / f"{peer}-{digest}.npy"


def peer_error(case: Case, peer: str, *, patience: float | None) -> float:
    """Return the error of the peer's table; NaN if it was not made in time."""
    path = kept_table(case, peer)
    if not path.exists() and not _make(case, peer, path, patience=patience):
        print(f"{peer}: no table in {patience} s; python -m benchmarks.synthesis_peers waits for it", file=sys.stderr)
        return float("nan")
    return case.error(np.load(path))


def _make(case: Case, peer: str, path: Path, *, patience: float | None) -> bool:
    try:
        python = prepare()
    except PeersError as error:
        print(f"{peer}: {error}", file=sys.stderr)
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        rows, made = Path(folder) / "rows.npy", Path(folder) / "made.npy"
        np.save(rows, case.private)
        sizes = ",".join(map(str, case.sizes))
        command = [str(python), str(PROGRAM), peer, str(rows), sizes, EPSILON, DELTA, str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience)
        except subprocess.TimeoutExpired:
            return False
        if done.returncode:
            print(f"{peer} failed: {done.stderr.strip()[-300:]}", file=sys.stderr)
            return False
        path.write_bytes(made.read_bytes())
    return True


def measure(*, patience: float | None = PATIENCE) -> dict[str, float]:
    """Return errors and ratios by name."""
    case = adult()
    pure = mean_error(case, epsilon=1, runs=1)
    price = {"epsilon": EPSILON, "delta": DELTA}
    ours = mean_error(case, runs=2, **price)
    public = sl.PublicTable(case.frame(case.public), "public part of Adult")
    ours_public = mean_error(case, runs=2, prediction=public, **price)
    mwem, aim = (peer_error(case, peer, patience=patience) for peer in ("mwem", "aim"))
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
    for name, value in measure(patience=None).items():
        print(f"{name:42s} {value:9.4g}")


if __name__ == "__main__":
    main()

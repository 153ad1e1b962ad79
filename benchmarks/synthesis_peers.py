"""Synthetic tables of Adult against smartnoise-synth's MWEM and OpenDP's AIM, each in an environment of its own.

MWEM is pure, epsilon = 1. AIM has the rho that proves (1, 1e-6), and our releases beside it have (1, 1e-6). Both peers
run while our tables are made. smartnoise-synth has an AIM, too, with the same algorithm and library below; it had not
finished after half an hour here, so OpenDP's is measured. Without either, `python -m benchmarks.synthesis_aim` runs the
algorithm in NumPy with our fit.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from fractions import Fraction
from pathlib import Path

import numpy as np

import sidelight as sl
from benchmarks.peers import PeersError, cache_folder
from benchmarks.synthesis import mean_error
from benchmarks.synthesis_data import Case, adult
from sidelight.guarantees.conversions import zcdp_within

EPSILON, DELTA = "1", "1e-6"
#: Seconds that the peers have in `measure`; alone on two cores MWEM took 90 and AIM 320.
PATIENCE = 480.0
PROGRAM = Path(__file__).with_name("synthesis_peer_program.py")
#: Installed in this order. Of smartnoise-synth without its dependencies opacus and pac-synth (6 GB), which MWEM does
#: not use.
PACKAGES = {
    "mwem": [
        ["--no-deps", "smartnoise-synth==1.0.8"],
        ["smartnoise-sql>=1.0.10", "mbi>=1.1.0,<2", "Faker>=17", "disjoint-set>=0.9,<0.10"],
    ],
    "aim": [["opendp[mbi]==0.16.0", "pandas", "pyarrow"]],
}


def prepare(peer: str) -> Path:
    """Return the Python of an environment with a peer's library; make it when missing."""
    folder = cache_folder().with_name(f"synthesis-{peer}")
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    record = folder / "installed.json"
    if record.exists() and json.loads(record.read_text()) == PACKAGES[peer]:
        return python
    print(f"preparing an environment in {folder} (once, a few minutes) ...", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    for packages in PACKAGES[peer]:
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PeersError(f"{peer} could not be installed: {done.stderr.strip()[-300:]}")
    record.write_text(json.dumps(PACKAGES[peer]))
    return python


class PeerRun:
    """A peer at work on a case, in a process of its own."""

    def __init__(self, case: Case, peer: str, folder: Path) -> None:
        self.case = case
        self.peer = peer
        self.made = folder / f"{peer}.npy"
        self._process: subprocess.Popen[str] | None = None
        try:
            python = prepare(peer)
        except PeersError as error:
            print(f"{peer}: {error}", file=sys.stderr)
            return
        rows = folder / f"{peer}-rows.npy"
        np.save(rows, case.private)
        rho = float(zcdp_within(Fraction(EPSILON), Fraction(DELTA)))
        command = [python, PROGRAM, peer, rows, ",".join(map(str, case.sizes)), EPSILON, str(rho), self.made]
        self._process = subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def error(self, *, patience: float | None) -> float:
        """Return the error of the peer's table; NaN if it was not made in time."""
        if self._process is None:
            return float("nan")
        try:
            printed, complaints = self._process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            print(f"{self.peer}: no table in {patience} s", file=sys.stderr)
            return float("nan")
        if self._process.returncode:
            print(f"{self.peer} failed: {complaints.strip()[-300:]}", file=sys.stderr)
            return float("nan")
        print(f"{self.peer}: {json.loads(printed)['seconds']:.0f} s", file=sys.stderr)
        return self.case.error(np.load(self.made))


def measure(*, patient: bool = False) -> dict[str, float]:
    """Return errors and ratios by name."""
    case = adult()
    with tempfile.TemporaryDirectory() as folder:
        runs = [PeerRun(case, peer, Path(folder)) for peer in ("mwem", "aim")]
        pure = mean_error(case, epsilon=1, runs=2)
        price = {"epsilon": EPSILON, "delta": DELTA}
        ours = mean_error(case, runs=3, **price)
        public = sl.PublicData(case.frame(case.public), "public part of Adult")
        ours_public = mean_error(case, runs=3, prediction=public, **price)
        mwem, aim = (run.error(patience=None if patient else PATIENCE) for run in runs)
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

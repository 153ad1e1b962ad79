"""Nine deciles with other libraries and with ours, in one run: time and mean largest rank error, and the ratios.

The peers live in a virtual environment of their own (their pins do not fit ours), made in the user's cache when it is
missing. N(0,1), bounds [-10, 10], one total pure epsilon of 1 under adding or removing a row, levels 0.1 ... 0.9.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np

import sidelight as sl
from sidelight.quantiles.evaluate import nonprivate_gap
from sidelight.quantiles.tree import even_levels

#: diffprivlib 0.6.6 works with scikit-learn up to 1.7.2 only; python-dp below 1.1 has no quantile tree.
PACKAGES = {
    "diffprivlib": ["diffprivlib", "scikit-learn<=1.7.2"],
    "opendp": ["opendp"],
    "python_dp": ["python-dp>=1.1"],
}
#: Trials for each peer and number of rows; few where one takes seconds.
TRIALS = {
    "diffprivlib": {10_000: 40, 1_000_000: 3},
    "opendp": {10_000: 40, 1_000_000: 12},
    "python_dp": {10_000: 40, 1_000_000: 12},
    "quantile_tree": {10_000: 100, 1_000_000: 40},
}
SIZES = {10_000: "1e4", 1_000_000: "1e6"}
OUR_TRIALS = {10_000: 200, 1_000_000: 60}
DECILES = even_levels(9)


class PeersError(RuntimeError):
    """The peers cannot be installed here; the message says why and what to do."""


def cache_folder() -> Path:
    """Return where the peers' environment lives."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sidelight" / "peers"


def prepare(folder: Path | None = None) -> tuple[Path, dict[str, str]]:
    """Return the environment's Python and, for each peer that could not be installed, why. Makes it when missing."""
    folder = cache_folder() if folder is None else folder
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    record = folder / "installed.json"
    if record.exists():
        known = json.loads(record.read_text())
        if known["packages"] == PACKAGES:
            return python, known["missing"]
    print(f"preparing the peers' environment in {folder} (once, about a minute) ...", file=sys.stderr, flush=True)
    venv.create(folder, with_pip=True, clear=True)
    missing = {}
    for peer, packages in PACKAGES.items():
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            missing[peer] = reason[-1] if reason else done.stderr.strip()[-300:]
    if len(missing) == len(PACKAGES):
        raise PeersError(
            f"no peer could be installed ({missing['opendp']}); this benchmark needs the package index: connect, or "
            "set PIP_INDEX_URL to a mirror, and run it again"
        )
    record.write_text(json.dumps({"packages": PACKAGES, "missing": missing}))
    return python, missing


def run_peer(python: Path, peer: str, rows: int) -> dict[str, float]:
    """Run one peer in its environment."""
    program = Path(__file__).with_name("peer_programs.py")
    command = [str(python), str(program), peer, str(rows), str(TRIALS[peer][rows])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PeersError(f"{peer} failed at {rows} rows: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout)
    return {"gap": found["gap"], "seconds": found["seconds"]}


def run_ours(rows: int, *, trials: int) -> dict[str, float]:
    """Run our release path, session and ledger-free door included."""
    query = sl.Quantiles(DECILES, epsilon=1, lower=-10, upper=10)
    rng = np.random.default_rng(rows)
    gaps, seconds = [], []
    for _ in range(trials):
        values = rng.standard_normal(rows)
        start = time.perf_counter()
        outputs = query.release(values).value
        seconds.append(time.perf_counter() - start)
        gaps.append(float(nonprivate_gap(values, DECILES, outputs).max()))
    return {"gap": statistics.mean(gaps), "seconds": statistics.median(seconds)}


def measure() -> dict[str, float]:
    """Return gaps, seconds and ratios by name; NaN where a peer has no wheel for this machine."""
    python, missing = prepare()
    figures: dict[str, float] = {}
    for rows, size in SIZES.items():
        ours = run_ours(rows, trials=OUR_TRIALS[rows])
        figures[f"our_gap_{size}"], figures[f"our_seconds_{size}"] = ours["gap"], ours["seconds"]
        gaps = []
        for peer in TRIALS:
            if peer in missing:
                figures[f"{peer}_time_vs_ours_{size}"] = float("nan")
                continue
            if peer == "quantile_tree" and "python_dp" not in missing:
                continue  # the stand-in is for machines without the original
            found = run_peer(python, peer, rows)
            gaps.append(found["gap"])
            figures[f"{peer}_gap_{size}"], figures[f"{peer}_seconds_{size}"] = found["gap"], found["seconds"]
            if peer != "quantile_tree":
                figures[f"{peer}_time_vs_ours_{size}"] = found["seconds"] / ours["seconds"]
        figures[f"our_gap_vs_best_peer_{size}"] = ours["gap"] / min(gaps)
    return figures


def main() -> None:
    """Print a table, or say why there is none."""
    try:
        _, missing = prepare()
        figures = measure()
    except PeersError as error:
        sys.exit(f"peers: {error}")
    print("nine deciles of N(0,1), bounds [-10, 10], epsilon 1: mean largest gap in ranks, median seconds, times ours")
    for size in SIZES.values():
        print(f"\nn = {size}")
        best = figures[f"our_gap_vs_best_peer_{size}"]
        print(f"  {'sidelight':16s} {figures[f'our_gap_{size}']:9.1f} {figures[f'our_seconds_{size}']:10.4f} s")
        for peer in TRIALS:
            if f"{peer}_gap_{size}" in figures:
                ratio = figures[f"{peer}_seconds_{size}"] / figures[f"our_seconds_{size}"]
                gap, seconds = figures[f"{peer}_gap_{size}"], figures[f"{peer}_seconds_{size}"]
                note = "  (Google's algorithm in NumPy: error only)" if peer == "quantile_tree" else ""
                print(f"  {peer:16s} {gap:9.1f} {seconds:10.4f} s  {ratio:7.1f}x{note}")
        print(f"  our gap / best peer's gap: {best:.2f}")
    for peer, reason in missing.items():
        print(f"\n{peer} was not measured on {platform.machine()}: {reason}")


if __name__ == "__main__":
    main()

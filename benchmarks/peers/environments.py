"""One environment for each other library, and one way to run a program in it.

Environments live in `build/peers`, made once by `python -m venv` and pip, by package name: the newest version that
fits, since their pins do not fit ours or each other's. A library that cannot be installed is one that says why.
`SIDELIGHT_PEERS` names another folder.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import TINY

ROOT = Path(__file__).resolve().parents[2]
#: Our own library, in this environment.
OURS = "sidelight"


class PeersError(RuntimeError):
    """A peer cannot be installed here, or failed; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """Another library: how it is called, how pip installs it, and which program runs it."""

    title: str
    program: str
    #: One pip command after the other.
    install: Sequence[Sequence[str]]
    #: A command that must be there, and what it is.
    needs: tuple[str, str] | None = None
    note: str = ""


PEERS: dict[str, Peer] = {
    "opendp": Peer(
        title="OpenDP", program="with_opendp", install=[["opendp[polars,scikit-learn,mbi]", "randomgen", "pandas"]]
    ),
    "diffprivlib": Peer(
        title="diffprivlib",
        program="with_diffprivlib",
        install=[["diffprivlib", "scikit-learn<=1.7.2"]],
        note="Works with scikit-learn up to 1.7.2 only.",
    ),
    "smartnoise-sql": Peer(title="SmartNoise SQL", program="with_smartnoise_sql", install=[["smartnoise-sql"]]),
    "smartnoise-synth": Peer(
        title="SmartNoise Synthesizers",
        program="with_smartnoise_synth",
        install=[
            ["--no-deps", "smartnoise-synth"],
            ["smartnoise-sql>=1.0.10", "mbi>=1.1.0,<2", "Faker>=17", "disjoint-set>=0.9,<0.10"],
        ],
        note="Without its dependencies opacus and pac-synth (6 GB), which the methods here do not use.",
    ),
    "python-dp": Peer(
        title="PyDP",
        program="with_python_dp",
        install=[["python-dp>=1.1", "numpy"]],
        note="Google's C++ library; wheels for x86-64 only.",
    ),
    "tumult": Peer(
        title="Tumult Analytics",
        program="with_tumult",
        install=[["tmlt.analytics"]],
        needs=("java", "Java 11 or 17"),
        note="On Spark, on one machine: its seconds are Spark's for the most part, and it is made for many.",
    ),
    "interpret": Peer(
        title="InterpretML",
        program="with_interpret",
        install=[["interpret-core", "scikit-learn"]],
        note="DP-EBM's claim leaves out: the exact number of rows sets the threshold at which its bins are merged; "
        "labels of categories are read off the rows; its regressor clips targets, not residuals, and its noise is for "
        "residuals within the range of the target.",
    ),
}
#: Programs that are not packages and are therefore not compared, and why.
NO_PACKAGES = {
    "SliceQuantiles": "The program of the authors of *Differentially Private Quantiles with Smaller Error* "
    "(NynsenFaber/DP_CC_quantiles) is a repository with a Conda environment, not on the package index: not installed."
}


def folder_of_environments() -> Path:
    """Return where the environments live."""
    return Path(os.environ.get("SIDELIGHT_PEERS", ROOT / "build" / "peers"))


def prepare(peer: str, *, known: Mapping[str, Peer] = PEERS, folder: Path | None = None) -> Path:
    """Return the Python of a peer's environment; make it when missing. Raises `PeersError` where it cannot be."""
    if peer == OURS:
        return Path(sys.executable)
    if TINY:
        raise PeersError("a tiny run installs nothing")
    wanted = known[peer]
    if wanted.needs is not None and shutil.which(wanted.needs[0]) is None:
        raise PeersError(f"{wanted.title} needs {wanted.needs[1]}, which is not on this machine")
    place = (folder or folder_of_environments()) / peer
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    record = place / "installed.json"
    asked = [list(command) for command in wanted.install]
    if record.exists():
        found = json.loads(record.read_text(encoding="utf-8"))
        if found["install"] == asked and found["failure"] is None:
            return python
    print(f"preparing {wanted.title} in {place} (once, about a minute) ...", file=sys.stderr, flush=True)
    _shell([sys.executable, "-m", "venv", "--clear", str(place)])
    failure = None
    for command in asked:
        failure = _shell([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *command])
        if failure is not None:
            break
    record.write_text(json.dumps({"install": asked, "failure": failure}), encoding="utf-8")
    if failure is not None:
        raise PeersError(f"pip install {' '.join(asked[-1])} failed: {failure}")
    return python


def _shell(command: list[str]) -> str | None:
    """Return None when a command went well, else its last word on what was wrong."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return None if done.returncode == 0 else last_line(done.stderr or done.stdout)


def last_line(told: str) -> str:
    """Return the line that says most: pip's last error, or the last one."""
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1][:300]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a program had released when it ended or was stopped."""

    answers: list[np.ndarray] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    version: str | None = None
    #: Why trials are missing, None if all were made.
    failure: str | None = None


def save_data(folder: Path, data: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Write data sets where programs look for them."""
    for place, arrays in enumerate(data):
        np.savez(folder / f"{place}.npz", **arrays)  # type: ignore[arg-type]


def run(
    peer: str,
    method: str,
    *,
    data: Path,
    trials: int,
    seconds: float,
    patience: float | None = None,
    program: str | None = None,
    known: Mapping[str, Peer] = PEERS,
    **public: Any,
) -> Outcome:
    """Run a method of a peer on data sets in its own environment and process; never raises for what goes wrong there.

    Args:
        peer: A name of `PEERS`, or `OURS`.
        method: A name that its program knows.
        data: The folder that `save_data` filled.
        trials: How many releases are wanted.
        seconds: The time after which no further release begins.
        patience: The time after which the process is stopped; a minute more than `seconds` if left out.
        program: Another program than the peer's own.
        known: Peers by name; others than `PEERS` for tests.
        public: What the method needs to know, as JSON: epsilon, bounds, labels.

    Returns:
        What it had released; `failure` says why there is not more.
    """
    patience = seconds + 60 if patience is None else patience
    try:
        python = prepare(peer, known=known)
    except PeersError as error:
        return Outcome(failure=str(error))
    name = program or ("with_sidelight" if peer == OURS else known[peer].program)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        job = {"method": method, "data": str(data), "trials": trials, "seconds": seconds, **public}
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        failure = _stopped_or_failed([str(python), "-m", f"benchmarks.peers.programs.{name}", place], patience)
        result = folder / "result.json"
        if not result.exists():
            return Outcome(failure=failure or "it ended without an answer")
        found = json.loads(result.read_text(encoding="utf-8"))
        answers = [np.load(folder / f"answer-{trial}.npy") for trial in range(len(found["seconds"]))]
    return Outcome(answers=answers, failure=failure, **found)


def _stopped_or_failed(command: list[str], patience: float) -> str | None:
    """Run a program to its end; say why, if it did not come to a good one."""
    source = ROOT / "src"
    paths = [str(ROOT), *([str(source)] if "with_sidelight" in command[2] else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # stopped together with what it started, such as Spark
    )
    try:
        _, complaints = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        _stop(process)
        return f"no answer in {patience:.0f} s"
    return None if process.returncode == 0 else f"failed: {last_line(complaints)}"


def _stop(process: subprocess.Popen[str]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()

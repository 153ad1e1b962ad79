"""Scripts that targets ask for, in a file that a new process reads in no time."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path


def told() -> Mapping[str, float]:
    return {"process": float(os.getpid()), "one": float(os.environ.get("OMP_NUM_THREADS", "2"))}


def dies() -> Mapping[str, float]:
    os._exit(3)


def slow() -> Mapping[str, float]:
    time.sleep(0.3)
    Path(os.environ["TOLD"]).touch()
    return told()


def alone() -> Mapping[str, float]:
    return {"one": told()["one"], "after": float(Path(os.environ["TOLD"]).exists())}


def fails() -> Mapping[str, float]:
    raise ValueError("no server here")

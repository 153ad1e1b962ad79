"""The tool as a new user meets it: a budget that can be predicted, a quick start, nothing without documentation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

from benchmarks import (
    budget_histories,
    disclosures,
    error_bounds,
    install_size,
    messy_files,
    metadata_round_trip,
    new_user,
    newcomer,
)
from benchmarks.target import Target

_TIMED = "import time; t = time.process_time(); import {name}; print(time.process_time() - t)"


def start() -> Mapping[str, float]:
    """Measure the CPU time of an import, the median of nine fresh processes each, as a ratio to numpy's."""

    def median(name: str) -> float:
        runs = [subprocess.run([sys.executable, "-c", _TIMED.format(name=name)], capture_output=True, check=True)]
        runs += [
            subprocess.run([sys.executable, "-c", _TIMED.format(name=name)], capture_output=True, check=True)
            for _ in range(8)
        ]
        return sorted(float(run.stdout) for run in runs)[4]

    return {"vs_numpy": median("sidelight") / median("numpy")}


def names() -> Mapping[str, float]:
    """Count the public names that no page of the reference shows, or that have no docstring."""
    from docs.api_pages import PAGES

    import sidelight

    shown = {str(name).rsplit(".", 1)[-1] for page in PAGES.values() for name in page}
    missing = [
        name
        for name in sidelight.__all__
        if not name.startswith("_")
        and (name not in shown or not (getattr(getattr(sidelight, name), "__doc__", None) or "").strip())
    ]
    return {"undocumented": float(len(missing))}


TARGETS = [
    Target("kinds-without-error", error_bounds.kinds, "without", "<=", 0),
    Target("bound-over-error-quantiles", error_bounds.bounds, "ratio", "<=", 3),
    Target("refused-though-sum-fits", budget_histories.measure, "refused", "<=", 0),
    Target("minutes-to-report", new_user.measure, "commands", "<=", 6),
    Target("lines-of-toml-edited", new_user.measure, "edited", "<=", 0),
    Target("first-report-wrong-numbers", new_user.measure, "wrong", "<=", 0),
    Target("messy-file-wrong-numbers", messy_files.measure, "wrong", "<=", 0),
    Target("metadata-roundtrip-differs", metadata_round_trip.measure, "differs", "<=", 0),
    Target("install-mb", install_size.measure, "megabytes", "<=", 350),
    Target("first-section-fails-without-extras", install_size.measure, "failed", "<=", 0),
    Target("import-vs-numpy", start, "vs_numpy", "<=", 2.5),
    Target("newcomer-findings-open", newcomer.measure, "open", "<=", 0),
    Target("disclosure-invalid", disclosures.measure, "invalid", "<=", 0),
    Target("public-names-undocumented", names, "undocumented", "<=", 0),
]

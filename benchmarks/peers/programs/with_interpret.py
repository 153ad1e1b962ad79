"""InterpretML's differentially private boosting machines (DP-EBM), with their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers.programs.trial import Data, Job, main


def linear(job: Job) -> Callable[[Data], Any]:
    """Predictions for the test rows."""
    from interpret.privacy import DPExplainableBoostingRegressor  # type: ignore[import-not-found]

    lower, upper = job["target_range"]
    settings = {"privacy_target_min": lower, "privacy_target_max": upper, **_settings(job)}
    return lambda data: (
        DPExplainableBoostingRegressor(**settings).fit(data["rows"], data["target"]).predict(data["test_rows"])
    )


def logistic(job: Job) -> Callable[[Data], Any]:
    """Labels for the test rows."""
    from interpret.privacy import DPExplainableBoostingClassifier

    settings = _settings(job)
    return lambda data: (
        DPExplainableBoostingClassifier(**settings).fit(data["rows"], data["target"]).predict(data["test_rows"])
    )


def _settings(job: Job) -> dict[str, Any]:
    """Return the budget, and what is public about columns: kinds and ranges, which would be read off the rows else."""
    lowest, highest = job["row_bounds"]
    return {
        "epsilon": float(job["epsilon"]),
        "delta": float(job["delta"]),
        "feature_types": ["continuous"] * len(lowest),
        "privacy_bounds": dict(enumerate(zip(lowest, highest, strict=True))),
    }


if __name__ == "__main__":
    main("interpret-core", {method.__name__: method for method in (linear, logistic)})

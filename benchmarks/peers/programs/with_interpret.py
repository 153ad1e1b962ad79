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


def additive(job: Job) -> Callable[[Data], Any]:
    """Predictions of a number, or probabilities of the second class, for the test rows; labels are numbers of texts."""
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    nominal = [place for place, bounds in enumerate(job["bounds"]) if bounds is None]
    settings = {
        "epsilon": float(job["epsilon"]),
        "delta": float(job["delta"]),
        "feature_types": ["nominal" if bounds is None else "continuous" for bounds in job["bounds"]],
        "privacy_bounds": {place: tuple(bounds) for place, bounds in enumerate(job["bounds"]) if bounds is not None},
    }

    def cells(rows: Any) -> Any:
        found = rows.astype(object)
        for place in nominal:
            found[:, place] = [str(int(code)) for code in rows[:, place]]
        return found

    def fit(data: Data) -> Any:
        rows, test = cells(data["rows"]), cells(data["test_rows"])
        if job["target_range"] is None:
            model = DPExplainableBoostingClassifier(**settings).fit(rows, data["target"].astype(int))
            return model.predict_proba(test)[:, 1]
        lower, upper = job["target_range"]
        model = DPExplainableBoostingRegressor(privacy_target_min=lower, privacy_target_max=upper, **settings)
        return model.fit(rows, data["target"]).predict(test)

    return fit


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
    main("interpret-core", {method.__name__: method for method in (linear, logistic, additive)})

"""diffprivlib, as its documentation has it: one call a statistic, bounds declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main, pairs_of


def counts(job: Job) -> Callable[[Data], Any]:
    """A histogram with one bin a group."""
    from diffprivlib import tools

    edges = np.arange(job["groups"] + 1) - 0.5
    return lambda data: tools.histogram(data["group"], epsilon=job["epsilon"], bins=edges)[0]


def means(job: Job) -> Callable[[Data], Any]:
    """A mean of the rows of each group; a group without rows has none, and the middle of the bounds is said."""
    from diffprivlib import tools

    lower, upper = job["bounds"]

    def release(data: Data) -> list[float]:
        parts = [data["x"][data["group"] == group] for group in range(job["groups"])]
        return [
            float(tools.mean(part, epsilon=job["epsilon"], bounds=(lower, upper))) if len(part) else (lower + upper) / 2
            for part in parts
        ]

    return release


def quantiles(job: Job) -> Callable[[Data], Any]:
    """A call a level, with an equal share of the budget each: the library has nothing joint."""
    from diffprivlib import tools

    share, bounds = job["epsilon"] / len(job["levels"]), tuple(job["bounds"])
    return lambda data: [tools.quantile(data["x"], level, epsilon=share, bounds=bounds) for level in job["levels"]]


def covariance(job: Job) -> Callable[[Data], Any]:
    """Eigenvectors one after the other, about 0."""
    from diffprivlib.models.utils import covariance_eig

    def release(data: Data) -> np.ndarray:
        values, vectors = covariance_eig(data["rows"], epsilon=job["epsilon"], norm=job["radius"])
        return np.asarray((vectors * values) @ vectors.T / len(data["rows"]))

    return release


def linear(job: Job) -> Callable[[Data], Any]:
    """The functional mechanism; predictions for the test rows."""
    from diffprivlib.models import LinearRegression

    bounds: dict[str, Any] = {"bounds_X": tuple(job["row_bounds"]), "bounds_y": tuple(job["target_range"])}
    return lambda data: (
        LinearRegression(epsilon=job["epsilon"], **bounds).fit(data["rows"], data["target"]).predict(data["test_rows"])
    )


def logistic(job: Job) -> Callable[[Data], Any]:
    """Objective perturbation, with the settings of the job; labels for the test rows."""
    from diffprivlib.models import LogisticRegression

    settings = job.get("settings", {})
    return lambda data: (
        LogisticRegression(epsilon=job["epsilon"], data_norm=job["data_norm"], **settings)
        .fit(data["rows"], data["target"])
        .predict(data["test_rows"])
    )


def marginals(job: Job) -> Callable[[Data], Any]:
    """A histogram of two columns for every pair, with an equal share of the budget each."""
    from diffprivlib import tools

    pairs = pairs_of(job["sizes"])
    share, edges = job["epsilon"] / len(pairs), [np.arange(size + 1) - 0.5 for size in job["sizes"]]

    def release(data: Data) -> np.ndarray:
        rows = data["rows"]
        tables = [
            tools.histogram2d(rows[:, first], rows[:, second], epsilon=share, bins=[edges[first], edges[second]])[0]
            for first, second in pairs
        ]
        return np.concatenate([table.ravel() for table in tables])

    return release


if __name__ == "__main__":
    methods = (counts, means, quantiles, covariance, linear, logistic, marginals)
    main("diffprivlib", {method.__name__: method for method in methods})

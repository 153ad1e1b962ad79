"""PyDP, Google's library in Python: counts, bounded means, and its quantile tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main


def counts(job: Job) -> Callable[[Data], Any]:
    """A count of the rows of each group."""
    from pydp.algorithms.laplacian import Count  # type: ignore[import-not-found]

    def release(data: Data) -> list[float]:
        parts = [data["group"][data["group"] == group].tolist() for group in range(job["groups"])]
        return [float(Count(epsilon=job["epsilon"], dtype="int").quick_result(part)) for part in parts]

    return release


def means(job: Job) -> Callable[[Data], Any]:
    """A bounded mean of the rows of each group."""
    from pydp.algorithms.laplacian import BoundedMean

    lower, upper = job["bounds"]

    def release(data: Data) -> list[float]:
        parts = [data["x"][data["group"] == group].tolist() for group in range(job["groups"])]
        query = {"epsilon": job["epsilon"], "lower_bound": lower, "upper_bound": upper, "dtype": "float"}
        return [float(BoundedMean(**query).quick_result(part)) for part in parts]

    return release


def quantiles(job: Job) -> Callable[[Data], Any]:
    """The quantile tree (the one of PipelineDP), with its default height 4 and branching 16."""
    from pydp.algorithms.quantile_tree import QuantileTree  # type: ignore[import-not-found]

    lower, upper = job["bounds"]

    def release(data: Data) -> np.ndarray:
        tree = QuantileTree(lower, upper, 4, 16)
        for value in data["x"]:
            tree.add_entry(value)
        return np.asarray(tree.compute_quantiles(job["epsilon"], 0.0, 1, 1, job["levels"], "laplace"))

    return release


if __name__ == "__main__":
    main("python-dp", {method.__name__: method for method in (counts, means, quantiles)})

"""SmartNoise SQL: SELECT with GROUP BY over a frame, with the labels public and one row a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main, pairs_of


def counts(job: Job) -> Callable[[Data], Any]:
    """COUNT(*) by group."""
    ask = _asker(job, {"g": "int"})

    def release(data: Data) -> np.ndarray:
        found = ask({"g": data["group"]}, "SELECT g, COUNT(*) AS n FROM main.people GROUP BY g", float(job["epsilon"]))
        return _in_order(found, (job["groups"],), missing=0.0)

    return release


def means(job: Job) -> Callable[[Data], Any]:
    """AVG by group; the budget that the reader says the statement costs is the whole one."""
    lower, upper = job["bounds"]
    ask = _asker(job, {"g": "int", "x": "float"})

    def release(data: Data) -> np.ndarray:
        columns = {"g": data["group"], "x": data["x"]}
        found = ask(columns, "SELECT g, AVG(x) AS m FROM main.people GROUP BY g", float(job["epsilon"]))
        return np.clip(_in_order(found, (job["groups"],), missing=(lower + upper) / 2), lower, upper)

    return release


def marginals(job: Job) -> Callable[[Data], Any]:
    """COUNT(*) by every pair of columns, with an equal share of the budget each."""
    sizes = job["sizes"]
    names = [f"c{place}" for place in range(len(sizes))]
    ask, share = _asker(job, dict.fromkeys(names, "int")), float(job["epsilon"]) / len(pairs_of(sizes))

    def release(data: Data) -> np.ndarray:
        columns = {name: data["rows"][:, place] for place, name in enumerate(names)}
        tables = []
        for first, second in pairs_of(sizes):
            one, two = names[first], names[second]
            query = f"SELECT {one}, {two}, COUNT(*) AS n FROM main.people GROUP BY {one}, {two}"
            tables.append(_in_order(ask(columns, query, share), (sizes[first], sizes[second]), missing=0.0).ravel())
        return np.concatenate(tables)

    return release


def _asker(job: Job, kinds: dict[str, str]) -> Callable[[dict[str, np.ndarray], str, float], list[Any]]:
    """Return what asks one statement at a total pure epsilon."""
    import pandas as pd
    import snsql  # type: ignore[import-not-found]

    columns: dict[str, Any] = {name: {"type": kind} for name, kind in kinds.items()}
    if "x" in columns:
        columns["x"] |= {"lower": float(job["bounds"][0]), "upper": float(job["bounds"][1])}
    table = {"row_privacy": True, "censor_dims": False, "rows": job["rows_at_most"], **columns}
    metadata = {"": {"main": {"people": table}}}

    def reader(frame: Any, epsilon: float) -> Any:
        return snsql.from_df(frame, privacy=snsql.Privacy(epsilon=epsilon, delta=0.0), metadata=metadata)

    def ask(arrays: dict[str, np.ndarray], query: str, epsilon: float) -> list[Any]:
        frame = pd.DataFrame(arrays)
        cost, _ = reader(frame, 1.0).get_privacy_cost(query)  # of all noisy columns, at epsilon 1 each
        return list(reader(frame, epsilon / cost).execute(query)[1:])

    return ask


def _in_order(found: list[Any], shape: tuple[int, ...], *, missing: float) -> np.ndarray:
    values = np.full(shape, missing)
    for *keys, value in found:
        if value is not None and np.isfinite(float(value)):
            values[tuple(int(key) for key in keys)] = float(value)
    return values


if __name__ == "__main__":
    main("smartnoise-sql", {method.__name__: method for method in (counts, means, marginals)})

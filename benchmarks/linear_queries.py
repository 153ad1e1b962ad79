"""The error of linear queries by engine, on generated tables of one column: seeded noise, no prediction.

The mean over the queries of |answer - truth| as a share of the rows; mean of three tables. "mwem" is the literature's
algorithm as published, "queries" and "marginals" are ours, "auto" chooses between those two. `prior` is the error of
the uniform table, which is where all of them start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sidelight as sl
from benchmarks.measuring import sized
from sidelight.synthesis import linear_queries
from sidelight.testing import seeded_release

ENGINES = ("mwem", "queries", "marginals", "auto")
RUNS = sized(3, 1)


@dataclass(frozen=True)
class Case:
    """`queries` linear queries on `cells` cells: "ranges", "halves" (random halves of the cells) or "few" (2 %)."""

    kind: str
    queries: int
    cells: int
    rows: int
    price: tuple[str, str] = ("rho", "0.05")

    @property
    def name(self) -> str:
        """A name for the table of results."""
        return f"{self.queries}_{self.kind}_{self.cells}_cells_{self.rows}_rows_{self.price[0]}_{self.price[1]}"

    def matrix(self, rng: np.random.Generator) -> NDArray[Any]:
        """Return the queries."""
        shape = (self.queries, self.cells)
        if self.kind != "ranges":
            return (rng.random(shape) < (0.5 if self.kind == "halves" else 0.02)).astype(float)
        ends = np.sort(rng.integers(0, self.cells, (self.queries, 2)), axis=1)
        places = np.arange(self.cells)
        return ((places >= ends[:, :1]) & (places <= ends[:, 1:])).astype(float)

    def counts(self, rng: np.random.Generator) -> NDArray[Any]:
        """Return a table: a random walk as log-density."""
        density = np.exp(np.cumsum(rng.normal(0, 6 / np.sqrt(self.cells), self.cells)))
        return rng.multinomial(self.rows, density / density.sum())


CASES = (
    Case("halves", 1, 20_000, 5000),
    Case("halves", 20, 2000, 5000),
    Case("halves", 500, 50, 5000),
    Case("few", 200, 500, 5000),
    Case("ranges", 200, 500, 5000),
    Case("ranges", 200, 500, 500),
    Case("ranges", 200, 500, 50_000),
    Case("ranges", 200, 500, 5000, ("epsilon", "1")),
    Case("ranges", 200, 2000, 5000, ("epsilon", "1")),
    Case("halves", 50, 5000, 5000, ("epsilon", "1")),
    Case("halves", 50, 500, 50_000, ("epsilon", "1")),
    Case("ranges", 200, 500, 50_000, ("epsilon", "1")),
)[: sized(None, 1)]


def errors(case: Case) -> dict[str, float]:
    """Return the mean error of the uniform table and of each engine; and what "auto" chose, 1 for whole marginals."""
    found: dict[str, list[float]] = {name: [] for name in ("prior", *ENGINES, "auto_took_marginals")}
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        counts, matrix = case.counts(rng), case.matrix(rng)
        truth = matrix @ counts
        column = sl.Number("value", lower=0, upper=case.cells - 1, granularity=1)
        table = sl.Table({"value": np.repeat(np.arange(case.cells), counts)}, schema=[column])
        workload = linear_queries(matrix)
        found["prior"].append(float(np.abs(matrix.mean(axis=1) * case.rows - truth).mean()) / case.rows)
        for engine in ENGINES:
            query = sl.SyntheticTable(
                workload, bins={"value": case.cells}, engine=engine, **{case.price[0]: case.price[1]}
            )
            made = sl.Synthetic(seeded_release(query, table, seed=seed))
            answers: Any = made.answer(workload)
            found[engine].append(float(np.abs(answers.counts - truth).mean()) / case.rows)
            if engine == "auto":
                found["auto_took_marginals"].append(float(made.release.value["engine"] == "marginals"))
    return {name: float(np.mean(values)) for name, values in found.items()}


def measure() -> dict[str, float]:
    """Return all errors."""
    return {f"{case.name}_{name}": value for case in CASES for name, value in errors(case).items()}


def main() -> None:
    """Print one line a case."""
    print(f"{'case':52s} {'prior':>8s} " + " ".join(f"{name:>9s}" for name in ENGINES))
    for case in CASES:
        found = errors(case)
        took = "marginals" if found["auto_took_marginals"] else "queries"
        print(f"{case.name:52s} {found['prior']:8.4f} " + " ".join(f"{found[name]:9.4f}" for name in ENGINES), took)


if __name__ == "__main__":
    main()

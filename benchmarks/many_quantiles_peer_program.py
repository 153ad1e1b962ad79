"""The program that `quantile_many` runs inside the peers' environment: OpenDP's tree of counts. Never imports us.

Called with a folder: reads `job.json` (epsilon, numbers of levels, edges, trials) and the arrays
`0.npy`, `1.npy`, ..., and prints one JSON object: for each number of levels the outputs of every trial.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

BRANCHING = 16


def tree(edges: list[float], epsilon: float) -> Any:
    """A b-ary tree of counts with Laplace noise, made consistent: assembled from the library's constructors."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    leaves = len(edges) - 1
    counts = (
        (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance())
        >> dp.t.then_find_bin(edges[1:-1])
        >> dp.t.then_count_by_categories(categories=list(range(leaves)), null_category=False)
        >> dp.t.then_b_ary_tree(leaf_count=leaves, branching_factor=BRANCHING)
    )
    noisy = dp.binary_search_chain(lambda scale: counts >> dp.m.then_laplace(scale), d_in=1, d_out=epsilon)
    consistent = dp.t.make_consistent_b_ary_tree(BRANCHING)
    return lambda values: consistent(noisy(values))


def main(folder: Path) -> None:
    """Release every array once and read all quantiles off it."""
    import opendp.prelude as dp

    warnings.simplefilter("ignore")
    job = json.loads((folder / "job.json").read_text())
    release = tree(job["edges"], job["epsilon"])
    dp.enable_features("contrib")
    readers = {
        m: dp.t.make_quantiles_from_counts(job["edges"], [i / (m + 1) for i in range(1, m + 1)]) for m in job["levels"]
    }
    found: dict[str, list[list[float]]] = {str(m): [] for m in readers}
    for trial in range(job["trials"]):
        counts = release(np.load(folder / f"{trial}.npy"))
        for m, read in readers.items():
            found[str(m)].append([float(value) for value in read(counts)])
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

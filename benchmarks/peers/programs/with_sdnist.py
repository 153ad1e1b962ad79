"""SDNist: its k-marginal score of coded synthetic rows against coded private ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.peers.programs.trial import Data, Job, main


def k_marginal(job: Job) -> Callable[[Data], Any]:
    """Score over all pairs of columns."""
    import pandas as pd
    import sdnist.report  # type: ignore[import-not-found]  # noqa: F401  # first: its modules import each other
    from sdnist.metrics.kmarginal import KMarginal  # type: ignore[import-not-found]

    names = list(job["names"])

    def score(data: Data) -> float:
        target, made = (pd.DataFrame(data[each], columns=names) for each in ("private", "rows"))
        return float(KMarginal(target, made).compute_score())

    return score


if __name__ == "__main__":
    main("sdnist", {"k_marginal": k_marginal})

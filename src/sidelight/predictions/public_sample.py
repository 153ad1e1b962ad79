"""Public data as a type of its own, so that a private source can never be fitted by mistake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError


@dataclass(frozen=True, eq=False)
class PublicSample:
    """Values that anyone may see, and where they come from.

    Whoever writes `PublicSample(...)` states that publishing these values would harm nobody: nothing that is fitted on
    them is charged. Values that are not finite are left out.

    >>> PublicSample([21, 35, 60], "ages in the published census of 2020")
    PublicSample(3 values, ages in the published census of 2020)
    """

    values: Any
    description: str

    def __post_init__(self) -> None:
        # Asked by name: this package lies below the tables, and a table must never pass for an array.
        if hasattr(self.values, "schema") and hasattr(self.values, "engine"):
            raise RangeError("a sidelight.Table is a private source and cannot be public data; pass published values")
        numbers = np.asarray(self.values, dtype=np.float64).ravel()
        finite = numbers[np.isfinite(numbers)]
        if not len(finite):
            raise RangeError("a public sample needs at least one finite value, got none")
        if not self.description:
            raise RangeError("say where the public values come from: PublicSample(values, 'census of 2020')")
        finite.setflags(write=False)
        object.__setattr__(self, "values", finite)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"PublicSample({len(self)} values, {self.description})"

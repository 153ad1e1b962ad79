"""How far off released numbers can be: a public formula that travels with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sidelight.errors import RangeError


@dataclass(frozen=True, kw_only=True)
class TailBound:
    """How far off the released numbers can be, as a public formula: fixed + per_log * log(1/failure probability).

    The bound for entry i is at most exceeded with the stated probability, for all entries at once, if the public
    `assumption` about the data holds: a theorem, or, with `proved=False`, an estimate. Privacy never depends
    on it.

    >>> bound = TailBound(unit="ranks", assumption="no ties", fixed=(1.0,), per_log=(2.0,))
    >>> bound.at(0.95).round(2).tolist()
    [6.99]
    """

    unit: str
    assumption: str
    fixed: tuple[float, ...]
    per_log: tuple[float, ...]
    proved: bool = True

    @property
    def basis(self) -> str:
        """What stands before a number of it at 95 %: that it is a worst case, or that it is none."""
        return "worst case at 95 %" if self.proved else "estimated at 95 %, not proved"

    def at(self, confidence: float) -> np.ndarray:
        """Return the bound of every entry at this confidence."""
        if not 0 < confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {confidence}; 0.95 is a usual choice")
        found = np.asarray(self.fixed) + np.asarray(self.per_log) * math.log(1 / (1 - confidence))
        return np.maximum(found, 0.0)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "unit": self.unit,
            "assumption": self.assumption,
            "fixed": list(self.fixed),
            "per_log": list(self.per_log),
            **({} if self.proved else {"proved": False}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TailBound:
        """Read what `to_json` wrote."""
        return cls(
            unit=data["unit"],
            assumption=data["assumption"],
            fixed=tuple(data["fixed"]),
            per_log=tuple(data["per_log"]),
            proved=bool(data.get("proved", True)),
        )

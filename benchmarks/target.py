"""A target of an issue: a number that is measured when it is printed, and the limit it has to keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """One line of `make targets`, `group.name value <= limit ok`; the group is the file it stands in."""

    name: str
    script: Callable[[], Mapping[str, float]]
    figure: str
    sense: Literal["<=", ">="]
    limit: float
    #: Why it cannot be measured here: it is printed, and counts neither as kept nor as missed.
    skipped: str = ""

    def line(self, group: str, value: float) -> tuple[str, bool]:
        """Return the printed line and whether the target is kept."""
        kept = value <= self.limit if self.sense == "<=" else value >= self.limit
        verdict = "ok" if kept else "MISSED"
        return f"{group}.{self.name} {value:.4g} {self.sense} {self.limit:.4g} {verdict}", kept

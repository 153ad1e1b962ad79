"""A learner whose action no report changes, for tests of what stands around learners."""

from __future__ import annotations

from typing import Any


class Fixed:
    """Always plays one action."""

    window = 0

    def __init__(self, place: int) -> None:
        self.place = place

    def predict(self, time: Any, reports: Any, scales: Any) -> int:
        """Play it."""
        return self.place

    def update(self, time: Any, report: Any, mask: Any) -> None:
        """Learn nothing."""

    def state(self) -> dict[str, Any]:
        """Keep nothing."""
        return {}

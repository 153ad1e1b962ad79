"""For tests only: seeded noise, which brands every release it touches as not private, and a kit for new engines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sidelight.testing.doors import SeededSession, seeded_release
from sidelight.testing.seeded import SeededEntropy
from sidelight.testing.sequences import SeededSequence

if TYPE_CHECKING:
    from sidelight.testing.conformance import engine_conformance
    from sidelight.testing.engine_tables import EngineTable

__all__ = ["EngineTable", "SeededEntropy", "SeededSequence", "SeededSession", "engine_conformance", "seeded_release"]


def __getattr__(name: str) -> Any:
    """Load the kit when it is asked for: seeded noise alone is asked for more often."""
    if name == "engine_conformance":
        from sidelight.testing.conformance import engine_conformance

        return engine_conformance
    if name == "EngineTable":
        from sidelight.testing.engine_tables import EngineTable

        return EngineTable
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""For tests only: seeded noise, which brands every release it touches as not private, and a kit for new engines."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sidelight.testing.seeded import SeededEntropy, SeededSession, seeded_release

if TYPE_CHECKING:
    from sidelight.testing.conformance import EngineTable, engine_conformance
    from sidelight.testing.sequences import SeededSequence

__all__ = ["EngineTable", "SeededEntropy", "SeededSequence", "SeededSession", "engine_conformance", "seeded_release"]


#: What seeded noise alone does without, by the module that has it.
_LOADED_WHEN_ASKED_FOR = {
    "engine_conformance": "sidelight.testing.conformance",
    "EngineTable": "sidelight.testing.conformance",
    "SeededSequence": "sidelight.testing.sequences",
}


def __getattr__(name: str) -> Any:
    """Load the kit, or seeded sequences, when they are asked for: seeded noise alone is asked for more often."""
    if name in _LOADED_WHEN_ASKED_FOR:
        return getattr(import_module(_LOADED_WHEN_ASKED_FOR[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

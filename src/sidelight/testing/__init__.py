"""For tests only: seeded noise, which brands every release it touches as not private, and a kit for new engines."""

from sidelight.testing.conformance import engine_conformance
from sidelight.testing.doors import SeededSession, seeded_release
from sidelight.testing.engine_tables import EngineTable
from sidelight.testing.seeded import SeededEntropy
from sidelight.testing.sequences import SeededSequence

__all__ = ["EngineTable", "SeededEntropy", "SeededSequence", "SeededSession", "engine_conformance", "seeded_release"]

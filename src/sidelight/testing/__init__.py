"""For tests only: seeded noise, which brands every release it touches as not private."""

from sidelight.testing.doors import SeededSession, seeded_release
from sidelight.testing.seeded import SeededEntropy
from sidelight.testing.sequences import SeededSequence

__all__ = ["SeededEntropy", "SeededSequence", "SeededSession", "seeded_release"]

"""For tests only: seeded noise, which brands every release it touches as not private."""

from sidelight.testing.doors import SeededSession, seeded_release
from sidelight.testing.seeded import SeededEntropy

__all__ = ["SeededEntropy", "SeededSession", "seeded_release"]

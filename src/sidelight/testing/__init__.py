"""Tools for tests. Whatever they touch is branded as not private."""

from sidelight.testing.seeded import SeededEntropy

__all__ = ["SeededEntropy"]

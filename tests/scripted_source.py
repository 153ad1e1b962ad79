"""A source for tests that script every choice: nothing is drawn from it."""

from __future__ import annotations

from sidelight.noise import Source
from sidelight.testing import SeededEntropy

SCRIPTED = Source(SeededEntropy("scripted"))

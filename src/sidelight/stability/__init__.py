"""Mechanisms that adapt to well-behaved data, test privately whether it is well behaved, and refuse honestly.

A refusal is an ordinary result: it costs what a release costs (stability proof page).
"""

from importlib import import_module
from typing import Any

from sidelight.mechanisms.tests_and_bounds import GaussianTest, LaplaceTest
from sidelight.stability.eigengap import StablePCA
from sidelight.stability.median import StableMedian, median_distance
from sidelight.stability.mode import MajorityVote, StableMode, mode_distance
from sidelight.stability.propose_test_release import PreparedProposal, PreparedTest, ProposingQuery

__all__ = [
    "GaussianTest",
    "LaplaceTest",
    "MajorityVote",
    "PreparedProposal",
    "PreparedTest",
    "ProposingQuery",
    "StableMedian",
    "StableMode",
    "StablePCA",
    "median_distance",
    "mode_distance",
]

#: As papers print them; loaded when asked for, because that package builds on this one.
_PUBLISHED = {"AdaOPS": "adaops", "OPSPTR": "ops_ptr", "StableLogistic": "stable_logistic"}


def __getattr__(name: str) -> Any:
    if name in _PUBLISHED:
        return getattr(import_module(f"sidelight.published.{_PUBLISHED[name]}"), name)
    raise AttributeError(f"module 'sidelight.stability' has no attribute {name!r}")

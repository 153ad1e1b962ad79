"""Mechanisms that adapt to well-behaved data, test privately whether it is well behaved, and refuse honestly.

A refusal is an ordinary result: it costs what a release costs (stability proof page).
"""

from sidelight.mechanisms.tests_and_bounds import GaussianTest, LaplaceTest
from sidelight.stability.eigengap import StablePCA
from sidelight.stability.engine import CertifiedProposal, DistanceProposal, propose_and_certify, propose_and_test
from sidelight.stability.logistic import StableLogistic
from sidelight.stability.median import StableMedian, median_distance
from sidelight.stability.mode import StableMode, mode_distance
from sidelight.stability.posterior_sampling import OPSPTR, AdaOPS
from sidelight.stability.voting import MajorityVote

__all__ = [
    "OPSPTR",
    "AdaOPS",
    "CertifiedProposal",
    "DistanceProposal",
    "GaussianTest",
    "LaplaceTest",
    "MajorityVote",
    "StableLogistic",
    "StableMedian",
    "StableMode",
    "StablePCA",
    "median_distance",
    "mode_distance",
    "propose_and_certify",
    "propose_and_test",
]

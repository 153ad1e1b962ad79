"""Mixtures of separated Gaussians from many private rows and a few public ones."""

from sidelight.gaussians.mixture.prepared import MixtureValue
from sidelight.gaussians.mixture.query import SeparatedMixture

__all__ = ["MixtureValue", "SeparatedMixture"]

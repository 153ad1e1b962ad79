"""Mixtures of separated Gaussians from many private rows and a few public ones."""

from sidelight.gaussians.mixture.query import SeparatedMixture
from sidelight.gaussians.mixture.value import MixtureValue

__all__ = ["MixtureValue", "SeparatedMixture"]

"""Quantiles every day: the prediction of each is learned from the releases before it."""

from sidelight.quantiles.sequence.sequence import Sequence
from sidelight.quantiles.sequence.tracked import PubTrack

__all__ = ["PubTrack", "Sequence"]

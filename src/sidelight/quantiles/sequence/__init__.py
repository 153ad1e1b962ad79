"""Quantiles every day: the prediction of each is learned from the releases before it."""

from sidelight.quantiles.sequence.previous import PubPrev
from sidelight.quantiles.sequence.private import PrivateHistograms
from sidelight.quantiles.sequence.proximate import PubProx
from sidelight.quantiles.sequence.sequence import Sequence
from sidelight.quantiles.sequence.tracked import PubTrack

__all__ = ["PrivateHistograms", "PubPrev", "PubProx", "PubTrack", "Sequence"]

"""Quantiles every day: the prediction of each is learned from the releases before it, for nothing."""

from sidelight.quantiles.sequence.previous import PubPrev
from sidelight.quantiles.sequence.proximate import PubProx
from sidelight.quantiles.sequence.sequence import Sequence
from sidelight.quantiles.sequence.yardstick import nonprivate_online

__all__ = ["PubPrev", "PubProx", "Sequence", "nonprivate_online"]

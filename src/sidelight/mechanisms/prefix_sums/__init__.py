"""Private running sums of a stream of vectors: one plan, one run, two encoders. The engine under private learning.

Proofs: the learning proof page, sections 1 and 2.
"""

from sidelight.mechanisms.prefix_sums.binary_tree import BinaryTree
from sidelight.mechanisms.prefix_sums.calibration import NoiseLaw, rho_for
from sidelight.mechanisms.prefix_sums.encoders import Encoder, Encoding
from sidelight.mechanisms.prefix_sums.plan import PrefixSumRun, PrefixSums
from sidelight.mechanisms.prefix_sums.quantise import Quantiser
from sidelight.mechanisms.prefix_sums.square_root import SquareRoot, square_root_coefficients, square_root_norms

__all__ = [
    "BinaryTree",
    "Encoder",
    "Encoding",
    "NoiseLaw",
    "PrefixSumRun",
    "PrefixSums",
    "Quantiser",
    "SquareRoot",
    "rho_for",
    "square_root_coefficients",
    "square_root_norms",
]

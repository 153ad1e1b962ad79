"""Private running sums of a stream of vectors: one plan, one run. The engine under private learning.

Proofs: the learning proof page, sections 1 and 2.
"""

from sidelight.mechanisms.prefix_sums.plan import PrefixSumRun, PrefixSums, Quantiser
from sidelight.mechanisms.prefix_sums.square_root import SquareRoot, square_root_coefficients, square_root_norms

__all__ = [
    "PrefixSumRun",
    "PrefixSums",
    "Quantiser",
    "SquareRoot",
    "square_root_coefficients",
    "square_root_norms",
]

"""A tenth of a millisecond that asks the machine whether the assumptions of the proofs hold here.

Run when tables are built. A failure raises: there is no degraded mode. The assumptions are that float64 + - × ÷ round
within 2**-52 and that uint64 wraps (noise proof page, section 5).
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import NoiseError
from sidelight.noise.arithmetic import high_product, taylor_exp_neg

#: SHA-256 (first 16 digits) of each table's little-endian bytes: thresholds, squeezes, guide; and the step table.
DIGESTS = {
    "gauss thresholds": "6accceca09cf260b",
    "gauss squeezes": "f8ff8de3864ccafa",
    "gauss guide": "f02a6618b6c12dd7",
    "exponential thresholds": "8b9fec3f8d0bae2c",
    "exponential squeezes": "a96ed19384314716",
    "exponential guide": "7f768bf01c6333c7",
    "steps": "6ab065b18b2a36bf",
}

_PAIRS = (
    (2**64 - 1, 2**53 - 1),
    (0x0123456789ABCDEF, 0x1234567890ABC),
    (0xFFFFFFFF00000001, 0x1FFFFF00000001),
    (2**63 + 2**31, 3 * 2**50),
)


def check_arithmetic() -> None:
    """Raise NoiseError unless float and integer arithmetic behave as the proofs assume."""
    one, third = np.array([1.0]), np.array([1.0]) / 3.0
    _demand((one + 2.0**-53)[0] in (1.0, 1.0 + 2.0**-52), "1 + 2**-53 does not round to a neighbour of 1")
    _demand(abs((third * 3.0)[0] - 1.0) <= 2.0**-52, "(1/3) * 3 is further than 2**-52 from 1")
    _demand((np.array([2**64 - 1], np.uint64) + np.uint64(2))[0] == 1, "uint64 addition does not wrap")
    for word, factor in _PAIRS:
        exact = word * factor >> 64
        scalar = high_product(np.array([word], np.uint64), np.uint64(factor))
        array = high_product(np.array([word], np.uint64), np.array([factor], np.uint64))
        _demand(int(scalar[0]) == int(array[0]) == exact, "the high product of two words is wrong")
    _demand(
        abs(Fraction(float(taylor_exp_neg(np.array([0.1]))[0])) - _series(Fraction(0.1))) < Fraction(1, 2**48),
        "the polynomial for exp(-1/10) is further than 2**-48 from the exact sum",
    )


def check_table(name: str, table: NDArray[np.generic]) -> None:
    """Raise NoiseError unless a freshly built table has the digest that the proofs were checked with."""
    little_endian = table.astype(table.dtype.newbyteorder("<"))
    digest = hashlib.sha256(little_endian.tobytes(), usedforsecurity=False).hexdigest()[:16]
    _demand(digest == DIGESTS[name], f"the table of {name} differs from the reference")


def _series(y: Fraction) -> Fraction:
    return sum(((-y) ** n / math.factorial(n) for n in range(25)), Fraction(0))


def _demand(holds: bool | np.bool_, what: str) -> None:  # noqa: FBT001 (an assertion that survives -O)
    if not holds:
        raise NoiseError(
            f"self-check of the noise samplers failed: {what}; no noise is drawn on this machine. "
            "Check the Python, NumPy and CPU combination, and report it"
        )

"""The weight of an outcome as a function of its excess score: exp(-t) in integers, with a floor far down.

Hand-made because privacy depends on its every bit: W(t) lies between 2**320 exp(-min(t, 128)) and that times
exp(2**-126), and the sampler reaches it exactly (quantiles proof page, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass

#: Bits of the weight at excess 0.
PRECISION = 320
#: Excess from which on all outcomes weigh the same; exp(-128) is beyond any experiment.
LEVELS = 128
#: ceil(2**320 / e).
INVERSE_E = 0x5E2D58D8B3BCDF1ABADEC7829054F90DDA9805AAB56C77333024B9D0A507DAEDB16400BF472B4216


@dataclass(frozen=True, kw_only=True)
class Decay:
    """steps[l] = D_l >= 2**320 exp(-l), l = 0..levels: W(t) = D_l exp(-(t - l)) with l = floor(t), D_levels beyond."""

    levels: int
    steps: tuple[int, ...]


def decay(levels: int = LEVELS) -> Decay:
    """Compute D_0 = 2**320, D_(l+1) = ceil(D_l E / 2**320), rounded up at every step."""
    steps = [1 << PRECISION]
    for _ in range(levels):
        steps.append(-(-steps[-1] * INVERSE_E >> PRECISION))
    return Decay(levels=levels, steps=tuple(steps))


DECAY = decay()

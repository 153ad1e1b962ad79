"""How much more private the published actions of RW-AdaBatch are than reports: mu = 1, n = 25, eta = 5, a = 0.01."""

from __future__ import annotations

import numpy as np

from sidelight.experts.adabatch import Bound, DelayRule
from sidelight.guarantees.curves import gaussian_floats
from sidelight.published.amplification import amplified


def rule(bound: Bound = "union") -> DelayRule:
    """Return the delays of the paper's Figure 1."""
    return DelayRule(actions=25, noise_scale=5.0, tolerance=0.01, bound=bound)


def gain(time: int, epsilon: float, *, bound: Bound = "union") -> float:
    """Return the report's own delta divided by that of observers."""
    own = float(gaussian_floats(1.0, np.array(epsilon)))
    return own / float(amplified(rule(bound), mu=1.0, time=time).delta(epsilon))


def measure() -> dict[str, float]:
    """Return the amplification at t = 10,000, epsilon = 4."""
    return {"amplification": gain(10_000, 4.0), "amplification_paper_bound": gain(10_000, 4.0, bound="paper")}


if __name__ == "__main__":
    for bound in ("paper", "union"):
        for time in (100, 1000, 10_000):
            print(bound, time, "  ".join(f"{gain(time, epsilon, bound=bound):.2f}" for epsilon in (1.0, 2.0, 4.0)))

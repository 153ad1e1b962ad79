"""DP-FTRL along a simulated sequence: Laplace priors learned from noisy sums of gradients. NOT PRIVATE: float noise.

Calibrated as the library's private sums are (any change of one data set, sensitivity twice the norm to which
gradients are clipped, half of rho for locations and half for scales), with the paper's clip norm 1 and its tuned
steps. The noise of all sums is drawn beforehand; it does not depend on the gradients.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from benchmarks.baselines.prefix_noise import simulate_prefix_noise
from benchmarks.figures.streams import ORIGIN, Stream
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.published.released_learners import first_guess
from sidelight.quantiles.laplace_fit import lse_loss
from sidelight.quantiles.public import optimal_intervals
from sidelight.quantiles.tree import QuantileTree

#: For each level, locations and inverse scales ("heavily tuned" by the authors).
STEPS = (1e-4, 1e-5)
#: The scale of a prior stays within these.
SCALES = (0.01, 100.0)


def with_private_learner(
    stream: Stream, tree: QuantileTree, *, epsilon: float, delta: float, seed: int, every: int = 1
) -> np.ndarray:
    """Return the average gap of every such step; the learner alone costs (epsilon, delta), the tree what it says."""
    count, width, length = len(tree.levels), stream.features.shape[1] + 1, len(stream.steps)
    rho = gdp_within(Fraction(f"{epsilon:.9f}"), Fraction(f"{delta:.12f}")) ** 2 / 4
    rng = np.random.default_rng((seed, 3))
    noise = []
    for size in (count * width, count):
        plan = PrefixSums(steps=length, size=size, norm_bound=1, rho=rho)
        noise.append(simulate_prefix_noise(plan, rng.standard_normal((length, size))))
    start = np.zeros((count, width))
    start[:, -1] = stream.location / stream.scale
    learner = stream.previous()  # for its hedge
    sums = [np.zeros((count, width)), np.zeros(count)]
    slopes, inverse = start, np.full(count, 1 / stream.scale)
    gaps = []
    for t, (step, features) in enumerate(zip(stream.steps, stream.features, strict=True)):
        known = np.append(features, 1.0)
        theta = slopes @ known
        if t % every == 0:
            places = np.clip(theta / inverse, *stream.plausible)
            priors = first_guess(learner).priors(places, 1 / inverse, origin=ORIGIN, nonnegative=stream.nonnegative)
            gaps.append(step.release(tree, priors)[1].mean())
        low, high = optimal_intervals(np.sort(step.dithered), tree.levels, stream.granularity)
        _, _, d_theta, d_phi = lse_loss(low, high, theta, inverse)
        sums[0] += _clipped(np.outer(d_theta, known))
        sums[1] += _clipped(d_phi)
        slopes = start - count * STEPS[0] * (sums[0] + noise[0][t].reshape(count, width))
        inverse = 1 / stream.scale - count * STEPS[1] * (sums[1] + noise[1][t])
        inverse = np.clip(inverse, 1 / SCALES[1], 1 / SCALES[0])
    return np.array(gaps)


def _clipped(gradient: np.ndarray) -> np.ndarray:
    return gradient / max(1.0, float(np.linalg.norm(gradient)))

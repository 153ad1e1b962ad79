"""Simulation of private quantiles in floating point: for figures, planning on public data, and tests. Not private.

It draws from the same law as the exact sampler up to rounding, with a seedable NumPy generator and continuous outputs.
Its floats and its generator would leak (Mironov 2012), so every name says `simulate` and no release path imports it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees.amounts import Amount, exact
from sidelight.predictions import Prior, is_prior, own_prior
from sidelight.quantiles.bounds import Adaptation
from sidelight.quantiles.evaluate import sorted_values
from sidelight.quantiles.tree import Pick, QuantileTree, Score, exact_levels, quantile_tree

Method = Literal["inverse", "gumbel"]


def simulate_quantile(
    values: ArrayLike,
    level: Amount,
    *,
    epsilon: Amount,
    prior: Prior,
    rng: np.random.Generator,
    trials: int = 1,
    score: Score = "exact",
    method: Method = "inverse",
) -> NDArray[np.float64]:
    """Draw what releases of one quantile would be; not private."""
    tree = quantile_tree(level, epsilon=epsilon)
    return simulate_quantiles(values, tree, priors=prior, rng=rng, trials=trials, score=score, method=method)[:, 0]


def simulate_quantiles(
    values: ArrayLike,
    tree: QuantileTree,
    *,
    priors: Prior | Sequence[Prior],
    rng: np.random.Generator,
    trials: int = 1,
    adaptation: Adaptation = "conditional",
    score: Score = "exact",
    method: Method = "inverse",
) -> NDArray[np.float64]:
    """Draw what releases of all levels of a tree would be, one row a trial; not private.

    >>> from sidelight.predictions import Uniform
    >>> ages = np.arange(1.0, 101.0)
    >>> drawn = simulate_quantiles(
    ...     ages, quantile_tree([0.25, 0.75], epsilon=50), priors=Uniform(0, 200), rng=np.random.default_rng(1)
    ... )
    >>> bool(abs(drawn[0, 0] - 25) < 3 and abs(drawn[0, 1] - 75) < 3)
    True
    """
    several = [priors] * len(tree.levels) if is_prior(priors) else list(priors)
    if len(several) != len(tree.levels):
        raise RangeError(f"one prior is needed for each of the {len(tree.levels)} levels, got {len(several)}")
    ordered = sorted_values(values)
    edges = np.concatenate(([-np.inf], ordered, [np.inf]))
    # Inside a node only the two outermost intervals are cut; the others keep these masses.
    known: dict[int, NDArray[np.float64]] = {}
    for prior in several:
        if id(prior) not in known:
            known[id(prior)] = np.asarray(prior.log_mass(edges[:-1], edges[1:]), dtype=np.float64)

    def cells_of(pick: Pick, low: float, high: float) -> Cells:
        prior = several[pick.position]
        return node_cells(
            ordered, prior, pick, low=low, high=high, adaptation=adaptation, score=score, log_masses=known[id(prior)]
        )

    at_root = {pick.position: cells_of(pick, -np.inf, np.inf) for pick in tree.root.picks}  # the same in every trial
    outputs = np.empty((trials, len(tree.levels)))
    for outcome in outputs:
        for node in tree.nodes():  # parents first: the range is already in `outcome`
            low = -np.inf if node.lower is None else float(outcome[node.lower])
            high = np.inf if node.upper is None else float(outcome[node.upper])
            drawn = []
            for pick in node.picks:
                cells = at_root.get(pick.position) or cells_of(pick, low, high)
                prior = several[pick.position]
                drawn.append(low if low == high else _draw(cells, prior, rng, method, low=low, high=high))
            for pick, value in zip(node.picks, sorted(drawn), strict=True):
                outcome[pick.position] = value
    return outputs


@dataclass(frozen=True)
class Cells:
    """What one pick chooses among: intervals (or single points) and their unnormalised log probabilities."""

    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    logs: NDArray[np.float64]

    def probabilities(self) -> NDArray[np.float64]:
        """Return the law over the cells."""
        weights = np.exp(self.logs - self.logs.max())
        return np.asarray(weights / weights.sum(), dtype=np.float64)


def node_cells(
    ordered: NDArray[np.float64],
    prior: Prior,
    pick: Pick,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    adaptation: Adaptation = "conditional",
    score: Score = "exact",
    log_masses: NDArray[np.float64] | None = None,
) -> Cells:
    """Return the intervals around the records in [low, high), with log mu(I_k) - eps gap_k / (2 Delta); not private.

    `log_masses` may hold the prior's masses between all records: a node cuts only the two outermost intervals.
    """
    start = int(np.searchsorted(ordered, low, side="left"))
    stop = int(np.searchsorted(ordered, high, side="left"))
    size = stop - start
    inner = ordered[start:stop]
    lows, highs = np.concatenate(([low], inner)), np.concatenate((inner, [high]))
    if log_masses is None:
        logs = prior.log_mass(lows, highs)
    else:
        logs = log_masses[start : stop + 1].copy()
        ends = [0, size] if size else [0]
        logs[ends] = prior.log_mass(lows[ends], highs[ends])
    ranks = np.arange(size + 1)
    if adaptation == "edge":
        # All mass outside the range sits on its nearer end: rank 0 at the lower end, rank n at the upper.
        ranks = np.concatenate((ranks, [0, size]))
        lows, highs = np.concatenate((lows, [low, high])), np.concatenate((highs, [low, high]))
        outside = prior.log_mass(np.array([-np.inf, high]), np.array([low, np.inf]))
        logs = np.concatenate((logs, np.where([low == -np.inf, high == np.inf], -np.inf, outside)))
    spread = 2 * float(pick.sensitivity(score)) / float(pick.epsilon)
    return Cells(lows, highs, logs - gaps_of_ranks(ranks, pick.relative_level, size, score=score) / spread)


def _draw(cells: Cells, prior: Prior, rng: np.random.Generator, method: Method, *, low: float, high: float) -> float:
    if not np.any(cells.logs > -np.inf):
        return _flat(rng, low, high)
    k = _choose(cells.logs, rng, method)
    left, right = float(cells.lows[k]), float(cells.highs[k])
    if left == right:
        return left
    return min(max(float(prior.inverse_in(left, right, float(rng.random()))), left), right)


def _choose(logs: NDArray[np.float64], rng: np.random.Generator, method: Method) -> int:
    if method == "gumbel":
        return int(np.argmax(logs + rng.gumbel(size=len(logs))))
    cumulative = np.cumsum(np.exp(logs - logs.max()))
    # Not "left": a cell of weight zero must not be chosen when the uniform draw is exactly 0.
    k = int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))
    return min(k, len(logs) - 1)


def _flat(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw where the prior has no mass at all: the release path gives every outcome the same little mass there."""
    if np.isinf(low) or np.isinf(high):
        return low if np.isfinite(low) else high if np.isfinite(high) else 0.0
    return float(low + (high - low) * rng.random())


def nonprivate_quality(
    values: ArrayLike,
    levels: Amount | Iterable[Amount],
    priors: Prior | Sequence[Prior],
    *,
    epsilon: Amount | None = None,
    score: Score = "exact",
) -> NDArray[np.float64]:
    """Return the quality Psi of a prior for each level: 1 is perfect, and -log Psi enters the error. Not private.

    Without epsilon: the prior mass of the outputs with the smallest gap. With it: sum over the intervals I_k between
    records of exp(-epsilon gap_k / (2 Delta)) times the mass of I_k, which is what the mechanism feels.
    """
    read = exact_levels(levels)
    ordered = sorted_values(values)
    given = [priors] * len(read) if is_prior(priors) else list(cast(Sequence[Prior], priors))
    several = [own_prior(prior) for prior in given]
    if len(several) != len(read):
        raise RangeError(f"one prior is needed for each of the {len(read)} levels, got {len(several)}")
    budget = None if epsilon is None else float(exact(epsilon, name="epsilon"))
    edges = np.concatenate(([-np.inf], ordered, [np.inf]))
    reachable = edges[:-1] < edges[1:]
    ranks = np.arange(len(ordered) + 1)[reachable]
    qualities = []
    for q, prior in zip(read, several, strict=True):
        masses = np.exp(prior.log_mass(edges[:-1][reachable], edges[1:][reachable]))
        gaps = gaps_of_ranks(ranks, q, len(ordered), score=score)
        if budget is None:
            qualities.append(math.fsum(masses[gaps == gaps.min()]))
        else:
            spread = float(2 * max(q, 1 - q)) if score == "exact" else 2.0
            qualities.append(math.fsum(np.exp(-budget * gaps / spread) * masses))
    return np.array(qualities)


def gaps_of_ranks(ranks: NDArray[np.int64], level: Fraction, size: int, *, score: Score) -> NDArray[np.float64]:
    """Return |rank - q n|, or |rank - floor(q n)|, computed from exact products."""
    if score == "floor":
        return np.abs(ranks - (level.numerator * size) // level.denominator).astype(np.float64)
    whole, part = divmod(level.numerator * size, level.denominator)
    return np.asarray(np.abs((ranks - whole) - part / level.denominator), dtype=np.float64)

"""The exponential mechanism over a list of candidates, once (`choose`) or for the k largest counts (`Peeling`).

`bingham` is the exponential mechanism for directions: unit vectors with density ∝ exp(uᵀMu), by the rejection sampler
of Kent, Ganeiban and Mardia (2018). By hand: SciPy has no Bingham law, and the one in another library divides by the
proposal's density where it must multiply, which gives a more concentrated law and, for peaked ones, hardly ever
accepts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, log, sqrt
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import (
    GDP,
    ZCDP,
    Amount,
    BoundedRange,
    Claims,
    Context,
    Neighbours,
    Numerics,
    PureDP,
    native_claims,
    positive,
)
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.conversions import gdp_from_bounded_range, pure_within_gdp, zcdp_from_bounded_range
from sidelight.guarantees.intervals import root_down
from sidelight.mechanisms.price import selection_price
from sidelight.noise import Categorical, Source, standard_exponential, standard_normal


def choose(
    scores: Bounded,
    *,
    spread: Fraction,
    source: Source,
    apart: int = 2,
    weights: ArrayLike | None = None,
    numerics: Numerics = "exact",
) -> int:
    """Draw a candidate i with probability ∝ weights[i] · exp(spread · score_i / (apart · Δ)).

    Guarantee: BoundedRange(spread), hence pure and zCDP(spread²/8), for the neighbours and the unit of the scores,
    exact on the machine (noise proof page, Theorem 4).

    Args:
        scores: Integers, each of which one unit moves by at most Δ (a sensitivity in linf, or any larger norm).
        spread: How far log-probabilities move apart: `Budget.spread`.
        source: The release's source.
        apart: How many Δ two scores move apart at most: 2, or 1 where all of them move the same way.
        weights: A public base measure, whole numbers from 1.
        numerics: "idealized" where the scores were computed in floats.

    Returns:
        The place of the candidate.
    """
    if len(scores.shape) != 1 or scores.sensitivity <= 0 or apart not in (1, 2):
        raise RangeError(f"a choice wants a list of scores with a positive sensitivity, got {scores!r}, apart={apart}")
    distance = apart * scores.sensitivity
    unit = spread / distance
    price = selection_price(
        unit * distance,
        f"one of {scores.shape[0]} candidates",
        neighbours=scores.neighbours,
        unit=scores.unit,
        numerics=numerics,
    )
    with source.paying(replace(price, samples=(("categorical", 1 / unit),))):
        return Categorical(scores.value, unit, weights).draw(source)


# The k largest counts, one after the other, without their values. A unit only adds to counts, so between neighbours
# every score moves the same way, and the whole ε is the slope.

_WEIGHT_BITS = 40


@dataclass(frozen=True, kw_only=True)
class Peeling:
    """How many labels are drawn, and the ε of each draw. Made by `peeling` from one price.

    Guarantee: `claims()`, for adding or removing one unit; each draw is BoundedRange(step_epsilon).

    Accuracy: a label is passed over for one of c fewer units with odds exp(-step_epsilon · c / sensitivity).
    """

    draws: int
    step_epsilon: Fraction

    def claims(self, **context: Unpack[Context]) -> Claims:
        """Return what all draws prove together: a sum of ε, of ε²/8, and of squares of μ."""
        step, draws = self.step_epsilon, self.draws
        if draws == 1:
            return native_claims(BoundedRange(step, **context), mechanism="exponential")
        return Claims.of(
            PureDP(draws * step, **context),
            ZCDP(draws * zcdp_from_bounded_range(step), **context),
            GDP.from_squares(draws * gdp_from_bounded_range(step) ** 2, **context),
        )

    def release(self, scores: Bounded, *, source: Source, weights: ArrayLike | None = None) -> NDArray[np.int64]:
        """Draw labels without replacement, P(i) in proportion to weights[i] · exp(step_epsilon · score_i / Δ).

        Args:
            scores: Counts of a public list of labels, each a sum over units of numbers that are at least 0; `linf`
                sensitivity Δ for adding or removing a unit.
            source: The release's source.
            weights: A public base measure, whole numbers from 1; `popularity` makes one.

        Returns:
            The places of the labels in the list, in the order drawn, at most as many as there are.
        """
        if scores.norm != "linf" or len(scores.shape) != 1 or scores.sensitivity <= 0:
            raise RangeError(
                f"peeling needs a list of counts with a positive linf sensitivity, got {scores.norm} and shape "
                f"{scores.shape}; ask the aggregate for that norm"
            )
        if scores.neighbours is not Neighbours.ADD_REMOVE:
            raise RangeError("peeling is proved for adding or removing a unit; a replacement pays two such steps")
        counts = np.asarray(scores.value)
        left = np.arange(counts.size)
        measure = None if weights is None else np.asarray(weights)
        chosen: list[int] = []
        for _ in range(min(self.draws, counts.size)):
            part = None if measure is None else measure[left]
            place = choose(
                replace(scores, value=counts[left]), spread=self.step_epsilon, apart=1, weights=part, source=source
            )
            chosen.append(int(left[place]))
            left = np.delete(left, place)
        return np.array(chosen, np.int64)


def peeling(
    draws: int, *, epsilon: Amount | None = None, rho: Amount | None = None, mu: Amount | None = None
) -> Peeling:
    """Return the draws that one price pays: ε/k each, √(8ρ/k) each, or the ε whose bounded range has μ/√k.

    >>> float(peeling(10, rho="0.05").step_epsilon)
    0.2
    """
    draws = whole(draws, name="the number of labels")
    given = [name for name, price in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if price is not None]
    if len(given) != 1:
        raise RangeError(f"the price is exactly one of epsilon, rho and mu, got {', '.join(given) or 'none'}")
    if epsilon is not None:
        return Peeling(draws=draws, step_epsilon=positive(epsilon, name="epsilon") / draws)
    if rho is not None:
        return Peeling(draws=draws, step_epsilon=root_down(8 * positive(rho, name="rho") / draws))
    assert mu is not None
    # BoundedRange(e) has the μ of PureDP(e/2).
    each = root_down(positive(mu, name="mu") ** 2 / draws)
    return Peeling(draws=draws, step_epsilon=2 * pure_within_gdp(each))


def popularity(predicted: ArrayLike, *, doubt: float = 0.1) -> NDArray[np.int64]:
    """Return a base measure from predicted counts: ⌊2^40 ((1-λ) p_i/Σp + λ/G)⌋ + 1, λ = doubt.

    Accuracy: a label predicted e times as popular starts 1/ε' counts ahead; a wrong prediction costs at most
    log(G/λ)/ε' counts.

    >>> popularity([3, 1, 0]).tolist() == [int(2**40 * (0.675 + 0.1 / 3)) + 1, int(2**40 * (0.225 + 0.1 / 3)) + 1,
    ...                                    int(2**40 * 0.1 / 3) + 1]
    True
    """
    values = np.asarray(predicted, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all() or values.min() < 0:
        raise RangeError("predicted counts must be a list of at least one finite number, none below 0")
    if not 0 < doubt <= 1:
        raise RangeError(f"doubt must lie in (0, 1], got {doubt}; 0.1 keeps a wrong prediction cheap")
    total = math.fsum(values.tolist())  # correctly rounded: the same on every machine
    share = values / total if total > 0 else np.full(values.size, 1.0 / values.size)
    mixed = (1.0 - doubt) * share + doubt / values.size
    return np.floor(np.ldexp(mixed, _WEIGHT_BITS)).astype(np.int64) + 1


Floats = NDArray[np.float64]

#: A block of proposals is drawn whole, so that nearly always (all but 1e-11) one block is drawn whatever the matrix is.
_PROPOSALS_PER_ROOT = 32
#: After this many blocks without an accepted proposal (chance below e**-1000) the last proposal is returned: nothing
#: that depends on private numbers may raise.
_BLOCKS = 64
#: Directions are handed out on this grid, which hides the last bits of floats.
_GRID = 2.0**24


def bingham(matrix: Floats, source: Source) -> Floats:
    """Return a unit vector u with density ∝ exp(uᵀMu), M symmetric.

    Guarantee: if M = η·A, and uᵀ(A - A')u has range at most r over unit vectors u for neighbours A and A', then the
    draw has bounded range η·r, so it is η·r-DP (covariance proof page, Theorem 6). Idealized: floats throughout.

    Accuracy: about 1.2 √q proposals a draw for peaked laws in q dimensions, 1 for flat ones.
    """
    source.note_idealized()
    size = len(matrix)
    if size == 1:
        return np.ones(1)
    values, vectors = np.linalg.eigh(matrix)
    gaps = values[-1] - values  # λ >= 0, 0 at the mode
    width = proposal_width(gaps)
    proposals = ceil(_PROPOSALS_PER_ROOT * sqrt(size))
    point = np.zeros(size)
    for _ in range(_BLOCKS):
        points = angular_gaussian(proposals, 1.0 + 2.0 * gaps / width, source)
        accepted = np.flatnonzero(-standard_exponential(proposals, source) <= log_acceptance(points, gaps, width))
        point = points[accepted[0]] if accepted.size else points[0]
        if accepted.size:
            break
    rounded = np.rint(_GRID * (vectors @ point)) / _GRID
    return np.asarray(rounded / np.linalg.norm(rounded))


def proposal_width(gaps: Floats) -> float:
    """Return the b in [1, q] with Σ 1/(b + 2λ_i) = 1, which makes the acceptance largest; the sum falls in b."""
    low, high = 1.0, float(len(gaps))
    for _ in range(64):
        middle = (low + high) / 2
        if (1.0 / (middle + 2.0 * gaps)).sum() > 1.0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def angular_gaussian(count: int, precisions: Floats, source: Source) -> Floats:
    """Return unit vectors y/‖y‖ for y with independent N(0, 1/ω_i) entries: density ∝ (Σ ω_i x_i²)^(-q/2)."""
    normals = standard_normal(count * len(precisions), source).reshape(count, -1) / np.sqrt(precisions)
    return np.asarray(normals / np.linalg.norm(normals, axis=1, keepdims=True))


def log_acceptance(points: Floats, gaps: Floats, width: float) -> Floats:
    """Return the log of target over proposal, scaled to be at most 0: plus q/2 log, since one divides by it."""
    size = len(gaps)
    squares = points * points
    spread = squares @ (1.0 + 2.0 * gaps / width)
    peak = (size - width) / 2.0 - size / 2.0 * log(size / width)
    return np.asarray(-squares @ gaps + size / 2.0 * np.log(spread) + peak)

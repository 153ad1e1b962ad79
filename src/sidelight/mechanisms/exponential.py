"""The exponential mechanism over a list of candidates, once (`choose`) or for the k largest counts (`Peeling`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
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
from sidelight.guarantees.conversions import gdp_from_bounded_range, pure_within_gdp, zcdp_from_bounded_range
from sidelight.guarantees.intervals import root_down
from sidelight.mechanisms.price import selection_price
from sidelight.noise import Categorical, Source


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
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise RangeError(f"the number of labels must be a whole number of at least 1, got {draws!r}")
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

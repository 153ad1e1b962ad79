"""The exponential mechanism over a list of candidates: the one place where a private score chooses."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from numpy.typing import ArrayLike

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Numerics
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
        scores: Integers, of each of which one unit moves by at most Δ (a sensitivity in linf, or any larger norm).
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

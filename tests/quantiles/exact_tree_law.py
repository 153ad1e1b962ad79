"""The exact law of the code in `descend` on tiny inputs, by walking through every outcome of every selection.

`select_rank` is replaced by a script: it returns the choices made so far and, when they run out, asks for the next one.
So the split, the ranges, the relative levels and the budgets under test are those of the product, and only the single
selection is the formula, evaluated with 40 digits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache

from scripted_source import SCRIPTED
from sidelight.quantiles import descend as descend_module

CONTEXT = Context(prec=40)


@dataclass(frozen=True)
class SmallRanks:
    codes: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.codes)

    def below(self, index: int) -> int:
        return bisect_left(self.codes, index)

    def order(self, k: int) -> int:
        return self.codes[k - 1]


class _ChoiceNeededError(Exception):
    def __init__(self, options: dict[int, Decimal]) -> None:
        self.options = options


@cache
def _exp(negative_exponent: Fraction) -> Decimal:
    ratio = CONTEXT.divide(Decimal(-negative_exponent.numerator), Decimal(negative_exponent.denominator))
    return CONTEXT.exp(ratio)


@cache
def selection_law(
    ranks: tuple[int, ...], size: int, masses: tuple[int, ...], target: Fraction, epsilon: Fraction, score: str
) -> tuple[Decimal, ...]:
    """The exponential mechanism with base measure: mass * exp(-epsilon * gap / (2 * sensitivity))."""
    if score == "exact":
        gaps = [abs(rank - target * size) for rank in ranks]
        spread = 2 * max(target, 1 - target)
    else:
        gaps = [Fraction(abs(rank - (target * size).__floor__())) for rank in ranks]
        spread = Fraction(2)
    best = min(gaps)
    weights = [mass * _exp(epsilon * (gap - best) / spread) for gap, mass in zip(gaps, masses, strict=True)]
    total = sum(weights)
    return tuple(CONTEXT.divide(weight, total) for weight in weights)


Law = Callable[..., dict[int, Decimal]]


def correct_selection(view, target, epsilon, prior, first, last, *, score, whole, step):
    indices = range(first, last + 1)
    ranks = tuple(view.below(j) for j in indices)
    masses = tuple(prior.cumulative(j + 1) - prior.cumulative(j) for j in indices)
    return dict(zip(indices, selection_law(ranks, view.size, masses, target, epsilon, score), strict=True))


def law_of(
    tree,
    codes: Sequence[int],
    prior,
    monkeypatch,
    *,
    adaptation: str = "conditional",
    score: str = "exact",
    selection: Law = correct_selection,
) -> dict[tuple[int, ...], Decimal]:
    """Return the probability of every (sorted) output of `descend`."""
    ranks = SmallRanks(tuple(sorted(codes)))
    script: list[int] = []

    def scripted(view, target, epsilon, adapted, first, last, source, *, score):
        choice = next(replay, None)
        if choice is None:
            raise _ChoiceNeededError(
                selection(view, target, epsilon, adapted, first, last, score=score, whole=ranks, step=len(script))
            )
        return choice

    monkeypatch.setattr(descend_module, "select_rank", scripted)
    law: dict[tuple[int, ...], Decimal] = {}
    waiting: list[tuple[list[int], Decimal]] = [([], Decimal(1))]
    replay: Iterator[int]
    while waiting:
        script, probability = waiting.pop()
        replay = iter(script)
        try:
            outputs = descend_module.descend(
                tree, ranks, priors=prior, source=SCRIPTED, adaptation=adaptation, score=score
            )
        except _ChoiceNeededError as asked:
            waiting += [([*script, j], probability * p) for j, p in asked.options.items() if p]
        else:
            law[outputs] = law.get(outputs, Decimal(0)) + probability
    return law


def largest_loss(law: dict[tuple[int, ...], Decimal], other: dict[tuple[int, ...], Decimal]) -> float:
    """Return max |log ratio| over all outputs; an output that only one of them has is an infinite loss."""
    if law.keys() != other.keys():
        return float("inf")
    ratios = [CONTEXT.divide(p, other[outputs]) for outputs, p in law.items()]
    return max(float(CONTEXT.ln(max(ratios))), -float(CONTEXT.ln(min(ratios))))

"""The exact output law of the code as it stands, read off by scripting its randomness.

`select_rank` draws a proposal unit u below a total of some 450 bits, looks up its outcome, and flips coins. Which coins
it flips is a function of u, and u -> outcome is piecewise constant. So the law follows without sampling: count the
units of each outcome (by bisection between units with different outcomes) and multiply by the probability of the coins.
`explored` does the same for a whole descent: every selection, and every dither, becomes a branching over its exact law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from ranks_of_codes import ranks_of_codes
from sidelight.grid import Grid
from sidelight.mechanisms import rank_selection
from sidelight.predictions.compiled import CompiledPrior
from sidelight.predictions.pieces import FlooredLine

Law = dict[Any, Fraction]
DIGITS = 50


class Steps:
    """A piecewise CDF with given masses, one piece per index."""

    def __init__(self, first: int, masses: Sequence[int]) -> None:
        self._first = first
        self._heights = [0, *np.cumsum(np.array(masses, dtype=object)).tolist()]

    many = False

    def line(self, index: int) -> FlooredLine:
        return FlooredLine(index, index + 1, 0, self.at(index), 1)

    def at(self, index: int) -> int:
        return self._heights[min(max(index - self._first, 0), len(self._heights) - 1)]


def prior_of(masses: Sequence[int], first: int = 0) -> CompiledPrior:
    """Return the compiled prior whose index first + i has mass masses[i] >= 1 exactly."""
    return CompiledPrior(first, first + len(masses) - 1, [Steps(first, [mass - 1 for mass in masses])])


def plain_grid(size: int) -> Grid:
    return Grid(resolution=Fraction(1), first=0, last=size - 1, dither_bits=0, snap="nearest")


def ranks_of(codes: Sequence[int], size: int) -> Any:
    return ranks_of_codes(np.sort(np.array(codes, dtype=np.int64)), plain_grid(size), None)


@contextmanager
def _patched(**replacements: Any) -> Iterator[None]:
    before = {name: getattr(rank_selection, name) for name in replacements}
    for name, value in replacements.items():
        setattr(rank_selection, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(rank_selection, name, value)


def selection_law(draw: Callable[[], int]) -> Law:
    """Return the exact law of a call of `select_rank`: `draw` makes the call, with any source."""
    tosses: list[tuple[str, int, int]] = []
    script = {"unit": 0, "total": 0, "calls": 0}

    def below(n: int, source: object) -> int:
        script["total"], script["calls"] = n, script["calls"] + 1
        return script["unit"]

    def bernoulli(p: int, q: int, source: object) -> bool:
        assert 0 <= p <= q
        tosses.append(("rational", p, q))
        return True

    def bernoulli_exp(p: int, q: int, source: object) -> bool:
        tosses.append(("exponential", p, q))
        return True

    def at(unit: int) -> tuple[int, tuple[tuple[str, int, int], ...]]:
        tosses.clear()
        script["unit"], script["calls"] = unit, 0
        outcome = draw()
        assert script["calls"] <= 1
        return outcome, tuple(tosses)

    built: list[Any] = []

    def rings(*arguments: Any) -> Any:  # the same for every unit: build them once
        if not built:
            built.append(real_rings(*arguments))
        return built[0]

    real_rings = rank_selection.Rings
    with _patched(below=below, bernoulli=bernoulli, bernoulli_exp=bernoulli_exp, Rings=rings):
        start = at(0)
        if script["calls"] == 0:  # a single outcome is returned without a draw
            return {start[0]: Fraction(1)}
        counts = _count_pieces(at, script["total"], _likely_cuts(built[0]))
    law: Law = {}
    with localcontext() as context:
        context.prec = DIGITS
        for (outcome, coins), units in counts.items():
            weight = Decimal(units)
            for kind, p, q in coins:
                ratio = Decimal(p) / Decimal(q)
                weight *= (-ratio).exp() if kind == "exponential" else ratio
            law[outcome] = law.get(outcome, Fraction(0)) + Fraction(weight)
    total = sum(law.values())
    return {outcome: mass / total for outcome, mass in law.items()}


def _likely_cuts(rings: Any) -> set[int]:
    """Guess where the outcome changes. A wrong guess costs time only: between unequal guesses we bisect."""
    cuts: set[int] = set()
    masses = rings._masses
    for ring, (left_mass, (_, left_start, *_), (_, right_start, _, right_end)) in enumerate(rings._blocks):
        start, weight = rings.start(ring), rank_selection.DECAY.steps[rings.depths[ring]]
        for j in range(masses.first, masses.last + 2):
            below = masses.cumulative(j)
            if left_start <= below <= left_start + left_mass:
                cuts.add(start + (below - left_start) * weight)
            if right_start <= below <= right_end:
                cuts.add(start + (left_mass + below - right_start) * weight)
    return cuts


def _count_pieces(at: Callable[[int], Any], total: int, guesses: set[int]) -> dict[Any, int]:
    """Count the units of each piece of a piecewise constant function on 0..total-1.

    Started from many other cut points too: a piece between two equal ends would have to hide between all of them.
    """
    spread = {total * i // 29 for i in range(29)} | {total >> k for k in range(1, 440, 40)} | {0, total - 1}
    both_sides = guesses | {guess - 1 for guess in guesses}
    cuts = sorted(cut for cut in spread | both_sides if 0 <= cut < total)
    values = {cut: at(cut) for cut in cuts}
    counts: dict[Any, int] = {}
    stack = list(pairwise(cuts))
    counts[values[total - 1]] = 1
    while stack:
        low, high = stack.pop()
        if values[low] == values[high]:
            counts[values[low]] = counts.get(values[low], 0) + high - low
        elif high - low == 1:
            counts[values[low]] = counts.get(values[low], 0) + 1
        else:
            middle = (low + high) // 2
            values[middle] = at(middle)
            stack += [(low, middle), (middle, high)]
    assert sum(counts.values()) == total
    return counts


Choose = Callable[[Law], Any]


def explored(run: Callable[[Choose], Any]) -> Law:
    """Return the exact law of a program that draws only through `choose(law)`: every branch is run."""
    found: Law = {}
    pending: list[tuple[tuple[Any, ...], Fraction]] = [((), Fraction(1))]
    while pending:
        prefix, chance = pending.pop()
        branches: list[Law] = []
        made = iter(prefix)

        def choose(law: Law, made: Iterator[Any] = made, branches: list[Law] = branches) -> Any:
            for value in made:
                return value
            branches.append(law)
            raise _Branch

        try:
            outcome = run(choose)
        except _Branch:
            pending += [((*prefix, value), chance * mass) for value, mass in branches[0].items()]
        else:
            found[outcome] = found.get(outcome, Fraction(0)) + chance
    return found


class _Branch(Exception):  # noqa: N818
    """A draw whose outcome the branch does not name yet."""


class Selections:
    """`select_rank` as a choice from its exact law. A law is remembered by all that can decide it."""

    def __init__(self) -> None:
        self._laws: dict[Any, Law] = {}

    def law(self, ranks, target, epsilon, prior, first, last, source, *, score="exact") -> Law:  # type: ignore[no-untyped-def]
        records = tuple(ranks.order(k) for k in range(1, ranks.size + 1))
        masses = tuple(prior.cumulative(j) for j in range(first, last + 2))
        key = (records, masses, target, epsilon, first, last, score)
        if key not in self._laws:
            self._laws[key] = selection_law(
                lambda: rank_selection.select_rank(ranks, target, epsilon, prior, first, last, source, score=score)
            )
        return self._laws[key]

    def chosen_by(self, choose: Choose) -> Callable[..., int]:
        """Return the stand-in for `select_rank`."""
        return lambda *arguments, **options: choose(self.law(*arguments, **options))


def datasets(size: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield every multiset of at most `most` codes of 0..size-1."""
    layer: list[tuple[int, ...]] = [()]
    for _ in range(most + 1):
        yield from layer
        layer = [(*codes, code) for codes in layer for code in range(codes[-1] if codes else 0, size)]


def with_one_more(codes: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the data sets with one added record."""
    for code in range(size):
        yield tuple(sorted((*codes, code)))

"""Laws of the rank selection on tiny grids, by brute force: no rings, no rejection, no integers of the sampler."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

from sidelight.mechanisms.rings import DECAY, Decay, Gap, Rings, Score, gap_score


class ListRanks:
    """Ranks of a short list of codes."""

    def __init__(self, codes: Sequence[int]) -> None:
        self.codes = sorted(codes)
        self.size = len(self.codes)

    def below(self, index: int) -> int:
        return sum(code < index for code in self.codes)

    def order(self, k: int) -> int:
        assert 1 <= k <= self.size
        return self.codes[k - 1]


class ListMasses:
    """Masses written one by one."""

    def __init__(self, masses: Sequence[int], first: int = 0) -> None:
        self.masses = list(masses)
        self.first, self.last = first, first + len(self.masses) - 1

    def cumulative(self, index: int) -> int:
        return sum(self.masses[: min(max(index - self.first, 0), len(self.masses))])

    def inverse(self, position: int, around: object = None) -> int:
        assert 0 <= position < sum(self.masses)
        j = self.first
        while self.cumulative(j + 1) <= position:
            j += 1
        return j

    def fresh(self) -> ListMasses:
        return self


def outcome_masses(masses: object) -> dict[int, int]:
    """Return the mass of every outcome of a small view."""
    return {
        j: masses.cumulative(j + 1) - masses.cumulative(j)  # type: ignore[attr-defined]
        for j in range(masses.first, masses.last + 1)  # type: ignore[attr-defined]
    }


def exponential_law(
    masses: dict[int, int], codes: Sequence[int], level: Fraction, epsilon: float, score: Score = "exact"
) -> list[float]:
    """Return the textbook law: mass * exp(-eps * gap / (2 Delta)), normalised."""
    n = len(codes)
    weights = []
    for j, mass in masses.items():
        rank = sum(code < j for code in codes)
        if score == "exact":
            exponent = epsilon * abs(rank - level * n) / (2 * max(level, 1 - level))
        else:
            exponent = epsilon * abs(rank - math.floor(level * n)) / 2
        weights.append((mass, float(exponent)))
    nearest = min(exponent for _, exponent in weights)
    scaled = [mass * math.exp(nearest - exponent) for mass, exponent in weights]
    return [w / sum(scaled) for w in scaled]


def machine_law(rings: Rings, masses: dict[int, int], decay: Decay = DECAY) -> list[float]:
    """Return the law that the sampler's integers stand for: mass * W(excess), normalised."""
    weights = []
    for j, mass in masses.items():
        whole, remainder, divisor = rings.excess(j)
        if whole >= decay.levels:
            weight = decay.steps[decay.levels] / decay.steps[0]
        else:
            weight = decay.steps[whole] / decay.steps[0] * math.exp(-remainder / divisor)
        weights.append(mass * weight)
    return [w / sum(weights) for w in weights]


def rings_of(codes: Sequence[int], masses: object, level: Fraction, epsilon: Fraction, **options: object) -> Rings:
    score = options.pop("score", "exact")
    ranks = ListRanks(codes)
    gap: Gap = gap_score(ranks.size, level, epsilon, score)  # type: ignore[arg-type]
    return Rings(ranks, masses, gap, **options)  # type: ignore[arg-type]


def units_by_ring(rings: Rings) -> dict[int, Counter[int]]:
    """Return, for every ring, how many units of its mass lead to each outcome."""
    return {
        ring: Counter(rings.outcome(ring, unit) for unit in range(rings.ring_mass(ring)))
        for ring in range(rings.cut + 1)
    }


def neighbours(indices: Sequence[int], most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return every multiset of at most `most` codes with every way to add one more."""
    for n in range(most + 1):
        for codes in combinations_with_replacement(indices, n):
            for added in indices:
                yield codes, (*codes, added)


def largest_loss(law: object, indices: Sequence[int], most: int) -> float:
    """Return max |log p(j|x) / p(j|x')| over all neighbours and outcomes."""
    known: dict[tuple[int, ...], list[float]] = {}

    def of(codes: tuple[int, ...]) -> list[float]:
        key = tuple(sorted(codes))
        if key not in known:
            known[key] = [math.log(p) for p in law(key)]  # type: ignore[operator]
        return known[key]

    return max(abs(a - b) for less, more in neighbours(indices, most) for a, b in zip(of(less), of(more), strict=True))

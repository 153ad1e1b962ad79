"""Watch private statistics where noise meets them: run a query on two neighbours with the same noisy answers.

In the first run every mechanism works, and what it met (a `Bounded`, or the scores of an exponential mechanism) and
what it answered are written down. In the second run, on the neighbour, the answers of the first are given again, so
that everything released so far is the same; whatever then differs by more than its sensitivity is a leak, and so is a
course that differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise, SymmetricGaussianNoise
from sidelight.mechanisms.idealized_noise import SphericalNoise, WishartNoise
from sidelight.noise import Categorical, Source
from sidelight.testing import SeededEntropy

#: Every class that adds noise to a `Bounded`.
MECHANISMS = (GaussianNoise, LaplaceNoise, SphericalNoise, SymmetricGaussianNoise, WishartNoise)


@dataclass
class Course:
    """What one run met and answered, in order."""

    met: list[Any] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)


@contextmanager
def watched(course: Course, again: Course | None = None) -> Iterator[None]:
    """Write down what mechanisms meet; with `again`, give that course's answers."""

    def answered(met: Any, draw: Any) -> Any:
        course.met.append(met)
        answer = draw() if again is None else again.answers[len(course.met) - 1]
        course.answers.append(answer)
        return np.array(answer) if isinstance(answer, np.ndarray) else answer  # a caller may use it up

    def wrapped(release: Any) -> Any:
        return lambda noise, source: answered(noise.bounded, lambda: release(noise, source))

    places = [(mechanism, "release", mechanism.__dict__["release"]) for mechanism in MECHANISMS]
    original = Categorical

    class Watched(original):  # type: ignore[misc, valid-type]
        def __init__(self, scores: Any, unit: Fraction, *rest: Any) -> None:
            super().__init__(scores, unit, *rest)
            self.met = (np.asarray(scores).astype(object), unit)

        def draw(self, source: Source) -> int:
            return int(answered(self.met, lambda: original.draw(self, source)))

    drawn = [
        (module, "Categorical", original)
        for key, module in sys.modules.items()
        if key.startswith("sidelight") and getattr(module, "Categorical", None) is original
    ]
    for module, name, value in places:
        setattr(module, name, wrapped(value))
    for module, name, _ in drawn:
        setattr(module, name, Watched)
    try:
        yield
    finally:
        for module, name, value in (*places, *drawn):
            setattr(module, name, value)


def excess(first: Any, second: Any) -> Fraction:
    """Return by what factor two values are further apart than their sensitivity says: above 1 is a leak."""
    if not isinstance(first, Bounded):
        return Fraction(0)
    assert (first.sensitivity, first.norm) == (second.sensitivity, second.norm)
    apart = np.atleast_1d(np.asarray(first.value, object) - np.asarray(second.value, object))
    sizes = [abs(int(entry)) for entry in apart.ravel()]
    if first.norm == "l1":
        return Fraction(sum(sizes)) / first.sensitivity
    if first.norm == "linf":
        return Fraction(max(sizes, default=0)) / first.sensitivity
    if first.norm == "l2":
        square = Fraction(sum(size**2 for size in sizes)) / first.sensitivity**2
        return square if square > 1 else Fraction(float(square) ** 0.5)
    return Fraction(float(np.abs(np.linalg.eigvalsh(apart.astype(np.float64))).sum()) * (1 - 1e-9)) / first.sensitivity


def loss_of(first: Any, second: Any) -> float:
    """Return how far one draw's probabilities can be apart, as a logarithm: the range of the change of the scores."""
    (scores, unit), (others, same) = first, second
    assert unit == same
    changes = [int(change) for change in scores - others]
    return float(unit * (max(changes) - min(changes)))


def compare(prepared: Any, table: Any, neighbour: Any, *, seed: int) -> tuple[Fraction, float, int]:
    """Return the largest excess of a statistic, the largest loss of one selection, and how many were met."""
    first, second = Course(), Course()
    with watched(first):
        prepared.run(table, Source(SeededEntropy(seed)))
    with watched(second, again=first):
        prepared.run(neighbour, Source(SeededEntropy(seed)))
    assert len(first.met) == len(second.met), "the course depends on a record"
    pairs = list(zip(first.met, second.met, strict=True))
    largest = max((excess(*pair) for pair in pairs if isinstance(pair[0], Bounded)), default=Fraction(0))
    loss = max((loss_of(*pair) for pair in pairs if not isinstance(pair[0], Bounded)), default=0.0)
    return largest, loss, len(pairs)

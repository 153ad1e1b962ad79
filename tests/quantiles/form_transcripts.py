"""The privacy loss of whole transcripts of the forms, by replacing every private draw of the product with a script.

A transcript is the list of everything that selections and noisy counts return, in order. Between two draws the product
computes with public numbers only, so that one transcript means the same cells, plans, flags and priors whatever the
data; its probability is a product of known factors. `loss` plays one transcript on two data sets and compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from exact_tree_law import SmallRanks

from sidelight.mechanisms import additive
from sidelight.quantiles import descend as descend_module
from sidelight.quantiles.forms import refined_counts as fine_counts_module

#: Noisy counts that are tried: small ones, and large ones that raise flags and make cells be counted once more.
COUNTS = (-3, -1, 0, 1, 2, 3, 6, 40, 150, 600, 2500)


class StructureDiffersError(Exception):
    """Two data sets led the same transcript to other questions: something private decided."""


@dataclass
class Play:
    """One run under a script: choices made so far, and the logarithm of their probability on this data."""

    choices: list[Any]
    random: Random | None = None
    place: int = 0
    log_probability: float = 0.0
    shapes: list[tuple[Any, ...]] = field(default_factory=list)

    def next(self, shape: tuple[Any, ...], draw: Callable[[Random], Any], fits: Callable[[Any], Any]) -> Any:
        """Return the next choice of the script, or a new one; `shape` must not depend on the data."""
        self.shapes.append(shape)
        if self.place < len(self.choices):
            choice = fits(self.choices[self.place])
            self.choices[self.place] = choice
        elif self.random is None:
            raise StructureDiffersError
        else:
            choice = draw(self.random)
            self.choices.append(choice)
        self.place += 1
        return choice


_PLAY: list[Play] = []


def _select(view, target, epsilon, prior, first, last, source, *, score="exact"):
    play = _PLAY[-1]
    if first == last:
        return first
    choice = play.next(
        ("select", first, last, target, epsilon),
        lambda random: random.choice((first, last, random.randint(first, last))),
        lambda given: min(max(given, first), last) if isinstance(given, int) else first,
    )
    indices = range(first, last + 1)
    spread = 2 * float(max(target, 1 - target)) / float(epsilon)
    logs = np.array(
        [
            math.log(prior.cumulative(j + 1) - prior.cumulative(j))
            - abs(view.below(j) - float(target) * view.size) / spread
            for j in indices
        ]
    )
    top = logs.max()
    play.log_probability += float(logs[choice - first] - top - math.log(np.exp(logs - top).sum()))
    return choice


def _counts(size: int) -> tuple[Callable[[Random], Any], Callable[[Any], Any]]:
    def draw(random: Random) -> list[int]:
        return [random.choice(COUNTS) for _ in range(size)]

    def fits(given: Any) -> list[int]:
        numbers = list(given) if isinstance(given, list) else [0]
        return [*numbers, *([0] * size)][:size]

    return draw, fits


def _laplace(self, source):
    truth = np.atleast_1d(self.bounded.value)
    found = np.array(_PLAY[-1].next(("counts", len(truth), self.epsilon), *_counts(len(truth))), np.int64)
    _PLAY[-1].log_probability -= float(self.epsilon) * float(np.abs(found - truth).sum())
    return found if isinstance(self.bounded.value, np.ndarray) else int(found[0])


class ScriptedRefinable:
    """The joint law of rough and refined counts (Theorem 7): what is added to a refined count knows no data."""

    def __init__(self, counts, *, epsilon, source, places, spans):
        self.epsilon, self._truth = epsilon, np.asarray(counts.value)
        self.rough_epsilon, self.left = epsilon / 3, epsilon * 2 / 3
        size = len(self._truth)
        self.rough = np.array(_PLAY[-1].next(("rough", size, epsilon), *_counts(size)), np.int64)

    def refined(self, chosen):
        chosen = np.asarray(chosen, bool)
        size = len(self._truth)
        fine = np.array(_PLAY[-1].next(("refined", tuple(chosen.tolist())), *_counts(size)), np.int64)
        self._add(fine, chosen)
        return np.where(chosen, fine, self.rough)

    def _add(self, fine, chosen):
        rough_cost = float(self.rough_epsilon) * np.abs(self.rough - self._truth)
        fine_cost = float(self.epsilon) * np.abs(fine - self._truth)
        _PLAY[-1].log_probability -= float(np.where(chosen, fine_cost, rough_cost).sum())


class IndependentSecondMeasurement(ScriptedRefinable):
    """The planted bug: measure once more with the whole budget instead of taking noise away."""

    def _add(self, fine, chosen):
        rough_cost = float(self.rough_epsilon) * np.abs(self.rough - self._truth)
        fine_cost = float(self.epsilon) * np.abs(fine - self._truth)
        _PLAY[-1].log_probability -= float((rough_cost + np.where(chosen, fine_cost, 0.0)).sum())


def script(monkeypatch, refinable=ScriptedRefinable) -> None:
    """Replace every private draw of the product by the script."""
    monkeypatch.setattr(descend_module, "select_rank", _select)
    monkeypatch.setattr(additive.LaplaceNoise, "release", _laplace)
    monkeypatch.setattr(fine_counts_module, "RefinableCounts", refinable)


Release = Callable[[SmallRanks], Any]


def play(release: Release, codes: Sequence[int], choices: list[Any], random: Random | None = None) -> Play:
    """Run a release on a data set under a script; with `random` the script is made up where it ends."""
    run = Play(choices, random)
    _PLAY.append(run)
    try:
        release(SmallRanks(tuple(sorted(codes))))
    finally:
        _PLAY.pop()
    return run


def loss(release: Release, codes: Sequence[int], added: Sequence[int], choices: list[Any], random: Random) -> float:
    """Return |log ratio| of one transcript between a data set and that with records added; completes the transcript."""
    before = play(release, codes, choices, random)
    del choices[before.place :]
    try:
        after = play(release, [*codes, *added], choices)
    except StructureDiffersError:
        return math.inf
    if after.shapes != before.shapes:
        return math.inf
    return abs(before.log_probability - after.log_probability)


def largest_loss(
    release: Release,
    *,
    codes: int,
    most: int,
    rounds: int,
    climbs: int,
    seed: int,
    added: int = 1,
    until: float = math.inf,
) -> float:
    """Search data sets and transcripts for the largest loss: random starts, then changes of single choices.

    Stops when a loss above `until` is found.
    """
    random, worst = Random(seed), 0.0
    for _ in range(rounds):
        data = [random.randrange(codes) for _ in range(random.randint(0, most))]
        more = [random.choice((0, codes - 1, random.randrange(codes))) for _ in range(added)]
        best_choices: list[Any] = []
        best = loss(release, data, more, best_choices, random)
        for _ in range(climbs):
            tried = [list(each) if isinstance(each, list) else each for each in best_choices]
            place = random.randrange(len(tried))
            if isinstance(tried[place], list):
                if not tried[place]:
                    continue
                tried[place][random.randrange(len(tried[place]))] = random.choice(COUNTS)
            else:
                tried[place] = random.randrange(codes)
            if random.random() < 0.3:
                del tried[place + 1 :]
            found = loss(release, data, more, tried, random)
            if found >= best:
                best, best_choices = found, tried
            if best > until:
                return best
        worst = max(worst, best)
    return worst

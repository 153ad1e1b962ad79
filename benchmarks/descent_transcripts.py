"""Whole transcripts of a descent with their exact privacy loss between two tables.

A transcript is everything that a descent releases: the Gram matrix, the count, the choice, every gradient, the last sum
of classes. A run on one table is made again on the other with the answers of the first put in its place, so that the
values that the noise met are known for both, and with them the log-likelihood ratio of that transcript. By the
Neyman-Pearson lemma no attack on the released model sees more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from sidelight.noise import Source
from sidelight.regression.descent.fit import FittedDescent, descend
from sidelight.regression.descent.plan import DescentPlan
from sidelight.regression.descent.starts import StartChoice
from sidelight.regression.estimators import fit_query
from sidelight.regression.rows import BoundedRows


class Transcript:
    """What the noise of one run met and what was released; a second run gets the same answers."""

    def __init__(self) -> None:
        self.met: list[list[Any]] = [[], []]
        self.scales: list[float] = []
        self.answers: list[Any] = []
        self.run = 0

    def answer(self, value: Any, scale: float, fresh: Any) -> Any:
        """Record a value; return the fresh answer in the first run, the same one in the second."""
        self.met[self.run].append(value)
        if self.run == 0:
            self.scales.append(scale)
            self.answers.append(fresh())
        return self.answers[len(self.met[self.run]) - 1]

    def loss(self) -> float:
        """Return log P(answers | first table) / P(answers | second table)."""
        assert len(self.met[0]) == len(self.met[1]) == len(self.answers)
        total = 0.0
        for first, second, scale, answer in zip(*self.met, self.scales, self.answers, strict=True):
            if scale == 0:  # the choice: the values are log-probabilities, the answer a place
                total += first[answer] - second[answer]
                continue
            here, there, seen = (np.asarray(part, np.float64) for part in (first, second, answer))
            total += float(np.sum((seen - there) ** 2 - (seen - here) ** 2)) / (2 * scale**2)
        return total


class Recorded:
    """A noise whose release is written into a transcript."""

    def __init__(self, noise: Any, value: Any, transcript: Transcript) -> None:
        self._noise, self._value, self._transcript = noise, value, transcript
        self.scale, self.deviation = noise.scale, noise.deviation

    def release(self, source: Source) -> Any:
        """Release, or repeat."""
        return self._transcript.answer(self._value, float(self.scale), lambda: self._noise.release(source))


def _recorded(made: Any, transcript: Transcript) -> Any:
    return lambda plan, value, **more: Recorded(made(plan, value, **more), value, transcript)


@contextmanager
def recording(transcript: Transcript) -> Iterator[None]:
    """Write down what every noise and the choice meet."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("gram_noise", "count_noise", "step_noise", "offset_noise"):
            patch.setattr(DescentPlan, name, _recorded(getattr(DescentPlan, name), transcript))
        real = StartChoice.draw

        def draw(choice: StartChoice, losses: Any, source: Source) -> int | None:
            weights = [
                math.log(w) - float(choice.step) * int(loss) for w, loss in zip(choice.weights, losses, strict=True)
            ]
            logarithms = [weight - np.logaddexp.reduce(weights) for weight in weights]

            def fresh() -> int:
                place = real(choice, losses, source)
                return len(losses) - 1 if place is None else place

            place = transcript.answer(logarithms, 0.0, fresh)
            return None if place == len(losses) - 1 else place

        patch.setattr(StartChoice, "draw", draw)
        yield


def transcript_of(plan: DescentPlan, rows: Sequence[BoundedRows], *, source: Source) -> Transcript:
    """Run a plan on the first rows, and again on the second with the answers of the first."""
    transcript = Transcript()
    with recording(transcript):
        for transcript.run, table in enumerate(rows):
            descend(plan, table, source=source)
    return transcript


@contextmanager
def recording_fits(transcript: Transcript) -> Iterator[None]:
    """Write down what the noise of estimators' fits meets; their plans, which try noises too, are made as ever."""

    def recorded(plan: DescentPlan, rows: BoundedRows, *, source: Source) -> FittedDescent:
        with recording(transcript):
            return descend(plan, rows, source=source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_query, "descend", recorded)
        yield

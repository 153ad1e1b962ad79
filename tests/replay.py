"""Replay the noisy answers of a release on a neighbouring table, and compare what meets the noise, draw by draw.

In the first run every mechanism works, and what it met and what it answered are written down. In the second run, on the
neighbour, the answers of the first are given again, so that everything released so far is the same. Then both runs must
make the same draws with the same public parameters, what meets the noise may differ by its sensitivity and no more, and
what is released in the end, a function of the answers, must be the same.

A draw outside the patched mechanisms raises `NotReplayedError`, already in the first run: none is skipped silently.
What belongs to a record, its place among tied ones, is the same function of it in both runs.
"""

from __future__ import annotations

import hashlib
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sidelight.aggregates import ranks
from sidelight.aggregates.bounded import Bounded
from sidelight.guarantees import BoundedRange, Person, Row
from sidelight.mechanisms import exponential, rank_selection, tests_and_bounds
from sidelight.mechanisms import prefix_sums as prefix_sums_plan
from sidelight.mechanisms.additive import GaussianNoise, LaplaceNoise, SeveralGaussians, SymmetricGaussianNoise
from sidelight.mechanisms.gaussian_threshold import GaussianThreshold
from sidelight.mechanisms.idealized_noise import SphericalNoise, WishartNoise
from sidelight.mechanisms.refinable_counts import RefinableCounts
from sidelight.mechanisms.truncated_laplace import TruncatedLaplace
from sidelight.noise import Source, random_order
from sidelight.noise.source import Part
from sidelight.session import pipeline
from sidelight.testing import SeededEntropy

#: Every class that adds noise to a `Bounded`.
ADDITIVE = (GaussianNoise, LaplaceNoise, SphericalNoise, SymmetricGaussianNoise, WishartNoise)
#: Floats that were compared may be off by this share.
ROUNDING = 1e-9
PAIRING = "which rows are paired"
#: Draws with a joint bound on the sum of their squares.
TOGETHER = "prefix sums"


class NotReplayedError(Exception):
    """A draw that this module cannot replay; the text says which."""


class CoupledError(Exception):
    """The course of a run depends on a record: other draws, or other public parameters."""


@dataclass(frozen=True, eq=False)
class Met:
    """What one draw met: its public parameters, the private value, for which unit, and over which records.

    `ratio` says how far it is from the value of another run, as a share of what one unit may move it.
    """

    public: tuple[Any, ...]
    value: Any
    unit: Any
    part: Part
    ratio: Callable[[Any, Any], float]


@dataclass
class Tape:
    """What one run met and answered, in order, and what it released."""

    met: list[Met] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    released: Any = None


class TapedSource(Source):
    """A source for one run: draws at the seams alone, and what is free from a stream of its own for each purpose."""

    def __init__(self, seed: str, tape: Tape, again: Tape | None, *, pairs: bool) -> None:
        super().__init__(SeededEntropy(seed))
        self.seed, self.tape, self.again, self.pairs = seed, tape, again, pairs
        self.at_seam = self.pairing = False
        self.purposes: Counter[str] = Counter()

    def answered(self, met: Met, draw: Callable[[], Any]) -> Any:
        """Write down a draw; answer by drawing, or with what the other run answered."""
        place = len(self.tape.met)
        self.tape.met.append(met)
        if self.again is None:
            with self._at_seam():
                answer = draw()
        elif place >= len(self.again.met):
            raise CoupledError(f"a draw more than the {place} of the other run: {met.public}")
        elif met.public != self.again.met[place].public or met.part != self.again.met[place].part:
            raise CoupledError(f"draw {place}: {self.again.met[place].public} became {met.public}")
        else:
            answer = self.again.answers[place]
        self.tape.answers.append(answer)
        return np.array(answer) if isinstance(answer, np.ndarray) else answer  # a caller may use it up

    @contextmanager
    def _at_seam(self) -> Iterator[None]:
        outer, self.at_seam = self.at_seam, True
        try:
            yield
        finally:
            self.at_seam = outer

    @contextmanager
    def free(self, reason: str) -> Iterator[None]:
        """Draw what meets no statistic, from a stream that other draws do not move."""
        self.purposes[reason] += 1
        outer = self._entropy, self._pool
        self._entropy, self._pool = SeededEntropy(f"{self.seed} {reason} {self.purposes[reason]}"), b""
        self.pairing = reason == PAIRING
        try:
            with super().free(reason), self._at_seam():
                yield
        finally:
            self.pairing = False
            self._entropy, self._pool = outer

    def free_bits(self, k: int, reason: str) -> int:
        """Draw bits from such a stream."""
        with self.free(reason):
            return self.bits(k)

    def _drawing(self) -> None:
        super()._drawing()
        if self.pairing and not self.pairs:
            raise NotReplayedError("rows that are kept by coins of their own")
        if not self.at_seam:
            law = getattr(self._price, "law", "a draw without a price")
            raise NotReplayedError(str(law))


# --- how far two values are apart -------------------------------------------------------------------------------------


def _apart(first: Any, second: Any) -> list[int]:
    return [int(each) for each in np.ravel(np.asarray(first, object) - np.asarray(second, object))]


def _in_norm(norm: str, sensitivity: Fraction) -> Callable[[Any, Any], float]:
    def ratio(first: Any, second: Any) -> float:
        moved = _apart(first, second)
        if norm == "l1":
            return float(sum(map(abs, moved)) / sensitivity)
        if norm == "linf":
            return float(max(map(abs, moved), default=0) / sensitivity)
        if norm == "l2":
            return float(sum(each**2 for each in moved) / sensitivity**2) ** 0.5
        matrix = np.reshape(np.array(moved, np.float64), np.shape(first))
        return float(np.abs(np.linalg.eigvalsh(matrix)).sum()) / float(sensitivity)

    return ratio


def _range_of_scores(distance: Fraction) -> Callable[[Any, Any], float]:
    def ratio(first: Any, second: Any) -> float:
        moved = _apart(first, second)
        return float((max(moved) - min(moved)) / distance)

    return ratio


def _range_of_excess(epsilon: Fraction) -> Callable[[Any, Any], float]:
    """Return how far log-weights of outcomes move apart: they change at records alone, so that few places matter."""

    def excess(rings: Any, index: int) -> Fraction:
        whole, remainder, divisor = rings.excess(index)
        return min(whole + Fraction(remainder, divisor), Fraction(rank_selection.DECAY.levels))

    def ratio(first: Any, second: Any) -> float:
        low, high = first._first, first._last
        places = {low, high}
        for rings in (first, second):
            seen = rings._ranks
            for k in range(1, seen.size + 1):
                index = seen.order(k)
                places |= {min(max(each, low), high) for each in (index, index + 1)}
        moved = [excess(first, each) - excess(second, each) for each in places]
        return float((max(moved) - min(moved)) / epsilon)

    return ratio


def _of_blocks(law: SeveralGaussians) -> Callable[[Any, Any], float]:
    def ratio(first: Any, second: Any) -> float:
        squares = [Fraction(sum(each**2 for each in _apart(*pair))) for pair in zip(first, second, strict=True)]
        allowed = max(
            sum((moved / scale**2 for moved, scale in zip(corner, law.scales, strict=True)), Fraction(0))
            for corner in law.corners
        )
        met = sum((square / scale**2 for square, scale in zip(squares, law.scales, strict=True)), Fraction(0))
        return float(met / allowed) ** 0.5

    return ratio


def _of_labels(groups: int) -> Callable[[Any, Any], float]:
    def ratio(first: Any, second: Any) -> float:
        moved = [abs(each) for each in _apart(first, second)]
        return max(float(max(moved, default=0)), sum(each > 0 for each in moved) / groups)

    return ratio


# --- the seams --------------------------------------------------------------------------------------------------------


def _of_bounded(kind: str, bounded: Bounded, source: Source, *more: Any) -> Met:
    public = (kind, *more, bounded.sensitivity, bounded.norm, bounded.shape, str(bounded.unit))
    ratio = _in_norm(bounded.norm, bounded.sensitivity)
    return Met(public, bounded.value, bounded.unit, source._part, ratio)


def _added(release: Any) -> Any:
    def seam(self: Any, source: Any) -> Any:
        if not isinstance(source, TapedSource):
            return release(self, source)
        met = _of_bounded(type(self).__name__, self.bounded, source, self.scale)
        return source.answered(met, lambda: release(self, source))

    return seam


def _chosen(choose: Any) -> Any:
    def seam(scores: Bounded, *, spread: Fraction, source: Any, apart: int = 2, **rest: Any) -> int:
        if not isinstance(source, TapedSource):
            return int(choose(scores, spread=spread, source=source, apart=apart, **rest))
        weights = None if rest.get("weights") is None else tuple(np.asarray(rest["weights"]).tolist())
        public = ("choice", spread, apart, scores.sensitivity, scores.shape, weights)
        ratio = _range_of_scores(apart * scores.sensitivity)
        met = Met(public, scores.value, scores.unit, source._part, ratio)
        return int(source.answered(met, lambda: choose(scores, spread=spread, source=source, apart=apart, **rest)))

    return seam


def _ranked(draw: Any) -> Any:
    def seam(rings: Any, source: Any, **rest: Any) -> int:
        if not isinstance(source, TapedSource):
            return int(draw(rings, source, **rest))
        claims = source._price.claims  # type: ignore[union-attr]
        epsilon = next(each.epsilon for each in claims if isinstance(each, BoundedRange))
        public = ("rank", epsilon, rings._first, rings._last, rings._gap.step, rings._gap.slope)
        met = Met(public, rings, claims.unit, source._part, _range_of_excess(epsilon))
        return int(source.answered(met, lambda: draw(rings, source, **rest)))

    return seam


def _in_blocks(release: Any) -> Any:
    def seam(self: SeveralGaussians, blocks: Any, source: Any) -> Any:
        if not isinstance(source, TapedSource):
            return release(self, blocks, source)
        public = ("blocks", self.scales, self.corners, tuple(block.shape for block in blocks), str(self.unit))
        met = Met(public, list(blocks), self.unit, source._part, _of_blocks(self))
        return [np.array(block) for block in source.answered(met, lambda: release(self, blocks, source))]

    return seam


def _refinable(init: Any) -> Any:
    def seam(self: Any, counts: Bounded, *, epsilon: Any, source: Any, places: Any = None, spans: Any = None) -> None:
        if not isinstance(source, TapedSource):
            init(self, counts, epsilon=epsilon, source=source, places=places, spans=spans)
            return
        with source._at_seam():
            init(self, counts, epsilon=epsilon, source=source, places=places, spans=spans)
        met = _of_bounded("refinable", counts, source, self.epsilon, None if spans is None else tuple(spans))
        self._fine, self.rough = (np.array(each) for each in source.answered(met, lambda: (self._fine, self.rough)))

    return seam


def _labelled(release: Any) -> Any:
    def seam(self: Any, counts: Any, *, source: Any, known_too: bool = False) -> Any:
        if not isinstance(source, TapedSource):
            return release(self, counts, source=source, known_too=known_too)
        met = Met(("labels", self, known_too), counts.counts, counts.unit, source._part, _of_labels(counts.groups))
        if source.again is not None and source.again.met[len(source.tape.met)].value.shape != counts.counts.shape:
            raise NotReplayedError("a label that one unit alone has: the theorem of thresholds prices it by delta")
        return source.answered(met, lambda: release(self, counts, source=source, known_too=known_too))

    return seam


def _tested(passes: Any) -> Any:
    def seam(self: Any, distance: int, source: Any, **rest: Any) -> bool:
        if not isinstance(source, TapedSource):
            return bool(passes(self, distance, source, **rest))
        public = ("test", self.scale, self.false_pass)
        met = Met(public, min(distance, self.cap), Row(), source._part, _in_norm("l1", Fraction(1)))
        return bool(source.answered(met, lambda: passes(self, distance, source, **rest)))

    return seam


def _bound(noisy: Any) -> Any:
    def seam(value: float, sensitivity: float, mu: float, source: Any) -> Any:
        if not isinstance(source, TapedSource):
            return noisy(value, sensitivity, mu, source)
        met = Met(("bound", sensitivity, mu), value, Row(), source._part, lambda one, two: abs(one - two) / sensitivity)
        return source.answered(met, lambda: noisy(value, sensitivity, mu, source))

    return seam


def _prefix(blurred: Any) -> Any:
    """Rows of prefix sums: one vector moves all of them, and their squares together are what the plan bounds."""

    def seam(exact: Any, plan: Any, source: Any) -> Any:
        if not isinstance(source, TapedSource):
            return blurred(exact, plan, source)
        allowed = plan.claims.gdp().mu * plan.noise_scale
        public = (TOGETHER, plan.noise_scale, allowed, np.shape(exact))
        met = Met(public, np.array(exact), plan.claims.unit, source._part, _in_norm("l2", allowed))
        return source.answered(met, lambda: blurred(exact, plan, source))

    return seam


class _FixedAtom:
    """Tied records whose places are a function of their code and their number among those tied there."""

    def __init__(self, code: int, count: int, bits: int) -> None:
        self.offsets = sorted(_place(code, each, bits) for each in range(count))

    def below(self, offset: int, source: Source) -> int:
        return bisect_left(self.offsets, offset)

    def order(self, k: int, source: Source) -> int:
        return self.offsets[k - 1]


def _place(code: int, number: int, bits: int) -> int:
    return int.from_bytes(hashlib.shake_128(f"{code} {number}".encode()).digest(16), "little") & ((1 << bits) - 1)


def _atom(self: Any, code: int, count: int) -> _FixedAtom:
    if code not in self._atoms:
        self._atoms[code] = _FixedAtom(code, count, self._grid.dither_bits)
    atom: _FixedAtom = self._atoms[code]
    return atom


def _ordered(random_order: Any) -> Any:
    """Pair rows 0 and 1, 2 and 3, and so on: a row that takes the place of another changes one pair."""

    def seam(count: int, source: Any) -> Any:
        if not getattr(source, "pairing", False):
            return random_order(count, source)
        places = np.arange(count)
        return np.concatenate([places[: count // 2 * 2 : 2], places[1::2], places[count // 2 * 2 :]])

    return seam


def _everywhere(original: Any) -> list[tuple[Any, str]]:
    """Return the modules that have a function of the library under its name."""
    name = original.__name__
    modules = [module for key, module in list(sys.modules.items()) if key.startswith("sidelight")]
    return [(module, name) for module in modules if getattr(module, name, None) is original]


@contextmanager
def seams() -> Iterator[None]:
    """Put the seams in, for runs with a `TapedSource`; others run as ever."""
    thresholds: tuple[Any, ...] = (TruncatedLaplace, GaussianThreshold)
    changes: list[tuple[Any, str, Any]] = [
        *((kind, "release", _added(kind.__dict__["release"])) for kind in ADDITIVE),
        *((kind, "release", _labelled(kind.release)) for kind in thresholds),
        (SeveralGaussians, "release", _in_blocks(SeveralGaussians.release)),
        (RefinableCounts, "__init__", _refinable(RefinableCounts.__init__)),
        (tests_and_bounds.GaussianTest, "passes", _tested(tests_and_bounds.GaussianTest.passes)),
        (tests_and_bounds, "_noisy", _bound(tests_and_bounds._noisy)),
        (prefix_sums_plan, "_blurred", _prefix(prefix_sums_plan._blurred)),
        (ranks.DitheredRanks, "_atom", _atom),
        (ranks.DitheredRanks, "_single", lambda self, code, source: _place(code, 0, self._dither_bits)),
    ]
    changes += [(*place, _chosen(exponential.choose)) for place in _everywhere(exponential.choose)]
    changes += [(*place, _ranked(rank_selection.draw)) for place in _everywhere(rank_selection.draw)]
    changes += [(*place, _ordered(random_order)) for place in _everywhere(random_order)]
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


# --- two runs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """Two runs side by side: how many draws, the largest share of a sensitivity, and what is wrong."""

    draws: int
    largest: float
    wrong: tuple[str, ...]


def compare(
    prepared: Any, table: Any, neighbour: Any, *, seed: str, other: Any = None, pairs: bool = False
) -> Compared:
    """Release a table, replay the answers on its neighbour, and compare.

    Args:
        prepared: The prepared query.
        table: The rows.
        neighbour: The rows of a neighbour.
        seed: Of the noise of the first run.
        other: The prepared query of the neighbour, where a query brings its rows.
        pairs: Whether the rows that both have are at the same places: then coins by place are coins of a row.
    """
    first, second = Tape(), Tape()
    with (
        seams(),
        TapedSource(seed, first, None, pairs=pairs) as source,
        TapedSource(seed, second, first, pairs=pairs) as replaying,
    ):
        first.released = prepared.run(table, source)
        try:
            second.released = (prepared if other is None else other).run(neighbour, replaying)
        except CoupledError as error:
            return Compared(len(first.met), float("inf"), (str(error),))
        return _side_by_side(first, second, prepared.claims.unit)


def compare_sessions(release: Callable[[bool], Any], *, seed: str) -> Compared:
    """Do what leads to several releases through the release door twice, the second time with the answers of the first.

    Args:
        release: Makes all releases and returns what is public of them; of the neighbour, if True.
        seed: Of the noise of the first time.
    """
    tapes: list[Tape] = []
    with seams():
        for neighbour in (False, True):
            tape, again = Tape(), tapes[0] if tapes else None
            tapes.append(tape)

            def opened(entropy: Any, tape: Tape = tape, again: Tape | None = again, **rest: Any) -> TapedSource:
                return TapedSource(f"{seed} {len(tape.met)}", tape, again, pairs=True)

            original, pipeline.Source = pipeline.Source, opened  # type: ignore[assignment, misc]
            try:
                tape.released = release(neighbour)
            except CoupledError as error:
                return Compared(len(tapes[0].met), float("inf"), (str(error),))
            finally:
                pipeline.Source = original  # type: ignore[misc]
        return _side_by_side(*tapes, Row())


def _side_by_side(first: Tape, second: Tape, unit: Any) -> Compared:
    if len(first.met) != len(second.met):
        return Compared(len(first.met), float("inf"), (f"{len(first.met)} draws became {len(second.met)}",))
    wrong: list[str] = []
    moved: list[tuple[Met, float]] = []
    for place, (one, two) in enumerate(zip(first.met, second.met, strict=True)):
        ratio = one.ratio(one.value, two.value) / _rows_of(one, unit)
        moved.append((one, ratio))
        if ratio > 1 + ROUNDING:
            wrong.append(f"draw {place} moved by {ratio:.6g} of its sensitivity: {str(one.public)[:200]}")
    if (square := sum(ratio**2 for met, ratio in moved if met.public[0] == TOGETHER)) > 1 + ROUNDING:
        wrong.append(f"prefix sums moved by {square**0.5:.6g} of their sensitivity together")
    wrong += _in_parts([(met, ratio) for met, ratio in moved if ratio > 0], unit)
    if not same(first.released, second.released):
        wrong.append("equal answers of the mechanisms, but another release")
    return Compared(len(first.met), max((ratio for _, ratio in moved), default=0.0), tuple(wrong))


def _rows_of(met: Met, unit: Any) -> float:
    """Return how many rows of a unit may move a statistic that is stated for one row."""
    if not isinstance(unit, Person) or met.unit != Row():
        return 1
    return float(met.part.rows_of_unit[0]) if met.part.rows_of_unit else unit.max_rows


def _in_parts(moved: list[tuple[Met, float]], unit: Any) -> list[str]:
    """Say where one row has moved draws of two disjoint parts, or a unit several by more than one alone may move."""
    wrong = []
    grouped = [(met, ratio) for met, ratio in moved if met.part.group is not None and not met.part.pairs]
    for partition in {met.part.partition for met, _ in grouped}:
        groups: dict[int | None, float] = {}
        for met, ratio in grouped:
            if met.part.partition == partition and (met.unit == Row() or met.part.additive):
                share = ratio**2 if "l2" in met.public else ratio
                groups[met.part.group] = max(share, groups.get(met.part.group, 0.0))
        if unit == Row() and len(groups) > 1:
            wrong.append(f"one row moved {len(groups)} groups of a partition")
        if sum(groups.values()) > 1 + ROUNDING:
            wrong.append(f"one unit moved groups of a partition by {sum(groups.values()):.6g} of one sensitivity")
    for axis in {met.part.axis for met, _ in moved if met.part.spans is not None} if unit == Row() else ():
        spans = [met.part.spans for met, _ in moved if met.part.axis == axis and met.part.spans is not None]
        common = list(spans[0])
        for each in spans[1:]:
            common = [
                (max(low, first), min(high, last))
                for low, high in common
                for first, last in each
                if max(low, first) < min(high, last)
            ]
        if not common:
            wrong.append("one row moved disjoint spans of a grid")
    return wrong


def same(first: Any, second: Any) -> bool:
    """Return whether two released values are equal, part by part."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        if first.dtype == object:
            return first.shape == second.shape and same(first.ravel().tolist(), second.ravel().tolist())
        return bool(np.array_equal(first, second, equal_nan=first.dtype.kind == "f"))
    if isinstance(first, float):
        return first == second or (first != first and second != second)
    if isinstance(first, Mapping):
        equal = repr(first) == repr(second)  # what a table of groups shows in addition to its columns
        return equal and list(first) == list(second) and all(same(first[name], second[name]) for name in first)
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if is_dataclass(first):
        return all(same(getattr(first, each.name), getattr(second, each.name)) for each in fields(first))
    return bool(first == second)

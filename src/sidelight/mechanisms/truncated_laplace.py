"""Undeclared labels with their counts: Laplace noise that never exceeds a bound, and a threshold there.

For one label a unit this publishes every label with the largest probability that (ε, δ) allows (Desfontaines, Voss,
Gipson and Mandayam 2022). A label of no unit can never pass, so absent and empty labels look alike and nothing leaks
through which labels were looked at (summaries proof page, Theorem 10).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import ROUND_CEILING
from fractions import Fraction
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.errors import RangeError
from sidelight.guarantees import (
    Amount,
    ApproxDP,
    Claims,
    Context,
    Neighbours,
    PureDP,
    Row,
    Unit,
    exact,
    native_claims,
    positive,
)
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.intervals import Interval, round_up
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source, discrete_laplace

# Which labels occur is itself private, so `LabelCounts` is not a `Bounded`: its length may not be shown.


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LabelCounts:
    """The number of units with each label that at least one unit has.

    Guarantee: adding or removing one `unit` moves at most `groups` of the counts, each by exactly one; a label whose
    count falls to 0 is left out. So units are counted, never rows of a unit: the caller proves that.

    Args:
        counts: One count of at least 1 a label, in an order that the caller alone knows.
        groups: g, the most labels that one unit may have: public.
        unit: What is protected.

    >>> LabelCounts(counts=np.array([3, 1, 250]), groups=2)
    LabelCounts(private, groups=2, unit=row)
    """

    counts: NDArray[np.int64] = field(repr=False)
    groups: int
    unit: Unit = Row()  # noqa: RUF009  # frozen, without fields

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", whole(self.groups, name="groups"))
        array = np.asarray(self.counts)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise RangeError(f"counts must be a list of integers, got {array.ndim} dimension(s) of {array.dtype}")
        # A count of 0 would stand for a label that only this data set knows; below 1 it is dropped, not an error,
        # because an error would depend on the data.
        copy = np.clip(array, 0, VALUE_LIMIT).astype(np.int64)
        copy.flags.writeable = False
        object.__setattr__(self, "counts", copy)

    @property
    def neighbours(self) -> Neighbours:
        """The only neighbours that the thresholds are proved for."""
        return Neighbours.ADD_REMOVE

    def check(self, groups: int) -> None:
        """Refuse noise that was made for units of fewer labels."""
        if self.groups > groups:
            raise RangeError(
                f"this noise is for units with at most {groups} label(s), but the counts allow {self.groups}; "
                f"make it with groups={self.groups}"
            )

    def __repr__(self) -> str:
        return f"LabelCounts(private, groups={self.groups}, unit={self.unit})"


@dataclass(frozen=True, eq=False, kw_only=True)
class Published:
    """Which labels may be shown, and their noisy counts: a release.

    `places` are positions in the counts that were given. Their order is the data's: show the labels sorted by label or
    by noisy count, never in this order.
    """

    places: NDArray[np.int64]
    values: NDArray[np.int64]


def published(counts: LabelCounts, noise: NDArray[np.int64], *, least: int) -> Published:
    """Keep the labels that occur and whose noisy count reaches `least`."""
    noisy = counts.counts + noise
    places = np.flatnonzero((counts.counts > 0) & (noisy >= least))
    return Published(places=places.astype(np.int64), values=noisy[places])


_ONE = Interval.of(1)
_TWO = Interval.of(2)
#: Noise beyond this would not fit next to a count; ε this small publishes nothing anyway.
_LARGEST_CUTOFF = 2**40


@dataclass(frozen=True, kw_only=True)
class TruncatedLaplace:
    """Integer noise with P(z) in proportion to exp(-ε|z|) on |z| <= cutoff, and the rule "publish what exceeds it".

    Guarantee: `claims()`, (groups · label_epsilon, groups · reveal) for adding or removing one unit that has at most
    `groups` labels; a published count is off by at most `cutoff`, surely.

    Made by `truncated_laplace`. `label_epsilon` and `reveal` are those of one label; `reveal` is a proven upper bound
    of c·a^cutoff.
    """

    label_epsilon: Fraction
    cutoff: int
    reveal: Fraction
    groups: int = 1

    @property
    def least(self) -> int:
        """The smallest count that is ever published."""
        return self.cutoff + 1

    @property
    def surely_from(self) -> int:
        """The number of units from which on a label is always published."""
        return 2 * self.cutoff + 1

    def claims(self, **context: Unpack[Context]) -> Claims:
        """Return what a release proves: with probability δ something is revealed, otherwise the loss is at most ε.

        That is the form in which the ledger takes an (ε, δ) item: ε into every route, δ into the pool (accounting
        proof page, T8).
        """
        claim = ApproxDP(self.groups * self.label_epsilon, self.groups * self.reveal, **context)
        return native_claims(claim, mechanism="truncated_laplace")

    def release(self, counts: LabelCounts, *, source: Source, known_too: bool = False) -> Published:
        """Publish every label whose count with noise exceeds the cutoff, and that noisy count.

        With `known_too` the known labels of a unit are counted afterwards, with discrete Laplace noise of scale
        1/`label_epsilon`, at no further price: known and new labels of one unit are at most `groups` together.
        """
        counts.check(self.groups)
        context: Context = {"neighbours": counts.neighbours, "unit": counts.unit}
        price = DrawPrice(
            law="truncated Laplace, thresholded",
            claims=self.claims(**context),
            samples=(("discrete_laplace", 1 / self.label_epsilon),),
            statistic=f"undeclared labels, at most {self.groups} of one unit, shown from {self.least}",
            theorem="summaries proof page, Theorem 10",
            covers=Claims.of(PureDP(self.groups * self.label_epsilon, **context)) if known_too else None,
        )
        with source.paying(price):
            noise = self.noise(counts.counts.size, source=source)
        return published(counts, noise, least=self.least)

    def noise(self, size: int, *, source: Source) -> NDArray[np.int64]:
        """Draw the noise: discrete Laplace, drawn again while it is beyond the cutoff. Trials do not depend on data."""
        out = np.zeros(size, np.int64)
        missing = np.arange(size)
        while missing.size:
            drawn = discrete_laplace(missing.size, 1 / self.label_epsilon, source)
            kept = np.asarray(np.abs(drawn) <= self.cutoff, dtype=np.bool_)
            out[missing[kept]] = drawn[kept].astype(np.int64)
            missing = missing[~kept]
        return out

    def tail(self, t: ArrayLike) -> NDArray[np.float64]:
        """Return P(Z >= t) for whole numbers t."""
        t = np.asarray(t, dtype=np.float64)
        e, k = float(self.label_epsilon), self.cutoff
        # Z >= t > 0: c (a^t - a^(k+1)) / (1 - a); below, one minus the mirrored tail
        high = np.clip(np.abs(np.where(t > 0, t, 1 - t)), 0, k + 1)
        beyond = self._weight() * np.exp(-e * high) * -np.expm1(-e * (k + 1 - high)) / -math.expm1(-e)
        return np.asarray(np.where(t > 0, beyond, 1.0 - beyond))

    def probability(self, n: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that a label of n units is published."""
        n = np.asarray(n, dtype=np.float64)
        return np.where(n >= 1, self.tail(self.least - n), 0.0)

    def profile(self, x: ArrayLike) -> NDArray[np.float64]:
        """Return the exact profile of one label, both directions, for |x| <= ε of it."""
        e, k, c = float(self.label_epsilon), self.cutoff, self._weight()
        atom = c * math.exp(-e * k)
        rest = c * -math.expm1(-e * k) / -math.expm1(-e)
        return np.asarray(atom - np.expm1(np.asarray(x, dtype=np.float64) - e) * rest)

    def _weight(self) -> float:
        """Return c = (1 - a) / (1 + a - 2 a^(k+1)), the probability of 0."""
        e, k = float(self.label_epsilon), self.cutoff
        return -math.expm1(-e) / (1 + math.exp(-e) - 2 * math.exp(-e * (k + 1)))


def truncated_laplace(*, epsilon: Amount, delta: Amount, groups: int = 1) -> TruncatedLaplace:
    """Return the noise with the smallest cutoff for (epsilon, delta), shared out equally over `groups` labels a unit.

    >>> law = truncated_laplace(epsilon=1, delta=1e-6)
    >>> law.cutoff, f"{float(law.reveal):.6e}", law.surely_from
    (14, '3.842639e-07', 29)
    >>> print(law.claims())
    ApproxDP(ε = 1, δ = 3.84264e-7)
    """
    groups = whole(groups, name="groups")
    each_epsilon = positive(epsilon, name="epsilon") / groups
    each_delta = exact(delta, name="delta") / groups
    if not 0 < each_delta < 1:
        raise RangeError(f"undeclared labels need a delta between 0 and 1, got {delta}; 1e-6 is usual")
    cutoff = _first_guess(each_epsilon, each_delta)
    if cutoff > _LARGEST_CUTOFF:
        raise RangeError(
            f"epsilon = {epsilon} and delta = {delta} publish only labels of more than {_LARGEST_CUTOFF} units; "
            "raise epsilon"
        )
    while _revealed(each_epsilon, cutoff) > each_delta:
        cutoff += 1
    while cutoff > 1 and _revealed(each_epsilon, cutoff - 1) <= each_delta:
        cutoff -= 1
    return TruncatedLaplace(
        label_epsilon=each_epsilon, cutoff=cutoff, reveal=_revealed(each_epsilon, cutoff), groups=groups
    )


def _first_guess(epsilon: Fraction, delta: Fraction) -> int:
    """Return ceil(log((e^ε + 2δ - 1) / ((e^ε + 1) δ)) / ε), at least 1: the formula, in which a rounding may be off."""
    high = Interval.of(epsilon).exp()
    share = (high + Interval.of(2 * delta) - _ONE) / ((high + _ONE) * Interval.of(delta))
    value = share.log() / Interval.of(epsilon)
    return max(1, int(value.upper.to_integral_value(rounding=ROUND_CEILING)))


def _revealed(epsilon: Fraction, cutoff: int) -> Fraction:
    """Return an upper bound of δ* = (1 - a) a^k / (1 + a - 2 a^(k+1)), a = e^-ε, good to 40 digits."""
    a, power = Interval.of(-epsilon).exp(), Interval.of(-epsilon * cutoff).exp()
    return round_up(((_ONE - a) * power / (_ONE + a - _TWO * a * power)).upper)

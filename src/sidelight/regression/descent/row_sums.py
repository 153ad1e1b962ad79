"""What one pass over the rows of a descent adds up: integers of public numbers and of one row after the other.

Each is a value that can be sent to where the rows are. It gets some rows and returns their sum; sums of all rows are
put together in any order, on threads of one machine or on many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.regression.descent.geometry import Floats
from sidelight.regression.descent.integer_rows import (
    GeometryMap,
    Integers,
    clipped_errors,
    gradient_sum,
    gram_of,
    predictors,
)
from sidelight.regression.descent.starts import DescentStart
from sidelight.regression.descent.targets import Targets

#: Mapped rows z, the whole norms that they do not exceed, and their targets.
Mapped = tuple[Any, Floats, Floats]
_NO_NORMS = np.zeros(0)
#: Bits of the lower limb of a sum.
_LOW_BITS = 40
_LOW = (1 << _LOW_BITS) - 1


class ExactSum:
    """A sum of integer arrays in two limbs, which cannot wrap however many rows there are.

    Saturated once, at the end: a sum beyond 2⁶² counts as 2⁶², on this machine as on many. Clamping moves no two sums
    further apart; clamping on the way would, where other rows lie between.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._high, self._low = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def add(self, part: Integers) -> None:
        """Add the sum over some rows."""
        self.add_limbs((part >> _LOW_BITS, part & _LOW))

    def add_limbs(self, limbs: Integers | tuple[Integers, Integers]) -> None:
        """Add another such sum, as `limbs` gives it."""
        self._low += limbs[1]
        self._high += limbs[0] + (self._low >> _LOW_BITS)
        self._low &= _LOW

    @property
    def limbs(self) -> Integers:
        """The sum as (2, ...): multiples of 2⁴⁰, and the rest from 0 to 2⁴⁰ - 1."""
        return np.stack([self._high, self._low])

    def saturated(self) -> Integers:
        """Return the sum, within ±2⁶²."""
        most = VALUE_LIMIT >> _LOW_BITS
        inside = (np.minimum(np.maximum(self._high, -most), most) << _LOW_BITS) + self._low
        return np.where(self._high < -most, -VALUE_LIMIT, np.minimum(inside, VALUE_LIMIT))


class CodedSum(Protocol):
    """A sum over rows as codes (`integer_rows.row_codes`)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The public shape of the sum."""

    def __call__(self, codes: Any, targets: Floats, /) -> Integers:
        """Return the sum over some rows."""


class MappedSum(Protocol):
    """A sum over rows that are mapped to a geometry."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The public shape of the sum."""

    def __call__(self, part: Mapped, /) -> Integers:
        """Return the sum over some rows."""


class MappedPasses(Protocol):
    """Mapped rows, wherever they are."""

    def added_up(self, statistic: MappedSum) -> Integers:
        """Return the sum over all rows, in one pass."""


class CodedPasses(Protocol):
    """Rows as codes, wherever they are: read once, and gone through once for each sum."""

    def added_up(self, statistic: CodedSum) -> Integers:
        """Return the sum over all rows, in one pass."""

    def mapped(self, mapping: GeometryMap) -> MappedPasses:
        """Return the rows as the integers of a geometry."""

    def progress(self, passes: int) -> AbstractContextManager[Callable[..., None]]:
        """Show how many passes are done, where rows are not in memory: public."""


@dataclass(frozen=True, kw_only=True)
class GramAndCount:
    """The Gram matrix of the codes, where it is wanted, and the number of rows, in one vector."""

    features: int
    gram: bool

    @property
    def _size(self) -> int:
        return self.features + 1 if self.gram else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The entries of the matrix, row by row, and the count."""
        return (self._size**2 + 1,)

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return both of some rows."""
        matrix = gram_of(codes).ravel() if self.gram else np.zeros(0, np.int64)
        return np.append(matrix, np.int64(len(targets)))

    def split(self, total: Integers) -> tuple[Integers, int]:
        """Return the matrix, of no entries where none was wanted, and the count."""
        return total[:-1].reshape(self._size, self._size), int(total[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class GradientSum:
    """The clipped integer gradients at a public point.

    Guarantee: one row more moves the sum by at most `clip` in Euclidean norm (the lemma of `integer_rows`).
    """

    targets: Targets
    mapping: GeometryMap
    code: Floats
    clip: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Columns and outputs."""
        return (self.mapping.geometry.columns, self.targets.outputs)

    def __call__(self, part: Mapped) -> Integers:
        """Return the sum over some rows."""
        z, norms, labels = part
        u = predictors(z, self.code, self.mapping.last)
        errors = clipped_errors(self.targets.errors(u, labels), norms, self.clip)
        return gradient_sum(z, errors, self.mapping.last)


@dataclass(frozen=True, kw_only=True, eq=False)
class OffsetSum:
    """The sum of (probability - label) at a public point, without a clip.

    Guarantee: one row more moves the sum by at most `offset_sensitivity` in Euclidean norm.
    """

    targets: Targets
    code: Floats
    last: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry for each output."""
        return (self.targets.outputs,)

    def __call__(self, part: Mapped) -> Integers:
        """Return the sum over some rows."""
        z, _, labels = part
        return np.asarray(self.targets.errors(predictors(z, self.code, self.last), labels).sum(axis=0), np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class LossSums:
    """The losses of several classifiers, each 0..1024 per row."""

    targets: Targets
    codes: tuple[Floats, ...]
    last: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One a classifier."""
        return (len(self.codes),)

    def __call__(self, part: Mapped) -> Integers:
        """Return the sums over some rows."""
        z, _, labels = part
        found = [int(self.targets.losses(predictors(z, code, self.last), labels).sum()) for code in self.codes]
        return np.array(found, np.int64)


@dataclass(frozen=True, kw_only=True, eq=False)
class VoteSums:
    """The votes of rows between predictions and their rivals: 1, 0 or -1 a row and pair."""

    targets: Targets
    pairs: tuple[tuple[Floats, tuple[Floats, ...]], ...]
    last: int

    @property
    def shape(self) -> tuple[int, ...]:
        """One a pair, those of a prediction side by side."""
        return (sum(len(rivals) for _, rivals in self.pairs),)

    def __call__(self, part: Mapped) -> Integers:
        """Return the sums over some rows."""
        z, _, labels = part
        found = []
        for own, rivals in self.pairs:
            u = predictors(z, own, self.last)
            found += [int(self.targets.votes(u, predictors(z, other, self.last), labels).sum()) for other in rivals]
        return np.array(found, np.int64)


@dataclass(frozen=True)
class OfCodes:
    """A sum over mapped rows that needs no norms, over the codes themselves."""

    statistic: LossSums | VoteSums

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the sum."""
        return self.statistic.shape

    def __call__(self, codes: Any, targets: Floats) -> Integers:
        """Return the sum over some rows."""
        return self.statistic((codes, _NO_NORMS, targets))


def integer_gradient(
    targets: Targets, mapped: MappedPasses, theta: Floats, mapping: GeometryMap, *, clip: int
) -> Integers:
    """Return the sum of the clipped integer gradients of all rows at a public point, exactly, in one pass.

    Guarantee: one row more moves it by at most `clip` in Euclidean norm (the lemma of `integer_rows`).
    """
    return mapped.added_up(GradientSum(targets=targets, mapping=mapping, code=mapping.theta_codes(theta), clip=clip))


def losses_of_starts(
    targets: Targets, rows: CodedPasses, starts: Sequence[DescentStart], mapping: GeometryMap
) -> Integers:
    """Return the losses of the starts and, last, of equal classes, in one pass over rows as they are."""
    thetas = [start.theta for start in starts]
    codes = tuple(mapping.theta_codes(theta) for theta in (*thetas, np.zeros_like(thetas[0])))
    return rows.added_up(OfCodes(LossSums(targets=targets, codes=codes, last=mapping.last)))


def votes_against_starts(
    targets: Targets, rows: CodedPasses, starts: Sequence[DescentStart], mapping: GeometryMap
) -> Integers:
    """Return by how many rows each start loses against the better of its rivals; 0 for none; in one pass.

    The rivals: the middle of the range, and the start's own constant where it has one.
    """
    pairs = tuple(
        (
            mapping.theta_codes(start.theta),
            tuple(
                mapping.theta_codes(rival)
                for rival in (np.zeros_like(start.theta), start.constant)
                if rival is not None
            ),
        )
        for start in starts
    )
    total = rows.added_up(OfCodes(VoteSums(targets=targets, pairs=pairs, last=mapping.last)))
    ends = np.cumsum([len(rivals) for _, rivals in pairs])
    return np.array([*(-votes.min() for votes in np.split(total, ends[:-1])), 0], np.int64)

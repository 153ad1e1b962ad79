"""Where random bytes come from, and what samplers draw from: a guarded view, opened for one release and closed with it.

Production uses `OSEntropy` and nothing else. The only other implementation is the seeded one of `sidelight.testing`,
whose brand follows every release that it touched.

No byte may serve two purposes. Bulk words are asked for and handed out at once, never stored. Scalar draws share a pool
of 512 bytes (a system call for eight bytes costs more than the draw); a byte leaves the pool before it is used. The
pool is why a source refuses to work after a fork, in another thread, after its release, and as a copy.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from types import TracebackType
from typing import Literal, NamedTuple, NoReturn, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import NoiseError, RangeError, StrictError

#: The brand of bytes that an attacker cannot predict.
OS_BRANDING = "os"

#: The brand of bytes that anybody who knows the seed can reproduce.
SEEDED_BRANDING = "seeded: not private"
Numerics = Literal["exact", "idealized"]
POOL_BYTES = 512


class Entropy(Protocol):
    """Uniform random bytes, and a word on whether they are secret."""

    @property
    def branding(self) -> str:
        """Return where the bytes come from; the release pipeline copies this into the release."""
        ...

    def read(self, nbytes: int) -> bytes:
        """Return exactly `nbytes` uniform bytes that were never returned before."""
        ...


class OSEntropy:
    """The operating system's generator. It keeps nothing, so nothing can be used twice.

    A failure of the operating system propagates: there is no second choice.
    """

    __slots__ = ()

    @property
    def branding(self) -> str:
        """Return "os": the bytes are secret."""
        return OS_BRANDING

    def read(self, nbytes: int) -> bytes:
        """Return `nbytes` bytes of `os.urandom`."""
        return os.urandom(nbytes)


class Price(Protocol):
    """What one draw costs, and which noise it may draw."""

    def allows(self, law: str, scales: Sequence[Fraction]) -> bool:
        """Return whether this price pays for noise of such a law and such scales."""
        ...

    def includes(self, price: Price) -> bool:
        """Return whether this price, while it is paid, includes another one."""
        ...


class Part(NamedTuple):
    """Which records a draw is about: those of one group, of some half-open spans of a grid, or both; public.

    Args:
        partition: Which partition into disjoint groups `group` is one of (`Source.partition`).
        group: The index of the group, None for all.
        rows_of_unit: For groups: the most rows of one unit in all groups, and the largest sum of their squares.
        additive: For groups: whether every draw is about a sum over rows, so that a unit whose rows are in several
            groups moves all of them together by no more than one of them alone.
        axis: Which order of the records `spans` refer to: one number for each ranks object.
        spans: Disjoint half-open intervals of places, None for all.
        pairs: Whether the draw is about rows in random pairs, one of which a single row replaces.
    """

    partition: int | None = None
    group: int | None = None
    rows_of_unit: tuple[Fraction, Fraction] | None = None
    additive: bool = False
    axis: int | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    pairs: bool = False


#: All records.
EVERYTHING = Part()


class Payments(Protocol):
    """The sum of the prices of a release: `mechanisms.meter.Meter`."""

    def add(self, price: Price, part: Part, *, again: bool = False) -> None:
        """Count a price before anything is drawn for it; with `again`, only look that an equal one was counted."""
        ...


class Source:
    """Uniform bits for the samplers of one release.

    `declared` is what the query promised about its numerics before it was charged: with "exact", a sampler that is only
    as good as floating point raises instead of drawing. `numerics` tells the weakest sampler that has drawn so far.
    `force_scalar` sends every doubtful-case test to the slow method: same law (noise proof page, Theorem 1), hundreds
    of times slower; it exists so that tests reach the slow method.

    With a meter nothing is drawn outside `paying` and `free`: every draw has a price, or needs none and says why.

    >>> from sidelight.noise import OSEntropy
    >>> with Source(OSEntropy()) as source:
    ...     source.bits(3) in range(8)
    True
    """

    __slots__ = (
        "_axes",
        "_closed",
        "_declared",
        "_entropy",
        "_meter",
        "_numerics",
        "_open",
        "_part",
        "_partitions",
        "_pid",
        "_pool",
        "_price",
        "_thread",
        "fallbacks",
        "force_scalar",
    )

    def __init__(
        self,
        entropy: Entropy,
        *,
        declared: Numerics = "idealized",
        force_scalar: bool = False,
        meter: Payments | None = None,
    ) -> None:
        self._entropy = entropy
        self._declared = declared
        self._numerics: Numerics = "exact"
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._pool = b""
        self._closed = False
        self._meter = meter
        self._open = meter is None
        self._price: Price | None = None
        self._part = EVERYTHING
        self._partitions = 0
        self._axes: dict[int, tuple[int, object]] = {}
        self.force_scalar = force_scalar
        #: How often a slow method was needed. For tests only: the counts depend on the noise and must not be shown.
        self.fallbacks: Counter[str] = Counter()

    @property
    def branding(self) -> str:
        """Return where the bytes come from, for `Release.entropy`."""
        return self._entropy.branding

    @property
    def numerics(self) -> Numerics:
        """Return how the weakest draw so far was computed, for `Release.numerics`."""
        return self._numerics

    def note_idealized(self) -> None:
        """Record that a draw is only as good as floating point; refuse if exact numerics were declared."""
        self._guard()
        if self._declared == "exact":
            raise StrictError(
                "this release declared numerics='exact' but asked for a continuous draw, which is idealized; "
                "use an integer sampler, or declare numerics='idealized' in the query"
            )
        self._numerics = "idealized"

    @contextmanager
    def paying(self, price: Price, *, again: bool = False) -> Iterator[None]:
        """Draw at a price: counted before the first bit, unless a price that covers it is being paid already.

        With `again` an equal price was counted before: it covers draws on disjoint records that are made one by one.
        """
        opened, outer = self._open, self._price
        if outer is not None and not outer.includes(price):
            raise NoiseError("a draw inside another price, which does not include it; nothing was drawn")
        if self._meter is not None and outer is None:
            self._meter.add(price, self._part, again=again)
        self._open, self._price = True, price
        try:
            yield
        finally:
            self._open, self._price = opened, outer

    @contextmanager
    def free(self, reason: str) -> Iterator[None]:
        """Draw what meets no statistic of records (the order of ties, public samples); `reason` says for what."""
        assert reason
        opened, self._open = self._open, True
        try:
            yield
        finally:
            self._open = opened

    @contextmanager
    def over(
        self,
        *,
        partition: int | None = None,
        group: int | None = None,
        rows_of_unit: tuple[Fraction, Fraction] | None = None,
        additive: bool = False,
        places: object = None,
        spans: Sequence[tuple[int, int]] | None = None,
        pairs: bool = False,
    ) -> Iterator[None]:
        """Draw about some records only: a record pays for the draws whose part holds it, and for no others.

        The arguments are those of `Part`; `places` is the object that says where each record lies, and spans lie inside
        those of the outer part. A part inside a group of another partition counts for the inner one alone, which can
        only make the sum larger.
        """
        if (group is None) != (partition is None) or (spans is not None and places is None):
            raise NoiseError("a part names its partition with its group, and what its spans are places of")
        outer = self._part
        within = outer if group is None else Part(partition, group, rows_of_unit, additive)
        if spans is not None:
            within = within._replace(axis=self._axis_of(places), spans=tuple(spans))
        both = outer.pairs or pairs
        self._part = within if within.pairs is both else within._replace(pairs=both)
        try:
            yield
        finally:
            self._part = outer

    def partition(self) -> int:
        """Return a number for a partition of the records into disjoint groups, for `over`."""
        self._partitions += 1
        return self._partitions

    def _axis_of(self, places: object) -> int:
        """Return one number for each object that says where records lie; the object is kept, so that none is reused."""
        return self._axes.setdefault(id(places), (len(self._axes), places))[0]

    @contextmanager
    def metered_by(self, meter: Payments) -> Iterator[None]:
        """Let another meter count what is drawn: that of a sub-budget which a theorem of several draws names."""
        outer = self._meter, self._open, self._price, self._part
        if self._meter is not None:
            if self._price is None:
                raise NoiseError("a meter of its own is for draws that an open price covers; nothing was drawn")
            self._meter, self._open, self._price, self._part = meter, False, None, EVERYTHING
        try:
            yield
        finally:
            self._meter, self._open, self._price, self._part = outer

    def sampling(self, law: str, scales: Sequence[Fraction]) -> None:
        """Refuse noise that the open price does not pay for; samplers say what they are about to draw."""
        if self._price is not None and not self._price.allows(law, scales):
            raise NoiseError(f"{law} noise of another scale than the one that was priced; nothing was drawn")

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return n uniform 64-bit words (read-only)."""
        self._drawing()
        return np.frombuffer(self._entropy.read(8 * n), "<u8").astype(np.uint64, copy=False)

    def words32(self, n: int) -> NDArray[np.uint32]:
        """Return n uniform 32-bit words (read-only)."""
        self._drawing()
        return np.frombuffer(self._entropy.read(4 * n), "<u4").astype(np.uint32, copy=False)

    def bits(self, k: int) -> int:
        """Return one uniform integer of k bits."""
        self._drawing()
        nbytes = (k + 7) // 8
        pool = self._pool
        if len(pool) < nbytes:
            pool = self._entropy.read(max(POOL_BYTES, nbytes))
        taken, self._pool = pool[:nbytes], pool[nbytes:]
        return int.from_bytes(taken, "little") >> (8 * nbytes - k)

    def free_bits(self, k: int, reason: str) -> int:
        """Return one uniform integer of k bits as `free` allows it: quicker, for ties, of which there are hundreds."""
        assert reason
        opened, self._open = self._open, True
        try:
            return self.bits(k)
        finally:
            self._open = opened

    def close(self) -> None:
        """Drop the pool; every later draw raises."""
        self._pool = b""
        self._axes = {}
        self._closed = True

    def _drawing(self) -> None:
        if self._open and not self._closed and os.getpid() == self._pid and threading.get_ident() == self._thread:
            return  # asked for each draw of bits: a call takes longer
        self._guard()
        if not self._open:
            raise NoiseError("a draw without a price: noise is drawn inside source.paying(...), by a mechanism")

    def _guard(self) -> None:
        if self._closed:
            raise NoiseError("this noise source is closed with its release; open a new release to draw again")
        if os.getpid() != self._pid:
            raise NoiseError(
                "a noise source does not survive a fork: both sides would use the same bytes; "
                "open a new release in the child process"
            )
        if threading.get_ident() != self._thread:
            raise NoiseError("a noise source belongs to the thread of its release; open one release in each thread")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise NoiseError(
            "a noise source cannot be pickled or copied: two copies would hand out the same bytes; "
            "open a new release instead"
        )

    def __repr__(self) -> str:
        return f"Source(branding={self.branding!r}, numerics={self.numerics!r})"


def check_size(size: int) -> None:
    """Refuse a negative number of draws."""
    if size < 0:
        raise RangeError(f"size must be at least 0, got {size}")

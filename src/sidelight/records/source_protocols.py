"""What a source of rows can do beyond `Rows`: protocols that are a property of its class.

Statistics and views ask by `isinstance` what a source offers, and choose the faster way; the integers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from sidelight.records.rows import BATCH_ROWS, Batch, Rows, Wanted


class ClassProtocol(type(Protocol)):  # type: ignore[misc]  # the metaclass of protocols
    """The metaclass of protocols whose methods a class has or lacks; `issubclass` remembers what it found."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), cls)


@runtime_checkable
class ReadsInParallel(Protocol, metaclass=ClassProtocol):
    """A source that several threads can read at once."""

    def in_parallel(self, wanted: Wanted, *, rows: int = BATCH_ROWS) -> Sequence[Iterator[Batch]]:
        """Return all rows as one stream per thread, in any order; a single stream if threads would not help."""


@runtime_checkable
class ReadInTurn(Protocol, metaclass=ClassProtocol):
    """A source that one thread can read at a time."""

    def in_turn(self) -> AbstractContextManager[object]:
        """Return what a thread holds for a whole release, from before the charge."""


@runtime_checkable
class HandsKeys(Protocol, metaclass=ClassProtocol):
    """A source that reads the keys of `Wanted` itself."""

    def hands_keys(self, wanted: Wanted) -> bool:
        """Return, by public types, whether it does so for these columns."""


@runtime_checkable
class SharesMoment(Protocol, metaclass=ClassProtocol):
    """A source on a server that can read the same moment as other tables there."""

    def read_at_moment_of(self, others: Sequence[Rows]) -> None:
        """Read the moment of the first of these that is on the same server, if nothing was read yet."""


@runtime_checkable
class BringsRows(Protocol, metaclass=ClassProtocol):
    """A distributed source that hands rows over for views of a database alone, a part at a time."""

    def brought(self, wanted: Wanted) -> Iterator[Batch]:
        """Return all rows with their keys, in batches of the source's own size."""


def batches_with_keys(rows: Rows, wanted: Wanted, *, size: int = BATCH_ROWS) -> Iterator[Batch]:
    """Return all rows with their keys, as texts where the source has nothing better."""
    if isinstance(rows, BringsRows):
        yield from rows.brought(wanted)
        return
    if isinstance(rows, HandsKeys) and rows.hands_keys(wanted):
        yield from rows.batches(wanted, rows=size)
        return
    asked = replace(wanted, keys=(), texts=tuple(dict.fromkeys([*wanted.texts, *wanted.keys])))
    for batch in rows.batches(asked, rows=size):
        yield replace(batch, keys={name: batch.texts[name] for name in wanted.keys})


@runtime_checkable
class ComesByPersons(Protocol, metaclass=ClassProtocol):
    """A source that hands over all rows of some persons, then all rows of others."""

    def by_persons(self, wanted: Wanted) -> Iterator[Iterator[Batch]]:
        """Return the rows in parts; no person has rows in two of them."""


class Pinned(Protocol):
    """Blocks of bytes that workers made of their rows and keep, until `drop`, a failed request or garbage: PRIVATE."""

    def ask(self, step: Callable[[Iterator[bytes]], bytes]) -> Iterator[bytes]:
        """Run a step on the blocks of every part, as `DistributedRows.reduce` does on rows.

        A step with large answers declares `answer_bytes` (public), so that parts may be merged first.
        """

    def drop(self) -> None:
        """Let the workers forget the blocks; may be called twice."""


@runtime_checkable
class DistributedRows(Protocol, metaclass=ClassProtocol):
    """A source whose rows are reduced part by part by other processes or machines, and never leave them."""

    def reduce(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        """Run a step on the rows of every part, which may be retried, and return the bytes of each part once.

        `step` can be pickled. Its results are sums of integers, not rows, and their total does not depend on how the
        rows are cut into parts and batches. With a person column, all rows of a person lie in one part: the step caps
        them.
        """

    def pinned(self, wanted: Wanted, step: Callable[[Iterator[Batch]], Iterator[bytes]]) -> Pinned:
        """Run a step on the rows of every part once, and keep its blocks for several requests."""


@runtime_checkable
class GroupsEqualRows(Protocol, metaclass=ClassProtocol):
    """A distributed source that groups equal rows faster than it hands them over."""

    def reduce_equal(self, wanted: Wanted, step: Callable[[Iterator[Batch]], bytes]) -> Iterator[bytes]:
        """Run a step as `reduce` does; rows equal bit by bit may come once, with their number in `Batch.times`.

        No person is wanted.
        """


@runtime_checkable
class FitsInMemory(Protocol, metaclass=ClassProtocol):
    """A source outside of memory whose rows may be held there: persons are bounded faster in arrays."""

    def slices_in_memory(self, wanted: Wanted) -> int:
        """Return the number of passes so that each slice of the persons fits into memory; 0 if none does.

        PRIVATE: it depends on the number of rows, and decides about time and memory only.
        """


@runtime_checkable
class ChecksRecords(Protocol):
    """A source that is looked at before a charge: CSV files, and the settings of an engine of distributed rows."""

    #: Whether the check reads records: then it is for the owner of the rows alone. In a CSV file a malformed record can
    #: change how other records parse.
    check_reads_records: ClassVar[bool]

    def check_records(self) -> None:
        """Raise a `SourceError` if the source cannot be read; called before a charge."""


@runtime_checkable
class ChecksFiles(Protocol, metaclass=ClassProtocol):
    """A source of files, which must be the same whenever they are read as when the table was made."""

    def check_files(self) -> None:
        """Raise a `SourceError` if a file is gone, changed or new; looks at no row."""

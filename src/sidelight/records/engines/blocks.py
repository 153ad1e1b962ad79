"""The bytes of a CSV file: opened, told apart from a changed file, and cut into blocks of whole records.

Blocks are read one after the other, which is quick, and worked on by all cores, in order. Nothing here depends on what
a record holds but where it ends: a record longer than the limit is passed over without being kept.
"""

from __future__ import annotations

import gzip
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import SourceError
from sidelight.records.engines.folders import shown
from sidelight.records.engines.splitting import RECORD_LIMIT, Records
from sidelight.records.rows import WORKERS, cores

#: Bytes to a block: its working arrays, about ten times as much, stay in the cache of a core.
BLOCK_BYTES = 1 << 18
#: What stands for a record beyond the limit: one empty cell, which is a record, and all its cells are missing.
_ALL_MISSING = b'""\n'
#: Steps back from the end of a block before the quotation marks are counted all at once.
_STEPS_BACK = 8

Item = TypeVar("Item")
Result = TypeVar("Result")
#: Device, inode, size, and the times of the last change of content and of metadata, in nanoseconds.
Identity = tuple[int, int, int, int, int]


def identity_of(file: str | int) -> Identity:
    """Return what changes whenever a file is written or replaced; it says nothing about single records."""
    found = os.stat(file)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextmanager
def open_bytes(path: str, *, unchanged: Identity | None = None) -> Iterator[IO[bytes]]:
    """Open a file for reading; one that is named .gz is decompressed on the way.

    With `unchanged`, the file must be the one that was looked at before, when it is opened and still when it is closed.
    This error depends on somebody writing to the file, not on what a record holds.
    """
    with open(path, "rb") as raw:
        _check_unchanged(path, raw, unchanged)
        if path.lower().endswith(".gz"):
            with gzip.open(raw, "rb") as file:
                yield file  # type: ignore[misc]
        else:
            yield raw
        _check_unchanged(path, raw, unchanged)


def _check_unchanged(path: str, raw: IO[bytes], unchanged: Identity | None) -> None:
    if unchanged is not None and identity_of(raw.fileno()) != unchanged:
        raise SourceError(changed(path))


def changed(path: str) -> str:
    """Return the words for a file that is not what it was."""
    return f"{shown(path)!r} was changed after its records were checked; let nothing write to it while a release runs"


def blocks_of(
    file: IO[bytes], *, records: Records = "standard", size: int = BLOCK_BYTES, limit: int = RECORD_LIMIT
) -> Iterator[bytes]:
    """Return what is left of a file, from the start of a record on, in blocks of whole records with their line feeds.

    How much of a record beyond the limit is read never depends on the blocks: nothing of it is.
    """
    quoting = records == "standard"
    inside = False  # whether the next byte is between quotation marks
    rest: list[bytes] = []
    held, overlong = 0, False
    while chunk := file.read(size):
        end, after = last_end(chunk, inside=inside) if quoting else (chunk.rfind(b"\n") + 1, False)
        if end and overlong:
            start = first_end(chunk, inside=inside) if quoting else chunk.find(b"\n") + 1
            yield _ALL_MISSING + chunk[start:end]
        elif end:
            yield b"".join([*rest, chunk[:end]])
        if end:
            rest, held, overlong = [], 0, False
        inside = after
        rest.append(chunk[end:])
        held += len(chunk) - end
        if overlong or held > limit:
            rest, overlong = [], True
    if overlong:
        yield _ALL_MISSING
    elif held:
        yield b"".join([*rest, b"\n"])


def last_end(chunk: bytes, *, inside: bool) -> tuple[int, bool]:
    """Return where the last record that ends in a chunk does (0: none), and whether the chunk ends inside quotes.

    >>> last_end(b'1,"a\\n', inside=False), last_end(b'b"\\n2', inside=True)
    ((0, True), (3, False))
    """
    if b'"' not in chunk:
        return (0 if inside else chunk.rfind(b"\n") + 1), inside
    after = inside ^ bool(np.count_nonzero(np.frombuffer(chunk, np.uint8) == ord('"')) & 1)
    end, state = len(chunk), after
    for _ in range(_STEPS_BACK):
        earlier = chunk.rfind(b"\n", 0, end)
        if earlier < 0:
            return 0, after
        state ^= bool(chunk.count(b'"', earlier, end) & 1)
        if not state:
            return earlier + 1, after
        end = earlier
    ends = _ends(chunk, inside=inside)
    return (int(ends[-1]) if ends.size else 0), after


def first_end(chunk: bytes, *, inside: bool) -> int:
    """Return where the first record that ends in a chunk does; 0 if none does."""
    ends = _ends(chunk, inside=inside)
    return int(ends[0]) if ends.size else 0


def _ends(chunk: bytes, *, inside: bool) -> NDArray[np.int64]:
    data = np.frombuffer(chunk, np.uint8)
    breaks = np.flatnonzero(data == ord("\n"))
    before = np.searchsorted(np.flatnonzero(data == ord('"')), breaks)
    return np.asarray(breaks[(before + inside) % 2 == 0] + 1)


def in_order(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Return the results of some work on each item, in order; all cores work, a few items ahead and no more."""
    workers = cores()  # a hostile record at the limit takes about 0.3 GB of working arrays on each
    pool = ThreadPoolExecutor(workers, thread_name_prefix=WORKERS)
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)

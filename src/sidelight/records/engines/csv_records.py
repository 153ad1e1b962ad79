"""The cells of CSV records: a function of each record alone, so that one record never changes another.

Written by hand because a guarantee depends on it: available readers treat a bad cell by looking at other records, or
raise. Arrow ends a record at a lone carriage return, raises where a record is longer than its block or is not UTF-8,
and DuckDB guesses the dialect from rows. What ends a record (docs: records):

- "standard": a line feed that is not between quotation marks, as every standard writer and reader has it. The scan in
  `csv` checks the whole file before anything is charged;
- "lines": every line feed, whatever the line holds.

In a record:

- a delimiter between an odd and an even quotation mark does not separate;
- a cell in quotation marks loses them, and two marks inside it stand for one;
- a record with an odd number of quotation marks (among lines only), or longer than the limit, has no cells;
- an absent cell, or one that is not UTF-8, is missing; an empty line without quotation marks is not a record.

`cells_of` defines this for one record, `split` for a block of records; a test holds that they agree on all bytes.
"""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import IO, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight.records.rows import WORKERS, cores

Records = Literal["standard", "lines"]

#: A longer record is malformed: without a limit one record could exhaust the memory, an error that rows decide.
RECORD_LIMIT = 1 << 24

_LINE_FEED, _RETURN, _QUOTE = b'\n\r"'
_ASCII_END = 0x80


def cells_of(record: bytes, delimiter: str, *, limit: int = RECORD_LIMIT) -> list[str] | None:
    """Return the cells of one record without its line feed; None for no record, and no cells if it is malformed.

    >>> cells_of(b'7,"a ""b"", c",', ",")
    ['7', 'a "b", c', '']
    """
    text = record.removesuffix(b"\r")
    if not text:
        return None
    if len(record) > limit or text.count(b'"') % 2:
        return []
    cells, quoted = [b""], False
    for piece in text.split(delimiter.encode()):
        cells[-1] += (delimiter.encode() if quoted else b"") + piece
        quoted ^= bool(piece.count(b'"') % 2)
        if not quoted:
            cells.append(b"")
    return [_text(_unquoted(cell)) for cell in cells[:-1]]


def split(
    block: bytes, delimiter: str, places: Sequence[int], *, records: Records = "standard", limit: int = RECORD_LIMIT
) -> pa.RecordBatch:
    """Return the cells at some positions (from 0) of every record, as text; missing cells are empty.

    `block` is whole records, each with its line feed.
    """
    data = np.frombuffer(block, np.uint8)
    marks = _separators(block, data, ord(delimiter), records=records)
    breaks = np.flatnonzero(data.take(marks) == _LINE_FEED)
    first = np.append(0, breaks[:-1] + 1)[: breaks.size]  # where in `marks` the record begins
    width = breaks - first  # delimiters in the record
    ends = marks.take(breaks)
    starts = np.append(0, ends[:-1] + 1)[: ends.size]
    malformed = ends - starts > limit
    if records == "lines":
        malformed |= _odd_quotes(data, ends)
    width[malformed] = -1  # not even one cell
    ends = ends - ((ends > starts) & (data.take(ends - 1) == _RETURN))
    there = ends > starts
    if not there.all():
        starts, ends, first, width = starts[there], ends[there], first[there], width[there]
    least = int(width.min(initial=len(block)))
    check, quotes, doubled = not is_utf8(block), b'"' in block, False
    if quotes:
        is_quote = data == _QUOTE
        doubled = bool((is_quote[:-1] & is_quote[1:]).any())
    columns = []
    for place in places:
        if place < least:  # all records have the cell, and one behind it
            left = marks.take(first + (place - 1)) + 1 if place else starts
            right = marks.take(first + place)
        else:
            left, right = ends.copy(), ends.copy()
            inside = np.flatnonzero(width >= place)
            left[inside] = marks.take(first[inside] + (place - 1)) + 1 if place else starts[inside]
            further = inside[width[inside] > place]
            right[further] = marks.take(first[further] + place)
        columns.append(_column(block, left, right, check=check, quotes=quotes, doubled=doubled))
    return pa.RecordBatch.from_arrays(columns, [f"c{place}" for place in places])


def odd_widths(block: bytes, delimiter: str, cells: int, *, records: Records = "standard") -> int:
    """Count the records of a block that have more or fewer cells than wanted; `block` as for `split`.

    >>> odd_widths(b"1,2\\n\\n3\\n4,5,6\\n", ",", 2)
    2
    """
    data = np.frombuffer(block, np.uint8)
    marks = _separators(block, data, ord(delimiter), records=records)
    breaks = np.flatnonzero(data.take(marks) == _LINE_FEED)
    width = np.diff(breaks, prepend=-1)
    ends = marks.take(breaks)
    starts = np.append(0, ends[:-1] + 1)[: ends.size]
    ends = ends - ((ends > starts) & (data.take(ends - 1) == _RETURN))
    return int(((width != cells) & (ends > starts)).sum())


def _separators(block: bytes, data: NDArray[np.uint8], delimiter: int, *, records: Records) -> NDArray[np.int64]:
    """Return where the line feeds are that end records, and the delimiters that are not between quotation marks."""
    is_break = data == _LINE_FEED
    wanted = is_break | (data == delimiter)
    if b'"' not in block:
        return np.flatnonzero(wanted)
    marks = np.flatnonzero(wanted | (data == _QUOTE))
    kinds = data.take(marks)
    is_quote = kinds == _QUOTE
    if records == "standard":  # parities run on from record to record; a block begins outside of quotation marks
        return marks.take(np.flatnonzero(~(is_quote | np.logical_xor.accumulate(is_quote))))
    quotes = np.cumsum(is_quote)
    ends_line = kinds == _LINE_FEED
    breaks = np.flatnonzero(ends_line)
    earlier = np.append(0, quotes[breaks])[: breaks.size]  # quotation marks before the line
    quotes -= np.repeat(earlier, np.diff(breaks, prepend=-1))
    return marks.take(np.flatnonzero(ends_line | (~is_quote & (quotes & 1 == 0))))


def _odd_quotes(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which lines have an odd number of quotation marks."""
    counts = np.searchsorted(np.flatnonzero(data == _QUOTE), ends)
    return np.asarray(np.diff(counts, prepend=0) % 2 == 1)


def _column(
    block: bytes, left: NDArray[np.int64], right: NDArray[np.int64], *, check: bool, quotes: bool, doubled: bool
) -> pa.StringArray:
    """Copy cells out of a block, from `left` to before `right`, without their quotation marks.

    `check`: some cell may not be UTF-8. `quotes`: some cell may be quoted. `doubled`: some cell may hold two quotation
    marks for one.
    """
    data = np.frombuffer(block, np.uint8)
    quoted = np.zeros(left.size, np.bool_)
    if quotes:
        opened, closed = data.take(left) == _QUOTE, data.take(right - 1, mode="wrap") == _QUOTE
        quoted = (right - left >= len('""')) & opened & closed
        left, right = left + quoted, right - quoted
    if check:
        high = np.append(0, np.cumsum(data >= _ASCII_END, dtype=np.int32))
        for place in np.flatnonzero(high[right] > high[left]).tolist():
            if not is_utf8(block[left[place] : right[place]]):
                left[place] = right[place]
    # Cells and what lies between them take turns in one text array over the block itself; every other one is taken.
    offsets = np.empty(2 * left.size, np.int32)
    offsets[0::2], offsets[1::2] = left, right
    turns = max(offsets.size - 1, 0)
    if not turns:
        return pa.array([], pa.string())
    cells = pa.StringArray.from_buffers(turns, pa.py_buffer(offsets), pa.py_buffer(block))
    cells = cells.take(pa.array(np.arange(0, turns, 2)))
    if doubled and quoted.any():
        cells = pc.if_else(pa.array(quoted), pc.replace_substring(cells, '""', '"'), cells)
    return cells


def _unquoted(cell: bytes) -> bytes:
    if len(cell) >= len('""') and cell.startswith(b'"') and cell.endswith(b'"'):
        return cell[1:-1].replace(b'""', b'"')
    return cell


def _text(cell: bytes) -> str:
    return cell.decode() if is_utf8(cell) else ""


def is_utf8(content: bytes) -> bool:
    """Tell whether bytes are a text."""
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


# Files are cut into blocks of whole records, read in sequence, which is fast, and processed by all cores, in order.
# Only the end of a record matters here: one longer than the limit is skipped without being kept.


#: Bytes to a block: its working arrays, about ten times as much, stay in the cache of a core.
BLOCK_BYTES = 1 << 18
#: What stands for a record beyond the limit: one empty cell, which is a record, and all its cells are missing.
_ALL_MISSING = b'""\n'
#: Steps back from the end of a block before the quotation marks are counted all at once.
_STEPS_BACK = 8

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def open_bytes(path: str) -> Iterator[IO[bytes]]:
    """Open a file for reading; one that is named .gz is decompressed on the way."""
    with open(path, "rb") as raw:
        if path.lower().endswith(".gz"):
            with gzip.open(raw, "rb") as file:
                yield file  # type: ignore[misc]
        else:
            yield raw


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

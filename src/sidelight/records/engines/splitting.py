"""The cells of CSV lines: a function of each line alone, so that one record never changes another.

Written by hand because every CSV reader at hand lets an opened quote run over the line's end: one record could then
swallow thousands. Here a record ends at its line feed, whatever it holds. In a line (docs: records):

- a delimiter between an odd and an even quotation mark does not separate;
- a cell in quotation marks loses them, and two marks inside it stand for one;
- a line with an odd number of quotation marks, or longer than the limit, is a record whose cells are all missing;
- a cell that is not there, or is not UTF-8, is missing; a line with nothing in it is no record.

`cells_of_line` says this for one line, `split` for a block of lines at once; a test holds that they agree on all bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

#: A longer line is malformed: without a limit one record could exhaust the memory, an error that rows decide.
LINE_LIMIT = 1 << 24

_LINE_FEED, _RETURN, _QUOTE = b'\n\r"'
_ASCII_END = 0x80


def cells_of_line(line: bytes, delimiter: str, *, limit: int = LINE_LIMIT) -> list[str] | None:
    """Return the cells of one line without its line feed; None for no record, and no cells if it is malformed.

    >>> cells_of_line(b'7,"a ""b"", c",', ",")
    ['7', 'a "b", c', '']
    """
    text = line.removesuffix(b"\r")
    if not text:
        return None
    if len(line) > limit or text.count(b'"') % 2:
        return []
    cells, quoted = [b""], False
    for piece in text.split(delimiter.encode()):
        cells[-1] += (delimiter.encode() if quoted else b"") + piece
        quoted ^= bool(piece.count(b'"') % 2)
        if not quoted:
            cells.append(b"")
    return [_text(_unquoted(cell)) for cell in cells[:-1]]


def split(block: bytes, delimiter: str, places: Sequence[int], *, limit: int = LINE_LIMIT) -> pa.RecordBatch:
    """Return the cells at some places (from 0) of every record, as text; what is missing is empty.

    `block` is whole lines, each with its line feed.
    """
    data = np.frombuffer(block, np.uint8)
    marks = _separators(data, ord(delimiter))
    breaks = np.flatnonzero(data[marks] == _LINE_FEED)
    first = np.append(0, breaks[:-1] + 1)[: breaks.size]  # where in `marks` the line begins
    width = breaks - first  # delimiters in the line
    ends = marks[breaks]
    starts = np.append(0, ends[:-1] + 1)[: ends.size]
    width[(ends - starts > limit) | _odd_quotes(data, ends)] = -1  # malformed: not even one cell
    ends = ends - ((ends > starts) & (data[ends - 1] == _RETURN))
    records = np.flatnonzero(ends > starts)
    starts, ends, first, width = starts[records], ends[records], first[records], width[records]
    check = not _is_utf8(block)
    columns = []
    for place in places:
        there, further = place <= width, place < width
        left = starts.copy() if place == 0 else np.where(there, marks[np.where(there, first + place - 1, 0)] + 1, 0)
        right = np.where(further, marks[np.where(further, first + place, 0)], ends)
        columns.append(_column(block, left, np.where(there, right - left, 0), check=check))
    return pa.RecordBatch.from_arrays(columns, [f"c{place}" for place in places])


def _separators(data: NDArray[np.uint8], delimiter: int) -> NDArray[np.int64]:
    """Return where the line feeds are, and the delimiters that are not between quotation marks."""
    is_break, is_quote = data == _LINE_FEED, data == _QUOTE
    marks = np.flatnonzero(is_break | is_quote | (data == delimiter))
    quotes = np.cumsum(is_quote[marks])
    if not quotes.size or not quotes[-1]:
        return marks
    breaks = np.flatnonzero(is_break[marks])
    earlier = np.append(0, quotes[breaks])[: breaks.size]  # quotation marks before the line
    quotes -= np.repeat(earlier, np.diff(breaks, prepend=-1))
    kept: NDArray[np.int64] = marks[is_break[marks] | (~is_quote[marks] & (quotes % 2 == 0))]
    return kept


def _odd_quotes(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which lines have an odd number of quotation marks."""
    counts = np.searchsorted(np.flatnonzero(data == _QUOTE), ends)
    return np.asarray(np.diff(counts, prepend=0) % 2 == 1)


def _column(block: bytes, left: NDArray[np.int64], size: NDArray[np.int64], *, check: bool) -> pa.StringArray:
    """Copy cells out of a block: `size` bytes from `left` on, without their quotation marks."""
    data = np.frombuffer(block, np.uint8)
    last = len(block) - 1
    quoted = (size >= 2) & (data[np.minimum(left, last)] == _QUOTE)
    quoted &= data[np.clip(left + size - 1, 0, last)] == _QUOTE
    left, size = left + quoted, size - 2 * quoted
    if quoted.any():
        # Cells with marks inside are few: they are written anew, behind the block.
        inside = _holds(data == _QUOTE, left, size)
        anew, end = [block], len(block)
        for place in np.flatnonzero(quoted & inside).tolist():
            cell = block[left[place] : left[place] + size[place]].replace(b'""', b'"')
            left[place], size[place] = end, len(cell)
            end += len(cell)
            anew.append(cell)
        block = b"".join(anew)
        data = np.frombuffer(block, np.uint8)
    if check:
        for place in np.flatnonzero(_holds(data >= _ASCII_END, left, size)).tolist():
            if not _is_utf8(block[left[place] : left[place] + size[place]]):
                size[place] = 0
    offsets = np.append(0, np.cumsum(size))
    copied = data[np.repeat(left - offsets[:-1], size) + np.arange(offsets[-1])]
    return pa.StringArray.from_buffers(size.size, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(copied))


def _holds(marked: NDArray[np.bool_], left: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say which cells hold a marked byte."""
    places = np.flatnonzero(marked)
    return np.asarray(np.searchsorted(places, left + size) > np.searchsorted(places, left))


def _unquoted(cell: bytes) -> bytes:
    if len(cell) >= len('""') and cell.startswith(b'"') and cell.endswith(b'"'):
        return cell[1:-1].replace(b'""', b'"')
    return cell


def _text(cell: bytes) -> str:
    return cell.decode() if _is_utf8(cell) else ""


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True

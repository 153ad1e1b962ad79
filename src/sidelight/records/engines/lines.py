"""The lines of a file after its header, in blocks of whole lines: a line ends at its line feed, whatever it holds."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import IO

from sidelight.records.engines.splitting import LINE_LIMIT

#: Bytes to a block: its working arrays stay in the cache.
BLOCK_BYTES = 1 << 18


def open_bytes(path: str) -> IO[bytes]:
    """Open a file for reading; one that is named .gz is decompressed on the way."""
    return gzip.open(path, "rb") if path.lower().endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def blocks_of(path: str, *, size: int = BLOCK_BYTES, limit: int = LINE_LIMIT) -> Iterator[bytes]:
    """Give all lines but the first, in blocks of whole lines that each end with a line feed.

    A line beyond the limit is cut, and stays beyond it: how much of it is read never depends on the blocks.
    """
    with open_bytes(path) as file:
        while (part := file.readline(size)) and not part.endswith(b"\n"):
            pass
        rest = b""
        while chunk := file.read(size):
            end = chunk.rfind(b"\n") + 1
            if end:
                yield rest + chunk[:end]
                rest = chunk[end:]
            else:
                rest = (rest + chunk)[: limit + 1]
        if rest:
            yield rest + b"\n"

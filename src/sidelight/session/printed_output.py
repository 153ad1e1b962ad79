"""Discard what a user's code prints while it works on private rows, in its thread and in those that it starts.

`redirect_stdout` changes the stream of the whole process, and two threads put the earlier streams back in the wrong
order. So `sys.stdout` and `sys.stderr` are each replaced by an object that decides at every use: a thread of such a
block gets a stream that keeps nothing, every other thread the stream that was there. The object stays, and so does the
mark on a thread that a block started, as long as the thread lives: taking them off could show a line of another block,
or a late one of this. A stream that somebody else puts in its place is not touched; the next block wraps it.

Not discarded: what goes to a stream that was taken before (also `sys.__stdout__`, which Python needs when it ends), to
a file descriptor or from another process, and what is printed once the block is over: when the program ends, or when
objects in a reference cycle are freed. File descriptors 1 and 2 belong to all threads, of which Python does not know
those of C libraries, and to processes that live on: to redirect them would lose what others print, and an interrupt
would leave it lost.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, Final, TextIO

from sidelight.session.suppressed_output import OURS, own_sinks, replace_method, sinks_here, suppress_output

_NAMES: Final = ("stdout", "stderr")


@contextmanager
def suppress_all_output() -> Iterator[None]:
    """Suppress warnings, log lines and prints of the block and of threads that it starts: for a user's code."""
    for name in _NAMES:
        stream = getattr(sys, name)
        if stream is not None and type(stream) is not _StandardStream:
            setattr(sys, name, _StandardStream(name, stream))
    replace_method(threading.Thread, "start", _marking_threads)
    with suppress_output(sinks={name: _sink() for name in _NAMES}):
        yield


def _sink() -> TextIO:
    """Return a complete text stream, without a lock and a buffer that a forked child would inherit."""
    raw: Any = _Discard()
    return io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", write_through=True)


class _Discard(io.RawIOBase):
    """A binary stream that takes everything and keeps nothing; each block has its own, which it may close."""

    name, mode = os.devnull, "wb"

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, data: Any) -> int:
        """Return the number of bytes given."""
        return memoryview(data).nbytes

    def fileno(self) -> int:
        """Return a descriptor for what writes to descriptors, such as another process."""
        return _null_descriptor()


@cache
def _null_descriptor() -> int:
    """Return a descriptor of the null device that stays open: for all blocks, and for forked children."""
    return os.open(os.devnull, os.O_WRONLY)


class _StandardStream:
    """`sys.stdout` or `sys.stderr`: in a thread of a block a sink, elsewhere the stream that was there."""

    __slots__ = ("__weakref__", "_sidelight_name", "_sidelight_stream")

    def __init__(self, name: str, stream: TextIO) -> None:
        object.__setattr__(self, "_sidelight_name", name)
        object.__setattr__(self, "_sidelight_stream", stream)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the stream, for code that asks whether it is an `io.TextIOWrapper`."""
        return _stream_here(self).__class__

    def write(self, text: str) -> int:
        """Write, also where this method was taken before."""
        return _stream_here(self).write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write, also where this method was taken before."""
        _stream_here(self).writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(_stream_here(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_stream_here(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_stream_here(self), name)

    def __enter__(self) -> Any:
        return _stream_here(self).__enter__()

    def __exit__(self, *error: Any) -> None:
        _stream_here(self).__exit__(*error)

    def __reduce__(self) -> Any:  # functions that hold it are sent to other processes
        return _standard_stream, (self._sidelight_name,)


def _stream_here(output: _StandardStream) -> TextIO:
    sinks = sinks_here()
    stream: TextIO = output._sidelight_stream if sinks is None else sinks[output._sidelight_name]
    return stream


def _standard_stream(name: str) -> Any:
    return getattr(sys, name)


def _marking_threads(start: Callable[..., None]) -> Callable[..., None]:
    """Return `Thread.start` that marks a thread with the sinks of the block that starts it."""

    @wraps(start)
    def started(self: threading.Thread) -> None:
        if (sinks := own_sinks()) is not None:
            setattr(self, OURS, sinks)
        start(self)

    return started

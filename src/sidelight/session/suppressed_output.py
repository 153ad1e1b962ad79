"""Suppress warnings, log lines and floating-point signals of a release while private data is open.

A warning or a log line about a cell reveals that the cell is there, and `python -W error` or `np.seterr(all="raise")`
would turn it into a failure. Switching warnings and logs off for the whole process would also suppress those of other
threads, and `warnings.catch_warnings` is not safe with threads. So a filter is put before all others that checks which
thread emitted each message: it matches in a thread that has data open, and in threads that Python did not start (those
of engines) while any thread has.

There is no counter and no lock: an interrupt between two counts would leave output suppressed for ever, or a message
about a cell shown; a lock may stay taken (Python's `with` does not always release it then, see issues 130279 and 148874
of CPython), and is taken for ever in a child that was forked meanwhile. Each block has its own object and filter, made
before the data is opened, that no other block removes. Only the block keeps the object alive, so it ends when the block
does, or at the latest when the traceback of an interrupt is freed.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout, suppress
from typing import Any, Final

import numpy as np

from sidelight.records.rows import WORKERS

_STAND_IN = threading._DummyThread
_THREAD = threading.local()


def _this_thread() -> object:
    """Return an object of this thread alone: the numbers of threads that ended are given to others."""
    return _THREAD.__dict__


class _Block:
    """One block with suppressed output, made by the thread that runs it."""

    def __init__(self) -> None:
        self.thread = _this_thread()
        self.over = False


_BLOCKS: set[weakref.ref[_Block]] = set()  # no WeakSet: what it does when one goes can be interrupted


def _is_open(known: weakref.ref[_Block]) -> bool:
    """Return whether a block is not over."""
    block = known()
    return block is not None and not block.over


def _open_blocks() -> list[_Block]:
    """Return the blocks that have data open, of all threads."""
    return [block for each in _BLOCKS.copy() if (block := each()) is not None and not block.over]


def _is_suppressed() -> bool:
    """Return whether this thread works for a release."""
    blocks, here = _open_blocks(), _this_thread()
    if not blocks or any(block.thread is here for block in blocks):
        return bool(blocks)
    if threading.current_thread().name.startswith(WORKERS):  # our own, which work for any thread that has data open
        return True
    # A thread that Python did not start is unknown, or known by a stand-in.
    started = {each.ident for each in threading.enumerate() if not isinstance(each, _STAND_IN)}
    return threading.get_ident() not in started


class _SuppressedMessages:
    """The message pattern of a block's warning filter.

    Libraries that copy filters into their workers (scikit-learn does) read `pattern`, which matches nothing.
    """

    pattern = r"(?!)"

    def __init__(self, block: weakref.ref[_Block]) -> None:
        self.block = block

    def match(self, text: str) -> bool:
        """Match every warning of an open release."""
        del text
        return _is_suppressed()


class _LogFilter:
    """A filter of log records; it stays on its handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let a log record pass unless it is of an open release."""
        del record
        return not _is_suppressed()


_LOG = _LogFilter()
_IN_CONTEXTS: Final = bool(getattr(sys.flags, "context_aware_warnings", False))
_NOTHING: Final = nullcontext()


@contextmanager
def suppress_output() -> Iterator[None]:
    """Suppress warnings, log lines and floating-point signals of the block."""
    block, errors = _Block(), np.geterr()
    try:
        _begin(block)
        with _context_suppression() if _IN_CONTEXTS else _NOTHING:
            yield
    finally:
        block.over = True
        try:
            _end(block, errors)
        except BaseException:  # an interrupt may have cut it short
            _end(block, errors)
            raise


@contextmanager
def suppress_all_output() -> Iterator[None]:
    """Suppress also what the block prints, and warnings of threads that it starts: for a user's code on private rows.

    Warnings and prints of other threads are lost meanwhile. The filter is added to the list and taken out again:
    `catch_warnings` would put an older list in the place of one to which another thread's block has added its own.
    """
    nowhere, everything = io.StringIO(), ("ignore", None, Warning, None, 0)
    filters: Any = warnings.filters
    with suppress_output(), redirect_stdout(nowhere), redirect_stderr(nowhere):
        try:
            filters.insert(0, everything)
            yield
        finally:
            with suppress(ValueError):
                filters.remove(everything)


def _begin(block: _Block) -> None:
    """List a block, then suppress its output."""
    known = weakref.ref(block)
    _BLOCKS.add(known)
    filters: Any = warnings.filters
    filters.insert(0, ("ignore", _SuppressedMessages(known), Warning, None, 0))
    for handler in _handlers():
        if _LOG not in handler.filters:
            handler.addFilter(_LOG)
    np.seterr(all="ignore")


def _end(block: _Block, errors: Any) -> None:
    """Restore everything; may be called twice."""
    if block.thread is _this_thread():  # one that was interrupted may be collected by another
        np.seterr(**errors)
    _tidy()


def _tidy() -> None:
    """Remove blocks that are over, and their filters; a copy of such a filter matches nothing.

    The first filter stays while any thread has data open: the user may have put another one before it.
    """
    for known in _BLOCKS.copy():
        if not _is_open(known):
            _BLOCKS.discard(known)
    filters: Any = warnings.filters
    for entry in _ours()[1 if _BLOCKS else 0 :]:
        if not _is_open(entry[1].block):
            with suppress(ValueError):  # another thread was first
                filters.remove(entry)


def _ours() -> list[Any]:
    """Return our entries among the filters of warnings."""
    filters: Any = warnings.filters
    return [entry for entry in filters.copy() if type(entry[1]) is _SuppressedMessages]


@contextmanager
def _context_suppression() -> Iterator[None]:
    """Use filters of this context alone where Python has them (3.14): then the list above is not asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _handlers() -> Iterator[logging.Handler]:
    """Return every handler of log records."""
    if logging.lastResort is not None:
        yield logging.lastResort
    yield from logging.root.handlers
    for logger in list(logging.root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger):
            yield from logger.handlers


def _keep_what_is_mine() -> None:
    """Forget, in a forked child, the blocks of threads that it does not have."""
    here = _this_thread()
    for block in _open_blocks():
        block.over = block.thread is not here
    _tidy()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_keep_what_is_mine)

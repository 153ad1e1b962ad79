"""Suppress warnings, log lines and floating-point signals of a release while private data is open.

A warning or a log line about a cell reveals that the cell is there, and `python -W error` or `np.seterr(all="raise")`
would turn it into a failure. Switching warnings and logs off for the whole process would also suppress those of other
threads, and `warnings.catch_warnings` is not safe with threads. So a filter is put before all others that checks which
thread emitted each message: it matches in a thread that has data open, in threads that Python did not start (those
of engines) while any thread has, and in those that a user's code started while it worked on private rows. Before a log
record is handled the same is checked, so that a handler that is added meanwhile gets none.

There is no counter and no lock: an interrupt between two counts would leave output suppressed for ever, or a message
about a cell shown; a lock may stay taken (Python's `with` does not always release it then, see issues 130279 and 148874
of CPython), and is taken for ever in a child that was forked meanwhile. Each block has its own object and filter, made
before the data is opened, that no other block removes. Only the block keeps the object alive, so it ends when the block
does, or at the latest when the traceback of an interrupt is freed.
"""

from __future__ import annotations

import copyreg
import logging
import os
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from typing import Any, Final, TextIO

import numpy as np

from sidelight.records.rows import WORKERS

#: Streams that keep nothing, by the names `stdout` and `stderr`.
Sinks = Mapping[str, TextIO]

_STAND_IN = threading._DummyThread
_THREAD = threading.local()
OURS: Final = "_sidelight_suppresses"


def _this_thread() -> object:
    """Return an object of this thread alone: the numbers of threads that ended are given to others."""
    return _THREAD.__dict__


class _Block:
    """One block with suppressed output, made by the thread that runs it; `sinks` take what it prints."""

    def __init__(self, sinks: Sinks | None = None) -> None:
        self.thread = _this_thread()
        self.sinks = sinks
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
    return _works_for(_open_blocks()) or own_sinks() is not None


def _works_for(blocks: list[_Block]) -> bool:
    """Return whether this thread works for one of these blocks."""
    here = _this_thread()
    if not blocks or any(block.thread is here for block in blocks):
        return bool(blocks)
    thread = threading.current_thread()
    # Our own threads work for any that has data open; one that Python did not start is known by a stand-in. No
    # `threading.enumerate`: it takes a lock, which the code that was interrupted by what prints here may hold.
    return thread.name.startswith(WORKERS) or isinstance(thread, _STAND_IN)


def own_sinks() -> Sinks | None:
    """Return where a block of this thread, or the block that started this thread, prints; None outside of these."""
    here = _this_thread()
    mine = [block.sinks for block in _open_blocks() if block.sinks is not None and block.thread is here]
    sinks: Sinks | None = mine[0] if mine else getattr(threading.current_thread(), OURS, None)
    return sinks


def sinks_here() -> Sinks | None:
    """Return `own_sinks`, or in a thread of an engine those of any block that has some."""
    if (sinks := own_sinks()) is not None:
        return sinks
    printing = [block for block in _open_blocks() if block.sinks is not None]
    return printing[0].sinks if _works_for(printing) else None


class _SuppressedWarnings(type):
    """The metaclass of the category of our warning filters: a class of warnings is a part of it while suppressed.

    A copy of the filter decides in the same way: scikit-learn copies filters into its workers, and threads that undo
    `catch_warnings` in the wrong order leave such copies behind.
    """

    def __subclasscheck__(cls, category: type) -> bool:
        del category
        return _is_suppressed()


#: Every warning of an open release, and no other. Nobody raises it.
_Suppressed: Any = _SuppressedWarnings("_Suppressed", (Warning,), {})


def _pickled(category: type) -> Any:
    """Send every warning in place of ours to a process, which does not know what is open here."""
    del category
    return (type, (Warning(),)) if _open_blocks() else _Suppressed.__name__


copyreg.pickle(_SuppressedWarnings, _pickled)


class _AnyMessage:
    """The message pattern of a block's warning filter, by which the block is found.

    Libraries that copy filters into their workers read `pattern`, also scikit-learn, which pickles them for processes.
    """

    pattern = ""

    def __init__(self, block: weakref.ref[_Block]) -> None:
        self.block = block

    def match(self, text: str) -> bool:
        """Match every text: the category decides."""
        del text
        return True

    def __reduce__(self) -> Any:
        return re.compile, (self.pattern,)


def _unless_suppressed(handle: Callable[..., None]) -> Callable[..., None]:
    """Return `Logger.handle` without the records of an open release."""

    @wraps(handle)
    def handled(self: logging.Logger, record: logging.LogRecord) -> None:
        if not _is_suppressed():
            handle(self, record)

    return handled


def replace_method(owner: type, name: str, change: Callable[[Any], Any]) -> None:
    """Replace a method by a changed one, unless that was done; two threads that do so at once change it once.

    It stays: taking it off in one thread could show what another says.
    """
    method = getattr(owner, name)
    if not hasattr(method, OURS):
        changed = change(method)
        setattr(changed, OURS, True)
        setattr(owner, name, changed)


_IN_CONTEXTS: Final = bool(getattr(sys.flags, "context_aware_warnings", False))
_NOTHING: Final = nullcontext()


@contextmanager
def suppress_output(*, sinks: Sinks | None = None) -> Iterator[None]:
    """Suppress warnings, log lines and floating-point signals of the block; see `printed_output` for `sinks`."""
    block, errors = _Block(sinks), np.geterr()
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


def _begin(block: _Block) -> None:
    """List a block, then suppress its output."""
    known = weakref.ref(block)
    _BLOCKS.add(known)
    filters: Any = warnings.filters
    filters.insert(0, ("ignore", _AnyMessage(known), _Suppressed, None, 0))
    replace_method(logging.Logger, "handle", _unless_suppressed)
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
    return [entry for entry in filters.copy() if type(entry[1]) is _AnyMessage]


@contextmanager
def _context_suppression() -> Iterator[None]:
    """Use filters of this context alone where Python has them (3.14): then the list above is not asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _keep_what_is_mine() -> None:
    """Forget, in a forked child, the blocks of threads that it does not have."""
    here = _this_thread()
    for block in _open_blocks():
        block.over = block.thread is not here
    _tidy()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_keep_what_is_mine)

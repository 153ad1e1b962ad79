"""What a forked child must leave to its parent: connections and folders that end for both when either of them ends one.

A child has a copy of every object, and the copy of a connection has the socket of its parent. When the child drops
that copy, or ends, what ends a connection in an ordinary way (a finalizer, `__del__`, the end of a generator) says so
to the other side, and the parent's snapshot or kept blocks are gone. So a thing that is named here is never freed by
a child: Python keeps its copy, and the system closes the child's descriptors without a word. Nobody sells this, and a
guarantee depends on it: every pass over the rows has to read the same rows.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Thing = TypeVar("Thing")

_of_this_process: weakref.WeakSet[Any] = weakref.WeakSet()
_inherited: set[int] = set()  # by id, which nothing else can get: these objects stay for ever


def kept_from_children(thing: Thing) -> Thing:
    """Return the thing, which a child that is forked from this process will never free."""
    _of_this_process.add(thing)
    return thing


def is_inherited(thing: object) -> bool:
    """Return whether a thing that was kept from children was made by a parent of this process."""
    return id(thing) in _inherited


def finalize_here(owner: object, end: Callable[[Any], object], thing: Any) -> None:
    """End a thing when its owner goes or Python ends, in the process that made it and in no child of it."""
    weakref.finalize(owner, _end_unless_inherited, end, kept_from_children(thing))


def _end_unless_inherited(end: Callable[[Any], object], thing: Any) -> None:
    if not is_inherited(thing):
        end(thing)


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Make a folder that goes at the end of the block, or when Python ends; no child takes it away.

    That of the standard library goes when any process that knows of it ends.
    """
    process, folder = os.getpid(), tempfile.mkdtemp(prefix="sidelight-")
    try:
        yield folder
    finally:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)


def _keep_what_is_the_parents() -> None:
    for thing in list(_of_this_process):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
        _inherited.add(id(thing))
    _of_this_process.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_keep_what_is_the_parents)

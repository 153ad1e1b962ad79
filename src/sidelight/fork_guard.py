"""Connections and folders that a forked child must leave to its parent.

The child's copy of a connection uses its parent's socket. When the child frees that copy, or ends, a finalizer,
`__del__` or the end of a generator closes the connection for both, and the parent's snapshot is lost. So an object that
is registered here is never freed by a child: Python keeps the copy, and the system closes the child's descriptors. Hand
made because no library does it and a guarantee depends on it: every pass over the rows has to read the same rows.
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

#: What children are kept from, and the process that made it, both by id: equal things are not the same.
_things: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_made_by: dict[int, int] = {}
#: Held by a fork from before it begins: in a child, Python clears what other threads hold before any hook of ours runs.
_held: list[list[Any]] = []


def kept_from_children(thing: Thing) -> Thing:
    """Register an object that children forked from this process must never free; return it."""
    name = id(thing)
    _things[name], _made_by[name] = thing, os.getpid()
    weakref.finalize(thing, _made_by.pop, name, None).atexit = False  # another thing may have this id later
    return thing


def is_inherited(thing: object) -> bool:
    """Return whether a thing that was kept from children was made by a parent of this process."""
    return _made_by.get(id(thing), os.getpid()) != os.getpid()


def finalize_here(owner: object, end: Callable[[Any], object], thing: Any) -> Callable[[], object]:
    """Call `end` when the owner is freed or Python ends, in this process and in no child of it.

    The function that is returned does it now; called twice, it does nothing more.
    """
    return weakref.finalize(owner, _end_unless_inherited, end, kept_from_children(thing))


def _end_unless_inherited(end: Callable[[Any], object], thing: Any) -> None:
    if not is_inherited(thing):
        end(thing)


@contextmanager
def temporary_folder() -> Iterator[str]:
    """Make a folder that is removed at the end of the block, or when Python ends, but by no child.

    The standard library's would be removed when any process that inherited it ends.
    """
    folder = _Folder(tempfile.mkdtemp(prefix="sidelight-"))
    end = weakref.finalize(folder, _remove, folder.path, os.getpid())
    try:
        yield folder.path
    finally:
        end()


class _Folder:
    """A folder that goes with this object."""

    def __init__(self, path: str) -> None:
        self.path = path


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


def _keep_what_is_the_parents() -> None:
    for thing in _held.pop():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(
        before=lambda: _held.append(list(_things.values())),
        after_in_parent=lambda: _held.pop(),
        after_in_child=_keep_what_is_the_parents,
    )

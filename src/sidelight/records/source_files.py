"""The files of a source: what a path, a folder, a pattern or a `file:` URL names, compared by device and inode.

Links and other spellings of a path are recognised. No file is opened. What is found is at least what an engine would
read: everything below a folder, and patterns as Python and as Spark understand them.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from itertools import product
from os import PathLike, fspath
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

#: Device and inode.
FileIdentity: TypeAlias = tuple[int, int]
#: Names in a folder that no engine reads as rows begin so.
_NOT_ROWS = ("_", ".")
_BRACES = re.compile(r"\{([^{}]*)\}")


def files_of(source: str | PathLike[str], *, unread: bool = True) -> Iterator[str]:
    """Yield the path of every file that a source names.

    Args:
        source: A path, a folder, a pattern, or a `file:` URL; another address names no file.
        unread: Whether to yield files below a folder that engines leave out: names that begin with _ or a dot.

    >>> list(files_of("postgresql://host/people"))
    []
    """
    for path in _paths(source):
        if not os.path.isdir(path):
            yield path
            continue
        for folder in _folders(path, unread=unread):
            yield from (each.path for each in _entries(folder, unread=unread) if not each.is_dir())


def identities_of(source: str | PathLike[str], *, unread: bool = True) -> frozenset[FileIdentity]:
    """Return device and inode of every file of a source; a link has those of the file that it leads to."""
    return frozenset(found for path in files_of(source, unread=unread) if (found := _identity(path)) is not None)


def real_path(path: str | PathLike[str]) -> str:
    """Return the path of a file, a folder or a `file:` URL without links; a pattern's as far as links are known."""
    try:
        return os.path.realpath(_local(path))
    except ValueError:  # a null character, which no name has
        return fspath(path)


def is_file_of(file: str | PathLike[str], source: str | PathLike[str]) -> bool:
    """Return whether a file is one of a source, under whatever name or link, or lies below its folder."""
    return real_path(file) == real_path(source) or _identity(file) in identities_of(source)


def would_be_read(file: str | PathLike[str], source: str | PathLike[str]) -> bool:
    """Return whether what is written to a path would replace a file of a source, or be read as a new one."""
    if _identity(file) in identities_of(source, unread=False):
        return True
    aims = {os.path.abspath(file), real_path(file)}  # some writers replace a link, others follow it
    known = {real_path(each) for each in (source, *files_of(source, unread=False))}  # links to nothing, too
    return not known.isdisjoint(aims) or any(_is_new_in(aim, source) for aim in aims)


def _is_new_in(file: str, source: str | PathLike[str]) -> bool:
    """Return whether the name of a new file is in a folder of a source, or matches its pattern."""
    parent, name = _identity(os.path.dirname(file)), os.path.basename(file)
    folders = (each for path in _paths(source) if os.path.isdir(path) for each in _folders(path, unread=False))
    if not name.startswith(_NOT_ROWS) and any(_identity(folder) == parent for folder in folders):
        return True
    for pattern in [] if os.path.lexists(_local(source)) else _patterns(source):
        head, wanted = os.path.split(pattern)
        matches = fnmatch(name, wanted) and (wanted.startswith(".") or not name.startswith("."))
        if matches and any(_identity(each) == parent for each in _globbed(head or ".")):
            return True
    return False


def _paths(source: str | PathLike[str]) -> list[str]:
    """Return what is there under the name of a source, or matches it as a pattern."""
    found = [_local(source)] if os.path.lexists(_local(source)) else []
    return list(dict.fromkeys([*found, *(each for pattern in _patterns(source) for each in _globbed(pattern))]))


def _patterns(source: str | PathLike[str]) -> list[str]:
    """Return the patterns that a source may mean: Spark also writes {a,b} and [^a]."""
    text = _local(source)
    if "://" in text:
        return []
    parts = _BRACES.split(text)  # every second part stood in braces
    choices = [part.split(",") if place % 2 else [part] for place, part in enumerate(parts)]
    found = [text, *("".join(chosen) for chosen in product(*choices))]
    return list(dict.fromkeys([*found, *(each.replace("[^", "[!") for each in found)]))


def _globbed(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)


def _local(source: str | PathLike[str]) -> str:
    text = fspath(source)
    if text.lower().startswith("file:/"):
        return unquote(urlsplit(text).path)
    return os.path.expanduser(text)


def _folders(path: str, *, unread: bool) -> Iterator[str]:
    """Yield a folder and those below it, through links, each once."""
    seen: set[FileIdentity | None] = {None}
    waiting = [path]
    while waiting:
        folder = waiting.pop()
        own = _identity(folder)
        if own not in seen:
            seen.add(own)
            yield folder
            waiting += [each.path for each in _entries(folder, unread=unread) if each.is_dir()]


def _entries(folder: str, *, unread: bool) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return [each for each in found if unread or not each.name.startswith(_NOT_ROWS)]
    except OSError:  # which no engine can read either
        return []


def _identity(path: str | PathLike[str]) -> FileIdentity | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino

"""The files of a table: those that were there when it was made, and no others.

What is known of a file (columns, types, the number of row groups, that its records are standard) is known of the file
that was there when the table was made. A file that was replaced since would be read in part or by the wrong columns,
and one record more could then change which others are read. So the release pipeline compares the files before a release
reads them and again after the last row, and fails if one of them was changed. The comparison costs one call of the
operating system per file and looks at no row.

A file that a table has twice, by a link or by its name, would count each of its records twice: it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sidelight.errors import SourceError
from sidelight.records.engines.folders import shown

#: Device, inode, size, and the times of the last change of content and of metadata, in nanoseconds.
Identity = tuple[int, int, int, int, int]

_AGAIN = "The charge of a release stands; make the table and its session again to read what is there now"


def absolute(path: str) -> str:
    """Return a path that does not depend on the working folder; addresses stay, and ".." (links may lead elsewhere)."""
    if "://" in path:
        return path
    path = os.path.expanduser(path)
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def identity_of(path: str) -> Identity:
    """Return the identity of a file, which changes whenever it is written or replaced."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(frozen=True, repr=False)
class Files:
    """The files of a table with their identities.

    `listed` lists a folder or a pattern, called `place` in messages, again; a table of single files has none.
    """

    paths: tuple[str, ...]
    identities: tuple[Identity, ...]
    place: str = ""
    listed: Callable[[], Sequence[str]] | None = None

    def fault(self) -> str | None:
        """Return what is wrong with the first file that is gone or changed, or with the list of files; None if nothing.

        Names no file that was not there when the table was made: what its name says is not known to be public.
        """
        for path, identity in zip(self.paths, self.identities, strict=True):
            try:
                now = identity_of(path)
            except OSError:
                return f"{shown(path)!r} is not there any more; let nothing move or delete it. {_AGAIN}"
            if now != identity:
                return f"{shown(path)!r} was changed or replaced after the table was made. {_AGAIN}"
        if self.listed is None or self._lists_the_same(self.listed):
            return None
        return f"{self.place!r} has other files than when the table was made. {_AGAIN}"

    def check(self) -> None:
        """Raise a `SourceError` if a file is gone, changed or new."""
        if (found := self.fault()) is not None:
            raise SourceError(found)

    def _lists_the_same(self, listed: Callable[[], Sequence[str]]) -> bool:
        try:
            return tuple(listed()) == self.paths
        except (OSError, SourceError):  # a folder that cannot be read, or is none of a table any more
            return False


def files_of(paths: Sequence[str], *, place: str = "", listed: Callable[[], Sequence[str]] | None = None) -> Files:
    """Take the identities of files; call it before anything of them is read.

    Raises:
        SourceError: two of the paths are one file, by device and inode.
    """
    identities: list[Identity] = []
    first: dict[object, str] = {}
    for path in paths:
        try:
            identity = identity_of(path)
        except OSError:
            identity = None
        if identity is None:
            raise SourceError(f"there is no file {shown(path)!r}; check the path, and where a link leads to")
        identities.append(identity)
        # some file systems number no files: there links are followed by their names
        key = identity[:2] if identity[1] else os.path.realpath(path)
        if key in first:
            raise SourceError(
                f"{shown(first[key])!r} and {shown(path)!r} are the same file (a link to it, or its name twice), and "
                "every record of it would count twice for the price of once; remove the link from the folder, or name "
                "the files with a pattern that finds each of them once"
            )
        first[key] = path
    return Files(tuple(paths), tuple(identities), place, listed)

"""Files that are written as a whole: an older file of the name stays until the new one is complete."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sidelight.errors import SidelightError, SourceError
from sidelight.ledger.place import check_output


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Return a place beside a path, with its ending, to write to; what is there at the end takes the path's name."""
    check_output(path)
    path = Path(os.path.realpath(path))  # what a link points to is written, and the link stays
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
        os.close(descriptor)
        try:
            yield Path(name)
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except SidelightError:
        raise
    except OSError as error:
        raise SourceError(f"{str(path)!r} cannot be written: {error.strerror}; choose another place") from None


def write_text(path: Path, text: str) -> Path:
    """Write a file in one step."""
    with whole_file(path) as place:
        place.write_text(text, encoding="utf-8", newline="")
    return path


def check_writable(path: Path, *, inputs: Iterable[Path | str | None] = ()) -> None:
    """Refuse a place that cannot be written, or that would be written over what is read, before anything is spent."""
    for each in inputs:
        if each is not None and os.path.realpath(each) == os.path.realpath(path):
            raise SourceError(f"{str(path)!r} is read by the same command and would be lost; choose another output")
    if path.is_dir():
        raise SourceError(f"{str(path)!r} is a directory; name a file in it")
    check_output(path)
    if not path.parent.is_dir():
        raise SourceError(f"the directory {str(path.parent)!r} does not exist; make it first, or choose another place")
    if not os.access(path.parent, os.W_OK):
        raise SourceError(f"the directory {str(path.parent)!r} cannot be written; choose another place")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

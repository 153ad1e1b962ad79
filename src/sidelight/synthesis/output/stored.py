"""Synthetic tables of releases that were stored as JSON."""

from __future__ import annotations

import zlib
from pathlib import Path

from sidelight.errors import RangeError, SidelightError, SourceError, nearest
from sidelight.release import Release, read_outcomes
from sidelight.synthesis.output.released import KIND, Synthetic


def open_table(release: Release) -> Synthetic:
    """Unpack the distribution of a release, which may come from a file; a damaged one is an error that says so."""
    made = Synthetic(release)
    try:
        sound = made.rows > 0 and made.mass.total > 0 and bool((made.mass.units >= 0).all())
        for name in made.domain.columns:
            made.mass.marginal((name,))
        _ = made.measurements, made.bounds
    except (KeyError, TypeError, ValueError, IndexError, zlib.error):
        sound = False
    if not sound:
        raise RangeError("the release of a synthetic table is damaged; use the file that `sidelight run` wrote")
    return made


def stored_table(path: Path, *, title: str | None = None) -> Synthetic:
    """Read the synthetic table of a stored release; where there are several, the one with this title."""
    try:
        found = read_outcomes(path)
    except SourceError:
        raise
    except SidelightError as error:
        raise RangeError(f"{path.name!r} holds no releases: {error}") from None
    tables = [(name, each) for name, each in found if isinstance(each, Release) and each.kind == KIND]
    if not tables:
        kinds = ", ".join(dict.fromkeys(str(each.query["kind"]) for _, each in found)) or "nothing"
        raise RangeError(f'{path.name!r} holds no release of kind = "{KIND}", but {kinds}; name another file')
    if title is not None:
        titles = [name for name, _ in tables]
        tables = [item for item in tables if item[0] == title]
        if not tables:
            raise RangeError(f"{path.name!r} has no synthetic table with the title {title!r}; {nearest(title, titles)}")
    if len(tables) > 1:
        known = ", ".join(repr(name) for name, _ in tables)
        raise RangeError(f"{path.name!r} holds {len(tables)} synthetic tables; say which one by its title: {known}")
    try:
        return open_table(tables[0][1])
    except SidelightError as error:
        raise RangeError(f"{path.name!r}: {error}") from None

"""Releases that were stored as JSON: by `sidelight run --json`, or by a program with `release.to_json()`."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.terminal import tell, today
from sidelight.errors import RangeError, SidelightError, SourceError, nearest
from sidelight.release import Release
from sidelight.report import Report, check_writable, report_from_json, write_report
from sidelight.report.numbers import counted
from sidelight.report.synthetic import open_table
from sidelight.synthesis import Synthetic
from sidelight.synthesis.output.released import KIND


def read_stored(path: Path, *, title: str = "Private releases") -> Report:
    """Read stored releases; `title` is for files that have none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SourceError(f"{str(path)!r} cannot be read: {reason}; name a JSON file of releases") from None
    try:
        return report_from_json(text, title=title, day=today())
    except RecursionError:
        raise SourceError(f"{str(path)!r} is nested too deeply for releases; name a JSON file of releases") from None


def stored_table(path: Path, *, title: str | None = None) -> Synthetic:
    """Read the synthetic table of a stored release; where there are several, the one with this title."""
    try:
        items = read_stored(path).items
    except SourceError:
        raise
    except SidelightError as error:
        raise RangeError(f"{path.name!r} holds no releases: {error}") from None
    tables = [item for item in items if isinstance(item.outcome, Release) and item.outcome.kind == KIND]
    if not tables:
        kinds = ", ".join(dict.fromkeys(str(item.outcome.query["kind"]) for item in items)) or "nothing"
        raise RangeError(f'{path.name!r} holds no release of kind = "{KIND}", but {kinds}; name another file')
    if title is not None:
        titles = [item.title for item in tables]
        tables = [item for item in tables if item.title == title]
        if not tables:
            raise RangeError(f"{path.name!r} has no synthetic table with the title {title!r}; {nearest(title, titles)}")
    if len(tables) > 1:
        known = ", ".join(repr(item.title) for item in tables)
        raise RangeError(f"{path.name!r} holds {len(tables)} synthetic tables; say which one by its title: {known}")
    outcome = tables[0].outcome
    assert isinstance(outcome, Release)
    try:
        return open_table(outcome)
    except SidelightError as error:
        raise RangeError(f"{path.name!r}: {error}") from None


# `sidelight report`: the page from releases that were stored as JSON.


def write_stored(releases: Path, *, output: Path, title: str) -> None:
    """Read stored releases and write their report."""
    check_writable(output)
    report = read_stored(releases, title=title)
    write_report(report, output)
    tell(f"{counted(len(report.items), 'release')}. Report: {output}")

"""Releases that were stored as JSON: by `sidelight run --json`, or by a program with `release.to_json()`."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.terminal import tell, today
from sidelight.errors import SourceError
from sidelight.release import stored_text
from sidelight.report import Report, check_writable, report_from_json, write_report
from sidelight.report.numbers import counted


def read_stored(path: Path, *, title: str = "Private releases") -> Report:
    """Read stored releases; `title` is for files that have none."""
    text = stored_text(path)
    try:
        return report_from_json(text, title=title, day=today())
    except RecursionError:
        raise SourceError(f"{str(path)!r} is nested too deeply for releases; name a JSON file of releases") from None


def write_stored(releases: Path, *, output: Path, title: str) -> None:
    """Read stored releases and write their report."""
    check_writable(output)
    report = read_stored(releases, title=title)
    write_report(report, output)
    tell(f"{counted(len(report.items), 'release')}. Report: {output}")

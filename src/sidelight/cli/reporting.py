"""`sidelight report`: the page from releases that were stored as JSON."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.terminal import tell, today
from sidelight.errors import SourceError
from sidelight.report import check_writable, report_from_json, write_report


def write_stored(releases: Path, *, output: Path, title: str) -> None:
    """Read stored releases and write their report."""
    check_writable(output)
    try:
        text = releases.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise SourceError(f"{str(releases)!r} cannot be read: {reason}; name a JSON file of releases") from None
    try:
        report = report_from_json(text, title=title, day=today())
    except RecursionError:
        raise SourceError(
            f"{str(releases)!r} is nested too deeply for releases; name a JSON file of releases"
        ) from None
    write_report(report, output)
    tell(f"{len(report.items)} releases. Report: {output}")

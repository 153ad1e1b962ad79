"""Pages from stored JSON: the report of releases, and the privacy page of a published privacy report."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.answers import note
from sidelight.cli.terminal import tell, today
from sidelight.errors import SchemaError, SourceError
from sidelight.privacy_page.page import privacy_page
from sidelight.release import stored_text
from sidelight.report import Report, check_writable, report_from_json, write_report, write_text
from sidelight.report.words import counted


def read_stored(path: Path, *, title: str = "Private releases") -> Report:
    """Read stored releases; `title` is for files that have none."""
    text = stored_text(path)
    try:
        return report_from_json(text, title=title, day=today())
    except RecursionError:
        raise SourceError(f"{str(path)!r} is nested too deeply for releases; name a JSON file of releases") from None


def write_stored(releases: Path, *, output: Path, title: str) -> None:
    """Read stored releases and write their report."""
    check_writable(output, inputs=[releases])
    report = read_stored(releases, title=title)
    write_report(report, output)
    tell(f"{counted(len(report.items), 'release')}. Report: {output}")
    note(releases=len(report.items), output=str(output))


# `sidelight privacy-page`: the page on which a person reads what a release revealed about them.


def write_privacy_page(report: Path, *, output: Path) -> None:
    """Read a published privacy report, strictly, and write its page."""
    check_writable(output, inputs=[report])
    try:
        text = report.read_bytes()
    except OSError as error:
        raise SourceError(
            f"{str(report)!r} cannot be read: {error.strerror}; name a published privacy report, a JSON file"
        ) from None
    try:
        page = privacy_page(text)
    except SchemaError as error:
        raise SchemaError(f"{str(report)!r} is no privacy report that can be shown: {error}") from None
    except RecursionError:
        raise SchemaError(f"{str(report)!r} is nested too deeply for a privacy report") from None
    write_text(output, page)
    note(output=str(output))
    tell(f"Privacy page: {output} ({len(page.encode()) / 1000:.0f} kB; it needs no network and sends nothing)")

"""`sidelight report`: the page from releases that were stored as JSON."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.stored import read_stored
from sidelight.cli.terminal import tell
from sidelight.report import check_writable, write_report
from sidelight.report.numbers import counted


def write_stored(releases: Path, *, output: Path, title: str) -> None:
    """Read stored releases and write their report."""
    check_writable(output)
    report = read_stored(releases, title=title)
    write_report(report, output)
    tell(f"{counted(len(report.items), 'release')}. Report: {output}")

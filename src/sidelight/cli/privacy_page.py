"""`sidelight privacy-page`: the page on which a person reads what a release revealed about them."""

from __future__ import annotations

from pathlib import Path

from sidelight.cli.terminal import tell
from sidelight.errors import SchemaError, SourceError
from sidelight.privacy_page.page import privacy_page
from sidelight.report import check_writable, write_text


def write_privacy_page(report: Path, *, output: Path) -> None:
    """Read a published privacy report, strictly, and write its page."""
    check_writable(output)
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
    tell(f"Privacy page: {output} ({len(page.encode()) / 1000:.0f} kB; it needs no network and sends nothing)")

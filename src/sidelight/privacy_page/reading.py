"""Reading a published report, of objective perturbation or of a descent, strictly."""

from __future__ import annotations

from typing import Any

import msgspec

from sidelight.errors import SchemaError
from sidelight.privacy_page.descent_report import DescentReport
from sidelight.privacy_page.published import PublishedReport, check_finite, check_version, sentence

AnyReport = PublishedReport | DescentReport


def read_report(report: AnyReport | dict[str, Any] | str | bytes) -> AnyReport:
    """Read a published report from its JSON text or its dict, strictly.

    Raises:
        SchemaError: a field is missing, unknown, of another version or out of range; the message names the field.

    >>> read_report('{"schema": "privacy-report/9"}')
    Traceback (most recent call last):
        ...
    sidelight.errors.SchemaError: field schema: this version reads "privacy-report/1", got 'privacy-report/9'; ...
    """
    if isinstance(report, PublishedReport | DescentReport):
        return report
    if isinstance(report, str | bytes):
        try:
            report = msgspec.json.decode(report)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SchemaError(f"a privacy report must be a JSON file: {error}") from None
    if not isinstance(report, dict):
        raise SchemaError(f"a privacy report must be a JSON object, got {type(report).__name__}")
    check_version(report)
    check_finite(report, "")
    try:
        if report.get("mechanism") == "descent":
            return msgspec.convert(report, DescentReport)
        return msgspec.convert(report, PublishedReport)
    except msgspec.ValidationError as error:
        raise SchemaError(sentence(str(error))) from None

"""One report as it is stored, sent and read: integers on the public grid, with the terms under which it was made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sidelight.errors import ReportError
from sidelight.experts.reporting import LONGEST_TEXT, Kind, Reporting
from sidelight.guarantees import decimal_text

REPORT_VERSION = 1
_FIELDS = (
    "version",
    "client_id",
    "round",
    "kind",
    "index",
    "values",
    "grid_bits",
    "noise_scale",
    "mu",
    "nonce",
    "entropy",
)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A noisy report: `values` times 2^-grid_bits. Everything in it may be seen by everybody."""

    client_id: str
    round: int
    kind: Kind
    index: int | None
    values: tuple[int, ...]
    grid_bits: int
    noise_scale: str
    mu: str
    nonce: str
    entropy: str
    version: int = REPORT_VERSION

    def to_json(self) -> str:
        """Return the one text of this report: the same bytes whenever it is sent."""
        body = {name: getattr(self, name) for name in _FIELDS}
        return json.dumps(body, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Read a report that anybody may have written; `ReportError` says what is wrong with its form."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or a number of thousands of digits
            raise ReportError("a report is a JSON object; this text is not JSON") from None
        if not isinstance(body, dict) or set(body) != set(_FIELDS):
            raise ReportError(f"a report is a JSON object with exactly the fields {', '.join(_FIELDS)}")
        _check_types(body)
        body["values"] = tuple(body["values"])
        return cls(**body)

    def floats(self) -> list[float]:
        """Return the noisy gains."""
        return [value * 2.0**-self.grid_bits for value in self.values]


def check_terms(report: Report, reporting: Reporting) -> None:
    """Raise `ReportError` unless the report was made under these terms. Public claims are compared, values are not."""
    wanted: dict[str, Any] = {
        "version": REPORT_VERSION,
        "kind": reporting.kind,
        "grid_bits": reporting.grid_bits,
        "noise_scale": decimal_text(reporting.noise_scale),
        "mu": decimal_text(reporting.exact_mu),
    }
    for name, value in wanted.items():
        if getattr(report, name) != value:
            raise ReportError(f"this server takes reports with {name} = {value}; the report says otherwise")
    if len(report.values) != reporting.coordinates:
        raise ReportError(f"a report holds {reporting.coordinates} values, got {len(report.values)}")
    if (report.index is None) != (reporting.kind == "vector"):
        raise ReportError("a coordinate report has an index, a vector report has none")
    if report.index is not None and not 0 <= report.index < reporting.actions:
        raise ReportError(f"the index of a coordinate lies in 0..{reporting.actions - 1}")


def _check_types(body: dict[str, Any]) -> None:
    for name in ("version", "round", "grid_bits"):
        if type(body[name]) is not int or abs(body[name]) > 2**40:
            raise ReportError(f"{name} of a report is a whole number")
    if body["index"] is not None and type(body["index"]) is not int:
        raise ReportError("index of a report is a whole number or null")
    for name in ("client_id", "kind", "noise_scale", "mu", "nonce", "entropy"):
        if not isinstance(body[name], str) or not 1 <= len(body[name]) <= LONGEST_TEXT or not body[name].isprintable():
            raise ReportError(f"{name} of a report is printable text of 1 to {LONGEST_TEXT} characters")
    values = body["values"]
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise ReportError("values of a report are whole numbers on the grid; what is not finite has no place there")

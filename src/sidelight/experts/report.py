"""One report as it is stored, sent and read, and the one noisy gain vector that the reports of a round come to.

A report holds integers on the public grid, with the terms under which it was made. A hostile value is clipped to what
an honest one hardly ever exceeds; that bounds what one client can move, and nothing else can.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sidelight.errors import RangeError, ReportError
from sidelight.experts.player import Floats, Mask
from sidelight.experts.reporting import LONGEST_TEXT, Kind, Reporting
from sidelight.experts.states import Stream
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


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The range of codes that a report may have: gains plus z noise deviations on either side, z = Φ⁻¹(1 - failure/n).

    An honest report is touched with probability at most 2 `failure`.
    """

    reporting: Reporting
    failure: float = 1e-9

    def __post_init__(self) -> None:
        if not 0 < self.failure < 0.5:
            raise RangeError(f"clip_failure must lie in 0..0.5, got {self.failure}; 1e-9 is usual")

    @cached_property
    def deviations(self) -> float:
        """z."""
        from scipy.special import ndtri

        return -float(ndtri(self.failure / self.reporting.actions))

    @cached_property
    def codes(self) -> tuple[int, int]:
        """The lowest and the highest code."""
        reach = math.ceil(self.deviations * float(self.reporting.noise_scale / self.reporting.grid)) + 1
        return -reach, self.reporting.largest_code + reach

    def clipped(self, value: int) -> int:
        """Return a code within the limits."""
        low, high = self.codes
        return min(max(value, low), high)


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The noisy gain vector of a round, its noise, and which coordinates came from a client."""

    report: Floats
    noise_scale: float
    mask: Mask


def collect(reports: Iterable[Report], limits: Limits, *, number: int, stream: Stream) -> Collected:
    """Return the noisy gain vector of a round: vectors are averaged, coordinates put side by side.

    Sums are of integers, so the order in which reports arrive does not change a bit. What is missing counts as gain 0
    with noise of the server.

    Gain 0 is pessimistic on purpose: who does not report is not chosen for it. The noise keeps the covariance that the
    players assume. Averaging k vectors makes the noise η/√k for the player; privacy still rests on each client's η.
    """
    terms = limits.reporting
    width, scale = float(terms.grid), float(terms.noise_scale)
    total = [0] * terms.actions
    count = [0] * terms.actions
    for report in reports:
        places = range(terms.actions) if report.index is None else (report.index,)
        for place, value in zip(places, report.values, strict=True):
            total[place] += limits.clipped(value)
            count[place] += 1
    mask = np.array([each > 0 for each in count])
    if terms.kind == "vector" and count[0]:
        values = np.array([each / count[0] for each in total]) * width
        return Collected(report=values, noise_scale=scale / math.sqrt(count[0]), mask=mask)
    values = np.array([float(each) for each in total]) * width
    if not mask.all():
        fresh = scale * stream.normals(f"missing {number}", terms.actions)
        values = np.where(mask, values, fresh)
    return Collected(report=values, noise_scale=scale, mask=mask)


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

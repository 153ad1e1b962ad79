"""One report as it is stored, sent and read, and the one noisy gain vector that the reports of a round come to.

A report holds integers on the public grid, with the terms under which it was made. A hostile value is clipped to what
an honest one hardly ever exceeds; that bounds what one client can move, and nothing else can.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from sidelight.errors import RangeError, ReportError
from sidelight.experts.player import Floats, Mask, Stream
from sidelight.experts.reporting import LONGEST_TEXT, Kind, Reporting
from sidelight.guarantees import decimal_text

REPORT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class NoisyReport:
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

    def __post_init__(self) -> None:
        _check_types(vars(self))

    def to_json(self) -> str:
        """Return the one text of this report: the same bytes whenever it is sent."""
        return json.dumps(vars(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> NoisyReport:
        """Read a report that anybody may have written; `ReportError` says what is wrong with its form."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):  # not JSON, not UTF-8, or a number of thousands of digits
            raise ReportError("a report is a JSON object; this text is not JSON") from None
        names = [each.name for each in fields(cls)]
        if not isinstance(body, dict) or set(body) != set(names):
            raise ReportError(f"a report is a JSON object with exactly the fields {', '.join(names)}")
        if isinstance(body["values"], list):
            body["values"] = tuple(body["values"])
        return cls(**body)

    def floats(self) -> list[float]:
        """Return the noisy gains."""
        return [value * 2.0**-self.grid_bits for value in self.values]


def check_terms(report: NoisyReport, reporting: Reporting) -> None:
    """Raise `ReportError` unless the report was made under these terms. Public claims are compared, values are not."""
    if reporting.sizes is not None and report.client_id not in reporting.sizes:
        raise ReportError("no client of this name takes part")
    wanted: dict[str, Any] = {
        "version": REPORT_VERSION,
        "kind": reporting.kind,
        "grid_bits": reporting.grid_bits,
        "noise_scale": decimal_text(reporting.noise_scale_of(report.client_id)),
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
class ClipLimits:
    """The range of codes that a report may have: gains plus z noise deviations on either side, z = Φ⁻¹(1 - failure/n).

    An honest report is touched with probability at most 2 `failure`. Where noise follows sizes, each client's limits
    are those of its own: a large client cannot move a sum by the noise of a small one.
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
        """The lowest and the highest code of any client."""
        return self._codes(self.reporting.noise_scale)

    def codes_of(self, client_id: str) -> tuple[int, int]:
        """The lowest and the highest code of one client."""
        return self.codes if self.reporting.sizes is None else self._codes(self.reporting.noise_scale_of(client_id))

    def _codes(self, scale: Fraction) -> tuple[int, int]:
        reach = math.ceil(self.deviations * float(scale / self.reporting.grid)) + 1
        return -reach, self.reporting.largest_code + reach

    def clipped(self, report: NoisyReport) -> list[int]:
        """Return the codes of a report within the limits of its client."""
        low, high = self.codes_of(report.client_id)
        return [min(max(value, low), high) for value in report.values]


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The noisy gain vector of a round, its noise (one number, or one per coordinate), and what came from a client."""

    report: Floats
    noise_scale: float | Floats
    mask: Mask


def scales_of(reporting: Reporting, clients: Mapping[str, int | None]) -> float | Floats:
    """Return the noise of a round in which every client reports: one number, or one per coordinate.

    A coordinate that belongs to no client has the largest noise of all.
    """
    if reporting.kind == "vector":
        return _averaged([(reporting.exact_size(name), reporting.noise_scale_of(name)) for name in clients])
    if reporting.sizes is None:
        return float(reporting.noise_scale)
    scales = np.full(reporting.actions, float(reporting.noise_scale))
    for name, place in clients.items():
        scales[place] = float(reporting.noise_scale_of(name))
    return scales


def _averaged(parts: list[tuple[Fraction, Fraction]]) -> float:
    """Return the noise √Σ(bη)² / Σb of an average by size, the same bits in whatever order the parts come."""
    if len(set(parts)) == 1:
        return float(parts[0][1]) / math.sqrt(len(parts))
    return math.sqrt(math.fsum(float(size * scale) ** 2 for size, scale in parts)) / float(
        sum(size for size, _ in parts)
    )


def collect(
    reports: Iterable[NoisyReport],
    limits: ClipLimits,
    *,
    number: int,
    stream: Stream,
    clients: Mapping[str, int | None],
) -> Collected:
    """Return the noisy gain vector of a round: vectors are averaged, coordinates put side by side.

    Sums are of exact numbers, so the order in which reports arrive does not change a bit. What is missing counts as
    gain 0 with noise of the server.

    Gain 0 is pessimistic on purpose: who does not report is not chosen for it. The noise keeps the covariance that the
    players assume. Averaging k vectors makes the noise η/√k for the player; privacy still rests on each client's η.
    Vectors of clients of unequal size are averaged by size, so that each person counts the same: the noise η of a
    client falls as its size b grows, and every report brings the same noise bη into the sum.
    """
    terms = limits.reporting
    width = float(terms.grid)
    if terms.kind == "vector" and (vectors := list(reports)):
        return _average(vectors, limits)
    scale = float(terms.noise_scale) if terms.kind == "vector" else scales_of(terms, clients)
    total = [0] * terms.actions
    mask = np.zeros(terms.actions, dtype=np.bool_)
    for report in reports:
        assert report.index is not None
        total[report.index] += limits.clipped(report)[0]
        mask[report.index] = True
    values = np.array([float(each) for each in total]) * width
    if not mask.all():
        fresh = scale * stream.normals(f"missing {number}", terms.actions)
        values = np.where(mask, values, fresh)
    return Collected(report=values, noise_scale=scale, mask=mask)


def _average(reports: list[NoisyReport], limits: ClipLimits) -> Collected:
    terms = limits.reporting
    sizes = [terms.exact_size(report.client_id) for report in reports]
    common = math.lcm(*(size.denominator for size in sizes))
    weights = [int(size * common) for size in sizes]
    total = [0] * terms.actions
    for report, weight in zip(reports, weights, strict=True):
        for place, value in enumerate(limits.clipped(report)):
            total[place] += weight * value
    whole = sum(weights)
    return Collected(
        report=np.array([each / whole for each in total]) * float(terms.grid),
        noise_scale=_averaged(
            [(size, terms.noise_scale_of(report.client_id)) for size, report in zip(sizes, reports, strict=True)]
        ),
        mask=np.ones(terms.actions, dtype=np.bool_),
    )


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
    if not isinstance(values, tuple) or any(type(value) is not int for value in values):
        raise ReportError("values of a report are whole numbers on the grid; what is not finite has no place there")

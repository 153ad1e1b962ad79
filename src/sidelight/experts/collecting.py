"""From the reports of a round to one noisy gain vector, whatever is missing and whatever hostile clients sent.

Sums are of integers, so the order in which reports arrive does not change a bit. A hostile value is clipped to what an
honest one hardly ever exceeds; that bounds what one client can move, and nothing else can.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sidelight.errors import RangeError
from sidelight.experts.leader_change import Floats
from sidelight.experts.player import Mask
from sidelight.experts.report import Report
from sidelight.experts.reporting import Reporting
from sidelight.experts.stream import Stream


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
    """Average vectors, or put coordinates side by side. What is missing counts as gain 0 with noise of the server.

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

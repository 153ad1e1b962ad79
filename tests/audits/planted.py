"""A bug to plant: attacks that do not find it prove nothing."""

from __future__ import annotations

import pytest

from sidelight.mechanisms import rings


def halve_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every weight of a selection of a rank move twice as far as it may."""
    real = rings.gap_score

    def halved(size, target, epsilon, score):
        gap = real(size, target, epsilon, score)
        return rings.Gap(step=gap.step, target=gap.target, slope=(gap.slope[0], 2 * gap.slope[1]))

    monkeypatch.setattr("sidelight.mechanisms.rank_selection.gap_score", halved)

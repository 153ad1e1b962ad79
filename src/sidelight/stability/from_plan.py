"""`[[query]]` kinds that propose, test and release: a stable median and a stable mode."""

from __future__ import annotations

from typing import Any

from sidelight.plan_section import COMMON, Section
from sidelight.stability.median import StableMedian
from sidelight.stability.mode import StableMode


def stable_median(section: Section) -> StableMedian:
    """Read `kind = "stable_median"`."""
    amounts = ("epsilon", "delta", "spread", "test_share", "resolution")
    section.only(*COMMON, "column", *amounts)
    given: dict[str, Any] = {key: section.amount(key) for key in amounts[2:] if key in section}
    price = {key: section.amount(key) for key in amounts[:2]}
    return StableMedian(section.text("column", None), **price, **given)


def stable_mode(section: Section) -> StableMode:
    """Read `kind = "stable_mode"`."""
    section.only(*COMMON, "column", "epsilon", "delta")
    return StableMode(section.text("column", None), epsilon=section.amount("epsilon"), delta=section.amount("delta"))

"""How far off answers are said to be: kinds that say nothing, and bounds of quantiles against the errors made."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

_TESTS = Path(__file__).parent.parent / "tests" / "report"


def kinds() -> Mapping[str, float]:
    """Count the kinds of a plan that say before they run, or in their release, nothing of how far off they are."""
    sys.path.insert(0, str(_TESTS))
    try:
        from every_kind import every_kind
    finally:
        sys.path.remove(str(_TESTS))
    from sidelight.accuracy.expected import expected, with_expected
    from sidelight.cli.plans import read_plan
    from sidelight.group_table import GroupTable
    from sidelight.release import Release

    with tempfile.TemporaryDirectory() as name:
        report = every_kind(Path(name))
        plan = read_plan(Path(name) / "plan.toml")
    blank = []
    for item, planned in zip(report.items, plan.queries, strict=True):
        before = expected(planned.query, planned.prepared, plan.schema, confidence=0.95)
        told = with_expected(item.outcome, planned.query, planned.prepared, plan.schema)
        assert isinstance(told, Release), planned.title
        intervals = isinstance(told.value, GroupTable) and any(
            column.endswith(("low", "noise_sd")) for column in told.value.columns
        )
        if before.basis == "nothing" or not (before.size >= 0) or (told.error is None and not intervals):
            blank.append(planned.title)
    return {"without": float(len(blank))}

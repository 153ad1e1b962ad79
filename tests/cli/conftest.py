"""Every plan that a test of the command line reads without an error must fit the published schema, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plan_schema_check import problems, schema
from sidelight.cli.plans import plan, sequences


@pytest.fixture(autouse=True)
def _plans_fit_their_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(path: Any, **more: Any) -> Any:
            found = read(path, **more)
            values = plan.read_tables(path)[0].values
            assert not list(problems(dict(values), schema())), values
            return found

        return reading

    monkeypatch.setattr(plan, "read_plan", checked(plan.read_plan))
    for module in ("sidelight.cli.pricing", "sidelight.cli.running"):
        monkeypatch.setattr(f"{module}.read_plan", checked(plan.read_plan))
    monkeypatch.setattr("sidelight.cli.daily.read_daily_plan", checked(sequences.read_daily_plan))

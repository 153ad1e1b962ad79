"""Every plan that a test of the command line reads fits the published schema, and survives being written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plan_schema_check import problems, schema
from sidelight.cli import daily
from sidelight.plans import Section, plan, read_query, write_query


@pytest.fixture(autouse=True)
def _plans_fit_their_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def checked(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(path: Any, **more: Any) -> Any:
            found = read(path, **more)
            whole = plan.read_file(path)
            assert not list(problems(dict(whole.values), schema())), whole.values
            for values in whole.values.get("query", ()):  # written and read again, it is the same section
                own = {
                    key: value for key, value in values.items() if key not in ("from", "within", "cap")
                }  # of the plan
                query = read_query(Section(own, resolver=whole.resolver))
                written = write_query(query, resolver=whole.resolver)
                again = read_query(Section(written, resolver=whole.resolver))
                assert write_query(again, resolver=whole.resolver) == written
            return found

        return reading

    monkeypatch.setattr(plan, "read_plan", checked(plan.read_plan))
    for module in ("sidelight.cli.pricing", "sidelight.cli.running"):
        monkeypatch.setattr(f"{module}.read_plan", checked(plan.read_plan))
    monkeypatch.setattr("sidelight.cli.daily.read_daily_plan", checked(daily.read_daily_plan))

"""`sidelight accuracy` and `sidelight plan --sweep`: the price of an accuracy, and the accuracy of each price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sidelight.accuracy.expected import Expected
from sidelight.accuracy.price import epsilon_for, swept
from sidelight.cli.answers import note
from sidelight.cli.terminal import console, plain, table, tell
from sidelight.errors import RangeError
from sidelight.plans import PlannedQuery, read_plan
from sidelight.readable import as_read, shown_text

_WIDTH = 40


def show_accuracy(path: Path, *, query: int, within: float, confidence: float) -> None:
    """Print the price that one query of a plan needs, and a small chart of the error at others."""
    plan = read_plan(path)
    asked = _chosen(plan.queries, query)
    _check_price(asked)
    needed = epsilon_for(asked.query, asked.schema, within=within, confidence=confidence)
    tell(shown_text(asked.title), style="bold")
    tell(f"{needed}.")
    tell(f"There it is {needed.expected}; {_basis(needed.expected)}.")
    tell("")
    prices = _chart(asked, asked.schema, confidence=confidence, within=within)
    note(
        title=asked.title,
        price=needed.name,
        amount=float(needed.amount),
        expected=needed.expected.to_json(),
        confidence=confidence,
        prices=prices,
    )


def show_sweep(path: Path) -> None:
    """Print the expected error of each query of a plan at an eighth to eight times its price."""
    plan = read_plan(path)
    sweeps = []
    for planned in plan.queries:
        _check_price(planned)
        tell(shown_text(planned.title), style="bold")
        sweeps.append({"title": planned.title, "prices": _chart(planned, planned.schema, confidence=0.95)})
        tell("")
    note(title=plan.title, sweeps=sweeps)


def _check_price(planned: PlannedQuery) -> None:
    if planned.of is not None and planned.of.steps_of_life > 1:
        raise RangeError(
            f'{planned.title!r} has cap = "block", which divides its price among {planned.of.steps_of_life} periods; '
            "ask about one period, and multiply its price"
        )


def _chart(
    planned: PlannedQuery, schema: object, *, confidence: float, within: float | None = None
) -> list[dict[str, Any]]:
    found = swept(planned.query, schema, confidence=confidence)  # type: ignore[arg-type]
    sizes = [each.size for _, _, each in found if math.isfinite(each.size) and each.size > 0]
    name = found[0][0]
    unit = next((each.unit for _, _, each in found if each.unit), "")
    made = table(name, f"error ({confidence})", "", numbers=(name, f"error ({confidence})"))
    for _, amount, each in found:
        mark = "  enough" if within is not None and each.size <= within else ""
        made.add_row(*map(plain, (as_read(amount, digits=6), each.sizes(), _bar(each.size, sizes) + mark)))
    console().print(made)
    tell(f"errors in {unit or 'units of the answer'}, bars on a logarithmic scale; {_basis(found[0][2])}")
    return [{"price": price, "amount": float(amount), "expected": each.to_json()} for price, amount, each in found]


def _bar(size: float, sizes: Sequence[float]) -> str:
    """Draw a size as a bar on a logarithmic scale."""
    if not sizes or not math.isfinite(size) or size <= 0:
        return ""
    low, high = math.log(min(sizes)), math.log(max(sizes))
    share = 1.0 if high == low else (math.log(size) - low) / (high - low)
    return "█" * max(1, round(1 + share * (_WIDTH - 1)))


def _basis(expected: Expected) -> str:
    if expected.basis == "bound":
        return f"a bound, if {expected.condition}"
    return "measured, not proved: your rows may differ" if expected.basis == "measured" else expected.condition


def _chosen(queries: Sequence[PlannedQuery], number: int) -> PlannedQuery:
    if not 1 <= number <= len(queries):
        raise RangeError(f"--query must be from 1 to {len(queries)}, the queries of the plan in order, got {number}")
    return queries[number - 1]

"""Constants of dates in a statement: a date plus or minus an interval is a date."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta
from typing import Any


def shifted_date(node: Any) -> Any:
    """Return DATE '1998-12-01' - INTERVAL '90' DAY as the date that it is; other sums stay as they are."""
    day, interval = node.this.unnest(), node.expression.unnest()
    text = day.this.unnest() if day.key == "cast" and day.to.is_type("date") else None
    if interval.key != "interval" or text is None or text.key != "literal" or interval.args.get("unit") is None:
        return node
    unit, many = str(interval.args["unit"].name).upper().removesuffix("S"), interval.this
    sign = -1 if node.key == "sub" else 1
    try:
        start, count = date.fromisoformat(text.name), sign * int(many.name)
        if unit in ("DAY", "WEEK"):
            found = start + timedelta(days=count * (7 if unit == "WEEK" else 1))
        elif unit in ("MONTH", "QUARTER", "YEAR"):
            months = start.year * 12 + start.month - 1 + count * {"MONTH": 1, "QUARTER": 3, "YEAR": 12}[unit]
            year, month = divmod(months, 12)
            found = date(year, month + 1, min(start.day, monthrange(year, month + 1)[1]))
        else:
            return node
    except (ValueError, OverflowError):
        return node
    shifted = day.copy()
    shifted.this.unnest().set("this", found.isoformat())
    return shifted

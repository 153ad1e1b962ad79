"""Forecast the error of a statistic by group without a theorem: run it on rows generated from the schema.

No row of the source is read, and nothing is charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from sidelight.group_table import ALL, GroupTable
from sidelight.noise import Source
from sidelight.predictions import is_prior
from sidelight.records import Category, Date, Number, PersonId, Schema, Table
from sidelight.release.statement_table import statement_table
from sidelight.session.query import Prepared
from sidelight.table_texts import INTERVAL, leading_statistic
from sidelight.testing import SeededEntropy

#: Rows that are generated where a query does not say how many there are.
USUAL_ROWS = 10_000
MOST_ROWS = 100_000
_LABELS = 10
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def forecast(
    query: Any, prepared: Prepared, schema: Schema, *, confidence: float = 0.95, rows: int = USUAL_ROWS
) -> tuple[dict[str, float], int, str] | None:
    """Return the approximate error of each number, the number of generated rows, and the unit; None if not known.

    The larger of those on rows about the middle of declared bounds, and with nine in ten of them at the lower one.
    Numbers of one table have units of their own, so each has its error, by the name that the table gives it.

    Args:
        query: The query, whose predicted values are used if it has them.
        prepared: The same, fitted to the schema.
        schema: The public declarations, which rows are made from.
        confidence: With which probability the error is not larger.
        rows: How many rows are generated.
    """
    columns = generated(schema, rows, query)
    halves: dict[str, float] = {}
    try:
        for shape in (columns, *_at_the_bound(prepared, schema, columns)):
            table = Table(as_cells(shape, schema), schema=schema)
            with Source(SeededEntropy("forecast")) as source:
                answer = prepared.run(table, source)
            for name, half in _half_widths(getattr(answer, "value", None), prepared.request).items():
                halves[name] = max(half, halves.get(name, 0.0))
    except Exception:  # a forecast is not worth an error, whatever it fails by: no private row is near
        return None
    if not halves:
        return None
    stated = float(getattr(query, "confidence", None) or 0.95)
    if confidence != stated:  # intervals are about those of a normal law
        normal = NormalDist()
        stretch = normal.inv_cdf((1 + confidence) / 2) / normal.inv_cdf((1 + stated) / 2)
        halves = {name: stretch * half for name, half in halves.items()}
    words = (
        "sd of the values" if _scale_unknown(query, schema) else "",
        "for each group" if _has_groups(answer) else "",
    )
    return halves, rows, " ".join(filter(None, words))


def generated(schema: Schema, rows: int, query: Any = None) -> dict[str, Any]:
    """Return made-up columns of a schema: numbers about the middle of their bounds, labels alike often."""
    columns: dict[str, Any] = {}
    for place, column in enumerate(schema.columns):
        spread = _spread_out(rows, place)
        if isinstance(column, Number):
            columns[column.name] = _numbers(column, spread, getattr(query, "prediction", None))
        elif isinstance(column, PersonId):
            columns[column.name] = np.arange(rows) // column.max_rows
        else:
            labels = column.labels if isinstance(column, Category) else [f"label {n}" for n in range(_LABELS)]
            columns[column.name] = [labels[at] for at in (spread * len(labels)).astype(np.int64).tolist()]
    return columns


def related(columns: dict[str, Any], schema: Schema, rows: int) -> dict[str, Any]:
    """Return made-up columns that depend on each other, with few frequent values: the opposite of `generated` ones.

    Seven rows in ten have the same rank in all bounded numbers and labels; ranks are cubed, towards the first values.
    """
    shared, chosen = _spread_out(rows, 0), _spread_out(rows, len(schema.columns) + 1) < 0.7
    found = dict(columns)
    for place, column in enumerate(schema.columns):
        ranks = np.where(chosen, shared, _spread_out(rows, place)) ** 3
        if isinstance(column, Category):
            found[column.name] = [column.labels[at] for at in (ranks * len(column.labels)).astype(np.int64).tolist()]
        elif isinstance(column, Number) and column.lower is not None and column.upper is not None:
            found[column.name] = float(column.lower) + ranks * float(column.upper - column.lower)
    return found


def _at_the_bound(prepared: Any, schema: Schema, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the columns with nine in ten of each measured number at its lower bound, if there is one with bounds.

    Many columns are mostly zeros, and spreads are then measured worse. Numbers that choose rows or groups stay.
    """
    from sidelight.summaries.measurement import Measurement

    parts = getattr(prepared, "parts", (prepared,))
    plans = [plan for part in parts for plan in (getattr(part, "plan", None), *getattr(part, "plans", ()))]
    measured: set[str] = set()
    chosen: set[str] = set()
    for plan in plans:
        if isinstance(plan, Measurement):
            measured = measured.union([plan.of] if isinstance(plan.of, str) else plan.of.columns)
            choices = [plan.groups.where, *(getattr(axis, "expression", None) for axis in plan.groups.axes)]
            chosen = chosen.union(*(each.columns for each in choices if each is not None))
    numbers = [each for each in schema.columns if isinstance(each, Number) and each.name in measured - chosen]
    bounds = [(each.name, each.lower) for each in numbers if None not in (each.lower, each.upper)]
    if bounds:
        yield columns | {
            name: np.where(np.arange(len(columns[name])) % 10 == 0, columns[name], float(lower or 0))
            for name, lower in bounds
        }


def as_cells(columns: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Return columns of numbers as a source holds them: those of a `Date` as dates."""
    calendars = {each.name: each.calendar for each in schema.columns if isinstance(each, Date)}
    return {name: calendars[name].datetimes(cells) if name in calendars else cells for name, cells in columns.items()}


def _spread_out(rows: int, place: int) -> Any:
    """Return numbers that fill 0..1 evenly, in another order for each column: no random draws."""
    return np.mod((np.arange(rows) + 0.5) * math.sqrt(_PRIMES[place % len(_PRIMES)]), 1.0)


def _numbers(column: Number, spread: Any, prediction: Any) -> Any:
    from scipy.special import ndtri

    drawn = ndtri(np.clip(spread, 1e-9, 1 - 1e-9))
    if column.lower is not None and column.upper is not None:
        lower, upper = float(column.lower), float(column.upper)
        return np.clip((lower + upper) / 2 + (upper - lower) / 6 * drawn, lower, upper)
    if is_prior(prediction):
        from sidelight.summaries.clip_subject import middle_and_spread

        middle, spread = middle_and_spread(prediction)
        drawn = middle + spread * drawn
    if column.lower is not None:
        return float(column.lower) + np.abs(drawn)
    return drawn if column.upper is None else float(column.upper) - np.abs(drawn)


def _scale_unknown(query: Any, schema: Schema) -> bool:
    name = getattr(query, "column", None)
    column = {each.name: each for each in schema.columns}.get(name) if isinstance(name, str) else None
    bounded = not isinstance(column, Number) or (column.lower is not None and column.upper is not None)
    return not bounded and not is_prior(getattr(query, "prediction", None))


def _has_groups(answer: Any) -> bool:
    value = getattr(answer, "value", None)
    return isinstance(value, GroupTable) and bool(value.keys_of_groups)


def _half_widths(value: Any, request: Mapping[str, Any]) -> dict[str, float]:
    """Return how far the middle group's number is from its interval's farther end, for each with one; not of totals."""
    if not isinstance(value, GroupTable):
        return {}
    if "shown" in request:  # every group of what the statement shows; dates stay numbers of days
        cut = ("having", "distinct", "limit", "offset")
        whole = {key: each for key, each in request["shown"].items() if key not in cut}
        value = statement_table(value, {"shown": whole}) or value
    groups = [place for place, group in enumerate(value.groups) if ALL not in group] or list(range(value.rows))
    asked = {name for name, *_ in (*request.get("numbers", ()), *request.get("shown", {}).get("columns", ()))}
    pairs = {name: tuple(f"{name}_{word}" for word in INTERVAL) for name in value.columns}
    if "low" in value.columns and not asked:  # of the leading number: the count of a mean is not what was asked for
        pairs = {leading_statistic(value): INTERVAL}
    found: dict[str, float] = {}
    for name, ends in pairs.items():
        if all(end in value.columns and end not in asked for end in ends):  # AS may name a number x_low
            low, high = (np.asarray(value[end], np.float64)[groups] for end in ends)
            shown = np.asarray(value[name], np.float64)[groups]  # at a limit the interval lies to one side of it
            reach = np.maximum(high - shown, shown - low)
            reach = reach[np.isfinite(reach)]
            found |= {name: float(np.quantile(reach, 0.5, method="lower"))} if len(reach) else {}
    return found

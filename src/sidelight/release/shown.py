"""What a person sees of a released value: its entries with names, a small chart for notebooks, and a plot."""

from __future__ import annotations

import datetime
import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.group_table import EXACT, GroupTable
from sidelight.records.dates import Calendar, date_text
from sidelight.registry import import_with_extras

#: The columns of a table by group that lie where the numbers of the column lie, and the kinds whose `low` and `high`
#: are the ends of a mean: in other tables they are those of a count, a sum or a spread.
_MEANS = ("mean", "summary")
_DATED = re.compile(r"(mean|q[0-9.]+)(_(plain|low|high|predicted))?")
#: Columns that belong to a statistic: its interval, its prediction, and how it was made.
INTERVAL, PREDICTED = ("low", "high"), "predicted"
_BESIDE = (PREDICTED, "plain", "unbiased", "noisy_count", "noise_sd", "supported", "pooled", "known", EXACT)


def entries_of(value: Any, labels: Sequence[str]) -> Sequence[tuple[str, Any]]:
    """Return the numbers of a released value with their names, or the value as a whole."""
    if isinstance(value, Mapping) and "quantiles" in value:
        value = value["quantiles"]
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(labels) == len(value):
        return list(zip(labels, value.tolist(), strict=True))
    if isinstance(value, Mapping) and isinstance(value.get("summary"), str):
        return [("value", value["summary"])]
    if isinstance(value, Mapping) and "points" in value:  # the path of a descent, and its coordinates
        value = {name: part for name, part in value.items() if name not in ("points", "map", "centre", "noise")}
    if isinstance(value, Mapping) and {"cells", "cell_of", "kappa"} <= value.keys():  # an additive model: long arrays
        return [("curves", f"of {len(value['cells'])} columns, in {sum(value['cells'])} cells")]
    return [("value", value)]


def bars(entries: Sequence[tuple[str, Any]]) -> str:
    """Return a small chart of numbers with names, in the colours of its page; empty where none would help."""
    numbers = [entry for _, entry in entries if isinstance(entry, int | float) and math.isfinite(entry)]
    if not 2 <= len(entries) == len(numbers) <= 60:
        return ""
    low, high = min(0, *numbers), max(0, *numbers)
    scale = 300 / ((high - low) or 1)
    drawn = "".join(
        f"<rect x='{(min(0, number) - low) * scale:.1f}' y='{12 * row}' width='{abs(number) * scale:.1f}' height='10'>"
        f"<title>{html.escape(f'{label}: {number_text(number)}')}</title></rect>"
        for row, ((label, _), number) in enumerate(zip(entries, numbers, strict=True))
    )
    size = f"viewBox='0 0 300 {12 * len(numbers)}' width='300' height='{12 * len(numbers)}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size} fill='currentColor' opacity='0.6'>{drawn}</svg>"


def html_text(
    value: Any, shown: Any, labels: Sequence[str], *, brand: Sequence[str], heading: str, said: Sequence[str]
) -> str:
    """Return a released value (`shown`: with its dates) as HTML for a notebook, with what is said of its error."""
    branded = "".join(f"<p><strong>{html.escape(line)}</strong></p>" for line in brand)
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in said)
    if isinstance(value, GroupTable):
        same = (shown.groups, shown.columns) == (value.groups, value.columns)  # but for dates, which have no bars
        chart = bars(drawn_entries(value if same else shown, labels))
        return f"{branded}<p>{html.escape(heading)}</p>{shown._repr_html_()}{chart}{lines}"
    entries = entries_of(shown, labels)
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(label)}</th><td>{html.escape(number_text(entry))}</td></tr>"
        for label, entry in entries
    )
    return f"{branded}<table><caption>{html.escape(heading)}</caption>{rows}</table>{bars(entries)}{lines}"


def records_text(details: Mapping[str, Any] | None) -> str | None:
    """Return about how many records a release counted on its way, with its interval at 95 % unless that is narrow.

    >>> records_text({"count": "340", "count_deviation": "141.4"}), records_text({"count": "98765"}), records_text({})
    ('340 (40 to 640)', '98,800', None)
    """
    said = details or {}
    count, deviation = float(said.get("count", 0)), float(said.get("count_deviation", 0))
    if count <= 0:
        return None
    about = f"{float(f'{count:.3g}'):,.0f}"
    # Laplace noise is within log(20)/√2 = 2.12 of its deviations at 95 %, Gaussian noise within 1.96; both are whole
    reach = math.ceil(2.12 * deviation)
    return f"{about} ({max(count - reach, 0):,.0f} to {count + reach:,.0f})" if reach > count / 20 else about


def as_read(value: Any, *, digits: int = 10) -> str:
    """Write a number with thousands separators and without noise in the last digits.

    >>> as_read(1234567.0), as_read(0.30000000000000004), as_read(2.5e-9), as_read(True)
    ('1,234,567', '0.3', '2.5e-09', 'True')
    """
    if isinstance(value, datetime.date):
        return date_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if not math.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - (math.floor(math.log10(abs(value))) if value else 0))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def at_most(value: float, *, digits: int = 3) -> str:
    """Write a bound, rounded up: what is said must hold.

    >>> at_most(239.41), at_most(0.10012), at_most(0), at_most(14900.5)
    ('240', '0.101', '0', '15,000')
    """
    if value <= 0 or not math.isfinite(value):
        return as_read(value)
    step = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    return as_read(math.ceil(value / step - 1e-9) * step, digits=digits)


def number_text(entry: Any) -> str:
    """Return a number or a date as people read it."""
    if isinstance(entry, datetime.date):
        return date_text(entry)
    return f"{entry:.10g}" if isinstance(entry, float) else str(entry)


def dated(value: Any, dates: Any, *, kind: str) -> Any:
    """Return a released value, or a part of it, with dates in place of numbers that count from a start.

    Args:
        value: The value.
        dates: What the query says of its dates: their start and unit; None where the column has none.
        kind: The kind of the query.
    """
    if not isinstance(dates, Mapping):
        return value
    if "columns" in dates:  # of a statement, each number by its name
        return _columns_dated(value, dates["columns"])
    calendar = Calendar.since(dates["start"], dates["unit"], where="a release")
    if isinstance(value, GroupTable):
        ends = INTERVAL if kind in _MEANS else ()
        columns = {
            name: calendar.datetimes(value[name]) if name in ends or _DATED.fullmatch(name) else value[name]
            for name in value.columns
        }
        return GroupTable(keys=value.keys_of_groups, groups=value.groups, columns=columns, notes=value.notes)
    if isinstance(value, Mapping):
        return {key: dated(each, dates, kind=kind) if key == "quantiles" else each for key, each in value.items()}
    if kind not in ("quantiles", "counted_quantiles", "stable_median") or not np.all(np.isreal(value)):
        return value
    found = calendar.datetimes(value)
    return found if isinstance(value, np.ndarray) else found.item()


def lies_on_the_calendar(column: str) -> bool:
    """Return whether a column of a table about dates holds dates, as means and quantiles do, and no counts or spreads.

    >>> lies_on_the_calendar("mean"), lies_on_the_calendar("q50"), lies_on_the_calendar("sd")
    (True, True, False)
    """
    return _DATED.fullmatch(column) is not None


def _columns_dated(value: Any, dates: Mapping[str, Any]) -> Any:
    if not isinstance(value, GroupTable):
        return value
    columns = {name: value[name] for name in value.columns}
    for name, counted in dates.items():
        calendar = Calendar.since(counted["start"], counted["unit"], where="a release")
        ends = [each for each in (name, *(f"{name}_{end}" for end in INTERVAL)) if each in columns]
        columns |= {each: calendar.datetimes(columns[each]) for each in ends}
    return GroupTable(keys=value.keys_of_groups, groups=value.groups, columns=columns, notes=value.notes)


def statistics_of(table: GroupTable) -> list[str]:
    """Return the columns of a table that were asked for, and are not an interval, a twin or a noise of another."""
    words = (*INTERVAL, *_BESIDE)
    beside = {*words, *(f"{each}_{word}" for each in table.columns for word in words)}
    return [name for name in table.columns if name not in beside]


def leading_statistic(table: GroupTable) -> str:
    """Return the statistic that is drawn, and that `low` and `high` belong to.

    It is the first that is no rank; of a summary, which begins with the count, the mean; "" where no number is shown.
    """
    found = statistics_of(table) or list(table.columns)
    if {"mean", "q50"} <= set(found):
        return "mean"
    return next((name for name in found if name != "rank"), found[0] if found else "")


def beside(table: GroupTable, name: str, word: str) -> Sequence[Any] | None:
    """Return a column that belongs to a statistic: `mean_low`, or `low` for the leading one of the table."""
    for column in (f"{name}_{word}", *([word] if name == leading_statistic(table) else [])):
        if column in table.columns:
            found: Sequence[Any] = table[column].tolist()
            return found
    return None


def plot(value: Any, labels: Sequence[str], *, title: str, unit: str, axes: Any) -> Any:
    """Draw the numbers of a released value with matplotlib, and return the axes.

    Args:
        value: The released value, with dates where it has them.
        labels: The names of its entries.
        title: What stands above.
        unit: What stands below: how far off the numbers can be.
        axes: Where to draw; None makes a new figure.
    """
    named = drawn_entries(value, labels)
    if not named:
        raise RangeError("a plot needs numbers with names, and this release has none; its parts are in release.value")
    if axes is None:
        axes = import_with_extras("matplotlib.pyplot").subplots(layout="constrained")[1]
    places, entries = np.arange(len(named)), [entry for _, entry in named]
    if isinstance(entries[0], datetime.date):  # a bar from the year 1970 would say nothing
        axes.plot(entries, places, "o")
        for place, ends in enumerate(_ends(value)):
            axes.plot(ends, [place, place], "-", color="gray", zorder=0)
    else:
        off = np.array([(entry - low, high - entry) for entry, (low, high) in zip(entries, _ends(value), strict=False)])
        error = np.nan_to_num(np.maximum(off.T, 0.0)) if off.size else None
        axes.barh(places, entries, xerr=error, alpha=0.7, error_kw={"capsize": 3})
    axes.set_yticks(places, [name for name, _ in named])
    axes.invert_yaxis()
    axes.set_title(title, wrap=True)
    if unit:
        axes.set_xlabel(unit, wrap=True)
    return axes


def drawn_entries(value: Any, labels: Sequence[str]) -> list[tuple[str, Any]]:
    """Return numbers or dates with names, of a table of groups its leading statistic; [] where one has no place."""
    found: Sequence[tuple[str, Any]]
    if isinstance(value, GroupTable):
        name = leading_statistic(value)
        found = (
            []
            if not name
            else [
                (", ".join(group) or name, each) for group, each in zip(value.groups, value[name].tolist(), strict=True)
            ]
        )
    else:
        found = entries_of(value, labels)
    return list(found) if all(_has_place(entry) for _, entry in found) else []


def _ends(value: Any) -> list[tuple[Any, Any]]:
    """Return from where to where each entry may lie, where a table of groups says it."""
    if not isinstance(value, GroupTable):
        return []
    name = leading_statistic(value)
    low, high = (beside(value, name, word) for word in INTERVAL)
    return [] if low is None or high is None else list(zip(low, high, strict=True))


def _has_place(entry: Any) -> bool:
    return isinstance(entry, datetime.date) or (
        isinstance(entry, int | float) and not isinstance(entry, bool) and math.isfinite(entry)
    )

"""What a person sees of a released value: its entries with names, a small chart for notebooks, and a plot."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sidelight.errors import RangeError
from sidelight.group_table import GroupTable
from sidelight.readable import at_most, number_text, shown_html, shown_text
from sidelight.records.dates import Calendar
from sidelight.registry import import_with_extras
from sidelight.release.values import TailBound
from sidelight.table_texts import INTERVAL, beside, leading_statistic

#: The columns of a table by group that lie where the numbers of the column lie, and the kinds whose `low` and `high`
#: are the ends of a mean: in other tables they are those of a count, a sum or a spread.
_MEANS = ("mean", "summary")
_DATED = re.compile(r"(mean|q[0-9.]+)(_(plain|low|high|predicted))?")
#: What stands beside each of several means, on the calendar as they are; their ends are found by themselves.
_BESIDE = ("_plain", "_predicted")


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
        f"<title>{shown_html(f'{label}: {number_text(number)}')}</title></rect>"
        for row, ((label, _), number) in enumerate(zip(entries, numbers, strict=True))
    )
    size = f"viewBox='0 0 300 {12 * len(numbers)}' width='300' height='{12 * len(numbers)}'"
    return f"<svg xmlns='http://www.w3.org/2000/svg' role='img' {size} fill='currentColor' opacity='0.6'>{drawn}</svg>"


def html_text(
    value: Any, shown: Any, labels: Sequence[str], *, brand: Sequence[str], heading: str, said: Sequence[str]
) -> str:
    """Return a released value (`shown`: with its dates) as HTML for a notebook, with what is said of its error."""
    branded = "".join(f"<p><strong>{shown_html(line)}</strong></p>" for line in brand)
    lines = "".join(f"<p>{shown_html(line)}</p>" for line in said)
    if isinstance(value, GroupTable):
        same = (shown.groups, shown.columns) == (value.groups, value.columns)  # but for dates, which have no bars
        chart = bars(drawn_entries(value if same else shown, labels))
        return f"{branded}<p>{shown_html(heading)}</p>{shown._repr_html_()}{chart}{lines}"
    entries = entries_of(shown, labels)
    rows = "".join(
        f"<tr><th scope='row' dir='auto'>{shown_html(label)}</th>"
        f"<td>{shown_html(number_text(entry), lines=True)}</td></tr>"
        for label, entry in entries
    )
    return f"{branded}<table><caption>{shown_html(heading)}</caption>{rows}</table>{bars(entries)}{lines}"


def entry_text(label: str, entry: Any) -> str:
    """Write an entry with its name; arrays and models have several lines."""
    return f"{shown_text(label)}: {shown_text(number_text(entry), lines=not isinstance(entry, str))}"


def how_far_off(error: TailBound, details: Mapping[str, Any] | None) -> list[str]:
    """Return what is said of the error of a release: the likely one first, where there is one."""
    said = [f"{error.basis}: off by {off_by(error, details)}, if {error.assumption}"]
    if (likely := error.likely) is None:
        return said
    return [f"likely error at 95 %, measured and not proved: {off_by(likely, details)}, if {likely.assumption}", *said]


def off_by(error: TailBound, details: Mapping[str, Any] | None) -> str:
    """Return the largest error at 95 % with its unit; of ranks, of about how many records."""
    about = records_text(details) if error.unit == "ranks" else None
    of = "" if about is None else f" of about {about}"
    return f"{at_most(float(np.max(error.at(0.95))))} {error.unit}{of}"


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


def dated(value: Any, dates: Any, *, kind: str) -> Any:
    """Return a released value, or a part of it, with dates in place of numbers that count from a start.

    Args:
        value: The value.
        dates: What the query says of its dates: their start and unit; None where the column has none.
        kind: The kind of the query.
    """
    if not isinstance(dates, Mapping):
        return value
    if "columns" in dates:  # of a statement each number by its name, of several means each by its column
        of_means = {f"mean_{name}{end}": each for name, each in dates["columns"].items() for end in ("", *_BESIDE)}
        return _columns_dated(value, of_means if kind == "mean" else dates["columns"])
    calendar = Calendar.since(dates["start"], dates["unit"], where="a release")
    if isinstance(value, GroupTable):
        ends = INTERVAL if kind in _MEANS else ()
        columns = {
            name: calendar.datetimes(value[name]) if name in ends or _DATED.fullmatch(name) else value[name]
            for name in value.columns
        }
        return value.changed(columns=columns)
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
    return value.changed(columns=columns)


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
    axes.set_yticks(places, [shown_text(name) for name, _ in named])
    axes.invert_yaxis()
    axes.set_title(shown_text(title), wrap=True)
    if unit:
        axes.set_xlabel(shown_text(unit), wrap=True)
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

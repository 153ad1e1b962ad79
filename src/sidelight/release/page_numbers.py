"""The numbers of a release as a page draws and saves them: the texts that `str` prints, and all of them as CSV."""

from __future__ import annotations

from typing import Any

from sidelight.group_table import GroupTable
from sidelight.readable import number_text, shown_text
from sidelight.release.outcomes import Outcome, Release
from sidelight.release.shown import entries_of
from sidelight.table_texts import column_texts, csv_line, workings_of

#: Lines that are drawn; the CSV has all.
MOST_DRAWN = 2000


def page_numbers(outcome: Outcome) -> dict[str, Any]:
    """Return the shown numbers of an outcome as JSON; no lines where it has no list of numbers.

    Returns:
        `titles` and `lines`, the texts of the head and of the first lines without the columns that say how a number
        was made; `keys`, how many of the first columns are labels; `more`, how many lines are left out; and `csv`, all
        lines and columns, with dates as in ISO 8601.

    >>> import sidelight as sl
    >>> found = page_numbers(sl.Quantiles([0.5], epsilon=10**4, granularity=1).release([30, 40, 50] * 100))
    >>> found["lines"], found["csv"]
    ([['50 %', '40']], '"","value"\\n"50 %",40.0\\n')
    """
    value = outcome.shown if isinstance(outcome, Release) else None
    if isinstance(value, GroupTable):
        hidden = workings_of(value)
        titles = [name for name in value if name not in hidden]
        keys = len(value.keys_of_groups)
        named = zip(value.columns, column_texts(value, MOST_DRAWN), strict=True)
        texts = [texts for name, texts in named if name not in hidden]
        labels = value.groups[:MOST_DRAWN]
        lines = [[*map(shown_text, group), *(each[place] for each in texts)] for place, group in enumerate(labels)]
        rows, csv = value.rows, "".join(value.csv_lines())
    else:
        titles, keys = ["", "value"], 1
        entries = entries_of(value, outcome.labels) if isinstance(outcome, Release) else []
        if not all(hasattr(entry, "isoformat") or isinstance(entry, int | float) for _, entry in entries):
            entries = []
        rows = len(entries)
        lines = [[shown_text(label), number_text(entry)] for label, entry in entries[:MOST_DRAWN]]
        csv = "".join(map(csv_line, [titles, *entries])) if entries else ""
    return {
        "titles": [shown_text(title.replace("_", " ")) for title in titles],
        "keys": keys,
        "lines": lines,
        "more": max(0, rows - MOST_DRAWN),
        "csv": csv,
    }

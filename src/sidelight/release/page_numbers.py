"""The numbers of a release as a page draws and saves them: the texts that `str` prints, and all of them as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sidelight.group_table import GroupTable
from sidelight.readable import number_text, shown_text
from sidelight.release.outcomes import Outcome, Release
from sidelight.release.shown import entries_of
from sidelight.table_texts import column_texts, csv_line, workings_of

#: Lines that are drawn; the CSV has all.
MOST_DRAWN = 2000


def page_numbers(outcome: Outcome, *, most_bytes: int) -> dict[str, Any]:
    """Return the shown numbers of an outcome as JSON; no lines where it has no list of numbers.

    Args:
        outcome: The outcome.
        most_bytes: The largest size of the texts as JSON. A statement may write a long label in every line, so that
            its numbers take far more than the release: texts are counted as they are made, and no further ones are.

    Returns:
        `titles` and `lines`, the texts of the head and of the first lines without the columns that say how a number
        was made; `keys`, how many of the first columns are labels; `more`, how many lines are left out; and `csv`, all
        lines and columns, with dates as in ISO 8601, or "" where there is no room for all of them.

    >>> import sidelight as sl
    >>> found = page_numbers(
    ...     sl.Quantiles([0.5], epsilon=10**4, granularity=1).release([30, 40, 50] * 100), most_bytes=10_000
    ... )
    >>> found["lines"], found["csv"]
    ([['50 %', '40']], '"","value"\\n"50 %",40.0\\n')
    """
    value = outcome.shown if isinstance(outcome, Release) else None
    made: Iterator[list[str]]
    if isinstance(value, GroupTable):
        hidden = workings_of(value)
        titles = [name for name in value if name not in hidden]
        keys, rows = len(value.keys_of_groups), value.rows
        named = zip(value.columns, column_texts(value, MOST_DRAWN), strict=True)
        texts = [texts for name, texts in named if name not in hidden]
        labels = value.groups[:MOST_DRAWN]
        made = ([*map(shown_text, group), *(each[place] for each in texts)] for place, group in enumerate(labels))
        written = value.csv_lines()
    else:
        titles, keys = ["", "value"], 1
        entries = entries_of(value, outcome.labels) if isinstance(outcome, Release) else []
        if not all(hasattr(entry, "isoformat") or isinstance(entry, int | float) for _, entry in entries):
            entries = []
        rows = len(entries)
        made = ([shown_text(label), number_text(entry)] for label, entry in entries[:MOST_DRAWN])
        written = map(csv_line, [titles, *entries] if entries else [])
    titles = [shown_text(title.replace("_", " ")) for title in titles]
    lines, left = _first(made, most_bytes - _size(titles))
    csv, left = _first(written, left)
    return {
        "titles": titles,
        "keys": keys,
        "lines": lines,
        "more": rows - len(lines),
        "csv": "" if left < 0 else "".join(csv),
    }


def _first(made: Iterable[Any], room: int) -> tuple[list[Any], int]:
    """Return the parts for which there is room, and what is left of it; less than nothing if one had no room."""
    kept = []
    for each in made:
        room -= _size(each)
        if room < 0:
            break
        kept.append(each)
    return kept, room


def _size(part: Any) -> int:
    return len(json.dumps(part)) + 2  # and what separates it from the next

"""`sidelight init --look`: what the rows look like, for the owner of the data. Nothing found here is public."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sidelight.cli.first_plan import Declared
from sidelight.records import Category, Date, Label, Number, PersonId, Table
from sidelight.records.cells import number_of
from sidelight.records.dates import minutes_of_text
from sidelight.records.engines import open_rows
from sidelight.records.nonprivate_check import counted_texts
from sidelight.records.rows import Wanted

#: More different labels than this are no list that anybody would write.
_MOST_LABELS = 20
#: A column is what so many of its cells are.
_MOST_CELLS = 0.9
_ID_NAMES = ("id", "person", "patient", "customer", "client", "user", "member")


def looked_at(data: Path, names: Sequence[str], *, person: bool) -> Mapping[str, Declared]:
    """Propose a declaration for each column from all its cells; every number in it comes from private rows."""
    types = open_rows(str(data), ()).types
    texts = [name for name in names if types[name].kind in ("any", "text", "integer", "boolean")]
    cells: dict[str, Counter[str | None]] = {name: Counter() for name in texts}
    if texts:
        table = Table(data, schema=[Label(name) for name in texts])
        table.check_records()
        for batch in table.rows.batches(Wanted(texts=tuple(texts))):
            for name in texts:
                cells[name].update(counted_texts(batch.texts[name]))
    found: dict[str, Declared] = {}
    for name in texts:
        cells[name].pop(None, None)
        declared = _proposed(name, cells[name], person=person)
        if declared is not None:
            found[name] = declared
            person = person and not isinstance(declared.column, PersonId)
    for name in names:
        if types[name].kind == "float":
            found[name] = Declared(Number(name), looked="nothing: bounds are not needed, and were not looked for")
    return found


def _proposed(name: str, cells: Counter[str | None], *, person: bool) -> Declared | None:
    total = sum(cells.values())
    if not total:
        return None
    texts = {text: count for text, count in cells.items() if text is not None}
    if person and any(word in name.lower() for word in _ID_NAMES) and len(texts) > _MOST_LABELS:
        counts = sorted(texts.values())
        most = counts[math.ceil(0.95 * len(counts)) - 1]
        return Declared(PersonId(name, max_rows=most), looked="max_rows, which holds for 95 % of the persons")
    dates = {text: minutes for text in texts if (minutes := minutes_of_text(text)) is not None}
    if sum(texts[text] for text in dates) >= _MOST_CELLS * total:
        years = [datetime.fromtimestamp(0, UTC).year + minutes / (1440 * 365.2425) for minutes in dates.values()]
        first, last = math.floor(min(years)), math.floor(max(years))
        ends = {"start": f"{first:04d}-01-01", "end": f"{last:04d}-12-31"}
        return Declared(Date(name, start=ends["start"], end=ends["end"]), looked="start and end")
    labels = sorted(texts)
    if len(labels) <= _MOST_LABELS and (len(labels) <= 2 or not _all_numbers(labels)):
        return Declared(Category(name, labels), looked="the list of labels")
    numbers = {text: value for text in texts if math.isfinite(value := number_of(text))}
    if sum(texts[text] for text in numbers) >= _MOST_CELLS * total:
        low, high = _round(min(numbers.values()), up=False), _round(max(numbers.values()), up=True)
        step = 1 if all(value.is_integer() for value in numbers.values()) else None
        return Declared(
            Number(name, lower=low, upper=max(high, low + 1), granularity=step), looked="lower, upper and step"
        )
    return Declared(Label(name), looked="that there are too many labels for a list")


def _all_numbers(labels: Sequence[str]) -> bool:
    return all(math.isfinite(number_of(label)) for label in labels)


def _round(value: float, *, up: bool) -> int:
    """Round outward to one digit: the exact least and largest value would each be a record's."""
    if value == 0:
        return 0
    size = 10 ** math.floor(math.log10(abs(value)))
    return int((math.ceil(value / size) if up else math.floor(value / size)) * size)

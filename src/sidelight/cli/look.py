"""`sidelight init --look`: declarations proposed from rows, for the owner of the data. They are not public.

Also `sidelight init --metadata` and `--write-metadata`: declarations from and for other tools.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sidelight.cli.terminal import tell
from sidelight.errors import PlanError, SchemaError
from sidelight.grid import CODE_LIMIT
from sidelight.metadata import MetadataColumn, read_metadata, write_metadata
from sidelight.plans import Plan
from sidelight.plans.toml_text import toml_value
from sidelight.records import Category, Column, Date, Label, Number, PersonId, Table
from sidelight.records.cells import number_of
from sidelight.records.engines import open_rows
from sidelight.records.nonprivate_check import counted_texts
from sidelight.records.reading_proposals import NOTHING, propose_reading
from sidelight.records.readings import TextReading
from sidelight.records.rows import Wanted
from sidelight.report import check_writable

#: The most labels of a list, and the most characters of a label.
_MOST_LABELS, _MOST_CHARACTERS = 20, 30
#: The least people (rows, without an id column) and the least share of cells of a label.
_LEAST_PEOPLE, _LEAST_SHARE = 10, 0.01
#: The least share of cells that determines the kind of a column.
_MOST_CELLS = 0.9
#: The range of possible dates; two-digit years are not later than this year.
_ANY_DAY: dict[str, Any] = {"start": "0001-01-01", "end": f"{datetime.now(UTC).year}-12-31"}
_ID_NAMES = ("id", "person", "patient", "customer", "client", "user", "member")


@dataclass(frozen=True)
class Declared:
    """A column, and the declarations that were read from private rows (empty: none)."""

    column: Column
    looked: str = ""


def looked_at(data: Path, names: Sequence[str], *, person: PersonId | None) -> Mapping[str, Declared]:
    """Propose a declaration for each column from all its cells; columns of free text get none.

    Args:
        data: The file.
        names: The columns that are not declared yet.
        person: The column of person ids, if it is declared; otherwise one is searched for.
    """
    types = open_rows(str(data), ()).types
    texts = [name for name in names if types[name].kind in ("any", "text", "integer", "boolean")]
    cells = {name: Counter[str]() for name in texts}
    if texts:
        table = Table(data, schema=[Label(name) for name in texts])
        table.check_records()
        for batch in table.rows.batches(Wanted(texts=tuple(texts))):
            for name in texts:
                found = counted_texts(batch.texts[name]).items()
                cells[name].update({text: count for text, count in found if text is not None})
    proposed: dict[str, Declared] = {}
    for name in texts:
        if person is None and any(word in name.lower() for word in _ID_NAMES) and len(cells[name]) > _MOST_LABELS:
            keys, written = _reading(PersonId(name, max_rows=1), cells[name])
            person = PersonId(name, max_rows=_most_rows(cells[name]), **keys)
            proposed[name] = Declared(person, looked=f"max_rows, which holds for 95 % of the persons{written}")
    rest = [name for name in texts if name not in proposed]
    labels = {name: _possible_labels(cells[name]) for name in rest}
    if person is not None:  # ten rows of one person do not make a label frequent
        people = _people(data, person.name, labels)
        labels = {name: _possible_labels(people[name]) for name in rest}
    for name in rest:
        declared = _proposed(name, cells[name], labels[name], by_person=person is not None)
        if declared is not None:
            proposed[name] = declared
    # Floats have their type in the file; bounds are not proposed.
    return proposed | {name: Declared(Number(name)) for name in names if types[name].kind == "float"}


def _people(data: Path, person: str, labels: Mapping[str, set[str]]) -> Mapping[str, Counter[str]]:
    """Return how many different people have each of these labels."""
    pairs: dict[str, set[tuple[str, str]]] = {name: set() for name in labels}
    table = Table(data, schema=[Label(name) for name in (person, *labels)])
    for batch in table.rows.batches(Wanted(texts=(person, *labels))):
        whose = batch.texts[person].tolist()
        for name, wanted in labels.items():
            both = zip(whose, batch.texts[name].tolist(), strict=True)
            pairs[name].update(each for each in both if each[0] is not None and each[1] in wanted)
    return {name: Counter(text for _, text in found) for name, found in pairs.items()}


def _possible_labels(people: Counter[str]) -> set[str]:
    """Return the texts that may be labels: short, printable, and shared by enough people."""
    return {
        text
        for text, count in people.items()
        if count >= _LEAST_PEOPLE and len(text) <= _MOST_CHARACTERS and text.isprintable()
    }


def _most_rows(cells: Counter[str]) -> int:
    counts = sorted(cells.values())
    return counts[math.ceil(0.95 * len(counts)) - 1]


def _proposed(name: str, cells: Counter[str], labels: set[str], *, by_person: bool) -> Declared | None:
    total = sum(count for text, count in cells.items() if not NOTHING.fullmatch(text)) or cells.total()
    if not total:
        return None
    for kind in (Date(name, **_ANY_DAY), Number(name)):
        keys, written = _reading(kind, cells)
        values = _values(kind, keys, cells)
        if sum(cells[text] for text in values) < _MOST_CELLS * total:
            continue
        if isinstance(kind, Date):
            first, last = (kind.calendar.text(end(values.values()))[:4] for end in (min, max))
            date = Date(name, start=f"{first}-01-01", end=f"{last}-12-31", **keys)
            return Declared(date, looked=f"start and end{written}")
        if len(cells) > 2:
            low, high = _round(min(values.values()), up=False), _round(max(values.values()), up=True)
            whole = all(value.is_integer() for value in values.values()) and max(abs(low), abs(high)) < CODE_LIMIT
            step = 1 if whole else None
            number = Number(name, lower=low, upper=max(high, low + 1), granularity=step, **keys)
            return Declared(number, looked=f"lower, upper and step{written}")
    common = sorted(text for text in labels if cells[text] >= _LEAST_SHARE * cells.total())
    if len(common) <= _MOST_LABELS and sum(cells[text] for text in common) >= _MOST_CELLS * cells.total():
        common, keys = _spelt_once(common, cells)
        most = len(Category(name, common).labels) if by_person else None
        what = "the list of labels" + (" and per_person" if by_person else "")
        return Declared(Category(name, common, per_person=most, **keys), looked=what)
    if sum(cells[text] for text in labels) >= _MOST_CELLS * cells.total():
        return Declared(Label(name), looked="that there are too many labels for a list")
    return None  # free text


def _reading(column: Column, cells: Counter[str]) -> tuple[dict[str, Any], str]:
    """Return the apparent format of a column's cells, and a text about it for the owner.

    Only common words for missing values are proposed: another text may be a remark about a person.
    """
    shown = Counter({text: n for text, n in cells.items() if NOTHING.fullmatch(text) or re.search(r"[0-9]", text)})
    proposal = propose_reading(column, shown)
    if proposal is None:
        return {}, ""
    ways = [dict(choice) for choice in proposal.choices]
    others = [
        ", ".join(f"{key} = {toml_value(way[key])}" for key in way if way[key] != ways[0].get(key)) for way in ways
    ]
    doubt = f" (the cells can also be read with {' or '.join(others[1:])})" if len(ways) > 1 else ""
    return ways[0], f", and how the cells are written{doubt}"


def _values(kind: Number, keys: Mapping[str, Any], cells: Counter[str]) -> dict[str, float]:
    """Return the texts that are finite numbers, or dates, which are days since the first one."""
    if isinstance(kind, Date):
        dates = Date(kind.name, **_ANY_DAY, **keys)
        read: Callable[[str], float] = (dates.reading or dates.calendar).of_text
    else:
        numbers = Number(kind.name, **keys).reading
        read = number_of if numbers is None else numbers.of_text
    return {text: value for text in cells if math.isfinite(value := read(text))}


def _spelt_once(labels: Sequence[str], cells: Counter[str]) -> tuple[list[str], dict[str, Any]]:
    """Return each label in its most frequent spelling, and whether spellings differ by capitals or white space."""
    kept, chosen = list(labels), dict[str, Any]()
    choices: list[dict[str, Any]] = [{"strip": True}, {"casefold": True}, {"strip": True, "casefold": True}]
    for flags in choices:
        reading = TextReading(**flags)
        best = {reading.key(text): text for text in sorted(labels, key=lambda each: cells[each])}
        if len(best) < len(kept):
            kept, chosen = sorted(best.values()), flags
    return kept, chosen


def _round(value: float, *, up: bool) -> int:
    """Round outward to one digit: the exact minimum and maximum are values of records."""
    if value == 0:
        return 0
    size = 10.0 ** math.floor(math.log10(abs(value)))
    return math.ceil(math.ceil(value / size) * size) if up else math.floor(math.floor(value / size) * size)


def declare_from(
    path: Path, declared: dict[str, Declared], names: Iterable[str], *, of: str
) -> Mapping[str, MetadataColumn]:
    """Apply a metadata file to columns without an option; return the columns with incomplete metadata.

    Args:
        path: The file of metadata.
        declared: What options declare, to which columns are added.
        names: The columns of the data.
        of: The name of the data, by which one of several tables is chosen.
    """
    known, lacking = set(names), {}
    person = any(isinstance(each.column, PersonId) for each in declared.values())
    for found in read_metadata(path, of=of, names=known):
        if found.kind == "person" and not person:
            _check_person(path, found, declared, known)
        if found.name in declared or (found.kind == "person" and person):
            continue
        if found.name not in known:
            tell(f"{path} has the column {found.name!r}, and the file has none of that name")
        elif found.column is None:
            lacking[found.name] = found
        else:
            declared[found.name] = Declared(found.column)
    return lacking


def _check_person(path: Path, found: MetadataColumn, declared: Mapping[str, Declared], known: set[str]) -> None:
    """Refuse persons of a metadata file that cannot be declared: rows would be protected in their place."""
    why = f"lacks {', '.join(found.lacking)}" if found.lacking else ""
    why = "is declared otherwise by an option" if found.name in declared else why
    why = why if found.name in known else "is not in the file"
    if why:
        raise SchemaError(
            f"{str(path)!r} says that {found.name!r} names the persons, and that column {why}: rows would be protected "
            "in place of persons. Write --person COLUMN --max-rows N, or take the mark out of that file if each row is "
            "of another person"
        )


def tell_lacking(path: Path | None, lacking: Mapping[str, MetadataColumn], declared: Iterable[str]) -> None:
    """Print the columns that were left out because their metadata are incomplete."""
    there = set(declared)
    for name, found in lacking.items():
        if name not in there:
            tell(f"{path} is incomplete for {name!r} (missing: {', '.join(found.lacking)}); declare it with an option")


def check_target(path: Path | None, *, look: bool, overwrite: bool, inputs: list[Path]) -> None:
    """Refuse to overwrite another file, or to write declarations that came from private rows."""
    if path is None:
        return
    if look:
        raise PlanError(
            "--write-metadata is for public declarations, and --look declares from private rows; confirm the plan "
            "first, and declare the columns by options to write metadata"
        )
    if path.exists() and not overwrite:
        raise PlanError(f"{str(path)!r} exists already; name another file, or replace it with --overwrite")
    check_writable(path, inputs=inputs)


def write_for_others(path: Path | None, plan: Plan) -> None:
    """Write the schema of a plan in the format given by the file name."""
    if path is not None:
        tell(f"wrote {path}: {write_metadata(path, plan.schema.columns, name=plan.name)}")

"""`nonprivate_check`: what the declarations do to the rows, for the owner of the data before anything is published.

Every number here is an exact count of private rows. None of it may be published, and a bound that is changed because
of it is a parameter read off the data: look for a public reason why the declaration was wrong.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sidelight.records.cells import number_of
from sidelight.records.columns import Category, Column, Label, Number, PersonId
from sidelight.records.dates import Date
from sidelight.records.engines.declared import DeclaredRows
from sidelight.records.numbers import nearest_float
from sidelight.records.reading_proposals import ReadingProposal, propose_reading
from sidelight.records.rows import Batch, DistinctTexts, TextCells, Wanted, WholeIds
from sidelight.records.table import Table

#: Engines that give a column as numbers and as texts in one pass; the others are read twice.
_READ_BOTH = ("duckdb", "duckdb:csv", "duckdb:csv-lines", "duckdb:parquet", "arrow")
#: Of a column of dates: it is one, and another program would have to guess which number is the month.
_OTHER_DATE = "a date in another form than 2024-01-31"
#: So many different texts of a column are kept to find a declaration that reads them.
_MOST_TEXTS = 1 << 17
#: So many labels that are not declared are named.
_MOST_LABELS = 5
#: What an unreadable cell looks like, the first that fits.
_FORMS = (
    ("a word for nothing (NA, null, -)", re.compile(r"(?i)\s*(na|n/a|nan|null|none|missing|unknown|-+|\?+|\.)?\s*")),
    ("a decimal comma", re.compile(r"\s*[-+]?\d+,\d+\s*")),
    ("thousands separated", re.compile(r"\s*[-+]?\d{1,3}([,.' \u00a0]\d{3})+([.,]\d+)?\s*")),
    ("a date", re.compile(r"\s*(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})([T ].*)?")),
    ("a number with a unit or a sign", re.compile(r"\s*\D{0,3}[-+]?\d+([.,]\d+)?\s*\D{1,5}\s*|\s*\D{1,3}\s*\d.*")),
    ("a whole number", re.compile(r"\s*\d+\s*")),
)


@dataclass(frozen=True, kw_only=True)
class NonPrivateColumnCheck:
    """Exact counts of one column's cells, and of people with more of its labels than declared: NOT PRIVATE."""

    name: str
    kind: str
    per_person: int | None = None
    beyond_labels: int = 0
    missing: int = 0
    unreadable: int = 0
    below: int = 0
    above: int = 0
    unknown: int = 0
    looks_like: tuple[tuple[str, int], ...] = ()
    unknown_labels: tuple[tuple[str, int], ...] = ()
    proposal: ReadingProposal | None = None

    @property
    def clamped(self) -> int:
        """How many cells lie beyond the declared bounds."""
        return self.below + self.above


@dataclass(frozen=True, kw_only=True)
class NonPrivateCheck:
    """Exact counts of private rows: NOT PRIVATE, not to be published, not to be used to choose a parameter.

    Args:
        rows: How many records there are.
        columns: For every declared column how many cells are missing, unreadable, clamped, or of an unknown label.
        persons: How many persons there are; None without a person column.
        beyond_cap: How many rows are left out because their person has more than `max_rows`.
        broken_lines: How many records of a CSV file have more or fewer cells than the header.
        rows_by_pandas: How many rows pandas reads of the same CSV file; None where it is not installed, or no CSV file.
    """

    rows: int
    columns: tuple[NonPrivateColumnCheck, ...]
    persons: int | None = None
    beyond_cap: int = 0
    broken_lines: int | None = None
    rows_by_pandas: int | None = None

    @property
    def problems(self) -> tuple[str, ...]:
        """What to look at, in sentences; empty where every cell is read as declared."""
        found = [sentence for column in self.columns for sentence in _sentences(column, self.rows)]
        found += [_of_labels(column, self.persons or 0) for column in self.columns if column.beyond_labels]
        if self.beyond_cap:
            found.append(f"{_of(self.beyond_cap, self.rows, 'rows')} left out: their person has more than max_rows")
        if self.broken_lines:
            found.append(f"{_of(self.broken_lines, self.rows, 'records')} with more or fewer cells than the header")
        if self.rows_by_pandas is not None and self.rows_by_pandas != self.rows:
            found.append(
                f"pandas reads {self.rows_by_pandas} rows of the same file, sidelight {self.rows}: quotation marks or "
                "empty lines are understood differently; write the file again with a standard writer"
            )
        return tuple(found)

    @property
    def proposals(self) -> tuple[ReadingProposal, ...]:
        """Declarations that would read more cells; each is a question: does the program that wrote them write so?"""
        return tuple(column.proposal for column in self.columns if column.proposal is not None)

    def __str__(self) -> str:
        persons = "" if self.persons is None else f" of {self.persons} persons"
        lines = [f"NOT PRIVATE, for the data owner only: {self.rows} rows{persons}"]
        lines += [f"  {problem}" for problem in self.problems] or ["  every cell is read as declared"]
        lines += [f"  {proposal}" for proposal in self.proposals]
        return "\n".join(lines)


def nonprivate_check(table: Table) -> NonPrivateCheck:
    """Count the cells that the declarations change or leave out. NOT PRIVATE: for the data owner, before any release.

    A release cannot say that half of a column was unreadable: that would tell about rows. This can, to the owner alone.
    A bound or a list of labels that is changed because of the answer is read off the data, which no guarantee covers:
    take public ones.

    Args:
        table: The rows with their schema, as a session would have them.

    Returns:
        Exact counts of private rows, not to be published: `problems` says in sentences what to look at.

    >>> import sidelight as sl
    >>> people = sl.Table({"age": [31, 470, None], "sex": ["F", "m", "M"]},
    ...                   schema=[sl.Number("age", lower=0, upper=110), sl.Category("sex", ["F", "M"])])
    >>> print(nonprivate_check(people))
    NOT PRIVATE, for the data owner only: 3 rows
      age: 1 of 3 cells missing (33.3 %)
      age: 1 of 3 cells beyond the bounds, and clamped to them (33.3 %): 0 below, 1 above
      sex: 1 of 3 cells with a label that is not declared (33.3 %): 'm' (1)
      sex: 1 more cells are read with casefold=True
    """
    source = table.rows.source if isinstance(table.rows, DeclaredRows) else table.rows
    table.check_records()
    counting = [_Counting(column) for column in table.schema.columns]
    untyped = {name for name, found in table.rows.types.items() if found.kind in ("any", "text")}
    texts = [each for each in counting if isinstance(each.column, Number) and each.column.name in untyped]
    labelled = tuple(each.name for each in table.schema.columns if isinstance(each, (Category, Label)))
    person = None if table.schema.via is not None else table.schema.person
    wanted = Wanted(
        numbers=tuple(each.name for each in table.schema.columns if isinstance(each, Number)),
        texts=labelled,
        person=None if person is None else person.name,
    )
    as_texts = Wanted(texts=tuple(each.column.name for each in texts))
    both = table.engine in _READ_BOTH
    if both:
        wanted = Wanted(numbers=wanted.numbers, texts=(*labelled, *as_texts.texts), person=wanted.person)
    rows = 0
    persons: Counter[str | None] = Counter()
    for batch in table.rows.batches(wanted):
        rows += batch.length
        for each in counting:
            each.count(batch)
        for each in texts if both else ():
            each.count_texts(batch)
        if batch.person is not None:
            persons.update(counted_texts(batch.person))
    for each in counting:
        if isinstance(each.column, PersonId):
            each.keep(persons)
    if texts and not both:
        for batch in table.rows.batches(as_texts):
            for each in texts:
                each.count_texts(batch)
    csv: Any = source if table.engine.startswith("duckdb:csv") else None
    without_id = persons.pop(None, 0)
    cap = 0 if person is None else person.max_rows
    return NonPrivateCheck(
        rows=rows,
        columns=tuple(each.result(without_id) for each in counting),
        persons=None if person is None else len(persons),
        beyond_cap=sum(max(0, count - cap) for count in persons.values()) if person is not None else 0,
        broken_lines=None if csv is None else csv.nonprivate_broken_records(),
        rows_by_pandas=None if csv is None else csv.nonprivate_rows_by_pandas(),
    )


@dataclass
class _Counting:
    """The counts of one column while batches come."""

    column: Column
    missing: int = 0
    below: int = 0
    above: int = 0
    unknown: int = 0
    empty: int | None = None
    labels: Counter[str] = field(default_factory=Counter)
    of_persons: dict[str, set[str]] = field(default_factory=dict)
    forms: Counter[str] = field(default_factory=Counter)
    texts: Counter[str] = field(default_factory=Counter)

    def keep(self, found: Mapping[str | None, int]) -> None:
        """Count texts, for a proposal of how they are read."""
        for text, count in found.items():
            if text is not None and (text in self.texts or len(self.texts) < _MOST_TEXTS):
                self.texts[text] += count

    def count(self, batch: Batch) -> None:
        """Count missing cells, and those beyond bounds or of unknown labels."""
        if isinstance(self.column, Number):
            values = batch.numbers[self.column.name]
            self.missing += int(np.isnan(values).sum())
            if self.column.lower is not None:
                self.below += int((values < nearest_float(self.column.lower)).sum())
            if self.column.upper is not None:
                self.above += int((values > nearest_float(self.column.upper)).sum())
        elif not isinstance(self.column, PersonId):
            known = set(self.column.labels) if isinstance(self.column, Category) else None
            found = counted_texts(batch.texts[self.column.name])
            self.keep(found)
            for text, count in found.items():
                if text is None or (isinstance(self.column, Label) and self.column.normalised(text) is None):
                    self.missing += count
                elif known is not None and text not in known:
                    self.unknown += count
                    self.labels[text] += count
            if self.column.per_person is not None and batch.person is not None:
                pairs = set(zip(batch.person.tolist(), batch.texts[self.column.name].tolist(), strict=True))
                for person, text in pairs:
                    if person is not None and text is not None:
                        self.of_persons.setdefault(person, set()).add(text)

    def count_texts(self, batch: Batch) -> None:
        """Count empty cells of a number that is read from texts, and what the unreadable ones look like."""
        assert isinstance(self.column, Number)
        calendar = self.column.calendar if isinstance(self.column, Date) else None
        reading = self.column.reading
        read = reading.of_text if reading is not None else number_of if calendar is None else calendar.of_text
        self.empty = self.empty or 0
        found = counted_texts(batch.texts[self.column.name])
        self.keep(found)
        for text, count in found.items():
            if text is None or (reading is not None and reading.means_missing(text)):
                self.empty += count
            elif np.isnan(read(text)):
                word = next((word for word, form in _FORMS if form.fullmatch(text)), "something else")
                self.forms[_OTHER_DATE if calendar is not None and word == "a date" else word] += count

    def result(self, without_id: int) -> NonPrivateColumnCheck:
        """Return what was counted."""
        empty = self.missing if self.empty is None else min(self.empty, self.missing)
        most = getattr(self.column, "per_person", None)
        beyond = 0 if most is None else sum(len(labels) > most for labels in self.of_persons.values())
        return NonPrivateColumnCheck(
            name=self.column.name,
            kind="person" if isinstance(self.column, PersonId) else type(self.column).__name__.lower(),
            per_person=most,
            beyond_labels=beyond,
            missing=without_id if isinstance(self.column, PersonId) else empty,
            unreadable=self.missing - empty,
            below=self.below,
            above=self.above,
            unknown=self.unknown,
            looks_like=tuple(self.forms.most_common()),
            unknown_labels=tuple(self.labels.most_common(_MOST_LABELS)),
            proposal=propose_reading(self.column, self.texts),
        )


def counted_texts(cells: TextCells | WholeIds) -> Counter[str | None]:
    """Count the different texts of a batch."""
    if not isinstance(cells, DistinctTexts):
        return Counter(cells.tolist())
    found: Counter[str | None] = Counter()
    if not len(cells):
        return found
    counts = np.bincount(cells.places % len(cells.cells), minlength=len(cells.cells))  # the place -1 is the last cell
    for text, count in zip(cells.cells, counts.tolist(), strict=True):
        if count:
            found[text] += count
    return found


def _sentences(column: NonPrivateColumnCheck, rows: int) -> list[str]:
    forms = ", ".join(f"{word} ({count})" for word, count in column.looks_like)
    labels = ", ".join(f"{label!r} ({count})" for label, count in column.unknown_labels)
    parts = (
        (column.missing, "missing", ""),
        (column.unreadable, f"unreadable, no {column.kind}", forms),
        (column.clamped, "beyond the bounds, and clamped to them", f"{column.below} below, {column.above} above"),
        (column.unknown, "with a label that is not declared", labels),
    )
    return [
        f"{column.name}: {_of(count, rows)} {what} ({_share(count, rows)}){': ' if more else ''}{more}"
        for count, what, more in parts
        if count
    ]


def _of_labels(column: NonPrivateColumnCheck, persons: int) -> str:
    many = f"more than {column.per_person} label{'' if column.per_person == 1 else 's'}"
    return (
        f"{column.name}: {_of(column.beyond_labels, persons, 'people')} with {many}, where per_person says "
        f"{column.per_person} ({_share(column.beyond_labels, persons)}): what is beyond it is left out by group"
    )


def _of(count: int, rows: int, what: str = "cells") -> str:
    return f"{count} of {rows} {what}"


def _share(count: int, rows: int) -> str:
    return f"{100 * count / max(rows, 1):.3g} %"

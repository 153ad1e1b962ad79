"""`sl.omop`: a database of the OMOP common data model (CDM 5.4), whose tables name their person themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from sidelight.errors import SchemaError, nearest
from sidelight.records.columns import Column, PersonId
from sidelight.records.database import Database
from sidelight.records.keys import Key, Link, Reference
from sidelight.records.table import Table
from sidelight.records.windows import Window

#: The private tables with the part before `_concept_id` of their main code, and whether their rows name a visit.
_PRIVATE: Mapping[str, tuple[str | None, bool]] = {
    "person": ("gender", False),
    "observation_period": (None, False),
    "visit_occurrence": ("visit", False),
    "condition_occurrence": ("condition", True),
    "drug_exposure": ("drug", True),
    "procedure_occurrence": ("procedure", True),
    "measurement": ("measurement", True),
    "observation": ("observation", True),
    "death": (None, False),
}
#: Tables of one row a person.
_ONE_ROW = ("person", "death")
_PUBLIC: Mapping[str, tuple[str, ...]] = {
    "concept": ("concept_id",),
    "concept_ancestor": ("ancestor_concept_id", "descendant_concept_id"),
    "vocabulary": ("vocabulary_id",),
}
_UNDECLARED = ("provider", "care_site", "location", "note")
_ENDINGS = ("parquet", "csv")


def omop(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    tables: Sequence[str],
    max_rows: Mapping[str, int],
    columns: Mapping[str, Sequence[Column | Link]] | None = None,
    name: str = "omop",
    window: Window | None = None,
) -> Database:
    """Describe tables of the OMOP common data model as a database: persons, keys, visits and codes are declared.

    Guarantee: neighbours differ by one person with all their rows. Every private table of OMOP has a `person_id` of its
    own, so the person of a row does not depend on other rows (docs: proofs, persons across tables, Theorem 1).

    Args:
        source: A folder with a Parquet or CSV file for each table, or what `sl.Table` reads, by the name of the table.
        tables: Those to declare. `concept`, `concept_ancestor` and `vocabulary` are public; `provider`, `care_site`,
            `location` and `note` are left out: a provider is a person too.
        max_rows: The most rows of one person that count, for each private table but `person` and `death`, which have
            one. There is no default: it is a choice of accuracy.
        columns: Further declarations by table: what is publicly known of the columns that queries use.
        name: A public name for ledgers and reports.
        window: Periods with a budget of their own; its date columns are among `columns`, such as
            `sl.Date("visit_start_date", ...)`.

    Returns:
        The database. Public tables are read; of the others no row is.

    >>> import sidelight as sl
    >>> data = {
    ...     "person": {"person_id": [1, 2]},
    ...     "visit_occurrence": {"visit_occurrence_id": [10, 11], "person_id": [1, 1]},
    ... }
    >>> clinic = omop(data, tables=["person", "visit_occurrence"], max_rows={"visit_occurrence": 20})
    >>> clinic.view("visit_occurrence").schema.unit
    Person(column='person_id', max_rows=20)
    """
    given, more = tuple(tables), dict(columns or {})
    known = [*_PRIVATE, *_PUBLIC]
    for each in (*given, *more, *max_rows):
        if each in _UNDECLARED:
            raise SchemaError(
                f"sl.omop leaves {each!r} out: whose rows they are is not clear (a provider is a person too). Make the "
                "sl.Database yourself and declare what they are"
            )
        if each not in known:
            raise SchemaError(f"{each!r} is no table that sl.omop knows; {nearest(each, known)}")
        if each not in given:
            raise SchemaError(f"{each!r} is not among tables={list(given)}; add it, or leave it out")
    opened = {}
    declared: list[Any]
    for each in given:
        if each in _PRIVATE:
            declared = [PersonId("person_id", max_rows=_cap(each, max_rows)), *_ties(each, given)]
        else:
            declared = [Key(*_PUBLIC[each])]
            if each == "concept" and "vocabulary" in given:
                declared.append(Reference("vocabulary_id", to="vocabulary"))
        schema = [*declared, *more.get(each, ())]
        opened[each] = Table(_source_of(source, each), schema=schema, name=each, public=each in _PUBLIC)
    return Database(opened, name=name, window=window)


def _cap(table: str, max_rows: Mapping[str, int]) -> int:
    if table in _ONE_ROW:
        if max_rows.get(table, 1) != 1:
            raise SchemaError(f"{table!r} has one row a person, got max_rows of {max_rows[table]}; leave it out")
        return 1
    if table not in max_rows:
        raise SchemaError(
            f"how many rows of one person in {table!r} count is a choice that nobody can make for you: more have more "
            f"noise, fewer leave rows out. Write max_rows={{{table!r}: ...}}"
        )
    return max_rows[table]


def _ties(table: str, given: Sequence[str]) -> list[Any]:
    """Return the key of a private table, and its references to the tables that are there."""
    code, of_visit = _PRIVATE[table]
    found: list[Any] = [] if table == "death" else [Key(f"{table}_id")]
    if of_visit and "visit_occurrence" in given:
        found.append(Reference("visit_occurrence_id", to="visit_occurrence"))
    if code is not None and "concept" in given:
        found.append(Reference(f"{code}_concept_id", to="concept"))
    return found


def _source_of(source: str | PathLike[str] | Mapping[str, Any], table: str) -> Any:
    if isinstance(source, Mapping):
        if table not in source:
            raise SchemaError(f"the source has no table {table!r}; {nearest(table, source)}")
        return source[table]
    files = [Path(source) / f"{table}.{ending}" for ending in _ENDINGS]
    there = [file for file in files if file.exists()]
    if len(there) != 1:
        wanted = " or ".join(repr(file.name) for file in files)
        raise SchemaError(f"one file was wanted in {str(source)!r}, {wanted}, and {len(there)} are there")
    return there[0]

"""`nonprivate_ties`: how the rows of a database are tied together, for the owner of the data before any release.

Every number here is an exact count of private rows: none may be published. Rows that dangle or are contested are in no
statistic, and no release, error or note tells of them; this does, to the owner alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidelight.records import Database
from sidelight.records.keys import Reference
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.rows import Wanted


@dataclass(frozen=True, kw_only=True)
class NonPrivateReference:
    """Exact counts of the rows of a table by what a reference of theirs finds: NOT PRIVATE."""

    name: str
    to: str
    missing: int
    dangling: int
    of_others: int


@dataclass(frozen=True, kw_only=True)
class NonPrivateTies:
    """Exact counts of the rows of one private table by whose they are: NOT PRIVATE, not to be published.

    Args:
        table: The name of the table.
        rows: How many rows it has.
        persons: How many people own one.
        contested: Rows that several people claim, or, with a window, several periods.
        dangling: Rows that nobody claims: their key, id or date is missing, or names no row.
        beyond_cap: Owned rows that are left out because their person has more than `max_rows`.
        repeated_keys: Keys that several rows have.
        elsewhere: People who own a row of another table and none of this one.
        references: What each reference of the owned rows finds.
    """

    table: str
    rows: int
    persons: int
    contested: int
    dangling: int
    beyond_cap: int
    repeated_keys: int
    elsewhere: int
    references: tuple[NonPrivateReference, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """What to look at, in sentences."""
        return tuple(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.contested:
            yield f"{_of(self.contested, self.rows)} contested, in no statistic: several people, or periods, claim them"
        if self.dangling:
            yield f"{_of(self.dangling, self.rows)} dangling, in no statistic: nobody claims them"
        if self.beyond_cap:
            yield f"{_of(self.beyond_cap, self.rows)} left out: their person has more than max_rows"
        if self.repeated_keys:
            yield f"{self.repeated_keys} keys that several rows have: a lookup takes one of a person's rows"
        for each in self.references:
            if each.dangling:
                yield f"{_of(each.dangling, self.rows)} name a row of {each.to} by {each.name} that is not there"
            if each.of_others:
                yield f"{_of(each.of_others, self.rows)} name by {each.name} a row of {each.to} of somebody else"


def nonprivate_ties(database: Database) -> tuple[NonPrivateTies, ...]:
    """Count whose the rows of each private table are. NOT PRIVATE: for the data owner, before any release.

    Args:
        database: The tables, as a session would have them.

    Returns:
        Exact counts of private rows, one entry a private table, not to be published.

    >>> import sidelight as sl
    >>> declared = [sl.PersonId("who", max_rows=1), sl.Key("id")]
    >>> orders = sl.Table({"id": [1, 1, 2], "who": ["a", "b", "b"]}, schema=declared)
    >>> lines = sl.Table({"id": [1, 2, 3]}, schema=[sl.PersonVia("id", to="orders", max_rows=9)])
    >>> _, found = nonprivate_ties(sl.Database({"orders": orders, "lines": lines}, name="shop"))
    >>> found.contested, found.dangling, found.persons
    (1, 1, 1)
    """
    linked = database.linked
    tables: dict[str, _TiedRows] = {}
    persons: dict[str, int] = {}
    ways = {name: () if linked.is_public(name) else linked.person_path(name) for name in linked.tables}
    for name in sorted(ways, key=lambda each: len(ways[each])):  # a table after that of its person
        tables[name] = _read(linked, name, tables, persons)
    private = linked.private()
    people = {name: np.unique(tables[name].owner[tables[name].owner != _NONE]) for name in private}
    everybody = np.unique(np.concatenate(list(people.values())))
    found = []
    for name in private:
        rows = tables[name]
        counts = np.unique(rows.owner[rows.owner != _NONE], return_counts=True)[1]
        found.append(
            NonPrivateTies(
                table=name,
                rows=len(rows.owner),
                persons=len(people[name]),
                contested=int((rows.least != rows.largest).sum()),
                dangling=int((rows.least == _NONE).sum()),
                beyond_cap=int(np.maximum(counts - linked.max_rows(name), 0).sum()),
                repeated_keys=sum(len(places) > 1 for places in rows.by_key.values()),
                elsewhere=len(everybody) - len(people[name]),
                references=tuple(_references(linked, tables, name)),
            )
        )
    return tuple(found)


_NONE = -1


@dataclass(eq=False, repr=False)
class _TiedRows:
    """The keys of one table's rows, and the two ends of their claimants: PRIVATE.

    Claimants are persons, or, of dated rows, pairs of a person and a period: person * periods + period.
    """

    named: dict[tuple[str, ...], list[tuple[str, ...] | None]]
    by_key: dict[tuple[str, ...], list[int]]
    least: NDArray[np.int64]
    largest: NDArray[np.int64]
    periods: int = 1

    @property
    def owner(self) -> NDArray[np.int64]:
        """The person who owns each row, -1 where there are no claimants or several."""
        return np.where(self.least == self.largest, self.least // self.periods, _NONE)


def _read(linked: LinkedTables, name: str, above: Mapping[str, _TiedRows], persons: dict[str, int]) -> _TiedRows:
    """Read the keys of a table, and hand the claims of the rows above down to its rows.

    It settles claims by sets of rows and not by the kernels of releases, which keep owned rows alone.
    """
    schema, person = linked.schema(name), None if linked.is_public(name) else linked.own_person(name)
    tied = tuple(dict.fromkeys(column for link in schema.links for column in link.columns))
    named: dict[tuple[str, ...], list[tuple[str, ...] | None]] = {link.columns: [] for link in schema.links}
    own: list[int] = []
    length = 0
    date, window = linked.date_of(name), linked.window
    periods = 1 if date is None or window is None else len(window.names)
    numbers = () if date is None or person is None else (date.name,)
    wanted = Wanted(numbers=numbers, texts=tied, person=None if person is None else person.name)
    for batch in linked.table(name).rows.batches(wanted):
        length += batch.length
        for columns, keys in named.items():
            parts = zip(*(batch.texts[column].tolist() for column in columns), strict=True)
            keys += [None if None in key else key for key in parts]
        if person is not None and batch.person is not None:
            ids = batch.person.tolist()
            when = [0] * batch.length
            if date is not None and window is not None:
                when = window.numbers_of(batch.numbers[date.name], date).tolist()
            for each, period in zip(ids, when, strict=True):
                number = _NONE if each is None else persons.setdefault(str(each), len(persons))
                own.append(_NONE if _NONE in (number, period) else number * periods + period)
    by_key: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(named[schema.key.columns] if schema.key is not None else ()):
        if key is not None:
            by_key.setdefault(key, []).append(place)
    least, largest = (np.array(own if person is not None else [_NONE] * length, np.int64) for _ in range(2))
    if schema.via is not None:
        parent = above[schema.via.to]
        for place, key in enumerate(named[schema.via.columns]):
            rows = [each for each in parent.by_key.get(key or (), ()) if parent.least[each] != _NONE]
            if rows:
                least[place], largest[place] = parent.least[rows].min(), parent.largest[rows].max()
    return _TiedRows(named, by_key, least, largest, periods)


def _references(linked: LinkedTables, tables: Mapping[str, _TiedRows], name: str) -> Iterator[NonPrivateReference]:
    """Count what the references of owned rows find: a row of their own person, or a public one."""
    rows = tables[name]
    owners = rows.owner
    for tie in linked.schema(name).links:
        if not isinstance(tie, Reference):
            continue
        counts, parent, public = Counter[str](), tables[tie.to], linked.is_public(tie.to)
        theirs = parent.owner
        for owner, key in zip(owners.tolist(), rows.named[tie.columns], strict=True):
            if owner == _NONE:
                continue
            places = parent.by_key.get(key or (), ())
            if key is None:
                counts["missing"] += 1
            elif not places:
                counts["dangling"] += 1
            elif not public and all(theirs[place] != owner for place in places):
                counts["of_others"] += 1
        kinds = {kind: counts[kind] for kind in ("missing", "dangling", "of_others")}
        yield NonPrivateReference(name="+".join(tie.columns), to=tie.to, **kinds)


def _of(count: int, rows: int) -> str:
    return f"{count} of {rows} rows ({100 * count / max(rows, 1):.3g} %)"

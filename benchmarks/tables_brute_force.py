"""Theorem 2 on all small databases, for persons and for their months, through the library's own owners and folds.

Every small database becomes part of one large one: its ids and keys get its number in front, so that no two of them
have a person or a key in common, and one pass of the real code decides all of them. What is left when a person goes (D
without the rows on which the person has a claim) is computed here, from the definition, by sets.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations_with_replacement
from typing import Any

import sidelight as sl
from sidelight.aggregates.view_rows import made_by_persons
from sidelight.records import PairedView

PERSONS = ("a", "b", "c")
KEYS = ("1", "2", None)
MONTHS = ("2024-01", "2024-02", "2024-03")
#: A row of the top table: person, key, value. Of a lower one: the key that it names, its own key, value.
TopRow = tuple[str | None, str | None, int]
LowRow = tuple[str | None, str | None, int]


@dataclass(frozen=True)
class Small:
    """A small database: the rows of each level, the first of which names persons.

    With `dated` a claimant is a person and a month, which is the value of the first level's row.
    """

    levels: tuple[tuple[tuple[Any, Any, int], ...], ...]
    dated: bool = False

    def claimants(self) -> list[list[frozenset[Any]]]:
        """Return A(r) of every row, by the definition."""

        def of(row: tuple[Any, Any, int]) -> frozenset[Any]:
            return frozenset() if row[0] is None else frozenset({(row[0], row[2]) if self.dated else row[0]})

        found = [[of(row) for row in self.levels[0]]]
        for above, level in zip(self.levels, self.levels[1:], strict=False):
            by_key: dict[str, set[Any]] = defaultdict(set)
            for row, claims in zip(above, found[-1], strict=True):
                if row[1] is not None:
                    by_key[row[1]] |= claims
            found.append([frozenset(by_key.get(row[0], ())) if row[0] is not None else frozenset() for row in level])
        return found

    def without(self, claimant: Any) -> Small:
        """Return the database without the rows on which a person, or a month of one, has a claim."""
        claims = self.claimants()
        return replace(
            self,
            levels=tuple(
                tuple(row for row, who in zip(level, of, strict=True) if claimant not in who)
                for level, of in zip(self.levels, claims, strict=True)
            ),
        )


def two_levels(*, most_top: int, most_low: int) -> Iterator[Small]:
    """Return all databases of two levels with at most this number of rows, values left at 0."""
    tops = [(person, key, 0) for person in (*PERSONS, None) for key in KEYS]
    lows = [(key, None, 0) for key in KEYS]
    for top in _multisets(tops, most_top):
        for low in _multisets(lows, most_low):
            yield Small((top, low))


def sampled(how_many: int, *, levels: int, seed: int) -> Iterator[Small]:
    """Return random databases with values, so that repeated parents differ."""
    draw = random.Random(seed)
    for _ in range(how_many):
        named = [(*PERSONS, None), *[KEYS] * (levels - 1)]
        yield Small(
            tuple(
                tuple((draw.choice(each), draw.choice(KEYS), draw.randrange(3)) for _ in range(draw.randrange(5)))
                for each in named
            )
        )


def _multisets(rows: Sequence[Any], most: int) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(combinations_with_replacement(rows, size) for size in range(most + 1))


def as_database(smalls: Iterable[Small]) -> sl.Database:
    """Put small databases with different numbers in front of ids and keys into one."""
    given = list(enumerate(smalls))
    depth = len(given[0][1].levels)
    tables: dict[str, sl.Table] = {}
    for level in range(depth):
        rows = [(number, *row) for number, small in given for row in small.levels[level]]
        up = [None if row[1] is None else f"{row[0]}:{row[1]}" for row in rows]
        own = [None if row[2] is None else f"{row[0]}:{row[2]}" for row in rows]
        value = [row[3] for row in rows]
        path = sl.PersonId("up", max_rows=2) if level == 0 else sl.PersonVia("up", to=f"t{level - 1}", max_rows=2)
        schema = [path, sl.Key("own"), sl.Number("value", lower=0, upper=9, granularity=1)]
        data: dict[str, list[Any]] = {"up": up, "own": own, "value": value}
        if given[0][1].dated:
            schema.append(sl.Date("day", start="2024-01-01", end="2024-12-31"))
            data["day"] = [f"2024-0{each + 1}-15" for each in value]
        tables[f"t{level}"] = sl.Table(data, schema=schema)
    months = sl.Window("month", start=MONTHS[0], end=MONTHS[-1], dates={"t0": "day"}) if given[0][1].dated else None
    return sl.Database(tables, name="small", window=months)


def views(database: sl.Database, depth: int) -> Iterator[Any]:
    """Return views with every kind of part: owners, lookups up the path, folds by key and person, pairs of two rows."""
    lowest = f"t{depth - 1}"
    above = ".".join(f"t{level}" for level in reversed(range(depth - 1)))
    yield database.view(lowest, columns=[f"{above}.value"])
    yield database.view(
        "t0",
        number=sl.fold.count("t1", upper=9),
        total=sl.fold.sum("t1", "value", lower=0, upper=99),
        least=sl.fold.min("t1", "t0.value", empty=9),
    )
    yield database.view(lowest, of_all=replace(sl.fold.sum("t0", "value", lower=0, upper=99), of_person=True))
    yield database.pairs("t0", lowest, max_rows=3)
    yield database.pairs("t1", "t1", on="t0", where=sl.col("left.value") <= sl.col("right.value"), max_rows=3)


def owned_rows(view: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the rows of each person, as the library makes them."""
    ((held, _),) = made_by_persons(view, frozenset(view.schema.names))
    columns = [held.numbers[name].tolist() for name in sorted(held.numbers)]
    assert held.person is not None
    found: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for who, *cells in zip(held.person.tolist(), *columns, strict=True):
        found[str(who)][tuple(str(cell) for cell in cells)] += 1
    return found


def violations(smalls: Sequence[Small]) -> tuple[int, int]:
    """Return how many pairs of a database and a person were looked at, and how often somebody else's rows changed.

    More pairs of rows of one person than the two caps allow count as well.
    """
    depth = len(smalls[0].levels)
    shown = list(views(as_database(smalls), depth))
    before = [owned_rows(view) for view in shown]
    paired = [found for view, found in zip(shown, before, strict=True) if isinstance(view, PairedView)]
    pairs, touched = 0, sum(rows.total() > 4 for found in paired for rows in found.values())
    for person in PERSONS:
        after = [owned_rows(view) for view in views(as_database([small.without(person) for small in smalls]), depth)]
        for number in range(len(smalls)):
            pairs += 1
            others = [f"{number}:{other}" for other in PERSONS if other != person]
            touched += any(
                one.get(who, Counter()) != other.get(who, Counter())
                for one, other in zip(before, after, strict=True)
                for who in others
            )
    return pairs, touched


def violations_of_months(smalls: Sequence[Small]) -> tuple[int, int]:
    """Return how many triples of a database, a person and a month there were, and how often other rows changed.

    Other rows are those of other persons, and of the same person in other months; of one month at a time, and of all
    of them with what limits a person counted by month.
    """
    given = [replace(small, dated=True) for small in smalls]
    depth = len(given[0].levels)

    def found(each: Sequence[Small]) -> list[list[dict[str, Counter[tuple[Any, ...]]]]]:
        database = as_database(each)
        apart = [[owned_rows(view.within(month)) for view in views(database, depth)] for month in MONTHS]
        blocks = [owned_rows(view.within(MONTHS[0], MONTHS[-1], cap="block")) for view in views(database, depth)]
        for place, month in enumerate(MONTHS):
            mine = f"{month} "
            apart[place] += [
                {who.removeprefix(mine): rows for who, rows in block.items() if who.startswith(mine)}
                for block in blocks
            ]
        return apart

    before = found(given)
    triples = touched = 0
    for person in PERSONS:
        for gone in range(len(MONTHS)):
            after = found([small.without((person, gone)) for small in given])
            for number in range(len(given)):
                triples += 1
                touched += any(
                    one.get(f"{number}:{who}", Counter()) != other.get(f"{number}:{who}", Counter())
                    for month in range(len(MONTHS))
                    for one, other in zip(before[month], after[month], strict=True)
                    for who in PERSONS
                    if (who, month) != (person, gone)
                )
    return triples, touched

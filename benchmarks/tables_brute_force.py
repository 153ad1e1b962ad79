"""Theorem 2 on all small databases, through the library's own owners, lookups and folds.

Every small database becomes part of one large one: its ids and keys get its number in front, so that no two of them
have a person or a key in common, and one pass of the real code decides all of them. What is left when a person goes (D
without the rows on which the person has a claim) is computed here, from the definition, by sets.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from typing import Any

import sidelight as sl
from sidelight.aggregates.view_rows import made_rows

PERSONS = ("a", "b", "c")
KEYS = ("1", "2", None)
#: A row of the top table: person, key, value. Of a lower one: the key that it names, its own key, value.
TopRow = tuple[str | None, str | None, int]
LowRow = tuple[str | None, str | None, int]


@dataclass(frozen=True)
class Small:
    """A small database: the rows of each level, the first of which names persons."""

    levels: tuple[tuple[tuple[Any, Any, int], ...], ...]

    def claimants(self) -> list[list[frozenset[str]]]:
        """Return A(r) of every row, by the definition."""
        found = [[frozenset() if row[0] is None else frozenset({row[0]}) for row in self.levels[0]]]
        for above, level in zip(self.levels, self.levels[1:], strict=False):
            by_key: dict[str, set[str]] = defaultdict(set)
            for row, claims in zip(above, found[-1], strict=True):
                if row[1] is not None:
                    by_key[row[1]] |= claims
            found.append([frozenset(by_key.get(row[0], ())) if row[0] is not None else frozenset() for row in level])
        return found

    def without(self, person: str) -> Small:
        """Return the database without the rows on which a person has a claim."""
        claims = self.claimants()
        return Small(
            tuple(
                tuple(row for row, who in zip(level, of, strict=True) if person not in who)
                for level, of in zip(self.levels, claims, strict=True)
            )
        )


def two_levels(*, most_top: int, most_low: int) -> Iterator[Small]:
    """Return all databases of two levels with at most so many rows, values left at 0."""
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
        path = sl.PersonId("up", max_rows=99) if level == 0 else sl.PersonVia("up", to=f"t{level - 1}", max_rows=99)
        schema = [path, sl.Key("own"), sl.Number("value", lower=0, upper=9, granularity=1)]
        tables[f"t{level}"] = sl.Table({"up": up, "own": own, "value": value}, schema=schema)
    return sl.Database(tables, name="small")


def views(database: sl.Database, depth: int) -> Iterator[Any]:
    """Return views with every kind of part: owners, lookups up the path, folds by key and by the person."""
    lowest = f"t{depth - 1}"
    above = ".".join(f"t{level}" for level in reversed(range(depth - 1)))
    yield database.view(lowest, columns=[f"{above}.value"])
    yield database.view(
        "t0",
        number=sl.fold.count("t1", upper=9),
        total=sl.fold.sum("t1", "value", lower=0, upper=99),
        least=sl.fold.min("t1", "t0.value", empty=9),
    )


def owned_rows(view: Any) -> dict[str, Counter[tuple[Any, ...]]]:
    """Return the rows of each person, as the library makes them."""
    held = made_rows(view)
    columns = [held.numbers[name].tolist() for name in sorted(held.numbers)]
    assert held.person is not None
    found: dict[str, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for who, *cells in zip(held.person.tolist(), *columns, strict=True):
        found[str(who)][tuple(str(cell) for cell in cells)] += 1
    return found


def violations(smalls: Sequence[Small]) -> tuple[int, int]:
    """Return how many pairs of a database and a person were looked at, and how often somebody else's rows changed."""
    depth = len(smalls[0].levels)
    before = [owned_rows(view) for view in views(as_database(smalls), depth)]
    pairs = touched = 0
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

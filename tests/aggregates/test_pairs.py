"""Pairs of rows of one person: the definition by brute force, caps that bite, neighbours, noise, and planted bugs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from benchmarks.tables_brute_force import sampled, violations

import sidelight as sl
from sidelight.aggregates import collect, lookups, owners, pairs, view_rows
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import groups_of
from sidelight.aggregates.mix import PRIME
from sidelight.aggregates.view_rows import made_by_persons, open_view
from sidelight.audit.sampled import at_least, at_most
from sidelight.errors import RangeError, SchemaError
from sidelight.records import PairedView
from sidelight.records.person_key import person_key
from sidelight.testing import SeededSession

#: A row: the person, the key that it names, and a value.
Row = tuple[str, str | None, int]


def _database(left: Iterable[Row], right: Iterable[Row], caps: tuple[int, int] = (99, 99)) -> sl.Database:
    """Return two tables of rows that name stays, a third table, which need not have them."""

    def table(rows: Iterable[Row], cap: int) -> sl.Table:
        given = list(rows)
        columns = {"who": [row[0] for row in given], "stay": [row[1] for row in given], "x": [row[2] for row in given]}
        number = sl.Number("x", lower=0, upper=9, granularity=1)
        return sl.Table(columns, schema=[sl.PersonId("who", max_rows=cap), sl.Reference("stay", to="stay"), number])

    stays = sl.Table({"who": ["a"], "id": ["1"]}, schema=[sl.PersonId("who", max_rows=9), sl.Key("id")])
    return sl.Database({"drug": table(left, caps[0]), "test": table(right, caps[1]), "stay": stays}, name="clinic")


def _rows(seed: int, most: int = 7) -> tuple[list[Row], list[Row]]:
    draw = Random(seed)

    def some() -> list[Row]:
        return [
            (draw.choice("abc"), draw.choice(["1", "2", None]), draw.randrange(3)) for _ in range(draw.randrange(most))
        ]

    return some(), some()


def _made(view: PairedView, names: Iterable[str] | None = None) -> Counter[tuple[Any, ...]]:
    """Return the pairs that the library makes: the person, and the cells of both sides."""
    found: Counter[tuple[Any, ...]] = Counter()
    columns = sorted(view.schema.names[1:] if names is None else names)
    for held, _ in made_by_persons(view, frozenset(columns)):
        assert held.person is not None
        found.update(
            zip(held.person.tolist(), *(held.numbers[name].astype(int).tolist() for name in columns), strict=True)
        )
    return found


def _mix(person: str, codes: list[tuple[int, int]], nth: int) -> int:
    """Return the mix of a row, written from its definition: (code, largest) from 0 on."""
    total, factor = person_key(person) % PRIME + nth * 69621, 48271
    for code, largest in codes:
        for _ in range(max(1, -(-largest.bit_length() // 20))):
            factor = factor * 16807 % PRIME
            total += code % 2**20 * factor
            code //= 2**20
    for constant in (314159265, 1618033988, 1202056903):
        total = ((total % PRIME + constant) % PRIME) ** 3 % PRIME
    return total


def _cut(rows: Iterable[Row], cap: int, *, keyed: bool) -> list[Row]:
    """Return the rows of least mix of each person, written from the definition."""
    of: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row[1] is not None or not keyed:
            of[row[0]].append(row)
    kept = []
    for person, mine in of.items():
        seen: Counter[Any] = Counter()
        mixed = []
        for row in mine:
            key = str(row[1]) if keyed else ""
            same = (row[2], key)
            codes = [(row[2], 9), (1, 1), *([(person_key(key), 2**60 - 1)] if keyed else [])]
            mixed.append((_mix(person, codes, seen[same]), row[2], key, row))
            seen[same] += 1
        kept += [row for *_, row in sorted(mixed)[:cap]] if len(mine) > cap else mine
    return kept


def _expected(left: list[Row], right: list[Row], *, keyed: bool, test: Callable[[int, int], bool]) -> Counter[Any]:
    return Counter(
        (one[0], one[2], two[2])
        for one, two in product(left, right)
        if one[0] == two[0] and (not keyed or (one[1] is not None and one[1] == two[1])) and test(one[2], two[2])
    )


X, Y = sl.col("drug.x"), sl.col("test.x")
CONDITIONS: list[tuple[Any, Callable[[int, int], bool]]] = [
    (None, lambda x, y: True),
    (X <= Y, lambda x, y: x <= y),
    ((X > 0) & (Y != 1) & ((X < 2) | (Y > 1)), lambda x, y: x > 0 and y != 1 and (x < 2 or y > 1)),
]


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("place", range(len(CONDITIONS)))
def test_uncut_pairs_are_those_of_the_definition(place: int, keyed: bool) -> None:
    where, test = CONDITIONS[place]
    for seed in range(25):
        left, right = _rows(seed)
        view = _database(left, right).pairs("drug", "test", on="stay" if keyed else "person", where=where, max_rows=9)
        assert _made(view) == _expected(left, right, keyed=keyed, test=test)


@pytest.mark.parametrize("keyed", [False, True])
def test_each_side_is_cut_by_the_mix_of_what_is_read_and_the_key(keyed: bool) -> None:
    bites = 0
    for seed in range(40):
        left, right = _rows(seed, most=14)
        sides = _cut(left, 2, keyed=keyed), _cut(right, 1, keyed=keyed)
        view = _database(left, right, (2, 1)).pairs("drug", "test", on="stay" if keyed else "person", max_rows=9)
        assert view.max_rows == 2
        expected = _expected(*sides, keyed=keyed, test=lambda x, y: True)
        assert _made(view) == expected
        bites += expected != _expected(left, right, keyed=keyed, test=lambda x, y: True)
    assert bites > 20


def test_conditions_on_one_side_come_before_its_cut() -> None:
    left: list[Row] = [("a", "1", x) for x in range(9)]
    view = _database(left, [("a", "1", 5)], (1, 1)).pairs("drug", "test", where=X == 7, max_rows=1)
    assert _made(view) == Counter({("a", 7, 5): 1})


def test_a_table_meets_itself_in_both_orders() -> None:
    database = _database([("a", "1", 1), ("a", "2", 2), ("b", "1", 3)], [])
    view = database.pairs("drug", "drug", max_rows=99)
    assert view.schema.names == ("who", "left.x", "right.x")
    assert _made(view) == Counter({("a", 1, 1): 1, ("a", 1, 2): 1, ("a", 2, 1): 1, ("a", 2, 2): 1, ("b", 3, 3): 1})
    once = database.pairs("drug", "drug", where=sl.col("left.x") < sl.col("right.x"), max_rows=99)
    assert _made(once) == Counter({("a", 1, 2): 1})


def test_order_slices_and_spelling_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = _rows(3, most=60)
    view = _database(left, right, (3, 2)).pairs("drug", "test", on="stay", where=X <= Y, max_rows=9)
    expected = _made(view)
    turned = _database(left[::-1], right[::-1], (3, 2)).pairs("drug", "test", on="stay", where=X <= Y, max_rows=9)
    assert _made(turned) == expected
    by_columns = _database(left, right, (3, 2)).pairs("drug", "test", on=("stay", "stay"), where=X <= Y, max_rows=9)
    assert _made(by_columns) == expected
    monkeypatch.setattr(owners, "MOST_CELLS", 12)
    monkeypatch.setattr(owners, "_ROWS", 5)
    monkeypatch.setattr(pairs, "_AT_ONCE", 2)
    assert len(list(made_by_persons(view, frozenset(view.schema.names)))) > 2
    assert _made(view) == expected


@pytest.mark.planted("pairs without the key in the mix")
def test_a_cut_without_the_key_follows_the_order_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def differ() -> int:
        found = 0
        for seed in range(15):
            left, right = ([(who, key, 0) for who, key, _ in rows] for rows in _rows(seed, most=14))
            one, two = (
                _made(_database(a, b, (2, 2)).pairs("drug", "test", on="stay", max_rows=9))
                for a, b in ((left, right), (left[::-1], right[::-1]))
            )
            found += one != two
        return found

    assert differ() == 0
    monkeypatch.setattr(pairs, "_hashes", lambda part: np.zeros(len(part), np.int64))
    monkeypatch.setattr(pairs, "by_bytes", lambda part: np.zeros(len(part), np.int64))
    assert differ() > 0


def _touched(seeds: int) -> int:
    """Take each person out of random databases, and count how often somebody else's pairs changed."""
    found = 0
    for seed, keyed, person in product(range(seeds), (False, True), "abc"):
        left, right = _rows(seed, most=14)
        on = "stay" if keyed else "person"
        one, two = (
            _made(_database(*sides, (2, 2)).pairs("drug", "test", on=on, max_rows=3))
            for sides in ((left, right), [[row for row in rows if row[0] != person] for rows in (left, right)])
        )
        found += any(one[row] != two[row] for row in {*one, *two} if row[0] != person)
        found += any(sum(times for row, times in one.items() if row[0] == who) > 4 for who in "abc")
    return found


def test_nobody_else_is_touched_when_a_person_goes() -> None:
    assert _touched(12) == 0
    assert violations(list(sampled(300, levels=2, seed=41))) == (900, 0)


@pytest.mark.planted("pairs joined by key without the owner")
def test_pairs_by_key_alone_couple_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_pairs", lambda owner, key, size: owner if key is None else key)
    monkeypatch.setattr(lookups, "_same_owner", lambda theirs, mine: np.ones(len(mine), bool))
    assert _touched(4) > 0


@pytest.mark.planted("a row leaves before the cut because nobody else names its key")
def test_keys_that_only_others_know_couple_people(monkeypatch: pytest.MonkeyPatch) -> None:
    class Known(view_rows.KeyNumbers):
        def of(self, cells: Any, *, grow: bool) -> Any:
            return super().of(cells, grow=grow and not self.size)

    monkeypatch.setattr(view_rows, "KeyNumbers", Known)
    assert _touched(12) > 0


def _crowd(people: int, *, without: bool = False) -> sl.Database:
    """Return as many persons, each with three drugs and three tests in a ward of their own."""
    place = np.repeat(np.arange(0 if without else people), 3)
    ward = sl.Category("ward", [str(each) for each in range(people)], other=None)
    schema = [sl.PersonId("who", max_rows=2), ward]
    columns = {"who": place, "ward": [str(each) for each in place.tolist()]}
    tables = {name: sl.Table(columns, schema=schema) for name in ("drug", "test")}
    return sl.Database(tables, name="clinic")


def _released(people: int, *, seed: str, without: bool = False, most: int = 4) -> Any:
    database = _crowd(people, without=without)
    session = SeededSession(database, budget=sl.PureDP(9), seed=seed)
    query = sl.Count(of="rows", by="drug.ward", max_groups=1, max_rows_per_group=most, epsilon=1)
    view = database.pairs("drug", "test", max_rows=9)
    return np.asarray(session.release(query, of=view).value["unbiased"], float)


PEOPLE = 2000


def _far(noise: Any, scale: float) -> float:
    """Return how many standard deviations the mean size of noise is from that of a two-sided geometric law."""
    q = np.exp(-1 / scale)
    mean, square = 2 * q / (1 - q * q), 2 * q / (1 - q) ** 2
    return float(abs(np.abs(noise).mean() - mean) / np.sqrt((square - mean**2) / len(noise)))


def test_the_noise_is_that_of_the_pairs_of_a_person_and_not_thirty_percent_off() -> None:
    noise = _released(PEOPLE, seed="pairs") - 4
    assert _far(noise, 4) < 5.5  # a false alarm in ten million
    assert min(_far(noise, 4 * 1.3), _far(noise, 4 / 1.3)) > 8


def _lower_bound(most: int = 4) -> float:
    """Return an epsilon that was surely spent, by which wards have a person and which have none."""
    there, gone = (_released(PEOPLE, seed=f"audit {each}", without=each, most=most) for each in (False, True))
    hits = [int((each > 2).sum()) for each in (there, gone)]
    sure = at_least(hits[0], PEOPLE, failure=1e-8), at_most(hits[1], PEOPLE, failure=1e-8)
    return float(np.log(sure[0] / sure[1]))


def test_no_attack_refutes_the_claim() -> None:
    assert 0.5 < _lower_bound() <= 1


@pytest.mark.planted("a cap on pairs that is claimed and not applied")
def test_pairs_beyond_the_cap_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _lower_bound(most=2) <= 1
    monkeypatch.setattr(collect, "cap_arrays", lambda persons, codes, ranges, cap: codes)
    assert _lower_bound(most=2) > 1.3


@pytest.mark.planted("K of the base used for pairs")
def test_the_cap_of_one_side_is_less_than_what_a_person_moves() -> None:
    database = _crowd(3)
    moved = []
    for view, by in ((database.pairs("drug", "test", max_rows=9), "drug.ward"), (database.view("drug"), "ward")):
        table = open_view(view)
        moved.append(group_counts(table, groups_of(table.schema, by=by, max_groups=1, max_rows_per_group=4)))
    assert int(np.asarray(moved[0].value)[0]) == moved[0].sensitivity == 4  # attained
    assert moved[1].sensitivity == 2


def test_wrong_pairs_are_refused_before_a_row_is_read() -> None:
    database = _database([], [])
    number = sl.Number("x", lower=0, upper=9, granularity=1)
    ward = sl.Table({"id": [1]}, schema=[sl.Key("id")], public=True)
    many = sl.Table({"who": [1], "x": [1]}, schema=[sl.PersonId("who", max_rows=2**13), number])
    large = sl.Database({"many": many, "ward": ward}, name="large")
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: database.pairs("drug", "tests", max_rows=2), "no table 'tests'"),
        (lambda: database.pairs("drug", "test", on="ward", max_rows=2), "no reference leads"),
        (lambda: database.pairs("drug", "stay", on=("stay", "who"), max_rows=2), "no reference leads"),
        (lambda: database.pairs("drug", "test", where=sl.col("x") > 1, max_rows=2), "'x'"),
        (lambda: database.pairs("drug", "test", where=X + 1, max_rows=2), "must be a condition"),
        (lambda: database.pairs("drug", "test", columns=["drug.y"], max_rows=2), "'drug.y' is no column"),
        (lambda: large.pairs("many", "many", max_rows=2), "at most 16777216"),
        (lambda: large.pairs("many", "ward", max_rows=2), "is public"),
    ]
    for make, message in refused:
        with pytest.raises(SchemaError, match=message):
            make()
    with pytest.raises(RangeError, match="max_rows of pairs"):
        database.pairs("drug", "test", max_rows=0)
    session = sl.Session(database, budget=sl.PureDP(3))
    before = str(session.remaining)
    for query in (sl.Count(by="x", epsilon=1), sl.Sum("nothing", epsilon=1)):
        with pytest.raises(SchemaError):
            session.release(query, of=database.pairs("drug", "test", max_rows=2))
    assert str(session.remaining) == before

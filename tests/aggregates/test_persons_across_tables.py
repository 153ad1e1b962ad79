"""Owners, lookups and folds: taking a person out leaves everybody else's rows as they are, and planted bugs do not."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from benchmarks.tables_brute_force import Small, owned_rows, sampled, two_levels, violations, violations_of_months

import sidelight as sl
from plain_statistics import made_rows
from sidelight.aggregates import lookups, owners

NONE = owners.NONE


def test_nobody_else_is_touched_in_all_databases_of_two_levels() -> None:
    assert violations(list(two_levels(most_top=3, most_low=2))) == (13_650, 0)


def test_nobody_else_is_touched_in_a_sample_of_two_and_three_levels() -> None:
    assert violations(list(sampled(1500, levels=2, seed=36))) == (4500, 0)
    assert violations(list(sampled(1500, levels=3, seed=37))) == (4500, 0)


@pytest.mark.parametrize(("levels", "seed"), [(2, 38), (3, 39)])
def test_a_month_that_goes_touches_no_other_month_and_nobody_else(levels: int, seed: int) -> None:
    assert violations_of_months(list(sampled(150, levels=levels, seed=seed))) == (1350, 0)


@pytest.mark.planted("a line of an order in two months belongs to the first of them")
def test_months_that_are_not_part_of_the_claim_couple_months(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "owner_of", lambda least, largest: np.where(least // 3 == largest // 3, least, NONE))
    assert violations_of_months(list(sampled(100, levels=2, seed=38)))[1] > 0


@pytest.mark.planted("owner = least claimant")
def test_the_least_claimant_couples_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "owner_of", lambda least, largest: least)
    assert violations(list(two_levels(most_top=2, most_low=1)))[1] > 0


@pytest.mark.planted("contested rows without claims at the next level")
def test_contested_rows_that_lose_their_claims_couple_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "claims_handed_down", lambda parent: (parent.owner, parent.owner))
    assert violations(list(sampled(1500, levels=3, seed=37)))[1] > 0


@pytest.mark.planted("lookup by key alone")
def test_a_lookup_by_key_alone_couples_people(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_same_owner", lambda theirs, mine: np.ones(len(mine), bool))
    before, after = _foreign_key(["a", "b"]), _foreign_key(["b"])
    assert _of_b(before) != _of_b(after)


def test_a_row_that_names_a_key_of_somebody_else_finds_nothing() -> None:
    before, after = _foreign_key(["a", "b"]), _foreign_key(["b"])
    assert _of_b(before) == _of_b(after) == Counter({("nan",): 1})


def _foreign_key(persons: list[str]) -> sl.Database:
    """Return a database in which a drug of b names the visit of a."""
    visits = {
        "who": [who for who in persons if who == "a"],
        "id": [1] * ("a" in persons),
        "ward": [7] * ("a" in persons),
    }
    ward = sl.Number("ward", lower=0, upper=9, granularity=1)
    return sl.Database(
        {
            "visit": sl.Table(visits, schema=[sl.PersonId("who", max_rows=3), sl.Key("id"), ward]),
            "drug": sl.Table(
                {"who": ["b"], "visit": [1]}, schema=[sl.PersonId("who", max_rows=3), sl.Reference("visit", to="visit")]
            ),
        },
        name="clinic",
    )


def _of_b(database: sl.Database) -> Counter[tuple[Any, ...]]:
    return owned_rows(database.view("drug", columns=["visit.ward"]))["b"]


@pytest.mark.planted("every claimant owns a contested row")
def test_every_claimant_moves_several_people() -> None:
    """The rule as a statement: a key of a, claimed by b and c, counts three times, and all of them go with a."""
    small = Small(((("a", "1", 0), ("b", "1", 0), ("c", "1", 0)), (("1", None, 0),)))
    claims = small.claimants()[1]
    assert len(claims[0]) == 3
    left = small.without("a").levels[1]
    assert left == ()  # b and c lose the row that was counted for them, too: 3 people moved
    assert violations([small]) == (3, 0)


@pytest.mark.planted("persons matched by a hash")
def test_persons_matched_by_a_hash_couple_people(monkeypatch: pytest.MonkeyPatch) -> None:
    smalls = list(two_levels(most_top=2, most_low=1))
    assert violations(smalls)[1] == 0
    found = owners.Numbering.of_texts

    def hashed(self: owners.Numbering, texts: Any, *, grow: bool) -> Any:
        numbers = found(self, texts, grow=grow)
        return np.where(numbers == NONE, NONE, numbers % 2)

    monkeypatch.setattr(owners.Numbering, "of_texts", hashed)
    assert violations(smalls)[1] > 0


def _csv_ids(tmp_path: Any, cells: list[str]) -> set[str]:
    path = tmp_path / "visits.csv"
    path.write_text("who,x\n" + "".join(f"{cell},1\n" for cell in cells))
    x = sl.Number("x", lower=0, upper=1, granularity=1)
    database = sl.Database({"visit": sl.Table(path, schema=[sl.PersonId("who", max_rows=3), x])}, name="clinic")
    return set(owned_rows(database.view("visit")))


def test_the_cells_of_a_csv_file_are_texts_whatever_others_write(tmp_path: Any) -> None:
    assert _csv_ids(tmp_path, ["007", "7"]) == {"007", "7"}
    assert _csv_ids(tmp_path, ["007", "7", "x"]) == {"007", "7", "x"}


@pytest.mark.planted("types of CSV keys guessed")
def test_guessed_types_make_one_person_two(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = owners.Numbering.of_texts

    def guessed(self: owners.Numbering, texts: Any, *, grow: bool) -> Any:
        if all(cell is None or cell.isdigit() for cell in texts.cells):
            texts = type(texts)([None if cell is None else str(int(cell)) for cell in texts.cells], texts.places)
        return found(self, texts, grow=grow)

    monkeypatch.setattr(owners.Numbering, "of_texts", guessed)
    alone, together = _csv_ids(tmp_path, ["007", "7"]), _csv_ids(tmp_path, ["007", "7", "x"])
    assert together - {"x"} != alone


HOSTILE = ["", "007", "7", "ann", "ANN", "a ", "a", "\u00e9", "e\u0301", "1:2", None]


def test_hostile_ids_and_keys_stay_apart() -> None:
    """Rows of each id only; empty text and None identify no person."""
    keys = [f"k{place}" for place in range(len(HOSTILE))]
    x = sl.Number("x", lower=0, upper=99, granularity=1)
    database = sl.Database(
        {
            "order": sl.Table({"who": HOSTILE, "id": keys}, schema=[sl.PersonId("who", max_rows=3), sl.Key("id")]),
            "line": sl.Table(
                {"id": keys, "x": list(range(len(keys)))}, schema=[sl.PersonVia("id", to="order", max_rows=9), x]
            ),
        },
        name="shop",
    )
    expected = {who: Counter({(f"{place}.0",): 1}) for place, who in enumerate(HOSTILE) if who}
    assert owned_rows(database.view("line")) == expected


def test_parts_of_a_key_are_never_joined_into_one_text() -> None:
    parts = [sl.Key("one", "two")]
    orders = {"who": ["a", "b"], "one": ["x", "xy"], "two": ["yz", "z"]}
    database = sl.Database(
        {
            "order": sl.Table(orders, schema=[sl.PersonId("who", max_rows=3), *parts]),
            "line": sl.Table(
                {"one": ["x", "xy", "xyz"], "two": ["yz", "z", ""]},
                schema=[sl.PersonVia("one", "two", to="order", max_rows=9)],
            ),
        },
        name="shop",
    )
    assert {who: sum(rows.values()) for who, rows in owned_rows(database.view("line")).items()} == {"a": 1, "b": 1}


def _people(rows: dict[str, list[Any]], /, **folds: Any) -> dict[str, list[Any]]:
    columns: list[Any] = [
        sl.PersonId("who", max_rows=9),
        sl.Date("day", start="2024-01-01", end="2024-12-31"),
        sl.Number("cost", lower=-50, upper=50, granularity="0.5"),
        sl.Category("ward", ["x", "y"], other=None),
        sl.Label("drug"),
    ]
    ids = ["p", "q", "r"]
    database = sl.Database(
        {
            "person": sl.Table({"who": ids}, schema=[sl.PersonId("who", max_rows=1), sl.Key("who")]),
            "visit": sl.Table(rows, schema=columns),
        },
        name="clinic",
    )
    held = made_rows(sl.per_person(database, of="person", **folds))
    cells: dict[str, Any] = {**held.numbers, **held.texts}
    return {name: [None if cell != cell else cell for cell in cells[name].tolist()] for name in folds}


VISITS: dict[str, list[Any]] = {
    "who": ["p", "p", "p", "q", "z"],
    "day": ["2024-01-03", "2024-01-01", "2024-01-08", "2024-02-01", "2024-01-01"],
    "cost": [1.5, -2.0, None, 50, 3],
    "ward": ["x", "y", "y", None, "x"],
    "drug": ["b", "a", "b", "c", "a"],
}


def test_every_fold_has_its_value_and_its_value_over_no_rows() -> None:
    fold = sl.fold
    found = _people(
        VISITS,
        visits=fold.count("visit", upper=2),
        some=fold.any("visit", sl.col("cost") > 0),
        every=fold.all("visit", sl.col("cost") > 0),
        total=fold.sum("visit", "cost", lower=-1, upper=20),
        average=fold.mean("visit", "cost", granularity=1),
        least=fold.min("visit", "cost"),
        most=fold.max("visit", "ward"),
        early=fold.first("visit", "ward", order="day"),
        late=fold.last("visit", "drug", order="day"),
        kinds=fold.distinct("visit", "ward", upper=5),
        usual=fold.mode("visit", "drug"),
        spread=fold.span("visit", "day"),
        shortest=fold.gap("visit", "day"),
        longest=fold.gap("visit", "day", "largest"),
        none=fold.count("visit", upper=9, where=sl.col("cost") > 40, empty=7),
    )
    assert found == {
        "visits": [2, 1, 0],
        "some": ["true", "true", "false"],
        "every": ["false", "true", None],
        "total": [-0.5, 20, 0],
        "average": [-1, 50, None],  # -0.25 rounded down
        "least": [-2, 50, None],
        "most": ["y", None, None],
        "early": ["y", None, None],
        "late": ["b", "c", None],
        "kinds": [2, 0, 0],
        "usual": ["b", "c", None],
        "spread": [7, 0, None],
        "shortest": [2, None, None],
        "longest": [5, None, None],
        "none": [7, 1, 7],
    }


def test_ties_of_a_person_depend_on_nobody_else() -> None:
    """Ties between undeclared labels, broken independently of the labels of other persons."""
    folds = {
        "usual": sl.fold.mode("visit", "drug"),
        "late": sl.fold.last("visit", "drug", order="day"),
    }
    for place in range(40):
        mine: dict[str, list[Any]] = {"who": ["p", "p"], "day": ["2024-01-01"] * 2, "cost": [1, 1], "ward": ["x", "x"]}
        mine["drug"] = [f"m{place}", f"n{place}"]
        alone = _people(mine, **folds)
        more = {name: [*cells, *cells] for name, cells in mine.items()}
        more["who"], more["drug"] = ["p", "p", "q", "q"], [*mine["drug"], "a", f"mz{place}"]
        together = _people(more, **folds)
        assert {name: cells[0] for name, cells in alone.items()} == {name: cells[0] for name, cells in together.items()}


def test_the_order_of_rows_changes_nothing() -> None:
    folds = {
        "late": sl.fold.last("visit", "drug", order="ward"),
        "usual": sl.fold.mode("visit", "ward"),
        "total": sl.fold.sum("visit", "cost"),
    }
    turned = {name: cells[::-1] for name, cells in VISITS.items()}
    with pytest.raises(sl.errors.SchemaError, match="order of the fold"):
        _people(VISITS, **folds)
    folds["late"] = sl.fold.last("visit", "drug", order="cost")
    assert _people(VISITS, **folds) == _people(turned, **folds)


def test_sums_beyond_64_bits_are_clamped_last() -> None:
    from sidelight.aggregates.folds import _sums

    group, x = np.zeros(3000, np.int64), np.full(3000, 2**53, np.int64)
    assert _sums(group, x, 1).tolist() == [2**62]
    assert _sums(group, np.concatenate([x[:1500], -x[:1499], [-(2**53) + 5]]), 1).tolist() == [5]


@pytest.mark.parametrize("sign", [1, -1])
def test_no_number_of_rows_makes_a_sum_wrap(sign: int) -> None:
    from sidelight.aggregates.folds import _sums

    x = np.full(2**22 + 1, sign * 2**61)
    zeros = np.zeros(len(x), np.int64)
    assert _sums(zeros, x, 1).tolist() == [sign * 2**62]
    x[::2] = -x[::2]
    assert _sums(zeros, x, 1).tolist() == [-sign * 2**61]


def test_means_of_sums_beyond_64_bits_are_exact() -> None:
    from sidelight.aggregates.folds import _means

    column = sl.Number("m", lower=-(2**60), upper=2**60, granularity=1)
    for code in (2**60, 2**60 - 3, -(2**60)):
        x = np.full(40, code, np.int64)
        assert _means(np.zeros(40, np.int64), x, 1, column, Fraction(1)).codes.tolist() == [code]


def test_the_ties_that_check_counts_are_those_of_the_definition() -> None:
    """All databases of three levels with few rows: contested and dangling rows by sets of claimants."""
    from itertools import product

    from sidelight.aggregates.nonprivate_ties import nonprivate_ties

    keys, people = (None, "x", "y"), ("a", "b", None)
    orders = [((who, key),) for who, key in product(people, keys)]
    orders += [(("a", "x"), other) for other in product(people, keys)]
    seen: set[tuple[int, int]] = set()
    for above, middle, below in product(orders, list(product(keys, repeat=2)), keys):
        first = {"who": [who for who, _ in above], "id": [key for _, key in above]}
        second = {"to": ["x", middle[0]], "id": ["x", middle[1]]}
        database = sl.Database(
            {
                "order": sl.Table(first, schema=[sl.PersonId("who", max_rows=9), sl.Key("id")]),
                "line": sl.Table(second, schema=[sl.PersonVia("to", to="order", max_rows=9), sl.Key("id")]),
                "part": sl.Table({"to": [below, "y"]}, schema=[sl.PersonVia("to", to="line", max_rows=9)]),
            },
            name="shop",
        )
        claims, held = [{who} - {None} for who, _ in above], first["id"]
        for ties, named, own in (
            (0, None, first["id"]),
            (1, second["to"], second["id"]),
            (2, [below, "y"], [None, None]),
        ):
            if named is not None:
                claims = [
                    set().union(
                        *(claim for claim, key in zip(claims, held, strict=True) if key is not None and key == name)
                    )
                    for name in named
                ]
            held = own
            found = nonprivate_ties(database)[ties]
            assert found.contested == sum(len(claim) > 1 for claim in claims)
            assert found.dangling == sum(not claim for claim in claims)
            assert found.persons == len({min(claim) for claim in claims if len(claim) == 1})
            seen.add((min(found.contested, 1), min(found.dangling, 1)))
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}

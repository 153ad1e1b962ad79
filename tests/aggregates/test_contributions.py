"""Which rows of a person count: a fixed choice of their own rows, alike everywhere and not biased to any value."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from plain_statistics import grid_counts, row_count
from sidelight.aggregates import cell_counts
from sidelight.aggregates.contributions import (
    Persons,
    UnitCap,
    _places_of_rows,
    _places_within,
    _slices_of,
    cap_arrays,
    places_that_count,
)
from sidelight.aggregates.mix import PRIME, cube_round, linear_mix, mixed_keys, words_of
from sidelight.grid import CODE_LIMIT, FLOAT_CODE_LIMIT, Grid
from sidelight.records import Category, Number, PersonId, Table
from sidelight.records.person_key import person_key
from sidelight.records.rows import WholeIds

RANGE = ((-(2**61), 2**61), (0, 9))


def _named(people):
    ids = Persons()
    ids.fold(np.array(people, object), None)
    return ids, ids.numbers()


def kept(people, rows, k):
    codes = tuple(np.array([row[place] for row in rows], np.int64) for place in range(2))
    return Counter(zip(*(code.tolist() for code in cap_arrays(_named(people), codes, RANGE, k)), strict=True))


people_rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.tuples(st.integers(-3, 3) | st.integers(-(2**61), 2**61), st.integers(0, 1))),
    max_size=20,
)


@given(people_rows, st.integers(1, 4), st.randoms(use_true_random=False))
def test_order_and_other_people_do_not_matter(pairs, k, shuffler):
    shuffled = list(pairs)
    shuffler.shuffle(shuffled)
    together = kept([who for who, _ in shuffled], [row for _, row in shuffled], k)
    apart = Counter()
    for who in "abc":
        own = [row for person, row in pairs if person == who]
        mine = kept([who] * len(own), own, k)
        assert sum(mine.values()) == min(k, len(own))
        assert mine <= Counter(own)
        apart += mine
    assert together == apart


@given(st.integers(0, PRIME - 1), st.integers(0, PRIME - 1), st.integers(0, 2**31))
def test_a_round_is_a_permutation_in_small_numbers(first, second, constant):
    """x -> x**3 is one to one modulo the prime; the numbers stay far from 2**63."""
    a, b = (int(cube_round(np.array([x]), constant)[0]) for x in (first, second))
    assert (a == b) == (first == second)
    assert a == pow(first + constant, 3, PRIME)


def test_differences_of_codes_fit_into_int64() -> None:
    """Engines wrap or raise beyond: a grid whose codes lie further apart could fail a release by its rows."""
    for limit in (CODE_LIMIT, FLOAT_CODE_LIMIT):
        assert 2 * limit + 1 < 2**63


@given(st.integers(0, 2**60 - 1), st.integers(-(2**61), 2**61), st.integers(0, 9), st.integers(0, 2**31))
def test_the_mix_never_wraps(key, code, small, nth):
    arrays = [np.array([value]) for value in (key, code, small, nth)]
    found = int(linear_mix(arrays[0], (arrays[1], arrays[2]), RANGE, arrays[3])[0])
    assert found == linear_mix(key, (code, small), RANGE, nth)  # Python's integers cannot wrap
    assert 0 <= found < PRIME


@pytest.mark.parametrize(("width", "words"), [(0, 1), (1, 1), (2**20 - 1, 1), (2**20, 2), (2**40, 3), (2**61, 4)])
def test_words(width, words):
    assert words_of(width) == words


def test_the_choice_is_uniform_over_rows():
    """Many people with the same ten rows (0..6, and 7 three times), one row each: every row is equally likely."""
    values = [0, 1, 2, 3, 4, 5, 6, 7, 7, 7]
    people = [f"person {number}" for number in range(6000) for _ in values]
    table = Table({"v": np.array(values * 6000), "p": people}, schema=[Number("v"), PersonId("p", max_rows=1)])
    counts = grid_counts(table, "v", Grid(resolution=Fraction(1), first=0, last=7)).value
    expected = np.array([600.0] * 7 + [1800.0])
    assert counts.sum() == 6000
    assert stats.chisquare(counts, expected).pvalue > 1e-7
    tilted = expected * np.where(np.arange(8) < 4, 1.3, 1.0)
    assert stats.chisquare(counts, tilted / tilted.sum() * 6000).pvalue < 1e-7


def test_neighbouring_ids_choose_independently():
    """Whole-number ids in sequence: the choices of person i and person i + 1 are not related."""
    values = np.array([0, 1, 2, 3])
    chosen = [int(cap_arrays(_named([str(number)] * 4), (values,), ((0, 3),), 1)[0][0]) for number in range(4001)]
    pairs = np.histogram2d(chosen[:-1], chosen[1:], bins=4)[0]
    assert stats.chi2_contingency(pairs).pvalue > 1e-7


def test_whole_number_and_text_ids_are_the_same_people():
    rows = {"v": [1, 2, 3, 4, 5], "p": [7, 7, 7, 8, None]}
    schema = [Number("v"), PersonId("p", max_rows=2)]
    numbers = Table(rows, schema=schema)
    texts = Table(pl.DataFrame(rows).with_columns(pl.col("p").cast(pl.String)).lazy(), schema=schema)
    grid = Grid(resolution=Fraction(1), first=0, last=6)
    assert grid_counts(numbers, "v", grid).value.tolist() == grid_counts(texts, "v", grid).value.tolist()
    assert row_count(numbers).value == row_count(texts).value == 3


def test_rows_without_id_are_dropped():
    table = Table({"c": ["a"] * 4, "p": [None, "", "x", "x"]}, schema=[Category("c", ["a"]), PersonId("p", max_rows=5)])
    assert cell_counts(table, ["c"]).value.tolist() == [2, 0]


def test_dropped_rows_do_not_use_up_the_cap():
    values = np.array([np.nan] * 50 + [1.0, 1.0])
    table = Table({"v": values, "p": ["x"] * 52}, schema=[Number("v"), PersonId("p", max_rows=2)])
    assert grid_counts(table, "v", Grid(resolution=Fraction(1), first=0, last=2)).value.tolist() == [0, 2, 0]


@settings(max_examples=20)
@given(st.text())
def test_ids_of_any_text(text):
    assert 0 <= person_key(text) < 2**60


def test_lone_surrogates_do_not_raise():
    """Half of a surrogate pair, which identifies no person: its row is left out."""
    table = Table({"v": [1, 2], "p": ["\ud800", "a"]}, schema=[Number("v"), PersonId("p", max_rows=1)])
    assert row_count(table).value == 1


whole_rows = st.lists(
    st.tuples(
        st.sampled_from([-(2**63), -5, -1, 0, 1, 2**40, 2**63 - 1]) | st.integers(-3, 3) | st.none(),
        st.integers(-2, 2) | st.sampled_from([-(2**61), 2**61]),
    ),
    max_size=30,
)


@given(whole_rows, st.integers(1, 4), st.integers(1, 4), st.integers(0, 30))
def test_whole_numbers_choose_the_rows_that_their_texts_choose(pairs, k, slices, cut):
    """In one go, in slices of the persons, and where texts come after whole numbers."""
    codes = np.array([code for _, code in pairs], np.int64)
    texts = np.array([None if who is None else str(who) for who, _ in pairs], object)
    whole = WholeIds(
        np.array([0 if who is None else who for who, _ in pairs], np.int64),
        np.array([who is not None for who, _ in pairs], bool),
    )

    def chosen(batches, **slice_):
        ids = Persons(**slice_)
        kept_codes = np.concatenate([codes[rows][ids.fold(batch, None)] for rows, batch in batches])
        return Counter(cap_arrays((ids, ids.numbers()), (kept_codes,), RANGE[:1], k)[0].tolist())

    everything = slice(None)
    expected = chosen([(everything, texts)])
    assert chosen([(everything, whole)]) == expected
    assert sum((chosen([(everything, whole)], place=at, slices=slices) for at in range(slices)), Counter()) == expected
    first, second = slice(None, cut), slice(cut, None)
    assert chosen([(first, whole[first]), (second, whole[second])]) == expected
    assert chosen([(first, whole[first]), (second, texts[second])]) == expected
    assert chosen([(first, texts[first]), (second, whole[second])]) == expected
    assert whole.tolist() == texts.tolist()


@given(people_rows, st.integers(1, 4))
def test_one_sort_chooses_as_running_numbers_do(pairs, k):
    """Where no two keys tie, the running numbers among equal rows are not needed; where some do, they are asked."""
    ids, person = _named([who for who, _ in pairs])
    codes = tuple(np.array([row[place] for _, row in pairs], np.int64) for place in range(2))
    given_rows = (ids.keys(person), person, codes, codes, RANGE, UnitCap(rows=k))
    once, slowly = (
        Counter(zip(person[at].tolist(), *(code[at].tolist() for code in codes), strict=True))
        for at in (_places_of_rows(*given_rows), _places_within(*given_rows))
    )
    assert once == slowly


@pytest.mark.parametrize("ids", [np.arange(10**5), np.arange(10**5) << 40, np.arange(10**5) * -(2**17)])
def test_slices_are_about_as_large_as_each_other(ids):
    """A file larger than memory is held a slice at a time: ids whose low bits are zero must not all be in one."""
    sizes = np.bincount(_slices_of(ids.astype(np.int64), 8).astype(np.int64), minlength=8)
    assert len(sizes) == 8
    assert sizes.max() < 2 * sizes.min()


def _by_definition(person, codes, ranges, cap):
    """Apply the three limits one after the other, person by person, as the module says."""
    found = []
    for who in sorted(set(person)):
        rows = sorted(row for one, row in zip(person, codes, strict=True) if one == who)
        numbered = [(row, rows[:place].count(row)) for place, row in enumerate(rows)]

        def mix(row, nth, upto=None, who=who):
            parts = [np.array([code]) for code in row[:upto]]
            key = np.array([person_key(str(who))])
            return int(mixed_keys(key, parts, ranges[: len(parts)], np.array([nth]))[0])

        size = cap.group_codes
        groups = sorted({row[:size] for row in rows}, key=lambda group: (mix(group, 0, size), group))
        if cap.limits_groups:  # a limit of as many groups as rows adds no constraint
            numbered = [each for each in numbered if each[0][:size] in groups[: cap.groups]]
        order = sorted(numbered, key=lambda each: (mix(*each), each[0]))
        order = [
            each
            for place, each in enumerate(order)
            if cap.per_group is None
            or sum(other[0][:size] == each[0][:size] for other in order[:place]) < cap.per_group
        ]
        found += [(who, row) for row, _ in order[: cap.rows]]
    return Counter(found)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), max_size=25),
    st.integers(1, 8),
    st.none() | st.integers(1, 4),
    st.none() | st.integers(1, 3),
    st.booleans(),
)
def test_shortcuts_choose_what_the_definition_chooses(rows, most, groups, per_group, valued):
    """Few groups, persons whom no limit touches, and equal rows of a group are treated apart."""
    person = [row[0] for row in rows]
    codes = [row[1:] if valued else row[1:2] for row in rows]
    ranges = ((0, 2), (0, 3))[: 1 + valued]
    cap = UnitCap(rows=most, group_codes=1, groups=groups, per_group=per_group)
    ids = Persons()
    ids.fold(WholeIds(np.array(person, np.int64)), None)
    arrays = tuple(np.array([row[place] for row in codes], np.int64) for place in range(1 + valued))
    at = places_that_count((ids, ids.numbers()), arrays, arrays, ranges, cap)
    assert Counter((person[place], codes[place]) for place in at) == _by_definition(person, codes, ranges, cap)

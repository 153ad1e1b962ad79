"""Teachers: whose rows they see, what they vote when little is to be seen, and what of it comes out."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.tree import DecisionTreeClassifier

from sidelight.errors import RangeError
from sidelight.stability.pate.teachers import (
    Failed,
    ballot,
    ballots,
    checked_key,
    class_indices,
    counted,
    lessons,
    rehearsed,
    shares_of,
    takes_missing,
)
from sidelight.stability.pate.typed_rows import form_of
from sidelight.stability.pate.work_folder import drawn_key

KEY = b"a key that everybody knows"
ids = st.one_of(st.integers(), st.text(), st.floats(), st.binary(), st.none(), st.booleans())


def records(n: int = 600, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str], np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 2)) + 2.0 * np.stack([y, -y], axis=1)
    asked = rng.normal(size=(30, 2)) * 2
    return x, y, [f"person {place}" for place in range(n)], asked


def votes_by_teacher(x: object, y: object, who: object, asked: np.ndarray, *, teacher: object = None) -> np.ndarray:
    taught = lessons(x, y, who, form_of(asked), classes=np.arange(3), teachers=20, key=KEY)
    cast = dict(ballots(teacher or GaussianNB(), taught, range(20), n_jobs=1))
    return np.stack([cast[number] for number in range(20)])


@settings(max_examples=50, deadline=None)
@given(st.lists(ids, max_size=30), ids, st.integers(0, 30))
def test_no_other_record_decides_about_a_records_teacher(others: list, newcomer: object, place: int) -> None:
    """A text among numbers, a missing id, anything: the teachers of all other records stay."""
    before = shares_of(others, teachers=17, key=KEY).tolist()
    place = min(place, len(others))
    after = shares_of([*others[:place], newcomer, *others[place:]], teachers=17, key=KEY).tolist()
    assert after[:place] + after[place + 1 :] == before


def test_an_id_is_the_same_however_it_is_stored() -> None:
    columns = [[1, 2, 3], [1.0, 2.0, 3.0], np.array([1, 2, 3], np.uint8), pd.Series([1.0, 2.0, 3.0]), ["1", "2", "3"]]
    assert len({tuple(shares_of(column, teachers=10**6, key=KEY)) for column in columns}) == 1
    assert shares_of(["one"], teachers=10**6, key=KEY) != shares_of([1], teachers=10**6, key=KEY)
    assert shares_of([2**53 + 4], teachers=10**6, key=KEY) != shares_of([2**53], teachers=10**6, key=KEY)


@pytest.mark.parametrize("ids", [range(1, 400), range(2**60 + 1, 2**60 + 400), range(-30, 0)])
@pytest.mark.parametrize("odd", [None, float("nan"), "a text", 2.5])
def test_one_odd_id_does_not_rename_the_others(ids: range, odd: object) -> None:
    """In an array or a frame it makes floats or texts of all of them."""
    plain = shares_of(list(ids), teachers=10**6, key=KEY).tolist()
    for column in (np.array([*ids]), np.array([*ids], object), pd.Series([*ids])):
        assert shares_of(column, teachers=10**6, key=KEY).tolist() == plain
    mixed: list = [*ids, odd]
    for column in (np.array(mixed, str if isinstance(odd, str) else None), pd.Series(mixed), mixed):
        assert shares_of(column, teachers=10**6, key=KEY).tolist()[:-1] == plain


def test_one_odd_label_does_not_change_the_others() -> None:
    labels = [0, 1, 1, 0, 2]
    for odd in ("broken", None, float("nan"), 1.5):
        for column in (np.array([*labels, odd]), pd.Series([*labels, odd]), [*labels, odd]):
            assert class_indices(column, np.arange(3)).tolist() == [*labels, -1]


def test_shares_are_even_and_another_key_shares_otherwise() -> None:
    shares = shares_of(range(20_000), teachers=50, key=KEY)
    counts = np.bincount(shares, minlength=50)
    statistic = ((counts - 400) ** 2 / 400).sum()
    assert chi2.sf(statistic, 49) > 1e-7
    assert (shares == shares_of(range(20_000), teachers=50, key=drawn_key())).mean() < 0.05


@pytest.mark.parametrize("key", [b"short", "a text of enough letters", b"x" * 65])
def test_keys_are_checked_and_never_shown(key: object) -> None:
    with pytest.raises(RangeError) as error:
        checked_key(key)  # type: ignore[arg-type]
    assert str(key) not in str(error.value)


@pytest.mark.parametrize("teacher", [GaussianNB(), DecisionTreeClassifier(), SGDClassifier(max_iter=5)])
def test_one_record_changes_one_teacher(teacher: object) -> None:
    """Also for teachers that draw: their randomness is their own."""
    x, y, who, asked = records()
    whole = votes_by_teacher(x, y, who, asked, teacher=teacher)
    for gone in (0, 299, 599):
        kept = np.arange(600) != gone
        fewer = votes_by_teacher(x[kept], y[kept], [w for p, w in enumerate(who) if p != gone], asked, teacher=teacher)
        changed = np.flatnonzero((whole != fewer).any(axis=1)).tolist()
        assert set(changed) <= {int(shares_of([who[gone]], teachers=20, key=KEY)[0])}


@pytest.mark.planted("rows shared out by their position")
def test_a_share_by_position_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: equal slices. The law of the test above finds it out."""
    monkeypatch.setattr(
        "sidelight.stability.pate.teachers.shares_of",
        lambda who, *, teachers, key: np.arange(len(who)) * teachers // len(who),
    )
    x, y, who, asked = records()
    changed = (votes_by_teacher(x, y, who, asked) != votes_by_teacher(x[1:], y[1:], who[1:], asked)).any(axis=1)
    assert changed.sum() > 1


class _Sharing(ClassifierMixin, BaseEstimator):
    """Draws from NumPy's global stream as many numbers as it has rows, and votes by the next one."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Sharing:
        np.random.normal(size=len(x))
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.random.choice(self.classes_, size=len(x))


def test_a_global_stream_does_not_carry_from_one_teacher_to_the_next() -> None:
    x, y, who, asked = records()
    np.random.seed(3)
    state = np.random.get_state()[1].copy()
    whole = votes_by_teacher(x, y, who, asked, teacher=_Sharing())
    fewer = votes_by_teacher(x[1:], y[1:], who[1:], asked, teacher=_Sharing())
    assert (whole != fewer).any(axis=1).sum() <= 1
    assert (np.random.get_state()[1] == state).all()  # the caller's own stream is where it was


def test_parallel_teachers_vote_as_one_after_another() -> None:
    x, y, who, asked = records(200)
    taught = lessons(x, y, who, form_of(asked), classes=np.arange(3), teachers=6, key=KEY)
    alone = dict(ballots(DecisionTreeClassifier(), taught, range(6), n_jobs=1))
    together = dict(ballots(DecisionTreeClassifier(), taught, range(6), n_jobs=2))
    assert alone.keys() == together.keys()
    assert all((alone[number] == together[number]).all() for number in alone)


def cast(x: np.ndarray, labels: list[int], teacher: object = None) -> object:
    """Return what one teacher votes that has all rows."""
    model, form, classes = teacher or GaussianNB(), form_of(np.zeros((4, 2))), np.array(["a", "b"])
    named = [classes[label] for label in labels]
    taught = lessons(x, named, range(len(x)), form, classes=classes, teachers=1, key=KEY)
    mine = taught.of(0, missing=takes_missing(model))
    return ballot(model, *mine, form.like, classes=classes, seed=1)


def test_shares_that_teach_nothing_have_a_declared_vote() -> None:
    assert cast(np.empty((0, 2)), []).tolist() == [0] * 4
    assert cast(np.ones((3, 2)), [1, 1, 1]).tolist() == [1] * 4
    gaps = np.array([[1.0, np.nan], [np.inf, 1.0], [0.0, 0.0]])
    assert cast(gaps, [0, 0, 1]).tolist() == [1] * 4  # two rows cannot be used


def test_teachers_that_take_missing_values_get_them() -> None:
    gaps = np.array([[1.0, np.nan], [np.inf, 1.0], [0.0, 0.0]])
    assert cast(gaps, [0, 0, 1], DecisionTreeClassifier()).shape == (4,)
    assert cast(gaps[:2], [0, 1], DecisionTreeClassifier()).tolist() == [0] * 4  # an infinite number is not missing


class _Talking(NearestCentroid):
    def fit(self, x: np.ndarray, y: np.ndarray) -> _Talking:
        print("secret", x.sum())
        print("secret", x.sum(), file=sys.stderr)
        warnings.warn(f"secret {x.sum()}", stacklevel=2)
        if x.sum() > 100:
            raise ValueError(f"secret {x.sum()}")
        return super().fit(x, y)


def test_what_a_teacher_says_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cast(np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1], _Talking())
    assert "secret" not in "".join(capsys.readouterr())


def test_a_failure_is_handed_back_and_not_raised() -> None:
    assert isinstance(cast(np.array([[0.0, 0.0], [100.0, 1.0]]), [0, 1], _Talking()), Failed)


class _Leaving(NearestCentroid):
    def fit(self, x: np.ndarray, y: np.ndarray) -> _Leaving:
        sys.exit(1)


class _Forgetful(NearestCentroid):
    def predict(self, x: np.ndarray) -> np.ndarray:
        return super().predict(x)[:-1]


@pytest.mark.parametrize("teacher", [_Leaving(), _Forgetful()])
def test_a_teacher_that_leaves_or_forgets_has_failed(teacher: object) -> None:
    assert isinstance(cast(np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1], teacher), Failed)


def test_a_rehearsal_says_of_public_rows_what_is_wrong_with_a_teacher() -> None:
    queries, classes = np.eye(2), np.array(["a", "b"])
    assert rehearsed(NearestCentroid(), queries, classes=classes) is None
    failed = rehearsed(SGDClassifier(loss="no such loss"), queries, classes=classes)
    assert failed is not None
    assert "no such loss" in failed.cause


def test_labels_are_looked_up_one_by_one() -> None:
    classes = np.array(["1", "2"])
    assert class_indices(["1", 2, None, ["1"], "2", float("nan")], classes).tolist() == [0, 1, -1, -1, 1, -1]
    assert class_indices(["1", "2.0", "three", b"1", [1]], np.array([1, 2])).tolist() == [0, 1, -1, 0, -1]
    assert class_indices(np.array([0.0, 1.0, np.nan, 7.0]), np.array([0, 1])).tolist() == [0, 1, -1, -1]
    assert class_indices(pd.Series([True, False]), np.array([0, 1])).tolist() == [1, 0]


def test_a_list_of_rows_is_read_cell_by_cell() -> None:
    """One text in one row does not turn the rows of others into texts."""
    x, y, who, asked = records(200)
    rows = x.tolist()
    rows[0] = ["broken", 1.0]
    whole = votes_by_teacher(x, y, who, asked)
    broken = votes_by_teacher(rows, y, who, asked)
    assert (whole != broken).any(axis=1).sum() <= 1


def test_votes_are_counted() -> None:
    assert counted([np.array([0, 2]), np.array([0, 1]), np.array([1, 1])], 3).tolist() == [[2, 1, 0], [0, 2, 1]]

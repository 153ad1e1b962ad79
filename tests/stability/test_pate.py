"""`sl.PATE` from the outside: labels, student, prices, refusals, bad input, and what is not to be seen."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import sidelight as sl
from sidelight.errors import BudgetError, KeyReusedError, RangeError, SchemaError, TeacherError
from sidelight.stability.pate import ClearVotes
from sidelight.testing import SeededSession

NAMES = np.array(["cat", "dog", "owl"])


def animals(n: int = 3000, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    rows = rng.normal(size=(n, 2)) + 8.0 * np.stack([kind == 1, kind == 2], axis=1)
    return rows, NAMES[kind], [f"owner {place}" for place in range(n)]


X, Y, IDS = animals()
QUERIES, TRUTH, _ = animals(60, seed=1)


def pate(**rest: object) -> sl.PATE:
    usual = {"teachers": 60, "classes": ["owl", "cat", "dog"], "noise_scale": 10, "n_jobs": 1}
    return sl.PATE(**{"teacher": NearestCentroid(), **usual, **rest})


def seeded(budget: sl.ApproxDP | sl.GDP | None = None, **rest: object) -> SeededSession:
    table = sl.Table({"row": [0.0]}, schema=[sl.Number("row")])
    return SeededSession(table, budget=budget or sl.GDP(4), seed="pate", **rest)


def fit(model: sl.PATE, **rest: object) -> sl.PATE:
    return model.fit(**{"X": X, "y": Y, "record_ids": IDS, "queries": QUERIES, **rest})


def test_labels_and_student() -> None:
    model = fit(pate(student=LogisticRegression(), session=seeded()))
    assert model.classes_.tolist() == ["cat", "dog", "owl"]
    assert (model.labels_ == TRUTH).mean() > 0.9
    assert model.score(X, Y) > 0.9
    assert model.predict_proba(X[:5]).shape == (5, 3)
    assert isinstance(model.release_, sl.Release)
    assert model.guarantee_.implies(sl.GDP("1.1"))  # the square root of 2 * 60 / 10**2
    assert not model.guarantee_.implies(sl.GDP("1.09"))
    assert model.price(60).epsilon == model.price(60).plain


def test_without_a_session_the_unit_is_a_record_id() -> None:
    model = fit(pate())
    assert "record_ids" in str(model.guarantee_.to_json())
    assert model.release_.private


@pytest.mark.parametrize("form", ["frame", "lists", "sparse"])
def test_rows_come_as_frames_lists_and_sparse(form: str) -> None:
    import scipy.sparse

    make = {"frame": lambda a: pd.DataFrame(a, columns=["x", "y"]), "lists": np.ndarray.tolist}
    into = make.get(form, scipy.sparse.csr_matrix)
    model = fit(pate(session=seeded()), X=into(X), y=pd.Series(Y), queries=into(QUERIES))
    assert (model.labels_ == TRUTH).mean() > 0.9
    assert (model.predict(into(QUERIES)) == TRUTH).mean() > 0.9


def test_a_proposal_from_public_expectation_costs_less_and_is_released() -> None:
    model = fit(pate(teachers=150, expected_votes=0.9, session=seeded(sl.ApproxDP(3, "1e-4"))))
    price = model.price(60)
    assert price.proposal == model.proposal_
    assert price.epsilon < 0.6 * price.plain
    assert isinstance(model.release_, sl.Release)


def test_a_refusal_is_paid_and_says_what_to_do() -> None:
    proposal = pate(teachers=150, expected_votes=0.9).price(60).proposal
    close = QUERIES * 0 + 4  # as far from each of the three kinds: teachers differ
    session = seeded(sl.ApproxDP(3, "1e-4"))
    before = session.spent
    model = fit(pate(student=LogisticRegression(), teachers=150, proposal=proposal, session=session), queries=close)
    assert isinstance(model.release_, sl.Refused)
    assert session.spent != before
    assert not hasattr(model, "labels_")
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError, match="proposal=None"):
            ask(X)
    refitted = fit(model.set_params(proposal=None, session=seeded()))
    assert refitted.predict(X[:2]).shape == (2,)  # an earlier refusal leaves nothing behind, nor does a release
    again = fit(model.set_params(proposal=proposal, session=seeded(sl.ApproxDP(3, "1e-4"))), queries=close)
    assert not hasattr(again, "student_")


def test_labels_of_one_class_make_a_constant_student() -> None:
    model = fit(pate(student=LogisticRegression(), session=seeded()), queries=np.tile([0.0, 0.0], (20, 1)))
    assert model.predict([[9, 9]]).tolist() == ["cat"]
    assert model.predict_proba([[9, 9]]).tolist() == [[1.0, 0.0, 0.0]]


def test_teachers_without_rows_vote_for_the_first_class_in_sorted_order() -> None:
    nobody = fit(
        pate(teachers=200, classes=["owl", "dog", "cat"], session=seeded()), X=X[:1], y=["owl"], record_ids=[1]
    )
    assert nobody.classes_[0] == "cat"
    assert set(nobody.labels_) == {"cat"}


def test_more_teachers_than_records_raise_nothing() -> None:
    model = fit(pate(session=seeded()), X=X[:10], y=Y[:10], record_ids=IDS[:10])
    assert model.labels_.shape == (60,)


def test_labels_that_are_not_declared_take_no_part() -> None:
    odd = Y.astype(object)
    odd[::7], odd[1::7], odd[2::7] = "unicorn", None, 3.5
    assert (fit(pate(session=seeded()), y=odd).labels_ == TRUTH).mean() > 0.9


def test_nothing_public_shows_votes_rows_or_the_key() -> None:
    """Everything that a fitted model holds is public input or released."""
    key = b"0123456789abcdef0123456789abcdef"
    model = fit(pate(), partition_key=key)
    assert len(model._form.like) == 0  # of the queries it keeps the types alone
    allowed = {"_form", "classes_", "n_features_in_", "proposal_", "release_", "guarantee_", "labels_", "student_"}
    assert set(vars(model)) - set(model.get_params(deep=False)) == allowed
    for shown in (repr(model), str(model.release_), model.release_.to_json(), pickle.dumps(model).decode("latin-1")):
        assert "owner" not in shown
        assert key.decode() not in shown
        assert "votes=" not in shown.replace("expected_votes=", "")
    assert pickle.loads(pickle.dumps(model)).predict(X[:3]).tolist() == model.predict(X[:3]).tolist()


def test_a_session_is_charged_once_and_never_copied() -> None:
    session = seeded()
    model = fit(pate(session=session))
    assert clone(model).session is session
    with pytest.raises(TypeError, match="session"):
        pickle.dumps(model)
    with pytest.raises(BudgetError):
        fit(pate(session=seeded(sl.GDP("0.01"))))


def test_a_ledger_key_returns_the_same_labels_for_nothing(tmp_path: object) -> None:
    table = sl.Table({"row": [0.0]}, schema=[sl.Number("row")], name="animals")
    session = sl.Session(table, budget=sl.GDP(2), ledger=f"sqlite:///{tmp_path}/budget.db")
    first = fit(pate(session=session), key="animals, first vote")
    spent = session.spent
    again = fit(pate(session=session), key="animals, first vote")
    assert again.release_.to_json() == first.release_.to_json()
    others: list[tuple[dict[str, object], dict[str, object]]] = [
        ({}, {"queries": QUERIES[::-1].copy()}),
        ({"classes": ["owl", "cat", "fox"]}, {}),
        ({"teacher": NearestCentroid(shrink_threshold=0.5)}, {}),
        ({"teachers": 61}, {}),
    ]
    for model, asked in others:  # labels of other queries, classes or teachers are not those that were paid for
        with pytest.raises(KeyReusedError, match="another request"):
            fit(pate(session=session, **model), key="animals, first vote", **asked)
    assert session.spent == spent


def test_a_ledger_key_is_refused_for_a_teacher_that_prints_alike(tmp_path: object) -> None:
    """scikit-learn leaves out the middle of a long pipeline when it prints one."""
    table = sl.Table({"row": [0.0]}, schema=[sl.Number("row")], name="animals")
    session = sl.Session(table, budget=sl.GDP(2), ledger=f"sqlite:///{tmp_path}/budget.db")

    def teacher(*, with_std: bool) -> Pipeline:
        scalers = [(f"{place:02d}_standard_scaler", StandardScaler(with_mean=False)) for place in range(12)]
        scalers.insert(6, ("differs", StandardScaler(with_std=with_std)))
        return Pipeline([("all", Pipeline([*scalers, ("model", NearestCentroid())]))])

    first = fit(pate(teacher=teacher(with_std=True), session=session), key="animals")
    spent = session.spent
    assert repr(teacher(with_std=True)) == repr(teacher(with_std=False))
    with pytest.raises(KeyReusedError, match="another request"):
        fit(pate(teacher=teacher(with_std=False), session=session), key="animals")
    again = fit(pate(teacher=teacher(with_std=True), session=session), key="animals")
    assert again.release_.to_json() == first.release_.to_json()
    assert session.spent == spent


class _Fragile(ClassifierMixin, BaseEstimator):
    """Fails where a share holds a certain row."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Fragile:
        if (x > 1000).any():
            raise ValueError(f"cannot stand {x.max()}")
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.repeat(self.classes_[:1], len(x))


def test_a_teacher_that_fails_votes_and_says_nothing(recwarn: pytest.WarningsRecorder, tmp_path: Path) -> None:
    """Whether one failed is a bit about a record: `fit` does not show it, the owner finds the cause in the folder."""
    broken = X.copy()
    broken[17] = 12345.0
    assert pate().on_failure == "first_class"
    for rows in (X, broken):
        model = pate(teacher=_Fragile(), student=NearestCentroid(), session=seeded())
        assert fit(model, X=rows, work_folder=tmp_path / str(len(rows[rows > 1000]))).labels_.shape == (60,)
    assert not recwarn.list
    assert [len(list((tmp_path / name).glob("*-failed.txt"))) for name in ("0", "2")] == [0, 1]


def test_raising_for_a_teacher_is_an_option_that_says_it_is_not_private() -> None:
    broken = X.copy()
    broken[17] = 12345.0
    session = seeded()
    before = session.spent
    with (
        pytest.warns(sl.NotPrivateWarning, match="exact bit about private rows"),
        pytest.raises(TeacherError, match=r"teacher [0-9]+ could not be trained; nothing was charged") as error,
    ):
        fit(pate(teacher=_Fragile(), session=session, on_failure="raise"), X=broken)
    assert 0 <= error.value.number < 60
    assert "12345" not in str(error.value)
    assert error.value.__cause__ is None
    assert session.spent == before


def test_what_is_wrong_with_a_teacher_comes_out_with_public_rows() -> None:
    with pytest.warns(UserWarning, match="could not be trained with the public queries.*penalty"):
        fit(pate(teacher=LogisticRegression(penalty="none at all"), student=NearestCentroid(), session=seeded()))


class _Afterthought(NearestCentroid):
    """Is trained with the labels that are dealt out, and not with others."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Afterthought:
        if y[:3].tolist() != ["cat", "dog", "owl"]:
            raise ValueError("fewer than five labels of a class")
        return super().fit(x, y)


@pytest.mark.parametrize(
    ("student", "message"),
    [
        (LogisticRegression(C=-1), "C"),
        (KNeighborsClassifier(61), "n_neighbors"),  # fits, and cannot predict
    ],
)
def test_a_student_that_cannot_be_trained_is_refused_before_the_charge(student: object, message: str) -> None:
    session = seeded()
    before = session.spent
    with pytest.raises(
        RangeError, match=f"(?s)student cannot be trained with the 60 public queries.*{message}.*Nothing"
    ):
        fit(pate(student=student, session=session))
    assert session.spent == before


def test_labels_stay_where_the_student_fails_after_the_charge() -> None:
    model = pate(student=_Afterthought(), session=seeded())
    with pytest.raises(RangeError, match="paid for and stand in labels_") as error:
        fit(model)
    assert error.value.charge_stands
    assert (model.labels_ == TRUTH).mean() > 0.9
    for ask in (model.predict, model.predict_proba):
        with pytest.raises(NotFittedError, match="there is no student"):
            ask(X)


@pytest.mark.parametrize(
    ("parameters", "arguments", "error", "message"),
    [
        ({"classes": None}, {}, RangeError, "declared"),
        ({"classes": ["cat"]}, {}, RangeError, "at least two"),
        ({"teachers": 1}, {}, RangeError, "teachers"),
        ({"noise_scale": -1}, {}, RangeError, "noise_scale"),
        ({"delta": 0}, {}, RangeError, "delta"),
        ({"teacher": None}, {}, RangeError, "teacher"),
        ({"teacher": NearestCentroid}, {}, RangeError, "not fitted"),
        ({"student": "forest"}, {}, RangeError, "student"),
        ({"on_failure": "ignore"}, {}, RangeError, "on_failure"),
        ({"session": "mine"}, {}, RangeError, "session"),
        ({"proposal": ClearVotes(budget=100, delta="1e-5")}, {}, RangeError, "leave the proposal out"),
        ({"proposal": ClearVotes(budget="1e-9", order=90, delta="1e-5")}, {}, RangeError, "even if all agreed"),
        ({"expected_votes": [[60.5, 0, 0]]}, {}, RangeError, "whole numbers"),
        ({"expected_votes": [[61, -1, 0]]}, {}, RangeError, "negative"),
        ({}, {"record_ids": None}, SchemaError, "Positions are no ids"),
        ({}, {"record_ids": IDS[1:]}, SchemaError, "same length"),
        ({}, {"y": Y[1:]}, SchemaError, "same length"),
        ({}, {"y": None}, SchemaError, "y"),
        ({}, {"queries": None}, SchemaError, "queries"),
        ({}, {"queries": QUERIES[:, :1]}, SchemaError, "columns"),
        ({}, {"queries": pd.DataFrame(QUERIES)}, SchemaError, "same form"),
        ({}, {"X": pd.DataFrame(X), "queries": pd.DataFrame(QUERIES, columns=["x", "y"])}, SchemaError, "by name"),
        ({}, {"X": X.astype("M8[s]")}, SchemaError, "real numbers"),
        ({}, {"X": iter(X)}, SchemaError, "must be a two-dimensional array"),
        ({}, {"queries": QUERIES[:0]}, SchemaError, "queries"),
        ({}, {"queries": QUERIES * np.nan}, SchemaError, "finite"),
        ({}, {"partition_key": b"short"}, RangeError, "16 to 64"),
        ({}, {"key": "entry", "session": None}, RangeError, "ledger"),
    ],
)
def test_bad_input_is_found_before_any_charge(
    parameters: dict, arguments: dict, error: type[Exception], message: str
) -> None:
    session = seeded(sl.ApproxDP(9, "1e-4"))
    before = session.spent
    chosen = {"session": arguments.pop("session", session), **parameters}
    with pytest.raises(error, match=message):
        fit(pate(**chosen), **arguments)
    assert session.spent == before


def test_a_model_that_was_not_fitted_says_so() -> None:
    with pytest.raises(NotFittedError):
        pate().predict(X)


def test_digits_are_too_few_and_that_is_an_honest_refusal() -> None:
    """1,197 digits, 130 teachers of nine rows each: a proposal that hopes for agreement is refused."""
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    model = sl.PATE(NearestCentroid(), teachers=130, classes=range(10), noise_scale=10, expected_votes=0.95, n_jobs=1)
    assert model.price(200).proposal is not None
    model.set_params(session=seeded(sl.ApproxDP(4, "1e-4")))
    model.fit(rows[:1197], labels[:1197], record_ids=range(1197), queries=rows[1197:1397])
    assert isinstance(model.release_, sl.Refused)


class _Writing(NearestCentroid):
    """Uses the standard output as ordinary code does."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Writing:
        sys.stdout.reconfigure(line_buffering=True)
        sys.stderr.buffer.write("of a model".encode(sys.stderr.encoding))
        return super().fit(x, y)


def test_teachers_and_student_may_use_all_of_the_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    model = fit(pate(teacher=_Writing(), student=_Writing(), session=seeded()))
    assert (model.labels_ == TRUTH).mean() > 0.9
    assert capsys.readouterr().err == "of a model"  # once, of the student: the labels are released


class _Waiting(NearestCentroid):
    """In one thread it begins first and ends first, in the other it begins second and ends second, and prints."""

    first_began, second_began, first_ended = threading.Event(), threading.Event(), threading.Event()

    def fit(self, x: np.ndarray, y: np.ndarray) -> _Waiting:
        if threading.current_thread().name == "first":
            self.first_began.set()
            assert self.second_began.wait(10)
        else:
            self.second_began.set()
            assert self.first_ended.wait(10)
            print("of a model")
        return super().fit(x, y)


def test_two_fits_at_once_say_nothing_and_the_program_is_heard_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    fits = [
        threading.Thread(target=lambda: fit(pate(teacher=_Waiting(), student=NearestCentroid())), name=name)
        for name in ("first", "second")
    ]
    fits[0].start()
    assert _Waiting.first_began.wait(10)
    fits[1].start()
    fits[0].join(60)
    _Waiting.first_ended.set()
    fits[1].join(60)
    print("an answer")
    assert capsys.readouterr() == ("an answer\n", "")


def test_a_terminal_shows_how_many_teachers_are_trained_and_a_pipe_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io
    from functools import partial

    import rich.console

    fit(pate(session=seeded()))
    assert "".join(capsys.readouterr()) == ""
    screen = io.StringIO()
    monkeypatch.setattr(
        rich.console, "Console", partial(rich.console.Console, file=screen, force_terminal=True, width=60)
    )
    fit(pate(session=seeded()))
    assert "teachers trained" in screen.getvalue()
    assert "60/60" in screen.getvalue()
    assert ":" not in screen.getvalue().replace("\x1b", "")  # no times


def test_a_model_with_expected_votes_prints() -> None:
    assert "expected_votes=array" in repr(pate(expected_votes=np.tile([60, 0, 0], (3, 1))))

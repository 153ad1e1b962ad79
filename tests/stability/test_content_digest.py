"""Whether what a teacher is made of decides the name of a question, at any depth, and nothing else does."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from functools import cached_property, lru_cache, partial, partialmethod
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.stability.pate import content_digest as content_digest_module
from sidelight.stability.pate.content_digest import content_digest
from sidelight.stability.pate.work_folder import question_digest

QUERIES = np.arange(12.0).reshape(6, 2)


def digest(teacher: Any = None, queries: Any = QUERIES, classes: Any = (0, 1, 2)) -> str:
    return question_digest(teacher or NearestCentroid(), queries, np.array(classes), teachers=20)


def long_pipeline(*, with_std: bool) -> Pipeline:
    """Return one whose `repr` is cut where the step lies that differs."""
    around = [(f"{place:02d}_standard_scaler", StandardScaler(with_mean=False)) for place in range(13)]
    steps = [*around[:6], ("differs", StandardScaler(with_std=with_std)), *around[6:], ("model", NearestCentroid())]
    return Pipeline([("all", Pipeline(steps))])


def frozen(scale: float) -> Pipeline:
    return make_pipeline(FrozenEstimator(StandardScaler().fit(scale * QUERIES)), NearestCentroid())


def function(made: Any) -> Pipeline:
    return make_pipeline(FunctionTransformer(made), NearestCentroid())


def times(factor: float) -> Callable[[Any], Any]:
    return lambda x: x * factor


def made_here(factor: int) -> Any:
    class Local(NearestCentroid):
        @property
        def scale(self) -> int:
            return factor

    return Local()


def with_members(factor: int) -> Any:
    """Return a teacher of a class whose members are no functions, and one of them what only methods have."""

    class Local(NearestCentroid):
        signs = (factor, 1)
        around = (np.float64(factor), [factor], {"scaler": StandardScaler(with_mean=bool(factor))})

        def scaled(self, by: int, x: Any) -> Any:
            return x * by

        twice = partialmethod(scaled, factor)

        @cached_property
        def scale(self) -> int:
            return factor

    return Local()


def cached_function(factor: float) -> Any:
    @lru_cache
    def cached(x: Any) -> Any:
        return x * factor

    return cached


def marked_function(factor: float) -> Any:
    def marked(x: Any) -> Any:
        return x * marked.factor  # type: ignore[attr-defined]

    marked.factor = factor  # type: ignore[attr-defined]
    return marked


def with_middle(value: float) -> Any:
    priors = np.full(2000, 1 / 2000)
    priors[1000] = value
    return make_pipeline(StandardScaler(), GaussianNB(priors=priors))


def output(kind: str) -> Any:
    return make_pipeline(StandardScaler(), NearestCentroid()).set_output(transform=kind)


PRIORS = np.array([0.98, 0.01, 0.01])
DIFFERENT: dict[str, tuple[Any, Any]] = {
    "a step in the middle": (long_pipeline(with_std=True), long_pipeline(with_std=False)),
    "the ninth digit": (
        make_pipeline(GaussianNB(priors=PRIORS)),
        make_pipeline(GaussianNB(priors=PRIORS + np.array([-1e-9, 1e-9, 0]))),
    ),
    "the middle of an array": (with_middle(0.1), with_middle(0.2)),
    "the type of an array": (GaussianNB(priors=np.zeros(2, np.int64)), GaussianNB(priors=np.zeros(2))),
    "the shape of an array": (GaussianNB(priors=np.zeros((2, 3))), GaussianNB(priors=np.zeros((3, 2)))),
    "arrays in lists": (
        VotingClassifier([("a", GaussianNB(priors=PRIORS))], weights=[np.arange(2000)]),
        VotingClassifier([("a", GaussianNB(priors=PRIORS))], weights=[np.arange(2000) + (np.arange(2000) == 1000)]),
    ),
    "the code of a lambda": (function(lambda x: x + 1), function(lambda x: x + 2)),
    "what a function closes over": (function(times(2.0)), function(times(2.0 + 1e-15))),
    "what a partial function is given": (function(partial(np.multiply, 2.0)), function(partial(np.multiply, 3.0))),
    "a function of a library": (function(np.log1p), function(np.sqrt)),
    "the code of a local class": (made_here(1), made_here(2)),
    "the members of a local class": (with_members(0), with_members(1)),
    "the code of a cached function": (function(cached_function(2.0)), function(cached_function(3.0))),
    "what a function holds": (function(marked_function(2.0)), function(marked_function(3.0))),
    "a random state": (
        DecisionTreeClassifier(random_state=np.random.RandomState(1)),
        DecisionTreeClassifier(random_state=np.random.RandomState(2)),
    ),
    "what a frozen step learned": (frozen(1.0), frozen(2.0)),
    "the output of a step": (output("pandas"), output("default")),
    "a kernel": (GaussianProcessClassifier(RBF(1.0)), GaussianProcessClassifier(RBF(1.0 + 1e-6))),
    "a dictionary": (
        LogisticRegression(class_weight={0: 1.0, 1: 2.0}),
        LogisticRegression(class_weight={0: 1.0, 1: 2.0 + 1e-12}),
    ),
    "columns": (
        make_pipeline(ColumnTransformer([("a", StandardScaler(), [0])]), NearestCentroid()),
        make_pipeline(ColumnTransformer([("a", StandardScaler(), [1])]), NearestCentroid()),
    ),
    "a number and its text": (DecisionTreeClassifier(max_depth=1), DecisionTreeClassifier(max_depth="1")),
    "where texts end": (
        make_pipeline(ColumnTransformer([("a", StandardScaler(), ["ab", "c"])])),
        make_pipeline(ColumnTransformer([("a", StandardScaler(), ["a", "bc"])])),
    ),
}


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_teachers_that_differ_have_different_digests(pair: tuple[Any, Any]) -> None:
    one, other = pair
    assert digest(one) != digest(other)


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_a_copy_of_a_teacher_has_its_digest(pair: tuple[Any, Any]) -> None:
    for each in pair:
        assert digest(each) == digest(each)
        assert digest(clone(each)) == digest(each)


@pytest.mark.parametrize("make", [made_here, with_members, times, cached_function, marked_function])
def test_what_is_made_again_alike_has_one_digest(make: Callable[[int], Any]) -> None:
    one, other = ({"key": make(2)} for _ in range(2))
    assert content_digest(one) == content_digest(other) != content_digest({"key": make(3)})


FRAME = {"a": [1.0, 2.0], "b": [3.0, 4.0]}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pd.DataFrame(FRAME), pd.DataFrame({"b": FRAME["a"], "a": FRAME["b"]})),
        (pl.DataFrame(FRAME), pl.DataFrame({"b": FRAME["a"], "a": FRAME["b"]})),
        (
            pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=["x", "y"])}),
            pd.DataFrame({"a": pd.Categorical(["x", "y"], categories=["y", "x", "z"])}),
        ),
        (csr_array(np.eye(3)[:, :2]), csr_array(np.eye(3)[:, [0, 1, 1]] * [1, 1, 0])),
        (np.array([["1", "x"]], object), np.array([[1, "x"]], object)),
        (QUERIES, QUERIES.reshape(4, 3)),
        (QUERIES, QUERIES.astype(np.float32)),
    ],
)
def test_queries_that_differ_have_different_digests(one: Any, other: Any) -> None:
    assert digest(queries=one) != digest(queries=other)


def test_what_is_the_same_has_the_same_digest() -> None:
    fitted = DecisionTreeClassifier().fit(QUERIES, [0, 1] * 3)
    assert digest(fitted) == digest(DecisionTreeClassifier())  # teachers are trained from the start
    assert digest(LogisticRegression(C=1.0)) == digest(LogisticRegression())  # so a new parameter changes no key
    assert digest(queries=np.asfortranarray(QUERIES)) == digest()
    for made in (lambda: pd.DataFrame(FRAME), lambda: pl.DataFrame(FRAME), lambda: csr_array(np.eye(3))):
        asked = made()
        before = digest(queries=asked)
        _ = asked.has_canonical_format if isinstance(asked, csr_array) else asked["a"].sum()
        assert (
            before
            == digest(queries=asked)
            == digest(queries=made())
            == digest(queries=pickle.loads(pickle.dumps(made())))
        )


def test_another_process_finds_the_same_digest() -> None:
    program = f"""
        import sys
        sys.path.insert(0, {__file__.rpartition("/")[0]!r})
        import test_content_digest as own
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer

        class Script(own.NearestCentroid):
            names = "several"

            def fit(self, x, y):
                return super().fit(-x, y)

        print([own.digest(each) for pair in own.DIFFERENT.values() for each in pair])
        print(own.digest(make_pipeline(FunctionTransformer(lambda x: x in {{"a", "b", "c"}}), Script())))
        print(own.digest(own.DecisionTreeClassifier(max_features={{"a", "b", "c"}})))
    """
    texts = {
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


class _Holding(BaseEstimator):
    def __init__(self, held: object = None) -> None:
        self.held = held


def test_what_cannot_be_copied_is_never_taken_for_another() -> None:
    lock = threading.Lock()
    assert digest(_Holding(lock)) != digest(_Holding(lock))


def test_objects_that_hold_themselves_have_a_digest() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    other: list[Any] = [2]
    other.append(other)
    assert digest(_Holding(ring)) == digest(_Holding(ring)) != digest(_Holding(other))
    names = _Holding()
    names.held = {"whole": names, "set": {names}}
    assert digest(names) == digest(names)


class _Endless:
    def __reduce_ex__(self, protocol: Any) -> tuple[Any, tuple[Any]]:
        return _Endless, (_Endless(),)


class _Linked:
    def __init__(self, before: object) -> None:
        self.before = before

    def __getstate__(self) -> object:
        return _whole_chain(self)


def _whole_chain(link: Any) -> object:
    return None if link is None else [_whole_chain(link.before)]


def _nested(around: Callable[[Any], Any], times: int) -> Any:
    found = None
    for _ in range(times):
        found = around(found)
    return found


@pytest.mark.parametrize(
    "held",
    [_nested(lambda part: [part], 10_000), _nested(_Linked, 10_000), _Endless()],
    ids=["deep", "chain", "endless"],
)
def test_what_is_nested_too_deeply_is_refused_before_a_charge(held: object) -> None:
    with pytest.raises(RangeError, match="nested more deeply"):
        digest(_Holding(held))
    session = sl.Session(sl.Table({"row": [0.0]}, schema=[sl.Number("row")]), budget=sl.GDP(9))
    before = str(session.spent)
    model = sl.PATE(_Deep(held), teachers=4, classes=[0, 1], noise_scale=9, n_jobs=1, session=session)
    with pytest.raises(RangeError, match="nested more deeply"):
        model.fit(QUERIES, [0, 1] * 3, record_ids=list(range(6)), queries=QUERIES)
    assert str(session.spent) == before


@pytest.mark.parametrize(
    "around",
    [
        lambda part: [part, part],
        lambda part: (part, part),
        lambda part: {"a": part, "b": part},
        lambda part: frozenset({(part, 1), (part, 2)}),
        lambda part: _Holding([part, part]),
    ],
    ids=["lists", "tuples", "dicts", "sets", "objects"],
)
def test_parts_that_are_shared_again_and_again_are_refused_before_a_charge(
    around: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds the one before it twice: the digest would be of 2**30 parts."""
    monkeypatch.setattr(content_digest_module, "_MOST_STEPS", 20_000)
    held = _nested(around, 30)
    with pytest.raises(RangeError, match="too many parts to be compared"):
        digest(_Holding(held))
    session = sl.Session(sl.Table({"row": [0.0]}, schema=[sl.Number("row")]), budget=sl.GDP(9))
    before = str(session.spent)
    model = sl.PATE(_Deep(held), teachers=4, classes=[0, 1], noise_scale=9, n_jobs=1, session=session)
    with pytest.raises(RangeError, match="too many parts to be compared"):
        model.fit(QUERIES, [0, 1] * 3, record_ids=list(range(6)), queries=QUERIES)
    assert str(session.spent) == before


def test_long_lists_that_are_shared_are_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_digest_module, "_MOST_STEPS", 20_000)
    with pytest.raises(RangeError, match="too many parts to be compared"):
        content_digest([list(range(10_000))] * 30)


def test_digests_are_those_of_earlier_versions() -> None:
    """A ballot or a stored answer is found again by them: shared parts, loops and all kinds of containers."""
    shared: Any = [1, "a"]
    for _ in range(5):
        shared = [shared, (shared,)]
    loop: list[Any] = [1]
    loop.append(loop)
    mixed = {"a": (1, 2.5, None), "b": {"c": frozenset({1, 2})}}
    assert [content_digest(each) for each in (shared, loop, mixed, [1, True, b"x", [[]], []])] == [
        "99001d841ab8a96e3809b4209b0a47fcf52979c63970730ddb8e7c81976a221d",
        "7a51ed6026cc8e5e75c79519766ca56a4adac1d47862720e0a5a6797c8f9a9e4",
        "950d6427518d6392858e7ec271f773e36bb3f2251a89dc40faa0793a20d54771",
        "6d81abb01455b7d743ee4417c0b99d4529e48efbbd984179a209e15f9fc79efa",
    ]
    assert content_digest(np.arange(6.0).reshape(2, 3)).startswith("130bc2e706284509")


class _Deep(NearestCentroid):
    def __init__(self, held: object = None) -> None:
        super().__init__()
        self.held = held

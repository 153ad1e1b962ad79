"""Teachers of one process and their random streams: no other teacher touches them, whoever started it."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_backend, parallel_config
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from sidelight.stability.pate.teachers import ballot, ballots, lessons
from sidelight.stability.pate.typed_rows import form_of

KEY = b"a key that everybody knows"
ASKED = np.zeros((20, 2))
X = np.random.default_rng(0).normal(size=(240, 2))
Y = np.arange(240) % 2
WHO = [f"person {place}" for place in range(240)]


class Drawing(ClassifierMixin, BaseEstimator):
    """Votes by NumPy's global stream; a share with an odd row restarts it again and again."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Drawing:
        self.classes_ = np.unique(y)
        for _ in range(100 if (x > 50).any() else 5):
            if (x > 50).any():
                np.random.seed(0)
            time.sleep(0.001)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.random.choice(self.classes_, size=len(x))


class Telling(ClassifierMixin, BaseEstimator):
    """Votes for the second class where it is not in the process that it is told."""

    def __init__(self, process: int = 0) -> None:
        self.process = process

    def fit(self, x: np.ndarray, y: np.ndarray) -> Telling:
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.classes_[int(os.getpid() != self.process)])


def votes(*, odd: bool = False, n_jobs: int = 1, teacher: object = None) -> np.ndarray:
    x, y, who = (np.vstack([X, [99.0, 0.0]]), [*Y, 1], [*WHO, "odd"]) if odd else (X, Y, WHO)
    taught = lessons(x, y, who, form_of(ASKED), classes=np.arange(2), teachers=12, key=KEY)
    cast = dict(ballots(teacher or Drawing(), taught, range(12), n_jobs=n_jobs))
    return np.stack([cast[number] for number in range(12)])


def changed(one: np.ndarray, other: np.ndarray) -> int:
    return int((one != other).any(axis=1).sum())


SURROUNDINGS = {
    "parallel_backend": lambda: parallel_backend("threading", n_jobs=2),
    "parallel_config": lambda: parallel_config("threading", n_jobs=2),
    "prefer": lambda: parallel_config(prefer="threads", n_jobs=2),
    "require": lambda: parallel_config(require="sharedmem", n_jobs=2),
    "instance": lambda: parallel_config(joblib.parallel.ThreadingBackend(), n_jobs=2),
}


@pytest.mark.parametrize("surrounding", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_teachers_train_in_processes_whatever_surrounds_the_call(surrounding: type[AbstractContextManager]) -> None:
    with surrounding():
        assert (votes(n_jobs=2, teacher=Telling(os.getpid())) == 1).all()


def test_a_record_changes_one_teacher_where_threads_are_asked_for() -> None:
    alone = votes()
    with parallel_backend("threading", n_jobs=2):
        assert changed(alone, votes(n_jobs=2)) == 0
        assert changed(alone, votes(odd=True, n_jobs=2)) == 1


@pytest.mark.filterwarnings("ignore:Loky-backed parallel loops")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_fits_in_threads_of_one_process_do_not_touch_each_other(n_jobs: int) -> None:
    """With more jobs, too: below its threads joblib starts no processes, and trains where it is."""
    alone = votes()
    np.random.seed(3)
    state = np.random.get_state()[1].copy()
    together = Parallel(n_jobs=3, backend="threading")(
        delayed(votes)(odd=odd, n_jobs=n_jobs) for odd in (False, True, False)
    )
    assert [changed(alone, each) for each in together] == [0, 1, 0]
    assert (np.random.get_state()[1] == state).all()


class Waiting(GaussianNB):
    """Waits while it is fitted, until a test says that it may go on."""

    begun, may_end = threading.Event(), threading.Event()

    def fit(self, x: np.ndarray, y: np.ndarray) -> Waiting:
        self.begun.set()
        self.may_end.wait(60)
        return super().fit(x, y)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_that_is_forked_while_a_teacher_trains_can_train_its_own() -> None:
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(ballot, Waiting(), X, Y, ASKED, classes=np.arange(2), seed=1)
        assert Waiting.begun.wait(60)
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # it would wait for a thread that it does not have
            os._exit(0 if len(ballot(Drawing(), X, Y, ASKED, classes=np.arange(2), seed=1)) == 20 else 1)
        _, status = os.waitpid(child, 0)
        Waiting.may_end.set()
        assert len(found.result()) == 20
    assert status == 0

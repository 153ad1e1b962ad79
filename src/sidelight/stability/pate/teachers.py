"""Teachers: each is trained on its own share of the records, and votes on every public query.

What one teacher does depends on its own share and its own seed, never on another's: that is what makes one record
change one teacher. Shares for which no classifier can be trained have a declared vote, so that what lies in a share
does not decide whether `fit` raises; what a classifier prints or warns while it trains is private and goes nowhere.
"""

from __future__ import annotations

import io
import random  # noqa: TID251 - a teacher's randomness, not noise
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.stability.pate.partition import cells_of, shares_of, teacher_seed

Ballot = NDArray[np.int32]  # a class index for every query


@dataclass(frozen=True, kw_only=True, repr=False)
class Lessons:
    """The private records by teacher, and the public queries. Rows with a label that is not declared take no part."""

    rows: Any
    classes: NDArray[Any]
    queries: Any
    labels: NDArray[np.int64]  # class indices, -1 for a label that is not declared
    shares: NDArray[np.int64]
    key: bytes

    def of(self, number: int) -> tuple[Any, NDArray[np.int64]]:
        """Return the rows and labels of one teacher."""
        from sklearn.utils import _safe_indexing

        mine = np.flatnonzero((self.shares == number) & (self.labels >= 0))
        return _safe_indexing(self.rows, mine), self.labels[mine]


def lessons(
    rows: Any, targets: Any, record_ids: Any, queries: Any, *, classes: NDArray[Any], teachers: int, key: bytes
) -> Lessons:
    """Share the records out. Never raises for a value; cells of a list of rows are read one by one."""
    if isinstance(rows, list | tuple):
        from sidelight.regression.estimators.examples import Examples

        rows, _ = Examples(rows, np.empty(0), int(queries.shape[1])).read()
    return Lessons(
        rows=rows,
        classes=classes,
        queries=queries,
        labels=class_indices(targets, classes),
        shares=shares_of(record_ids, teachers=teachers, key=key),
        key=key,
    )


def class_indices(targets: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of every label among the declared classes, -1 for any other."""
    places = {label: place for place, label in enumerate(classes.tolist())}

    def place(cell: Any) -> int:
        return places.get(cell, -1) if isinstance(cell, str | Real | np.bool_) else -1

    return np.array([place(cell) for cell in cells_of(targets)], np.int64)


@dataclass(frozen=True)
class Failed:
    """A teacher that could not be trained; the cause is private."""

    cause: str


def ballots(teacher: Any, taught: Lessons, numbers: Sequence[int], *, n_jobs: int) -> Iterator[tuple[int, Any]]:
    """Train these teachers, in `n_jobs` processes, and yield the ballot (or `Failed`) of each as it is ready."""
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    # max_nbytes: no private row is written to a temporary file
    pool = Parallel(n_jobs=n_jobs, return_as="generator_unordered", max_nbytes=None)
    with _sent_once(taught.queries) as queries:
        tasks = (
            delayed(_numbered_ballot)(
                number,
                teacher,
                *taught.of(number),
                queries,
                classes=taught.classes,
                seed=teacher_seed(number, key=taught.key),
            )
            for number in numbers
        )
        yield from pool(tasks)


@contextmanager
def _sent_once(queries: Any) -> Iterator[Any]:
    """Let large public queries be read by all processes from one file instead of being sent to each teacher."""
    if not isinstance(queries, np.ndarray) or queries.dtype == object or queries.nbytes < 2**20:
        yield queries
        return
    with TemporaryDirectory() as folder:
        file = Path(folder) / "queries.npy"
        np.save(file, queries)
        yield np.load(file, mmap_mode="r")


def _numbered_ballot(number: int, *args: Any, **rest: Any) -> tuple[int, Ballot | Failed]:
    return number, ballot(*args, **rest)


def ballot(
    teacher: Any, rows: Any, labels: NDArray[np.int64], queries: Any, *, classes: NDArray[Any], seed: int
) -> Ballot | Failed:
    """Train one teacher on its share and return its votes.

    A share without rows votes for the first class; a share of one class votes for that class.
    """
    asked = int(queries.shape[0])
    try:
        with _in_private(seed):
            usable = _usable(rows, missing=takes_missing(teacher))
            rows, labels = rows[usable], labels[usable]
            present = np.unique(labels)
            if len(present) < 2:
                return np.full(asked, present[0] if len(present) else 0, np.int32)
            model = _seeded(teacher, seed).fit(rows, classes[labels])
            # a model can only say what it was taught; anything else would be a vote for the first class
            return np.maximum(class_indices(model.predict(queries), classes), 0).astype(np.int32)
    except Exception:
        return Failed(traceback.format_exc())


def counted(ballots_cast: Sequence[Ballot], classes: int) -> NDArray[np.int64]:
    """Return the votes: one row a query, one column a class."""
    cast = np.stack(ballots_cast)
    return np.stack([(cast == place).sum(axis=0) for place in range(classes)], axis=1)


def _seeded(teacher: Any, seed: int) -> Any:
    """Return an unfitted copy whose open random states have the teacher's seed."""
    from sklearn.base import clone

    model = clone(teacher)
    if hasattr(model, "get_params"):
        names = [name for name in model.get_params() if name == "random_state" or name.endswith("__random_state")]
        model.set_params(**{name: seed for name in names if model.get_params()[name] is None})
    return model


@contextmanager
def _in_private(seed: int) -> Iterator[None]:
    """Give the teacher global random streams of its own, and let nothing that it says come out."""
    ours, plain = np.random.get_state(), random.getstate()  # noqa: TID251 - a teacher's randomness, not noise
    np.random.seed(seed)  # noqa: TID251
    random.seed(seed)
    silence = io.StringIO()
    try:
        with warnings.catch_warnings(), redirect_stdout(silence), redirect_stderr(silence):
            warnings.simplefilter("ignore")
            yield
    finally:
        np.random.set_state(ours)  # noqa: TID251
        random.setstate(plain)


def takes_missing(teacher: Any) -> bool:
    """Say whether a classifier takes rows with missing numbers."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(teacher).input_tags.allow_nan)
    except Exception:  # a classifier that is not scikit-learn's own
        return False


def _usable(rows: Any, *, missing: bool) -> Any:
    """Say which rows can be learned from, each for itself; frames and sparse rows are taken as they are."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind == "f":
        return ~np.isinf(rows).any(axis=1) if missing else np.isfinite(rows).all(axis=1)
    return slice(None)

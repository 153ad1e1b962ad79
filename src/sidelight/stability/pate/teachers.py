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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.records.cells import number_of, text_of
from sidelight.stability.pate.partition import cells_of, shares_of, teacher_seed
from sidelight.stability.pate.typed_rows import Form, TypedRows

Ballot = NDArray[np.int32]  # a class index for every query
#: Public rows of each class in a rehearsal at least, and all together at most where there are more.
_REHEARSED_ROWS, _MOST_REHEARSED = 6, 200


@dataclass(frozen=True, kw_only=True, repr=False)
class Lessons:
    """The private records by teacher, and the public queries. Rows with a label that is not declared take no part."""

    rows: TypedRows
    classes: NDArray[Any]
    queries: Any
    labels: NDArray[np.int64]  # class indices, -1 for a label that is not declared
    shares: NDArray[np.int64]
    key: bytes

    def of(self, number: int, *, missing: bool) -> tuple[Any, NDArray[np.int64]]:
        """Return the rows of one teacher that it can learn from, also with `missing` numbers or not, and labels."""
        mine = np.flatnonzero((self.shares == number) & (self.labels >= 0))
        mine = mine[self.rows.usable(mine, missing=missing)]
        return self.rows.take(mine), self.labels[mine]


def lessons(
    rows: Any, targets: Any, record_ids: Any, form: Form, *, classes: NDArray[Any], teachers: int, key: bytes
) -> Lessons:
    """Share the records out, with the types of the public queries. Never raises for a value."""
    return Lessons(
        rows=form.read(rows),
        classes=classes,
        queries=form.like,
        labels=class_indices(targets, classes),
        shares=shares_of(record_ids, teachers=teachers, key=key),
        key=key,
    )


def class_indices(targets: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of every label among the declared classes, -1 for any other.

    The declared classes say whether labels are numbers or texts; 1, 1.0 and "1" are then the same label, however the
    labels of others made the column be stored.
    """
    texts = classes.dtype.kind not in "fiub"
    read: Callable[[Any], Any] = text_of if texts else number_of
    places = {read(label): place for place, label in enumerate(classes.tolist())}

    def place(cell: Any) -> int:
        return places.get(read(cell), -1) if issubclass(type(cell), (str, Real, np.bool_)) else -1

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
        missing = takes_missing(teacher)
        tasks = (
            delayed(_numbered_ballot)(
                number,
                teacher,
                *taught.of(number, missing=missing),
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
            present = np.unique(labels)
            if len(present) < 2:
                return np.full(asked, present[0] if len(present) else 0, np.int32)
            model = _seeded(teacher, seed).fit(rows, classes[labels])
            # a model can only say what it was taught; anything else would be a vote for the first class
            said = np.maximum(class_indices(model.predict(queries), classes), 0).astype(np.int32)
            return said if len(said) == asked else Failed(f"the teacher said {len(said)} labels of {asked} queries")
    except (Exception, SystemExit):  # whatever a teacher does with its rows, only its own votes may show it
        return Failed(traceback.format_exc())


def rehearsed(teacher: Any, queries: Any, *, classes: NDArray[Any]) -> Failed | None:
    """Train a teacher with public queries and labels dealt out in turn, and return why it could not be, if so.

    What is wrong with the teacher itself comes out here, where everything is public; with private rows nothing may.
    """
    from sklearn.utils import _safe_indexing

    places = np.arange(max(_REHEARSED_ROWS * len(classes), min(int(queries.shape[0]), _MOST_REHEARSED)))
    found = ballot(
        teacher,
        _safe_indexing(queries, places % int(queries.shape[0])),
        places % len(classes),
        queries,
        classes=classes,
        seed=0,
    )
    return found if isinstance(found, Failed) else None


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
    """Return the teacher global random streams of its own, and let nothing that it says come out."""
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
    """Return whether a classifier takes rows with missing numbers."""
    from sklearn.utils import get_tags

    try:
        return bool(get_tags(teacher).input_tags.allow_nan)
    except Exception:  # a classifier that is not scikit-learn's own
        return False

"""Teachers: each is trained on its own share of the records, and votes on every public query.

What one teacher does depends on its own share and its own seed, never on another's: that is what makes one record
change one teacher. The global random streams are those of a process, so a process trains one teacher at a time. Shares
for which no classifier can be trained have a declared vote, so that what lies in a share does not decide whether `fit`
raises; what a classifier warns, logs or writes to the standard streams while it trains is private and discarded
(`session/printed_output.py` says what is not).

Which teacher a record belongs to is a keyed hash of its id, and nothing else. A share by position (every 250th row,
equal slices) is a privacy bug: one row more moves all rows behind it to other teachers, and the votes of all of them
change instead of one. Here the other records have no say. The key is secret although the guarantee does not need it to
be: without it no one can choose ids that fill one teacher's share with their own rows, or tell from an id whose rows a
vote came from.
"""

from __future__ import annotations

import hashlib
import os
import random  # noqa: TID251 - a teacher's randomness, not noise
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SchemaError
from sidelight.fork_guard import temporary_folder
from sidelight.session.printed_output import suppress_all_output
from sidelight.session.suppressed_output import suppress_output
from sidelight.stability.pate.cell_forms import canonical_text, has_form
from sidelight.stability.pate.columns import cells_of, one_column
from sidelight.stability.pate.typed_rows import Form, TypedRows, form_of

Ballot = NDArray[np.int32]  # a class index for every query

#: Public rows of each class in a rehearsal at least, and all together at most where there are more.
_REHEARSED_ROWS, _MOST_REHEARSED = 6, 200


#: What a missing id, or one of a kind without an identity, becomes: such records count as one person's.
_NOBODY = b"?"

#: By process: in a child, a thread that it does not have may hold the parent's.
_one_at_a_time: dict[int, threading.RLock] = {}


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
    """Share the records out, with the types of the public queries. Never raises or warns for a value."""
    read = form.read(rows)
    with suppress_output():  # as it does for the rows
        return Lessons(
            rows=read,
            classes=classes,
            queries=form.like,
            labels=class_indices(targets, classes),
            shares=shares_of(record_ids, teachers=teachers, key=key),
            key=key,
        )


def class_indices(targets: Any, classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of every label among the declared classes, -1 for any other.

    1, 1.0, "1", "01", True and "True" are the same label, however the labels of others made the column be stored.
    """
    places = _places_of(classes)

    def place(cell: Any) -> int:
        return places.get(canonical_text(cell) or "", -1) if has_form(cell) else -1

    return np.array([place(cell) for cell in cells_of(targets)], np.int64)


def separate_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Return declared classes that readers of files keep separate.

    Raises:
        RangeError: Two of them are one label, such as "1" and "01", or one is a missing label, such as "nan".
    """
    if None in (forms := [canonical_text(label) for label in classes.tolist()]):
        raise RangeError("a class must not be empty or spell 'nan', which readers of files take for a missing label")
    if len(_places_of(classes)) < len(classes):
        twice = [label for label, form in zip(classes.tolist(), forms, strict=True) if forms.count(form) > 1]
        raise RangeError(
            f"the classes {twice!r} are not all different: a reader of files makes one number of some of them, as it "
            "does of '1', '01' and 'true', and labels are compared as such; rename the labels"
        )
    return classes


def _places_of(classes: NDArray[Any]) -> dict[str | None, int]:
    return {canonical_text(label): place for place, label in enumerate(classes.tolist())}


@dataclass(frozen=True)
class Failed:
    """A teacher that could not be trained; the cause is private, except in a rehearsal."""

    cause: str

    @property
    def last_line(self) -> str:
        """What was raised, without where."""
        return self.cause.strip().splitlines()[-1]


def ballots(teacher: Any, taught: Lessons, numbers: Sequence[int], *, n_jobs: int) -> Iterator[tuple[int, Any]]:
    """Train these teachers, in `n_jobs` processes, and yield the ballot (or `Failed`) of each as it is ready."""
    from joblib import Parallel, delayed  # type: ignore[import-untyped]

    # backend: a surrounding `joblib.parallel_config`, or a search that runs fits in workers, would choose threads.
    # max_nbytes: no private row is written to a temporary file
    pool = Parallel(n_jobs=n_jobs, backend="loky", return_as="generator_unordered", max_nbytes=None)
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
    with temporary_folder() as folder:
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
    rows = max(_REHEARSED_ROWS * len(classes), min(int(queries.shape[0]), _MOST_REHEARSED))
    return _rehearsed(teacher, queries, classes=classes, rows=rows, dealt=len(classes))


def rehearsed_student(student: Any, queries: Any, *, classes: NDArray[Any]) -> Failed | None:
    """Train a student as `rehearsed` does a teacher: with the rows that it will learn from, each once.

    Fewer classes are dealt out where queries are few: released labels need not have them all.
    """
    rows = int(queries.shape[0])
    dealt = min(len(classes), max(2, rows // _REHEARSED_ROWS))
    return _rehearsed(student, queries, classes=classes, rows=rows, dealt=dealt)


def _rehearsed(model: Any, queries: Any, *, classes: NDArray[Any], rows: int, dealt: int) -> Failed | None:
    from sklearn.utils import _safe_indexing

    places = np.arange(rows)
    taught = _safe_indexing(queries, places % int(queries.shape[0]))
    found = ballot(model, taught, places % dealt, queries, classes=classes, seed=0)
    return found if isinstance(found, Failed) else None


def counted(ballots_cast: Sequence[Ballot], classes: int) -> NDArray[np.int64]:
    """Return the votes: one row per query, one column per class."""
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
    """Return the teacher global random streams of its own, and let nothing that it says come out.

    The streams are those of the process, so no other teacher is in it meanwhile: not one of another fit in another
    thread, and not one that joblib runs here because it cannot start processes.
    """
    with _one_at_a_time.setdefault(os.getpid(), threading.RLock()):
        ours, plain = np.random.get_state(), random.getstate()  # noqa: TID251 - a teacher's randomness, not noise
        np.random.seed(seed)  # noqa: TID251
        random.seed(seed)
        try:
            with suppress_all_output():
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


def checked_key(key: bytes) -> bytes:
    """Return a key that hashing can use, or say what it must be; the message never shows it."""
    if not isinstance(key, bytes) or not 16 <= len(key) <= 64:
        raise RangeError("partition_key must be 16 to 64 secret bytes; leave it out to have one drawn")
    return key


def shares_of(record_ids: Any, *, teachers: int, key: bytes) -> NDArray[np.int64]:
    """Return the teacher of every record. No id raises: whatever it is, it has a teacher.

    1, 1.0, "1" and "01" are one id: in a column of ids one text makes texts of all numbers, and one missing id makes
    floats of them, and neither may move anybody else. Records with equal ids have the same teacher, and so have those
    whose ids agree as floats: that two persons share a teacher is harmless, that a person moves is not.

    >>> first = shares_of(["ann", "bob", "cai"], teachers=100, key=b"sixteen bytes or more")
    >>> later = shares_of(["bob", "cai"], teachers=100, key=b"sixteen bytes or more")
    >>> first[1:].tolist() == later.tolist()
    True
    """
    ids = cells_of(record_ids)
    found = np.empty(len(ids), np.int64)
    for place, cell in enumerate(ids):
        digest = hashlib.blake2b(_identity(cell), digest_size=16, key=key, person=b"sidelight/share").digest()
        found[place] = int.from_bytes(digest, "big") % teachers  # off from uniform by 2**-100
    return found


def teacher_seed(number: int, *, key: bytes) -> int:
    """Return the seed of a teacher's own randomness: it repeats after an interruption and depends on no record."""
    digest = hashlib.blake2b(str(number).encode(), digest_size=4, key=key, person=b"sidelight/seed").digest()
    return int.from_bytes(digest, "big")


def _identity(cell: Any) -> bytes:
    """Return what an id is, whatever the ids of others made of its type; a tuple is the ids that it is made of."""
    parts = [_id_text(part) for part in cell] if type(cell) is tuple else [_id_text(cell)]
    texts = [part for part in parts if part is not None]
    if len(texts) < len(parts) or not texts:
        return _NOBODY
    whole = f"s{texts[0]}" if len(texts) == 1 else "t" + "".join(f"{len(text)}:{text}" for text in texts)
    return whole.encode("utf-8", "surrogatepass")


def _id_text(cell: Any) -> str | None:
    text = canonical_text(cell) if has_form(cell) else None
    return None if text in ("inf", "-inf") else text


def simulate_votes(
    teacher: Any,
    rows: Any,
    targets: Any,
    queries: Any,
    *,
    classes: Any,
    teachers: int,
    rows_a_teacher: int,
    rng: np.random.Generator,  # noqa: TID251 - simulation
) -> NDArray[np.int64]:
    """Return the votes on `queries` of simulated teachers, each taught with public rows drawn at random.

    Rows may serve several teachers: their votes agree a little more than those of real ones if public rows are few.
    """
    form, declared = form_of(queries), separate_classes(np.unique(np.asarray(classes)))
    public, labels = form.read(rows), class_indices(one_column(targets, name="targets"), declared)
    missing = takes_missing(teacher)
    if not 1 <= rows_a_teacher <= len(labels):
        raise RangeError(f"rows_a_teacher must be from 1 to the {len(labels)} public rows, got {rows_a_teacher}")
    cast = []
    for number in range(teachers):
        mine = rng.choice(len(labels), rows_a_teacher, replace=False)
        mine = mine[(labels[mine] >= 0) & public.usable(mine, missing=missing)]
        found = ballot(teacher, public.take(mine), labels[mine], form.like, classes=declared, seed=number)
        if isinstance(found, Failed):
            raise RangeError(f"the teacher cannot be trained with {rows_a_teacher} public rows:\n{found.cause}")
        cast.append(found)
    return counted(cast, len(declared))


def public_queries(queries: Any, *, teacher: Any) -> Form:
    """Check public inputs, which may be looked at, and return the form that they give to the private ones."""
    if queries is None:
        raise SchemaError("fit wants queries=...: public inputs that the teachers label and the student learns from")
    form = form_of(queries)
    asked = int(form.like.shape[0])
    if asked < 1:
        raise SchemaError("queries must have rows and columns, as X has, got no row")
    public = form.read(form.like)
    if not public.usable(np.arange(asked), missing=takes_missing(teacher)).all():
        raise SchemaError("queries must be finite numbers, and some are not; leave those rows out, they are public")
    return form

"""`sl.PATE`: a classifier taught by the noisy votes of many teachers, as a scikit-learn estimator.

Teachers see private records and vote on public queries; the votes are released as labels, once, with noise;
the student sees public queries and released labels only, so it may be shown to anybody. Votes are no attribute of
anything that stays.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from sidelight.errors import NotPrivateWarning, RangeError, SidelightWarning, TeacherError
from sidelight.guarantees import Amount, Claims
from sidelight.noise import OSEntropy
from sidelight.progress import progress
from sidelight.records import Number, PersonId, Schema, Table
from sidelight.regression.estimators.goal import declared_classes
from sidelight.release import Outcome, Refused
from sidelight.session import Session
from sidelight.session.accounts import OneOffAccount
from sidelight.session.paid_estimator import PaidEstimator
from sidelight.session.pipeline import release_through
from sidelight.session.query import prepare_query
from sidelight.stability.pate.labels import LabelPlan, NoisyLabels, label_claims
from sidelight.stability.pate.proposals import ClearVotes, VotePrice
from sidelight.stability.pate.teachers import (
    Ballot,
    Failed,
    Lessons,
    ballots,
    checked_key,
    counted,
    lessons,
    public_queries,
    rehearsed,
    rehearsed_student,
    separate_classes,
)
from sidelight.stability.pate.typed_rows import Form, labels_and_ids
from sidelight.stability.pate.work_folder import WorkFolder, drawn_key, plan_digest, question_digest

#: Without a session the protected unit is all rows of one record id, however many.
_ANY_ROWS = 2**20

_LABELS_STAND = (
    "The labels are paid for and stand in labels_: train any classifier with the queries and them. Fitting again with "
    "another student costs nothing where a work_folder or a key of a ledger keeps the labels"
)


class PATE(PaidEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # untyped library
    """Label public queries by a private vote of teachers, and train a student with the labels.

    Guarantee: for adding or removing all rows of one record id, that of `sl.stability.pate.NoisyLabels`: plain Gaussian
    noise, or with a `proposal` its `price` after a private test, or a refusal that costs the same. It is in
    `guarantee_`; `price` says it before any row is opened. Fitting again is another release.

    Accuracy: the teachers' majority, up to noise of `noise_scale` votes on each count. The student cannot be better
    than its labels; teachers should agree clearly on the queries.

    A record's teacher is a keyed hash of its id, never its position. Rows with a label that is not declared, or with
    numbers that are not finite (unless the teacher takes missing values), take no part; a teacher without rows votes
    for the first class in sorted order (`classes_[0]`), one whose rows have one class votes for it. None of this is
    reported.

    Args:
        teacher: Any scikit-learn classifier, not fitted; public. Every teacher is a copy with a seed of its own.
        student: The classifier that is trained with the labels; a copy of `teacher` if None.
        teachers: How many; public. More teachers see fewer rows each and are hidden better.
        classes: The declared labels.
        noise_scale: The standard deviation of the noise on each vote count.
        delta: The delta of proposals, and at which prices are compared.
        proposal: None or `ClearVotes`; "auto" is the cheapest that `expected_votes` suggest, or none.
        expected_votes: A public guess for "auto": vote counts of public or simulated teachers (`simulate_votes`), or
            the share of teachers who will agree. Never the private votes.
        on_failure: A teacher that cannot be trained votes for `classes_[0]`, and nothing says so ("first_class").
            What is wrong with the teacher itself comes out in a rehearsal with the public queries, as a warning.
            "raise" names such a teacher, charges and releases nothing: NOT PRIVATE, because that `fit` raised is an
            exact bit about private rows that is not paid for. For rows that are public or generated.
        n_jobs: Processes of this machine that train teachers, whatever `joblib.parallel_config` says; -1 for one per
            core. With 1 they train in this process, one at a time.
        session: The budget to charge; record ids must then name what its table protects.

    >>> from sklearn.neighbors import NearestCentroid
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 3000)
    >>> X = rng.normal(size=(3000, 2)) + 3 * y[:, None]
    >>> public = rng.normal(size=(40, 2)) + 3 * rng.integers(0, 2, (40, 1))
    >>> model = PATE(NearestCentroid(), teachers=100, classes=[0, 1], noise_scale=20, n_jobs=1)
    >>> _ = model.fit(X, y, record_ids=[f"patient {i}" for i in range(3000)], queries=public)
    >>> model.predict([[0, 0], [3, 3]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        teacher: Any = None,
        student: Any = None,
        *,
        teachers: int = 250,
        classes: Any = None,
        noise_scale: Amount = 40,
        delta: Amount = "1e-5",
        proposal: ClearVotes | Literal["auto"] | None = "auto",
        expected_votes: Any = None,
        on_failure: Literal["first_class", "raise"] = "first_class",
        n_jobs: int = -1,
        session: Session | None = None,
    ) -> None:
        self._store(locals())

    def price(self, queries: int) -> VotePrice:
        """Return what labels for this number of queries cost, and whether something will be tested. Opens no row."""
        return self._plan(self._declared()).price(queries)

    def fit(
        self,
        X: Any,  # noqa: N803  # as scikit-learn names it
        y: Any,
        *,
        record_ids: Any = None,
        queries: Any = None,
        work_folder: str | Path | None = None,
        partition_key: bytes | None = None,
        key: str | None = None,
        resume: bool = False,
    ) -> Self:
        """Train the teachers, charge, release the labels of the public `queries`, and train the student.

        Args:
            X, y: The private records.
            record_ids: One id per row, which the record keeps whatever other records there are; rows of one person
                share one. A number, a text, a date, a UUID, or a tuple of those. Positions are no ids.
            queries: Public inputs, with the columns of X.
            work_folder: A private folder that keeps the ballots of trained teachers and then the outcome; after an
                interruption the same call goes on there. An outcome is taken from it without a session, or where this
                session's ledger has its entry. Without it nothing is written.
            partition_key: 16 to 64 secret bytes that share records out; drawn from the operating system if None.
            key, resume: As for `Session.release`, for a session with a ledger.
        """
        classes = self._declared()
        plan = self._plan(classes)
        self._check_models()
        form = public_queries(queries, teacher=self.teacher)
        asked = form.like
        targets, ids = labels_and_ids(X, y, record_ids, form)
        if partition_key is not None:
            checked_key(partition_key)
        price = plan.price(int(asked.shape[0]))
        label_claims(price.queries, self.noise_scale, price.proposal)
        self._check_session()
        if self.session is None and key is not None:
            raise RangeError("a key names an entry of a ledger, and there is none; pass a session with a ledger")
        question = question_digest(self.teacher, asked, classes, teachers=self.teachers)
        self._rehearse(asked, classes)

        folder = None if work_folder is None else WorkFolder.at(work_folder)
        with nullcontext() if folder is None else folder.alone():
            secret = partition_key or drawn_key() if folder is None else folder.partition_key(partition_key)
            taught = lessons(X, targets, ids, form, classes=classes, teachers=self.teachers, key=secret)
            votes = counted(self._ballots(taught, folder), len(classes))
            # rows of one person share an id, and so a teacher: that is what record_ids are for
            query = NoisyLabels(
                votes=votes,
                noise_scale=self.noise_scale,
                proposal=price.proposal,
                teachers_per_unit=1,
                question=question,
            )
            outcome = self._release(query, folder, key=key, resume=resume)
        return self._take(outcome, classes=classes, form=form, proposal=price.proposal)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the student's predictions."""
        return np.asarray(self._student().predict(self._form.alike(X)))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the student's probabilities, one column for each declared class; 0 for one that no label had."""
        student = self._student()
        found = np.asarray(student.predict_proba(self._form.alike(X)))
        out = np.zeros((len(found), len(self.classes_)))
        out[:, np.searchsorted(self.classes_, student.classes_)] = found
        return out

    def _declared(self) -> NDArray[Any]:
        return separate_classes(declared_classes(self.classes))

    def _plan(self, classes: NDArray[Any]) -> LabelPlan:
        return LabelPlan(
            teachers=self.teachers,
            classes=len(classes),
            noise_scale=self.noise_scale,
            delta=self.delta,
            proposal=self.proposal,
            expected_votes=self.expected_votes,
        )

    def _check_models(self) -> None:
        for name, model in (("teacher", self.teacher), ("student", self.student)):
            if model is None and name == "student":
                continue
            if not hasattr(model, "fit") or not hasattr(model, "predict") or isinstance(model, type):
                raise RangeError(
                    f"{name} must be a classifier that is not fitted, such as NearestCentroid(), got "
                    f"{model.__name__ if isinstance(model, type) else type(model).__name__}"
                )
        if self.on_failure not in ("raise", "first_class"):
            raise RangeError(f"on_failure must be 'first_class' or 'raise', got {self.on_failure!r}")

    def _rehearse(self, queries: Any, classes: NDArray[Any]) -> None:
        """Find out with public rows what is wrong with the models; with private ones nothing may be said."""
        if self.on_failure == "raise":
            warnings.warn(
                "on_failure='raise' is not private: whether fit raises is an exact bit about private rows that is "
                "not paid for. Take it for public or generated rows only",
                NotPrivateWarning,
                stacklevel=3,
            )
        failed = rehearsed(self.teacher, queries, classes=classes)
        if failed is not None:
            warnings.warn(
                "the teacher could not be trained with the public queries, with labels dealt out in turn. Teachers "
                "that cannot be trained with private rows vote for the first class and nothing says so; is this one "
                f"of them? {failed.last_line}",
                SidelightWarning,
                stacklevel=3,
            )
        failed = rehearsed_student(self._new_student(), queries, classes=classes)
        if failed is not None:
            raise RangeError(
                f"the student cannot be trained with the {int(queries.shape[0])} public queries, with labels dealt out "
                f"in turn ({failed.last_line}); take another student, or more queries. Nothing was charged"
            )

    def _new_student(self) -> Any:
        return clone(self.teacher if self.student is None else self.student)

    def _ballots(self, taught: Lessons, folder: WorkFolder | None) -> list[Ballot]:
        """Train every teacher that has no ballot yet."""
        cast: dict[int, Ballot] = {}
        if folder is not None:
            folder.begin(plan_digest(self.teacher, taught, teachers=self.teachers))
            for number in range(self.teachers):
                kept = folder.ballot(number, queries=int(taught.queries.shape[0]), classes=len(taught.classes))
                if kept is not None:
                    cast[number] = kept
        missing = [number for number in range(self.teachers) if number not in cast]
        with progress("teachers trained", total=self.teachers, done=len(cast)) as step:
            for number, found in ballots(self.teacher, taught, missing, n_jobs=self.n_jobs):
                if isinstance(found, Failed):
                    if self.on_failure == "raise":
                        raise _failure(number, found, folder)
                    if folder is not None:
                        folder.keep_cause(number, found.cause)
                    found = np.zeros(taught.queries.shape[0], np.int32)
                elif folder is not None:
                    folder.keep_ballot(number, found)
                cast[number] = found
                step()
        return [cast[number] for number in range(self.teachers)]

    def _release(self, query: NoisyLabels, folder: WorkFolder | None, *, key: str | None, resume: bool) -> Outcome:
        if self.session is None:
            schema = Schema([Number("row"), PersonId("record_ids", max_rows=_ANY_ROWS)])
            nothing = {"row": np.empty(0), "record_ids": np.empty(0, np.int64)}  # the rows have been with the teachers
            table = Table(nothing, schema=schema, name="teachers")
        else:
            table = self.session.table
        prepared = prepare_query(query, table.schema)
        # with a session under a name of its own, so that neither outcome takes the place of the other
        asked = {**prepared.request, **({} if self.session is None else {"charged": "1"})}
        kept = None if folder is None or key is not None else folder.outcome(asked)  # a key is the ledger's to answer
        if kept is not None and kept.guarantee == prepared.claims and self._paid(kept):
            return kept
        if self.session is None:
            outcome = release_through(query, table, OneOffAccount(), entropy=OSEntropy())
        else:
            outcome = self.session.release(query, key=key, resume=resume)
        if folder is not None and self._paid(outcome):
            folder.keep_outcome(asked, outcome)
        return outcome

    def _paid(self, outcome: Outcome) -> bool:
        """Return whether an outcome was paid for as this fit pays: by its session's ledger, or by no budget.

        A session without a ledger cannot tell its own releases from those of another, and charges again.
        """
        if self.session is None:
            return outcome.circumstances.entry_id is None
        return self.session.has_entry_of(outcome)

    def _take(self, outcome: Outcome, *, classes: NDArray[Any], form: Form, proposal: ClearVotes | None) -> Self:
        for name in ("labels_", "student_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        self.classes_ = classes
        self.n_features_in_ = len(form.kinds)
        self._form = replace(form, like=form.like[:0])
        self.proposal_ = proposal
        self.release_ = outcome
        self.guarantee_: Claims = outcome.guarantee
        if isinstance(outcome, Refused):
            return self
        self.labels_ = classes[np.asarray(outcome.value)]
        # most classifiers cannot be trained with one class
        student = DummyClassifier() if len(np.unique(self.labels_)) < 2 else self._new_student()
        try:
            self.student_ = student.fit(form.like, self.labels_)
        except Exception as error:
            failure = RangeError(f"the student could not be trained with the released labels. {_LABELS_STAND}")
            failure.charge_stands = True
            raise failure from error
        return self

    def _student(self) -> Any:
        check_is_fitted(self, "release_")
        if isinstance(self.release_, Refused):
            raise NotFittedError(
                f"the labels were refused: {self.release_.reason}. The refusal was paid for. There is no student; fit "
                "again, as another charge, with proposal=None (never refused), with a larger budget in the proposal, "
                "or with queries on which teachers agree"
            )
        if not hasattr(self, "student_"):
            raise NotFittedError(f"there is no student: it could not be trained. {_LABELS_STAND}")
        return self.student_


def _failure(number: int, found: Failed, folder: WorkFolder | None) -> TeacherError:
    if folder is None:
        where = "give a work_folder to have it written to a private file, or train the teacher on public rows"
    else:
        where = f"it is in {folder.keep_cause(number, found.cause).name} in the work_folder, for your eyes only"
    return TeacherError(
        f"teacher {number} could not be trained; nothing was charged, nothing was released. The cause may quote "
        f"private rows and is not shown: {where}. With on_failure='first_class' it would vote for the first class",
        number=number,
    )

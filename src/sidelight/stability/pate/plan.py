"""What can be said and checked about a run of teachers before any private row is opened.

Votes of simulated teachers may be looked at: taught with public rows, or agreeing as much as one expects. They choose a
proposal (`cheapest_proposal`) before any private row is opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, exact, positive
from sidelight.stability.pate.proposals import ClearVotes, LabelPrice, cheapest_proposal, pass_chance, plain_epsilon
from sidelight.stability.pate.teachers import Failed, ballot, class_indices, counted, takes_missing
from sidelight.stability.pate.typed_rows import Form, form_of
from sidelight.stability.pate.vote_cost import checked_votes


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """The public numbers of a run; `expected_votes` are public or simulated counts, or the share that will agree."""

    teachers: int
    classes: int
    noise_scale: Amount
    delta: Amount
    proposal: ClearVotes | Literal["auto"] | None
    expected_votes: ArrayLike | float | None

    def __post_init__(self) -> None:
        if isinstance(self.teachers, bool) or not isinstance(self.teachers, int | np.integer) or self.teachers < 2:
            raise RangeError(f"teachers must be a whole number of at least 2, got {self.teachers!r}; 250 is usual")
        positive(self.noise_scale, name="noise_scale")
        if not 0 < exact(self.delta, name="delta") < 1:
            raise RangeError(f"delta must lie strictly between 0 and 1, got {self.delta}; 1e-5 is usual for labels")
        if self.proposal != "auto" and not isinstance(self.proposal, ClearVotes | None):
            came = type(self.proposal).__name__
            raise RangeError(f"proposal must be 'auto', None or ClearVotes(...), got {came}")
        if isinstance(self.proposal, ClearVotes):
            proposed, wanted = (exact(amount, name="delta") for amount in (self.proposal.delta, self.delta))
            if proposed != wanted:
                raise RangeError(
                    f"the proposal has delta {self.proposal.delta} and the model {self.delta}; give both the same"
                )

    def price(self, queries: int) -> LabelPrice:
        """Choose the proposal if that is left to us, and price it.

        Raises:
            RangeError: Votes of so many teachers would be refused even if all of them agreed.
        """
        if queries < 1:
            raise RangeError(f"there must be at least one public query, got {queries}")
        votes = self._expected()
        proposal = self._chosen(queries, votes)
        if proposal is not None:
            self._check_reachable(proposal, queries)
        chance = None
        if proposal is not None and votes is not None:
            stretched = votes[np.arange(queries) % len(votes)]
            chance = pass_chance(proposal, noise_scale=self.noise_scale, votes=stretched)
        return LabelPrice(
            queries=queries,
            noise_scale=self.noise_scale,
            delta=self.delta,
            plain=plain_epsilon(queries, self.noise_scale, delta=self.delta),
            proposal=proposal,
            chance=chance,
        )

    def _chosen(self, queries: int, votes: NDArray[np.int64] | None) -> ClearVotes | None:
        if self.proposal is None or isinstance(self.proposal, ClearVotes):
            return self.proposal
        if votes is None:
            return None  # nothing public speaks for clear votes
        return cheapest_proposal(queries, self.noise_scale, delta=self.delta, votes=votes)

    def _check_reachable(self, proposal: ClearVotes, queries: int) -> None:
        unanimous = np.zeros((queries, self.classes), np.int64)
        unanimous[:, 0] = self.teachers
        chance = pass_chance(proposal, noise_scale=self.noise_scale, votes=unanimous)
        if not chance >= 0.5:
            raise RangeError(
                f"{self.teachers} teachers are too few for this proposal: even if all agreed on all {queries} queries "
                f"it would pass with probability {chance:.2g} only; propose a larger budget or a smaller order, take "
                "more teachers or less noise, or leave the proposal out"
            )

    def _expected(self) -> NDArray[np.int64] | None:
        given = self.expected_votes
        if given is None:
            return None
        if isinstance(given, Real) and not isinstance(given, bool):
            return votes_of_agreement(float(given), teachers=int(self.teachers), classes=self.classes)
        votes = checked_votes(given)
        if votes.shape[1] != self.classes or len(votes) == 0 or np.any(votes.sum(axis=1) != self.teachers):
            raise RangeError(
                f"expected_votes want one column for each of the {self.classes} classes, and rows that add up to the "
                f"{self.teachers} teachers; simulate_votes(..., teachers={self.teachers}) gives such votes"
            )
        return votes


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
    """Return the votes on `queries` of so many teachers, each taught with public rows drawn at random.

    Rows may serve several teachers: their votes agree a little more than those of real ones if public rows are few.
    """
    form, declared = form_of(queries), np.unique(np.asarray(classes))
    public, labels, missing = form.read(rows), class_indices(targets, declared), takes_missing(teacher)
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


def votes_of_agreement(share: float, *, teachers: int, classes: int) -> NDArray[np.int64]:
    """Return one query's votes: this share of teachers agrees, all others vote for one other class (the closest case).

    >>> votes_of_agreement(0.9, teachers=250, classes=4).tolist()
    [[225, 25, 0, 0]]
    """
    if not 0.5 < share <= 1:
        raise RangeError(f"the share of teachers who agree must lie above 0.5 and be at most 1, got {share}")
    agree = round(share * teachers)
    return np.array([[agree, teachers - agree, *[0] * (classes - 2)]], np.int64)


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


def same_length(rows: Any, targets: Any, record_ids: Any, form: Form) -> None:
    """Check that rows, labels and ids belong together, and that rows are like the queries; no cell is read."""
    if record_ids is None:
        raise SchemaError(
            "fit wants record_ids=...: one id a row, such as a patient number, that a record keeps whatever other "
            "records there are. Positions are no ids: one row more would move all rows behind it to other teachers"
        )
    if targets is None:
        raise SchemaError("fit requires y to be passed, but the target y is None; give one label a row")
    form.check(rows)
    length = len(rows) if isinstance(rows, list | tuple) else int(rows.shape[0])
    for name, column in (("y", targets), ("record_ids", record_ids)):
        if len(getattr(column, "shape", (0,))) != 1:
            raise SchemaError(f"{name} must be one column; write {name}.ravel()")
        if len(column) != length:
            raise SchemaError(f"X and {name} must have the same length: entry i of {name} belongs to row i")

"""`NoisyLabels`: labels of public inputs from the votes of teachers, with an (epsilon, delta) that is real.

The votes come from models, so the query brings them along, and looks at them after the charge. Noise is drawn for all
labels at once, on a grid fine enough that ties do not matter, and is exact. What is promised is either the plain cost
of that noise, whatever the votes (`proposal=None`), or the smaller cost of clear votes, after a private test that they
are clear; if they are not, the answer is a refusal, which costs the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Amount, Claims, decimal_text, exact, native_claims, positive
from sidelight.guarantees.amounts import whole
from sidelight.guarantees.implications import for_group
from sidelight.mechanisms.additive import priced_gaussian
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import OSEntropy, Source
from sidelight.records import Number, Schema, Table
from sidelight.release import Outcome
from sidelight.session import Answer
from sidelight.session.accounts import OneOffAccount
from sidelight.session.pipeline import release_through
from sidelight.session.query import Prepared, Refusal
from sidelight.stability.pate.proposals import (
    FINE,
    ClearVotes,
    VotePrice,
    cheapest_proposal,
    check_delta,
    pass_chance,
    plain_epsilon,
    vote_price,
)
from sidelight.stability.pate.votes import checked_votes, read_votes


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyLabels:
    """Release the noisy winner of every query's vote.

    Guarantee: for adding or removing one record, because every record taught one teacher only; for a person
    whose rows taught up to `teachers_per_unit`, at the price of a group of that size. Without a `proposal`
    GDP(√(2T)/noise_scale) for T queries, exact. With one, ApproxDP of `proposal.price`, by a private test (stability
    proof page, Theorems 2 and 8), or a refusal. All noise is exact.

    Accuracy: the true winner, up to noise of `noise_scale` votes on each count.

    Arguments: `votes` are counts of teachers, one row per query and one column per class, an array or a list of rows.
    No entry raises: one that is no whole number is read as the one below, below 0 or no number as 0.
    `teachers_per_unit` is your word for how many teachers the rows of one protected unit taught at most: 1 where all
    rows of a person went to one teacher. Sessions of persons want it. `question` is a public text, or its digest, that
    tells what the teachers were asked: a key of a ledger is refused for another.

    >>> votes = [[190, 7, 3], [4, 2, 194]] * 10
    >>> NoisyLabels(votes=votes, noise_scale=20).release().value[:2].tolist()
    [0, 2]
    """

    votes: ArrayLike = field(repr=False)  # private
    noise_scale: Amount
    proposal: ClearVotes | None = None
    teachers_per_unit: int | None = None
    question: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "votes", read_votes(self.votes))
        positive(self.noise_scale, name="noise_scale")
        if not isinstance(self.proposal, ClearVotes | None):
            raise RangeError(f"proposal must be None or ClearVotes(...), got {type(self.proposal).__name__}")
        if self.teachers_per_unit is not None:
            object.__setattr__(self, "teachers_per_unit", whole(self.teachers_per_unit, name="teachers_per_unit"))

    def prepare(self, schema: Schema) -> PreparedNoisyLabels:
        """Price the labels. Looks at the shape of the votes only."""
        votes = np.asarray(self.votes)
        for_one = label_claims(len(votes), self.noise_scale, self.proposal)
        if self.teachers_per_unit is None and schema.person is not None:
            raise RangeError(
                "how many teachers did the rows of one person teach at most? Votes do not say, and max_rows caps the "
                "rows of the session's table alone; write teachers_per_unit=..."
            )
        teachers = self.teachers_per_unit or 1
        noise_scale = positive(self.noise_scale, name="noise_scale")
        queries, classes = votes.shape
        return PreparedNoisyLabels(
            claims=for_one.map(lambda claim: for_group(claim, teachers)).with_unit(schema.unit),
            request={
                "kind": "labels",
                "queries": str(queries),
                "classes": str(classes),
                "noise_scale": decimal_text(noise_scale),
                "proposal": "none" if self.proposal is None else self.proposal.to_json(),
                **({} if self.teachers_per_unit is None else {"teachers_per_unit": str(self.teachers_per_unit)}),
                **({} if self.question is None else {"question": self.question}),
            },
            votes=votes,
            noise_scale=noise_scale,
            proposal=self.proposal,
        )

    def release(self, *, entropy: Any = None) -> Outcome:
        """Release with exactly this query's budget and no ledger."""
        table = Table({"row": np.empty(0)}, schema=[Number("row")], name="votes")
        return release_through(self, table, OneOffAccount(), entropy=OSEntropy() if entropy is None else entropy)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedNoisyLabels(Prepared):
    """Priced labels; everything but `run` and the votes is public."""

    votes: NDArray[np.int64] = field(repr=False)
    noise_scale: Fraction
    proposal: ClearVotes | None
    brings_private_data: ClassVar[bool] = True  # the votes

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Test if there is something to test, then draw all labels."""
        del table  # the votes were derived from it
        with source.paying(self._price(None)):
            if self.proposal is not None and not self.proposal.clear(self.votes, float(self.noise_scale), source):
                return Refusal(reason="the votes are not clear enough for the budget that was proposed")
            scale = self.noise_scale * FINE
            noise = priced_gaussian(self.votes.size, scale, price=self._price(scale), source=source)
            return Answer(value=np.argmax(self.votes * FINE + noise.reshape(self.votes.shape), axis=1))

    def _price(self, scale: Fraction | None) -> DrawPrice:
        """Return the price of test and labels together, and with a scale that of noise of this scale alone."""
        return DrawPrice(
            law="rounded Gaussian votes",
            claims=self.claims,
            samples=None if scale is None else (("rounded_gaussian", scale),),
            statistic=f"{len(self.votes)} labels, scale {float(self.noise_scale):.6g}",
            theorem="stability proof page, section on teachers",
        )


def label_claims(queries: int, noise_scale: Amount, proposal: ClearVotes | None) -> Claims:
    """Return the claims of labels for a number of queries; public parameters only.

    A proposal that costs more than no proposal, whatever the votes, is refused.
    """
    sigma = positive(noise_scale, name="noise_scale")
    if proposal is None:
        return native_claims(GDP.from_squares(2 * queries / sigma**2), mechanism="rounded_gaussian")
    if exact(proposal.budget, name="budget") >= queries * exact(proposal.order, name="order") / sigma**2:
        raise RangeError(
            f"a budget of {proposal.budget} at order {proposal.order} covers {queries} votes however close they are; "
            "leave the proposal out, the plain guarantee is smaller"
        )
    plain = plain_epsilon(queries, sigma, delta=proposal.delta)
    proposed = float(proposal.price.epsilon)
    if proposed >= plain:
        raise RangeError(
            f"the proposal costs epsilon {proposed:.3g}, and {queries} labels with this noise cost {plain:.3g} without "
            "any, whatever the votes; leave the proposal out, or propose a smaller budget"
        )
    return native_claims(proposal.price, mechanism="propose_test_release")


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
        teachers = whole(self.teachers, name="teachers", least=2, advice="250 is usual")
        object.__setattr__(self, "teachers", teachers)
        positive(self.noise_scale, name="noise_scale")
        check_delta(self.delta)
        if self.proposal != "auto" and not isinstance(self.proposal, ClearVotes | None):
            came = type(self.proposal).__name__
            raise RangeError(f"proposal must be 'auto', None or ClearVotes(...), got {came}")
        if isinstance(self.proposal, ClearVotes):
            proposed, wanted = (exact(amount, name="delta") for amount in (self.proposal.delta, self.delta))
            if proposed != wanted:
                raise RangeError(
                    f"the proposal has delta {self.proposal.delta} and the model {self.delta}; give both the same"
                )

    def price(self, queries: int) -> VotePrice:
        """Choose the proposal if that is left to us, and price it.

        Raises:
            RangeError: The votes would be refused even if all of them agreed.
        """
        if queries < 1:
            raise RangeError(f"there must be at least one public query, got {queries}")
        votes = self._expected()
        proposal = self.proposal if isinstance(self.proposal, ClearVotes) else None
        if self.proposal == "auto" and votes is not None:  # else no public votes suggest that they are clear
            proposal = cheapest_proposal(queries, self.noise_scale, delta=self.delta, votes=votes)
        if proposal is not None:
            self._check_reachable(proposal, queries)
        return vote_price(queries, self.noise_scale, delta=self.delta, proposal=proposal, votes=votes)

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
            return votes_of_agreement(float(given), teachers=self.teachers, classes=self.classes)
        votes = checked_votes(given)
        if votes.shape[1] != self.classes or len(votes) == 0 or np.any(votes.sum(axis=1) != self.teachers):
            raise RangeError(
                f"expected_votes want one column for each of the {self.classes} classes, and rows that add up to the "
                f"{self.teachers} teachers; simulate_votes(..., teachers={self.teachers}) gives such votes"
            )
        return votes


def votes_of_agreement(share: float, *, teachers: int, classes: int) -> NDArray[np.int64]:
    """Return one query's votes: this share of teachers agrees, all others vote for one other class (the closest case).

    >>> votes_of_agreement(0.9, teachers=250, classes=4).tolist()
    [[225, 25, 0, 0]]
    """
    if not 0.5 < share <= 1:
        raise RangeError(f"the share of teachers who agree must lie above 0.5 and be at most 1, got {share}")
    agree = round(share * teachers)
    return np.array([[agree, teachers - agree, *[0] * (classes - 2)]], np.int64)

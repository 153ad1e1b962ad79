"""Which of two labels has more records: a noisy majority that refuses when the margin is too small for its promise.

The teaching example of generalized propose-test-release. The noisy majority of a large margin is far more private than
its noise suggests, but only at a positive delta: its pure loss grows with the margin. All probabilities here are those
of the integer noise that is drawn (stability proof page, Theorem 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from sidelight.aggregates import cell_counts
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, Claims, Neighbours, PureDP, decimal_text, exact, positive
from sidelight.mechanisms.additive import priced_laplace
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import LaplaceTest
from sidelight.noise import Source, below
from sidelight.records import Category, Number, Schema, Table
from sidelight.release import Outcome
from sidelight.session import Answer, release_once
from sidelight.stability.budgets import row_budget
from sidelight.stability.engine import PreparedTest, propose_and_test

#: Floating-point probabilities are trusted up to this relative error; the loss that is compared is raised by it.
_SLACK = 1e-9
#: Margins are looked at one by one; this much noise would take seconds, and no vote needs it.
_LARGEST_SCALE = 10**5


@dataclass(frozen=True)
class MajorityVote:
    """Release which of two labels has more records, by noisy counts, if the margin is large enough for the promise.

    Guarantee: ApproxDP(epsilon, delta) for adding or removing one of the schema's units, exact noise; which margins are
    good enough is public (stability proof page, Theorems 1 and 6). `test_share` of epsilon pays for the test; the noisy
    vote has to keep within the rest at delta, which small margins do not.

    Accuracy: the loser is released with probability T(margin / noise_scale), T(x) about (2 + x) exp(-x) / 4.

    Args:
        column: A `Category` column of two labels.
        noise_scale: The scale of the Laplace noise on each count, in records.
        epsilon, delta: The price.
        test_share: The share of epsilon for the test.

    >>> from sidelight.records import Category
    >>> votes = Table({"for": ["yes"] * 700 + ["no"] * 300}, schema=[Category("for", ["yes", "no"], other=None)])
    >>> MajorityVote("for", noise_scale=5, epsilon="0.5", delta="1e-6").release(votes).value
    'yes'
    """

    column: str
    noise_scale: Amount = field(kw_only=True)
    epsilon: Amount = field(kw_only=True)
    delta: Amount = field(kw_only=True)
    test_share: Amount = field(default="9/10", kw_only=True)

    def __post_init__(self) -> None:
        if positive(self.noise_scale, name="noise_scale") > _LARGEST_SCALE:
            raise RangeError(f"noise_scale must be at most {_LARGEST_SCALE}, got {self.noise_scale}")
        if not 0 < exact(self.test_share, name="test_share") <= 1:
            raise RangeError(f"test_share must lie in (0, 1], got {self.test_share}")

    def prepare(self, schema: Schema) -> PreparedTest[int]:
        """Check the query against the schema and price it. Opens no data."""
        category = schema.category(self.column)
        if len(category.labels) != 2:
            raise SchemaError(
                f"a vote is between two labels, column {self.column!r} has {len(category.labels)}; with two categories "
                "write other=None to leave out rows with another label"
            )
        budget = row_budget(self.epsilon, self.delta, unit=schema.unit, neighbours=Neighbours.ADD_REMOVE)
        share = exact(self.test_share, name="test_share")
        scale = positive(self.noise_scale, name="noise_scale")
        safe = SafeMargins(scale=scale, epsilon=budget.epsilon * (1 - share), delta=budget.delta)
        _ = safe.largest_unsafe  # public work, done before the charge
        return propose_and_test(
            _Proposal(category, safe),
            test=LaplaceTest(epsilon=budget.epsilon * share, false_pass=budget.delta),
            budget=budget,
            request={
                "kind": "majority_vote",
                "column": self.column,
                "noise_scale": decimal_text(scale),
                "epsilon": decimal_text(exact(self.epsilon, name="epsilon")),
                "delta": decimal_text(exact(self.delta, name="delta")),
                "test_share": decimal_text(share),
            },
            refusal="the margin is too small for the promise",
        )

    def release(self, data: Table) -> Outcome:
        """Release from a table with exactly this query's budget and no ledger."""
        return release_once(self, data)

    def declare(self) -> Number:
        """Refuse a bare array: the labels must be declared."""
        raise SchemaError("a vote wants sl.Table(data, schema=[sl.Category(name, [label, label], other=None)])")


@dataclass(frozen=True)
class _Proposal:
    category: Category
    safe: SafeMargins

    def look(self, table: Table, source: Source) -> int:
        counts = np.asarray(cell_counts(table, [self.category.name]).value)
        return int(counts[0] - counts[1])

    def distance(self, secret: int, *, cap: int) -> int:
        return self.safe.distance(secret, cap=cap)

    def release(self, secret: int, source: Source) -> Answer:
        first, second = priced_laplace(2, self.safe.scale, price=self.safe.price, source=source).tolist()
        margin = secret + first - second
        with source.free("who wins a tie"):
            tie = below(2, source)  # drawn whether needed or not
        winner = 0 if margin > 0 or (margin == 0 and tie == 0) else 1
        return Answer(value=self.category.labels[winner], labels=("majority",))


@dataclass(frozen=True)
class SafeMargins:
    """Which margins n0 - n1 the noisy vote may be run at: those where its loss at `delta` is at most `epsilon`."""

    scale: Fraction
    epsilon: Fraction
    delta: Fraction

    @property
    def price(self) -> DrawPrice:
        """What the vote costs a row at every margin that passed the test."""
        return DrawPrice(
            law="two discrete Laplace votes",
            claims=Claims.of(PureDP(self.epsilon)),
            samples=(("discrete_laplace", self.scale),),
            statistic=f"the sign of a margin above {self.largest_unsafe}",
            theorem="stability proof page, votes",
        )

    @cached_property
    def largest_unsafe(self) -> int:
        """The largest |margin| that is not safe, -1 if all are.

        Where the loser's probability is at most delta even one record nearer, the loss at delta is 0; from there
        downwards margins are looked at one by one, because losses first rise and then fall.
        """
        far = 1
        while win_probabilities(far - 1, self.scale)[1] > float(self.delta):
            far *= 2
        allowed = float(self.epsilon) - _SLACK
        return next((margin for margin in range(far, -1, -1) if self.loss(margin) > max(allowed, 0.0)), -1)

    def loss(self, margin: int) -> float:
        """Return the smallest epsilon that the vote keeps at this margin and `delta`, forward, for every neighbour."""
        return loss_at(lambda t: win_probabilities(t, self.scale), margin, float(self.delta))

    def distance(self, margin: int, *, cap: int) -> int:
        """Return how many records must change until the margin is unsafe, at most `cap`.

        Margins below the largest unsafe one count as unsafe even where they are not: a set, still at distance 0.
        """
        return min(cap, max(0, abs(margin) - self.largest_unsafe))


def win_probabilities(margin: int, scale: Fraction) -> tuple[float, float]:
    """Return how likely label 0 and label 1 are to win a vote with integer noise on both counts and a coin for ties.

    >>> win_probabilities(0, Fraction(5))
    (0.5, 0.5)
    """
    lose = _tail(abs(margin), float(scale))
    return (1 - lose, lose) if margin >= 0 else (lose, 1 - lose)


def _tail(margin: int, scale: float) -> float:
    """Return P[Z > margin] + P[Z = margin]/2 for the difference Z of two discrete Laplace draws, margin >= 0.

    P[Z = k] = ((1-a)/(1+a))² a^|k| (|k| + (1+a²)/(1-a²)), a = exp(-1/scale), summed in closed form.
    """
    a = math.exp(-1 / scale)
    minus = -math.expm1(-1 / scale)  # 1 - a without cancellation
    base, rest = (minus / (1 + a)) ** 2, (1 + a * a) / (minus * (1 + a))
    if margin == 0:
        return 0.5
    beyond = margin + 1
    above = beyond / minus + a / minus**2 + rest / minus  # of sum_{k >= beyond} a^(k - beyond) (k + rest)
    return base * (math.exp(-beyond / scale) * above + math.exp(-margin / scale) * (margin + rest) / 2)


def loss_at(probabilities: Callable[[int], tuple[float, float]], margin: int, delta: float) -> float:
    """Return max over neighbours and outcomes of log((p - delta)/p'), outcomes with p > delta; at least 0."""
    here = probabilities(margin)
    losses = [
        math.log((p - delta) / q)
        for other in (margin - 1, margin + 1)
        for p, q in zip(here, probabilities(other), strict=True)
        if p > delta
    ]
    return max([0.0, *losses])

"""The label with most records, wherever it wins clearly; a refusal elsewhere.

`StableMode` releases the winner exactly. `MajorityVote` is the teaching example of generalized propose-test-release:
the noisy majority of a large margin is far more private than its noise suggests, but only at a positive delta, because
its pure loss grows with the margin. All its probabilities are those of the integer noise that is drawn (stability proof
page, Theorem 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates import cell_counts
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Amount, Claims, Neighbours, PureDP, decimal_text, exact, positive
from sidelight.mechanisms.additive import priced_laplace
from sidelight.mechanisms.price import DrawPrice
from sidelight.mechanisms.tests_and_bounds import LaplaceTest
from sidelight.noise import Source, below
from sidelight.records import Category, Schema, Table
from sidelight.release import TailBound
from sidelight.session import Answer
from sidelight.stability.propose_test_release import Passed, PreparedTest, ProposingQuery, amounts, row_budget

Counts = NDArray[np.int64]

#: Floating-point probabilities are trusted up to this relative error; the loss that is compared is raised by it.
_SLACK = 1e-9
#: Margins are looked at one by one; this much noise would take seconds, and no vote needs it.
_LARGEST_SCALE = 10**5
_SMALLEST_SCALE = Fraction(1, 10**9)  # of which floats still hold the inverse


@dataclass(frozen=True)
class StableMode(ProposingQuery):
    """Release the most frequent label of a category if few records cannot overturn it, else refuse.

    Guarantee: ApproxDP(epsilon, delta) for the schema's unit, exact on the machine (stability proof page, Theorems 1
    and 5). All of epsilon goes to the test; the label that comes out is the true one.

    Accuracy: never wrong. Nineteen of twenty answer where the winner leads by some ln(5/delta)/epsilon records, twice
    as many for REPLACE; refuses where the lead is short.

    Args:
        column: A `Category` column of two labels or more; may be left out where it is the only one.
        epsilon, delta: The price.
        neighbours: ADD_REMOVE, or REPLACE for a public number of rows.

    >>> from sidelight.records import Category
    >>> votes = Table({"city": ["Bonn"] * 90 + ["Ulm"] * 30}, schema=[Category("city", ["Bonn", "Ulm"])])
    >>> StableMode("city", epsilon=1, delta="1e-6").release(votes).value
    'Bonn'
    """

    column: str | None = None
    epsilon: Amount = field(kw_only=True)
    delta: Amount = field(kw_only=True)
    neighbours: Neighbours = field(default=Neighbours.ADD_REMOVE, kw_only=True)
    _wanted = "a mode wants sl.Table(data, schema=[sl.Category(name, labels)]): labels are public"

    def __post_init__(self) -> None:
        if self.neighbours not in (Neighbours.ADD_REMOVE, Neighbours.REPLACE):
            raise RangeError(f"the mode's neighbours are ADD_REMOVE or REPLACE, got {self.neighbours}")

    def prepare(self, schema: Schema) -> PreparedMode:
        """Check the query against the schema and price it. Opens no data."""
        category = _category(self.column, schema)
        if len(category.labels) < 2:
            raise SchemaError(f"column {category.name!r} has one label only: its mode is known without data")
        budget = row_budget(self.epsilon, self.delta, unit=schema.unit, neighbours=self.neighbours)
        return PreparedMode(
            claims=budget.claims,
            within=budget.pure,
            test=LaplaceTest(epsilon=budget.epsilon, false_pass=budget.delta),
            request={
                "kind": "stable_mode",
                "column": category.name,
                **amounts(self, "epsilon", "delta"),
                "neighbours": self.neighbours.value,
            },
            refusal="a few records could overturn the most frequent label",
            error=_never_wrong(float(budget.epsilon), float(budget.delta), self.neighbours),
            category=category,
        )


def _never_wrong(epsilon: float, delta: float, neighbours: Neighbours) -> TailBound:
    """Return the error of what is answered, 0, with the lead at which 19 of 20 runs answer."""
    distance = math.ceil((math.log(1 / (2 * delta)) + math.log(10)) / epsilon)  # threshold, noise of 1 run in 20
    # the least lead of that distance, as `mode_distance` counts it
    lead = distance + 1 if neighbours is Neighbours.ADD_REMOVE else 2 * distance + 1
    assumption = (
        f"it is answered at all: a label that leads by about {lead:,} rows is, one that leads by few is refused"
    )
    return TailBound(unit="labels", assumption=assumption, fixed=(0.0,), per_log=(0.0,))


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMode(PreparedTest[Counts]):
    """A `StableMode` fitted to a schema."""

    category: Category

    def look(self, table: Table, source: Source) -> Counts:
        """Count the labels."""
        return np.asarray(cell_counts(table, [self.category.name]).value)

    def distance(self, secret: Counts, *, cap: int) -> int:
        """Return how many records could overturn the winner."""
        return min(cap, mode_distance(secret.tolist(), neighbours=self.claims.neighbours))

    def answer(self, secret: Counts, parameter: Passed, source: Source) -> Answer:
        """Return the winner."""
        return Answer(value=self.category.labels[int(np.argmax(secret))], labels=("mode",))


def mode_distance(counts: Sequence[int], *, neighbours: Neighbours) -> int:
    """Return how many records must change until one more can overturn the winner; ties go to the first label.

    The gap to label j closes by one (add or remove) or by two (replace) with each record (Theorem 5).

    >>> mode_distance([50, 30, 20], neighbours=Neighbours.ADD_REMOVE)
    20
    >>> mode_distance([50, 30, 20], neighbours=Neighbours.REPLACE)
    10
    """
    winner = max(range(len(counts)), key=lambda j: (counts[j], -j))
    gap = min(counts[winner] - count + (j > winner) for j, count in enumerate(counts) if j != winner)
    return gap - 1 if neighbours is Neighbours.ADD_REMOVE else -(-gap // 2) - 1


def _category(column: str | None, schema: Schema) -> Category:
    categories = [each for each in schema.columns if isinstance(each, Category)]
    if column is not None:
        return schema.category(column)
    if len(categories) != 1:
        raise SchemaError("which column? Write StableMode(column, ...)")
    return categories[0]


@dataclass(frozen=True)
class MajorityVote(ProposingQuery):
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
    _wanted = "a vote wants sl.Table(data, schema=[sl.Category(name, [label, label], other=None)])"

    def __post_init__(self) -> None:
        if not _SMALLEST_SCALE <= positive(self.noise_scale, name="noise_scale") <= _LARGEST_SCALE:
            raise RangeError(f"noise_scale must be from 1e-9 to {_LARGEST_SCALE} records, got {self.noise_scale}")
        if not 0 < exact(self.test_share, name="test_share") < 1:
            raise RangeError(
                f"test_share must lie strictly between 0 and 1, got {self.test_share}; the rest pays for the vote"
            )

    def prepare(self, schema: Schema) -> PreparedVote:
        """Check the query against the schema and price it. Opens no data."""
        category = schema.category(self.column)
        if len(category.labels) != 2:
            raise SchemaError(
                f"a vote is between two labels, column {self.column!r} has {len(category.labels)}; with two categories "
                "write other=None to leave out rows with another label"
            )
        budget = row_budget(self.epsilon, self.delta, unit=schema.unit)
        share = exact(self.test_share, name="test_share")
        scale = positive(self.noise_scale, name="noise_scale")
        safe = SafeMargins(scale=scale, epsilon=budget.epsilon * (1 - share), delta=budget.delta)
        _ = safe.largest_unsafe  # public work, done before the charge
        return PreparedVote(
            claims=budget.claims,
            within=budget.pure,
            test=LaplaceTest(epsilon=budget.epsilon * share, false_pass=budget.delta),
            request={
                "kind": "majority_vote",
                "column": self.column,
                "noise_scale": decimal_text(scale),
                **amounts(self, "epsilon", "delta", "test_share"),
            },
            refusal="the margin is too small for the promise",
            category=category,
            safe=safe,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedVote(PreparedTest[int]):
    """A `MajorityVote` fitted to a schema."""

    category: Category
    safe: SafeMargins

    def look(self, table: Table, source: Source) -> int:
        """Return the margin."""
        counts = np.asarray(cell_counts(table, [self.category.name]).value)
        return int(counts[0] - counts[1])

    def distance(self, secret: int, *, cap: int) -> int:
        """Return how far the margin is from an unsafe one."""
        return self.safe.distance(secret, cap=cap)

    def answer(self, secret: int, parameter: Passed, source: Source) -> Answer:
        """Return the noisy winner."""
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
        math.log((p - delta) / q) if q > 0 else math.inf  # below the smallest float
        for other in (margin - 1, margin + 1)
        for p, q in zip(here, probabilities(other), strict=True)
        if p > delta
    ]
    return max([0.0, *losses])

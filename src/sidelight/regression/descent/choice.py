"""The choice between predictions and none: one index from the exponential mechanism, paid for, exact.

Classes: a row's loss is an integer of 0..1024, and a candidate's score is minus the sum of its losses: one more row
changes every score by a number in [-1024, 0], so all log-probabilities move within an interval of length ε₀, and no
factor 2 is needed.

Numbers: a row has one vote of -1, 0 or 1 in every comparison of a candidate with a rival, and the candidate's score is
the least of its sums of votes; none has the score 0. One more row changes each sum by a number in [-1, 1], and so their
least: min(A + a, B + b) - min(A, B) lies between min(a, b) and max(a, b). With one candidate the two log-probabilities
move apart by at most one unit, with several by two.

With up to k rows a person the unit is k times smaller (descent proof page).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, Claims, Neighbours, Unit, exact
from sidelight.mechanisms.budget import Budget
from sidelight.mechanisms.exponential import choose
from sidelight.noise import Source
from sidelight.regression.descent.integer_rows import LOSS_LEVELS, Integers

_MOST_ODDS = 10**6


@dataclass(frozen=True, kw_only=True)
class StartChoice:
    """A choice between some candidates and none, which is last. Everything but `draw` is public.

    Guarantee: BoundedRange(spread) for adding or removing a unit of up to `rows_per_unit` rows, whatever the weights.

    Args:
        candidates: How many predictions there are.
        budget: What it may cost.
        odds: The weight of all candidates together beside "none", per candidate.
        unit: The protected unit.
        rows_per_unit: How many rows it may have.
        votes: Whether scores are votes, or losses.
    """

    candidates: int
    budget: Budget
    odds: Fraction
    unit: Unit
    rows_per_unit: int
    votes: bool = False

    @property
    def spread(self) -> Fraction:
        """The ε₀ of it, rounded down."""
        return self.budget.spread

    @property
    def claims(self) -> Claims:
        """What one draw costs."""
        return self.budget.selection_claims(unit=self.unit)

    @property
    def step(self) -> Fraction:
        """How much one unit of a score counts: ε₀ over how far one person's rows can move two scores apart."""
        return self.spread / (self._apart * self._moved)

    @property
    def _apart(self) -> int:
        """How many times `_moved` two scores can move apart: losses all move the same way, and a lone vote alone."""
        return min(self.candidates, 2) if self.votes else 1

    @property
    def _moved(self) -> int:
        """How far one unit moves a score."""
        return self.rows_per_unit * (1 if self.votes else LOSS_LEVELS)

    @property
    def weights(self) -> tuple[int, ...]:
        """The prior weights: a for each candidate, b·k for none, where the odds are a : b."""
        each, none = self.odds.numerator, self.odds.denominator * self.candidates
        shared = gcd(each, none)
        return (*([each // shared] * self.candidates), none // shared)

    def draw(self, losses: Integers, source: Source) -> int | None:
        """Return the chosen candidate, or None; `losses`, or votes against, of the candidates and, last, of none."""
        scores = Bounded(-np.asarray(losses, np.int64), Fraction(self._moved), "linf", Neighbours.ADD_REMOVE, self.unit)
        place = choose(scores, spread=self.spread, apart=self._apart, weights=self.weights, source=source)
        return None if place == self.candidates else place


def odds_of(given: Amount) -> Fraction:
    """Check the odds of a prediction against none.

    >>> odds_of(9)
    Fraction(9, 1)
    """
    odds = exact(given, name="odds")
    if not Fraction(1, _MOST_ODDS) <= odds <= _MOST_ODDS or odds.denominator > _MOST_ODDS:
        raise RangeError(
            f"odds must lie between 1e-6 and 1e6, got {given}; 9 believes a prediction nine times as much as none, and "
            "1 as much"
        )
    return odds

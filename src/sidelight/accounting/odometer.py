"""A running reading for an adaptive history, by levels that were declared when the scope was created.

A filter says when to stop; it does not say what an adaptively chosen stopping point costs. Levels E_1 < ... < E_K, each
with the share d/K of delta, do: the reading is the first level whose filter still agrees, and
P(S) <= sum over k of e^(E_k) Q(S and reading k) + d (accounting proof page, section 6, by the proof of T7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from sidelight.accounting.filters import Rule
from sidelight.accounting.totals import Route, Totals
from sidelight.errors import RangeError
from sidelight.guarantees import Amount, ApproxDP, Context, positive


@dataclass(frozen=True)
class Odometer:
    """Declared levels of epsilon at one delta, each watched by its own filter."""

    delta: Fraction
    rules: tuple[Rule, ...]

    @classmethod
    def with_levels(
        cls,
        levels: Sequence[Amount],
        *,
        delta: Amount,
        routes: Sequence[Route] | None = None,
        context: Context | None = None,
    ) -> Odometer:
        """Declare the levels, in rising order; each gets the share delta/K."""
        epsilons = [positive(level, name="level") for level in levels]
        if not epsilons or any(b <= a for a, b in pairwise(epsilons)):
            raise RangeError("levels of an odometer rise from one to the next, at least one")
        whole = positive(delta, name="delta")
        share = whole / len(epsilons)
        return cls(
            whole, tuple(Rule.for_budget(ApproxDP(e, share, **(context or {})), routes=routes) for e in epsilons)
        )

    def reading(self, totals: Totals) -> Fraction | None:
        """Return the first level whose filter still agrees with what was spent; None beyond the last."""
        for rule in self.rules:
            if rule.holds(totals):
                assert isinstance(rule.budget, ApproxDP)
                return rule.budget.epsilon
        return None

"""The public tree that releases many quantiles with one budget (ApproximateQuantiles; quantiles proof page, section 3).

A node releases one level (binary tree) or K-1 levels (K-ary tree) from the records between the values that its
ancestors released, and its children go on inside the gaps. The tree is built from public parameters before any data is
opened, so what a release will cost is known then. All budgets are fractions: that no path spends more than epsilon is
checked exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from sidelight.accounting.batch import worst_case_branch
from sidelight.errors import RangeError
from sidelight.guarantees.amounts import Amount, decimal_text, exact, positive, whole
from sidelight.guarantees.claim_sets import Claims, for_unit, native_claims
from sidelight.guarantees.claims import BoundedRange
from sidelight.guarantees.intervals import root_below
from sidelight.guarantees.units import Row, Unit, rows_of_unit
from sidelight.mechanisms.rank_selection import SMALLEST_EPSILON
from sidelight.mechanisms.rings import Score as Score  # the trees, bounds and queries name it from here

# Quantile levels as exact fractions.
#
# A level decides which ranks count as near, so it enters the release path and must be exact: 0.3 is 3/10 and never
# the binary number next to it. With floats the relative level of a tree node can become 0 or 1, and floor(q n) is
# off by one for some n (quantiles proof page, section 1).

#: What a person may write for one level: 0.25, "1/4", Decimal("0.25"), Fraction(1, 4).
LevelLike: TypeAlias = Amount

#: As many levels as groups may have together.
_MOST_EVEN = 2**16
#: Levels lie at least this far apart, and from 0 and 1: no table has so many rows that nearer ones would differ, and
#: what is computed of them in floats (bounds, names of columns) could not tell them apart.
LEAST_GAP = Fraction(1, 2**31)


def exact_levels(levels: LevelLike | Iterable[LevelLike]) -> tuple[Fraction, ...]:
    """Read levels as a strictly increasing tuple of fractions inside (0, 1).

    Floats are read through their shortest decimal form, text may be a decimal or "p/q", and one level may stand alone.

    >>> exact_levels([0.25, "1/2", 0.75])
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    """
    if not isinstance(levels, (LevelLike, Iterable)):
        raise RangeError(f"levels must be a list of numbers such as [0.25, 0.5, 0.75], got {type(levels).__name__}")
    several = [levels] if isinstance(levels, LevelLike) else list(levels)
    if not several:
        raise RangeError("levels must name at least one quantile, got none; [0.5] asks for the median")
    read = tuple(_inside(level) for level in several)
    ends = [(0, 1), *((level.numerator, level.denominator) for level in read), (1, 1)]
    # after - before >= LEAST_GAP, in whole numbers, which are ten times as fast as fractions
    if all((c * b - a * d) * LEAST_GAP.denominator >= b * d for (a, b), (c, d) in pairwise(ends)):
        return read
    for before, after in pairwise(read):
        if before == after:
            raise RangeError(f"levels must differ, got {float(before):g} twice; ask for each level once")
        if before > after:
            raise RangeError(
                f"levels must increase, got {float(before):g} before {float(after):g}; pass sorted(levels)"
            )
    near = next(each for each in pairwise((Fraction(0), *read, Fraction(1))) if each[1] - each[0] < LEAST_GAP)
    raise RangeError(
        "levels must lie at least 2**-31 (5e-10) from each other, from 0 and from 1, got "
        f"{decimal_text(near[0])} and {decimal_text(near[1])}; no table has so many rows that they would differ"
    )


def even_levels(count: int) -> tuple[Fraction, ...]:
    """Return the levels i / (count + 1): 1 is the median, 3 the quartiles, 9 the deciles.

    >>> even_levels(3)
    (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
    """
    count = whole(count, name="count", most=_MOST_EVEN, advice="1 is the median, 3 the quartiles")
    return tuple(Fraction(i, count + 1) for i in range(1, count + 1))


def _inside(level: LevelLike) -> Fraction:
    fraction = exact(level, name="level")
    if 0 < fraction.numerator < fraction.denominator:
        return fraction
    if fraction in (0, 1):
        raise RangeError(
            f"a level must lie strictly between 0 and 1, got {level}; the minimum and the maximum of private "
            "data cannot be released well, ask for a level such as 0.01 or 0.99"
        )
    hint = f"for a percentile write {float(fraction) / 100:g}" if fraction <= 100 else "0.5 is the median"
    raise RangeError(f"a level must lie strictly between 0 and 1, got {level}; {hint}")


#: Irrational budget shares are rounded down to a multiple of this; what is cut off goes to the end of the path.
SHARE_STEP = Fraction(1, 2**64)

#: Beyond this power the deepest nodes would get next to nothing, and the shares would round down to zero.
LARGEST_BUDGET_POWER = 8


class Pick(NamedTuple):
    """One exponential mechanism: the release of one level inside its node."""

    position: int  # among all levels, from 0
    level: Fraction
    relative_level: Fraction  # among the node's records: (q - q_lo) / (q_hi - q_lo)
    epsilon: Fraction  # for one record

    def sensitivity(self, score: Score = "exact") -> Fraction:
        """Return by how much one record can move the score: max(q, 1-q), or 1 for the floored gap."""
        return max(self.relative_level, 1 - self.relative_level) if score == "exact" else Fraction(1)


class Node(NamedTuple):
    """Picks that share one set of records: those between the released levels `lower` and `upper` (None: open)."""

    depth: int  # the root has 0
    lower: int | None  # position of the nearest level below that an ancestor released
    upper: int | None
    picks: tuple[Pick, ...]
    children: tuple[Node | None, ...]  # one for each gap around the sorted picks: len(picks) + 1

    @property
    def epsilon(self) -> Fraction:
        """What one record spends here: all picks look at the same records."""
        return sum((pick.epsilon for pick in self.picks), Fraction(0))


@dataclass(frozen=True, kw_only=True)
class QuantileTree:
    """Which level is released where, and with what budget; build it with `quantile_tree`.

    Guarantee: PureDP(epsilon) for the tree's unit under adding or removing one unit, with the zCDP and GDP claims that
    `claims` states (quantiles proof page, Theorem 4).
    """

    levels: tuple[Fraction, ...]
    epsilon: Fraction  # for one unit; of a tree that was priced in rho, the sum along its worst-case branch
    unit: Unit
    branching: int
    budget_power: Fraction
    root: Node
    rho: Fraction | None = None  # for one unit, if that was the price

    @cached_property
    def picks(self) -> tuple[Pick, ...]:
        """All picks in the order of the levels."""
        picks = [pick for node in self.nodes() for pick in node.picks]
        return tuple(sorted(picks, key=lambda pick: pick.position))

    @property
    def depth(self) -> int:
        """The number of nodes on the longest path."""
        return tree_depth(len(self.levels), branching=self.branching)

    @property
    def row_epsilon(self) -> Fraction:
        """What one record spends: a person with at most k rows spends k times that."""
        return self.epsilon / rows_of_unit(self.unit)

    def nodes(self) -> Iterator[Node]:
        """Yield the nodes, parents before their children."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(child for child in reversed(node.children) if child is not None)

    def paths(self) -> Iterator[tuple[Node, ...]]:
        """Yield every root-to-gap path: the nodes that one record can meet."""
        waiting: list[tuple[Node, ...]] = [(self.root,)]
        while waiting:
            path = waiting.pop()
            if None in path[-1].children:
                yield path
            waiting.extend((*path, child) for child in reversed(path[-1].children) if child is not None)

    @cached_property
    def path_budgets(self) -> tuple[tuple[Fraction, ...], ...]:
        """The budgets of the picks that one record can meet, each different list once."""
        return tuple(dict.fromkeys(tuple(p.epsilon for node in path for p in node.picks) for path in self.paths()))

    @cached_property
    def claims(self) -> Claims:
        """What the release promises, from public parameters alone.

        Guarantee: the half-open split sends a record into exactly one child, so adding it changes the law of the picks
        on one path only: the cost is the worst-case branch, of exponential mechanisms that are each BoundedRange(eps_i)
        given the dither, which all of them share (quantiles proof page, Theorem 4). The rows of one person may take
        different paths, so a person with at most k rows pays by group privacy: k times epsilon, k**2 times rho, k
        times mu.
        """
        per_row = worst_case_branch(
            [native_claims(BoundedRange(epsilon), mechanism="exponential") for epsilon in path]
            for path in self.path_budgets
        )
        return for_unit(per_row, self.unit)


def quantile_tree(
    levels: Amount | Iterable[Amount],
    *,
    epsilon: Amount | None = None,
    rho: Amount | None = None,
    branching: int = 2,
    budget_power: Amount = 0,
    unit: Unit | None = None,
) -> QuantileTree:
    """Build the tree for the levels: nodes, relative levels and budgets, for a price in epsilon or in rho.

    Accuracy: the binary tree with equal budgets is best, or within 3 % of it, when epsilon * n / m is not small; a
    positive `budget_power` helps when it is (epsilon 0.1, n 1000, 99 levels: error 281 at 0, 242 at 1/2, 233 at 1).

    Arguments: `branching` is K (`balanced_branching` is the paper's choice); `budget_power` is p in the share (l+1)**-p
    of depth l; with `unit=Person(column, max_rows=k)` the price is what one person spends, so one row gets epsilon / k
    or rho / k**2. With `rho` the nodes of a path share rho: selections are ε²/8-zCDP, so that depth adds as a root.

    >>> tree = quantile_tree([0.25, 0.5, 0.75], epsilon=1)
    >>> [(str(pick.relative_level), str(pick.epsilon)) for pick in tree.picks]
    [('1/2', '1/2'), ('1/2', '1/2'), ('1/2', '1/2')]
    """
    read = exact_levels(levels)
    if (epsilon is None) == (rho is None):
        raise RangeError("the price of a tree is exactly one of epsilon and rho")
    total = positive(epsilon, name="epsilon") if epsilon is not None else None
    total_rho = positive(rho, name="rho") if rho is not None else None
    power = exact(budget_power, name="budget_power")
    unit = Row() if unit is None else unit
    if branching < 2:
        raise RangeError(f"branching must be at least 2, got {branching}; 2 is the binary tree and the default")
    if power > LARGEST_BUDGET_POWER:
        raise RangeError(f"budget_power must lie in 0..{LARGEST_BUDGET_POWER}, got {budget_power}; try 0, 1 or 1.5")
    rows = rows_of_unit(unit)
    amount = total if total is not None else total_rho or Fraction(0)
    row_amount = amount if rows == 1 else amount / (rows if total is not None else rows**2)
    depth = tree_depth(len(read), branching=branching)
    budgets = _budgets(row_amount, depth, power=power)
    build = _Builder(levels=read, branching=branching, budgets=budgets, in_rho=total_rho is not None)
    root = build.node(range(len(read)), depth=0, lower=None, upper=None, remaining=row_amount)
    assert root is not None
    tree = QuantileTree(
        levels=read,
        epsilon=Fraction(0) if total is None else total,
        unit=unit,
        branching=branching,
        budget_power=power,
        root=root,
        rho=total_rho,
    )
    if total is None:
        tree = replace(tree, epsilon=rows * max(sum(path, Fraction(0)) for path in tree.path_budgets))
        assert all(sum(each**2 for each in path) / 8 <= row_amount for path in tree.path_budgets)
    else:
        assert all(sum(path[1:], path[0]) <= row_amount for path in tree.path_budgets)
    smallest = min(pick.epsilon for pick in tree.picks)
    if smallest < SMALLEST_EPSILON:
        price = f"epsilon {epsilon}" if rho is None else f"rho {rho}"
        raise RangeError(
            f"{price} leaves a single level less than 2**-60 (the sampler's proof ends there); "
            "ask for fewer levels, a smaller budget_power, or a larger epsilon"
        )
    return tree


def tree_depth(count: int, *, branching: int) -> int:
    """Return the smallest d with branching**d >= count + 1: how many nodes a record can meet.

    (Not ceil(log2 m): for m a power of two that misses a level, and budgets split by it overspend.)
    """
    depth, reach = 0, 1
    while reach < count + 1:
        depth, reach = depth + 1, reach * branching
    return depth


def balanced_branching(count: int) -> int:
    """Return the paper's K for m levels: ceil(exp(sqrt(ln 2 * ln(m+1)))).

    >>> [balanced_branching(m) for m in (1, 9, 99)]
    [2, 4, 6]
    """
    # The small subtraction keeps exact powers (m + 1 = 2**(j*j)) from being lifted by a rounding error.
    return math.ceil(math.exp(math.sqrt(math.log(2) * math.log(count + 1))) - 1e-9)


class _Builder(NamedTuple):
    levels: tuple[Fraction, ...]
    branching: int
    budgets: Sequence[Fraction]  # of a node at each depth, unless it is the last of its path
    in_rho: bool = False

    def node(
        self, members: range, *, depth: int, lower: int | None, upper: int | None, remaining: Fraction
    ) -> Node | None:
        if not members:
            return None
        if len(members) == 1:  # half of the nodes
            (position,) = members
            relative = self._relative(position, lower, upper)
            pick = Pick(position, self.levels[position], relative, self._epsilon(remaining))
            return Node(depth, lower, upper, (pick,), (None, None))
        chosen = self._chosen(members)
        bounds = [members.start - 1, *chosen, members.stop]
        gaps = [range(left + 1, right) for left, right in pairwise(bounds)]
        # A node without children is the last that its records meet: it takes all that is left.
        budget = self.budgets[depth] if any(gaps) else remaining
        rest = remaining - budget if any(gaps) else remaining
        share = budget if len(chosen) == 1 else budget / len(chosen)
        picks = tuple(
            Pick(
                position=position,
                level=self.levels[position],
                relative_level=self._relative(position, lower, upper),
                epsilon=self._epsilon(share),
            )
            for position in chosen
        )
        ends = [lower, *chosen, upper]
        children = tuple(
            self.node(gap, depth=depth + 1, lower=left, upper=right, remaining=rest)
            for gap, left, right in zip(gaps, ends[:-1], ends[1:], strict=True)
        )
        return Node(depth=depth, lower=lower, upper=upper, picks=picks, children=children)

    def _relative(self, position: int, lower: int | None, upper: int | None) -> Fraction:
        """Return (q - q_lo) / (q_hi - q_lo), with 0 and 1 where nothing was released."""
        level = self.levels[position]
        if lower is None:
            return level if upper is None else level / self.levels[upper]
        below = self.levels[lower]
        return (level - below) / ((1 if upper is None else self.levels[upper]) - below)

    def _epsilon(self, amount: Fraction) -> Fraction:
        """Return the epsilon of a selection that may cost an amount: itself, or the largest with ε²/8 <= rho."""
        return root_below(8 * amount) // SHARE_STEP * SHARE_STEP if self.in_rho else amount

    def _chosen(self, members: range) -> list[int]:
        if len(members) < self.branching:
            return list(members)
        return [members[-(-k * len(members) // self.branching) - 1] for k in range(1, self.branching)]


def _budgets(amount: Fraction, depth: int, *, power: Fraction) -> list[Fraction]:
    """Split an amount over the depths in proportion to (l+1)**-power, rounded down where that is irrational."""
    if power.numerator == 0:
        return [amount / depth] * depth
    if power.denominator == 1:
        exact_weights = [Fraction(1, (level + 1) ** power.numerator) for level in range(depth)]
        return [amount * (weight / sum(exact_weights)) for weight in exact_weights]
    context = Context(prec=60)
    exponent = context.divide(Decimal(-power.numerator), Decimal(power.denominator))
    weights = [Fraction(context.power(Decimal(level + 1), exponent)) for level in range(depth)]
    return [amount * ((weight / sum(weights) // SHARE_STEP) * SHARE_STEP) for weight in weights]

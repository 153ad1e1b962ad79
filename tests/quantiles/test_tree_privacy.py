"""Privacy of the tree by exact brute force (R4), its tightness, and planted bugs that must be found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations_with_replacement
from statistics import NormalDist

import numpy as np
import pytest
from exact_tree_law import SmallRanks, correct_selection, largest_loss, law_of

import sidelight as sl
from sidelight.mechanisms.budget import Budget, together
from sidelight.predictions.compiled import CompiledPrior
from sidelight.predictions.pieces import FlooredLine
from sidelight.quantiles.tree import even_levels, quantile_tree

QUARTILES = quantile_tree(even_levels(3), epsilon=1)


@dataclass(frozen=True)
class Table:
    """A prior given index by index, with a floor of mass one for every index."""

    masses: tuple[int, ...]

    many = False

    def line(self, index: int) -> FlooredLine:
        return FlooredLine(index, index + 1, 0, self.at(index), 1)

    def at(self, index: int) -> int:
        return list(accumulate(self.masses, initial=0))[min(max(index, 0), len(self.masses))]


def table_prior(masses: Sequence[int]) -> CompiledPrior:
    return CompiledPrior(0, len(masses) - 1, [Table(tuple(mass - 1 for mass in masses))])


def whole_data_selection(view, target, epsilon, prior, first, last, *, score, whole, step):
    """The planted bug, as in the authors' published code: children look at ALL records, with their own level."""
    level = [pick.level for node in QUARTILES.nodes() for pick in node.picks][step]
    return correct_selection(whole, level, epsilon, prior, first, last, score=score, whole=whole, step=step)


def closed_split_selection(view, target, epsilon, prior, first, last, *, score, whole, step):
    """A second planted bug: a record at the released value goes to both sides."""
    twice = SmallRanks(tuple(code for code in whole.codes if first <= code <= last))
    return correct_selection(twice, target, epsilon, prior, first, last, score=score, whole=whole, step=step)


def worst_loss(tree, prior, monkeypatch, *, largest: int, **options) -> float:
    laws = {}

    def law(codes):
        if codes not in laws:
            laws[codes] = law_of(tree, codes, prior, monkeypatch, **options)
        return laws[codes]

    indices = range(prior.first, prior.last + 1)
    return max(
        largest_loss(law(codes), law(tuple(sorted((*codes, added)))))
        for size in range(largest + 1)
        for codes in combinations_with_replacement(indices, size)
        for added in indices
    )


@pytest.mark.parametrize(("score", "wanted"), [("exact", 0.945328), ("floor", 0.891030)])
def test_reference_every_small_data_set(score, wanted, monkeypatch):
    """R4, the tree: quartiles on 6 indices, all data sets of up to 5 records, every added record."""
    found = worst_loss(QUARTILES, table_prior([1] * 6), monkeypatch, largest=5, score=score)
    assert found <= 1
    assert found == pytest.approx(wanted, abs=5e-7)


@pytest.mark.parametrize("adaptation", ["conditional", "edge"])
@pytest.mark.parametrize(
    ("levels", "branching", "power"), [(["1/4", "1/2", "3/4"], 2, 0), (["1/3", "2/3"], 3, 0), (["0.1", "0.9"], 2, 1)]
)
def test_no_small_data_set_exceeds_epsilon(levels, branching, power, adaptation, monkeypatch):
    """Uneven priors, wide nodes, both adaptations; epsilon is large so that rounding could not hide an excess."""
    tree = quantile_tree(levels, epsilon=3, branching=branching, budget_power=power)
    prior = table_prior([1, 40, 1, 900])
    found = worst_loss(tree, prior, monkeypatch, largest=4, adaptation=adaptation)
    assert 1 < found <= 3


HEAVY = 10**9


@pytest.mark.parametrize("adaptation", ["conditional", "edge"])
def test_the_guarantee_is_tight(adaptation, monkeypatch):
    """Adversarial prior and data come within 1e-6 of epsilon, and never above."""
    prior = table_prior([1, 1, HEAVY, 1, HEAVY**2])
    before, after = (1, 1, 3, 3, 3, 3), (0, 1, 1, 3, 3, 3, 3)
    laws = [law_of(QUARTILES, codes, prior, monkeypatch, adaptation=adaptation) for codes in (before, after)]
    loss = largest_loss(*laws)
    assert loss <= 1
    assert adaptation == "edge" or loss > 1 - 1e-6


@pytest.mark.planted("children look at all records, as in published code")
@pytest.mark.parametrize(("score", "wanted"), [("floor", 1.5), ("exact", 7 / 6)])
def test_planted_bug_whole_data_scores_are_found(score, wanted, monkeypatch):
    """Children scored on the whole data set lose the sum of all budgets: 1.5 epsilon for quartiles (section 6.1)."""
    prior = table_prior([1, 1, HEAVY, 1, HEAVY**2])
    before, after = (1, 3, 3, 3), (0, 1, 3, 3, 3)
    options = {"score": score, "selection": whole_data_selection}
    bad = largest_loss(*(law_of(QUARTILES, codes, prior, monkeypatch, **options) for codes in (before, after)))
    assert bad > 1
    assert bad == pytest.approx(wanted, abs=1e-6)
    good = largest_loss(*(law_of(QUARTILES, codes, prior, monkeypatch, score=score) for codes in (before, after)))
    assert good <= 1


@pytest.mark.planted("a record at the released value on both sides")
def test_planted_bug_a_record_in_both_children_is_found(monkeypatch):
    """A closed split makes a record at the root's output pay on both sides: 1.5 epsilon again."""
    prior = table_prior([HEAVY, 1, 1, 1, HEAVY**2])
    before, after = (0, 0, 0, 3, 3), (0, 0, 0, 2, 3, 3)
    laws = [law_of(QUARTILES, codes, prior, monkeypatch, selection=closed_split_selection) for codes in (before, after)]
    assert largest_loss(*laws) == pytest.approx(1.5, abs=1e-6)
    assert largest_loss(*(law_of(QUARTILES, codes, prior, monkeypatch) for codes in (before, after))) <= 1


@pytest.mark.planted("a budget by the logarithm")
def test_planted_bug_budget_by_the_logarithm_is_found(monkeypatch):
    """Section 11.1: epsilon / ceil(log2 m) for each node spends 2 epsilon for m = 2 (one level is missed)."""
    honest = quantile_tree(["1/3", "2/3"], epsilon=1)
    overspent = quantile_tree(["1/3", "2/3"], epsilon=2)  # what epsilon / ceil(log2 2) = 1 a node amounts to
    prior = table_prior([1, 1, HEAVY, 1, HEAVY**2])
    before, after = (1, 1, 3, 3, 3, 3), (0, 1, 1, 3, 3, 3, 3)
    assert largest_loss(*(law_of(honest, codes, prior, monkeypatch) for codes in (before, after))) <= 1
    assert largest_loss(*(law_of(overspent, codes, prior, monkeypatch) for codes in (before, after))) > 1


def test_each_depth_costs_a_person_its_rows_once(monkeypatch):
    """Two rows of one person on any paths: K times the range of a row for each depth, in ε, ρ and μ (step A of clips).

    All data sets of up to 3 records on 4 indices, all pairs of added records, both directions. At twice the slope (as
    if each depth cost one row only) the divergence is found to be too large.
    """
    prior, budget = table_prior([1] * 4), Budget.of(rho="0.5")
    node = budget.part(Fraction(1, 2))  # two depths
    claims = together([(2, node.selection_claims())])

    def worst(row_epsilon):
        tree = quantile_tree(even_levels(3), epsilon=2 * row_epsilon)
        laws = {}

        def law(codes):
            if codes not in laws:
                laws[codes] = law_of(tree, codes, prior, monkeypatch)
            return laws[codes]

        found = [0.0, 0.0, 0.0]
        for size in range(4):
            for codes in combinations_with_replacement(range(4), size):
                for added in combinations_with_replacement(range(4), 2):
                    laws_of_both = law(codes), law(tuple(sorted((*codes, *added))))
                    outcomes = laws_of_both[0].keys() | laws_of_both[1].keys()
                    both = [np.array([float(each[key]) for key in outcomes]) for each in laws_of_both]
                    for p, q in (both, both[::-1]):
                        found[0] = max(found[0], float(np.abs(np.log(p / q)).max()))
                        for alpha in (1.5, 2.0, 8.0):
                            renyi = math.log(float((p**alpha * q ** (1 - alpha)).sum())) / (alpha - 1)
                            found[1] = max(found[1], renyi / alpha)
                        for epsilon in (0.0, 0.5, 1.0):
                            delta = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
                            found[2] = max(found[2], delta - gdp_delta(float(claims.gdp().mu), epsilon))
        return found

    epsilon, rho, over = worst(node.spread / 2)
    assert epsilon <= float(2 * node.spread)
    assert rho <= float(claims.zcdp().rho)
    assert over <= 0
    assert worst(2 * node.spread)[1] > float(claims.zcdp().rho)


def test_rows_in_several_groups_cost_their_squares_in_rho_by_brute_force(monkeypatch):
    """A person with two rows in one group and one in another: the query's own trees, all data of up to 3 records.

    Groups are released independently, so that the divergences of the two add up; all orders are tried, both directions.
    Claims that add up over rows (3 times a row's rho instead of 2² + 1²) or that count a group once are found out.
    """
    labels = sl.Category("g", ["a", "b"], other=None)
    schema = sl.Schema([sl.Number("x", granularity=1), labels, sl.PersonId("who", max_rows=3)])
    query = sl.Quantiles([0.5], column="x", by="g", rho="0.2", max_groups=2, max_rows_per_group=2)
    prepared = query.prepare(schema)
    assert prepared.groups.norms.l2_squared == 5
    claimed = float(prepared.claims.zcdp().rho) - float(prepared.sizes_budget.amount)  # without the counts of groups

    def worst(tree, rows):
        """Return the largest divergence of order alpha, over alpha, for `rows` added rows."""
        found = 0.0
        for prior in (table_prior([1] * 3), table_prior([1, 50, 1])):
            sets = [codes for size in range(5) for codes in combinations_with_replacement(range(3), size)]
            for codes in sets:
                for added in combinations_with_replacement(range(3), rows):
                    after = tuple(sorted((*codes, *added)))
                    laws = [law_of(tree, each, prior, monkeypatch) for each in (codes, after)]
                    p, q = (np.array([float(law[key]) for key in laws[0]]) for law in laws)
                    for one, other in ((p, q), (q, p)):
                        for alpha in (1.01, 2.0, 8.0, 64.0):
                            moment = float((one**alpha * other ** (1 - alpha)).sum())
                            found = max(found, math.log(moment) / (alpha - 1) / alpha)
        return found

    of_two, of_one = worst(prepared.tree, 2), worst(prepared.tree, 1)
    assert of_one <= float(prepared.tree.claims.zcdp().rho)
    assert 0.8 * claimed < of_two + of_one <= claimed
    by_row_sums = quantile_tree(even_levels(1), rho=Fraction("0.18") / 3)
    by_group = quantile_tree(even_levels(1), rho=Fraction("0.18") / 2)
    for wrong in (by_row_sums, by_group):
        assert worst(wrong, 2) + worst(wrong, 1) > 1.3 * claimed


def gdp_delta(mu, epsilon):
    normal = NormalDist()
    return normal.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * normal.cdf(-epsilon / mu - mu / 2)

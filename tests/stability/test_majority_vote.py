"""The noisy majority: its probabilities, and an exact audit of test and vote together."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.tests_and_bounds import LaplaceTest
from sidelight.noise import Source, discrete_laplace
from sidelight.release import Refused
from sidelight.stability import MajorityVote
from sidelight.stability.mode import SafeMargins, loss_at, win_probabilities
from sidelight.testing import SeededEntropy, seeded_release


def continuous_probabilities(margin: int, scale: float) -> tuple[float, float]:
    """The textbook's continuous Laplace noise: P[1 wins] = T(margin/scale)."""
    x = abs(margin) / scale
    lose = (2 + x) * math.exp(-x) / 4
    return (1 - lose, lose) if margin >= 0 else (lose, 1 - lose)


def test_textbook_probabilities() -> None:
    losing = [continuous_probabilities(t, 1.0)[1] for t in (0, 1, 10, 20)]
    assert losing == pytest.approx([0.5, 0.275909581, 1.36199789e-4, 1.13363449e-8], rel=1e-8)
    assert continuous_probabilities(-1, 1.0) == pytest.approx((0.275909581, 1 - 0.275909581))


def test_textbook_losses_at_a_delta() -> None:
    losses = [loss_at(lambda s: continuous_probabilities(s, 5.0), t, 1e-6) for t in (0, 10, 60, 70)]
    assert losses == pytest.approx([0.10468782, 0.15120245, 0.13819808, 0], abs=1e-7)


def test_the_pure_loss_grows_with_the_margin() -> None:
    losses = [loss_at(lambda s: continuous_probabilities(s, 0.1), t, 0.0) for t in (0, 1, 2, 5)]
    assert losses == pytest.approx([8.21, 9.39, 9.63, 9.82], abs=5e-3)


def test_probabilities_of_the_integer_noise_by_summation() -> None:
    for scale in (Fraction(1, 3), Fraction(2), Fraction(9)):
        a = math.exp(-1 / float(scale))
        reach = np.arange(-600, 601)
        law = (1 - a) / (1 + a) * a ** np.abs(reach)
        difference = np.convolve(law, law)  # of -1200..1200
        for margin in (0, 1, 7, 40):
            tail = difference[1200 + margin + 1 :].sum() + difference[1200 + margin] / 2
            assert win_probabilities(margin, scale)[1] == pytest.approx(tail, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_drawn_votes_follow_the_probabilities(factor: float) -> None:
    """30,000 votes at a margin of two scales; noise 30 % off is found out."""
    scale, margin, trials = Fraction(6), 12, 30_000
    with Source(SeededEntropy("votes")) as source:
        pairs = discrete_laplace(2 * trials, scale * Fraction(factor), source).reshape(trials, 2)
    shifted = margin + pairs[:, 0] - pairs[:, 1]
    lost = float((shifted < 0).mean() + (shifted == 0).mean() / 2)
    expected = win_probabilities(margin, scale)[1]
    deviation = abs(lost - expected) / math.sqrt(expected / trials)
    assert (deviation < 5.5) == (factor == 1.0)


def outcome_probabilities(margin: int, safe: SafeMargins, test: LaplaceTest, *, unsafe: int) -> list[float]:
    """Refused, 0 wins, 1 wins, in closed form; `unsafe` is the largest margin that counts as unsafe."""
    a = math.exp(-float(test.epsilon))
    need = test.threshold - min(test.cap, max(0, abs(margin) - unsafe))
    passed = a**need / (1 + a) if need >= 1 else 1 - a ** (1 - need) / (1 + a)
    first, second = win_probabilities(margin, safe.scale)
    return [1 - passed, passed * first, passed * second]


def worst_delta(safe: SafeMargins, test: LaplaceTest, epsilon: float, *, unsafe: int) -> float:
    worst = 0.0
    for margin in range(-400, 401):
        p = outcome_probabilities(margin, safe, test, unsafe=unsafe)
        for other in (margin - 1, margin + 1):
            q = outcome_probabilities(other, safe, test, unsafe=unsafe)
            worst = max(worst, sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True)))
    return worst


@pytest.mark.planted("margins of votes called safe that are not", of=("MajorityVote",))
@pytest.mark.parametrize("scale", [Fraction(1), Fraction(2)])
def test_exact_audit(scale: Fraction) -> None:
    """Every output probability in closed form: the promise holds, and without the test it does not."""
    epsilon, share, delta = Fraction(1, 5), Fraction(9, 10), Fraction(1, 10**4)
    safe = SafeMargins(scale=scale, epsilon=epsilon * (1 - share), delta=delta)
    test = LaplaceTest(epsilon=epsilon * share, false_pass=delta)
    assert worst_delta(safe, test, float(epsilon), unsafe=safe.largest_unsafe) <= float(delta) * (1 + 1e-9)
    # planted bug: margins are called safe that are not
    assert worst_delta(safe, test, float(epsilon), unsafe=-10_000) > 5 * float(delta)


VOTE = sl.Category("vote", ["yes", "no"], other=None)


def test_large_margins_are_answered_and_small_ones_refused() -> None:
    query = MajorityVote("vote", noise_scale=5, epsilon="0.5", delta="1e-6")
    large = seeded_release(query, sl.Table({"vote": ["no"] * 700 + ["yes"] * 200}, schema=[VOTE]), seed=1)
    small = seeded_release(query, sl.Table({"vote": ["no"] * 101 + ["yes"] * 100}, schema=[VOTE]), seed=1)
    assert large.value == "no"
    assert isinstance(small, Refused)


def test_bad_votes_are_refused_before_any_charge() -> None:
    with pytest.raises(SchemaError, match="two labels"):
        MajorityVote("v", noise_scale=5, epsilon=1, delta="1e-6").prepare(sl.Schema([sl.Category("v", ["a", "b"])]))
    with pytest.raises(RangeError, match="noise_scale"):
        MajorityVote("v", noise_scale=0, epsilon=1, delta="1e-6")
    with pytest.raises(RangeError, match="test_share"):
        MajorityVote("v", noise_scale=1, epsilon=1, delta="1e-6", test_share=0)


def test_the_largest_unsafe_margin_is_found_by_looking_at_all() -> None:
    for scale in (Fraction(1), Fraction(3), Fraction(20)):
        for epsilon in (Fraction(0), Fraction(1, 50), Fraction(1, 10)):
            safe = SafeMargins(scale=scale, epsilon=epsilon, delta=Fraction(1, 10**6))
            looked = [t for t in range(1000) if safe.loss(t) > float(epsilon)]
            assert safe.largest_unsafe == max(looked, default=-1)


def test_a_test_that_leaves_nothing_for_the_vote_is_refused_when_it_is_written() -> None:
    with pytest.raises(RangeError, match="test_share must lie strictly between 0 and 1"):
        MajorityVote("f", noise_scale=5, epsilon="0.5", delta="1e-6", test_share=1)


@pytest.mark.parametrize("scale", ["0.001", "1e-9", "0.01"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-300"])
def test_votes_with_hardly_any_noise_are_priced(scale: str, delta: str) -> None:
    """Probabilities below the smallest float are 0, and a loss against one of them is infinite, no error."""
    table = sl.Table({"f": ["yes"] * 9000 + ["no"] * 300}, schema=[sl.Category("f", ["yes", "no"], other=None)])
    query = MajorityVote("f", noise_scale=scale, epsilon=10, delta=delta)
    assert query.prepare(table.schema).safe.largest_unsafe >= 0
    assert seeded_release(query, table, seed=1).value == "yes"
    close = sl.Table({"f": ["yes"] * 301 + ["no"] * 300}, schema=table.schema)
    assert isinstance(seeded_release(query, close, seed=1), Refused)
    with pytest.raises(RangeError, match="noise_scale must be from 1e-9"):
        MajorityVote("f", noise_scale="1e-400", epsilon=10, delta=delta)

"""Labels above a truncated Laplace threshold: reference table, all tiny cases, the law of the draws."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from sidelight.errors import RangeError
from sidelight.guarantees import ApproxDP, Neighbours, Person
from sidelight.mechanisms.truncated_laplace import LabelCounts, truncated_laplace
from sidelight.noise import Source
from sidelight.testing import SeededEntropy

TABLE = [
    ("1", "1e-6", 14, 3.842639e-7, 0.731),
    ("1", "1e-9", 20, 9.524945e-10, 0.731),
    ("0.5", "1e-6", 25, 9.127295e-7, 0.62),
    ("0.1", "1e-6", 109, 9.221595e-7, 0.525),
    ("3", "1e-6", 5, 2.768870e-7, 0.95),
]


@pytest.mark.parametrize(("epsilon", "delta", "cutoff", "reveal", "published"), TABLE)
def test_reference_table(epsilon, delta, cutoff, reveal, published):
    """R4 of the specification."""
    law = truncated_laplace(epsilon=epsilon, delta=delta)
    assert law.cutoff == cutoff
    assert float(law.reveal) == pytest.approx(reveal, rel=1e-6)
    assert float(law.probability(cutoff + 1)) == pytest.approx(published, abs=6e-3)
    assert law.surely_from == 2 * cutoff + 1
    assert float(law.probability(law.surely_from)) == 1
    assert float(law.probability(law.surely_from - 1)) < 1
    assert float(law.probability(0)) == 0
    assert float(law.probability(1)) == pytest.approx(reveal, rel=1e-6)
    assert law.claims().pure() is None
    assert list(law.claims()) == [ApproxDP(law.label_epsilon, law.reveal)]


@pytest.mark.parametrize(("epsilon", "delta", "cutoff", "reveal", "published"), TABLE)
def test_one_less_would_break_delta(epsilon, delta, cutoff, reveal, published):
    a = math.exp(-float(epsilon))
    broken = (1 - a) / (1 + a - 2 * a**cutoff) * a ** (cutoff - 1)
    assert broken > float(delta)


def test_reference_profile_and_splits():
    law = truncated_laplace(epsilon=1, delta="1e-6")
    assert float(law.profile(0)) == pytest.approx(0.462117364, abs=1e-9)
    assert float(law.profile(0.5)) == pytest.approx(0.287649410, abs=1e-9)
    assert [truncated_laplace(epsilon=1, delta="1e-6", groups=g).least for g in (2, 3, 4, 10)] == [28, 41, 54, 133]
    assert truncated_laplace(epsilon=1, delta="1e-6", groups=100).least == 1314


def masses(law):
    """The law of the noise, in floats, from its definition alone."""
    z = np.arange(-law.cutoff, law.cutoff + 1)
    weights = np.exp(-float(law.label_epsilon) * np.abs(z))
    return z, weights / weights.sum()


def shown(n, law):
    """The law of what one label of n units shows: a published count, or None."""
    z, probability = masses(law)
    out = {None: 0.0}
    for each, p in zip(z, probability, strict=True):
        key = int(n + each) if n >= 1 and n + each > law.cutoff else None
        out[key] = out.get(key, 0.0) + p
    return out


def hockey_stick(first, second, factor):
    return sum(max(0.0, p - factor * second.get(key, 0.0)) for key, p in first.items())


@pytest.mark.parametrize(
    ("epsilon", "delta", "worst"), [("1", "1e-3", 0.0004216030919512), ("0.3", "0.01", 0.0077405514944834)]
)
def test_brute_force_over_all_counts(epsilon, delta, worst):
    """R4: the worst δ over all neighbouring counts is the claimed one, and it is attained."""
    law = truncated_laplace(epsilon=epsilon, delta=delta)
    found = 0.0
    for n in range(3 * law.cutoff):
        one, other = shown(n, law), shown(n + 1, law)
        for pair in ((one, other), (other, one)):
            found = max(found, hockey_stick(*pair, math.exp(float(epsilon))))
    assert found == pytest.approx(worst, rel=1e-9)
    assert found == pytest.approx(float(law.reveal), rel=1e-9)


def test_the_profile_is_that_of_the_whole_release():
    law = truncated_laplace(epsilon=1, delta="1e-3")
    for x in (0.0, 0.5, -0.5, 1.0):
        found = max(
            hockey_stick(shown(n + k, law), shown(n + 1 - k, law), math.exp(x)) for n in range(25) for k in (0, 1)
        )
        assert found == pytest.approx(float(law.profile(x)), rel=1e-9)


def test_two_labels_of_one_unit_cost_the_sum():
    law = truncated_laplace(epsilon=1, delta="0.02", groups=2)
    found = 0.0
    for first in range(law.surely_from + 1):
        for second in range(first + 1):
            without = [shown(first, law), shown(second, law)]
            with_unit = [shown(first + 1, law), shown(second + 1, law)]
            for one, other in ((without, with_unit), (with_unit, without)):
                joint = {(a, b): p * q for a, p in one[0].items() for b, q in one[1].items()}
                against = {(a, b): p * q for a, p in other[0].items() for b, q in other[1].items()}
                found = max(found, hockey_stick(joint, against, math.e))
    claim = next(iter(law.claims()))
    assert found <= float(claim.delta)
    assert found > 0.5 * float(claim.delta)


def test_the_tail_is_the_sum_of_the_masses():
    law = truncated_laplace(epsilon="0.3", delta="1e-4")
    z, probability = masses(law)
    t = np.arange(-law.cutoff - 3, law.cutoff + 4)
    assert law.tail(t) == pytest.approx([probability[z >= each].sum() for each in t], abs=1e-12)


def test_noise_has_the_law_and_not_one_with_another_scale():
    law = truncated_laplace(epsilon="0.5", delta="1e-2")
    with Source(SeededEntropy("truncated noise")) as source:
        drawn = law.noise(40_000, source=source)
    assert np.abs(drawn).max() <= law.cutoff
    z, probability = masses(law)
    counts = np.array([(drawn == each).sum() for each in z])
    assert chisquare(counts, drawn.size * probability).pvalue > 1e-7
    for factor in (0.7, 1.3):
        wrong = np.exp(-0.5 * factor * np.abs(z))
        assert chisquare(counts, drawn.size * wrong / wrong.sum()).pvalue < 1e-7


def test_a_label_and_its_count_are_published_with_the_law_of_the_theorem():
    law = truncated_laplace(epsilon=1, delta="1e-3")
    n = law.cutoff + 1
    counts = LabelCounts(counts=np.full(30_000, n), groups=1)
    with Source(SeededEntropy("published")) as source:
        out = law.release(counts, source=source)
    book = shown(n, law)
    keys = [key for key in book if key is not None]
    observed = [30_000 - out.places.size, *((out.values == key).sum() for key in keys)]
    expected = np.array([book[None], *(book[key] for key in keys)])
    assert chisquare(observed, 30_000 * expected).pvalue > 1e-7
    wrong = shown(n + 1, law)
    wrong_law = np.array([wrong[None], *(wrong.get(key, 1e-300) for key in keys)])
    assert chisquare(observed, 30_000 * wrong_law / wrong_law.sum()).pvalue < 1e-7


def test_a_label_without_units_is_never_shown():
    law = truncated_laplace(epsilon="0.01", delta="0.4")
    counts = LabelCounts(counts=np.zeros(2000, np.int64), groups=1)
    with Source(SeededEntropy("nobody")) as source:
        assert law.release(counts, source=source).places.size == 0
        assert law.release(LabelCounts(counts=np.zeros(0, np.int64), groups=1), source=source).values.size == 0


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(Fraction(1, 1000), 20),
    st.fractions(Fraction(1, 10**12), Fraction(1, 3)),
    st.integers(1, 6),
)
def test_the_cutoff_is_the_smallest_that_is_proved(epsilon, delta, groups):
    law = truncated_laplace(epsilon=epsilon, delta=delta, groups=groups)
    a, k = math.exp(-float(epsilon / groups)), law.cutoff
    assert law.reveal * groups <= delta
    assert law.claims().claims[0].delta <= delta
    if k > 1:
        before = (1 - a) * a ** (k - 1) / (1 + a - 2 * a**k)
        assert before > float(delta / groups) * (1 - 1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"delta": 0},
        {"delta": 1},
        {"epsilon": 0},
        {"epsilon": -1},
        {"groups": 0},
        {"groups": 1.0},
        {"epsilon": "1e-15", "delta": "1e-15"},
    ],
)
def test_bad_public_numbers_are_refused(wrong):
    with pytest.raises(RangeError):
        truncated_laplace(**{"epsilon": 1, "delta": "1e-6", **wrong})


def test_counts_of_more_labels_a_unit_are_refused():
    law = truncated_laplace(epsilon=1, delta="1e-6")
    with Source(SeededEntropy("groups")) as source, pytest.raises(RangeError, match="groups=3"):
        law.release(LabelCounts(counts=np.array([5]), groups=3), source=source)


def test_label_counts_hide_their_length():
    counts = LabelCounts(counts=np.array([5, 0, 7]), groups=2, unit=Person("id", 4))
    assert "3" not in repr(counts)
    assert repr(counts).startswith("LabelCounts(private")
    assert counts.neighbours is Neighbours.ADD_REMOVE
    with pytest.raises(RangeError):
        LabelCounts(counts=np.array([0.5]), groups=1)
    with pytest.raises(RangeError):
        LabelCounts(counts=np.array([1]), groups=0)

"""Labels above a Gaussian threshold: Theorem 11 against enumeration, thresholds, the law of the draws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ApproxDP
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms import gaussian_threshold as module
from sidelight.mechanisms.gaussian_threshold import gaussian_threshold, threshold_delta
from sidelight.mechanisms.truncated_laplace import LabelCounts
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


@pytest.mark.parametrize(
    ("groups", "epsilon", "delta", "scale", "threshold"),
    [
        (2, "1", "1e-6", 5.975, 31),
        (10, "1", "1e-6", 13.360, 71),
        (100, "1", "1e-6", 42.247, 239),
        (10, "0.1", "1e-6", 114.81, 599),
        (10, "1", "1e-9", 17.378, 113),
        (3, "1", "1e-6", 7.317, 38),
        (4, "1", "1e-6", 8.449, 44),
    ],
)
def test_reference_thresholds(groups, epsilon, delta, scale, threshold):
    law = gaussian_threshold(epsilon=epsilon, delta=delta, groups=groups)
    assert float(law.scale) == pytest.approx(scale, abs=6e-4 if scale < 100 else 0.006)
    assert law.threshold == threshold
    assert law.delta <= Fraction(delta)
    assert list(law.claims()) == [ApproxDP(epsilon, law.delta)]
    assert law.claims().gdp() is None
    assert law.claims().zcdp() is None
    less = threshold_delta(epsilon=Fraction(epsilon), scale=law.scale, threshold=threshold - 1, groups=groups)
    assert less > Fraction(delta)


def test_reference_divergences():
    """R5 of the specification: one old and one new label."""
    alone = norm.sf(6.5 / 2)
    assert alone == pytest.approx(0.0005770250424, rel=1e-9)
    hidden = 1 - Fraction(alone)
    forward, backward = module._both_ways(Fraction("0.7"), hidden, Fraction(1, 4))
    assert float(forward) == pytest.approx(0.025953556896, rel=1e-9)
    assert float(backward) == pytest.approx(0.025506186707, rel=1e-9)


def noisy_count(count, scale, reach=60):
    values = np.arange(count - reach, count + reach + 1)
    return dict(
        zip(
            values.tolist(),
            norm.cdf((values - count + 0.5) / scale) - norm.cdf((values - count - 0.5) / scale),
            strict=True,
        )
    )


def shown(count, scale, threshold):
    if count == 0:
        return {None: 1.0}
    out = {None: 0.0}
    for value, p in noisy_count(count, scale).items():
        key = value if value >= threshold else None
        out[key] = out.get(key, 0.0) + p
    return out


def joint(counts, scale, threshold):
    laws = [shown(count, scale, threshold) for count in counts]
    return {keys: math.prod(law[key] for law, key in zip(laws, keys, strict=True)) for keys in itertools.product(*laws)}


def hockey_stick(first, second, factor):
    return sum(max(0.0, p - factor * second.get(key, 0.0)) for key, p in first.items())


def test_enumeration_at_count_ten():
    """R5: what the release itself gives away lies just below the bound."""
    one, other = joint((1, 11), 2, 8), joint((0, 10), 2, 8)
    assert hockey_stick(one, other, math.exp(0.7)) == pytest.approx(0.025496600551, rel=1e-8)
    assert hockey_stick(other, one, math.exp(0.7)) == pytest.approx(0.025027086242, rel=1e-8)


@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 0), (1, 1), (0, 2), (2, 0)])
def test_the_bound_holds_for_every_mix_of_old_and_new_labels(old, new):
    bound = float(threshold_delta(epsilon=Fraction("0.7"), scale=Fraction(2), threshold=8, groups=old + new))
    for count in (1, 5, 8, 12):
        before = joint((*[0] * new, *[count] * old), 2, 8)
        after = joint((*[1] * new, *[count + 1] * old), 2, 8)
        factor = math.exp(0.7)
        assert hockey_stick(before, after, factor) <= bound
        assert hockey_stick(after, before, factor) <= bound


def test_blocks_give_the_maximum_over_single_numbers_of_labels():
    epsilon, scale, threshold, groups = Fraction(1), Fraction(9), 40, 12
    alone = norm.sf((threshold - 1.5) / 9)
    singles = [
        max(module._both_ways(epsilon, (1 - Fraction(alone)) ** j, Fraction(groups - j, 81))) for j in range(groups + 1)
    ]
    found = threshold_delta(epsilon=epsilon, scale=scale, threshold=threshold, groups=groups)
    assert float(found) == pytest.approx(float(max(singles)), rel=1e-9)


def test_a_following_release_shares_the_budget():
    law = gaussian_threshold(epsilon=1, delta="1e-6", groups=4, share="1/3")
    mu = gdp_within(Fraction(1), Fraction(1, 10**6))
    assert 4 / law.scale**2 + law.after_mu**2 <= mu**2
    assert float(law.after_mu**2 / mu**2) == pytest.approx(2 / 3, rel=1e-9)
    assert law.delta <= Fraction(1, 10**6)
    # Forgetting what follows would allow a lower threshold, and the sum of both would break delta.
    alone = threshold_delta(epsilon=Fraction(1), scale=law.scale, threshold=law.threshold - 5, groups=4)
    with_it = threshold_delta(
        epsilon=Fraction(1), scale=law.scale, threshold=law.threshold - 5, groups=4, after_mu=law.after_mu
    )
    assert alone < with_it
    assert with_it > Fraction(1, 10**6)


def test_a_gaussian_claim_is_refused():
    from sidelight.errors import ClaimError
    from sidelight.guarantees import native_claims

    with pytest.raises(ClaimError):
        native_claims(GDP(1), mechanism="gaussian_threshold")


def test_draws_have_the_law_and_not_one_with_another_scale():
    law = gaussian_threshold(epsilon=1, delta="1e-3", groups=3)
    n, runs = law.threshold - 3, 20_000
    with Source(SeededEntropy("gaussian threshold")) as source:
        out = law.release(LabelCounts(counts=np.full(runs, n), groups=3), source=source)
    hits = int(out.places.size)
    assert out.values.min() >= law.threshold
    assert binomtest(hits, runs, float(law.probability(n))).pvalue > 1e-7
    for factor in (0.7, 1.3):
        wrong = norm.sf((law.threshold - n - 0.5) / (factor * float(law.scale)))
        assert binomtest(hits, runs, wrong).pvalue < 1e-7


@pytest.mark.parametrize(
    "wrong",
    [{"delta": 0}, {"delta": 1}, {"epsilon": 0}, {"groups": 0}, {"groups": 2.0}, {"share": 0}, {"share": 2},
     {"delta": "1e-200"}],
)  # fmt: skip
def test_bad_public_numbers_are_refused(wrong):
    with pytest.raises(RangeError):
        gaussian_threshold(**{"epsilon": 1, "delta": "1e-6", "groups": 3, **wrong})


def test_more_labels_a_unit_than_paid_for_are_refused():
    law = gaussian_threshold(epsilon=1, delta="1e-3", groups=3)
    with Source(SeededEntropy("groups")) as source, pytest.raises(RangeError, match="groups=4"):
        law.release(LabelCounts(counts=np.array([5]), groups=4), source=source)

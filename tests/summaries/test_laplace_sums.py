"""Bounds on weighted sums of Laplace noise: never too short, and hardly longer than they must be."""

import math

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.summaries.count_rollup import cell_variance, cell_weights, component_variances, pool_margins
from sidelight.summaries.intervals import laplace_bound, laplace_difference_quantile
from sidelight.summaries.laplace_sums import LaplaceTerm, laplace_sum_bound
from sidelight.summaries.noise_choice import laplace_variance


@pytest.mark.parametrize("miss", [0.5, 0.1, 0.05, 0.01, 1e-3, 1e-6])
def test_a_single_variable(miss: float) -> None:
    """P(|Z| > t) = 2 a^(t+1)/(1+a) is known."""
    for scale in (0.7, 3.0, 1000.0):
        bound = laplace_sum_bound([LaplaceTerm(0.25, scale, 1)], miss=miss) * 4
        least = laplace_bound(scale, confidence=1 - miss)
        assert least <= bound + 1e-9
        assert bound <= least * 1.01 + 0.07 * math.sqrt(2) * scale


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_two_variables(confidence: float) -> None:
    for share in (0.5, 0.6, 0.9):
        parts = [LaplaceTerm(share, 1e4, 1), LaplaceTerm(share - 1, 1e4, 1)]
        least = float(laplace_difference_quantile(share, confidence=confidence))
        bound = laplace_sum_bound(parts, miss=1 - confidence) / 1e4
        assert least <= bound * (1 + 1e-6)
        assert bound <= least + 0.05 * math.sqrt(2)


def test_few_variables_against_all_of_their_outcomes() -> None:
    """A sum of three discrete variables, added up over a box that holds all but 1e-12 of them."""
    scales, weights = (0.8, 1.5, 1.0), (1.0, -0.3, 0.45)
    values = np.arange(-45, 46)
    laws = [np.exp(-np.abs(values) / scale) for scale in scales]
    laws = [law / law.sum() for law in laws]
    sums = np.abs(sum(np.meshgrid(*[w * values for w in weights], indexing="ij")))
    masses = laws[0][:, None, None] * laws[1][None, :, None] * laws[2][None, None, :]
    parts = [LaplaceTerm(weight, scale, 1) for weight, scale in zip(weights, scales, strict=True)]
    sd = math.sqrt(sum(w * w * laplace_variance(s) for w, s in zip(weights, scales, strict=True)))
    for miss in (0.3, 0.05, 1e-3, 1e-6):
        bound = laplace_sum_bound(parts, miss=miss)
        assert masses[sums > bound].sum() <= miss
        assert masses[sums > bound - 0.12 * sd].sum() > miss


def test_many_parts_are_bounded_too() -> None:
    parts = [LaplaceTerm(1 / (1 + place), 10.0, 1 + place) for place in range(40)]
    whole = math.sqrt(sum(part.terms * part.weight**2 * laplace_variance(10.0) for part in parts))
    rng = np.random.default_rng(5)
    kept = math.exp(-1 / 10)
    total = np.zeros(20_000)
    for part in parts:
        draws = rng.geometric(1 - kept, (2, part.terms, 20_000)).astype(float)
        total += part.weight * (draws[0] - draws[1]).sum(axis=0)
    assert total.std() == pytest.approx(whole, rel=0.03)
    bound = laplace_sum_bound(parts, miss=0.05)
    assert (np.abs(total) > bound).mean() < 0.05
    assert bound < 5 * whole


def test_weights_are_those_of_least_squares() -> None:
    sizes = (3, 2, 4)
    measured = {(0, 1, 2): 4.0, (0, 2): 2.0, (1,): 3.0, (): 0.5}
    components = component_variances(sizes, measured)
    for axes in [(0, 1, 2), (0, 2), (1, 2), (1,), ()]:
        weights = cell_weights(sizes, measured, axes)
        assert sum(count for margin, _, count in weights if margin == (0, 1, 2)) == 24
        variance = sum(count * weight**2 * measured[margin] for margin, weight, count in weights)
        assert variance == pytest.approx(cell_variance(sizes, components, axes))
        for margin in measured:
            shape = tuple(sizes[axis] for axis in margin)
            seen = []
            for place in np.ndindex(shape):
                tables = {each: (np.zeros(tuple(sizes[i] for i in each)), v) for each, v in measured.items()}
                tables[margin][0][place] = 1.0
                first = pool_margins(sizes, tables).table(axes)
                seen.append(float(first[(0,) * first.ndim]))
            listed = sorted(w for each, w, count in weights for _ in range(count) if each == margin)
            assert sorted(seen) == pytest.approx(listed, abs=1e-12)


def test_bad_public_numbers_are_refused() -> None:
    with pytest.raises(RangeError):
        laplace_sum_bound([LaplaceTerm(1.0, 1.0, 1)], miss=0.0)
    assert laplace_sum_bound([], miss=0.1) == 0

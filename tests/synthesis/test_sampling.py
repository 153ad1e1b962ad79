"""Synthetic rows: the law of systematic sampling, exact packing, numbers inside their bins."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.noise import Source
from sidelight.synthesis.axes import Bins, axis_from_json, axis_of
from sidelight.synthesis.domain import Domain, Mass
from sidelight.synthesis.synthetic_rows import PublicEntropy, sample_codes

WEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(lambda found: sum(found) > 0.01)


def mass_of(weights: list[float], *, size: float = 1000) -> Mass:
    given_weights = np.array(weights)
    return Mass.of(Domain(("cell",), (len(weights),)), given_weights / given_weights.sum(), size=size)


def draw(mass: Mass, rows: int, seed: str) -> np.ndarray:
    with Source(PublicEntropy(seed)) as source:
        return sample_codes(mass, rows, source)


@given(WEIGHTS, st.integers(0, 300), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_every_cell_is_within_one_row_of_its_expectation(weights: list[float], rows: int, seed: int) -> None:
    mass = mass_of(weights)
    codes = draw(mass, rows, str(seed))
    counts = np.bincount(codes[:, 0], minlength=len(weights))
    expected = mass.units / mass.total * rows
    assert len(codes) == rows
    assert (np.abs(counts - expected) < 1).all()


def test_the_mean_of_systematic_samples_is_the_distribution() -> None:
    mass = mass_of([0.05, 0.3, 0.11, 0.54])
    found = np.mean([np.bincount(draw(mass, 7, str(seed))[:, 0], minlength=4) for seed in range(4000)], axis=0)
    expected = 7 * mass.units / mass.total
    # a count has a standard deviation of at most 1/2, so 6 standard errors are 0.048
    assert np.abs(found - expected).max() < 0.048
    assert np.abs(found - 7 * np.array([0.05, 0.3, 0.11, 0.54]) * [1.3, 1, 1, 1]).max() > 0.048  # 30 % off is seen


def test_rows_come_in_random_order() -> None:
    codes = draw(mass_of([0.5, 0.5]), 1000, "order")[:, 0]
    changes = int((np.diff(codes) != 0).sum())
    assert 400 < changes < 600  # sorted rows would change once


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    mass = mass_of([0.2, 0.3, 0.5])
    assert (draw(mass, 50, "a") == draw(mass, 50, "a")).all()
    assert (draw(mass, 50, "a") != draw(mass, 50, "b")).any()


def test_many_rows_of_many_units_do_not_overflow() -> None:
    mass = mass_of([0.25, 0.75], size=1e12)  # the most units
    counts = np.bincount(draw(mass, 1_000_000, "large")[:, 0])
    assert np.abs(counts - [250_000, 750_000]).max() <= 1


@pytest.mark.parametrize("rows", [-1, 2.5, True, 10**10, 3.0, float("nan")])
def test_a_wrong_number_of_rows_is_refused(rows: int) -> None:
    with pytest.raises(RangeError, match="rows must be a whole number"):
        draw(mass_of([1.0]), rows, "x")


@given(WEIGHTS)
@settings(max_examples=60, deadline=None)
def test_packing_is_exact_and_rounds_every_prefix_by_half_a_unit(weights: list[float]) -> None:
    mass = mass_of(weights)
    again = Mass.from_value(mass.to_value(), mass.domain)
    assert (again.units == mass.units).all()
    share = np.cumsum(weights) / np.sum(weights)
    assert np.abs(np.cumsum(mass.units) / mass.total - share).max() <= 0.5 / mass.total + 1e-12


def test_a_support_is_packed_with_its_points() -> None:
    domain = Domain(("a", "b"), (300, 5))
    support = np.array([[299, 4], [0, 0], [17, 3]])
    mass = Mass.of(domain, np.array([0.5, 0.0, 0.5]), size=10, support=support)
    again = Mass.from_value(mass.to_value(), domain)
    assert again.support is not None
    assert again.support.tolist() == [[299, 4], [17, 3]]
    assert again.marginal(("b",)).tolist() == [0, 0, 0, 0.5, 0.5]


def test_marginals_of_a_mass_agree_with_brute_force() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 4))
    weights = np.random.default_rng(1).random(24)
    mass = Mass.of(domain, weights / weights.sum(), size=1e6)
    table = mass.units.reshape(2, 3, 4) / mass.total
    assert np.allclose(mass.marginal(("a", "c")), table.sum(axis=1))
    support = Mass(domain, mass.units, domain.unravel(np.arange(24)))
    assert np.allclose(support.marginal(("a", "c")), table.sum(axis=1))


def values_of(axis: Bins, places: list[int], *, within: str = "uniform") -> np.ndarray:
    with Source(PublicEntropy("values")) as source:
        return axis.values(np.array(places), source, within)  # type: ignore[arg-type]


def test_numbers_are_multiples_of_the_granularity_inside_bin_and_bounds() -> None:
    axis = axis_of(sl.Number("age", lower=3, upper=97, granularity=1), edges=[0, 18, 65, 100])
    assert isinstance(axis, Bins)
    found = values_of(axis, [0] * 500 + [1] * 500 + [2] * 500)
    assert found.dtype == np.int64
    assert (found[:500].min(), found[:500].max()) == (3, 17)
    assert (found[500:1000].min(), found[500:1000].max()) == (18, 64)
    assert (found[1000:].min(), found[1000:].max()) == (65, 97)
    assert values_of(axis, [1], within="middle").tolist() == [41]


def test_fractional_granularity_and_missing_cells() -> None:
    axis = axis_of(sl.Number("hours", granularity="0.25"), edges=[0, 1, 2], keeps_missing=True)
    assert isinstance(axis, Bins)
    found = values_of(axis, [0, 1, 2] * 100)
    assert set(found[0::3]) == {0.0, 0.25, 0.5, 0.75}
    assert set(found[1::3]) == {1.0, 1.25, 1.5, 1.75, 2.0}  # the last bin is closed
    assert np.isnan(found[2::3]).all()


def test_numbers_without_granularity_are_uniform_in_half_open_bins() -> None:
    axis = axis_of(sl.Number("x", lower=0, upper=2), edges=[0, 0.5, 2])
    assert isinstance(axis, Bins)
    found = values_of(axis, [0] * 20_000)
    assert ((found >= 0) & (found < 0.5)).all()
    assert abs(found.mean() - 0.25) < 6 * 0.5 / np.sqrt(12 * 20_000)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([0, 5, 5], "must increase"),
        ([0, 7, 5], "must increase"),
        ([1], "at least two edges"),
        ([0, 0.2, 0.7, 3], "holds no value"),
        ([0, 50, 120, 130], "holds no value"),
        ("0,1", "list of edges"),
        (0, "at least one bin"),
        ([0, float("nan"), 2], "finite number"),
    ],
)
def test_bad_bins_are_refused(edges: object, message: str) -> None:
    with pytest.raises(RangeError, match=message):
        axis_of(sl.Number("age", lower=0, upper=100, granularity=1), edges=edges)


def test_bins_from_bounds() -> None:
    small = axis_of(sl.Number("children", lower=0, upper=5, granularity=1))
    assert isinstance(small, Bins)
    assert small.size == 6
    assert values_of(small, list(range(6))).tolist() == [0, 1, 2, 3, 4, 5]
    large = axis_of(sl.Number("age", lower=0, upper=99, granularity=1), edges=10)
    assert isinstance(large, Bins)
    assert large.edges == tuple(Fraction(10 * place) for place in range(11))
    assert axis_of(sl.Number("x", lower=0, upper=1)).size == 16
    with pytest.raises(RangeError, match="needs public bins"):
        axis_of(sl.Number("x", lower=0))


@pytest.mark.parametrize("kept", [False, True])
def test_axes_survive_json(kept: bool) -> None:
    axes = [
        axis_of(sl.Category("sex", ["F", "M"]), keeps_missing=kept),
        axis_of(sl.Number("x", lower="-1/3", granularity="1/3"), edges=["-1/3", 1, 2], keeps_missing=kept),
    ]
    for axis in axes:
        again = axis_from_json(axis.to_json())
        assert (again.name, again.size, again.labels) == (axis.name, axis.size, axis.labels)

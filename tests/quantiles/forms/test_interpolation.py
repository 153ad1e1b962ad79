"""The curve through released points: it meets them, never falls, and is exact far from zero."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator

from sidelight.grid import FloatGrid, Grid, exact_position
from sidelight.quantiles.forms.cell_selection import common_positions, index_at_or_below
from sidelight.quantiles.forms.cells import _ratios
from sidelight.quantiles.forms.finish import AsinhScale
from sidelight.quantiles.forms.interpolation import Breakpoints, Curve, edge_power


def random_curve(seed: int, points: int = 12) -> Curve:
    generator = np.random.default_rng(seed)
    places = np.unique(generator.integers(0, 10**9, points)).tolist()
    ranks = np.sort(generator.uniform(1, 999, len(places)))
    return Curve(places, ranks, 1000.0)


@pytest.mark.parametrize("seed", range(8))
def test_it_meets_its_points_and_never_falls(seed: int) -> None:
    curve = random_curve(seed)
    assert curve.places_of(curve.ranks) == curve.places
    places = curve.places_of(np.linspace(0, 1000, 5000))
    assert places == sorted(places)
    assert (places[0], places[-1]) == (curve.places[0], curve.places[-1]), "nothing is extrapolated"


def test_it_is_the_usual_monotone_cubic_in_its_coordinates() -> None:
    places, ranks, total = [0, 40, 55, 90, 400], np.array([20.0, 200.0, 500.0, 700.0, 960.0]), 1000.0
    curve = Curve([place * 2**40 for place in places], ranks, total)
    middle, low, high = (float(np.interp(share * total, ranks, places)) for share in (0.5, 0.25, 0.75))
    scale = (high - low) / 2
    reference = PchipInterpolator(np.log(ranks / (total - ranks)), np.arcsinh((np.array(places) - middle) / scale))
    asked = np.linspace(20, 960, 300)
    expected = middle + scale * np.sinh(reference(np.log(asked / (total - asked))))
    assert np.array(curve.places_of(asked)) / 2**40 == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_normal_data_between_few_points_is_hit_closely() -> None:
    """Thirteen exact points of a normal law: everything between is within a thousandth of the records."""
    from scipy.stats import norm

    levels = np.array([0.01, 0.05, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.95, 0.99])
    places = [int(place * 2**50) for place in norm.ppf(levels)]
    curve = Curve(places, levels * 10_000, 10_000)
    asked = np.linspace(0.01, 0.99, 99)
    found = np.array(curve.places_of(asked * 10_000)) / 2**50
    assert abs(norm.cdf(found) - asked).max() < 1e-3


def test_close_records_far_from_zero_are_told_apart() -> None:
    """Points at 1e300 + steps of the grid: the floats' differences would be nothing."""
    grid = FloatGrid()
    start = grid.index_of(1e300)
    indices = [start + step for step in (0, 5, 9, 1000)]
    places, divisor = common_positions(grid, indices)
    curve = Curve(places, [100, 300, 600, 900], 1000)
    found = [index_at_or_below(grid, place, divisor) for place in curve.places_of([100, 200, 300, 600, 900])]
    assert found[0] == indices[0]
    assert indices[0] < found[1] < indices[1]
    assert found[2:] == indices[1:]


@pytest.mark.parametrize(
    ("places", "ranks", "total"),
    [
        ([], [], 1.0),
        ([7], [3.0], 10.0),
        ([7, 9], [3.0, 3.0], 10.0),
        ([7, 9, 11], [0.0, 0.0, 0.0], 1.0),
        ([0, 1], [0.0, 1.0], 1.0),
        ([5, 6, 8], [5, 5, 90], 100.0),
        ([-(10**400), 0, 1, 10**400], [1, 30, 70, 99], 100.0),
        ([0, 1, 2, 10**400], [1, 30, 70, 99], 100.0),
        ([3, 3, 3], [1, 50, 99], 100.0),
        ([0, 1, 2, 3], [0, 0, 100, 100], 100.0),
    ],
)
def test_degenerate_points_are_lines(places: list[int], ranks: list[float], total: float) -> None:
    curve = Curve(places, ranks, total)
    found = curve.places_of(np.linspace(0, total, 50))
    assert found == sorted(found)
    if places:
        assert places[0] <= found[0] <= found[-1] <= places[-1]


@pytest.mark.parametrize(
    "grid", [FloatGrid(), FloatGrid(lowest=-3.5, highest=1e9), Grid(resolution=Fraction(1, 10), first=-50, last=700)]
)
def test_places_go_back_to_their_index(grid: FloatGrid | Grid) -> None:
    generator = np.random.default_rng(3)
    values = [0.0, -0.05, 1e-320, -1e-320, 1.0, -1.0, 2.0, math.nextafter(2.0, 0), 3e300, -3e300, 0.1, -2.5]
    values += (generator.normal(size=40) * 10.0 ** generator.integers(-300, 300, 40)).tolist()
    for value in values:
        for step in (-1, 0, 1, 12345):
            index = min(max(grid.index_of(value) + step, grid.fine_first), grid.fine_last)
            (place,), divisor = common_positions(grid, [index])
            assert index_at_or_below(grid, place, divisor) == index
            assert index_at_or_below(grid, 3 * place + 1, 3 * divisor) == index
            assert index_at_or_below(grid, 3 * place - 1, 3 * divisor) == max(index - 1, grid.fine_first)


def test_places_beyond_the_grid_are_its_ends() -> None:
    grid = FloatGrid(lowest=-2.0, highest=5.0)
    for far in (10, 10**5, 10**400):
        assert index_at_or_below(grid, far, 1) == grid.fine_last
        assert index_at_or_below(grid, -far, 1) == grid.fine_first


def test_a_gap_begins_in_cells_far_less_steep_than_a_neighbour():
    """The curve is steep, hardly rises for a while, and is steep again: two tails that face each other."""
    places = [0, 100, 200, 1200, 2200, 2300, 2400]
    curve = Curve(places, [10, 30, 45, 50, 55, 70, 90], 100)
    assert curve.sparse(places, [10, 30, 45, 50, 55, 70, 90]).tolist() == [0, 0, 1, -1, 0, 0]
    smooth = [10, 25, 40, 50, 60, 75, 90]
    assert not Curve(range(0, 700, 100), smooth, 100).sparse(range(0, 700, 100), smooth).any()


def test_no_gap_begins_where_the_coordinates_of_the_curve_do_not_reach():
    """Two points of one rank are one on the curve; alone the outer one is further out than a float can say."""
    places, ranks = [0, 100, 200, 300, 10**400], [10, 40, 60, 90, 90]
    curve = Curve(places[:-1], ranks[:-1], 100)
    assert curve.goes_on
    assert curve.sparse(places, ranks).tolist() == [0, 0, 0, 0]
    assert curve.unevenness(places, ranks) == pytest.approx(1.0), "nothing is known to be smooth"


def test_a_continued_curve_goes_on_straight_in_its_coordinates():
    """Logistic data stays on its line beyond the outermost points, and ranks inside are unchanged."""
    shares = np.array([0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9])
    places = [round(1e6 * float(np.log(share / (1 - share)))) for share in shares]
    curve = Curve(places, 1000 * shares, 1000)
    assert curve.goes_on
    inside = [150.0, 500.0, 800.0]
    assert curve.places_of(inside, continued=True) == curve.places_of(inside)
    low, high = curve.places_of([20, 980], continued=True)
    assert low < 1.2 * places[0]
    assert low == pytest.approx(-high, rel=1e-6)
    assert 1.5e6 < high < 2 * 1e6 * np.log(49)
    assert curve.places_of([20, 980]) == [places[0], places[-1]], "nothing is continued unasked"
    assert not Curve([5, 5], [1, 2], 3).goes_on


def test_beyond_all_records_the_innermost_point_says_where_they_end() -> None:
    curve = Curve([-(10**9), -(10**6), 0, 100, 200, 300, 10**12], [0, 0, 0, 400, 600, 1000, 1000], 1000.0)
    assert (curve.places[0], curve.places[-1]) == (0, 300)
    assert curve.places_of([0.5, 999.5]) == [0, 300]


@pytest.mark.parametrize("power", [1.6, 2.0, 3.0, 3.9])
@pytest.mark.parametrize("ranks", [(500.0, 1200.0, 2500.0), (40.0, 900.0, 1000.0)])
def test_the_power_of_an_edge_is_found(power: float, ranks: tuple[float, float, float]) -> None:
    places = [round(2**80 * (rank / 2500) ** power) for rank in ranks]
    assert edge_power([place - places[0] for place in places], ranks) == pytest.approx(power, abs=1e-5)


@pytest.mark.parametrize(
    ("distances", "ranks"),
    [
        ([0, 700, 2000], [500.0, 1200.0, 2500.0]),  # as dense everywhere
        ([0, 700, 900], [500.0, 1200.0, 2500.0]),  # a tail that thins out
        ([0, 0, 900], [500.0, 1200.0, 2500.0]),
        ([0, 700, 700], [500.0, 1200.0, 2500.0]),
        ([0, 700, 2000], [0.0, 1200.0, 2500.0]),
        ([0, 700, 2000], [500.0, 500.0, 2500.0]),
        ([0, 700], [500.0, 1200.0]),
    ],
)
def test_where_nothing_speaks_for_a_denser_edge_the_power_is_one(distances: list[int], ranks: list[float]) -> None:
    assert edge_power(distances, ranks) == 1.0


def test_the_power_of_an_edge_is_bounded() -> None:
    assert edge_power([0, 1, 10**300], [500.0, 1200.0, 2500.0]) == 4.0


def extreme_points(seed: int) -> tuple[list[int], np.ndarray, float]:
    """Return released points that could overflow: of any size, far apart or adjacent."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(2, 9))
    sizes = [0, 1, 2, 3, 10**9, 10**18, 2**63, 10**100, 10**308, 10**400, 10**620]
    signs = generator.choice([-1, 1], count).tolist()
    near = generator.integers(0, 3, count).tolist()
    places = sorted(
        {
            sign * sizes[size] + more
            for sign, size, more in zip(signs, generator.integers(0, 11, count).tolist(), near, strict=True)
        }
    )
    ranks = [0.0, 5e-324, 1e-300, 1e-17, 1e-13, 0.3, 0.5, 1.0, 1 + 2**-52, 7.0, 1e3, 1e9, 2.0**53, 1e17, 1e100, 1e250]
    chosen = np.sort(generator.choice(ranks[: int(generator.integers(5, 17))], len(places)))
    return places, chosen, float(max(chosen[-1] + generator.choice([0.0, 1e-9, 1.0, 1e4]), 1.0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(0, 2000, 100))
def test_no_released_point_makes_anything_overflow(seed: int) -> None:
    """No failure after the charge, for points and ranks of any size, however unlikely."""
    for each in range(seed, seed + 100):
        places, ranks, total = extreme_points(each)
        curve = Curve(places, ranks, total)
        asked = np.concatenate([ranks, np.linspace(0, total, 7)])
        assert all(isinstance(place, int) for place in curve.places_of(asked) + curve.places_of(asked, continued=True))
        assert np.isfinite(curve.unevenness(places, ranks)).all()
        assert np.isfinite(curve.sparse(places, ranks)).all()
        grid = Grid(resolution=Fraction(1, 2**9), dither_bits=0)
        asinh = AsinhScale.of(Breakpoints(grid, tuple(places), np.concatenate([[0.0], ranks, [total]])))
        for scaled in asinh.forward([exact_position(grid, place) for place in places]).tolist():
            assert isinstance(asinh.back(scaled), Fraction)
        assert 1 <= edge_power([abs(place - places[0]) for place in places], ranks) <= 4
        if len(places) >= 2:
            assert all(bottom > 0 and top >= 0 for top, bottom in _ratios(places, ranks))


def test_powers_of_an_edge_between_extreme_points() -> None:
    assert edge_power([0, 1, 10**400], [1.0, 2.0, 3.0]) == 4.0, "the quotient of distances overflows"
    assert edge_power([0, 10**400, 10**400 + 1], [1.0, 2.0, 3.0]) == 1.0
    assert edge_power([0, 1, 2], [5e-324, 10.0, 20.0]) == 1.0, "the quotient of ranks is zero"
    assert 1 <= edge_power([0, 1, 5], [1e-320, 1e-310, 1.0]) <= 4, "the other one overflows"
    for outer in (1e-17, 2.0**60):  # one rank more is the same number
        assert all(top > 0 for top, _ in _ratios([0, 5, 9], np.array([outer, outer, outer])))

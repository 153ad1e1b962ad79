"""The steps' radii, noise and numbers of steps: reference numbers of the specification."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sidelight.gaussians.estimate import budget_split
from sidelight.gaussians.gaussian_steps import mean_parts
from sidelight.gaussians.step_arithmetic import Constants, certified_steps, shrinkage
from sidelight.guarantees import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.records import Number, Schema

PRACTICAL = Constants()
ALL = Fraction(1)


def split(size: int, *, rows: int | None = None, **price: Any) -> Any:
    schema = Schema([Number(f"x{place}") for place in range(size)])
    return budget_split(schema, schema.names, budget=Budget.of(**price), public_rows=rows)


@pytest.mark.parametrize(
    ("radius", "steps"),
    [
        (1000 * 50**0.5, [(7074.0735, 2.829629, 26.778522), (31.101757, 0.00718264, 0.116517)]),
        (9.463556, [(15.359007, 0.00614360, 0.111068), (9.499349, 0.00219378, 0.096886)]),
    ],
)
def test_mean_steps(radius: float, steps: list[tuple[float, float, float]]) -> None:
    """d = 50, n = 10000, replacement, budgets 0.125 and 0.375."""
    part = split(50, rho="0.5", rows=10_000)
    for share, (clip, deviation, left) in zip((Fraction(1, 4), Fraction(3, 4)), steps, strict=True):
        found = PRACTICAL.mean_clip(50, radius, 10_000)
        noise = part.total_deviation(share, found) / 10_000
        radius = PRACTICAL.mean_radius(50, noise, 10_000)
        assert found == pytest.approx(clip, rel=1e-6)
        assert noise == pytest.approx(deviation, rel=1e-6)
        assert radius == pytest.approx(left, rel=1e-5)


def test_noise_of_a_covariance_step() -> None:
    """d = 10, n = 10000, rho = 0.1: replacement, and adding or removing."""
    clip = PRACTICAL.covariance_clip(10, 10_000)
    assert split(10, rho="0.1", rows=10_000).second_scale(ALL, clip) / 10_000 == pytest.approx(0.00765341, rel=1e-6)
    assert split(10, rho="0.1").second_scale(ALL, clip) / 10_000 == pytest.approx(0.00541178, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "rows", "price", "condition", "steps"),
    [
        (10, 5_000, {"rho": "0.135"}, 1e5, 5),
        (10, 50_000, {"rho": "0.135"}, 1e5, 3),
        (30, 50_000, {"rho": "0.135"}, 3e5, 4),
        (10, 5_000, {"epsilon": "0.27"}, 1e5, None),
        (10, 50_000, {"epsilon": "0.27"}, 1e5, 5),
        (50, 6_000, {"rho": "0.081"}, 5_000, None),
    ],
)
def test_number_of_steps(size: int, rows: int, price: dict[str, Any], condition: float, steps: int | None) -> None:
    assert certified_steps(condition, split(size, **price), ALL, rows, PRACTICAL) == steps


def test_shrinkage_of_one_step() -> None:
    assert shrinkage(split(10, rho="0.135"), ALL, 1, 5_000, PRACTICAL) == pytest.approx(0.0666, abs=5e-5)
    assert shrinkage(split(10, rho="0.135"), ALL, 1, 50_000, PRACTICAL) == pytest.approx(0.0163, abs=5e-5)


def test_more_steps_for_a_mean_that_may_be_far() -> None:
    """The noise of the last step decides; parts add up to the whole."""
    part = split(50, rho="0.5")
    near = mean_parts(1.0, None, part, ALL, 1000, PRACTICAL)
    far = mean_parts(1e6, None, part, ALL, 1000, PRACTICAL)
    assert len(near) < len(far)
    assert sum(near) == sum(far) == sum(mean_parts(5.0, 7, part, ALL, 1000, PRACTICAL)) == 1


def test_proven_constants_are_those_of_the_theorem() -> None:
    proven = Constants("proven", 0.05)
    assert proven.mean_clip(50, 3.0, 1000) == pytest.approx(3 + 10.70, abs=0.1)
    assert proven.covariance_clip(10, 1000) > PRACTICAL.covariance_clip(10, 1000)
    assert proven.sampling_error(10, 1000) > PRACTICAL.sampling_error(10, 1000)
    assert proven.noise_error(10, 0.1) > PRACTICAL.noise_error(10, 0.1)


def test_the_whole_price_is_claimed_and_no_more() -> None:
    part = split(3, rho="0.5")
    claims = part.claims(Schema([Number("a")]).unit)
    assert claims.zcdp().rho <= Fraction(1, 2)
    assert float(claims.zcdp().rho) == pytest.approx(0.5, rel=1e-9)
    swapped = split(3, epsilon=1, rows=10).claims(Schema([Number("a")]).unit)
    assert swapped.pure().epsilon == 1
    assert swapped.context["neighbours"] is Neighbours.REPLACE

"""The loss of a Laplace prior: reference numbers, derivatives, convexity, and accuracy over 600 orders of magnitude."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.predictions import Laplace
from sidelight.quantiles.laplace_fit import laplace_loss, lse_loss

INF = float("inf")

# (a, b, theta, phi), loss, d theta, d phi
REFERENCE = [
    ((1, 2, 0, 1), 2.15182232594703, -1, 0.418023293130674),
    ((1, 2, 1.4, 1), 0.940495930998406, -0.155606786907431, -0.547215473305153),
    ((1, 2, 5, 2), 1.8385606384288, 1, -2.15651764274967),
    ((40, 41, 200, 5), 0.699907930009434, -1, 39.9932163450937),
    ((-3, 7, 0.1, 0.02), 2.36943683753658, 0.580785401348322, -49.6184188544526),
    ((0, 1e-8, 0.5, 1), 19.6138279195123, 1, -1.000000005),
    ((0, 1000, 5, 2), 0.00337466126898567, -0.00338036184903099, 0),
    ((0, 1000, -5, 2), 5.69314718055995, -1, 0),
    ((-1, 3, 1, 1), 0.145413457868859, 0, -0.313035285499331),
    ((-INF, 2, 1, 1), 0.203267054915195, 0.225399673560564, -0.450799347121128),
    ((-INF, 2, 5, 1), 3.69314718055995, 1, -2),
    ((2, INF, 5, 2), 0.203267054915195, -0.225399673560564, 0.450799347121128),
]


@pytest.mark.parametrize(("point", "loss", "d_theta", "d_phi"), REFERENCE, ids=[str(row[0]) for row in REFERENCE])
def test_reference_numbers(point: tuple[float, ...], loss: float, d_theta: float, d_phi: float) -> None:
    found = laplace_loss(*point)
    for value, wanted in zip(found, (loss, d_theta, d_phi), strict=True):
        assert float(value) == pytest.approx(wanted, rel=1e-12, abs=1e-13)


def test_reference_of_the_soft_maximum() -> None:
    value, weights, d_theta, d_phi = lse_loss((18, 30, 45), (19, 31, 45.5), (4, 6.2, 9), (0.2, 0.2, 0.25))
    assert float(value) == pytest.approx(5.225738860279782, rel=1e-12)
    share = [0.0724528061490638, 0.059319340541036, 0.8682278533099]
    assert weights.tolist() == pytest.approx(share, rel=1e-12)
    assert d_theta.tolist() == pytest.approx([share[0], share[1], -share[2]], rel=1e-12)
    assert d_phi.tolist() == pytest.approx([-1.703847687006901, -2.106824586405762, 35.809878106135514], rel=1e-12)


def test_the_whole_line_has_no_loss_and_an_empty_interval_an_infinite_one() -> None:
    assert [float(part) for part in laplace_loss(-INF, INF, 3, 2)] == [0, 0, 0]
    loss, d_theta, d_phi = laplace_loss(4, 4, 1, 1)
    assert float(loss) == INF
    assert (float(d_theta), float(d_phi)) == (-1, 4 - 1)  # the limit of narrow intervals
    value, weights, *_ = lse_loss([4, 4, 0], [4, 4, 1], [1, 1, 1], [1, 1, 1])
    assert float(value) == INF
    assert weights.tolist() == [0.5, 0.5, 0]


finite = st.floats(-50, 50)


@given(finite, st.floats(1e-3, 30), finite, st.floats(0.01, 20))
def test_it_is_minus_the_log_mass_of_the_prior(a: float, width: float, theta: float, phi: float) -> None:
    loss, _, _ = laplace_loss(a, a + width, theta, phi)
    assert float(loss) == pytest.approx(
        -float(Laplace(theta / phi, 1 / phi).log_mass(a, a + width)), rel=1e-9, abs=1e-9
    )


@given(finite, st.floats(0.05, 30), finite, st.floats(0.1, 5))
def test_the_gradient_is_that_of_central_differences(a: float, width: float, theta: float, phi: float) -> None:
    b = a + width
    _, d_theta, d_phi = laplace_loss(a, b, theta, phi)
    step = 1e-5
    by_theta = (laplace_loss(a, b, theta + step, phi)[0] - laplace_loss(a, b, theta - step, phi)[0]) / (2 * step)
    by_phi = (laplace_loss(a, b, theta, phi + step)[0] - laplace_loss(a, b, theta, phi - step)[0]) / (2 * step)
    # near an edge of the interval the second derivative jumps, and a central difference is off by a step of it
    slack = step * max(1.0, a * a, b * b) / min(1.0, width * phi) ** 2 + 1e-7
    assert float(d_theta) == pytest.approx(float(by_theta), abs=slack)
    assert float(d_phi) == pytest.approx(float(by_phi), abs=slack)


@given(finite, st.floats(1e-3, 30), finite, st.floats(0.01, 20), finite, st.floats(0.01, 20), st.floats(0, 1))
def test_it_is_convex_along_every_segment(
    a: float, width: float, theta: float, phi: float, other_theta: float, other_phi: float, share: float
) -> None:
    def at(t: float, f: float) -> float:
        return float(laplace_loss(a, a + width, t, f)[0])

    inside = at(share * theta + (1 - share) * other_theta, share * phi + (1 - share) * other_phi)
    ends = share * at(theta, phi) + (1 - share) * at(other_theta, other_phi)
    assert inside <= ends + 1e-9 * (1 + abs(ends))


def test_the_bounds_of_the_gradient() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=20_000) * 10 ** rng.uniform(-3, 3, 20_000)
    b = a + 10 ** rng.uniform(-6, 3, 20_000)
    theta, phi = rng.normal(size=20_000) * 100, 10 ** rng.uniform(-3, 3, 20_000)
    _, d_theta, d_phi = laplace_loss(a, b, theta, phi)
    assert np.all(np.abs(d_theta) <= 1)
    assert np.all(np.abs(d_phi) <= (np.maximum(np.abs(a), np.abs(b)) + 1 / phi) * (1 + 1e-12))


@pytest.mark.parametrize("decade", [-300, -200, -100, -30, -8, -1, 0, 1, 8, 30, 100, 200, 300])
@pytest.mark.parametrize("place", [-1.0, -0.2, 0.0, 0.3, 0.5, 0.9, 1.1, 2.5])
def test_it_is_accurate_for_every_width(decade: int, place: float) -> None:
    width_in_scales = 10.0**decade
    phi = 10.0 ** (decade // 2)
    b = width_in_scales / phi
    theta = place * width_in_scales
    found = [mpmath.mpf(float(part)) for part in laplace_loss(0.0, b, theta, phi)]
    with mpmath.workdps(700):
        left, right, w = -mpmath.mpf(theta), mpmath.mpf(theta) - mpmath.mpf(b) * mpmath.mpf(phi), mpmath.mpf(b) * phi
        if left >= 0 or right >= 0:
            wanted = [max(left, right) + mpmath.log(2) - mpmath.log(-mpmath.expm1(-w)), -1 if left >= right else 1]
            wanted.append((0 if left >= right else -mpmath.mpf(b)) - mpmath.mpf(b) / mpmath.expm1(w))
        else:
            total = -mpmath.expm1(left) - mpmath.expm1(right)
            wanted = [mpmath.log(2 / total), (mpmath.exp(right) - mpmath.exp(left)) / total]
            wanted.append(-mpmath.mpf(b) * mpmath.exp(right) / total)
        natural = [1 + abs(mpmath.mpf(theta)), 1, mpmath.mpf(b) + 1 / mpmath.mpf(phi)]
        for value, exact, size in zip(found, wanted, natural, strict=True):
            assert abs(value - exact) <= 1e-15 * max(abs(exact), size)


def test_the_gradient_is_continuous_where_the_formula_changes() -> None:
    for edge in (1.0, 2.0):
        near = laplace_loss(1.0, 2.0, [edge - 1e-9, edge, edge + 1e-9], 1.0)
        for part in near:
            assert np.ptp(part) < 1e-8

"""Several steps: group privacy, replace, persons and rounds; reference numbers and the direction of every step."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claims,
    Event,
    HingedGaussianCurve,
    Neighbours,
    Person,
    Profile,
    PureDP,
    Row,
    claims_to_replace,
    for_group,
    for_person,
    per_person,
    to_replace,
)

F = Fraction


def objective_perturbation(lipschitz: float, smooth: float, ridge: float, noise: float) -> Profile:
    """The generic profiles: remove has the shift log(1 + beta/lambda), add (sign-definite) has none."""
    mu = F(lipschitz) / F(str(noise))
    shift = F(math.nextafter(math.log1p(smooth / ridge), 1.0))
    return Profile(HingedGaussianCurve(mu, shift), HingedGaussianCurve(mu))


@pytest.mark.parametrize(("k", "stated"), [(2, 3.718281828e-6), (3, 1.110733793e-5), (5, 8.579102488e-5)])
def test_approx_groups(k: int, stated: float) -> None:
    claim = for_group(ApproxDP(1, "1e-6"), k)
    assert isinstance(claim, ApproxDP)
    assert claim.epsilon == k
    assert abs(float(claim.delta) / stated - 1) < 1e-9


def test_groups_of_the_others() -> None:
    assert for_group(PureDP("0.5"), 3) == PureDP("1.5")
    assert for_group(BoundedRange("0.5"), 3) == BoundedRange("1.5")
    assert for_group(ZCDP("0.5"), 3) == ZCDP("4.5")
    assert for_group(GDP("0.5"), 3) == GDP("1.5")
    reveal = for_group(ApproxDP(0, "0.1"), 3)
    assert isinstance(reveal, ApproxDP)
    assert reveal.epsilon == 0
    assert 0 <= reveal.delta - F("0.3") < F("1e-35")
    assert for_group(ApproxDP(1, "0.5"), 3) is None
    assert for_group(PureDP(1), 1) == PureDP(1)
    with pytest.raises(RangeError):
        for_group(PureDP(1), 0)


def test_renyi_group_is_above_the_gaussian_truth() -> None:
    """A Gaussian of mu^2 = 0.02 has r(a) = 0.01 a; two steps have 0.04 a."""
    orders = [F(n, 2) for n in range(3, 120)]
    claim = to_replace(RDP({a: F("0.01") * a for a in orders}))
    assert isinstance(claim, RDP)
    for order, value in claim.curve.points:
        assert value >= F("0.04") * order
    best = min(value / order for order, value in claim.curve.points)
    assert best < F("0.0405")


def test_profile_route_loses_nothing_on_a_gaussian() -> None:
    half = Profile(HingedGaussianCurve(F(1, 2)), HingedGaussianCurve(F(1, 2)))
    both = to_replace(half)
    assert isinstance(both, Profile)
    assert both.neighbours is Neighbours.REPLACE
    assert abs(float(both.delta(F(1))) - 0.1269367375) < 1e-10


def test_objective_perturbation_replace() -> None:
    claim = to_replace(objective_perturbation(1, 0.25, 2, 4))
    assert isinstance(claim, Profile)
    remove_add, add_remove = claim.remove.curves  # type: ignore[attr-defined]
    for x, first, second in ((1, 1.24924e-2, 1.18439e-2), (2, 2.60618e-5, 2.46556e-5)):
        assert abs(float(remove_add.delta(F(x))) / first - 1) < 1e-5
        assert abs(float(add_remove.delta(F(x))) / second - 1) < 1e-5
        assert claim.delta(F(x)) == add_remove.delta(F(x))
    one = objective_perturbation(1, 0.25, 2, 4)
    for x, stated in ((1, 2.18652e-2), (2, 7.47836e-5)):
        symmetric = (1 + math.exp(x / 2)) * float(one.delta(F(x, 2)))
        assert abs(symmetric / stated - 1) < 1e-5


@pytest.mark.parametrize(
    ("setting", "mu"),
    [((1, 1, 20, 5), 0.31077), ((1, 0.25, 2, 4), 0.50549), ((1, 0.25, 0.96532019, 3.73063163), 0.74477)],
)
def test_objective_perturbation_as_gdp(setting: tuple[float, float, float, float], mu: float) -> None:
    profile = objective_perturbation(*setting)
    found = Claims.of(profile).gdp()
    assert found is not None
    assert abs(float(found.mu) - mu) < 1.5e-5
    # binding at x = 0, and nowhere exceeded
    from sidelight.guarantees import conversions as convert

    for i in range(60):
        x = F(i, 20)
        assert profile.delta(x) <= convert.gdp_delta(found.mu, x)
    assert profile.delta(F(0)) > convert.gdp_delta(found.mu * F("0.9999"), F(0))


def test_swapped_directions_change_the_answer() -> None:
    """Trap: directions mixed. With a shift in one direction only, swapping them changes the two-step paths."""
    right = objective_perturbation(1, 1, 2, 4)
    wrong = Profile(right.add, right.remove)
    assert to_replace(right).remove.curves[0].delta(F(1)) != to_replace(wrong).remove.curves[0].delta(F(1))  # type: ignore[union-attr]


def test_replace_has_no_way_back() -> None:
    claim = PureDP(1, neighbours=Neighbours.REPLACE)
    assert to_replace(claim) == claim
    with pytest.raises(ClaimError):
        to_replace(PureDP(1, neighbours=Neighbours.LOCAL))
    assert claims_to_replace(Claims.of(PureDP(1), ZCDP("0.1"))).zcdp() == ZCDP("0.4", neighbours=Neighbours.REPLACE)


def test_rows_to_a_person() -> None:
    person = Person("id", 3)
    grouped = for_person(Claims.of(GDP("0.5")), person)
    assert grouped.gdp() == GDP("1.5", unit=person)
    with pytest.raises(ClaimError):
        for_person(grouped, person)


def test_events_to_a_person() -> None:
    event = Claims.of(GDP("0.5", unit=Event()), ZCDP("0.1", unit=Event()))
    with pytest.raises(ClaimError, match="max_rounds_per_person"):
        per_person(event)
    four = per_person(event, column="id", max_rounds_per_person=4)
    assert four.unit == Person("id", 4)
    assert four.gdp() is not None
    assert 0 <= four.gdp().mu - 1 < F("1e-30")  # type: ignore[union-attr]
    assert per_person(Claims.of(BoundedRange(1, unit=Event())), max_rounds_per_person=3).pure().epsilon == 3  # type: ignore[union-attr]
    assert per_person(Claims.of(ApproxDP(1, "1e-6", unit=Event())), max_rounds_per_person=2).items[0].delta == F("2e-6")
    with pytest.raises(ClaimError):
        per_person(Claims.of(PureDP(1, unit=Row())), max_rounds_per_person=2)

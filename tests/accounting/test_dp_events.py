"""Export to dp_accounting: events, distributions, and the inconsistencies of that library, pinned."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import pytest

from sidelight.accounting import to_dp_event, to_pld
from sidelight.errors import ClaimError
from sidelight.guarantees import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claims,
    HingedGaussianCurve,
    Neighbours,
    Profile,
    PureDP,
)

F = Fraction


def test_events() -> None:
    from dp_accounting import dp_event

    gaussian = to_dp_event(GDP("0.5"))
    assert isinstance(gaussian, dp_event.GaussianDpEvent)
    assert 2 * (1 - 1e-15) <= gaussian.noise_multiplier <= 2
    ranged = to_dp_event(Claims.of(BoundedRange(1)))
    assert isinstance(ranged, dp_event.ZCDpEvent)
    assert 0.125 <= ranged.rho <= 0.125 * (1 + 1e-15)
    assert isinstance(to_dp_event(ZCDP("0.1")), dp_event.ZCDpEvent)
    pure = to_dp_event(PureDP(1))
    assert isinstance(pure, dp_event.RandomizedResponseDpEvent)
    assert not isinstance(pure, dp_event.LaplaceDpEvent)
    for other in (ApproxDP(1, "1e-6"), Profile(HingedGaussianCurve(F(1), F(1)), HingedGaussianCurve(F(1)))):
        assert isinstance(to_dp_event(other), dp_event.UnsupportedDpEvent)
    noise = to_dp_event(PureDP(1), discrete_laplace=(1.0, 1))
    assert isinstance(noise, dp_event.DiscreteLaplaceDpEvent)


def test_randomised_response_event_gives_epsilon_back() -> None:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import pld_privacy_accountant as accountant

    peer = accountant.PLDAccountant(NeighboringRelation.REPLACE_ONE)
    peer.compose(to_dp_event(PureDP(1)))
    assert abs(peer.get_epsilon(1e-6) - 0.999999) < 2e-4


def test_the_peers_disagree_about_replace() -> None:
    """Trap: a Gaussian of noise 2 at delta 1e-6 is 2.2541, 4.8866 or 2.4191 there; we export add-or-remove only."""
    from dp_accounting import NeighboringRelation, rdp
    from dp_accounting.pld import pld_privacy_accountant as accountant

    event = to_dp_event(GDP("0.5"))
    found = {}
    for name, relation in (("add", NeighboringRelation.ADD_OR_REMOVE_ONE), ("swap", NeighboringRelation.REPLACE_ONE)):
        pld, renyi = accountant.PLDAccountant(relation), rdp.RdpAccountant(neighboring_relation=relation)
        pld.compose(event)
        renyi.compose(event)
        found[name] = (pld.get_epsilon(1e-6), renyi.get_epsilon(1e-6))
    assert abs(found["add"][0] - 2.2541) < 1e-4
    assert abs(found["swap"][0] - 4.8866) < 1e-4
    assert abs(found["add"][1] - 2.4191) < 1e-4
    assert abs(found["swap"][1] - 2.4191) < 1e-4
    with pytest.raises(ClaimError, match="replace"):
        to_dp_event(GDP("0.5", neighbours=Neighbours.REPLACE))
    with pytest.raises(ClaimError, match="replace"):
        to_pld(GDP("0.5", neighbours=Neighbours.REPLACE))


def test_distributions() -> None:
    assert abs(to_pld(GDP("0.5")).get_epsilon_for_delta(1e-6) - 2.25408465022) < 1e-5
    assert abs(to_pld(PureDP(1)).get_delta_for_epsilon(0.5) - 0.2876491366) < 1e-8
    assert abs(to_pld(ApproxDP(1, "1e-3")).get_delta_for_epsilon(2.0) - 1e-3) < 1e-12
    assert abs(to_pld(Claims.of(BoundedRange(1))).get_delta_for_epsilon(0.0) - math.tanh(0.25)) < 1e-8
    with pytest.raises(ClaimError):
        to_pld(RDP({2: 1}))


def test_imports_stay_light() -> None:
    code = (
        "import sys, sidelight.guarantees, sidelight.accounting;"
        "from sidelight.accounting import Rule, Totals, find_remaining;"
        "from sidelight.guarantees import *;"
        "r = Rule.for_budget(ApproxDP(1, '1e-6'));"
        "r.grants(Totals.zero(), r.charge(Claims.of(PureDP('0.1')))); find_remaining(r, Totals.zero());"
        "print([m for m in ('dp_accounting', 'scipy', 'scipy.stats', 'mpmath', 'pandas') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

"""The graphical model: a clear error without mbi; with it, a release of the same kind. Runs where mbi is installed."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from sidelight.errors import MissingPackageError, RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.synthesis import graphical
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.graphical import check_graphical, release_graphical
from sidelight.synthesis.measurement import PrivateMarginals
from sidelight.synthesis.prior import GivenWeights
from sidelight.synthesis.workload import marginals, prefixes
from sidelight.testing import SeededEntropy

DOMAIN = Domain(("a", "b", "c"), (3, 2, 2))
needs_mbi = pytest.mark.skipif(importlib.util.find_spec("mbi") is None, reason="mbi is not installed")


def plan_of(domain: Domain = DOMAIN, **settings: object) -> MarginalPlan:
    given = {"workload": marginals(2), "price": Budget.of(rho=1), "rounds": 2} | settings
    return MarginalPlan(domain=domain, **given)  # type: ignore[arg-type]


def test_without_mbi_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.setitem(sys.modules, "mbi", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'sidelight\[graphical\]'"):
        check_graphical(plan_of())


def test_what_it_cannot_do_is_refused_before_any_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphical, "load_mbi", lambda: None)
    with pytest.raises(RangeError, match="long ranges"):
        check_graphical(plan_of(Domain(("t",), (300,)), workload=prefixes("t")))
    with pytest.raises(RangeError, match="public rows or from nothing"):
        check_graphical(plan_of(), GivenWeights(domain=DOMAIN, given=np.ones(12)))
    check_graphical(plan_of())


@needs_mbi
@pytest.mark.slow
def test_a_release_answers_its_measured_marginals() -> None:
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, 5000)
    codes = np.stack([base + rng.integers(0, 2, 5000), base, rng.integers(0, 2, 5000)], axis=1)
    counts = PrivateMarginals.from_codes(DOMAIN, codes)
    with Source(SeededEntropy(0), declared="exact") as source:
        fitted = release_graphical(counts, plan_of(rounds=3), source=source)
    for names in (("a", "b"), ("a", "c"), ("b", "c")):
        assert np.abs(fitted.marginal(names) - counts.exact(names) / 5000).sum() < 0.05
    assert fitted.graphical.draw_rows(100).shape == (100, 3)

"""Prices looked up instead of computed again, for tests that make many fits of the same price."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest

from sidelight.mechanisms.objective_perturbation import ObjectivePerturbation
from sidelight.regression import plan


@pytest.fixture(scope="module")
def prices_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "calibrate_objective", lru_cache(plan.calibrate_objective))
        patch.setattr(ObjectivePerturbation, "claims", lru_cache(ObjectivePerturbation.claims))
        yield

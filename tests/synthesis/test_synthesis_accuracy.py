"""What must hold of accuracy, on a reference table: six columns, six coupled pairs, 5000 rows, 3-way marginals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sidelight.guarantees import Neighbours
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.published.mwem import MWEMPlan
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.marginal_engine import release_distribution
from sidelight.synthesis.measurement import PrivateMarginals, Protection
from sidelight.synthesis.prior import DistributionPrior, GivenWeights, PublicRowsPrior
from sidelight.synthesis.single_queries import release_by_single_queries
from sidelight.synthesis.spaces import DenseSpace
from sidelight.synthesis.workload import marginals
from sidelight.testing import SeededEntropy

DOMAIN = Domain(tuple("abcdef"), (4, 3, 5, 2, 6, 4))
SPACE = DenseSpace(DOMAIN)
WORKLOAD = marginals(3)
ROWS = 5000
COMMON: dict[str, Any] = {
    "domain": DOMAIN,
    "workload": WORKLOAD,
    "protection": Protection(neighbours=Neighbours.REPLACE),
    "rows": ROWS,
}
PriorOf = Callable[[np.ndarray, np.random.Generator], DistributionPrior]


def world(seed: int) -> tuple[np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(seed)
    logs = np.zeros(DOMAIN.sizes)
    for i, j in [(0, 1), (1, 2), (2, 4), (3, 4), (4, 5), (0, 5)]:
        shape = [1] * 6
        shape[i], shape[j] = DOMAIN.sizes[i], DOMAIN.sizes[j]
        logs = logs + rng.normal(size=shape)
    law = np.exp(logs).ravel()
    return law / law.sum(), rng


def error(counts: np.ndarray, weights: np.ndarray) -> float:
    wanted = WORKLOAD.partitions(DOMAIN, closure=False)
    both = zip(SPACE.marginals(counts / ROWS, wanted), SPACE.marginals(weights, wanted), strict=True)
    return float(np.mean([np.abs(one - other).sum() for one, other in both]))


def mean_error(price: Budget, prior_of: PriorOf | None = None, *, runs: int = 20, mwem: bool = False) -> float:
    found = []
    for seed in range(runs):
        law, rng = world(seed)
        x = rng.multinomial(ROWS, law)
        prior = None if prior_of is None else prior_of(law, rng)
        counts = PrivateMarginals.from_cells(DOMAIN, x, protection=COMMON["protection"])
        with Source(SeededEntropy(seed), declared="exact") as source:
            if mwem:
                printed = MWEMPlan(price=price, rounds=20, sensitivity="printed", **COMMON)
                fitted = release_by_single_queries(counts, printed, prior=prior, source=source)
            else:
                fitted = release_distribution(
                    counts, MarginalPlan(price=price, rounds=6, **COMMON), prior=prior, source=source
                )
        found.append(error(x, fitted.weights))
    return float(np.mean(found))


def public(rows: int, bias: float) -> PriorOf:
    def prior(law: np.ndarray, rng: np.random.Generator) -> DistributionPrior:
        biased = law * np.exp(bias * rng.normal(size=law.shape))
        return PublicRowsPrior(domain=DOMAIN, codes=DOMAIN.unravel(rng.choice(len(law), rows, p=biased / biased.sum())))

    return prior


def test_whole_marginals_are_far_better_than_single_queries_as_printed() -> None:
    price = Budget.of(epsilon=1)
    ours, printed = mean_error(price, runs=2), mean_error(price, runs=2, mwem=True)
    assert ours <= 0.35 * printed
    assert ours <= 0.15
    assert printed > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("rho", ["0.0175", "0.1", "0.5"])
def test_public_rows_help_and_biased_ones_hardly_hurt(rho: str) -> None:
    price = Budget.of(rho=rho)
    plain = mean_error(price)
    if rho == "0.0175":
        assert mean_error(price, public(5000, 0.2)) <= 0.92 * plain
    assert mean_error(price, public(5000, 1.5)) <= 1.15 * plain
    assert mean_error(price, public(400, 0.2)) <= 1.1 * plain


@pytest.mark.slow
def test_a_prediction_from_another_world_costs_little() -> None:
    price = Budget.of(rho="0.0175")

    def adversary(law: np.ndarray, rng: np.random.Generator) -> DistributionPrior:
        return GivenWeights(domain=DOMAIN, given=world(int(rng.integers(1000, 2000)))[0], hedge=0.1)

    assert mean_error(price, adversary) <= 1.3 * mean_error(price)

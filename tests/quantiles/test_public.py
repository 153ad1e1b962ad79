"""Priors from public data: public by type, centred, wide enough."""

from __future__ import annotations

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError
from sidelight.quantiles import fit_public, nonprivate_gap
from sidelight.testing import seeded_release

LEVELS = [0.25, 0.5, 0.75]


def test_priors_sit_at_the_public_quantiles_and_say_where_they_come_from() -> None:
    sample = sl.PublicSample(np.arange(1001), "the numbers to 1000")
    priors = fit_public(sample, levels=LEVELS, size=100)
    assert [prior.location for prior in priors] == [250.0, 500.0, 750.0]
    assert all(prior.origin.kind == "public" for prior in priors)
    wider = fit_public(sample, levels=LEVELS, size=10)
    assert all(wide.scale > narrow.scale for wide, narrow in zip(wider, priors, strict=True))


def test_a_private_source_is_refused() -> None:
    table = sl.Table([1.0], schema=[sl.Number("x")])
    with pytest.raises(RangeError, match="private source"):
        sl.PublicSample(table, "no")
    with pytest.raises(RangeError, match="PublicSample"):
        fit_public(np.arange(10), levels=LEVELS, size=10)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [[], [np.nan, np.inf]])
def test_an_empty_sample_is_refused(values: list[float]) -> None:
    with pytest.raises(RangeError, match="finite"):
        sl.PublicSample(values, "nothing")


def test_tied_public_values_need_a_granularity() -> None:
    sample = sl.PublicSample([3] * 50, "constant")
    with pytest.raises(RangeError, match="granularity"):
        fit_public(sample, levels=[0.5], size=10)
    (prior,) = fit_public(sample, levels=[0.5], size=10, granularity=1)
    assert prior.scale == 0.5


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_the_size_is_a_whole_number(size: object) -> None:
    with pytest.raises(RangeError, match="size"):
        fit_public(sl.PublicSample([1.0, 2.0], "two"), levels=[0.5], size=size)  # type: ignore[arg-type]


def test_public_data_helps_where_the_budget_is_small() -> None:
    rng = np.random.default_rng(3)
    private, public = rng.gamma(6, 6.4, 500), rng.gamma(6, 6.4, 5000)
    priors = fit_public(sl.PublicSample(public, "another draw of the same law"), levels=LEVELS, size=500)

    def error(**known: object) -> float:
        query = sl.Quantiles(LEVELS, epsilon=0.1, **known)  # type: ignore[arg-type]
        releases = (seeded_release(query, private, seed=seed) for seed in range(30))
        return float(np.mean([nonprivate_gap(private, LEVELS, release.value).max() for release in releases]))

    assert error(prediction=priors) < 0.6 * error(lower=0, upper=120)

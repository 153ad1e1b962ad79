"""No value of a record makes a release of quantiles fail or warn after it was charged, in any form."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.quantiles.tree import even_levels
from sidelight.testing import seeded_release

LARGEST = sys.float_info.max
RNG = np.random.default_rng(7)
HOSTILE = {
    "no record": np.empty(0),
    "one record": np.array([3.0]),
    "all equal": np.full(3000, 0.1),
    "all missing": np.full(3000, np.nan),
    "all infinite": np.array([-np.inf, np.inf] * 1500),
    "the largest doubles": np.array([-LARGEST, LARGEST] * 1500),
    "near the largest double": LARGEST * (1 - RNG.random(3000) * 1e-3),
    "from end to end": RNG.choice([-1, 1], 3000) * 10 ** RNG.uniform(-308, 308, 3000),
    "below the normal doubles": 5e-324 * RNG.integers(-(2**20), 2**20, 3000),
    "zeros of both signs": np.array([0.0, -0.0] * 1500),
    "an atom beside a far one": np.array([1.0] * 1600 + [1e308] * 1400),
    "two neighbours": np.array([1.0, np.nextafter(1.0, 2.0)] * 1500),
}
WAYS: dict[str, dict[str, Any]] = {
    "tree": {"levels": even_levels(9), "epsilon": 1, "form": "tree"},
    "select": {"levels": even_levels(9), "epsilon": 5, "form": "select"},
    "cells": {"levels": even_levels(19), "epsilon": 1, "form": "cells"},
    "many cells": {"levels": even_levels(199), "epsilon": 30, "size": 3000, "form": "cells"},
    "cells in rho": {"levels": even_levels(19), "rho": 1, "form": "cells"},
    "codes": {"levels": even_levels(9), "epsilon": 1, "granularity": 1, "bounds": (0, 120)},
    "cells within bounds": {"levels": even_levels(19), "epsilon": 1, "bounds": (-1e300, 1e300)},
    "predicted cells": {
        "levels": even_levels(19), "epsilon": 1, "form": "predicted",
        "prediction": sl.priors.hedge(sl.priors.Cauchy(1e300, 1e290), with_=sl.priors.ScaleFree(), weight=0.1),
    },
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("data", HOSTILE)
def test_no_value_makes_a_release_fail(way: str, data: str) -> None:
    levels = WAYS[way]["levels"]
    others = {name: each for name, each in WAYS[way].items() if name != "levels"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        query = sl.Quantiles(levels, **others)
        query.prepare(sl.Table(np.zeros(1), schema=[query.declare()]).schema)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=sl.errors.HedgeWarning)  # of the query, before the charge
        warnings.filterwarnings("ignore", message=".*seed.*")
        release = seeded_release(query, HOSTILE[data], seed=11)
        released = np.asarray(release.value)
        assert np.isfinite(released).all()
        assert (released[1:] >= released[:-1]).all()
        assert not np.isnan(np.asarray(release.error_bound(0.95), float)).any()


@pytest.mark.parametrize("data", HOSTILE)
def test_no_value_makes_a_distribution_fail(data: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*seed.*")
        release = seeded_release(sl.Distribution(epsilon=1), HOSTILE[data], seed=3)
        found = release.value
        shares = np.asarray(found.cdf([-LARGEST, -1.0, 0.0, 1e-310, 1.0, LARGEST]))
        assert (np.diff(shares) >= 0).all()
        assert ((shares >= 0) & (shares <= 1)).all()
        assert np.isfinite(np.asarray(found.quantile([0.01, 0.5, 0.99]))).all()

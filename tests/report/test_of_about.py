"""Ranks are said of about how many: by the count that a release took on its way."""

from __future__ import annotations

import re

import numpy as np

import sidelight as sl
from sidelight.testing import seeded_release

AGES = {"age": np.random.default_rng(3).normal(40, 9, 4000)}
TABLE = sl.Table(AGES, schema=[sl.Number("age", lower=0, upper=120)])


def test_many_quantiles_say_of_how_many() -> None:
    release = seeded_release(sl.Quantiles(sl.quantiles.even_levels(12), epsilon=1, column="age"), TABLE, seed=1)
    assert release.records is not None
    assert 3800 < release.records < 4200
    for text in (str(release), release._repr_html_()):
        assert re.search(rf"ranks of about {release.records:,.0f}\b", text)


def test_a_median_has_not_counted() -> None:
    release = seeded_release(sl.Quantiles([0.5], epsilon=1, column="age"), TABLE, seed=1)
    assert release.records is None
    assert "of about" not in str(release)

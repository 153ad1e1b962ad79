"""Queries of this package whose samples are floats say so in the claims themselves, not only in the circumstances."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks.baselines.posterior_sampling import BalancedOPS, OutputPerturbation

import sidelight as sl
from sidelight.session.query import Query

SCHEMA = sl.Schema(
    [
        sl.Number("a", lower=-1, upper=1, granularity="0.1"),
        sl.Number("b", lower=-1, upper=1),
        sl.Number("y", lower=-1, upper=1),
        sl.Category("c", ["no", "yes"], other=None),
    ]
)
PRICE: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
RIDGE: dict[str, Any] = {"features": ["a", "b"], "target": "y", "feature_norm": 1, **PRICE}


@pytest.mark.parametrize(
    "query",
    [
        sl.AdaOPS(**RIDGE),
        sl.OPSPTR(**RIDGE, score=sl.PublicScore(lambda _: 0.0, "nothing")),
        BalancedOPS(**RIDGE, rows_at_most=1000),
        OutputPerturbation(**RIDGE, rows_at_most=1000),
        sl.StableLogistic(**(RIDGE | {"target": "c"}), penalty=20, rows_at_most=1000),
        sl.StablePCA(columns=["a", "b"], components=1, radius=1, **PRICE),
    ],
    ids=lambda query: type(query).__name__,
)
def test_idealized_queries_make_idealized_claims(query: Query) -> None:
    prepared = query.prepare(SCHEMA)
    assert prepared.numerics == "idealized"
    assert prepared.claims.numerics == "idealized"
    assert not prepared.claims.implies(sl.ApproxDP(1, "1e-6"))
    assert prepared.claims.implies(sl.ApproxDP(1, "1e-6").under(numerics="idealized"))


@pytest.mark.parametrize(
    "query",
    [
        sl.StableMedian("a", **PRICE),
        sl.StableMode("c", **PRICE),
        sl.MajorityVote("c", noise_scale=20, **PRICE),
    ],
    ids=lambda query: type(query).__name__,
)
def test_exact_queries_make_exact_claims(query: Query) -> None:
    prepared = query.prepare(SCHEMA)
    assert prepared.numerics == "exact"
    assert prepared.claims.implies(sl.ApproxDP(1, "1e-6"))

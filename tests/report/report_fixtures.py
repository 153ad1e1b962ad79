"""Hand-made outcomes: a report is tested without data, sessions or noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sidelight.guarantees import BoundedRange, Claims
from sidelight.release import Circumstances, Refused, Release, TailBound
from sidelight.report import Account, Comparison, Contestant, Item, Report, Use

__all__ = ["account", "comparison", "full_report", "make_release", "refused"]

HEAD = "6c29441ef59130134cff38a3c0490c82878cea894ca8c8135ac0a542de9bfee0"


def circumstances(**other: Any) -> Circumstances:
    given = {"dataset": "people", "engine": "numpy", "version": "0", "entropy": "os", "numerics": "exact"}
    return Circumstances(**{**given, **other})


@pytest.fixture
def make_release() -> Callable[..., Release]:
    def make(count: int = 9, *, claims: Claims | None = None, **other: Any) -> Release:
        levels = [(i + 1) / (count + 1) for i in range(count)]
        given: dict[str, Any] = {
            "query": {"kind": "quantiles", "column": "income", "epsilon": "0.5", "levels": [str(q) for q in levels]},
            "value": np.array([10_000.0 * (1 + q) for q in levels]),
            "labels": tuple(f"{100 * q:.10g} %" for q in levels),
            "guarantee": claims or Claims.of(BoundedRange("0.5")),
            "error": TailBound(unit="ranks", assumption="no ties", fixed=(7.0,) * count, per_log=(2.0,) * count),
            "prediction": None,
            "circumstances": circumstances(),
        }
        return Release(**{**given, **other})

    return make


@pytest.fixture
def refused() -> Refused:
    claims = Claims.of(BoundedRange("0.1"))
    return Refused(
        query={"kind": "range"}, reason="Too few stable records.", guarantee=claims, circumstances=circumstances()
    )


@pytest.fixture
def comparison() -> Comparison:
    ways = [("Nothing known", 60.0, 5e6), ("Bounds", 40.0, 100.0), ("A guess", 20.0, 50.0), ("Public data", 10.0, 5.0)]
    truth = tuple(10_000.0 * i for i in range(1, 10))
    contestants = [
        Contestant(
            name=name,
            knowledge="something",
            mean_error=error,
            standard_error=0.5,
            example=tuple(value + shift for value in truth),
        )
        for name, error, shift in ways
    ]
    return Comparison(
        question="Nine deciles.",
        data="The people are generated.",
        draws=100,
        records=1000,
        levels=tuple(f"{10 * i} %" for i in range(1, 10)),
        truth=truth,
        contestants=tuple(contestants),
    )


@pytest.fixture
def account() -> Account:
    uses = (Use(route="sum of ε", fraction=0.4, text="1.2 of 3"), Use(route="sum of ρ", fraction=1.7, text="1.7 of 1"))
    return Account(
        statement="Everything released is (3, 1e-6)-DP.",
        uses=uses,
        remaining="one pure query up to ε 1.8",
        place="sqlite:///budget.db",
        scope="people",
        head=HEAD,
    )


@pytest.fixture
def full_report(
    make_release: Callable[..., Release], refused: Refused, comparison: Comparison, account: Account
) -> Report:
    prediction = {"description": "Cauchy(location=35000, scale=20000), a guess", "origin": {"kind": "guess"}}
    many = make_release(99)
    outcomes = [make_release(prediction=prediction), make_release(1), make_release(3, error=None), many, refused]
    items = [Item(title=f"Question {i}", outcome=outcome) for i, outcome in enumerate(outcomes)]
    return Report(
        title="Ages and incomes", day="2026-11-15", items=tuple(items), account=account, comparison=comparison
    )

"""A small daily sequence on a ledger for tests."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.ledger import Ledger, open_ledger
from sidelight.quantiles import PubProx, Sequence
from sidelight.testing import SeededSequence

FIRST = datetime.date(2025, 11, 1)
SCHEMA = [sl.Number("minutes", lower=0, granularity="0.1")]
Make = Callable[..., Sequence]


def day(t: int) -> datetime.date:
    return FIRST + datetime.timedelta(t)


def features(t: int) -> list[float]:
    return [float(t % 7 >= 5), 1.0]


def minutes(t: int, count: int = 200) -> np.ndarray:
    rng = np.random.default_rng(t)
    return np.rint(10 * (8 + 4 * (t % 7 >= 5)) * np.exp(0.5 * rng.standard_normal(count))) / 10


def today(t: int) -> dict[str, np.ndarray]:
    return {"minutes": minutes(t)}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with open_ledger(tmp_path / "ledger.db", testing=True) as opened:
        yield opened


@pytest.fixture
def make(ledger: Ledger) -> Make:
    def build(
        learner: Any = None, *, epsilon: str = "0.5", budget: Any = None, levels: Any = (0.25, 0.5, 0.75), **rest: Any
    ) -> Sequence:
        arguments: dict[str, Any] = {"ledger": ledger, "scope": "trips", "seed": 1, "schema": SCHEMA, **rest}
        return SeededSequence(
            sl.Quantiles(list(levels), column="minutes", epsilon=epsilon),
            learner or PubProx(8, 2, features=2, plausible=(0, 120)),
            budget=budget or sl.PureDP(9),
            **arguments,
        )

    return build

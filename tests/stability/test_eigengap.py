"""Principal components by eigengap: the projector's move against search, noise, releases, refusals, mistakes."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Claims, PureDP
from sidelight.guarantees.conversions import gdp_within
from sidelight.mechanisms.price import DrawPrice
from sidelight.noise import Source
from sidelight.release import Refused, Release
from sidelight.stability.eigengap import StablePCA, projector_move, symmetric_noise
from sidelight.testing import SeededEntropy, seeded_release


def test_reference() -> None:
    assert projector_move(51) == pytest.approx(0.0141421356, rel=1e-8)
    assert projector_move(51) / 0.1 == pytest.approx(0.141421356, rel=1e-8)
    for none in (1.0, 0.3, -5.0, math.nan):
        assert projector_move(none) == math.inf


def cut(second: np.ndarray, k: int) -> tuple[float, np.ndarray]:
    values, vectors = np.linalg.eigh(second)
    top = vectors[:, len(values) - k :]
    return float(values[-k] - values[-k - 1]), top @ top.T


def test_no_record_moves_gap_or_projector_further_than_stated() -> None:
    rng = np.random.default_rng(1)
    moves, gaps = [], []
    for _ in range(4000):
        d = int(rng.integers(2, 6))
        k = int(rng.integers(1, d))
        values = np.sort(rng.uniform(0, 3, size=d))
        values[d - k :] += rng.uniform(1.001, 4) * rng.choice([1, 20])
        axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
        second = (axes * values) @ axes.T
        # halfway between the two spaces is where a record turns them most
        record = axes[:, d - k] + axes[:, d - k - 1] * rng.uniform(0.5, 1.5) + 0.1 * rng.normal(size=d)
        record /= np.linalg.norm(record)
        less, more = cut(second, k), cut(second + np.outer(record, record), k)
        gaps.append(abs(less[0] - more[0]))
        distance = float(np.linalg.norm(less[1] - more[1]))
        moves += [distance / projector_move(gap) for gap, _ in (less, more) if gap > 1]
    assert max(moves) <= 1 + 1e-9
    assert max(moves) > 0.9  # so half of the constant, say, would be refuted
    assert 0.9 < max(gaps) <= 1 + 1e-9


def test_symmetric_noise_has_its_law() -> None:
    source = Source(SeededEntropy(3))
    draws = np.array(
        [symmetric_noise(3, 2.0, DrawPrice(law="a law", claims=Claims.of(PureDP(1))), source) for _ in range(4000)]
    )
    assert (draws == draws.transpose(0, 2, 1)).all()
    deviations = draws.std(axis=0)
    assert np.diag(deviations) == pytest.approx([2.0] * 3, rel=0.06)
    assert deviations[0, 1:] == pytest.approx([math.sqrt(2)] * 2, rel=0.06)
    assert abs(float(deviations[0, 1]) / 2.0 - 1) > 0.06  # another law fails


GIVEN: dict[str, Any] = {"columns": ["a", "b", "c"], "components": 1, "radius": 1, "epsilon": 1, "delta": "1e-6"}
SCHEMA = [sl.Number(name) for name in "abc"]
TOP = np.array([0.8, 0.6, 0.0])


def table(n: int, wide: float = 0.5) -> sl.Table:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, 1)) * TOP * wide + rng.normal(size=(n, 3)) * 0.1
    return sl.Table({name: rows[:, place] for place, name in enumerate("abc")}, schema=SCHEMA)


def test_a_wide_gap_is_found() -> None:
    found = seeded_release(StablePCA(**GIVEN), table(20_000), seed=1)
    assert isinstance(found, Release)
    assert found.value.shape == (1, 3)
    assert abs(found.value[0] @ TOP) > 0.99
    assert found.guarantee.approx_at("1e-6").epsilon <= 1


def test_a_narrow_gap_is_refused_at_the_same_price() -> None:
    released, refused = (seeded_release(StablePCA(**GIVEN), table(20_000, w), seed=1) for w in (0.5, 0.0))
    assert isinstance(released, Release)
    assert isinstance(refused, Refused)
    assert released.guarantee == refused.guarantee
    assert released.query == refused.query


def test_the_noise_is_that_of_the_gap() -> None:
    proposal: Any = StablePCA(**GIVEN).prepare(sl.Schema(SCHEMA))
    whole = proposal.gap_mu**2 + proposal.projector_mu**2
    allowed = float(gdp_within(Fraction(1), Fraction(5, 6 * 10**6))) ** 2
    assert whole == pytest.approx(allowed, rel=1e-9)
    assert whole <= allowed
    assert proposal.choose(1001.0).deviation == pytest.approx(1 / (math.sqrt(2) * 1000 * proposal.projector_mu))
    for none in (math.nan, 1.0, 2.0, -4.0):
        assert proposal.choose(none) is None


def test_no_rows_are_refused() -> None:
    assert isinstance(seeded_release(StablePCA(**GIVEN), table(0), seed=1), Refused)


def test_mistakes_are_found_before_any_charge() -> None:
    for components in (0, 3, True):
        with pytest.raises(RangeError, match="components"):
            StablePCA(**(GIVEN | {"components": components}))
    with pytest.raises(RangeError, match="gap_share"):
        StablePCA(**GIVEN, gap_share=0)
    with pytest.raises(RangeError, match="radius"):
        StablePCA(**(GIVEN | {"radius": 0})).prepare(sl.Schema(SCHEMA))
    with pytest.raises(SchemaError):
        StablePCA(**(GIVEN | {"columns": ["a", "z"]})).prepare(sl.Schema(SCHEMA))
    with pytest.raises(SchemaError, match="Table"):
        StablePCA(**GIVEN).declare()

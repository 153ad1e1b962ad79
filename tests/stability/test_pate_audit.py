"""Attacks on released labels by one teacher that changes all its votes, with planted bugs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import sidelight as sl
from sidelight.audit import audit
from sidelight.release import Release
from sidelight.stability.pate import ClearVotes, NoisyLabels
from sidelight.testing import SeededEntropy

PROPOSAL = ClearVotes(budget="0.0242", order=16, test_scale=5, delta="1e-5")
DRAWS = 600


def votes(against: int) -> np.ndarray:
    return np.tile([150 - against, against, 0], (60, 1))


def straddling() -> tuple[np.ndarray, np.ndarray]:
    """Return votes that differ by one teacher, and whose distances lie on both sides of the test's threshold."""
    distances = [PROPOSAL._distance(votes(against), 10.0) for against in range(60)]
    last = max(against for against, distance in enumerate(distances) if distance >= PROPOSAL.test.threshold)
    assert distances[last] - distances[last + 1] == 1
    return votes(last), votes(last + 1)


def outcomes(counts: np.ndarray, name: str) -> Callable[[int], Sequence[Any]]:
    entropy = SeededEntropy(name)  # one stream for all draws

    def draw(times: int) -> list[Any]:
        query = NoisyLabels(votes=counts, noise_scale=10, proposal=PROPOSAL)
        found = [query.release(entropy=entropy) for _ in range(times)]
        return [int((each.value != 0).sum()) if isinstance(each, Release) else "refused" for each in found]

    return draw


@pytest.fixture(autouse=True)
def _distance_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distance is the same in all draws; computing it once makes the audit affordable."""
    known: dict[bytes, int] = {}
    compute = ClearVotes._distance

    def once(self: ClearVotes, counts: np.ndarray, noise_scale: float) -> int:
        if counts.tobytes() not in known:
            known[counts.tobytes()] = compute(self, counts, noise_scale)
        return known[counts.tobytes()]

    monkeypatch.setattr(ClearVotes, "_distance", once)


def test_no_attack_on_votes_at_the_threshold_refutes_the_price() -> None:
    here, there = straddling()
    found = audit(outcomes(here, "here"), outcomes(there, "there"), draws=DRAWS)
    assert not found.refutes(PROPOSAL.price)


@pytest.mark.planted("a private test without noise")
def test_a_test_without_noise_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: the distance is compared with the threshold as it is."""
    monkeypatch.setattr(
        "sidelight.mechanisms.tests_and_bounds.rounded_gaussian", lambda count, scale, source: np.zeros(count, np.int64)
    )
    here, there = straddling()
    found = audit(outcomes(here, "here"), outcomes(there, "there"), draws=DRAWS)
    assert found.refutes(PROPOSAL.price)


@pytest.mark.planted("labels of teachers with too little noise", of=("PATE",))
@pytest.mark.parametrize(("noise", "refuted"), [("2", False), ("0.8", True)])
def test_the_labels_noise_keeps_its_claim_and_less_does_not(noise: str, refuted: bool) -> None:
    """A teacher who moves its vote from one class to the other; two classes, where the claim is sharp."""

    def labels(counts: list[int], name: str) -> Callable[[int], Sequence[Any]]:
        entropy = SeededEntropy(name)

        def draw(times: int) -> list[int]:
            query = NoisyLabels(votes=np.tile(counts, (times, 1)), noise_scale=noise)
            return query.release(entropy=entropy).value.tolist()

        return draw

    found = audit(labels([8, 7], "first"), labels([7, 8], "second"), draws=8000)
    assert found.refutes(sl.GDP("0.70711")) == refuted  # √2 / 2

"""COCOB: the reference path, exact storage, and why what is learned from must be clipped."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sidelight.errors import RangeError
from sidelight.published.cocob import Cocob


def test_reference_path_to_an_absolute_value() -> None:
    learner, seen = Cocob.at([0.0]), {}
    for step in range(1, 151):
        learner = learner.step(np.sign(learner.position - 10))
        seen[step] = float(learner.position[0])
    wanted = {1: 0.01, 2: 0.0202, 50: 11.35711963355237, 100: 6.947178009799339, 150: 13.087646900175525}
    for step, value in wanted.items():
        assert seen[step] == pytest.approx(value, rel=1e-12)
    assert seen[5] == pytest.approx(0.055177512, abs=5e-10)


def test_reference_path_of_two_coordinates() -> None:
    learner, path = Cocob.at([1.0, -1.0]), []
    for gradient in [(0.5, -2), (1, 0), (-0.25, 1), (3, -1)]:
        learner = learner.step(gradient)
        path.append(learner.position.tolist())
    wanted = [(0.99, -0.99), (0.98485, -0.99), (0.98742234375, -0.995), (0.9856258130642361, -0.989975)]
    for found, expected in zip(path, wanted, strict=True):
        assert found == pytest.approx(expected, rel=1e-13)


def test_a_stored_learner_goes_on_bit_for_bit() -> None:
    rng = np.random.default_rng(4)
    learner = Cocob.at(rng.normal(size=(3, 2)))
    for _ in range(20):
        learner = learner.step(rng.normal(size=(3, 2)))
    again = Cocob.from_json(json.loads(json.dumps(learner.to_json())))
    for _ in range(20):
        gradient = rng.normal(size=(3, 2))
        learner, again = learner.step(gradient), again.step(gradient)
    assert learner.position.tobytes() == again.position.tobytes()
    assert learner.to_json() == again.to_json()


def test_steps_leave_the_old_state_as_it_was() -> None:
    learner = Cocob.at([0.0])
    learner.step([1.0])
    assert learner.to_json() == Cocob.at([0.0]).to_json()


def test_one_huge_gradient_is_never_forgotten() -> None:
    def after(first: float) -> float:
        learner = Cocob.at([0.0]).step([first])
        for _ in range(300):
            learner = learner.step(np.sign(learner.position - 10))
        return abs(float(learner.position[0]) - 10)

    assert after(1.0) < 5
    assert after(1e6) > 9  # it has hardly moved: clip what is learned from


def test_wrong_shapes_and_damaged_states() -> None:
    with pytest.raises(RangeError, match="shape"):
        Cocob.at([0.0, 1.0]).step([1.0])
    written = Cocob.at([0.0, 1.0]).to_json()
    for broken in ({**written, "start": ["zzz", "0x0p+0"]}, {**written, "reward": ["0x0p+0"]}, {"shape": ["2"]}):
        with pytest.raises(RangeError):
            Cocob.from_json(broken)

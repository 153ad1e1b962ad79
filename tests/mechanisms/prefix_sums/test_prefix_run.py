"""The run: what it refuses, what it keeps to itself, and integers beyond int64."""

import copy
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from sidelight.errors import NoiseError, RangeError
from sidelight.mechanisms import prefix_sums as run_module
from sidelight.mechanisms.prefix_sums import PrefixSums
from sidelight.noise import Source
from sidelight.testing import SeededEntropy


def plan(**changed):
    return PrefixSums(**({"steps": 3, "size": 2, "norm_bound": 1, "rho": "0.5"} | changed))


def source():
    return Source(SeededEntropy("prefix runs"))


def test_a_step_beyond_the_plan_is_refused_and_counts_nothing():
    run = plan().start()
    with source() as noise:
        for _ in range(3):
            run.add([0.1, 0.2], source=noise)
        last = run.estimate
        with pytest.raises(RangeError, match="3 steps"):
            run.add([0.1, 0.2], source=noise)
    assert run.step == 3
    assert not run.goes_on
    assert (run.estimate == last).all()


def test_a_run_cannot_be_copied_or_stored():
    run = plan().start()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NoiseError, match="pickled or copied"):
            attempt(run)


def test_a_run_does_not_survive_a_fork():
    run = plan().start()
    assert run.goes_on
    run._pid = os.getpid() + 1
    assert not run.goes_on
    with source() as noise, pytest.raises(NoiseError, match="fork"):
        run.add([0, 0], source=noise)


def test_a_wrong_shape_is_refused_before_anything_is_counted():
    run = plan().start()
    with source() as noise:
        with pytest.raises(RangeError, match="2 coordinates"):
            run.add([1.0], source=noise)
        assert run.step == 0
        run.add([0.0, 0.0], source=noise)


def test_after_a_failed_step_the_run_is_over():
    run = plan().start()
    closed = source()
    closed.close()
    with pytest.raises(NoiseError, match="closed"):
        run.add([0.1, 0.1], source=closed)
    assert not run.goes_on
    with source() as noise, pytest.raises(NoiseError, match="start a new stream"):
        run.add([0.1, 0.1], source=noise)


def test_estimates_are_copies_and_the_text_holds_nothing_private():
    run = plan().start()
    with source() as noise:
        estimate = run.add([0.123456, 0.0], source=noise)
    estimate[:] = 7
    assert not (run.estimate == 7).any()
    assert "123" not in repr(run)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e308])
def test_what_is_not_a_number_neither_raises_nor_reaches_the_noise(bad):
    run = plan(steps=5).start()
    with source() as noise:
        estimates = [run.add([bad, 0.1], source=noise) for _ in range(5)]
    assert np.isfinite(estimates).all()


def test_noise_beyond_int64_is_added_in_python_integers(monkeypatch):
    huge = np.array([2**63 - 1, -(2**63)])
    monkeypatch.setattr(run_module, "_noise", lambda plan, source: huge)
    blurred = run_module._blurred(np.array([2**61, -(2**61)]), plan(), None)
    assert blurred.tolist() == [2**63 - 1 + 2**61, -(2**63) - 2**61]


def test_a_scale_beyond_the_vector_path_still_gives_estimates():
    """rho so small that the noise needs Python integers; also with more bits than int64 rows can hold."""
    made = PrefixSums(steps=4, size=2, norm_bound=1, rho="1e-9", gradient_bits=30, encoder_bits=30)
    assert made.noise_scale > 2**60
    run = made.start()
    with source() as noise:
        values = [run.add([0.5, -0.5], source=noise) for _ in range(4)]
    assert np.isfinite(values).all()
    assert 0.01 < np.abs(values).mean() / made.deviations().mean() < 5


def test_claims_do_not_depend_on_how_many_steps_are_used():
    made = plan()
    before = made.claims
    with source() as noise:
        made.start().add([0, 0], source=noise)
    assert made.claims == before
    assert before.gdp().mu <= Fraction(1)

"""Delays: reference values, and that bisection finds the largest allowed one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.errors import RangeError
from sidelight.experts import DelayRule

UNION, PAPER = (DelayRule(actions=25, noise_scale=5.0, bound=bound) for bound in ("union", "paper"))


def test_thresholds():
    at = ([100, 1000, 10_000], [1, 5, 50])
    assert UNION.threshold(*at) == pytest.approx([29.014218, 71.850100, 274.010603], rel=1e-6)
    assert PAPER.threshold(*at) == pytest.approx([40.747954, 98.653720, 360.212632], rel=1e-6)


def test_delays():
    assert UNION.delay([100, 300], 1000).tolist() == [9, 62]
    assert PAPER.delay([100, 300], 1000).tolist() == [5, 38]
    gaps, times = zip((50, 100), (100, 100), (200, 1000), (500, 10_000), (30, 10), strict=True)
    assert PAPER.delay(gaps, times).tolist() == [1, 5, 18, 88, 0]


@given(
    st.floats(0, 1e6),
    st.integers(1, 10**7),
    st.integers(2, 2000),
    st.floats(1e-3, 1e3),
    st.floats(1e-4, 1.0),
    st.floats(1e-2, 10),
    st.sampled_from(["union", "paper"]),
)
def test_the_delay_is_the_largest_allowed(gap, time, n, eta, a, c, bound):
    rule = DelayRule(actions=n, noise_scale=eta, tolerance=a, gain_range=c, bound=bound)
    found = int(rule.delay(gap, time))
    assert float(rule.threshold(time, found)) <= gap
    assert float(rule.threshold(time, found + 1)) > gap


@given(st.integers(1, 10**6), st.integers(0, 10**4))
def test_thresholds_increase_in_delay_and_time(time, delay):
    here = float(UNION.threshold(time, delay))
    assert here < float(UNION.threshold(time, delay + 1))
    assert here <= float(UNION.threshold(time + 1, delay))


def test_batches_can_be_limited():
    rule = DelayRule(actions=25, noise_scale=5.0, largest_batch=10)
    assert rule.delay([100, 300, 1e9], 1000).tolist() == [9, 9, 9]


@pytest.mark.parametrize("wrong", [{"actions": 1}, {"noise_scale": 0.0}, {"tolerance": math.nan}, {"largest_batch": 0}])
def test_parameters_are_checked(wrong):
    with pytest.raises(RangeError):
        DelayRule(**{"actions": 25, "noise_scale": 5.0, **wrong})


def test_scalars_and_arrays_agree():
    gaps = np.linspace(0, 500, 60)
    assert UNION.delay(gaps, 77).tolist() == [int(UNION.delay(gap, 77)) for gap in gaps]

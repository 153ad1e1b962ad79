"""A bounded statistic is immutable, exact and silent about its value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest

from sidelight.aggregates import Bounded
from sidelight.aggregates.bounded import VALUE_LIMIT
from sidelight.errors import RangeError
from sidelight.guarantees.claims import Neighbours
from sidelight.guarantees.units import Row


def bounded(value, **changes):
    arguments = {"sensitivity": Fraction(1), "norm": "l1", "neighbours": Neighbours.ADD_REMOVE, "unit": Row()}
    return Bounded(value, **(arguments | changes))


@pytest.mark.parametrize("value", [7654321, np.array([7654321, -7654321]), np.full((2, 2), 7654321)])
def test_repr_never_shows_the_value(value):
    for text in (repr(bounded(value)), str(bounded(value)), f"{bounded(value)}"):
        assert "7654321" not in text
        assert "sensitivity=1" in text


def test_value_is_a_read_only_copy():
    given = np.array([1, 2])
    statistic = bounded(given)
    given[0] = 9
    assert statistic.value.tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        statistic.value[0] = 3
    with pytest.raises(FrozenInstanceError):
        statistic.sensitivity = Fraction(0)


def test_saturates_instead_of_wrapping():
    assert bounded(2**80).value == VALUE_LIMIT
    assert bounded(np.array([2**80, -(2**80), 5], object)).value.tolist() == [VALUE_LIMIT, -VALUE_LIMIT, 5]
    assert bounded(np.array([2**64 - 1], np.uint64)).value.tolist() == [VALUE_LIMIT]


@pytest.mark.parametrize("value", [1.5, np.array([0.5]), True, "3"])
def test_refuses_values_that_are_not_integers(value):
    with pytest.raises(RangeError, match="integers"):
        bounded(value)


@pytest.mark.parametrize("changes", [{"sensitivity": 0.5}, {"sensitivity": Fraction(-1)}, {"norm": "l3"}])
def test_refuses(changes):
    with pytest.raises(RangeError):
        bounded(1, **changes)


def test_shape_is_public():
    assert bounded(3).shape == ()
    assert bounded(np.zeros((2, 3), int)).shape == (2, 3)

"""Trap 1: a copied accountant is a second budget. Handles refuse copies; scikit-learn's clone keeps the object."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, Self

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV

from sidelight.errors import BudgetError, LedgerError
from sidelight.guarantees import Claims, PureDP
from sidelight.ledger import Ledger, Reservation


@pytest.fixture
def handles(file_ledger: Ledger) -> list[Any]:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    return [file_ledger, scope, scope.reserve(Claims.of(PureDP("0.1")), request={"kind": "x"})]


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, pickle.dumps, lambda handle: pickle.dumps(handle, 0)])
def test_copies_and_pickles_are_refused(handles: list[Any], make: Callable[[object], object]) -> None:
    for handle in handles:
        with pytest.raises(LedgerError, match=r"cannot be (copied|pickled)"):
            make(handle)
        with pytest.raises(LedgerError):
            make({"inside": [handle]}) if make is not copy.copy else make(handle)


def test_clone_keeps_the_identical_object(handles: list[Any]) -> None:
    for handle in handles:
        assert clone(handle, safe=False) is handle
        assert clone(Charging(scope=handle)).scope is handle


class Charging(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A model that pays for each fit."""

    def __init__(self, scope: Any = None, strength: float = 1.0) -> None:
        self.scope = scope
        self.strength = strength

    def fit(self, x: np.ndarray, y: np.ndarray) -> Self:
        reservation = self.scope.reserve(Claims.of(PureDP("0.01")), request={"kind": "fit", "s": str(self.strength)})
        assert isinstance(reservation, Reservation)
        self.classes_ = np.unique(y)
        reservation.release("fitted")
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), self.classes_[0])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_grid_search_charges_every_fit(file_ledger: Ledger, n_jobs: int) -> None:
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    x, y = np.zeros((30, 1)), np.tile([0, 1], 15)
    with joblib.parallel_backend("threading"):
        search = GridSearchCV(Charging(scope=scope), {"strength": [0.1, 1.0, 10.0]}, cv=5, n_jobs=n_jobs)
        search.fit(x, y)
    assert len(scope.entries()) == 3 * 5 + 1
    assert scope.totals().epsilon == 16 * 10**28
    assert file_ledger.verify().ok


def test_a_grid_search_in_processes_is_refused_loudly(file_ledger: Ledger) -> None:
    """An error when scikit-learn pickles the model for workers, instead of 16 uncharged fits."""
    scope = file_ledger.open_scope("people", budget=PureDP(1))
    search = GridSearchCV(Charging(scope=scope), {"strength": [0.1, 1.0]}, cv=2, n_jobs=2, error_score="raise")
    with pytest.raises(Exception, match=r"pickle|cannot be") as refused:
        search.fit(np.zeros((8, 1)), np.tile([0, 1], 4))
    assert not isinstance(refused.value, BudgetError)
    assert scope.totals().epsilon == 0

"""Handles that must not be copied.

A copied accountant is a second budget: scikit-learn's `clone` deep-copies parameters, and a grid search over a copied
accountant books nothing. So a ledger's handles refuse copies and pickles, and `clone` gets the identical object.
"""

from __future__ import annotations

from typing import NoReturn, Self

from sidelight.errors import LedgerError


class Unique:
    """Refuses `copy`, `deepcopy` and `pickle`; survives `sklearn.clone` as the identical object."""

    def __copy__(self) -> NoReturn:
        self._refuse("copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self._refuse("copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickled")

    def __sklearn_clone__(self) -> Self:
        return self

    def _refuse(self, what: str) -> NoReturn:
        raise LedgerError(
            f"a {type(self).__name__} cannot be {what}: two copies would each spend the budget. Pass the same object "
            "to threads; in another process, open the ledger again by its address"
        )

"""What every private scikit-learn estimator has in common: it costs something each time it is fitted."""

from __future__ import annotations

from inspect import signature
from typing import Any

from sidelight.errors import RangeError
from sidelight.session.fit_callers import warn_of_callers
from sidelight.session.session import Session


class PaidEstimator:
    """Stands before `BaseEstimator` among the bases of a class with a parameter `session`."""

    session: Session | None

    def __new__(cls, *_: Any, **parameters: Any) -> Any:
        """Answer `random_state` with more than "unexpected keyword", unless the class has such a parameter."""
        if "random_state" in parameters and "random_state" not in signature(cls.__init__).parameters:
            raise RangeError(
                f"{cls.__name__} takes no random_state: a seed publishes the noise and with it the data; for "
                "reproducible tests pass session=sidelight.testing.SeededSession(..., seed=...), which brands the model"
            )
        return super().__new__(cls)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]  # of BaseEstimator
        tags.non_deterministic = True  # private: a second fit draws new noise and is paid again
        return tags

    def __getstate__(self) -> Any:
        if self.session is not None:
            raise TypeError(
                "a model with a session cannot be copied or pickled, because its copy would spend the same budget "
                "again; to save a fitted model write model.set_params(session=None) first"
            )
        return super().__getstate__()

    def _check_session(self) -> None:
        """Refuse what is no session, and warn of pipelines and searches that the guarantee does not cover."""
        if not isinstance(self.session, Session | None):
            raise RangeError(f"session must be a sidelight.Session or None, got {type(self.session).__name__}")
        warn_of_callers(self, paid=self.session is not None)

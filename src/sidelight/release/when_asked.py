"""A field of a dataclass that may be given as a function, which is called when the field is first read.

Error bounds are most of what some releases compute, and many people never ask for them. A function that is given holds
released numbers alone: it outlives the release. Hand-made because `functools.cached_property` cannot be given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Found = TypeVar("Found")


class WhenAsked(Generic[Found]):
    """Hold a value, or the function that computes it from what was released; a default where nothing is given.

    Two threads that ask at once both compute it, and find the same. `unasked` hands on what was given as it is.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Answer:
    ...     error: WhenAsked[float] = WhenAsked()
    >>> Answer(lambda: 2.5).error, Answer(1.5).error, Answer().error
    (2.5, 1.5, None)
    """

    def __init__(self, default: Any = None) -> None:
        self._default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Any: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Found: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self._default
        given = vars(instance)[self._name]
        if callable(given):
            given = vars(instance)[self._name] = given()
        return given

    def __set__(self, instance: object, given: Found | Callable[[], Found]) -> None:
        vars(instance)[self._name] = given


class AskedWhenCopied:
    """Compute such fields when a copy is made, or is pickled: it holds what they are, and no function."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in vars(self)}


def unasked(instance: object, name: str) -> Any:
    """Return what a field was given: a value, or the function that computes it."""
    return vars(instance)[name]

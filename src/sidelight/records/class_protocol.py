"""Protocols that are a property of a class, and are looked up once for each class."""

from __future__ import annotations

from typing import Any, Protocol


class ClassProtocol(type(Protocol)):  # type: ignore[misc]  # the metaclass of protocols
    """The metaclass of protocols whose methods a class has or lacks; `issubclass` remembers what it found."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return issubclass(type(instance), cls)

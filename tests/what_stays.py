"""What an object holds, deep down: to see whether a release left anything of its rows in a query."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sidelight.session import Session

#: Code and classes: they are the same for everybody.
_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType)
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_CACHED = type(functools.lru_cache(lambda: None))


class Held(dict[str, str]):
    """Every leaf that can be reached from an object, by the way to it, and the cached properties that were computed."""

    def __init__(self) -> None:
        super().__init__()
        self.computed: dict[tuple[int, str], tuple[str, Any]] = {}


def snapshot(thing: Any) -> Held:
    """Return what an object holds; cached properties apart, which may be computed at any time."""
    found = Held()
    seen: dict[int, Any] = {}
    waiting = [("", thing)]
    while waiting:
        path, here = waiting.pop()
        if isinstance(here, (*_CODE, Session)):  # a session is the user's own, and remembers what was spent
            continue
        if isinstance(here, _PLAIN):
            found[path] = repr(here) if len(repr(here)) < 40 else hashlib.sha256(repr(here).encode()).hexdigest()
            continue
        if id(here) in seen:
            continue
        seen[id(here)] = here  # held, so that no other object gets its id
        if isinstance(here, np.ndarray) and here.dtype != object:
            found[path] = hashlib.sha256(np.ascontiguousarray(here).tobytes()).hexdigest()
            continue
        found[path] = type(here).__name__
        for name, part in _parts(here):
            if _is_computed(here, name):
                found.computed[id(here), name] = f"{path}{name}", here
            else:
                waiting.append((f"{path}{name}", part))
    return found


def _is_computed(here: Any, name: str) -> bool:
    return isinstance(getattr(type(here), name.removeprefix("."), None), functools.cached_property)


def _parts(here: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(here, Mapping):
        for place, (key, part) in enumerate(list(here.items())):
            name = repr(key) if isinstance(key, _PLAIN) else f"#{place}"
            yield f"[key {name}]", key
            yield f"[{name}]", part
    elif isinstance(here, (list, tuple, np.ndarray)):
        yield from ((f"[{place}]", part) for place, part in enumerate(here))
    elif isinstance(here, (set, frozenset)):
        yield from ((f"{{{place}}}", part) for place, part in enumerate(sorted(here, key=repr)))
    elif isinstance(here, types.MethodType):
        yield from ((".self", here.__self__), (".function", here.__func__))
    elif isinstance(here, types.FunctionType):
        cells = here.__closure__ or ()
        yield from ((f".cell{place}", cell.cell_contents) for place, cell in enumerate(cells) if cell_is_full(cell))
        yield ".attributes", vars(here)
    elif isinstance(here, _CACHED):
        yield ".cached", here.cache_info().currsize
        yield ".wrapped", here.__wrapped__
    elif isinstance(here, functools.partial):
        yield from ((".func", here.func), (".args", here.args), (".keywords", here.keywords))
    if hasattr(here, "__dict__") and not isinstance(here, types.FunctionType):
        yield from ((f".{name}", part) for name, part in list(vars(here).items()))
    for kind in type(here).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(here, name):
                yield f".{name}", getattr(here, name)


def cell_is_full(cell: Any) -> bool:
    """Return whether a closure's cell holds something."""
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def changes(before: Held, after: Held) -> list[str]:
    """Return the paths of everything that was added, removed or replaced.

    A cached property that was computed in between is not a change if its unchanged object computes the same value
    again: then the cache holds nothing that the object did not.
    """
    found = [path for path in before.keys() | after.keys() if before.get(path) != after.get(path)]
    for (_, name), (path, here) in {
        key: after.computed[key] for key in after.computed.keys() - before.computed
    }.items():
        again = getattr(type(here), name.removeprefix(".")).func(here)
        if snapshot(again) != snapshot(vars(here)[name.removeprefix(".")]):
            found.append(path)
    return sorted(found)

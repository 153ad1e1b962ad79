"""What a function visibly carries: everything that can be reached from it without running any code of its writer.

Objects are followed as Python's garbage collector follows them (`gc.get_referents`): attributes, slots, containers of
the standard library, closures, partials, caches and generators give what they hold, and no property, `__getattr__` or
`__iter__` runs. Of a function only the globals that its code names are followed, of a module only the names that some
followed code reads, and nothing inside of the libraries below. What is further away than the limits is not seen, nor is
what a function opens when it runs: a file, a name made of texts, a weak reference.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType, TracebackType
from typing import Any

import numpy as np

#: Steps from the function, objects in all, and parts of one container that are followed.
DEPTH, OBJECTS, PARTS = 12, 50_000, 1_000
#: Frames of these are tables: their columns are read, and what they are made of is not followed.
FRAMES = ("pandas", "polars", "pyarrow")
_LIBRARIES = frozenset({*sys.stdlib_module_names, *FRAMES, "numpy", "scipy", "sklearn", "sidelight"}) - {"__main__"}
_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"})
_PLAIN = (float, int, complex, str, bool, type(None))


def library_of(kind: type) -> str:
    """Return the package that a class comes from."""
    return str(type.__getattribute__(kind, "__module__")).partition(".")[0]


def carried_by(function: object) -> Iterator[object]:
    """Return everything that a function visibly carries, each thing once and the nearest first; not itself."""
    seen: dict[int, object] = {id(function): function}  # holds them, so that no address is used twice
    names = _Names()
    waiting = deque((part, 1) for part in _parts(function, names, first=True))
    while waiting and len(seen) < OBJECTS:
        part, depth = waiting.popleft()
        if id(part) not in seen:
            seen[id(part)] = part
            yield part
            if depth < DEPTH:
                waiting.extend((inner, depth + 1) for inner in _parts(part, names))
        if not waiting and depth < DEPTH:
            waiting.extend((inner, depth + 1) for inner in names.of_modules() if id(inner) not in seen)


class _Names:
    """The modules that were met, and the names that code reads from something: of a module no more is followed."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}
        self.names: set[str] = set()

    def of_modules(self) -> list[object]:
        every = [ModuleType.__getattribute__(module, "__dict__") for module in self.modules.values()]
        return [inside[name] for inside in every for name in self.names & inside.keys()]


def _parts(part: Any, names: _Names, *, first: bool = False) -> Iterator[Any]:
    """Return what a thing holds; of the first one also if it is a library's."""
    kind = type(part)
    if issubclass(kind, (*_PLAIN, FrameType, TracebackType, CodeType)):
        return
    if issubclass(kind, ModuleType):
        name = str(ModuleType.__getattribute__(part, "__name__"))
        if name.partition(".")[0] not in _LIBRARIES:
            names.modules[name] = part
    elif issubclass(kind, type):
        for base in type.__getattribute__(part, "__mro__"):
            if library_of(base) not in _LIBRARIES:
                yield from type.__getattribute__(base, "__dict__").values()
    elif kind is FunctionType:
        if first or str(part.__globals__.get("__name__")).partition(".")[0] not in _LIBRARIES:
            yield from _of_function(part, names)
    elif kind is GeneratorType:
        yield inspect.getgeneratorlocals(part)
    elif issubclass(kind, np.ndarray):
        if part.dtype == object:
            yield from _first(np.asarray(part).flat)
    elif library_of(kind) not in FRAMES:
        yield from _inside(part, kind)


def _inside(part: Any, kind: type) -> Iterator[Any]:
    """Return the first things that an object holds, but the plain ones."""
    for base, read in ((dict, dict.values), (list, list.__iter__), (tuple, tuple.__iter__), (deque, deque.__iter__)):
        if issubclass(kind, base):
            yield from _first(read(part))
            break
    if kind not in (dict, list, tuple, deque):  # also the attributes of a class made from one of them
        yield from _first(gc.get_referents(part))


def _first(parts: Iterable[Any]) -> Iterator[Any]:
    return islice((part for part in parts if type(part) not in _PLAIN), PARTS)


def _of_function(function: FunctionType, names: _Names) -> Iterator[Any]:
    yield from (function.__defaults__, function.__kwdefaults__, function.__dict__)
    for cell in function.__closure__ or ():
        yield from gc.get_referents(cell)
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes.extend(part for part in code.co_consts if isinstance(part, CodeType))
        yield from (part for part in code.co_consts if isinstance(part, tuple | frozenset | bytes))
        for step in dis.get_instructions(code):
            if step.opname in _LOADS and step.argval in function.__globals__:
                yield function.__globals__[step.argval]
            elif step.opname in _ATTRIBUTES:
                names.names.add(step.argval)
            elif step.opname == "IMPORT_NAME" and step.argval in sys.modules:
                yield sys.modules[step.argval]

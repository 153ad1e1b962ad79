"""A digest of what an object is made of, for models that name a question or a plan.

Hand made because nothing does it. `repr` of an estimator is cut in the middle, shows eight digits of a number and no
code of a function, so that two teachers have one text; the bytes of a pickle depend on which equal parts are the same
object. Where two objects are alike their digests may still differ, for example under another version of a library: a
release is then asked for anew, and never answered by that of another teacher.
"""

from __future__ import annotations

import copyreg
import hashlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, partialmethod
from inspect import Parameter, signature
from pickle import whichmodule  # type: ignore[attr-defined]
from types import CellType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from sidelight.errors import RangeError

#: What `repr` writes in full.
_PLAIN = (type(None), bool, float, complex, str, bytes)
_CODE = ("code", "consts", "names", "varnames", "freevars", "cellvars", "argcount", "kwonlyargcount", "flags")
#: What scikit-learn's `clone` copies of an estimator beyond its parameters.
_CLONED = ("_sklearn_output_config", "_metadata_request")
#: Steps of one walk, of some microseconds each: a part that several parts share counts in each of them, so that thirty
#: lists, each with the one before it twice, are 2**30 lists.
_MOST_STEPS = 10_000_000
_CELLS_A_STEP = 10


def content_digest(*things: Any, defaults: bool = False) -> str:
    """Return the SHA-256 of what objects are made of, at any depth.

    An estimator is its class and the parameters that differ from their defaults, or all of them with `defaults`; what
    it learned counts where scikit-learn's `clone` keeps it. An array is its type, shape and bytes. A function or a
    class is its name, and its code where the name does not lead to it: a lambda, or one of a script. What a function
    reads from the module around it does not count. Of an object that cannot be copied every digest is another one.

    >>> from sklearn.linear_model import LogisticRegression
    >>> content_digest(LogisticRegression(C=1.0)) == content_digest(LogisticRegression())
    True
    >>> content_digest([LogisticRegression(C=1.0)]) == content_digest([LogisticRegression(C=1.0 + 1e-15)])
    False

    Raises:
        RangeError: Parts lie in parts more deeply than Python can follow, or without end, or are too many.
    """
    try:
        return _Content(defaults=defaults, walk=_Walk()).of(*things, whole=False)
    except RecursionError:
        raise RangeError(
            "the settings of the teacher are nested more deeply than can be compared, or make new parts without end; "
            "flatten them, such as a list of lists of lists, or a chain of objects. Nothing was charged"
        ) from None


@dataclass
class _Walk:
    """Where a walk through an object stands."""

    around: list[int] = field(default_factory=list)  # the objects that the next one is a part of
    steps: int = 0

    def step(self, parts: int) -> None:
        """Count an object with a number of parts; refuse one too many."""
        self.steps += 1 + parts // _CELLS_A_STEP
        if self.steps > _MOST_STEPS:
            raise RangeError(
                "the settings of the teacher have too many parts to be compared, where a part that several others "
                "share counts in each of them; hold large tables as arrays, and shared parts once. Nothing was charged"
            )


class _Content:
    """A hash that is fed with objects, each with its kind and its length: other objects are other bytes."""

    def __init__(self, *, defaults: bool, walk: _Walk) -> None:
        self._hash, self._defaults, self._walk = hashlib.sha256(), defaults, walk

    def of(self, *things: Any, whole: bool) -> str:
        """Return the digest of objects, which may be parts of those that are being added."""
        other = _Content(defaults=self._defaults, walk=self._walk)
        other.add_all("things", things, whole=whole)
        return other._hash.hexdigest()

    def add(self, thing: Any, *, whole: bool = True) -> None:
        """Add an object; `whole` where a copy of an estimator keeps what it learned."""
        around = self._walk.around
        if id(thing) in around:
            self._mark("again", str(around.index(id(thing))))
            return
        around.append(id(thing))
        try:
            self._add(thing, whole=whole)
        finally:
            around.pop()

    def add_all(self, kind: str, parts: Iterable[Any], *, whole: bool = True) -> None:
        """Add several objects in their order."""
        each = list(parts)
        self._walk.step(len(each))
        self._mark(kind, str(len(each)))
        for part in each:
            self.add(part, whole=whole)

    def _mark(self, kind: str, text: str | bytes) -> None:
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        self._hash.update(f"{kind} {len(content)}:".encode() + content)

    def _add(self, thing: Any, *, whole: bool) -> None:
        kind = type(thing)
        if kind in _PLAIN:
            self._mark(kind.__name__, repr(thing))
        elif kind is int:
            self._mark("int", f"{thing:x}")
        elif kind in (list, tuple):
            self.add_all(kind.__name__, thing, whole=whole)
        elif kind in (set, frozenset):
            self.add_all(kind.__name__, sorted(self.of(each, whole=whole) for each in thing))
        elif kind is dict:
            self.add_all("dict", thing.items())
        elif kind is np.ndarray:
            self._add_array(thing)
        elif hasattr(thing, "tocsr"):  # what SciPy remembers about the order of its entries does not count
            rows = thing.tocsr()
            self.add_all("sparse", (thing.shape, rows.indptr, rows.indices, rows.data))
        elif isinstance(thing, ModuleType):
            self._mark("module", thing.__name__)
        elif kind is CellType:
            self.add_all("cell", (getattr(thing, "cell_contents", "empty"),))
        elif kind is CodeType:
            self.add_all("code", [getattr(thing, f"co_{name}") for name in _CODE])
        elif isinstance(thing, type):
            self._add_class(thing)
        elif isinstance(thing, FunctionType):
            self._add_function(thing)
        elif hasattr(thing, "get_params") and not (whole or _is_copied_whole(thing)):
            self._add_estimator(thing)
        else:
            self._add_object(thing)

    def _add_array(self, array: Any) -> None:
        self._mark("array", f"{array.dtype.str} {array.shape}")
        if array.dtype.names:  # the bytes between fields say nothing
            self.add_all("fields", [(name, array[name]) for name in array.dtype.names])
        elif array.dtype.hasobject:
            self.add_all("cells", array.ravel().tolist())
        else:
            self._mark("bytes", np.ascontiguousarray(array).tobytes())

    def _add_estimator(self, estimator: Any) -> None:
        usual = {} if self._defaults else _defaults(type(estimator))
        given = {
            name: value
            for name, value in sorted(estimator.get_params(deep=False).items())
            if name not in usual or self.of(value, whole=False) != self.of(usual[name], whole=False)
        }
        self.add(type(estimator))
        self._mark("estimator", str(len(given)))
        for name, value in given.items():
            self._mark("parameter", name)
            self.add(value, whole=False)
        self.add_all("cloned", [getattr(estimator, name, None) for name in _CLONED])

    def _add_function(self, function: FunctionType) -> None:
        self._mark("function", f"{function.__module__}.{function.__qualname__}")
        if not _leads_to(function):
            kept = (function.__defaults__, function.__kwdefaults__, function.__closure__, function.__dict__)
            self.add_all("parts", (function.__code__, *kept))

    def _add_class(self, made: type) -> None:
        self._mark("class", f"{made.__module__}.{made.__qualname__}")
        if not _leads_to(made):
            kept = [(name, _body(each)) for name, each in sorted(vars(made).items()) if _is_written(name, each)]
            self.add_all("parts", (made.__bases__, kept))

    def _add_object(self, thing: Any) -> None:
        """Add an object by what `copy` and `pickle` would make it of again."""
        self.add(type(thing))
        reduce = copyreg.dispatch_table.get(type(thing))
        try:
            made = thing.__reduce_ex__(4) if reduce is None else reduce(thing)
        except RecursionError:  # how much of the stack is left must not decide about a digest
            raise
        except Exception:  # a lock, a file, a generator
            made = os.urandom(16).hex()
        if isinstance(made, str):  # a name in a module
            self._mark("named", f"{whichmodule(thing, made)}.{made}")
            if not _leads_to(thing, made):
                self.add(getattr(thing, "__wrapped__", os.urandom(16).hex()))
        else:
            state, items, pairs = (*made[2:5], None, None, None)[:3]
            self.add_all("object", (*made[:2], state, list(items or ()), list(pairs or ())))


def _defaults(made: type) -> dict[str, Any]:
    try:
        found = signature(made).parameters
    except (TypeError, ValueError):
        return {}
    return {name: each.default for name, each in found.items() if each.default is not Parameter.empty}


def _is_copied_whole(estimator: Any) -> bool:
    """Return whether `clone` would keep what an estimator learned, as it does of a frozen one."""
    from sklearn.base import BaseEstimator

    own = getattr(type(estimator), "__sklearn_clone__", None)
    return own is not None and own is not BaseEstimator.__sklearn_clone__


def _leads_to(named: Any, name: str | None = None) -> bool:
    """Return whether a name of a module that can be imported leads to this function, class or other object."""
    name = named.__qualname__ if name is None else name
    module = whichmodule(named, name)
    found: Any = None if module == "__main__" else sys.modules.get(module)
    for each in name.split("."):
        found = getattr(found, each, None)
    return found is named


def _body(member: Any) -> Any:
    """Return what a method, a property and the like are made of, where they cannot be copied themselves."""
    if isinstance(member, property):
        return member.fget, member.fset, member.fdel
    if isinstance(member, partialmethod):
        return member.func, member.args, member.keywords
    if isinstance(member, cached_property):
        return member.func
    return getattr(member, "__func__", member)


def _is_written(name: str, member: Any) -> bool:
    """Return whether a member of a class stands in its body, and not what Python adds."""
    dunder = name.startswith("__") and name.endswith("__")
    added = (GetSetDescriptorType, MemberDescriptorType)
    return isinstance(member, FunctionType) or not (dunder or name == "_abc_impl" or isinstance(member, added))

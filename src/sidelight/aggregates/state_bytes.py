"""The state of an aggregate as bytes, from a worker to the driver, without pickle, which could run code of its sender.

States consist of integers, arrays of them, and tuples of these. The bytes are as private as the rows.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sidelight.errors import RangeError

_MAGIC = b"sidelight state 1\n"


def state_to_bytes(state: Any) -> bytes:
    """Write a state: a line that says what it is made of, then the arrays, one behind the other.

    >>> state_from_bytes(state_to_bytes((2**70, np.array([[1, -2]]))))
    (1180591620717411303424, array([[ 1, -2]]))
    """
    arrays: list[bytes] = []
    form = json.dumps(_form(state, arrays), separators=(",", ":"))
    return _MAGIC + form.encode() + b"\n" + b"".join(arrays)


def state_from_bytes(data: bytes) -> Any:
    """Read what `state_to_bytes` wrote; anything else is refused."""
    if not data.startswith(_MAGIC):
        raise RangeError("the state of an aggregate was wanted, got other bytes; give what state_to_bytes wrote")
    head, _, rest = data[len(_MAGIC) :].partition(b"\n")
    state, left = _read(json.loads(head), rest)
    if left:
        raise RangeError("the state of an aggregate has bytes behind its end; was it cut off or put together?")
    return state


def _form(state: Any, arrays: list[bytes]) -> Any:
    if isinstance(state, tuple):
        return [_form(part, arrays) for part in state]
    if isinstance(state, np.ndarray) and state.dtype == np.int64:
        arrays.append(np.ascontiguousarray(state, "<i8").tobytes())
        return {"shape": list(state.shape)}
    if isinstance(state, np.ndarray) and state.dtype == object:  # sums beyond 64 bits
        return {"shape": list(state.shape), "whole": [str(int(each)) for each in state.ravel().tolist()]}
    if isinstance(state, (int, np.integer)) and not isinstance(state, bool):
        return str(int(state))
    raise RangeError(f"a state is made of whole numbers, arrays of them and tuples, got {type(state).__name__}")


def _read(form: Any, data: bytes) -> tuple[Any, bytes]:
    if isinstance(form, str):
        return int(form), data
    if isinstance(form, list):
        parts = []
        for each in form:
            part, data = _read(each, data)
            parts.append(part)
        return tuple(parts), data
    shape = tuple(form["shape"])
    if "whole" in form:
        whole = np.empty(len(form["whole"]), object)
        whole[:] = [int(each) for each in form["whole"]]
        return whole.reshape(shape), data
    size = 8 * int(np.prod(shape, dtype=np.int64))
    if len(data) < size:
        raise RangeError("the state of an aggregate was cut off; hand all of its bytes over")
    return np.frombuffer(data[:size], "<i8").astype(np.int64).reshape(shape), data[size:]

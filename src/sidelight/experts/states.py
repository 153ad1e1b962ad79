"""States of players and servers as JSON: every float comes back bit for bit, and a state says what it is a state of."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, SourceError
from sidelight.experts.player import Floats

#: Changes when a stored state means something else than before.
STATE_VERSION = 1


def written(array: NDArray[Any]) -> Any:
    """Return an array as nested lists of Python numbers; `json` writes a float so that it reads back the same."""
    if not np.isfinite(array).all():
        raise RangeError("a state holds finite numbers only; a value that is not finite must be refused on arrival")
    return array.tolist()


def floats(value: Any, shape: tuple[int, ...]) -> Floats:
    """Return the array that `written` wrote, of the shape that the parameters ask for."""
    array = np.asarray(value, dtype=np.float64)
    if array.size == 0 and 0 in shape:
        array = array.reshape(shape)
    if array.shape != shape or not np.isfinite(array).all():
        raise RangeError(f"a stored array should have shape {shape} and finite numbers, got shape {array.shape}")
    return array


def checked_kind(state: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return the state if it is of this kind and version."""
    if state.get("kind") != kind or state.get("version") != STATE_VERSION:
        raise RangeError(
            f"wanted a stored {kind} of version {STATE_VERSION}, got {state.get('kind')!r} of version "
            f"{state.get('version')!r}; load it with the class and the version that wrote it"
        )
    return state


def save_state(state: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a state to a file, replacing it as a whole: after a crash there is the old one or the new one."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(state, file, allow_nan=False, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `save_state` wrote."""
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SourceError(f"the stored state at {str(path)!r} cannot be read ({type(error).__name__})") from None
    if not isinstance(state, dict):
        raise SourceError(f"the file {str(path)!r} holds no state")
    return state


def sync_folder(folder: Path) -> None:
    """Make names of new and deleted files of a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""What a player is: it names an action for the round, then takes the round's noisy report. Its state is JSON.

A round is `predict`, then `update`. `predict` twice in a round gives the same action; `update` without `predict` is an
error. Players see noisy reports only, so nothing they do costs privacy.

What lets a saved server go on exactly where it stopped: states as JSON, and draws that have names.

Every float of a state comes back bit for bit, and a state says what it is a state of. For the server's own draws one
key is drawn when it starts; every draw has a name (its round and purpose), and its bytes are SHAKE-128 of key and name.
Nothing moves on, so the key is the whole state of the generator: asking again for the same name gives the same bytes.
These draws are never what protects a client: that noise is drawn by the client, from the operating system.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight.errors import RangeError, SidelightError, SourceError
from sidelight.guarantees.amounts import whole
from sidelight.noise import OSEntropy, Source, integers_below, standard_normal
from sidelight.noise.source import SEEDED_BRANDING

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
#: Its square is a float, also times the rounds.
LARGEST_GAIN_RANGE = 1e150


class Player(Protocol):
    """Chooses one action a round from noisy reports."""

    @property
    def actions(self) -> int:
        """How many actions there are, n."""
        ...

    @property
    def rounds_played(self) -> int:
        """How many rounds were closed by `update`."""
        ...

    def predict(self) -> int:
        """Open the round and return its action; again and again the same until `update`."""
        ...

    def update(self, report: ArrayLike, *, noise_scale: ArrayLike | None = None, mask: ArrayLike | None = None) -> None:
        """Close the round with its report.

        `noise_scale` is its noise, one number or one per coordinate, where not the usual; `mask` tells what was sent.
        """
        ...

    def state(self) -> dict[str, Any]:
        """Return everything that the next action depends on, ready for JSON."""
        ...


def checked_report(report: ArrayLike, actions: int) -> Floats:
    """Return the report as n finite floats. A NaN must never enter a running sum: it would stay for ever."""
    values = np.array(report, dtype=np.float64)  # a copy, which never changes
    if values.shape != (actions,):
        raise RangeError(f"a report has {actions} coordinates, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise RangeError("a report holds finite numbers only; treat a missing coordinate as missing, not as NaN")
    values.setflags(write=False)
    return values


def checked_mask(mask: ArrayLike | None, actions: int) -> Mask:
    """Return which coordinates were sent by a client; all of them unless said otherwise."""
    if mask is None:
        return np.ones(actions, dtype=np.bool_)
    sent = np.array(mask, dtype=np.bool_)
    if sent.shape != (actions,):
        raise RangeError(f"a mask has {actions} entries, got shape {sent.shape}")
    sent.setflags(write=False)
    return sent


def checked_scale(scale: float, *, name: str = "noise_scale") -> float:
    """Return a standard deviation that is positive and finite."""
    if not (math.isfinite(scale) and scale > 0):
        raise RangeError(f"{name} must be positive and finite, got {scale}; a report without noise is not private")
    return float(scale)


def checked_gain_range(gain_range: float) -> float:
    """Return a range of gains that is positive and can be squared."""
    if math.inf > gain_range > LARGEST_GAIN_RANGE:  # compared first: no float holds 10**400
        raise gain_range_too_large()
    return checked_scale(gain_range, name="gain_range")


def gain_range_too_large() -> RangeError:
    """Return the refusal of a range of gains whose square is no float."""
    return RangeError(
        f"gain_range must be at most {LARGEST_GAIN_RANGE:g}, because players square it, got a larger one; state gains "
        "in a larger unit"
    )


def checked_noise(scale: ArrayLike, actions: int) -> float | Floats:
    """Return the usual noise of a report: one number, or one per coordinate where clients have noise of their own."""
    if np.ndim(scale) == 0:
        return checked_scale(float(scale))  # type: ignore[arg-type]
    scales = checked_scales(scale, usual=1.0, actions=actions)
    scales.setflags(write=False)
    return scales


def stored_noise(scale: float | Floats) -> float | list[float]:
    """Return what `checked_noise` reads back, ready for JSON."""
    return scale if isinstance(scale, float) else [float(each) for each in scale]


def checked_scales(scale: ArrayLike | None, *, usual: ArrayLike, actions: int) -> Floats:
    """Return the noise of each coordinate of a report: the usual one unless given, one number or one per coordinate."""
    given = np.asarray(usual if scale is None else scale, dtype=np.float64)
    if given.shape not in ((), (actions,)):
        raise RangeError(f"noise_scale is one number or one for each of {actions} coordinates, got shape {given.shape}")
    scales = np.array(np.broadcast_to(given, (actions,)))
    if not (np.isfinite(scales).all() and (scales > 0).all()):
        raise RangeError("noise_scale must be positive and finite; a report without noise is not private")
    return scales


def checked_actions(actions: int) -> int:
    """Return a number of actions of at least 2."""
    return whole(actions, name="actions", least=2)


#: Changes when a stored state means something else than before.
STATE_VERSION = 1
_PREFIX = b"sidelight/experts/1\0"
_KEY_BYTES = 32


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


@contextmanager
def restoring(what: str) -> Iterator[None]:
    """Raise `RangeError` for a stored state that lacks a member, or has one of another type."""
    try:
        yield
    except SidelightError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        part = f"lacks {error.args[0]!r}" if isinstance(error, KeyError) else "has a member of another type"
        raise RangeError(
            f"the stored {what} {part}; it is damaged or was cut. Load what `state()` returned, as a whole"
        ) from None


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
    target = Path(os.path.realpath(path))  # what a link points to is replaced, and the link stays
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
    except (OSError, ValueError, RecursionError) as error:
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


class Stream:
    """Named draws below one key. `Stream()` draws the key from the operating system; `Stream.seeded` is for tests.

    >>> stream = Stream.seeded(7)
    >>> bool((stream.normals("start", 3) == Stream.from_state(stream.state()).normals("start", 3)).all())
    True
    """

    def __init__(self, *, key: bytes | None = None, branding: str = "os") -> None:
        self._key = OSEntropy().read(_KEY_BYTES) if key is None else key
        self.branding = branding
        if len(self._key) != _KEY_BYTES:
            raise RangeError(f"the key of a stream has {_KEY_BYTES} bytes, got {len(self._key)}")

    @classmethod
    def seeded(cls, seed: int | str) -> Stream:
        """Return a reproducible stream; it brands what it touches."""
        digest = hashlib.sha256(f"{type(seed).__name__}:{seed}".encode()).digest()
        return cls(key=digest, branding=SEEDED_BRANDING)

    def normals(self, name: str, size: int) -> Floats:
        """Return `size` standard normals of this name: always the same ones."""
        with Source(_NamedDraw(self._key, name, self.branding)) as source:
            return standard_normal(size, source)

    def choice(self, name: str, *, below: int, size: int = 1) -> NDArray[np.int64]:
        """Return `size` uniform integers of 0..below-1."""
        with Source(_NamedDraw(self._key, name, self.branding)) as source:
            return integers_below(below, size, source).astype(np.int64)

    def child(self, name: str) -> Stream:
        """Return the independent stream of a name below this one."""
        key = hashlib.sha256(_PREFIX + b"child\0" + self._key + name.encode()).digest()
        return Stream(key=key, branding=self.branding)

    def state(self) -> dict[str, str]:
        """Return the key and its branding. It predicts the server's draws: keep it with the server."""
        return {"key": self._key.hex(), "branding": self.branding}

    @classmethod
    @restoring("stream")
    def from_state(cls, state: dict[str, str]) -> Stream:
        """Return the stream that `state` describes."""
        return cls(key=bytes.fromhex(state["key"]), branding=state["branding"])

    def __repr__(self) -> str:
        return f"Stream(branding={self.branding!r})"


class _NamedDraw:
    """Bytes of one name: read once, from the start."""

    def __init__(self, key: bytes, name: str, branding: str) -> None:
        self._hash = hashlib.shake_128(_PREFIX + key + name.encode(), usedforsecurity=True)
        self._position = 0
        self._branding = branding

    @property
    def branding(self) -> str:
        return self._branding

    def read(self, nbytes: int) -> bytes:
        block = self._hash.copy()
        block.update(self._position.to_bytes(8, "little"))
        self._position += 1
        return block.digest(nbytes)

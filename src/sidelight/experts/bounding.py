"""From whatever a client holds to bounded integers, before any noise, without ever raising for what a value is.

A gain that is missing or not finite becomes the public fill, one outside [0, c] is clipped, and all are rounded to the
grid. Only the form, which is public, can be wrong: the length, the number of dimensions, a container without an order,
and a type of floats that is too coarse.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.experts.player import Floats
from sidelight.experts.reporting import Reporting
from sidelight.records.cells import numbers_of
from sidelight.session.silence import silence

#: Floats that cannot hold a gain to 2^-40 of its range: rounding would move neighbours further apart than declared.
_TOO_COARSE = ("float16", "float32")


def bounded_codes(gains: Any, reporting: Reporting) -> NDArray[np.int64]:
    """Return the gains as integers in 0..largest_code; None means no data at all, and every gain is then the fill.

    Neighbours' codes differ by at most `grid_sensitivity` in units of the grid: clipping moves no two values apart, and
    `rint` moves each by at most half a step, exactly.
    """
    values = _floats(gains, reporting.coordinates)
    fill = float(reporting.exact_fill)
    limit = 2.0 * float(reporting.exact_gain_range)
    finite = np.where(np.isfinite(values), values, fill)
    steps = np.rint(np.ldexp(np.clip(finite, -limit, limit), reporting.grid_bits))  # ldexp and rint are exact
    codes: NDArray[np.int64] = np.clip(steps, 0, reporting.largest_code).astype(np.int64)
    return codes


def _floats(gains: Any, count: int) -> Floats:
    if gains is None:
        return np.full(count, np.nan)
    _check_form(gains, count)
    with silence():  # a warning about a value would tell that the value is there
        given = _masked(gains) if isinstance(gains, np.ma.MaskedArray) else _whole(gains)
    if given.ndim == 0 and count == 1:
        given = given.reshape(1)
    if given.shape != (count,):
        raise RangeError(f"this client reports {count} gains a round, got shape {given.shape}")
    return given


def _check_form(gains: Any, count: int) -> None:
    """Refuse what cannot be a vector of gains, by its type alone: a set would have as many entries as values differ."""
    if isinstance(gains, Mapping | Set):
        raise RangeError(
            f"gains must stand in the order of the actions: a list or an array, got {type(gains).__name__}"
        )
    dimensions = getattr(gains, "shape", ())
    if isinstance(dimensions, tuple) and len(dimensions) > 1:
        raise RangeError(f"this client reports {count} gains a round, got shape {dimensions}")
    for dtype in _types(gains):
        if dtype.lower().endswith(_TOO_COARSE):
            raise RangeError(
                f"gains of type {dtype} are too coarse for the declared sensitivity; compute them in float64"
            )


def _types(gains: Any) -> Iterator[str]:
    """Return the type of the numbers that a container says it holds, by its own type.

    A list, or an array of objects, has none. Where all of its entries are coarse floats, the program that computed them
    is the wrong one; where some are not, each of them is read by itself, and what is too coarse is missing: whether
    this raises is then no single gain's to decide.
    """
    entries = _untyped_entries(gains)
    if entries is not None:
        if entries and all(map(_is_coarse, entries)):
            yield " or ".join(_TOO_COARSE)
        return
    try:
        own = getattr(gains, "dtype", None)
        arrow = str(getattr(gains, "type", ""))  # where "float" and "halffloat" are the coarse ones
        yield {"float": "float32", "halffloat": "float16"}.get(arrow, "") if own is None else str(own)
    except Exception:  # what does not say its type is no number either
        yield ""
    if isinstance(gains, array | memoryview | ctypes.Array):
        yield str(np.asarray(gains).dtype)


def _untyped_entries(gains: Any) -> list[Any] | None:
    """Return the entries of a list or an array of objects, which can be anything; None for other containers."""
    if isinstance(gains, list | tuple):
        return [*gains]
    is_array = isinstance(gains, np.ndarray) and gains.dtype == object and gains.ndim == 1
    return list(gains.tolist()) if is_array else None


def _is_coarse(entry: Any) -> bool:
    kind = type(entry)
    if issubclass(kind, (np.float16, np.float32)):
        return True
    return kind is np.ndarray and entry.ndim == 0 and entry.dtype.name in _TOO_COARSE


def _masked(gains: np.ma.MaskedArray[Any, Any]) -> Floats:
    """Read a masked array; entries that are masked are missing."""
    mask = np.ma.getmaskarray(gains)
    given = _whole(np.ma.getdata(gains))
    return np.asarray(np.where(mask, np.nan, given)) if mask.dtype == np.bool_ else given


def _whole(gains: Any) -> Floats:
    """Read all entries at once where they have one type, else each by itself; what is no number is NaN."""
    entries = _untyped_entries(gains)
    if entries is None:
        try:
            given = np.array(gains, dtype=np.float64)
            if given.ndim <= 1:
                return given
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever an entry does when asked for its value, it must not show
            pass
        try:
            entries = [gains] if issubclass(type(gains), (str, bytes)) else list(gains)
        except KeyboardInterrupt:
            raise
        except BaseException:
            entries = [gains]
    return numbers_of(np.nan if _is_coarse(entry) else entry for entry in entries)

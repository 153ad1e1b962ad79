"""Totals of a level that are known from elsewhere: read, checked, and added up to the levels above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError, nearest
from sidelight.records.hierarchy import LabelTree

Whole: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]
#: Totals are floats in estimates; below this they are exact.
_LARGEST_TOTAL = 2**53
#: No sum is larger; in units of a granularity, and added up, it is a float still.
_LARGEST_SUM = 1e100
#: Totals of two levels agree within this share of what they add up.
_ROUNDING = 1e-9


def public_levels(given: Any, tree: LabelTree) -> tuple[Whole, ...]:
    """Return the exact totals of counts of every level down to the finest that was given; () where none were.

    Args:
        given: {level: {id: total}}, or a frame with the columns level, id and value.
        tree: The tree.
    """
    return tuple(each.astype(np.int64) for each in _levels(given, tree, whole=True))


def public_sums(given: Any, tree: LabelTree) -> tuple[Floats, ...]:
    """Return the exact totals of sums of every level down to the finest that was given, as `public_levels` does."""
    return tuple(each.astype(np.float64) for each in _levels(given, tree, whole=False))


def _levels(given: Any, tree: LabelTree, *, whole: bool) -> tuple[NDArray[Any], ...]:
    if given is None or (isinstance(given, Mapping) and not given):
        return ()
    by_level = _by_level(given)
    found: dict[int, NDArray[Any]] = {}
    for name, totals in by_level.items():
        level = tree.level(name)
        ids = tree.ids[level]
        missing = [label for label in ids if label not in totals]
        extra = [label for label in totals if label not in set(ids)]
        if missing or extra:
            words = f"lack {missing[0]!r}" if missing else f"name {extra[0]!r}, which is none of its nodes"
            raise RangeError(f"public totals of level {name!r} {words}; a level has all of its nodes, or none")
        values = [totals[label] for label in ids]
        if whole:
            _check_counts(values, name)
        elif not all(_is_number(each) and abs(each) <= _LARGEST_SUM for each in values):
            raise RangeError(f"public totals of level {name!r} are numbers of at most 1e100")
        found[level] = np.array(values, np.int64 if whole else np.float64)
    finest = max(found)
    every = [found[finest]]
    sizes = np.abs(found[finest])  # without their signs: a sum of numbers that cancel is off by their rounding
    for level in range(finest, 0, -1):
        every.insert(0, tree.up(every[0], level))
        sizes = tree.up(sizes, level)
        apart = 0 if level - 1 not in found else np.abs(found[level - 1] - every[0])
        if np.any(apart > (0 if whole else _ROUNDING * sizes)):
            raise RangeError(
                f"public totals of level {tree.names[finest]!r} do not add up to those of {tree.names[level - 1]!r}"
            )
    return tuple(every)


def _check_counts(values: list[Any], name: str) -> None:
    if not all(isinstance(each, (int, np.integer)) and not isinstance(each, bool) and each >= 0 for each in values):
        raise RangeError(f"public totals of level {name!r} are whole numbers of at least 0")
    if sum(int(each) for each in values) >= _LARGEST_TOTAL:
        raise RangeError(f"public totals of level {name!r} add up to 2**53 or more; no table has so many rows")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal, np.integer, np.floating)) and not isinstance(value, bool)


def _by_level(given: Any) -> dict[str, dict[str, Any]]:
    if isinstance(given, Mapping) and all(isinstance(each, Mapping) for each in given.values()) and given:
        return _without_duplicates(
            (name, label, value) for name, each in given.items() for label, value in each.items()
        )
    columns = given if isinstance(given, Mapping) else None
    if columns is None:
        import narwhals.stable.v2 as nw

        try:
            frame = nw.from_native(given, eager_only=True)
        except TypeError:
            raise RangeError(
                "public_totals are {level: {id: total}} or a frame with the columns level, id and value, got "
                f"{type(given).__name__}"
            ) from None
        columns = {name: frame[name].to_list() for name in frame.columns}
    for name in ("level", "id", "value"):
        if name not in columns:
            raise RangeError(f"public_totals need a column {name!r}; {nearest(name, list(columns))}")
    return _without_duplicates(zip(columns["level"], columns["id"], columns["value"], strict=True))


def _without_duplicates(rows: Iterable[tuple[Any, Any, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for level, label, value in rows:
        totals = found.setdefault(str(level), {})
        if str(label) in totals:
            raise RangeError(f"public totals of level {str(level)!r} name {str(label)!r} twice; give each node once")
        totals[str(label)] = value
    if not found:
        raise RangeError("public_totals have no rows; leave them out where nothing is known")
    return found

"""Many marginals of one dense table, and the adjoint: one axis at a time, with shared partial sums.

Every set of columns is reached by dropping the other columns in one fixed order, the longest first. Sets that drop the
same columns first share those sums; the sums form a tree, which is walked depth first, so that only one path of it is
in memory: less than the table itself when the first columns have two values or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Axes = tuple[int, ...]


def marginal_sums(table: NDArray[Any], sizes: Sequence[int], wanted: Sequence[Axes]) -> list[NDArray[Any]]:
    """Return the sums of a table over all axes but those wanted, for each wanted set of increasing axes.

    >>> table = np.arange(6)
    >>> [sums.tolist() for sums in marginal_sums(table, (2, 3), [(0,), (1,), ()])]
    [[3, 12], [3, 5, 7], 15]
    """
    found: dict[Axes, NDArray[Any]] = {}
    _descend(table.reshape(-1), tuple(range(len(sizes))), sizes, _grouped(sizes, wanted), found)
    return [found[axes].reshape([sizes[axis] for axis in axes]) for axes in wanted]


def spread_sums(parts: Sequence[NDArray[Any]], sizes: Sequence[int], given: Sequence[Axes]) -> NDArray[np.float64]:
    """Return the flat table whose cells are the sums of the entries they belong to: the adjoint of `marginal_sums`."""
    held: dict[Axes, NDArray[Any]] = {}
    for axes, part in zip(given, parts, strict=True):
        flat = np.asarray(part, np.float64).reshape(-1)
        held[axes] = held[axes] + flat if axes in held else flat
    everything = tuple(range(len(sizes)))
    total = _ascend(everything, sizes, _grouped(sizes, given), held)
    return np.zeros(prod(sizes)) if total is None else total


#: A tree: for each axis that is dropped next, the sets that drop it, as a tree; `None` marks a set that is complete.
_Tree = dict[int | None, Any]


def _grouped(sizes: Sequence[int], wanted: Sequence[Axes]) -> _Tree:
    order = sorted(range(len(sizes)), key=lambda axis: (-sizes[axis], axis))
    tree: _Tree = {}
    for axes in wanted:
        node = tree
        for axis in order:
            if axis not in axes:
                node = node.setdefault(axis, {})
        node[None] = None
    return tree


def _split(axes: Axes, axis: int, sizes: Sequence[int]) -> tuple[int, int, int]:
    place = axes.index(axis)
    return prod(sizes[a] for a in axes[:place]), sizes[axis], prod(sizes[a] for a in axes[place + 1 :])


def _without(axes: Axes, axis: int) -> Axes:
    return tuple(a for a in axes if a != axis)


def _descend(
    table: NDArray[Any], axes: Axes, sizes: Sequence[int], tree: _Tree, found: dict[Axes, NDArray[Any]]
) -> None:
    for axis, below in tree.items():
        if axis is None:
            found[axes] = table
            continue
        sums = _summed(table.reshape(_split(axes, axis, sizes)))
        _descend(sums.reshape(-1), _without(axes, axis), sizes, below, found)


def _summed(table: NDArray[Any]) -> NDArray[Any]:
    """Sum the middle axis; a short inner axis is faster one slice at a time than NumPy's loop over it."""
    _, middle, after = table.shape
    if after >= 16 or middle > 64 or table.size < 4096:
        return np.asarray(table.sum(axis=1))
    if after == 1 and table.dtype == np.float64:
        return np.asarray(table[:, :, 0] @ np.ones(middle))
    total = table[:, 0, :].copy()
    for place in range(1, middle):
        total += table[:, place, :]
    return total


def _ascend(
    axes: Axes, sizes: Sequence[int], tree: _Tree, held: dict[Axes, NDArray[Any]]
) -> NDArray[np.float64] | None:
    total: NDArray[np.float64] | None = None
    for axis, below in tree.items():
        if axis is None:
            part = held[axes].copy()
        else:
            inner = _ascend(_without(axes, axis), sizes, below, held)
            assert inner is not None
            before, middle, after = _split(axes, axis, sizes)
            part = np.broadcast_to(inner.reshape(before, 1, after), (before, middle, after))
        if total is None:
            total = np.array(part, np.float64).reshape(-1)
        else:
            view = total.reshape(part.shape)
            view += part
    return total

"""Whole counts of at least 0 that add up on a tree, from the top down (hierarchies proof page, "Whole numbers").

Every family (the children of a node, in one cell of the other columns) goes onto its parent's whole number by least
squares; large cells stay as they are. Equal remainders are rounded up in an order that is drawn: siblings of one size
have equal remainders as a rule, and an order by place would favour the first. Post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.noise import Source, random_order
from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.count_tables import onto_simplex, whole_numbers

Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

#: Cells above this many standard deviations stay as they are; the others share what is left.
STAYS = 3.5
#: Remainders are compared in these parts of 1: those that differ by the rounding of floats alone are equal.
_REMAINDERS = 2.0**30
_DYKSTRA_ROUNDS = 200


def nonnegative_tree(
    tree: LabelTree,
    estimates: Sequence[Floats],
    sds: Sequence[Floats],
    possible: Sequence[Mask],
    *,
    totals: Sequence[Floats] = (),
) -> list[Floats]:
    """Return numbers of at least 0 that add up, before they are rounded.

    Args:
        tree: The tree.
        estimates: By level, a row for each node and a column for each cell.
        sds: The standard deviation of the cells of each level.
        possible: Which cells of each level can hold rows.
        totals: The exact totals over the cells of each node, of the first levels, where all cells are possible.
    """
    found = [np.where(possible[0], np.maximum(estimates[0], 0.0), 0.0)]
    if totals:
        found = [onto_simplex(estimates[0][0], float(totals[0][0]))[None, :]]
    for level in range(1, tree.depth + 1):
        if level < len(totals):
            rows, cells = (np.split(each, tree.starts[level][1:]) for each in (totals[level], estimates[level]))
            parts = zip(cells, rows, found[-1], strict=True)
            found.append(np.concatenate([two_way(*each) for each in parts]))
            continue
        found.append(_family(tree, level, estimates[level], found[-1], STAYS * sds[level], possible[level]))
    return found


def whole_tree(
    tree: LabelTree,
    estimates: Sequence[Floats],
    sds: Sequence[Floats],
    possible: Sequence[Mask],
    *,
    source: Source,
    totals: Sequence[Whole] = (),
) -> list[Whole]:
    """Return whole numbers of at least 0 that add up.

    Args:
        tree: The tree.
        estimates, sds, possible: As for `nonnegative_tree`.
        source: Of the order of equal remainders.
        totals: The exact totals over the cells of each node, of the first levels.
    """
    with source.free("which of equal remainders are rounded up"):
        first = np.where(possible[0], np.maximum(estimates[0], 0.0), 0.0)
        if totals:
            there = np.flatnonzero(possible[0][0])
            real = np.zeros_like(first)
            real[0, there] = onto_simplex(estimates[0][0, there], float(totals[0][0]))
            found = [np.zeros(first.shape, np.int64)]
            found[0][0, there] = whole_numbers(real[0, there], int(totals[0][0]), source=source)
        else:
            found = [np.floor(first + 0.5).astype(np.int64)]
        for level in range(1, tree.depth + 1):
            if level < len(totals):
                found.append(_two_way_level(tree, level, estimates[level], found[-1], totals[level], source))
            else:
                parents = found[-1].astype(np.float64)
                real = _family(tree, level, estimates[level], parents, STAYS * sds[level], possible[level])
                found.append(_rounded(tree, level, real, found[-1], possible[level], source))
    return found


def _family(tree: LabelTree, level: int, estimates: Floats, parents: Floats, large: Floats, possible: Mask) -> Floats:
    """Return the cells of a level that add up to their parents' and are not negative."""
    at = tree.parents[level]
    many = tree.up(possible.astype(np.int64), level)
    sums = tree.up(np.where(possible, estimates, 0.0), level)
    off = np.divide(parents - sums, many, out=np.zeros_like(parents), where=many > 0)
    values = np.where(possible, estimates + off[at], 0.0)
    stays = possible & (values > large)
    kept = tree.up(np.where(stays, values, 0.0), level)
    stays &= (kept <= parents)[at]
    kept = tree.up(np.where(stays, values, 0.0), level)
    free = possible & ~stays
    if not free.any():
        return np.maximum(values, 0.0)
    # one list of families, cell after cell, so that one sorting serves all of them
    width = len(parents)
    place = np.flatnonzero(free.T)
    cell, node = np.divmod(place, len(values))
    family = cell * width + at[node]
    rest = np.maximum((parents - kept).T.reshape(-1), 0.0)
    out = values.T.reshape(-1).copy()
    out[place] = _onto_simplexes(out[place], family, rest)
    return np.maximum(out.reshape(values.shape[1], -1).T, 0.0)


def _onto_simplexes(values: Floats, family: Whole, totals: Floats) -> Floats:
    """Project every family, a run of equal numbers in order, onto {at least 0, sum = its total}."""
    order = np.lexsort((-values, family))
    ordered, of = values[order], family[order]
    start = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    size = np.diff(np.append(start, len(of)))
    run = np.repeat(np.arange(len(start)), size)
    rank = np.arange(len(of)) - start[run] + 1
    # sums are taken from a level near the run's own, so that those of other families do not blur them
    centred = ordered - ordered[start][run]
    sums = np.cumsum(centred)
    sums = sums - (sums[start] - centred[start])[run] + rank * ordered[start][run]
    excess = (sums - totals[of]) / rank
    above = np.maximum(np.add.reduceat((ordered > excess).astype(np.int64), start), 1)
    found = np.empty_like(values)
    found[order] = np.maximum(ordered - excess[start + above - 1][run], 0.0)
    return found


def _rounded(tree: LabelTree, level: int, real: Floats, parents: Whole, possible: Mask, source: Source) -> Whole:
    """Round every family by largest remainders to its parent's whole number."""
    at = tree.parents[level]
    out = np.floor(real + 1e-9).astype(np.int64)
    more = parents - tree.up(out, level)
    remainders = np.where(possible, np.rint((real - out) * _REMAINDERS), -np.inf).T.reshape(-1)
    family = (np.arange(real.shape[1])[:, None] * len(parents) + at[None, :]).reshape(-1)
    drawn = np.empty(len(family), np.int64)
    drawn[random_order(len(family), source)] = np.arange(len(family))
    order = np.lexsort((drawn, -remainders, family))
    of = family[order]
    start = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    rank = np.arange(len(of)) - np.repeat(start, np.diff(np.append(start, len(of))))
    up = np.zeros(len(family), np.int64)
    up[order] = rank < more.T.reshape(-1)[of]
    out += up.reshape(real.shape[1], -1).T * possible
    return _settled(tree, level, out, parents)


def _settled(tree: LabelTree, level: int, out: Whole, parents: Whole) -> Whole:
    """Add what floats of an absurd size left over to the largest child of each family."""
    for _ in range(64):
        left = parents - tree.up(out, level)
        if not left.any():
            break
        for family, cell in np.argwhere(left):
            first = tree.starts[level][family]
            last = tree.starts[level][family + 1] if family + 1 < len(parents) else len(out)
            largest = first + int(out[first:last, cell].argmax())
            out[largest, cell] = max(0, out[largest, cell] + left[family, cell])
    return out


# --- families whose rows and columns both have exact sums: two-way tables with whole margins --------------------------


def _two_way_level(
    tree: LabelTree, level: int, estimates: Floats, parents: Whole, totals: Whole, source: Source
) -> Whole:
    out = np.zeros(estimates.shape, np.int64)
    ends = np.append(tree.starts[level][1:], len(estimates))
    for family, (first, last) in enumerate(zip(tree.starts[level], ends, strict=True)):
        real = two_way(estimates[first:last], totals[first:last], parents[family])
        out[first:last] = rounded_two_way(real, totals[first:last], parents[family], source)
    return out


def two_way(values: Floats, rows: NDArray[Any], columns: NDArray[Any]) -> Floats:
    """Return a table of at least 0 with these sums of rows and columns, which agree, near some values.

    Alternating projections come near; then what is above its sum is scaled down, and the product of what is missing in
    rows and columns is added: exact sums, nothing negative.

    >>> two_way(np.array([[3.0, -1.0], [2.0, 2.0]]), np.array([2, 4]), np.array([4, 2])).round(6).tolist()
    [[2.0, 0.0], [2.0, 2.0]]
    """
    x = np.asarray(values, np.float64).copy()
    below = np.zeros_like(x)
    for _ in range(_DYKSTRA_ROUNDS):
        x = x + ((rows - x.sum(axis=1)) / x.shape[1])[:, None]
        x = x + (columns - x.sum(axis=0)) / x.shape[0]
        cut = np.maximum(x + below, 0.0)
        below, x, moved = x + below - cut, cut, float(np.abs(cut - x).max())
        if moved < 1e-9:
            break
    for axis, wanted in ((1, rows), (0, columns)):
        sums = x.sum(axis=axis)
        scale = np.divide(wanted, sums, out=np.ones(len(sums)), where=sums > wanted)
        x = x * (scale[:, None] if axis == 1 else scale)
    short, other = rows - x.sum(axis=1), columns - x.sum(axis=0)
    missing = float(short.sum())
    return x if missing <= 0 else x + np.outer(np.maximum(short, 0.0), np.maximum(other, 0.0)) / missing


def rounded_two_way(real: Floats, rows: Whole, columns: Whole, source: Source) -> Whole:
    """Round a table whose rows and columns have whole sums, and keep the sums: each entry moves by less than 1.

    Entries that are not whole contain a cycle, along which adding and taking away alternately keeps all sums until one
    of them is whole; the sign is drawn with the odds that keep expectations.
    """
    near = np.rint(real)
    x = np.where(np.abs(real - near) < 1e-9, near, real)
    left = [set(np.flatnonzero(row % 1).tolist()) for row in x]
    right = [set(np.flatnonzero(column % 1).tolist()) for column in x.T]
    for row in range(len(left)):
        while len(left[row]) > 1:
            cycle = _cycle(left, right, row)
            if len(cycle) == 1:  # the last of its row or column, off by the rounding of floats
                ((i, j),) = cycle
                x[i, j] = round(x[i, j])
                left[i].discard(j)
                right[j].discard(i)
                continue
            signs = np.array([1 if place % 2 == 0 else -1 for place in range(len(cycle))])
            at = tuple(np.array(cycle).T)
            parts = x[at] % 1
            up = float(np.where(signs > 0, 1 - parts, parts).min())
            down = float(np.where(signs > 0, parts, 1 - parts).min())
            chance = int(source.words(1)[0]) / 2.0**64
            x[at] += signs * (up if chance < down / (up + down) else -down)
            for i, j in cycle:
                if abs(x[i, j] - round(x[i, j])) < 1e-6:
                    x[i, j] = round(x[i, j])
                    left[i].discard(j)
                    right[j].discard(i)
    out = np.maximum(np.rint(x), 0).astype(np.int64)
    return _mended(out, rows, columns)


def _cycle(left: Sequence[set[int]], right: Sequence[set[int]], row: int) -> list[tuple[int, int]]:
    """Return a cycle of entries that are not whole, a row and a column in turn; where a path ends, its last entry."""
    path: list[tuple[int, int]] = []
    seen: dict[int, int] = {}
    came = -1
    while row not in seen:
        seen[row] = len(path)
        column = next((each for each in left[row] if each != came), None)
        if column is None:
            return [(row, came)]
        after = next((each for each in right[column] if each != row), None)
        if after is None:
            return [(row, column)]
        path += [(row, column), (after, column)]
        row, came = after, column
    return path[seen[row] :]


def _mended(out: Whole, rows: Whole, columns: Whole) -> Whole:
    """Make sums exact that the rounding of floats left off by a few: take what is too much, fill what is missing."""
    for table, wanted in ((out, rows), (out.T, columns)):
        for line in np.flatnonzero(table.sum(axis=1) > wanted):
            excess = int(table[line].sum() - wanted[line])
            for place in np.argsort(-table[line]):
                taken = min(excess, int(table[line, place]))
                table[line, place] -= taken
                excess -= taken
    short, other = rows - out.sum(axis=1), columns - out.sum(axis=0)
    for row in np.flatnonzero(short):
        for column in np.flatnonzero(other):
            added = min(int(short[row]), int(other[column]))
            out[row, column] += added
            short[row] -= added
            other[column] -= added
    return out

"""How the price of a table of a hierarchy is shared over its levels: a search over public numbers alone.

Without caps the sum over levels of √(number of nodes) times the logarithm of the mean cell variance is least; with caps
the mean variance of the leaves is least among the shares that meet them (hierarchies proof page, "Shares").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.readable import at_most
from sidelight.records.hierarchy import LabelTree
from sidelight.summaries.golden_section import least_part

Floats: TypeAlias = NDArray[np.float64]

#: Shares are whole numbers of these parts.
PARTS = 1024
_ROUNDS = 6
#: The most splits of the price over capped levels that a search starts from.
_SPLITS = 100


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareSearch:
    """What the variance of each level depends on, besides the shares.

    Args:
        tree: The tree.
        units: κ of each level if it had the whole price.
        power: 1 where κ falls with the share (Gaussian noise), 2 where it falls with its square (Laplace noise).
        exact_level: Totals of this level and above are exact; None where none are.
        total_part, rest_part: The mean and the largest over cells of e²·1ᵀC1 and of C - e²·1ᵀC1: how much of a cell's
            variance is that of the total (Theorem 4).
    """

    tree: LabelTree
    units: tuple[float, ...]
    power: int
    total_part: tuple[float, float]
    rest_part: tuple[float, float]
    exact_level: int | None = None

    @property
    def levels(self) -> list[int]:
        """The levels above the leaves that are worth measuring: with exact totals and no other columns, those below."""
        first = 0 if self.exact_level is None or self.rest_part[1] > 0 else self.exact_level + 1
        return list(range(first, self.tree.depth))

    @cached_property
    def _families(self) -> _AlikeFamilies:
        return _AlikeFamilies.of(self.tree)

    def kappas(self, shares: Sequence[float]) -> list[float]:
        """Return κ of each level by its share."""
        return [
            unit / share**self.power if share > 0 else math.inf for unit, share in zip(self.units, shares, strict=True)
        ]

    def variances(self, shares: Sequence[float]) -> tuple[Floats, Floats]:
        """Return the mean and the largest cell variance of each level."""
        kappas = self.kappas(shares)
        mean, worst = _spread(self.tree, self._families, kappas)
        if self.exact_level is None:
            part = [total + rest for total, rest in zip(self.total_part, self.rest_part, strict=True)]
            return mean * part[0], worst * part[1]
        exact = [0.0 if level <= self.exact_level else each for level, each in enumerate(kappas)]
        of_total = _spread(self.tree, self._families, exact)
        # the largest of a sum is at most the sum of the largest
        return (
            of_total[0] * self.total_part[0] + mean * self.rest_part[0],
            of_total[1] * self.total_part[1] + worst * self.rest_part[1],
        )


@dataclass(frozen=True, eq=False)
class _AlikeFamilies:
    """Families of leaves, those of one parent and one size together: their variances are the same."""

    parents: NDArray[np.int64]
    sizes: Floats
    counts: Floats

    @classmethod
    def of(cls, tree: LabelTree) -> _AlikeFamilies:
        sizes = np.diff(np.append(tree.starts[-1], tree.sizes[-1]))
        above = tree.parents[-2] if tree.depth > 1 else np.zeros(1, np.int64)
        found, counts = np.unique(above * (sizes.max() + 1) + sizes, return_counts=True)
        parents, size = np.divmod(found, sizes.max() + 1)
        return cls(parents, size.astype(np.float64), counts.astype(np.float64))


def _spread(tree: LabelTree, families: _AlikeFamilies, kappas: Sequence[float]) -> tuple[Floats, Floats]:
    """Return the mean and the largest P of each level; families that are alike are looked at once."""
    depth, leaf, size, counts = tree.depth, kappas[-1], families.sizes, families.counts
    subtree = [_from_children(kappas[depth - 1], size * leaf)]
    children: list[Floats] = []
    for level in range(depth - 2, -1, -1):
        if level == depth - 2:
            below = np.asarray(np.bincount(families.parents, counts * subtree[0], tree.sizes[level]), np.float64)
        else:
            below = tree.up(subtree[0], level + 1)
        children.insert(0, below)
        subtree.insert(0, _from_children(kappas[level], below))
    pooled = subtree[0]
    mean, worst = [float(pooled.mean())], [float(pooled.max())]
    for level in range(1, depth):
        parents, many = (tree.parents[level], None) if level < depth - 1 else (families.parents, counts)
        whole = children[level - 1]
        share = subtree[level] * np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)[parents]
        pooled = subtree[level] - share * (subtree[level] - share * pooled[parents])
        mean.append(float(np.average(pooled, weights=many)))
        worst.append(float(pooled.max()))
    leaves = leaf * (1 - 1 / size) + pooled / size**2
    mean.append(float(np.average(leaves, weights=size * counts)))
    worst.append(float(leaves.max()))
    return np.array(mean), np.array(worst)


def _from_children(kappa: float, below: Floats) -> Floats:
    """Return s of nodes from κ and the variance of the sum of their children."""
    return below if math.isinf(kappa) else below * 0.0 if kappa == 0 else kappa * below / (kappa + below)


def default_shares(search: ShareSearch) -> tuple[tuple[Fraction, ...], float]:
    """Return the share of each level in 1024ths, the leaves with what is left, and the sum that is least.

    >>> from sidelight.records.hierarchy import Hierarchy
    >>> tree = Hierarchy("leaf", {"top": 1}).tree([f"{top}{leaf:02}" for top in "abcd" for leaf in range(25)])
    >>> one = {"units": (1.0, 1.0, 1.0), "power": 1, "total_part": (0.0, 0.0), "rest_part": (1.0, 1.0)}
    >>> top, middle, leaves = default_shares(ShareSearch(tree=tree, **one))[0]
    >>> top + middle + leaves == 1, 0 < top < middle < leaves
    (True, True)
    """
    weights = np.sqrt(np.array(search.tree.sizes, np.float64))

    def badness(parts: Sequence[float]) -> float:
        whole = math.fsum(parts)
        mean, _ = search.variances([part / whole for part in parts])
        return float((weights * np.log(np.where(mean > 0, mean, 1.0))).sum())

    best, lowest = [*[0.0] * search.tree.depth, 1.0], math.inf
    for start in (0.25, 0.0):
        parts = [start if level in search.levels else 0.0 for level in range(search.tree.depth)] + [1.0]
        value = badness(parts)
        for _ in range(_ROUNDS):
            before = value
            for level in search.levels:
                parts, value = _along(badness, parts, level, value)
            if before - value < 1e-5 * weights.sum():
                break
        if value < lowest:
            best, lowest = parts, value
    whole = math.fsum(best)
    shares = [Fraction(round(PARTS * part / whole), PARTS) for part in best[:-1]]
    return (*shares, 1 - sum(shares, Fraction(0))), lowest


def _along(
    badness: Callable[[Sequence[float]], float], parts: list[float], level: int, value: float
) -> tuple[list[float], float]:
    """Look for a better part of one level: 0, powers of two, then a golden section around the best."""

    def at(part: float) -> float:
        return badness([*parts[:level], part, *parts[level + 1 :]])

    chosen, lowest = least_part(at, [0.0, *(2.0**k for k in range(-12, 4))], rounds=9)
    if lowest < value - 1e-12:
        return [*parts[:level], chosen, *parts[level + 1 :]], lowest
    return parts, value


def capped_shares(
    search: ShareSearch,
    caps: Mapping[int, float],
    half_width: Callable[[float, Sequence[float]], float],
    *,
    price: tuple[str, float],
) -> tuple[tuple[Fraction, ...], float]:
    """Return shares that keep the worst cell of each capped level within its cap, and the leaves' mean variance.

    Args:
        search: The variances.
        caps: The largest half-width by level.
        half_width: The half-width of an interval by its variance and κ of each level, as the table will state it.
        price: The name and the amount of the price, for the message where no shares do.
    """

    def farthest(parts: Sequence[int], times: float = 1.0) -> tuple[float, int]:
        """Return by how much the worst cap is missed at a multiple of the price (1: just met), and its level."""
        shares = [part / PARTS for part in parts]
        worst, kappas = search.variances(shares)[1] / times**2, [each / times**2 for each in search.kappas(shares)]
        return max((half_width(float(worst[level]), kappas) / cap, level) for level, cap in caps.items())

    depth = search.tree.depth
    taking = [level for level in sorted(caps) if level in search.levels]
    starts = [
        _filled(depth, dict(zip(taking, split, strict=True))) for split in _splits(len(taking), leaves=depth in caps)
    ]
    parts = min(starts, key=farthest)
    if farthest(parts)[0] > 1:
        raise RangeError(_unreachable(search.tree.names, caps, partial(farthest, parts), price=price))

    def leaves(parts: Sequence[int]) -> float:
        return float(search.variances([part / PARTS for part in parts])[0][-1])

    value, step = leaves(parts), PARTS // 4
    while step:
        moved = False
        for source, target in product(range(depth), range(depth + 1)):
            if source == target or parts[source] < step or (target < depth and target not in search.levels):
                continue
            other = list(parts)
            other[source] -= step
            other[target] += step
            if (found := leaves(other)) < value * (1 - 1e-12) and farthest(other)[0] <= 1:
                parts, value, moved = other, found, True
        step = step if moved else step // 2
    return tuple(Fraction(part, PARTS) for part in parts), value


def _splits(levels: int, *, leaves: bool) -> list[tuple[int, ...]]:
    """Return at most 100 ways to split all but one part over some levels, the leaves taking what is left."""
    if not levels:
        return [()]
    steps = next(steps for steps in range(PARTS, 0, -1) if steps == 1 or _ways(steps, levels, leaves=leaves) <= _SPLITS)
    found = [
        split
        for split in product(range(steps + 1), repeat=levels)
        if sum(split) <= steps and (leaves or sum(split) == steps)
    ]
    return [tuple(each * (PARTS - 1) // steps for each in split) for split in found]


def _ways(steps: int, levels: int, *, leaves: bool) -> int:
    return math.comb(steps + levels - (0 if leaves else 1), levels - (0 if leaves else 1))


def _filled(depth: int, given: Mapping[int, int]) -> list[int]:
    return [*(given.get(level, 0) for level in range(depth)), PARTS - sum(given.values())]


def _unreachable(
    names: Sequence[str],
    caps: Mapping[int, float],
    farthest: Callable[[float], tuple[float, int]],
    *,
    price: tuple[str, float],
) -> str:
    """Return a message that says which cap is out of reach, what this price reaches, and which price meets all caps."""
    missed, level = farthest(1.0)
    low, high = 1.0, 2.0
    enough = 1 - 1e-9  # the rounding of floats must not refuse the price that is named
    while farthest(high)[0] > enough and high < 2.0**40:
        high *= 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if farthest(middle)[0] > enough else (low, middle)
    others = ", with the other caps," if len(caps) > 1 else ""
    return (
        f"{names[level]} ±{caps[level]:g}{others} needs {price[0]} of at least {at_most(price[1] * high)}; this price "
        f"reaches ±{missed * caps[level]:.3g} at best, with nothing left for {names[-1]}; raise the price or the cap"
    )

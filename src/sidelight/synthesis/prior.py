"""What is expected before the rows are looked at: a distribution to start from, from public numbers only.

A prior changes accuracy, never the guarantee. All of them are mixed with the uniform distribution (the hedge), because
a multiplicative fit cannot revive a cell of weight zero, and because predictions can be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.synthesis.domain import Codes, Domain
from sidelight.synthesis.spaces import Floats, Space, SupportSpace

if TYPE_CHECKING:
    from sidelight.synthesis.fitted import Fitted

#: The share of the uniform distribution in every prior.
HEDGE = 0.05
#: At most this share of a prior is a raw public histogram.
_MOST_RAW = 0.9


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the smoothing rule needs: public or released numbers."""

    mean_cells: float
    deviation: float
    rows: float


class Prior(Protocol):
    """A distribution on any space."""

    def weights(self, space: Space, setting: Setting) -> Floats:
        """Return strictly positive weights of the possible points, with sum 1."""
        ...


@dataclass(frozen=True)
class UniformPrior:
    """Nothing is expected: all possible cells alike."""

    def weights(self, space: Space, setting: Setting) -> Floats:
        """Return equal weights."""
        return uniform_weights(space)


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicRows:
    """A prior from coded public rows: w = α·histogram + (1 - α - λ)·product of its one-way marginals + λ·uniform.

    α = 0.9 e_priv² / (e_priv² + e_pub²) trusts the raw histogram as far as its sampling noise e_pub² = c/n_pub is below
    the noise e_priv² = (σc/N)² of a measurement; c is the mean number of cells of a marginal of the workload. `trust`
    in [0, 1] multiplies α where the public population differs.
    """

    domain: Domain
    codes: Codes = field(repr=False)
    trust: float = 1.0
    hedge: float = HEDGE

    def __post_init__(self) -> None:
        _check(self.trust, self.hedge)
        codes = self.domain.check_codes(self.codes)
        codes = codes[self.domain.possible_rows(codes)]
        if not len(codes):
            raise RangeError("public rows are needed for a prior from public rows, got none that the domain allows")
        object.__setattr__(self, "codes", codes)

    def raw_share(self, setting: Setting) -> float:
        """Return α."""
        public = setting.mean_cells / len(self.codes)
        private = (setting.deviation * setting.mean_cells / max(setting.rows, 1.0)) ** 2
        return min(self.trust * _MOST_RAW * private / (private + public), 1.0 - self.hedge)

    def weights(self, space: Space, setting: Setting) -> Floats:
        """Return the smoothed histogram."""
        same_domain(space, self.domain)
        share = self.raw_share(setting)
        if isinstance(space, SupportSpace):
            raw = _on_support(space, self.codes)
        else:
            raw = np.bincount(self.domain.ravel(self.codes), minlength=self.domain.cells) / len(self.codes)
        one_way = [
            np.bincount(self.codes[:, place], minlength=size) / len(self.codes)
            for place, size in enumerate(self.domain.sizes)
        ]
        return mixed(space, raw, product(space, one_way), raw_share=share, hedge=self.hedge)


@dataclass(frozen=True, eq=False, kw_only=True)
class GivenWeights:
    """Any distribution on the cells of a dense domain, in their order, mixed with the uniform one."""

    domain: Domain
    given: Floats = field(repr=False)
    hedge: float = HEDGE

    def __post_init__(self) -> None:
        _check(1.0, self.hedge)
        flat = np.asarray(self.given, np.float64)
        if flat.size != self.domain.cells:
            raise RangeError(
                f"the prediction has {flat.size} cells and the domain {self.domain.cells}; "
                "predict every combination of the columns, the last column's values fastest"
            )
        if not (np.isfinite(flat).all() and (flat >= 0).all() and flat.sum() > 0):
            raise RangeError("a predicted distribution needs finite weights of at least 0, not all of them 0")
        object.__setattr__(self, "given", flat.reshape(-1) / flat.sum())

    def weights(self, space: Space, setting: Setting) -> Floats:
        """Return the hedged weights."""
        same_domain(space, self.domain)
        given = self.given[self.domain.ravel(space.codes)] if isinstance(space, SupportSpace) else self.given
        return mixed(space, given, given, raw_share=1.0 - self.hedge, hedge=self.hedge)


@dataclass(frozen=True, eq=False, kw_only=True)
class EarlierReleases:
    """A prior from synthetic releases of the same domain, weighted by their rows: free, because they were paid for.

    Their noise is about that of the next release, so the average of t of them is trusted with α = 0.9 t/(t + 1), as a
    public histogram with that much noise would be; the rest is the product of its one-way marginals.
    """

    releases: tuple[Fitted, ...]
    trust: float = 1.0
    hedge: float = HEDGE

    def __post_init__(self) -> None:
        _check(self.trust, self.hedge)
        object.__setattr__(self, "releases", tuple(self.releases))
        if not self.releases:
            raise RangeError("at least one earlier release is needed; start without a prediction")
        first = self.releases[0]
        for each in self.releases:
            if (each.domain.columns, each.domain.sizes) != (first.domain.columns, first.domain.sizes):
                raise RangeError("the earlier releases have different domains; learn from releases of the same columns")

    def weights(self, space: Space, setting: Setting) -> Floats:
        """Return the smoothed average."""
        same_domain(space, self.releases[0].domain)
        count = len(self.releases)
        shares = np.array([each.rows for each in self.releases]) / sum(each.rows for each in self.releases)
        one_way = [
            sum(share * each.marginal((name,)) for share, each in zip(shares, self.releases, strict=True))
            for name in space.domain.columns
        ]
        raw = sum(share * each.weights_on(space) for share, each in zip(shares, self.releases, strict=True))
        alpha = min(self.trust * _MOST_RAW * count / (count + 1), 1.0 - self.hedge)
        return mixed(space, np.asarray(raw), product(space, one_way), raw_share=alpha, hedge=self.hedge)


def uniform_weights(space: Space) -> Floats:
    """Return equal weights of all possible points."""
    weights = np.ones(space.points) if space.possible is None else space.possible.astype(np.float64)
    return np.asarray(weights / weights.sum())


def mixed(space: Space, raw: Floats, smooth: Floats, *, raw_share: float, hedge: float) -> Floats:
    """Return α·raw + (1 - α - λ)·smooth + λ·uniform, each normalised over the possible points."""
    parts = ((raw, raw_share), (smooth, 1.0 - raw_share - hedge), (uniform_weights(space), hedge))
    total = np.zeros(space.points)
    for part, share in parts:
        inside = part if space.possible is None else part * space.possible
        mass = float(inside.sum())
        if share > 0:
            total += share * (inside / mass if mass > 0 else uniform_weights(space))
    return np.asarray(total / total.sum())


def product(space: Space, one_way: Sequence[NDArray[np.float64]]) -> Floats:
    """Return the product of one-way marginals at every point."""
    if isinstance(space, SupportSpace):
        found = np.ones(space.points)
        for place, masses in enumerate(one_way):
            found *= masses[space.codes[:, place]]
        return found
    found = np.ones(1)
    for masses in one_way:
        found = np.multiply.outer(found, masses).reshape(-1)
    return found


def _on_support(space: SupportSpace, codes: Codes) -> Floats:
    """Return the share of the rows at each point; points are distinct rows."""
    places = {row: place for place, row in enumerate(map(bytes, np.ascontiguousarray(space.codes)))}
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    found = np.zeros(space.points)
    for row, count in zip(map(bytes, np.ascontiguousarray(distinct)), counts, strict=True):
        if row in places:
            found[places[row]] = count
    return found / len(codes)


def same_domain(space: Space, domain: Domain) -> None:
    """Refuse a prediction on another domain."""
    if (space.domain.columns, space.domain.sizes) != (domain.columns, domain.sizes):
        raise RangeError(
            f"the prediction is for columns {', '.join(domain.columns)} of sizes {domain.sizes}, the release for "
            f"{', '.join(space.domain.columns)} of sizes {space.domain.sizes}; predict the release's own domain"
        )


def _check(trust: float, hedge: float) -> None:
    if not 0.0 <= trust <= 1.0:
        raise RangeError(f"trust must lie in 0..1, got {trust}")
    if not 0.0 < hedge <= 1.0:
        raise RangeError(f"hedge must lie in (0, 1], got {hedge}; without any, a cell predicted as 0 stays 0 for ever")

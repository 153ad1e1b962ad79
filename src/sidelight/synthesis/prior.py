"""What is expected before the rows are looked at: a distribution to start from, from public and released numbers only.

A prior changes accuracy, never the guarantee. All of them are mixed with the uniform distribution (the hedge), because
a multiplicative fit cannot revive a cell of weight zero. How far a prediction is trusted is decided by its own error
against the noise of a measurement; both are known before the release. Released measurements that contradict the
prediction then lower the trust, round by round: a wrong one is out of the fit after the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.synthesis.domain import CellNoise, Codes, Domain
from sidelight.synthesis.measurement import MarginalMeasurement
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.spaces import Floats, Space, SupportSpace
from sidelight.synthesis.workload import Marginal


@dataclass(frozen=True, eq=False, kw_only=True)
class StartingPoint:
    """α·raw + (1 - α - λ)·smooth^γ + λ·uniform, where smooth^γ is normalised.

    A power of a product is a product: it says nothing about relations between columns, whatever γ. A mixture of a
    product and the uniform distribution would, and what is not measured would keep it.
    `own_error` is the squared l1 error of a marginal of `raw` that is known beforehand, `own_variance` its squared l2
    error; `most_raw` the largest α.
    """

    space: Space
    raw: Floats = field(repr=False)
    smooth: Floats = field(repr=False)
    most_raw: float
    hedge: float
    own_error: float = 0.0
    own_variance: float = 0.0
    _known: dict[tuple[str, Marginal], Floats] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("raw", "smooth"):
            object.__setattr__(self, name, _normalised(self.space, getattr(self, name)))

    def raw_share(self, *, private_error: float, other_error: float) -> float:
        """Return α = most_raw · p²/(p² + o²) for squared errors p of a measurement and o of the raw part."""
        if private_error <= 0.0:
            return 0.0
        return self.most_raw / (1.0 + (other_error / private_error) ** 2)

    def squared_bias(self, measurements: Sequence[MarginalMeasurement], *, rows: float) -> float:
        """Estimate the squared l2 distance between marginals of `raw` and of the rows, from released numbers.

        From the distance to each measured marginal, what noise and the raw part's own error explain is subtracted.
        """
        if self.most_raw == 0.0 or not measurements:
            return 0.0
        found = []
        masses = self._marginals("raw", [each.marginal for each in measurements])
        for mass, each in zip(masses, measurements, strict=True):
            noise = each.values.size * (each.deviation / rows) ** 2
            apart = float(((mass - each.values / rows) ** 2).sum())
            found.append(max(0.0, apart - noise - self.own_variance))
        return float(np.mean(found))

    def smooth_share(self, measurements: Sequence[MarginalMeasurement], *, rows: float) -> float:
        """Return γ = u²/(u² + s²) for squared distances u and s of the uniform and the smooth part to measured columns.

        Of each column of each measurement, less the noise. 1 before the first. A smooth part that is further from the
        rows than no idea at all loses its weight.
        """
        if not measurements or not self.adapts:
            return 1.0
        wanted = [each.marginal for each in measurements]
        noises = [each.deviation / rows for each in measurements]
        apart = [
            sum(
                _one_way_distance(mass - each.values / rows) - each.values.ndim * each.values.size * noise**2
                for mass, each, noise in zip(self._marginals(name, wanted), measurements, noises, strict=True)
            )
            for name in ("uniform", "smooth")
        ]
        uniform, smooth = (max(0.0, each) for each in apart)
        return 1.0 if smooth == 0.0 else 1.0 / (1.0 + (smooth / uniform) ** 2) if uniform > 0.0 else 0.0

    @property
    def adapts(self) -> bool:
        """Whether measurements can change the mixture."""
        return self.most_raw > 0.0 or self.hedge < 1.0

    def mixed(self, *, private_error: float, other_error: float, smooth_share: float = 1.0) -> Floats:
        """Return the prior: strictly positive."""
        share = self.raw_share(private_error=private_error, other_error=other_error)
        powers = self.smooth**smooth_share if smooth_share > 0.0 else uniform_weights(self.space)
        total = self.raw * share
        total += _normalised(self.space, powers) * max(1.0 - share - self.hedge, 0.0)
        total += uniform_weights(self.space) * self.hedge
        return np.asarray(total / total.sum())

    def _marginals(self, name: Literal["raw", "smooth", "uniform"], wanted: Sequence[Marginal]) -> list[Floats]:
        """Return marginals of one part; each is computed once."""
        missing = [each for each in dict.fromkeys(wanted) if (name, each) not in self._known]
        if missing:
            part = uniform_weights(self.space) if name == "uniform" else getattr(self, name)
            found = self.space.marginals(part, missing)
            self._known.update(((name, each), mass) for each, mass in zip(missing, found, strict=True))
        return [self._known[name, each] for each in wanted]


def _one_way_distance(difference: Floats) -> float:
    """Return the squared l2 norms of the one-way marginals of a difference, added up."""
    axes = range(difference.ndim)
    return sum(float((difference.sum(axis=tuple(a for a in axes if a != axis)) ** 2).sum()) for axis in axes)


def uniform_weights(space: Space) -> Floats:
    """Return equal weights of all points."""
    return np.ones(space.points) / space.points


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


def _normalised(space: Space, weights: Floats) -> Floats:
    mass = float(weights.sum())
    return np.asarray(weights / mass) if mass > 0 else uniform_weights(space)


#: The share of the uniform distribution in every prior.
HEDGE = 0.05
#: At most this share of a prior is a raw histogram.
MOST_RAW = 0.9


@dataclass(frozen=True, kw_only=True)
class FitSetting:
    """What the rule of trust needs: the workload's mean number of cells, the noise of a cell, the number of rows."""

    mean_cells: float
    deviation: float
    rows: float

    @property
    def private_error(self) -> float:
        """The squared l1 error of a measured marginal, (σc/N)²."""
        return (self.deviation * self.mean_cells / max(self.rows, 1.0)) ** 2


class DistributionPrior(Protocol):
    """A distribution on any space."""

    def start(self, space: Space, setting: FitSetting) -> StartingPoint:
        """Return the parts of the prior on the points of a space."""
        ...


@dataclass(frozen=True)
class UniformPrior:
    """Nothing is expected: all cells alike."""

    def start(self, space: Space, setting: FitSetting) -> StartingPoint:
        """Return equal weights."""
        even = uniform_weights(space)
        return StartingPoint(space=space, raw=even, smooth=even, most_raw=0.0, hedge=1.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicRowsPrior:
    """A prior from coded public rows: α·histogram + (1 - α - λ)·product of its one-way marginals + λ·uniform.

    α = 0.9 e_priv⁴ / (e_priv⁴ + e_pub⁴): the raw histogram is trusted where its sampling noise e_pub² = c/n_pub is
    below the noise e_priv² = (σc/N)² of a measurement; c is the mean number of cells of a marginal of the workload.
    `trust` in [0, 1] multiplies α where the public population is known to differ.
    """

    domain: Domain
    codes: Codes = field(repr=False)
    trust: float = 1.0
    hedge: float = HEDGE

    def __post_init__(self) -> None:
        _check(self.trust, self.hedge)
        codes = self.domain.check_codes(self.codes)
        if not len(codes):
            raise RangeError("public rows are needed for a prior from public rows, got none")
        object.__setattr__(self, "codes", codes)

    def start(self, space: Space, setting: FitSetting) -> StartingPoint:
        """Return histogram and product on a space."""
        same_domain(space, self.domain)
        if isinstance(space, SupportSpace):
            raw = _on_support(space, self.codes)
        else:
            raw = np.bincount(self.domain.ravel(self.codes), minlength=self.domain.cells) / len(self.codes)
        one_way = [
            np.bincount(self.codes[:, place], minlength=size) / len(self.codes)
            for place, size in enumerate(self.domain.sizes)
        ]
        return StartingPoint(
            space=space,
            raw=raw,
            smooth=product(space, one_way),
            most_raw=min(self.trust * MOST_RAW, 1.0 - self.hedge),
            hedge=self.hedge,
            own_error=setting.mean_cells / len(self.codes),
            own_variance=1.0 / len(self.codes),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class GivenWeights:
    """Any distribution on the cells of a dense domain, in their order: (1 - λ)·given + λ·uniform to start with."""

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

    def start(self, space: Space, setting: FitSetting) -> StartingPoint:
        """Return the given weights on a space."""
        same_domain(space, self.domain)
        given = self.given[self.domain.ravel(space.codes)] if isinstance(space, SupportSpace) else self.given
        even = uniform_weights(space)
        return StartingPoint(space=space, raw=given, smooth=even, most_raw=1.0 - self.hedge, hedge=self.hedge)


@dataclass(frozen=True, eq=False, kw_only=True)
class EarlierReleases:
    """A prior from synthetic releases of the same domain, weighted by their rows: free, because they were paid for.

    The noise of each is about that of the next release, so the average of t of them is trusted like a public histogram
    with e_pub² = e_priv²/t; the rest is the product of its one-way marginals. `noises` are those of the measured
    marginals of each release, where they are known.
    """

    releases: tuple[Fitted, ...]
    noises: tuple[tuple[CellNoise, ...], ...] = ()
    trust: float = 1.0
    hedge: float = HEDGE

    def __post_init__(self) -> None:
        _check(self.trust, self.hedge)
        object.__setattr__(self, "releases", tuple(self.releases))
        if not self.noises:
            object.__setattr__(self, "noises", ((),) * len(self.releases))
        if not self.releases:
            raise RangeError("at least one earlier release is needed; start without a prediction")
        first = self.releases[0].domain
        if any((each.domain.columns, each.domain.sizes) != (first.columns, first.sizes) for each in self.releases):
            raise RangeError("the earlier releases have different domains; learn from releases of the same columns")

    def start(self, space: Space, setting: FitSetting) -> StartingPoint:
        """Return the average and its product on a space."""
        same_domain(space, self.releases[0].domain)
        shares = np.array([each.rows for each in self.releases]) / sum(each.rows for each in self.releases)
        parts = list(zip(shares.tolist(), self.releases, strict=True))
        one_way = [
            np.sum([share * each.marginal((name,)) for share, each in parts], axis=0) for name in space.domain.columns
        ]
        raw = np.zeros(space.points)
        for share, each in parts:
            raw += share * each.weights_on(space)
        return StartingPoint(
            space=space,
            raw=raw,
            smooth=product(space, one_way),
            most_raw=min(self.trust * MOST_RAW, 1.0 - self.hedge),
            hedge=self.hedge,
            own_error=setting.private_error / len(self.releases),
            own_variance=setting.private_error / max(setting.mean_cells, 1.0) / len(self.releases),
        )


def current_weights(
    start: StartingPoint, setting: FitSetting, measurements: Sequence[MarginalMeasurement] = ()
) -> Floats:
    """Return the prior for a setting, in the light of what was released so far."""
    bias = setting.mean_cells * start.squared_bias(measurements, rows=setting.rows)
    return start.mixed(
        private_error=setting.private_error,
        other_error=start.own_error + bias,
        smooth_share=start.smooth_share(measurements, rows=setting.rows),
    )


def _on_support(space: SupportSpace, codes: NDArray[np.int64]) -> Floats:
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

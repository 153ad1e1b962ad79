"""What a user may predict a table with: public rows, an earlier release, or weights of all cells. Never charged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.collect import coded_rows
from sidelight.errors import RangeError, SchemaError
from sidelight.noise.source import SEEDED_BRANDING
from sidelight.predictions import PublicData
from sidelight.predictions.origin import Origin, guess, joint_origin, released
from sidelight.predictions.public_data import refuse_look_alike
from sidelight.records import Table
from sidelight.release import Release
from sidelight.synthesis.axes import Axis, Labels, coding_of, counting_of, domain_of
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.prior import HEDGE, DistributionPrior, EarlierReleases, GivenWeights, PublicRowsPrior
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.released import Synthetic
from sidelight.synthesis.spaces import DenseSpace, Space, SupportSpace


@dataclass(frozen=True, eq=False, kw_only=True)
class TablePrediction:
    """A prediction fitted to a domain: the prior, its public rows if it has any, and what a release says about it."""

    prior: DistributionPrior
    origin: Origin
    description: str
    digest: str
    codes: NDArray[np.int64] | None = field(default=None, repr=False)
    seeded: bool = False  # from releases with seeded noise: for tests alone

    def to_json(self) -> Mapping[str, Any]:
        """Return what stands in the release."""
        found = {"description": self.description, "origin": self.origin.to_json(), "sha256": self.digest}
        return found | ({"entropy": SEEDED_BRANDING} if self.seeded else {})


def predict(given: Any, axes: Sequence[Axis], *, trust: float) -> TablePrediction | None:
    """Read a prediction for these axes; an error that says what is wrong with it, before anything is charged."""
    if not isinstance(trust, Real) or not 0.0 <= trust <= 1.0:
        raise RangeError(f"trust must lie in 0..1, got {trust!r}; 1 if the public rows are like the private ones")
    if given is None:
        return None
    refuse_look_alike(given, PublicData)
    if isinstance(given, Table):
        raise RangeError("a sidelight.Table is a private source and cannot be a prediction; pass the public frame")
    if isinstance(given, Release | Synthetic):
        return _from_releases([given], axes, trust=trust)
    if isinstance(given, Sequence) and given and all(isinstance(each, Release | Synthetic) for each in given):
        return _from_releases(list(given), axes, trust=trust)
    if isinstance(given, str | PathLike) or hasattr(given, "collect_schema") or hasattr(given, "columns"):
        given = PublicData(given, "public rows")
    if isinstance(given, PublicData):
        return _from_rows(given, axes, trust=trust)
    return _from_weights(given, axes, trust=trust)


def _from_rows(given: PublicData, axes: Sequence[Axis], *, trust: float) -> TablePrediction:
    declared = [axis.category if isinstance(axis, Labels) else axis.number for axis in axes]
    try:
        table = Table(given.rows, schema=declared)
    except SchemaError as error:
        raise SchemaError(f"the prediction has other columns than the release: {error}") from None
    parts = [np.stack(codes, axis=1) for codes in coded_rows(table, coding_of(axes))]
    codes = np.concatenate(parts) if parts else np.empty((0, len(axes)), np.int64)
    if not len(codes):
        raise RangeError("the public table has no rows that count; leave the prediction out")
    domain = domain_of(axes)
    codes = _sorted(codes, domain)
    return TablePrediction(
        prior=PublicRowsPrior(domain=domain, codes=codes, trust=trust),
        origin=given.origin,
        description=f"{len(codes)} public rows ({given.description})",
        digest=_digest(codes),
        codes=codes,
    )


def _from_releases(given: list[Release | Synthetic], axes: Sequence[Axis], *, trust: float) -> TablePrediction:
    domain = domain_of(axes)
    wanted = [(axis.name, axis.labels, counting_of(axis)) for axis in axes]
    fitted, noises, origins, seeded = [], [], [], 0
    for each in given:
        made = each if isinstance(each, Synthetic) else Synthetic(each)
        if [(axis.name, axis.labels, counting_of(axis)) for axis in made.axes] != wanted:
            raise RangeError(
                "the prediction is a release on another domain: it must have the same columns, labels, bins and starts "
                "of dates, which no version before 0.6.0 wrote down; declare them alike, or write its synthetic table "
                "and pass that as public rows instead"
            )
        mass = made.mass
        space: Space = DenseSpace(domain) if mass.support is None else SupportSpace(domain, mass.support)
        weights = mass.units / mass.total
        fitted.append(Fitted(domain=domain, rows=made.rows, space=space, weights=weights, measurements=()))
        noises.append(tuple(measured.noise for measured in made.measurements if measured.fine))
        origins.append(_origin_of(made.release))
        seeded += not made.release.private
    count = "an earlier release" if len(fitted) == 1 else f"{len(fitted)} earlier releases"
    return TablePrediction(
        prior=EarlierReleases(releases=tuple(fitted), noises=tuple(noises), trust=trust),
        origin=joint_origin(origins),
        description=f"{count}, NOT PRIVATE: {seeded} with seeded noise" if seeded else count,
        digest=_digest(*[part for each in given for part in _numbers_of(each)]),
        seeded=seeded > 0,
    )


def _numbers_of(given: Release | Synthetic) -> list[NDArray[Any]]:
    """Return all numbers of a release that enter a prediction."""
    made = given if isinstance(given, Synthetic) else Synthetic(given)
    mass = made.mass
    noises = np.array([measured.deviation for measured in made.measurements], np.float64)
    support = np.empty(0, np.int64) if mass.support is None else np.asarray(mass.support)
    return [np.asarray(mass.units), support, np.array([made.rows]), noises]


def _origin_of(release: Release) -> Origin:
    """Name the entry that paid for a release. Seeded noise pays for nothing, and whatever learns from it says so."""
    brand = "" if release.private else "seeded noise: not private"
    entry = release.circumstances.entry_id
    if entry is not None:
        return released(entry, description=brand)
    return guess(brand or "an earlier release without a ledger")


def _from_weights(given: Any, axes: Sequence[Axis], *, trust: float) -> TablePrediction:
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise RangeError(
            "a prediction is a public table (frame or path), an earlier release, or weights of all cells; got "
            f"{type(given).__name__}"
        ) from None
    domain = domain_of(axes)
    if weights.shape not in (domain.sizes, (domain.cells,)):
        raise RangeError(
            f"the prediction is on another domain: weights must have the shape {domain.sizes} of the columns, got "
            f"{weights.shape}"
        )
    hedge = 1.0 - trust * (1.0 - HEDGE)
    return TablePrediction(
        prior=GivenWeights(domain=domain, given=weights, hedge=hedge),
        origin=guess("weights given by the user"),
        description="predicted weights of all cells",
        digest=_digest(weights),
    )


def _sorted(codes: NDArray[np.int64], domain: Domain) -> NDArray[np.int64]:
    """Put rows in one order: files are read in any, and the same rows are the same prediction."""
    if domain.cells < 1 << 62:
        return domain.unravel(np.sort(domain.ravel(codes)))
    return codes[np.lexsort(codes.T[::-1])]


def _digest(*arrays: NDArray[Any]) -> str:
    found = hashlib.sha256()
    for each in arrays:
        found.update(np.ascontiguousarray(each, "<i8" if each.dtype.kind in "iu" else "<f8").tobytes())
    return found.hexdigest()

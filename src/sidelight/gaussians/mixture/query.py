"""`SeparatedMixture`: the query under `sl.GaussianMixture`. All that is public is checked and computed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, get_args

from sidelight.errors import RangeError, nearest
from sidelight.gaussians.estimate import CONDITION, number_columns, ratio
from sidelight.gaussians.gaussian_query import GaussianQuery
from sidelight.gaussians.mixture.link_verify import LinkVerify, PublicCluster, cluster_publicly, number_of_components
from sidelight.gaussians.mixture.partition import Floats, superclusters
from sidelight.gaussians.mixture.prepared import (
    Method,
    OnFailure,
    PreparedMixture,
    SearchMethod,
    mixture_claims,
)
from sidelight.gaussians.mixture.search import SearchSetting
from sidelight.gaussians.point_cloud import PointCloud
from sidelight.gaussians.step_arithmetic import ROUNDING
from sidelight.guarantees import Amount, decimal_text, exact, short_text
from sidelight.guarantees.amounts import whole
from sidelight.records import Schema
from sidelight.registry import load_published

#: Parts of the price go to estimates of Gaussians, which want 1e-9 to 1e9.
_LEAST_RHO, _LARGEST_RHO = Fraction(1, 10**8), Fraction(10**8)


@dataclass(frozen=True)
class SeparatedMixture(GaussianQuery):
    """Release means, covariances and weights of a mixture of separated Gaussians, with a few public rows of it.

    Guarantee: zCDP of at most `rho` (and, except for method="recursive", the GDP claim of Gaussian noise), exact on the
    machine, for the schema's unit under adding or removing one. It holds for any rows and any public rows; a refusal
    costs the same. Sizes of clusters are private and only ever used with noise. Rows that miss a number take no part.
    Public rows that are records of private persons are not protected (Gaussian-mixture proof page).

    Accuracy: where components are six or more standard deviations apart, about that of each component's own Gaussian
    with 60 % of the budget (94 % with many public rows). Where they are not certified as separated the result is
    `Refused`.

    The value of a release is a mapping with "means", "covariances", "weights" and more (`MixtureValue`).

    Args:
        columns: Names of number columns; all number columns of the schema if left out.
        components: k. May be left out where there are many public rows: then BIC on them chooses.
        prediction: Public rows of the same mixture: `sl.PublicData` with a description, or an array. 6 to 12 for each
            component are few; 2d or more for each are many.
        rho, epsilon, delta: The price: rho, or epsilon with delta.
        method: "project-link-verify" (few public rows), "recursive" (few, nested scales), "public-cluster" (many), or
            "auto": the last if each public cell has 2d rows, else the first.
        least_weight: The smallest weight of a component; 1/(2k) if left out.
        condition: The largest ratio of variances in one component.
        on_failure: "refuse", or "single" for one Gaussian of all rows with what the search has left of the budget.

    >>> from sidelight.records import Number, Schema
    >>> public = [[0.1, 0.2], [0.3, -0.4], [-0.2, 0.1], [0.5, 0.3], [-0.3, -0.1], [0.2, 0.0]]
    >>> public += [[x + 9, y] for x, y in public]
    >>> query = SeparatedMixture(components=2, prediction=public, rho="0.5")
    >>> print(query.prepare(Schema([Number("x"), Number("y")])).claims.zcdp())
    ZCDP(ρ = 0.5)
    """

    columns: Sequence[str] | None = None
    components: int | None = field(default=None, kw_only=True)
    prediction: Any = field(kw_only=True)
    rho: Amount | None = field(default=None, kw_only=True)
    epsilon: Amount | None = field(default=None, kw_only=True)
    delta: Amount | None = field(default=None, kw_only=True)
    method: Method = field(default="auto", kw_only=True)
    least_weight: Amount | None = field(default=None, kw_only=True)
    condition: Amount = field(default=CONDITION, kw_only=True)
    on_failure: OnFailure = field(default="refuse", kw_only=True)

    def __post_init__(self) -> None:
        for name, known in (("method", get_args(Method)), ("on_failure", get_args(OnFailure))):
            given = getattr(self, name)
            if given not in known:
                raise RangeError(f"{name} must be one of its choices, got {given!r}; {nearest(str(given), known)}")
        _ = self.total
        ratio(self.condition)
        self._check()
        if self.prediction is None:
            raise RangeError("a mixture wants prediction=...: public rows of the same mixture, 6 or more each")
        points: PointCloud = self.prediction
        if self.columns is not None:
            points.for_columns(len(self.columns))
        if self.components is not None:
            advice = f"there are {len(points.rows)} public rows, and each component needs some of its own"
            count = whole(self.components, name="n_components", most=len(points.rows), advice=advice)
            object.__setattr__(self, "components", count)
        if len(points.rows) < 2:
            raise RangeError("a mixture wants at least two public rows: one row has no scale")

    @property
    def total(self) -> Fraction:
        """The whole budget, rho."""
        rho = self.budget.rho
        if rho is None:
            raise RangeError("a mixture has no pure price; give rho, or epsilon with delta")
        if not _LEAST_RHO <= rho <= _LARGEST_RHO:
            raise RangeError(
                f"the price of a mixture must lie between rho 1e-8 and 1e8, got rho {short_text(rho)}; nothing comes "
                "of it"
            )
        return rho

    def prepare(self, schema: Schema) -> PreparedMixture:
        """Check the query against the schema, do all that public rows allow, and price it. Opens no data."""
        names = number_columns(schema, self.columns)
        numbers = tuple(schema.number(name) for name in names)
        points: PointCloud = self.prediction
        points.for_columns(len(numbers))
        components = self.components or number_of_components(points.rows)
        least = 1 / (2 * components) if self.least_weight is None else _weight(self.least_weight, components)
        setting = SearchSetting(
            columns=numbers,
            public=points.rows,
            components=components,
            least_weight=least,
            rho=self.total * (1 - ROUNDING),
        )
        method, plan = self._plan(setting)
        return PreparedMixture(
            claims=mixture_claims(setting.rho, plan, unit=schema.unit),
            request={
                "kind": "gaussian_mixture",
                "columns": list(names),
                "components": str(components),
                "rho": decimal_text(self.total),
                "method": method,
                "least_weight": repr(least),
                "condition": repr(ratio(self.condition)),
                "on_failure": self.on_failure,
                "public_rows": str(len(points.rows)),
                "public_sha256": points.digest,
            },
            labels=names,
            prediction=points.described(),
            setting=setting,
            method=method,
            plan=plan,
            condition=ratio(self.condition),
            on_failure=self.on_failure,
        )

    def _plan(self, setting: SearchSetting) -> tuple[Method, SearchMethod | None]:
        """Do the public part of the method; without a chance for k cells raise, which is free, or plan for one."""
        points, components = setting.public, setting.components
        if self.method in ("auto", "public-cluster"):
            clusters = None
            if len(points) >= components * _many(points) or self.method == "public-cluster":
                clusters = cluster_publicly(points, components)
            many = clusters is not None and min(clusters.rows) >= _many(points)
            if clusters is not None and (many or self.method == "public-cluster"):
                if clusters.separated:
                    return "public-cluster", PublicCluster(clusters)
                shares = ", ".join(f"{share:.0%}" for share in clusters.ambiguous)
                self._without(
                    f"{components} separated clusters are not visible in the public rows (ambiguous in each: {shares})"
                )
                return "public-cluster", None
        # all methods need public rows that show a scale, and this is where that is found out, before any charge
        balls = superclusters(points, setting.least)
        if self.method == "recursive":
            return "recursive", load_published("gaussian_mixture", "recursive").Recursive()
        if not 1 <= len(balls) <= components:
            self._without(
                f"the public rows lie in {len(balls)} groups far from each other, and {components} component(s) are "
                "asked for"
            )
            return "project-link-verify", None
        return "project-link-verify", LinkVerify(balls)

    def _without(self, reason: str) -> None:
        """Raise, unless a single Gaussian will do."""
        if self.on_failure == "refuse":
            raise RangeError(
                f"{reason}; nothing was charged. Ask for another number of components, or give more public rows"
            )


def _many(points: Floats) -> int:
    """Return how many public rows in each cell make the private search for directions unnecessary: 2d."""
    return 2 * int(points.shape[1])


def _weight(given: Amount, components: int) -> float:
    weight = exact(given, name="least_weight")
    if not 0 < weight <= Fraction(1, components):
        raise RangeError(
            f"least_weight must be positive and at most 1/n_components = 1/{components}, got {given}; the weights of "
            "all components add up to 1"
        )
    return float(weight)

"""A mixture query that is ready to run: cells, one Gaussian in each for the cost of one, weights and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any, Literal, Protocol

import numpy as np

from sidelight.errors import SourceError
from sidelight.gaussians.estimate import estimate_cells, estimate_gaussian
from sidelight.gaussians.gaussian_query import DeclaredLimits
from sidelight.gaussians.gaussian_steps import GaussianEstimate
from sidelight.gaussians.mixture.partition import Floats
from sidelight.gaussians.mixture.search import SearchResult, SearchSetting
from sidelight.gaussians.point_cloud import as_point_cloud
from sidelight.guarantees import GDP, ZCDP, Claims
from sidelight.guarantees.units import Unit
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session import Answer, Refusal
from sidelight.session.query import Prepared, PublicSource


class MixtureValue(dict[str, Any]):
    """A plain mapping that prints in a few lines.

    "means" (k x d), "covariances" (k x d x d), "weights" (k); "certified" (False for the single Gaussian of
    on_failure="single"); "rows", the noisy number of rows; "checks" with the noisy "rows" and "ambiguous" rows of every
    cell, the noisy number of "dropped" rows and the noise's "deviation" (None where no search was made); "components"
    with the account of each estimate; "warnings", from released and public numbers alone.
    """

    def __repr__(self) -> str:
        count, width = self["means"].shape
        state = "" if self["certified"] else ", not certified: one Gaussian of all rows"
        lines = [f"{count} Gaussian(s) of {width} columns{state}"]
        for weight, mean in zip(self["weights"], self["means"], strict=True):
            shown = np.array2string(mean, precision=4, suppress_small=True, threshold=6, edgeitems=3, separator=", ")
            lines.append(f"weight {weight:.3f}, mean {shown}")
        lines += [f"warning: {text}" for text in self["warnings"]]
        return "\n  ".join(lines)


#: A component this many times as spread out as the public rows of its cell holds rows they do not show.
_TOO_WIDE = 3.0

#: Public shares and released ones may differ by this many standard deviations of a public share.
_FAR = 4.0


@dataclass(frozen=True, eq=False)
class Components:
    """Estimates of all components with their weights, and what released and public numbers warn of."""

    estimates: tuple[GaussianEstimate, ...]
    weights: Floats
    warnings: tuple[str, ...]


def estimate_components(
    table: Table, setting: SearchSetting, found: SearchResult, *, rho: Fraction, condition: float, source: Source
) -> Components:
    """Estimate every cell's Gaussian.

    Guarantee: zCDP(rho), GDP(√(2 rho)), for all cells together (Gaussians proof page, Theorem 2).
    """
    assert found.partition is not None
    estimates = estimate_cells(
        table,
        [column.name for column in setting.columns],
        rule=found.partition,
        predictions=found.publics,
        rho=rho,
        condition=condition,
        scales=borrowed_scales(found.publics, setting.public),
        source=source,
    )
    weights = _weights(estimates, found)
    return Components(estimates, weights, (*found.warnings, *_warnings(estimates, weights, found)))


def estimate_single(
    table: Table, setting: SearchSetting, found: SearchResult | None, *, rho: Fraction, condition: float, source: Source
) -> Components:
    """Estimate one Gaussian of all rows, with what a failed search has left."""
    names = [column.name for column in setting.columns]
    only = estimate_gaussian(table, names, prediction=setting.public, rho=rho, condition=condition, source=source)
    warnings = () if found is None else found.warnings
    weak = _weak((only,))
    return Components((only,), np.ones(1), (*warnings, *weak))


def borrowed_scales(publics: Sequence[Floats], everything: Floats) -> list[float | None]:
    """Return for cells whose public rows show no scale one from the other cells: √2 times the largest of theirs.

    If no cell shows one, that of all public rows together.
    """
    traces = [as_point_cloud(each).trace for each in publics]
    largest = max(traces) or as_point_cloud(everything).trace
    return [None if trace > 0 else sqrt(2 * largest) for trace in traces]


def _weights(estimates: Sequence[GaussianEstimate], found: SearchResult) -> Floats:
    """Put both noisy counts of each cell together, each by its precision."""
    own = np.array([each.noise["count"] for each in estimates]) ** -2.0
    other = found.checks.deviation**-2.0
    sizes = (own * np.array([each.rows for each in estimates]) + other * found.checks.rows) / (own + other)
    sizes = np.maximum(sizes, 1.0)
    return np.asarray(sizes / sizes.sum())


def _warnings(estimates: Sequence[GaussianEstimate], weights: Floats, found: SearchResult) -> list[str]:
    shown = np.array([len(each) for each in found.publics], np.float64)
    warnings = []
    for place, (each, public) in enumerate(zip(estimates, found.publics, strict=True)):
        trace = as_point_cloud(public).trace
        if trace > 0 and np.trace(each.covariance) > _TOO_WIDE * trace:
            warnings.append(
                f"component {place} holds rows that the public rows do not show: the trace of its covariance is "
                f"{np.trace(each.covariance) / trace:.1f} times that of the public rows of its cell"
            )
        share = float(shown[place] / shown.sum())
        if abs(weights[place] - share) > _FAR * sqrt(max(share * (1 - share), 1 / shown.sum()) / shown.sum()):
            warnings.append(
                f"component {place} has {weights[place]:.0%} of the private rows and {share:.0%} of the public ones"
            )
    return warnings + list(_weak(estimates))


def _weak(estimates: Sequence[GaussianEstimate]) -> tuple[str, ...]:
    return tuple(
        f"component {place} is weak: so few rows at this budget cannot be certified for the assumed condition number; "
        "more rows, more public rows or a larger budget would help"
        for place, each in enumerate(estimates)
        if each.weak
    )


OnFailure = Literal["refuse", "single"]
Method = Literal["auto", "project-link-verify", "recursive", "public-cluster"]


class SearchMethod(Protocol):
    """A method of finding cells, with its public part done."""

    @property
    def has_gdp_claim(self) -> bool:
        """Whether all its draws are Gaussian."""

    @property
    def estimation(self) -> Fraction:
        """The share of the budget that the search leaves for the components."""

    def search(self, table: Table, setting: SearchSetting, source: Source) -> SearchResult:
        """Find and certify cells with the rest of the budget."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMixture(Prepared):
    """Everything but `run` is a function of public parameters. `plan` is None where public rows rule k cells out."""

    setting: SearchSetting
    method: Method
    plan: SearchMethod | None
    condition: float
    on_failure: OnFailure

    is_additive = True

    def check_source(self, source: PublicSource) -> None:
        """Refuse, before any charge, a table with persons whose rows an engine would have to cap: rules read arrays."""
        if source.schema.person is not None and not source.in_memory:
            raise SourceError(
                f"a mixture of a table with persons wants its rows in memory, got the engine {source.engine!r}; load "
                "them first, for example into a frame. Nothing was charged"
            )

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Find cells, certify them, and estimate; or refuse. Nothing about the values raises."""
        rho = self.setting.rho
        share = Fraction(1) if self.plan is None else self.plan.estimation
        settings: dict[str, Any] = {"rho": rho * share, "condition": self.condition, "source": source}
        found = None if self.plan is None else self.plan.search(table, self.setting, source)
        if found is not None and found.certified:
            components = estimate_components(table, self.setting, found, **settings)
        elif self.on_failure == "single":
            components = estimate_single(table, self.setting, found, **settings)
        else:
            assert found is not None  # without a plan only a single Gaussian was asked for
            return Refusal(reason=refusal_text(found, self.setting.components))
        return Answer(value=self._value(components, found))

    def _value(self, components: Components, found: SearchResult | None) -> MixtureValue:
        checks = None
        if found is not None:
            checks = {
                "rows": np.maximum(found.checks.rows, 0.0),
                "ambiguous": np.maximum(found.checks.ambiguous, 0.0),
                "dropped": max(found.checks.dropped, 0.0),
                "deviation": found.checks.deviation,
            }
        estimates = components.estimates
        rows = sum(each.rows for each in estimates) if found is None else found.rows
        limits = DeclaredLimits(columns=self.setting.columns)
        return MixtureValue(
            means=np.stack([limits.mean(each.mean) for each in estimates]),
            covariances=np.stack([limits.covariance(each.covariance) for each in estimates]),
            weights=components.weights,
            certified=found is not None and found.certified,
            method=self.method,
            rows=max(rows, 0.0),
            checks=checks,
            components=[each.account() for each in estimates],
            warnings=list(components.warnings),
        )


def mixture_claims(rho: Fraction, plan: SearchMethod | None, *, unit: Unit) -> Claims:
    """Return the cost of all parts together, whichever way the search ends.

    Every phase keeps to its share, in parallel over disjoint cells and adaptively one after the other; the choice of a
    candidate in "recursive" has no GDP claim of this size, so there only the zCDP claim stands (Gaussian-mixture proof
    page, Theorems 1 and 2).
    """
    if plan is not None and not plan.has_gdp_claim:
        return Claims.of(ZCDP(rho, unit=unit))
    return Claims.of(GDP.from_squares(2 * rho, unit=unit))


def refusal_text(found: SearchResult, components: int) -> str:
    """Return why, in released numbers only."""
    text = f"{components} separated clusters could not be certified at this budget; {found.cells} were found"
    cells = "; ".join(
        f"cell {place}: about {max(rows, 0.0):.0f} rows, {max(ambiguous, 0.0):.0f} of them ambiguous"
        + (" (too few rows)" if few else "")
        + (" (too many ambiguous)" if mixed else "")
        for place, (rows, ambiguous, few, mixed) in enumerate(
            zip(found.checks.rows, found.checks.ambiguous, found.verdict.too_few, found.verdict.too_mixed, strict=True)
        )
    )
    text += f" ({cells}; noise {found.checks.deviation:.1f})"
    notes = "".join(f"; {warning}" for warning in found.warnings)
    return (
        f"{text}{notes}. The whole price was charged. Try fewer components, more public rows or a larger rho, or "
        "on_failure='single' for one Gaussian"
    )

"""A mixture query fitted to a schema: its price, its public plan, and the one run over the rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np

from sidelight.errors import SourceError
from sidelight.gaussians.mixture.components import Components, estimate_components, estimate_single
from sidelight.gaussians.mixture.recursive import Recursive
from sidelight.gaussians.mixture.search import Found, Setting
from sidelight.gaussians.mixture.value import MixtureValue
from sidelight.gaussians.possible import Limits
from sidelight.guarantees import GDP, ZCDP, Claims
from sidelight.guarantees.claims import Unit
from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session import Answer, Refusal
from sidelight.session.query import Prepared, PublicSource

OnFailure = Literal["refuse", "single"]
Method = Literal["auto", "project-link-verify", "recursive", "public-cluster"]
#: Kept back of rho, so that rounding the claim up in its fortieth digit stays within what the user allowed.
ROUNDING = Fraction(1, 1 << 40)


class Plan(Protocol):
    """A method of finding cells, with its public part done."""

    @property
    def estimation(self) -> Fraction:
        """The share of the budget that the search leaves for the components."""

    def search(self, table: Table, setting: Setting, source: Source) -> Found:
        """Find and certify cells with the rest of the budget."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedMixture(Prepared):
    """Everything but `run` is a function of public parameters. `plan` is None where public rows rule k cells out."""

    setting: Setting
    method: Method
    plan: Plan | None
    condition: float
    on_failure: OnFailure

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

    def _value(self, components: Components, found: Found | None) -> MixtureValue:
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
        limits = Limits.of(self.setting.columns)
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


def mixture_claims(rho: Fraction, plan: Plan | None, *, unit: Unit) -> Claims:
    """Return the cost of all parts together, whichever way the search ends.

    Every phase keeps to its share, in parallel over disjoint cells and adaptively one after the other; the choice of a
    candidate in "recursive" has no GDP claim of this size, so there only the zCDP claim stands (Gaussian-mixture proof
    page, Theorems 1 and 2).
    """
    if isinstance(plan, Recursive):
        return Claims.of(ZCDP(rho, unit=unit))
    return Claims.of(GDP.from_squares(2 * rho, unit=unit))


def refusal_text(found: Found, components: int) -> str:
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

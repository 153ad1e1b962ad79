"""What every fit by noisy gradient sums shares: its price as parts of mu², the noise of each part, its claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

from sidelight.aggregates.bounded import Bounded
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, Claims, Neighbours, Unit, native_claims
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.additive import Noise
from sidelight.mechanisms.budget import Budget, price_cautions
from sidelight.regression.descent.integer_rows import Integers
from sidelight.regression.descent.starts import StartChoice
from sidelight.regression.descent.targets import Targets


class FitShares(Protocol):
    """The shares of mu² that every fit has."""

    @property
    def count(self) -> Fraction: ...
    @property
    def choice(self) -> Fraction: ...
    @property
    def steps(self) -> Fraction: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PricedFit:
    """The public parameters that price a fit; what is learned of which rows is for those that inherit.

    Args:
        targets: What is learned.
        candidates: Predictions to start from.
        odds: Prior odds of each of them beside none.
        rows: A public number of rows.
        epsilon, delta: The target.
        mu: The Gaussian differential privacy that keeps to it.
        unit: The protected unit.
    """

    targets: Targets
    candidates: tuple[Any, ...]
    odds: Fraction
    rows: int | None
    epsilon: Fraction
    delta: Fraction
    mu: Fraction
    unit: Unit

    @property
    def shares(self) -> FitShares:
        """How mu² is divided."""
        raise NotImplementedError

    @property
    def squares(self) -> Mapping[str, Fraction]:
        """The square of what each part costs."""
        raise NotImplementedError

    @property
    def rows_per_unit(self) -> int:
        """How many rows a protected unit may have."""
        return rows_of_unit(self.unit)

    @property
    def budget(self) -> Budget:
        """The whole price."""
        return Budget("mu", self.mu**2)

    def count_noise(self, value: int) -> Noise:
        """Return the noise of the number of rows."""
        return self.budget.part(self.shares.count).on(self.bounded(value, 1))

    def step_noise(self, value: Integers, *, clip: int, passes: int) -> Noise:
        """Return the noise of one of `passes` gradients, which a row moves by at most the clip."""
        return self.budget.part(self.shares.steps / passes).on(self.bounded(value, clip))

    @cached_property
    def choice(self) -> StartChoice | None:
        """The choice between the predictions and none, if there are any."""
        if not self.candidates:
            return None
        return StartChoice(
            candidates=len(self.candidates),
            budget=self.budget.part(self.shares.choice),
            odds=self.odds,
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
            votes=self.targets.kind == "squared",
        )

    @cached_property
    def claims(self) -> Claims:
        """What the release proves: GDP(mu), exact on the machine."""
        if sum(self.squares.values()) > self.mu**2:
            raise RangeError("the parts of this fit cost more than the whole; this is a defect, please report it")
        return native_claims(GDP(self.mu, unit=self.unit), mechanism="rounded_gaussian")

    def cautions(self) -> tuple[str, ...]:
        """Return public warnings about the parameters, for people."""
        return price_cautions(self.epsilon, self.delta)

    def bounded(self, value: Integers | int, sensitivity: int | Fraction) -> Bounded:
        """Return a sum with what one unit may move it by, if a row moves it by at most `sensitivity`."""
        return Bounded(
            value,
            sensitivity=Fraction(self.rows_per_unit * sensitivity),
            norm="l2",
            neighbours=Neighbours.ADD_REMOVE,
            unit=self.unit,
        )


def square_of(claims: Claims) -> Fraction:
    """Return mu² of a part: every part is Gaussian, or a selection of bounded range."""
    found = claims.gdp()
    assert found is not None
    return found.mu**2

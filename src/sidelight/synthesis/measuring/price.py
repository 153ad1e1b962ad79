"""The budget of a data release: one total, divided into selections and measurements, and added up again.

Three kinds: `rho` (zCDP, Gaussian noise), `epsilon` (pure, Laplace noise) and `mu` (Gaussian differential privacy),
which is what an (epsilon, delta) becomes. Gaussian noise loses nothing there, and a selection, a tenth of the budget,
gets a range 1.25 times smaller: much less than what converting zCDP to (epsilon, delta) would lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any, Literal

from sidelight.aggregates.bounded import Bounded, Norm
from sidelight.errors import RangeError
from sidelight.guarantees import GDP, ZCDP, Amount, BoundedRange, Claims, PureDP, native_claims, positive
from sidelight.guarantees.claims import Context
from sidelight.guarantees.conversions import gdp_within, pure_within_gdp
from sidelight.mechanisms.additive import (
    gaussian,
    gaussian_claims,
    gaussian_scale,
    laplace,
    laplace_claims,
    laplace_scale,
)
from sidelight.noise import Source

Kind = Literal["rho", "epsilon", "mu"]
_ROOT_BITS = 128


@dataclass(frozen=True)
class Price:
    """An amount of one kind; of `mu` the square is kept, which is what adds up."""

    kind: Kind
    amount: Fraction

    @classmethod
    def of(cls, *, rho: Amount | None = None, epsilon: Amount | None = None, delta: Amount | None = None) -> Price:
        """Read a user's price: rho, epsilon alone (pure), or epsilon with delta.

        >>> Price.of(epsilon=1, delta="1e-6").kind
        'mu'
        """
        if (rho is None) == (epsilon is None):
            raise RangeError("the price is exactly one of rho (zCDP), epsilon (pure), or epsilon with delta")
        if rho is not None:
            if delta is not None:
                raise RangeError("delta belongs to epsilon; rho has none")
            return cls("rho", positive(rho, name="rho"))
        assert epsilon is not None
        if delta is None:
            return cls("epsilon", positive(epsilon, name="epsilon"))
        return cls("mu", gdp_within(positive(epsilon, name="epsilon"), positive(delta, name="delta")) ** 2)

    def part(self, share: Fraction) -> Price:
        """Return a share of it."""
        return Price(self.kind, self.amount * share)

    @property
    def norm(self) -> Norm:
        """The norm of the sensitivity that the noise needs."""
        return "l1" if self.kind == "epsilon" else "l2"

    def measure(self, bounded: Bounded, *, source: Source) -> Any:
        """Add the noise that this amount buys.

        Guarantee: `measurement_claims`, exact on the machine.
        """
        if self.kind == "epsilon":
            return laplace(bounded, epsilon=self.amount, source=source)
        return gaussian(bounded, rho=self._rho, source=source)

    def noise_scale(self, bounded: Bounded) -> Fraction:
        """Return the Laplace scale b, or the Gaussian standard deviation, of that noise."""
        if self.kind == "epsilon":
            return laplace_scale(bounded, epsilon=self.amount)
        return gaussian_scale(bounded, rho=self._rho)

    def deviation(self, bounded: Bounded) -> float:
        """Return its standard deviation."""
        scale = float(self.noise_scale(bounded))
        return scale * sqrt(2) if self.kind == "epsilon" else scale

    def mean_error(self, bounded: Bounded) -> float:
        """Return its mean absolute value: b, or σ√(2/π)."""
        scale = float(self.noise_scale(bounded))
        return scale if self.kind == "epsilon" else scale * sqrt(2 / 3.141592653589793)

    def measurement_claims(self, bounded: Bounded) -> Claims:
        """Return what `measure` costs."""
        if self.kind == "epsilon":
            return laplace_claims(bounded, epsilon=self.amount)
        return gaussian_claims(bounded, rho=self._rho)

    @property
    def spread(self) -> Fraction:
        """The range ε of the privacy loss of a selection of this amount: ε_s; ε²/8 = ρ; or the one inside GDP(mu)."""
        if self.kind == "epsilon":
            return self.amount
        if self.kind == "rho":
            return root_below(8 * self.amount)
        return 2 * pure_within_gdp(root_below(self.amount))

    def selection_claims(self, **context: Any) -> Claims:
        """Return what an exponential mechanism of this amount costs."""
        return native_claims(BoundedRange(self.spread, **context), mechanism="exponential")

    @property
    def _rho(self) -> Fraction:
        return self.amount if self.kind == "rho" else self.amount / 2


def root_below(square: Fraction) -> Fraction:
    """Return √square, rounded down."""
    return Fraction(isqrt(int(square * (1 << 2 * _ROOT_BITS))), 1 << _ROOT_BITS)


def together(parts: Sequence[tuple[int, Claims]]) -> Claims:
    """Add up the costs of parts, each with how often it runs, adaptively: what all prove, as one set of claims."""
    context: Context = parts[0][1].context
    found: list[Any] = []
    pures = [(times, pure.epsilon) for times, part in parts if (pure := part.pure()) is not None]
    rhos = [(times, zcdp.rho) for times, part in parts if (zcdp := part.zcdp()) is not None]
    mus = [(times, gdp.mu) for times, part in parts if (gdp := part.gdp()) is not None]
    if len(pures) == len(parts):
        found.append(PureDP(sum((times * epsilon for times, epsilon in pures), Fraction(0)), **context))
    else:
        if len(mus) == len(parts):
            squares = sum((times * mu**2 for times, mu in mus), Fraction(0))
            found.append(GDP.from_squares(squares, **context))
        if len(rhos) == len(parts):
            found.append(ZCDP(sum((times * rho for times, rho in rhos), Fraction(0)), **context))
    return Claims.of(*found)

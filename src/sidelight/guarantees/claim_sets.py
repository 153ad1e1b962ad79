"""A release carries a set of claims that all hold; each consumer picks the one that it can use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

from sidelight.errors import ClaimError
from sidelight.guarantees import conversions as convert
from sidelight.guarantees.amounts import Amount, positive
from sidelight.guarantees.claims import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    BoundedRange,
    Claim,
    Context,
    Profile,
    PureDP,
)
from sidelight.guarantees.neighbours import Audience, Neighbours, Numerics, Unit

_ORDER: tuple[type, ...] = (PureDP, BoundedRange, GDP, ZCDP, Profile, RDP, ApproxDP)


@dataclass(frozen=True, repr=False)
class Claims:
    """Claims that all hold of one release, with the same neighbours, unit, audience and numerics.

    >>> exponential = Claims.of(BoundedRange(1))
    >>> print(exponential.pure(), exponential.zcdp(), exponential.gdp())
    PureDP(ε = 1) ZCDP(ρ = 0.125) GDP(μ = 0.623893)
    """

    claims: tuple[Claim, ...]

    @classmethod
    def of(cls, *claims: Claim) -> Claims:
        """Gather claims; of two that differ in their amount alone the smaller stays."""
        if not claims:
            raise ClaimError("a release needs at least one claim; one that promises nothing cannot be charged")
        first = claims[0].context
        for claim in claims[1:]:
            if claim.context != first:
                raise ClaimError(
                    f"claims of one release agree on neighbours, unit, audience, numerics; got {claims[0]} and {claim}"
                )
        kept = [c for i, c in enumerate(claims) if not _superseded(c, claims, i)]
        return cls(tuple(sorted(kept, key=lambda c: (_ORDER.index(type(c)), str(c)))))

    def __iter__(self) -> Iterator[Claim]:
        return iter(self.claims)

    def __len__(self) -> int:
        return len(self.claims)

    def __str__(self) -> str:
        """Lead with the plain epsilon, or epsilon and delta, where there is one: it is what most readers know."""
        first = self.pure() or next((c for c in self.claims if isinstance(c, ApproxDP)), None)
        others = [str(c) for c in self.claims if c != first]
        return ", ".join(others if first is None else [str(first), *others])

    def __repr__(self) -> str:
        return f"Claims.of({', '.join(repr(c) for c in self.claims)})"

    # --- for whom -----------------------------------------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """For whom the claims hold."""
        return self.claims[0].context

    @property
    def neighbours(self) -> Neighbours:
        """The neighbours that every claim of the set speaks of."""
        return self.claims[0].neighbours

    @property
    def unit(self) -> Unit:
        """The protected unit of every claim of the set."""
        return self.claims[0].unit

    @property
    def audience(self) -> Audience:
        """For whom every claim of the set holds."""
        return self.claims[0].audience

    @property
    def numerics(self) -> Numerics:
        """Whether the claims hold for the released bits or for the real-number algorithm."""
        return self.claims[0].numerics

    def under(self, **context: Unpack[Context]) -> Claims:
        """Give the same amounts with another context. The caller knows that they hold there; nothing is converted."""
        return Claims.of(*(c.under(**context) for c in self.claims))

    def with_unit(self, unit: Unit) -> Claims:
        """Give the same amounts for another unit, for an aggregate that computed its sensitivity for that unit."""
        return self.under(unit=unit)

    def with_numerics(self, numerics: Numerics) -> Claims:
        """Give the same amounts with other numerics."""
        return self.under(numerics=numerics)

    def map(self, change: Callable[[Claim], Claim | None]) -> Claims:
        """Convert every claim that can be converted; a set that becomes empty is an error."""
        return Claims.of(*(new for c in self.claims if (new := change(c)) is not None))

    # --- what it gives ------------------------------------------------------------------------------------------------

    def pure(self) -> PureDP | None:
        """Give the smallest pure epsilon, None where nothing proves one."""
        found = [c.epsilon for c in self.claims if isinstance(c, PureDP | BoundedRange)]
        return PureDP(min(found), **self.context) if found else None

    def zcdp(self) -> ZCDP | None:
        """Give the smallest rho, None where nothing proves one."""
        found = [rho for c in self.claims if (rho := zcdp_of(c)) is not None]
        return ZCDP(min(found), **self.context) if found else None

    def gdp(self) -> GDP | None:
        """Give the smallest mu, None where nothing proves one."""
        found = [mu for c in self.claims if (mu := gdp_of(c)) is not None]
        return GDP(min(found), **self.context) if found else None

    def approx_at(self, delta: Amount) -> ApproxDP | None:
        """Give the smallest epsilon at a delta, None where nothing proves one."""
        at = positive(delta, name="delta")
        found = [epsilon for c in self.claims if (epsilon := epsilon_of(c, at)) is not None]
        return ApproxDP(min(found), at, **self.context) if found else None

    @property
    def items(self) -> tuple[ApproxDP, ...]:
        """The (epsilon, delta) claims of the set."""
        return tuple(c for c in self.claims if isinstance(c, ApproxDP))

    @property
    def strongest(self) -> Claim:
        """The claim to show first: pure where there is one, then Gaussian, zCDP, (epsilon, delta) and the rest."""
        first = self.pure() or self.claims[0]
        return self.items[0] if isinstance(first, Profile | RDP) and self.items else first

    def implies(self, claim: Claim) -> bool:
        """Say whether one of the claims proves another."""
        return any(c.implies(claim) for c in self.claims)

    def to_json(self) -> list[dict[str, Any]]:
        """Write the set with strings only."""
        from sidelight.guarantees.encoding import claim_to_json

        return [claim_to_json(c) for c in self.claims]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Claims:
        """Read a set back."""
        from sidelight.guarantees.encoding import claim_from_json

        return cls.of(*(claim_from_json(item) for item in data))


def zcdp_of(claim: Claim) -> Fraction | None:
    """Give the rho that one claim proves."""
    match claim:
        case PureDP():
            return convert.zcdp_from_pure(claim.epsilon)
        case BoundedRange():
            return convert.zcdp_from_bounded_range(claim.epsilon)
        case GDP():
            return convert.zcdp_from_gdp(claim.mu)
        case ZCDP():
            return claim.rho
        case Profile():
            from sidelight.guarantees.renyi_from_profile import zcdp_from_profile

            mu, rho = gdp_of(claim), zcdp_from_profile(claim.remove, claim.add)
            found = [r for r in (rho, None if mu is None else convert.zcdp_from_gdp(mu)) if r is not None]
            return min(found, default=None)
        case _:
            return None  # a finite set of orders, or one (epsilon, delta), bounds no Renyi divergence at every order


def gdp_of(claim: Claim) -> Fraction | None:
    """Give the mu that one claim proves."""
    match claim:
        case PureDP():
            return convert.gdp_from_pure(claim.epsilon)
        case BoundedRange():
            return convert.gdp_from_bounded_range(claim.epsilon)
        case GDP():
            return claim.mu
        case Profile():
            from sidelight.guarantees.domination import gdp_from_profile

            return gdp_from_profile(claim.remove, claim.add)
        case _:
            return None


def epsilon_of(claim: Claim, at: Fraction) -> Fraction | None:
    """Give the epsilon that one claim proves at a delta."""
    match claim:
        case PureDP():
            return convert.approx_epsilon(claim.epsilon, Fraction(0), at)
        case ApproxDP():
            return convert.approx_epsilon(claim.epsilon, claim.delta, at)
        case BoundedRange():
            return convert.bounded_range_epsilon(claim.epsilon, at)
        case ZCDP():
            return convert.zcdp_epsilon(claim.rho, at)
        case GDP():
            return convert.gdp_epsilon(claim.mu, at)
        case RDP():
            return claim.curve.epsilon(at)
        case Profile():
            from sidelight.guarantees.domination import epsilon_from_profile

            return epsilon_from_profile(claim.remove, claim.add, at)


def delta_of(claim: Claim, x: Fraction) -> Fraction | None:
    """Give the delta that one claim proves at an epsilon."""
    match claim:
        case PureDP():
            return convert.approx_delta(claim.epsilon, Fraction(0), x)
        case ApproxDP():
            return convert.approx_delta(claim.epsilon, claim.delta, x)
        case BoundedRange():
            return convert.bounded_range_delta(claim.epsilon, x)
        case ZCDP():
            return convert.zcdp_delta(claim.rho, x)
        case GDP():
            return convert.gdp_delta(claim.mu, x)
        case RDP():
            return claim.curve.delta(x)
        case Profile():
            return claim.delta(x)


def _superseded(claim: Claim, claims: tuple[Claim, ...], position: int) -> bool:
    for i, other in enumerate(claims):
        if i == position or type(other) is not type(claim):
            continue
        if isinstance(claim, PureDP | BoundedRange | ZCDP | GDP):
            mine, theirs = _size(claim), _size(other)
            if theirs < mine or (theirs == mine and i < position):
                return True
        elif claim == other and i < position:
            return True
    return False


def _size(claim: Claim) -> Fraction:
    match claim:
        case PureDP() | BoundedRange():
            return claim.epsilon
        case ZCDP():
            return claim.rho
        case GDP():
            return claim.mu
        case _:
            raise ClaimError(f"{claim} has no single size")

"""A release carries a set of claims that all hold; each consumer picks the one that it can use.

Which mechanism may claim what by itself is a closed list (`native_claims`), because two of these are often confused.
Permute-and-flip is pure but its loss has range 2 epsilon, not epsilon: charging it epsilon^2/8 charges too little.
Discrete Gaussian noise has the Gaussian's zCDP, but not its profile: it is not GDP (accounting proof page, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Unpack

from sidelight.errors import ClaimError, nearest
from sidelight.guarantees.amounts import Amount, positive
from sidelight.guarantees.claims import (
    GDP,
    RDP,
    ZCDP,
    ApproxDP,
    Audience,
    BoundedRange,
    Claim,
    Context,
    Neighbours,
    Numerics,
    Profile,
    PureDP,
)
from sidelight.guarantees.conversions import root_of_sum_of_squares
from sidelight.guarantees.encoding import claim_from_json, claim_to_json
from sidelight.guarantees.implications import epsilon_of, for_group, gdp_of, implies, to_replace, zcdp_of
from sidelight.guarantees.units import Event, Person, Row, Unit, rows_of_unit

_ORDER: tuple[type, ...] = (PureDP, BoundedRange, GDP, ZCDP, Profile, RDP, ApproxDP)
NATIVE: dict[str, tuple[type, ...]] = {
    "exponential": (BoundedRange, PureDP),
    "permute_and_flip": (PureDP,),
    "discrete_laplace": (PureDP,),
    "two_sided_wishart": (PureDP,),
    "rounded_gaussian": (GDP,),
    "discrete_gaussian": (ZCDP,),
    "objective_perturbation": (Profile, RDP, GDP, ApproxDP),
    "propose_test_release": (ApproxDP,),
    "truncated_laplace": (ApproxDP,),
    "gaussian_threshold": (ApproxDP,),
    "private_selection": (PureDP, ZCDP, RDP, Profile, ApproxDP),
}


@dataclass(frozen=True, repr=False)
class Claims:
    """Hold claims that are all true of one release, with the same neighbours, unit, audience and numerics.

    Args:
        claims: The claims, sorted; `Claims.of` sorts them and drops what a smaller amount of the same kind says
            already.

    >>> exponential = Claims.of(BoundedRange(1))
    >>> print(exponential.pure(), exponential.zcdp(), exponential.gdp())
    PureDP(ε = 1) ZCDP(ρ = 0.125) GDP(μ = 0.623893)
    """

    claims: tuple[Claim, ...]

    def __post_init__(self) -> None:
        if type(self.claims) is not tuple or not all(isinstance(each, Claim) for each in self.claims):
            raise ClaimError(
                f"Claims hold a tuple of claims, got {type(self.claims).__name__}; write Claims.of(PureDP(1))"
            )

    @classmethod
    def of(cls, *claims: Claim) -> Claims:
        """Return a set of claims; of two that differ in their amount alone the smaller stays."""
        for each in claims:
            if not isinstance(each, Claim):
                raise ClaimError(f"a claim is one of PureDP, ZCDP, GDP, ApproxDP, ..., got {type(each).__name__}")
        if not claims:
            raise ClaimError("a release needs at least one claim; one that promises nothing cannot be charged")
        first = claims[0].context
        for claim in claims[1:]:
            if claim.context != first:
                raise ClaimError(
                    f"claims of one release agree on neighbours, unit, audience, numerics; got {claims[0]} and {claim}"
                )
        kept = [c for i, c in enumerate(claims) if not _superseded(c, claims, i)]
        if len(kept) > 1:  # the text of a claim takes as long as all else here
            kept.sort(key=lambda c: (_ORDER.index(type(c)), str(c)))
        return cls(tuple(kept))

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
        """Return the same amounts with another context. The caller knows that they hold there; nothing is converted."""
        return Claims.of(*(c.under(**context) for c in self.claims))

    def with_unit(self, unit: Unit) -> Claims:
        """Return the same amounts for another unit, for an aggregate that computed its sensitivity for that unit."""
        return self.under(unit=unit)

    def with_numerics(self, numerics: Numerics) -> Claims:
        """Return the same amounts with other numerics."""
        return self.under(numerics=numerics)

    def map(self, change: Callable[[Claim], Claim | None]) -> Claims:
        """Convert every claim that can be converted; a set that becomes empty is an error."""
        return Claims.of(*(new for c in self.claims if (new := change(c)) is not None))

    # --- what it gives ------------------------------------------------------------------------------------------------

    def pure(self) -> PureDP | None:
        """Return the smallest pure epsilon, None where nothing proves one."""
        found = [c.epsilon for c in self.claims if isinstance(c, (PureDP, BoundedRange))]
        return PureDP(min(found), **self.context) if found else None

    def zcdp(self) -> ZCDP | None:
        """Return the smallest rho, None where nothing proves one."""
        found = [rho for c in self.claims if (rho := zcdp_of(c)) is not None]
        return ZCDP(min(found), **self.context) if found else None

    def gdp(self) -> GDP | None:
        """Return the smallest mu, None where nothing proves one."""
        found = [mu for c in self.claims if (mu := gdp_of(c)) is not None]
        return GDP(min(found), **self.context) if found else None

    def approx_at(self, delta: Amount) -> ApproxDP | None:
        """Return the smallest epsilon at a delta, None where nothing proves one."""
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
        """Return whether one of the claims proves another."""
        return any(implies(c, claim) for c in self.claims)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the set as JSON values, with strings only."""
        return [claim_to_json(c) for c in self.claims]

    @classmethod
    def from_json(cls, data: list[dict[str, Any]]) -> Claims:
        """Return the set that `to_json` wrote."""
        return cls.of(*(claim_from_json(item) for item in data))


def native_claims(*claims: Claim, mechanism: str) -> Claims:
    """Gather what a mechanism claims by itself, and refuse what its proof does not give.

    >>> print(native_claims(BoundedRange(1), mechanism="exponential"))
    PureDP(ε = 1), BoundedRange(ε = 1)
    """
    if mechanism not in NATIVE:
        raise ClaimError(f"no native claims are known for {mechanism!r}; {nearest(mechanism, NATIVE)}")
    for claim in claims:
        if not isinstance(claim, NATIVE[mechanism]):
            allowed = ", ".join(kind.__name__ for kind in NATIVE[mechanism])
            raise ClaimError(f"{mechanism} proves {allowed}; nothing proves {claim} for it")
    return Claims.of(*claims)


def claims_to_replace(claims: Claims) -> Claims:
    """Convert every claim of a set by `to_replace`; a profile also by the GDP and the zCDP that it proves."""
    found = [new for claim in claims if (new := to_replace(claim)) is not None]
    for claim in claims:
        if isinstance(claim, Profile) and claim.neighbours is Neighbours.ADD_REMOVE:
            context: Context = {**claim.context, "neighbours": Neighbours.REPLACE}
            mu, rho = gdp_of(claim), zcdp_of(claim)
            found += [] if mu is None else [GDP(2 * mu, **context)]
            found += [] if rho is None else [ZCDP(4 * rho, **context)]
    return Claims.of(*found)


def claims_like(claims: Claims, budget: Claim) -> Claims | None:
    """Convert claims to the neighbours of a budget; None where nothing proves them for these.

    Adding or removing becomes replacing by two steps. Claims for every replacement hold for those that keep
    published totals. Claims given other totals are about other pairs.
    """
    wanted, kept = budget.neighbours, budget.kept
    if claims.neighbours is wanted and claims.context["kept"] == kept:
        return claims
    if wanted not in (Neighbours.REPLACE, Neighbours.KEPT):
        return None
    if claims.neighbours is Neighbours.ADD_REMOVE:
        claims = claims_to_replace(claims)
    return claims.under(neighbours=wanted, kept=kept) if claims.neighbours is Neighbours.REPLACE else None


def for_person(claims: Claims, person: Person) -> Claims:
    """Convert claims for one row into claims for a person with at most `max_rows` rows, for a black box.

    The cap must be enforced by the engine that reads the rows, or the claim does not hold.
    """
    if claims.unit != Row():
        raise ClaimError(f"group privacy starts from claims for one row, got unit {claims.unit}")
    return claims.map(lambda claim: for_group(claim, person.max_rows)).with_unit(person)


def for_unit(claims: Claims, unit: Unit) -> Claims:
    """Convert claims for one row into claims for a unit whose number of rows is known; any other raises."""
    return for_person(claims, unit) if isinstance(unit, Person) else _of_one_row(claims, unit)


def _of_one_row(claims: Claims, unit: Unit) -> Claims:
    if rows_of_unit(unit) != 1:
        raise ClaimError(f"claims for one row say nothing about the unit {unit}")
    return claims.with_unit(unit)


def per_person(claims: Claims, *, column: str = "person", max_rounds_per_person: int | None = None) -> Claims:
    """Convert event-level claims into claims for a person who takes part in a number of rounds: composition.

    >>> print(per_person(Claims.of(GDP(1, unit=Event())), max_rounds_per_person=4))
    GDP(μ = 2; unit: person (person, at most 4 rows))
    """
    if claims.unit != Event():
        raise ClaimError(f"only event-level claims are added up over rounds, got unit {claims.unit}")
    if max_rounds_per_person is None:
        raise ClaimError("an event-level claim says nothing about a person without max_rounds_per_person; declare it")
    k = max_rounds_per_person
    person = Person(column, k)

    def composed(claim: Claim) -> Claim | None:
        context = claim.context
        match claim:
            case PureDP() | BoundedRange():
                return PureDP(k * claim.epsilon, **context)
            case ZCDP():
                return ZCDP(k * claim.rho, **context)
            case GDP():
                return GDP(root_of_sum_of_squares(k * claim.mu * claim.mu), **context)
            case ApproxDP():
                return ApproxDP(k * claim.epsilon, k * claim.delta, **context) if k * claim.delta < 1 else None
            case RDP():
                return RDP(claim.curve.scaled(k), **context)
            case Profile():
                mu = gdp_of(claim)
                return None if mu is None else GDP(root_of_sum_of_squares(k * mu * mu), **context)

    return claims.map(composed).with_unit(person)


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

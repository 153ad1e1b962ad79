"""What one claim proves in the terms of another kind: rho, mu, delta at an epsilon, Renyi divergence."""

from __future__ import annotations

from fractions import Fraction

from sidelight.guarantees import conversions as convert
from sidelight.guarantees.claims import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Profile, PureDP


def zcdp_of(claim: Claim) -> Fraction | None:
    """Return the rho that one claim proves."""
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
    """Return the mu that one claim proves."""
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
    """Return the epsilon that one claim proves at a delta."""
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
    """Return the delta that one claim proves at an epsilon."""
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


def renyi_of(claim: Claim, order: Fraction) -> Fraction | None:
    """Return the Renyi divergence of one order that a claim proves."""
    match claim:
        case PureDP():
            return convert.renyi_pure(claim.epsilon, order)
        case BoundedRange():
            return min(claim.epsilon * claim.epsilon / 8 * order, convert.renyi_pure(claim.epsilon, order))
        case RDP():
            return claim.curve.at(order)
        case _:
            rho = zcdp_of(claim)
            return None if rho is None else rho * order

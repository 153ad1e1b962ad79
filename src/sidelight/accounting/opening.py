"""What may be a budget, the routes that it has, and how its delta is split between them: checked when it is opened."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from sidelight.accounting.charges import DECIMALS, Route
from sidelight.errors import ClaimError, RangeError, SidelightWarning, nearest
from sidelight.guarantees import GDP, ZCDP, Amount, ApproxDP, Claim, PureDP, decimal_text, decimals_of, exact

Budget: TypeAlias = PureDP | ZCDP | GDP | ApproxDP
Share: TypeAlias = Literal["items", "gdp", "zcdp"]
ROUTES: tuple[Route, ...] = ("basic", "gdp", "zcdp")
_DEFAULT_POOL = Fraction(2, 5)


def check_budget(budget: Claim) -> None:
    """Refuse what is no budget, and warn of one that protects little."""
    if not isinstance(budget, PureDP | ZCDP | GDP | ApproxDP):
        raise ClaimError(f"a budget is PureDP, ApproxDP, ZCDP or GDP, got {type(budget).__name__}")
    if budget.audience != "everyone":
        raise ClaimError("a budget holds for everyone, not for observers only")
    for name in ("epsilon", "delta", "rho", "mu"):
        amount = getattr(budget, name, None)
        if amount is None:
            continue
        places = decimals_of(amount)
        if places is None or places > DECIMALS:
            raise RangeError(f"{name} of a budget has at most {DECIMALS} decimals, got {decimal_text(amount)}")
    epsilon, delta = getattr(budget, "epsilon", Fraction(0)), getattr(budget, "delta", Fraction(0))
    if epsilon > 10:
        warnings.warn(
            f"a budget of epsilon {float(epsilon):g} protects little; below 10 is usual", SidelightWarning, stacklevel=3
        )
    if delta >= Fraction(1, 1000):
        warnings.warn(
            f"delta {float(delta):g} lets whole records out; below 1e-3 is usual", SidelightWarning, stacklevel=3
        )


def routes_of_budget(budget: Budget, routes: Sequence[Route] | None) -> tuple[Route, ...]:
    """Return the routes of a budget: those named, or all that it has."""
    only: dict[type, Route] = {PureDP: "basic", ZCDP: "zcdp", GDP: "gdp"}
    if type(budget) in only:
        route = only[type(budget)]
        if routes is not None and tuple(routes) != (route,):
            raise ClaimError(f"a budget of {budget} has the one route {route!r}, got {', '.join(routes)}")
        return (route,)
    if routes is None:
        return ROUTES
    for route in routes:
        if route not in ROUTES:
            raise ClaimError(f"unknown route {route!r}; {nearest(route, ROUTES)}")
    if not routes or len(set(routes)) != len(routes):
        raise ClaimError("routes must be named once each, at least one")
    return tuple(r for r in ROUTES if r in routes)


def shares_of_delta(
    budget: Budget, routes: tuple[Route, ...], shares: Mapping[Share, Amount] | None
) -> tuple[tuple[Share, Fraction], ...]:
    """Return the share of delta of the items and of each route that needs one."""
    if not isinstance(budget, ApproxDP):
        if shares:
            raise ClaimError(f"a budget of {budget} has no delta to share")
        return ()
    paying: list[Share] = [r for r in ("gdp", "zcdp") if r in routes]
    if shares is None:
        if not paying:
            return (("items", Fraction(1)),)
        if len(routes) == 1:
            return ((paying[0], Fraction(1)),)
        rest = (1 - _DEFAULT_POOL) / len(paying)
        return (("items", _DEFAULT_POOL), *((name, rest) for name in paying))
    known: tuple[Share, ...] = ("items", "gdp", "zcdp")
    for name in shares:
        if name not in known or (name != "items" and name not in paying):
            raise ClaimError(f"a share of delta for {name!r}, which is not a route here; {nearest(name, known)}")
    split = tuple((name, exact(shares[name], name=f"share of {name}")) for name in known if name in shares)
    if sum(share for _, share in split) > 1:
        raise RangeError("the shares of delta add up to more than 1: the best of two filters costs both shares")
    return split

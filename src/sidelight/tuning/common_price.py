"""One price for candidates that differ in what they tune: the curves of the dearest, point by point.

Two penalties of a model with the same (epsilon, delta) have different profiles. A selection is priced by what holds for
every candidate: the larger profile at every point, and the larger divergence at every order (tuning proof page,
Theorem 2: one run, with its choice of a candidate by chance, is a mixture, and profiles of mixtures are at most the
largest).
"""

from __future__ import annotations

from collections.abc import Sequence

from sidelight.errors import ClaimError
from sidelight.guarantees import RDP, Claim, Claims, Profile, RenyiOrders
from sidelight.guarantees.derived_curves import MostCurve


def common_price(claims: Sequence[Claims]) -> Claims:
    """Return claims that hold for every candidate; declared amounts must be the same, curves may differ.

    Raises:
        ClaimError: candidates with different budgets, or for different neighbours or units.
    """
    first = claims[0]
    if all(each == first for each in claims):
        return first
    for place, each in enumerate(claims):
        if each.context != first.context or _amounts(each) != _amounts(first) or _kinds(each) != _kinds(first):
            raise ClaimError(
                f"all candidates of a search have the same claims: the first has {first}, candidate {place} has "
                f"{each}; give them the same budget"
            )
    found: list[Claim] = list(_amounts(first))
    profiles = [claim for each in claims for claim in each if isinstance(claim, Profile)]
    if profiles:
        remove = MostCurve(tuple(dict.fromkeys(p.remove for p in profiles)))
        add = MostCurve(tuple(dict.fromkeys(p.add for p in profiles)))
        found.append(Profile(remove, add, **first.context))
    curves = [claim.curve for each in claims for claim in each if isinstance(claim, RDP)]
    if curves:
        orders = [order for order, _ in curves[0].points]
        values = {a: [curve.at(a) for curve in curves] for a in orders}
        known = {a: max(v for v in each if v is not None) for a, each in values.items() if None not in each}
        found += [RDP(RenyiOrders.of(dict(known)), **first.context)] if known else []
    return Claims.of(*found)


def _amounts(claims: Claims) -> tuple[Claim, ...]:
    return tuple(claim for claim in claims if not isinstance(claim, Profile | RDP))


def _kinds(claims: Claims) -> list[str]:
    return [type(claim).__name__ for claim in claims]

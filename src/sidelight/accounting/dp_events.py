"""Our releases in the words of dp_accounting, so that other tools can compose them. That library is imported lazily.

Always exported as add-or-remove events with our own scaling: its accountants do not agree on what replace means (a
Gaussian of noise 2 at delta 1e-6 is 4.8866 for one and 2.4191 for another). A generic pure mechanism is never exported
as a Laplace event: the Laplace profile is smaller.
"""

from __future__ import annotations

import math
from typing import Any

from sidelight.accounting.profiles import distribution
from sidelight.errors import ClaimError, RangeError
from sidelight.guarantees import (
    GDP,
    ZCDP,
    ApproxCurve,
    ApproxDP,
    BoundedRange,
    BoundedRangeCurve,
    Claim,
    Claims,
    HingedGaussianCurve,
    Neighbours,
    Profile,
    ProfileCurve,
    PureDP,
    ZCDPCurve,
)


def to_dp_event(claims: Claims | Claim, *, discrete_laplace: tuple[float, int] | None = None) -> Any:
    """Return the dp_accounting event of a release.

    Gaussian claims become `GaussianDpEvent`, bounded range and zCDP `ZCDpEvent`, generic pure ones
    `RandomizedResponseDpEvent`; what that library has no event for becomes `UnsupportedDpEvent` (use `to_pld`).
    `discrete_laplace=(parameter, sensitivity)` names that mechanism, which has an event of its own.
    """
    from dp_accounting import dp_event

    claims = _add_remove(claims)
    if discrete_laplace is not None:
        parameter, sensitivity = discrete_laplace
        return dp_event.DiscreteLaplaceDpEvent(noise_parameter=parameter, sensitivity=sensitivity)
    found = {type(c): c for c in claims}
    if GDP in found:
        mu = found[GDP].mu  # type: ignore[union-attr]
        return dp_event.GaussianDpEvent(math.nextafter(float(1 / mu), 0.0))
    if BoundedRange in found or (ZCDP in found and PureDP not in found):
        rho = claims.zcdp()
        assert rho is not None
        return dp_event.ZCDpEvent(math.nextafter(float(rho.rho), math.inf))
    if PureDP in found:
        epsilon = float(found[PureDP].epsilon)  # type: ignore[union-attr]
        flip = 2 / (1 + math.exp(epsilon)) if epsilon < 700 else 0.0
        if flip <= 0:
            raise RangeError(f"epsilon {epsilon:g} is too large for an event of randomised response")
        return dp_event.RandomizedResponseDpEvent(math.nextafter(flip, 0.0), 2)
    return dp_event.UnsupportedDpEvent()


def to_pld(claims: Claims | Claim, *, step: float = 1e-4) -> Any:
    """Return the dp_accounting privacy loss distribution of a release, pessimistic, both directions."""
    claims = _add_remove(claims)
    for kind in (GDP, Profile, BoundedRange, PureDP, ZCDP, ApproxDP):
        for claim in claims:
            if isinstance(claim, kind):
                remove, add = _curves(claim)
                return distribution(Profile(remove, add), step=step)
    raise ClaimError(f"{claims} has no privacy profile; compose its Renyi curve instead")


def _curves(claim: Claim) -> tuple[ProfileCurve, ProfileCurve]:
    match claim:
        case GDP():
            curve: ProfileCurve = HingedGaussianCurve(claim.mu)
        case BoundedRange():
            curve = BoundedRangeCurve(claim.epsilon)
        case PureDP():
            curve = ApproxCurve(claim.epsilon)
        case ApproxDP():
            curve = ApproxCurve(claim.epsilon, claim.delta)
        case ZCDP():
            curve = ZCDPCurve(claim.rho)
        case Profile():
            return claim.remove, claim.add
        case _:
            raise ClaimError(f"{claim} has no privacy profile")
    return curve, curve


def _add_remove(claims: Claims | Claim) -> Claims:
    gathered = claims if isinstance(claims, Claims) else Claims.of(claims)
    if gathered.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(
            f"events are exported for add-or-remove claims, got '{gathered.neighbours}': "
            "dp_accounting's accountants do not agree on the meaning of replace"
        )
    return gathered

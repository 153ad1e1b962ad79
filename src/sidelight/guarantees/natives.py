"""Which mechanism may claim what by itself: a closed list, because two of these are often confused.

Permute-and-flip is pure but its loss has range 2 epsilon, not epsilon: charging it epsilon^2/8 charges too little.
Discrete Gaussian noise has the Gaussian's zCDP, but not its profile: it is not GDP (accounting proof page, section 2).
"""

from __future__ import annotations

from sidelight.errors import ClaimError, nearest
from sidelight.guarantees.claim_sets import Claims
from sidelight.guarantees.claims import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Profile, PureDP

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

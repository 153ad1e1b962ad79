"""What is promised: exact amounts, neighbours and units, claims, their order and their conversions."""

from sidelight.guarantees.amounts import Amount, decimal_text, decimals_of, exact, positive, short_text
from sidelight.guarantees.claim_sets import Claims, claims_to_replace, for_person, per_person
from sidelight.guarantees.claims import GDP, RDP, ZCDP, ApproxDP, BoundedRange, Claim, Context, Profile, PureDP
from sidelight.guarantees.curves import (
    ApproxCurve,
    BoundedRangeCurve,
    DiscreteLaplaceCurve,
    HingedGaussianCurve,
    ProfileCurve,
    RenyiOrders,
    ZCDPCurve,
)
from sidelight.guarantees.encoding import claim_from_json, claim_to_json, parse_claim
from sidelight.guarantees.envelope_curve import EnvelopeCurve
from sidelight.guarantees.groups import for_group, to_replace
from sidelight.guarantees.natives import native_claims
from sidelight.guarantees.neighbours import (
    Audience,
    Event,
    Neighbours,
    Numerics,
    Person,
    Row,
    Unit,
    unit_from_text,
    unit_to_text,
)
from sidelight.guarantees.order import implies
from sidelight.guarantees.perturbation_curves import HalfNormalCurve, HingedGaussiansCurve
from sidelight.guarantees.selected_curve import SelectedCurve

__all__ = [
    "GDP",
    "RDP",
    "ZCDP",
    "Amount",
    "ApproxCurve",
    "ApproxDP",
    "Audience",
    "BoundedRange",
    "BoundedRangeCurve",
    "Claim",
    "Claims",
    "Context",
    "DiscreteLaplaceCurve",
    "EnvelopeCurve",
    "Event",
    "HalfNormalCurve",
    "HingedGaussianCurve",
    "HingedGaussiansCurve",
    "Neighbours",
    "Numerics",
    "Person",
    "Profile",
    "ProfileCurve",
    "PureDP",
    "RenyiOrders",
    "Row",
    "SelectedCurve",
    "Unit",
    "ZCDPCurve",
    "claim_from_json",
    "claim_to_json",
    "claims_to_replace",
    "decimal_text",
    "decimals_of",
    "exact",
    "for_group",
    "for_person",
    "implies",
    "native_claims",
    "parse_claim",
    "per_person",
    "positive",
    "short_text",
    "to_replace",
    "unit_from_text",
    "unit_to_text",
]

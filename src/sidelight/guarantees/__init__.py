"""What is promised: exact amounts, neighbours and units, claims, their order and their conversions."""

from sidelight.guarantees.amounts import Amount, decimal_text, decimals_of, exact, positive, short_text
from sidelight.guarantees.claim_sets import Claims, claims_to_replace, for_person, for_unit, native_claims, per_person
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
from sidelight.guarantees.curves import (
    ApproxCurve,
    BoundedRangeCurve,
    DiscreteLaplaceCurve,
    HingedGaussianCurve,
    ProfileCurve,
    RenyiOrders,
    ZCDPCurve,
)
from sidelight.guarantees.derived_curves import HalfNormalCurve, HingedGaussiansCurve, SelectedCurve
from sidelight.guarantees.encoding import claim_from_json, claim_to_json, parse_claim
from sidelight.guarantees.envelope_curve import EnvelopeCurve
from sidelight.guarantees.implications import for_group, implies, to_replace
from sidelight.guarantees.units import Event, Person, PersonOf, Row, Unit, rows_of_unit, unit_from_text, unit_to_text

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
    "PersonOf",
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
    "for_unit",
    "implies",
    "native_claims",
    "parse_claim",
    "per_person",
    "positive",
    "rows_of_unit",
    "short_text",
    "to_replace",
    "unit_from_text",
    "unit_to_text",
]

"""`[pricing]` of a plan: each query by itself, or all of them together at one delta."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from sidelight.accounting import price_batch
from sidelight.errors import ClaimError
from sidelight.guarantees import ApproxDP, Claim, Claims, decimal_text, short_text
from sidelight.plans.forms import AMOUNT, choice
from sidelight.plans.section import Section
from sidelight.plans.sources import keys_of

PRICING = keys_of(queries=choice("each", "together"), delta=AMOUNT)


def together_at(section: Section, *, budget: Claim, claims: Sequence[Claims]) -> int | Decimal | str | None:
    """Return the delta at which queries with these claims are priced together; None where each has its own price."""
    pricing = PRICING.read_values(section)
    if pricing.get("queries", "each") == "each":
        if "delta" in pricing:
            section.refuse('delta is for queries = "together"; leave it out, or price them together', key="delta")
        return None
    if "delta" in pricing:
        delta: int | Decimal | str = pricing["delta"]
        return delta
    if not isinstance(budget, ApproxDP):
        section.refuse('queries = "together" prices them at a delta, and this budget has none to choose from; name one')
    with section.naming():
        return _fitting_delta(budget, claims)


def _fitting_delta(budget: ApproxDP, claims: Sequence[Claims]) -> str:
    """Return the delta at which a batch takes the smallest share of the scarcer of the budget's epsilon and delta.

    It is one of a few round parts of the budget's delta, found without the data and without the ledger: the same plan
    is always priced at the same delta.
    """
    shares: dict[Fraction, Fraction] = {}
    for part in (2, 4, 10, 100):
        delta = budget.delta / part
        found = price_batch(claims, delta=delta).claims.approx_at(delta)
        if found is not None:
            shares[delta] = max(found.epsilon / budget.epsilon, Fraction(1, part))
    if not shares:
        raise ClaimError(
            f"no part of the budget's delta {short_text(budget.delta)} gives these queries a price together"
        )
    return decimal_text(min(shares, key=lambda delta: shares[delta]))

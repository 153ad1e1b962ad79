"""`[pricing]` of a plan: whether its queries are priced each by itself or together, and at which delta."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sidelight.accounting import price_batch
from sidelight.errors import ClaimError
from sidelight.guarantees import ApproxDP, Claim, Claims, decimal_text, short_text
from sidelight.plan_section import Amount, Section


def together_at(pricing: Section, *, budget: Claim, claims: Sequence[Claims]) -> Amount | None:
    """Return the delta at which queries with these claims are priced together; None where each has its own price."""
    if pricing.choice("queries", ["each", "together"], "each") == "each":
        if "delta" in pricing:
            pricing.refuse('delta is for queries = "together"; leave it out, or price them together', key="delta")
        return None
    if "delta" in pricing:
        delta: Amount = pricing.amount("delta")
        return delta
    if not isinstance(budget, ApproxDP):
        pricing.refuse('queries = "together" prices them at a delta, and this budget has none to choose from; name one')
    with pricing.naming():
        return _fitting_delta(budget, claims)


def _fitting_delta(budget: ApproxDP, claims: Sequence[Claims]) -> Amount:
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

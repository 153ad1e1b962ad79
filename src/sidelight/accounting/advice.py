"""What to write for the next budget: whether one that names its routes would have granted what was refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from sidelight.accounting.charges import Charge, Totals
from sidelight.accounting.filters import Rule
from sidelight.accounting.opening import ROUTES
from sidelight.errors import ClaimError, SidelightWarning
from sidelight.guarantees import Claims


def granted_with_routes(rule: Rule, earlier: Iterable[Claims], *asked: Claims) -> bool:
    """Return whether the same budget with all routes named from the start would grant a history and then a request.

    Args:
        rule: The rule that refused. Where it names routes itself, the answer is no: there is nothing else to write.
        earlier: What was charged so far, in order, failed entries included.
        asked: What was refused.
    """
    if not rule.sum_first:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SidelightWarning)  # whoever opened the budget was warned of its size
        other = Rule.for_budget(rule.budget, routes=ROUTES)
    priced: dict[Claims, Charge] = {}  # most histories ask the same again and again
    totals = Totals.zero()
    try:
        for claims in (*earlier, *asked):
            charge = priced[claims] if claims in priced else priced.setdefault(claims, other.charge(claims))
            totals = totals.plus(charge)
    except ClaimError:
        return False
    return other.holds(totals)  # totals only grow: if they hold at the end, they held all along


def advice_on_routes() -> str:
    """Return the words to write when the next budget is opened, in Python and in a plan file."""
    python = ", ".join(f"'{route}'" for route in ROUTES)
    plan = ", ".join(f'"{route}"' for route in ROUTES)
    return (
        "A budget of this size that named its routes when it was opened would have granted it after the same history: "
        f"write routes=[{python}] beside budget=, in a plan routes = [{plan}] under [budget]. The rule of this one is "
        "fixed for good; it is for the next data set"
    )

"""Totals that are published once under a budget.

Totals that a law has published exactly are computed once, and repeated afterwards: computed again from
rows that were corrected meanwhile they would publish the difference, which is that of a few people (hierarchies proof
page, "A scope with exact totals").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from sidelight.accounting import related
from sidelight.errors import ClaimError, InProgressError
from sidelight.guarantees import Claims, Neighbours, claims_like
from sidelight.ledger import Reservation, Scope
from sidelight.ledger.scope import KeyOptions
from sidelight.release import Outcome, Release, outcome_from_json
from sidelight.session.accounts import PAGE, ChargeAccount, InProcessAccount, UnrecordedReservation
from sidelight.session.query import Prepared

_RUNS = (
    "another release with exact totals has begun under this budget and has no outcome yet, and both must publish the "
    "same numbers; wait for it, or mark it as abandoned if its process died (`sidelight ledger reap`)"
)


def check_totals(prepared: Sequence[Prepared]) -> None:
    """Refuse claims given exact totals of a query that could not repeat what an earlier one published."""
    for each in prepared:
        if each.claims.neighbours is Neighbours.KEPT and not each.publishes_totals:
            raise ClaimError(
                f"{each.request['kind']} makes claims about '{related(each.claims)}' and publishes no totals of its "
                "own; ask for a Count with invariants by itself. Nothing was charged"
            )


def first_totals(
    account: ChargeAccount,
    reservation: Reservation | UnrecordedReservation | None = None,
    *,
    asked: KeyOptions | None = None,
) -> Release | None:
    """Return the release that first published exact totals under an account; None if there is none.

    Args:
        account: Whose releases must agree.
        reservation: The charge that was made for it: later ones do not count, they look for this one.
        asked: How the charge will be made: it may give up an unfinished attempt with its key, and what a key has
            bought before is returned, whatever else is under way.

    Raises:
        InProgressError: an earlier one has no outcome yet. With a reservation its charge stands.
    """
    if isinstance(account, InProcessAccount):
        return account.totals
    if not isinstance(account, Scope):
        return None
    after = None
    while page := account.page(limit=PAGE, after=after):
        for entry in page:
            after = entry.entry_id
            if reservation is not None and entry.entry_id == reservation.entry_id:
                return None
            if not publishes(entry.request) or entry.state in ("failed", "refused"):
                continue
            if entry.state == "reserved":
                key, resume = (asked or {}).get("key"), (asked or {}).get("resume", False)
                if key is not None and ((resume and entry.key == key) or _is_bought(account, key)):
                    continue
                if reservation is not None:
                    reservation.fail()
                raise InProgressError(_RUNS)
            return _published(str(entry.text))
    return None


def _is_bought(account: Scope, key: str) -> bool:
    """Return whether a key has an outcome that the ledger returns for nothing: no totals are computed for it."""
    entry = account.entry_of(key)
    return entry is not None and entry.state in ("released", "refused")


def totals_in_turn(account: ChargeAccount) -> AbstractContextManager[object]:
    """Return what keeps threads of this process from computing exact totals side by side; a ledger has its order."""
    return account.one_at_a_time if isinstance(account, InProcessAccount) else nullcontext()


def remember_totals(account: ChargeAccount, outcomes: Sequence[Outcome]) -> None:
    """Keep the first release of exact totals where there is no ledger that does."""
    if isinstance(account, InProcessAccount) and account.totals is None:
        account.totals = next((each for each in outcomes if isinstance(each, Release)), None)


def claims_beside(claims: Sequence[Claims], account: ChargeAccount) -> list[Claims]:
    """Return the claims of a batch; under a budget with exact totals, for the neighbours that keep these."""
    budget = account.rule.budget if isinstance(account, (InProcessAccount, Scope)) else None
    if budget is None or budget.neighbours is not Neighbours.KEPT:
        return list(claims)
    return [claims_like(each, budget) or each for each in claims]


def publishes(request: Mapping[str, Any]) -> bool:
    """Return whether a recorded request, or one of its batch, has exact totals."""
    queries = request.get("queries")
    several = queries if isinstance(queries, list) else []
    return "invariants" in request or any(isinstance(each, Mapping) and publishes(each) for each in several)


def _published(text: str) -> Release:
    found = json.loads(text)
    outcomes = [outcome_from_json(each) for each in found] if isinstance(found, list) else [outcome_from_json(text)]
    return next(each for each in outcomes if isinstance(each, Release) and publishes(each.query))

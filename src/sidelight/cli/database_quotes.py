"""What `sidelight plan` says of a database: which tables a query reads, and what it costs the periods of a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from sidelight.accounting import Charge, Rule, Totals, find_spent
from sidelight.cli.terminal import routes_of
from sidelight.guarantees import Claims, Row, short_text
from sidelight.ledger.balances import Balances
from sidelight.ledger.definition import Share
from sidelight.plans import Plan, PlannedQuery
from sidelight.records.fold_text import fold_text
from sidelight.session.periods import PeriodCharge
from sidelight.session.restated_claims import period_charge


class QuotedPeriods:
    """The accounts of a plan's periods as they stand in its ledger, and as they would after each charge."""

    def __init__(self, plan: Plan, balances: Balances) -> None:
        rule = None if plan.window_budget is None else Rule.for_budget(plan.window_budget, routes=plan.routes)
        self.rule = None if rule is None else replace(rule, sum_first=False)
        self.before = self.after = balances
        self._name = f"{plan.scope}:periods"

    def charge(self, planned: Iterable[PlannedQuery], price: Claims) -> PeriodCharge | None:
        """Return what queries on one view cost the periods."""
        return period_charge([each.prepared for each in planned], price)

    def grants(self, charge: PeriodCharge | None) -> bool:
        """Return whether all periods would grant a charge."""
        return charge is None or (self.rule is not None and self.after.fits(self.rule, self._shares(charge)))

    def short(self, charge: PeriodCharge) -> tuple[Rule, Totals, Charge]:
        """Return the rule that does not grant a charge, what stands charged by it, and by how much it would rise."""
        assert self.rule is not None
        return self.rule, self.after.totals(), self.after.increase(self._shares(charge))

    def book(self, charge: PeriodCharge | None) -> None:
        """Add a charge that would be granted."""
        self.after = self.after if charge is None else self.after.plus(self._shares(charge))

    def _shares(self, charge: PeriodCharge) -> list[Share]:
        assert self.rule is not None
        amount = self.rule.charges(charge.claims)[0]
        parts = [None] if charge.periods is None else [f"{self._name}:{each}" for each in charge.periods]
        return [Share(scope_id=self._name, part=part, claims=charge.claims, charge=amount) for part in parts]

    def sentences(self) -> Iterator[str]:
        """Return what the dearest period has spent after the plan, and what is promised of one, in sentences."""
        if self.rule is not None:
            for name, route in routes_of(find_spent(self.rule, self.after.totals())):
                spent, of = short_text(route.total), short_text(route.capacity)
                yield f"After this plan the dearest period has spent, by {name}: {spent} of {of}."
            yield f"What is promised of a period: {self.rule.statement()}"


def charged_to_periods(charge: PeriodCharge | None) -> str | None:
    """Return what a charge costs the periods of a window, in words; None where it costs none."""
    if charge is None:
        return None
    names = charge.periods or ()
    which = "every period" if not names else names[0] if len(names) == 1 else f"each of {names[0]} to {names[-1]}"
    return f"{amount(charge.claims)} to {which}"


def amount(claims: Claims) -> str:
    """Return the strongest claim without its unit, for sentences that name whom it protects."""
    return str(claims.with_unit(Row()).strongest)


def reads(planned: PlannedQuery) -> dict[str, Any] | None:
    """Return what a query of a database reads: base, lookups, folds, and how many rows a person count; else None."""
    view = planned.of
    if view is None:
        return None
    most = 1 if view.grouped else view.max_rows
    described = view.to_json()
    caps = [each.groups.cap for each in (planned.fitted, *getattr(planned.fitted, "parts", ())) if _is_grouped(each)]
    kept = [min(cap.rows, (cap.groups or cap.rows) * (cap.per_group or cap.rows)) for cap in caps]
    return {
        "base": view.base,
        "rows_a_person": most,
        "counted_a_person": min(most, max(kept, default=most)),
        "lookups": [*described.get("lookups", {}).values()],
        "folds": {name: fold_text(fold) for name, fold in getattr(view, "features", {}).items()},
    }


def _is_grouped(prepared: Any) -> bool:
    return hasattr(getattr(prepared, "groups", None), "cap") and getattr(prepared.groups, "schema", None) is not None


def reading_sentence(title: str, found: dict[str, Any]) -> str:
    """Return what `reads` found as a sentence."""
    rows = "one row a person" if found["rows_a_person"] == 1 else f"at most {found['rows_a_person']} rows a person"
    said = [f"{title!r} reads {found['base']}, {rows}, of which K = {found['counted_a_person']} count"]
    said += [f"looks up {', '.join(found['lookups'])}"] if found["lookups"] else []
    said += (
        [f"folds {', '.join(f'{name} = {text}' for name, text in found['folds'].items())}"] if found["folds"] else []
    )
    return "; ".join(said) + "."

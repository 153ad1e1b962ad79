"""What accounts next to a plan's own would grant: those of periods, and that of people of several data sets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from sidelight.accounting import Charge, Rule, Totals, find_remaining, find_spent
from sidelight.cli.terminal import routes_of
from sidelight.errors import LedgerError
from sidelight.guarantees import Amount, Claims, Numerics, PersonOf, short_text, worst_numerics
from sidelight.ledger import open_ledger
from sidelight.ledger.balances import Balances
from sidelight.ledger.definition import Share
from sidelight.plans import Plan, PlannedQuery
from sidelight.session.persons_and_periods import PeriodCharge, period_charge

_EXACT: Numerics = "exact"


def _account_of_periods(plan: Plan) -> tuple[Balances, Numerics]:
    """Return what the periods of a plan's window are charged, without making a ledger or a scope."""
    if plan.window_budget is None or plan.ledger is None or is_not_there(plan.ledger):
        return Balances(), _EXACT
    with open_ledger(plan.ledger, create=False) as ledger:
        found = (scope for scope in ledger.scopes() if scope.scope_id == f"{plan.scope}:periods")
        return next(((scope.balances(), scope.numerics()) for scope in found), (Balances(), _EXACT))


def is_not_there(url: str) -> bool:
    """Return whether a URL names a file of a ledger that does not exist yet."""
    prefix = "sqlite:///"
    return url.startswith(prefix) and not Path(url.removeprefix(prefix)).exists()


class QuotedPeriods:
    """The accounts of a plan's periods as they stand in its ledger, and as they would after each charge."""

    def __init__(self, plan: Plan) -> None:
        rule = None if plan.window_budget is None else Rule.for_budget(plan.window_budget, routes=plan.routes)
        self.rule = None if rule is None else replace(rule, sum_first=False)
        self.before, self._numerics = _account_of_periods(plan)
        self.after = self.before
        self._name = f"{plan.scope}:periods"

    def charge(
        self, planned: Iterable[PlannedQuery], price: Claims, *, delta: Amount | None = None
    ) -> PeriodCharge | None:
        """Return what queries on one view cost the periods; several are priced together at `delta`."""
        return period_charge([each.prepared for each in planned], price, delta=delta)

    def grants(self, charge: PeriodCharge | None) -> bool:
        """Return whether all periods would grant a charge."""
        return charge is None or (self.rule is not None and self.after.fits(self.rule, self._shares(charge)))

    def short(self, charge: PeriodCharge) -> tuple[Rule, Totals, Charge]:
        """Return the rule that does not grant a charge, what stands charged by it, and by how much it would rise."""
        assert self.rule is not None
        return self.rule, self.after.totals(), self.after.increase(self._shares(charge))

    def book(self, charge: PeriodCharge | None) -> None:
        """Add a charge that would be granted."""
        if charge is not None:
            self.after = self.after.plus(self._shares(charge))
            self._numerics = worst_numerics(self._numerics, charge.claims.numerics)

    def _shares(self, charge: PeriodCharge) -> list[Share]:
        assert self.rule is not None
        amount = self.rule.charges(charge.claims)[0]
        parts = [None] if charge.periods is None else [f"{self._name}:{each}" for each in charge.periods]
        return [Share(scope_id=self._name, part=part, claims=charge.claims, charge=amount) for part in parts]

    def sentences(self) -> Iterator[str]:
        """Return what the most expensive period has spent after the plan, and what is promised of one, in sentences."""
        if self.rule is not None:
            for name, route in routes_of(find_spent(self.rule, self.after.totals())):
                spent, of = short_text(route.total), short_text(route.capacity)
                yield f"After this plan the period that was charged most has spent, by {name}: {spent} of {of}."
            yield f"Guarantee of a period: {self.rule.statement(numerics=self._numerics)}"


class QuotedParent:
    """The common account of a plan's people as it stands in its ledger, and as it would after each charge."""

    def __init__(self, plan: Plan) -> None:
        self._common = plan.parent
        self.name = "" if plan.parent is None else plan.parent.name
        self._rule: Rule | None = None
        self.after, self._numerics = Totals.zero(), _EXACT
        if plan.parent is not None:
            rule, self.after, self._numerics = _common_account(plan)
            self._rule = rule.for_children()

    def short(self, claims: Claims, *, delta: Amount | None) -> tuple[Rule, Totals, Charge] | None:
        """Return the rule that does not grant a charge, what stands charged by it, and the charge; None if it does."""
        if self._rule is None:
            return None
        charge = self._charge(self._rule, claims, delta)
        return None if self._rule.grants(self.after, charge) else (self._rule, self.after, charge)

    def book(self, claims: Claims, *, delta: Amount | None) -> None:
        """Add a charge that would be granted."""
        if self._rule is not None:
            self.after = self.after.plus(self._charge(self._rule, claims, delta))
            self._numerics = worst_numerics(self._numerics, claims.numerics)

    def _charge(self, rule: Rule, claims: Claims, delta: Amount | None) -> Charge:
        return rule.charge(claims.with_unit(PersonOf(self.name)), totals=self.after, delta=delta)

    def sentences(self) -> Iterator[str]:
        """Return what is promised to these people in all, and what may be asked of them afterwards."""
        if self._common is not None and self._rule is not None:
            yield f"Guarantee over all data sets together: {self._common.statement(numerics=self._numerics)}"
            left = str(find_remaining(self._rule, self.after)).removeprefix("left: ")
            yield f"Remaining for {self.name!r} afterwards, in any of them: {left}"


def _common_account(plan: Plan) -> tuple[Rule, Totals, Numerics]:
    """Return rule, totals and numerics of the scope of a plan's people, without making a ledger or a scope."""
    assert plan.parent is not None
    fresh = plan.parent.rule
    if plan.ledger is None or is_not_there(plan.ledger):
        return fresh, Totals.zero(), _EXACT
    with open_ledger(plan.ledger, create=False) as ledger:
        scope = next((each for each in ledger.scopes() if each.scope_id == plan.parent.name), None)
        if scope is None:
            return fresh, Totals.zero(), _EXACT
        if scope.definition.budget != fresh.budget:
            raise LedgerError(
                f"scope {plan.parent.name!r} exists with the budget {scope.definition.budget}, the plan says "
                f"{fresh.budget}; a scope never changes: write parent_budget as in the plan that came first"
            )
        return scope.rule, scope.totals(), scope.numerics()

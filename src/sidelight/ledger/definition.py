"""What a scope is: one data set (or one population) with its protected unit, its budget and its rule, fixed for good.

A scope may have a parent: what is charged to it is charged to the parent as well, each by its own rule. A scope may be
partitioned by a declared public rule: then its parts compose in parallel, and it is charged its own queries plus the
dearest of its parts (accounting proof page, section 2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from sidelight.accounting import Route, Rule
from sidelight.errors import ClaimError, LedgerError
from sidelight.guarantees import (
    Claim,
    Claims,
    Neighbours,
    Unit,
    claim_from_json,
    claim_to_json,
    claims_to_replace,
    unit_from_text,
    unit_to_text,
)
from sidelight.ledger.canonical import canonical, read
from sidelight.ledger.entry import checked_name

#: What is said wherever a budget does not suffice: the way out is never a second budget for the same people.
BUDGETS_ADD_UP: Final = (
    "the budget is what these people were promised in all: a new scope over the same people adds its budget to this "
    "one, so open one for other people only, or under a common parent whose budget is the sum that you promise them"
)


@dataclass(frozen=True, kw_only=True)
class ScopeDefinition:
    """The part of a scope that never changes; as event body and as table columns."""

    scope_id: str
    parent_id: str | None
    unit: Unit
    neighbours: Neighbours
    budget: Claim
    rule: Rule
    partitioned_by: str | None

    def to_body(self) -> dict[str, Any]:
        """Return the body of the event that creates the scope."""
        return {
            "budget": claim_to_json(self.budget),
            "neighbours": self.neighbours.value,
            "parent_id": self.parent_id,
            "partitioned_by": self.partitioned_by,
            "rule": self.rule.to_json(),
            "unit": unit_to_text(self.unit),
        }

    def to_columns(self) -> dict[str, str | None]:
        """Return the columns of the scope's row that never change."""
        body = self.to_body()
        return {
            "scope_id": self.scope_id,
            "parent_id": self.parent_id,
            "unit": body["unit"],
            "neighbours": self.neighbours.family,
            "budget": canonical(body["budget"]),
            "routes": canonical({name: body[name] for name in ("neighbours", "partitioned_by", "rule")}),
        }

    def differences(self, other: ScopeDefinition) -> list[str]:
        """Name the parts in which two definitions differ."""
        mine, others = self.to_body(), other.to_body()
        return [name for name in mine if mine[name] != others[name]]


def define_scope(
    scope_id: str,
    *,
    budget: Claim,
    unit: Unit | None = None,
    neighbours: Neighbours | None = None,
    routes: Sequence[str] | None = None,
    shares: Any = None,
    parent: ScopeDefinition | None = None,
    partitioned_by: str | None = None,
) -> ScopeDefinition:
    """Check and build a definition. Unit and neighbours default to those of the budget."""
    checked_name(scope_id, what="a scope's name")
    unit = budget.unit if unit is None else unit
    neighbours = budget.neighbours if neighbours is None else neighbours
    budget = budget.under(unit=unit, neighbours=neighbours)  # a budget is a wish: restating it proves nothing
    if partitioned_by is not None:
        checked_name(partitioned_by, what="partitioned_by")
    definition = ScopeDefinition(
        scope_id=scope_id,
        parent_id=None if parent is None else parent.scope_id,
        unit=unit,
        neighbours=neighbours,
        budget=budget,
        rule=Rule.for_budget(budget, routes=cast("Sequence[Route] | None", routes), shares=shares),
        partitioned_by=partitioned_by,
    )
    if parent is not None:
        check_parent(definition, parent)
    return definition


def definition_from_body(scope_id: str, body: Any) -> ScopeDefinition:
    """Read a definition back from the event that created the scope."""
    try:
        definition = ScopeDefinition(
            scope_id=scope_id,
            parent_id=body["parent_id"],
            unit=unit_from_text(body["unit"]),
            neighbours=Neighbours(body["neighbours"]),
            budget=claim_from_json(body["budget"]),
            rule=Rule.from_json(body["rule"]),
            partitioned_by=body["partitioned_by"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerError(
            f"the definition of scope {scope_id!r} cannot be read ({error}); run `sidelight ledger verify`"
        ) from error
    wanted = definition.budget.under(unit=definition.unit, neighbours=definition.neighbours)
    if definition.rule.budget != definition.budget or wanted != definition.budget:
        raise LedgerError(
            f"the definition of scope {scope_id!r} contradicts itself: rule, unit or neighbours are not the budget's"
        )
    return definition


def definition_from_row(row: Sequence[Any]) -> ScopeDefinition:
    """Read a definition from (scope_id, parent_id, unit, neighbours, budget, routes) as the table has them."""
    scope_id, parent_id, unit, _family, budget, routes = row
    rest = read(routes)
    body = {**rest, "parent_id": parent_id, "unit": unit, "budget": read(budget)} if isinstance(rest, dict) else rest
    return definition_from_body(scope_id, body)


def adapted(claims: Claims, definition: ScopeDefinition, *, inherited: bool) -> Claims:
    """Return the claims as the scope charges them, or say why it cannot.

    A scope charges claims for its own unit only. One level up the person is the same person under another column name:
    that is what declaring a parent says, so there the unit is restated. Add/remove claims enter a replace scope by
    group privacy of two steps; the other direction has no proof.
    """
    name = definition.scope_id
    if claims.audience != "everyone":
        raise ClaimError(
            f"scope {name!r} charges what everyone may see, got claims for {claims.audience}; "
            "charge the claims that hold against everybody"
        )
    if claims.unit != definition.unit:
        if not (inherited and type(claims.unit) is type(definition.unit)):
            raise ClaimError(f"scope {name!r} protects one {definition.unit}, got claims for one {claims.unit}")
        claims = claims.with_unit(definition.unit)
    if claims.neighbours is definition.neighbours:
        return claims
    if claims.neighbours is Neighbours.ADD_REMOVE and definition.neighbours is Neighbours.REPLACE:
        return claims_to_replace(claims)
    raise ClaimError(
        f"scope {name!r} counts neighbours by '{definition.neighbours}', got claims for '{claims.neighbours}'; "
        "no conversion between these is known"
    )


def check_parent(child: ScopeDefinition, parent: ScopeDefinition) -> None:
    """Refuse a parent whose rule could not count the child's claims."""
    names = f"scope {child.scope_id!r} under {parent.scope_id!r}"
    if type(child.unit) is not type(parent.unit):
        raise ClaimError(f"{names}: a parent protects the same kind of unit, got {child.unit} and {parent.unit}")
    if child.neighbours is not parent.neighbours and not (
        child.neighbours is Neighbours.ADD_REMOVE and parent.neighbours is Neighbours.REPLACE
    ):
        raise ClaimError(
            f"{names}: claims by '{child.neighbours}' cannot be charged by '{parent.neighbours}'; "
            "use the same neighbours for both"
        )
    if child.partitioned_by is not None:
        raise LedgerError(f"{names}: a partitioned scope stands at the top; give the parent to nobody, or partition it")
    if parent.partitioned_by is not None and child.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(
            f"{names}: parts of a partition compose in parallel for add/remove claims only; "
            "replacing a record moves it between two parts"
        )

"""The fixed definition of a scope, and the shares of a request that its scopes are charged.

A scope is one data set (or one population) with its protected unit, its budget and its rule. It may have a parent: what
is charged to it is charged to the parent as well, each by its own rule. A scope may be partitioned by a declared public
rule: then its parts compose in parallel, and it is charged its own queries plus the largest of its parts (accounting
proof page, section 5).

Claims pass up from a scope to its parent. Where two scopes of one request meet in a common ancestor, nothing passes up
by itself: a person in both data sets changes both inputs of one query, which is group privacy and not composition (a
Gaussian of μ towards each costs such a person 2μ, not √2·μ), so the ancestor's claims must be stated. Parts of a
partition are the exception: no unit lies in two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from sidelight.accounting import Charge, Route, Rule, related
from sidelight.errors import ClaimError, LedgerDamagedError, LedgerError, ScopeError
from sidelight.guarantees import (
    Amount,
    Claim,
    Claims,
    Neighbours,
    Person,
    PersonOf,
    PersonPeriod,
    Unit,
    claim_from_json,
    claim_to_json,
    claims_like,
    unit_from_text,
    unit_to_text,
)
from sidelight.ledger.chain import canonical, read
from sidelight.ledger.names import checked_name

#: How the scopes below one share its budget: reserved shares, or first come, first served.
Sharing: TypeAlias = Literal["reserved", "first come"]
_BESIDE_BUDGET: Final = ("neighbours", "partitioned_by", "rule", "sharing")

#: Part of every refusal: a second budget for the same people is never the way out.
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
    sharing: Sharing | None = None

    def to_body(self) -> dict[str, Any]:
        """Return the body of the event that creates the scope."""
        return {
            "budget": claim_to_json(self.budget),
            "neighbours": self.neighbours.value,
            "parent_id": self.parent_id,
            "partitioned_by": self.partitioned_by,
            "rule": self.rule.to_json(),
            "unit": unit_to_text(self.unit),
            **({} if self.sharing is None else {"sharing": self.sharing}),
        }

    def to_columns(self) -> dict[str, str | None]:
        """Return the columns of the scope's row that never change."""
        return dict(self._columns)

    @cached_property
    def _columns(self) -> Mapping[str, str | None]:  # every charge compares them with the row
        body = self.to_body()
        return {
            "scope_id": self.scope_id,
            "parent_id": self.parent_id,
            "unit": body["unit"],
            "neighbours": self.neighbours.family,
            "budget": canonical(body["budget"]),
            "routes": canonical({name: body[name] for name in _BESIDE_BUDGET if name in body}),
        }

    def differences(self, other: ScopeDefinition) -> list[str]:
        """Name the parts in which two definitions differ."""
        mine, others = self.to_body(), other.to_body()
        return [name for name in mine | others if mine.get(name) != others.get(name)]

    def rule_for(self, shares: Iterable[Share]) -> Rule:
        """Return the rule by which these shares of one request are judged."""
        return self.rule.for_children() if any(share.from_below for share in shares) else self.rule

    def usual_before(self) -> ScopeDefinition:
        """Return the definition that versions before the sum came first gave to a budget without routes."""
        return replace(self, rule=replace(self.rule, sum_first=False))


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
    sharing: Sharing | None = None,
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
        rule=_rule(budget, routes=routes, shares=shares, parts=partitioned_by is not None),
        partitioned_by=partitioned_by,
        sharing=sharing if parent is None or sharing is not None else parent.sharing,
    )
    check_sharing(definition, parent)
    check_kept(definition)
    if parent is not None:
        check_parent(definition, parent)
    return definition


def check_sharing(definition: ScopeDefinition, parent: ScopeDefinition | None) -> None:
    """Refuse a scope of a shared tree in another currency than the scope above it, or on several routes."""
    if definition.sharing not in (None, *get_args(Sharing)):
        raise ScopeError(f"sharing is one of {', '.join(get_args(Sharing))}, got {str(definition.sharing)[:60]!r}")
    name, rule = definition.scope_id, definition.rule
    if definition.sharing is not None and (rule.sum_first or len(rule.routes) != 1):
        raise ScopeError(
            f"scope {name!r} is shared by several, and one of them could change how all are counted: with epsilon and "
            "delta name the one route, routes=['basic']"
        )
    if parent is None or (definition.sharing is None and parent.sharing is None):
        return
    above = parent.rule
    alike = type(definition.budget) is type(parent.budget) and rule.routes == above.routes
    if not alike or definition.neighbours is not parent.neighbours:
        raise ScopeError(
            f"scope {name!r} under {parent.scope_id!r}: what is shared has one currency, route and kind of neighbours, "
            f"got a budget of {definition.budget} below one of {parent.budget}"
        )
    if definition.sharing == "reserved" != parent.sharing:
        raise ScopeError(
            f"scope {name!r} reserves shares, and {parent.scope_id!r} above it does not: what it reserves could be "
            "spent by others; open both with sharing='reserved'"
        )


def check_kept(definition: ScopeDefinition) -> None:
    """Refuse parts and shares with exact totals: those compose in parallel for adding and removing alone."""
    if definition.neighbours is Neighbours.KEPT and (definition.partitioned_by or definition.sharing):
        raise ClaimError(
            f"scope {definition.scope_id!r} depends on totals that were published exactly, and cannot be shared or "
            "partitioned: parts of a data set compose in parallel for adding and removing only"
        )


def _rule(budget: Claim, *, routes: Sequence[str] | None, shares: Any, parts: bool) -> Rule:
    """Return the rule of a scope; parts are compared total by total, so their routes stand side by side."""
    rule = Rule.for_budget(budget, routes=cast("Sequence[Route] | None", routes), shares=shares)
    return replace(rule, sum_first=False) if parts else rule


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
            sharing=body.get("sharing"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerDamagedError(
            f"the definition of scope {scope_id!r} cannot be read ({error}); run `sidelight ledger verify`"
        ) from error
    wanted = definition.budget.under(unit=definition.unit, neighbours=definition.neighbours)
    staged_parts = definition.partitioned_by is not None and definition.rule.sum_first
    if definition.rule.budget != definition.budget or wanted != definition.budget or staged_parts:
        raise LedgerDamagedError(
            f"the definition of scope {scope_id!r} contradicts itself: rule, unit or neighbours are not the budget's"
        )
    return definition


def definition_from_row(row: Sequence[Any]) -> ScopeDefinition:
    """Read a definition from (scope_id, parent_id, unit, neighbours, budget, routes) as the table has them."""
    scope_id, parent_id, unit, _family, budget, routes = row
    rest = read(routes)
    body = {**rest, "parent_id": parent_id, "unit": unit, "budget": read(budget)} if isinstance(rest, dict) else rest
    return definition_from_body(scope_id, body)


def check_parent(child: ScopeDefinition, parent: ScopeDefinition) -> None:
    """Refuse a parent whose rule could not count the child's claims."""
    names = f"scope {child.scope_id!r} under {parent.scope_id!r}"
    if Neighbours.KEPT in (child.neighbours, parent.neighbours):
        raise ClaimError(
            f"{names}: a guarantee given exact totals holds for one table and no other; give the scope no parent"
        )
    if not _are_same_people(child.unit, parent.unit):
        raise ClaimError(f"{names}: a parent protects the same kind of unit, got {child.unit} and {parent.unit}")
    if child.neighbours is not parent.neighbours and not (
        child.neighbours is Neighbours.ADD_REMOVE and parent.neighbours is Neighbours.REPLACE
    ):
        raise ClaimError(
            f"{names}: claims by '{child.neighbours}' cannot be charged by '{parent.neighbours}'; "
            "use the same neighbours for both"
        )
    if child.partitioned_by is not None:
        raise LedgerError(f"{names}: a partitioned scope stands at the top; leave out the parent, or partition it")
    if parent.partitioned_by is not None and child.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(
            f"{names}: parts of a partition compose in parallel for add/remove claims only; "
            "replacing a record moves it between two parts"
        )


def _are_same_people(unit: Unit, above: Unit) -> bool:
    """Return whether a parent may declare that its units are those of a scope below it.

    A person of one table is a person of several: claims for all rows of somebody there, of which queries count at most
    `max_rows`, hold for all rows that they own anywhere. A day of a person is not their month.
    """
    if isinstance(unit, PersonPeriod):
        return unit == above
    return type(unit) is type(above) or (isinstance(unit, Person) and isinstance(above, PersonOf))


def with_ancestors(names: Iterable[str], definitions: Mapping[str, ScopeDefinition]) -> set[str]:
    """Return the names of these scopes and of all above them."""
    found: set[str] = set()
    for name in names:
        current: str | None = name
        while current is not None and current not in found:
            found.add(current)
            current = definitions[current].parent_id
    return found


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one scope is charged, on its own account or (of a partitioned scope) on that of one part."""

    scope_id: str
    part: str | None
    claims: Claims
    charge: Charge
    options: tuple[Charge, ...] = ()  # the ways in which the scope's rule could count it, before one was chosen
    from_below: bool = False  # whether a scope below is charged for it, too

    def to_json(self) -> dict[str, Any]:
        """Return the share as it stands in an event's body."""
        return {
            "charge": self.charge.to_json(),
            "claims": self.claims.to_json(),
            "part": self.part,
            "scope_id": self.scope_id,
        }


def share_from_json(data: Any) -> Share:
    """Read a share back from an event's body."""
    try:
        return Share(
            scope_id=data["scope_id"],
            part=data["part"],
            claims=Claims.from_json(data["claims"]),
            charge=Charge.from_json(data["charge"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LedgerDamagedError(
            f"a charge in the ledger cannot be read ({error}); run `sidelight ledger verify`"
        ) from error


def spread(
    claims: Mapping[str, Claims], definitions: Mapping[str, ScopeDefinition], *, delta: Amount | None = None
) -> tuple[Share, ...]:
    """Return the share of every scope touched, in the order of their names.

    `definitions` holds the named scopes and all their ancestors; `delta` is the one that the price was declared at.
    """
    if not claims:
        raise ClaimError("a request charges at least one scope, got none")
    shares: list[Share] = []
    inherited: dict[str, dict[str, Claims]] = {}  # ancestor -> child -> the child's claims
    for scope_id in sorted(with_ancestors(claims, definitions), key=lambda name: -depth_of(name, definitions)):
        definition = definitions[scope_id]
        below = inherited.get(scope_id, {})
        if scope_id in claims:
            own = adapted(claims[scope_id], definition, inherited=False)
            shares.append(replace(_share(definition, own, part=None, delta=delta), from_below=bool(below)))
            _check_enough(shares[-1], below.values(), definition, delta=delta)
        elif definition.partitioned_by is not None:
            own = None
            for child, theirs in below.items():
                own_part = adapted(theirs, definition, inherited=True)
                shares.append(_share(definition, own_part, part=child, delta=delta))
        elif len(below) == 1:
            own = adapted(next(iter(below.values())), definition, inherited=True)
            shares.append(replace(_share(definition, own, part=None, delta=delta), from_below=True))
        else:
            raise ClaimError(
                f"the scopes {', '.join(sorted(below))} of one request meet in {scope_id!r}, where a person in more "
                f"than one of them is touched more than once; state the request's claims for {scope_id!r} as well"
            )
        if definition.parent_id is not None and own is not None:
            inherited.setdefault(definition.parent_id, {})[scope_id] = own
    return tuple(sorted(shares, key=lambda share: (share.scope_id, share.part or "")))


def adapted(claims: Claims, definition: ScopeDefinition, *, inherited: bool) -> Claims:
    """Return the claims as the scope charges them, or say why it cannot.

    A scope charges claims for its own unit only. One level up the person is the same person under another column name,
    or in another database: that is what declaring a parent says, so there the unit is restated. Add/remove claims enter
    a replace scope by group privacy of two steps, and a scope with exact totals as well; the other direction has no
    proof.
    """
    name = definition.scope_id
    if claims.audience != "everyone":
        raise ClaimError(
            f"scope {name!r} charges what everyone may see, got claims for {claims.audience}; "
            "charge the claims that hold for every observer"
        )
    if claims.unit != definition.unit:
        if not (inherited and _are_same_people(claims.unit, definition.unit)):
            raise ClaimError(f"scope {name!r} protects one {definition.unit}, got claims for one {claims.unit}")
        claims = claims.with_unit(definition.unit)
    found = claims_like(claims, definition.budget)
    if found is not None:
        return found
    raise ClaimError(
        f"scope {name!r} counts neighbours by '{related(definition.budget)}', got claims for '{related(claims)}'; "
        "no conversion between these is known"
    )


def _check_enough(stated: Share, below: Iterable[Claims], definition: ScopeDefinition, *, delta: Amount | None) -> None:
    """Refuse claims for an ancestor that are less than what a scope below it is charged: its people are the same."""
    for theirs in below:
        least = definition.rule.charges(adapted(theirs, definition, inherited=True), delta=delta)
        if not _by_routes(stated.options).covers(_by_routes(least)):
            raise ClaimError(
                f"the claims stated for {definition.scope_id!r} are less than those of a scope below it, whose people "
                "are among its own; state at least as much, or leave them out"
            )


def _share(definition: ScopeDefinition, claims: Claims, *, part: str | None, delta: Amount | None) -> Share:
    options = definition.rule.charges(claims, delta=delta)
    return Share(scope_id=definition.scope_id, part=part, claims=claims, charge=options[0], options=options)


def _by_routes(options: Sequence[Charge]) -> Charge:
    """Return the price for routes that stand side by side: the only one, or the composed."""
    return next((charge for charge in options if charge.composed), options[0])


def depth_of(name: str, definitions: Mapping[str, ScopeDefinition]) -> int:
    """Return how many scopes stand above one."""
    depth, parent = 0, definitions[name].parent_id
    while parent is not None:
        depth, parent = depth + 1, definitions[parent].parent_id
    return depth

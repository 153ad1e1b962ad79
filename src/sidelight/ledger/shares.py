"""Who pays what: one request becomes one share for every scope that it touches, ancestors included.

Claims pass up from a scope to its parent. Where two scopes of one request meet in a common ancestor, nothing passes up
by itself: a person in both data sets changes both inputs of one query, which is group privacy and not composition (a
Gaussian of μ towards each costs such a person 2μ, not √2·μ), so the ancestor's claims must be stated. Parts of a
partition are the exception: no unit lies in two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sidelight.accounting import Charge
from sidelight.errors import ClaimError, LedgerError
from sidelight.guarantees import Claims
from sidelight.ledger.definition import ScopeDefinition, adapted


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one scope is charged, on its own account or (of a partitioned scope) on that of one part."""

    scope_id: str
    part: str | None
    claims: Claims
    charge: Charge

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
        raise LedgerError(f"a charge in the ledger cannot be read ({error}); run `sidelight ledger verify`") from error


def spread(claims: Mapping[str, Claims], definitions: Mapping[str, ScopeDefinition]) -> tuple[Share, ...]:
    """Return the share of every scope touched, in the order of their names.

    `definitions` holds the named scopes and all their ancestors.
    """
    if not claims:
        raise ClaimError("a request charges at least one scope, got none")
    shares: list[Share] = []
    inherited: dict[str, dict[str, Claims]] = {}  # ancestor -> child -> the child's claims
    for scope_id in sorted(_with_ancestors(claims, definitions), key=lambda name: -_depth(name, definitions)):
        definition = definitions[scope_id]
        below = inherited.get(scope_id, {})
        if scope_id in claims:
            own = adapted(claims[scope_id], definition, inherited=False)
            shares.append(_share(definition, own, part=None))
            _check_enough(shares[-1].charge, below.values(), definition)
        elif definition.partitioned_by is not None:
            own = None
            for child, theirs in below.items():
                shares.append(_share(definition, adapted(theirs, definition, inherited=True), part=child))
        elif len(below) == 1:
            own = adapted(next(iter(below.values())), definition, inherited=True)
            shares.append(_share(definition, own, part=None))
        else:
            raise ClaimError(
                f"the scopes {', '.join(sorted(below))} of one request meet in {scope_id!r}, where a person in more "
                f"than one of them is touched more than once; state the request's claims for {scope_id!r} as well"
            )
        if definition.parent_id is not None and own is not None:
            inherited.setdefault(definition.parent_id, {})[scope_id] = own
    return tuple(sorted(shares, key=lambda share: (share.scope_id, share.part or "")))


def _check_enough(stated: Charge, below: Iterable[Claims], definition: ScopeDefinition) -> None:
    """Refuse claims for an ancestor that are less than what a scope below it is charged: its people are the same."""
    for theirs in below:
        if not stated.covers(definition.rule.charge(adapted(theirs, definition, inherited=True))):
            raise ClaimError(
                f"the claims stated for {definition.scope_id!r} are less than those of a scope below it, whose people "
                "are among its own; state at least as much, or leave them out"
            )


def _share(definition: ScopeDefinition, claims: Claims, *, part: str | None) -> Share:
    return Share(scope_id=definition.scope_id, part=part, claims=claims, charge=definition.rule.charge(claims))


def _with_ancestors(names: Iterable[str], definitions: Mapping[str, ScopeDefinition]) -> set[str]:
    found: set[str] = set()
    for name in names:
        current: str | None = name
        while current is not None and current not in found:
            found.add(current)
            current = definitions[current].parent_id
    return found


def _depth(name: str, definitions: Mapping[str, ScopeDefinition]) -> int:
    depth, parent = 0, definitions[name].parent_id
    while parent is not None:
        depth, parent = depth + 1, definitions[parent].parent_id
    return depth

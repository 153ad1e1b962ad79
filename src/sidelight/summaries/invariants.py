"""`Invariant`: totals of a level that are published exactly because a law says so, and what is protected beside them.

No claim for adding or removing a unit holds for a release with exact totals: they tell the two apart. What holds is a
claim for replacing one unit by another with which all of these totals stay (hierarchies proof page, Theorem 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError, SchemaError
from sidelight.guarantees import Neighbours, Row
from sidelight.records import Schema
from sidelight.records.columns import Category
from sidelight.records.hierarchy import LabelTree

_LONGEST_REASON = 200


@dataclass(frozen=True)
class Invariant:
    """Declare that a law publishes the totals of a level of a hierarchy exactly.

    This changes what is protected: whether a row was counted, and in which node of the level, is public. It is the only
    parameter of a table that changes a guarantee, so it needs its reason, which every claim of the release repeats.

    Args:
        level: The name of the level: "state". Levels above it are sums of it and exact as well.
        reason: The law or rule that demands it.

    >>> import sidelight as sl
    >>> people = sl.Table({"block": ["11", "12", "21"] * 200}, schema=[sl.Category("block", ["11", "12", "21"])])
    >>> blocks = sl.Hierarchy("block", {"town": 1})
    >>> law = sl.Invariant("town", reason="Towns Act, s. 4")
    >>> table = sl.Count(by=blocks, rho="0.1", invariants=law).release(people).value
    >>> table.level("town")["count"].tolist()
    [400, 200, 0]
    """

    level: str
    _: KW_ONLY
    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.level, str) or not self.level:
            raise RangeError("an invariant needs the name of a level of the hierarchy")
        if not isinstance(self.reason, str) or not self.reason.strip() or len(self.reason) > _LONGEST_REASON:
            raise RangeError(
                f"an invariant needs its reason, a text of at most {_LONGEST_REASON} characters: the law that demands "
                "exact totals"
            )


def read_invariants(given: Any) -> tuple[Invariant, ...]:
    """Return a list of invariants that may be given as one; () for none."""
    found = (given,) if isinstance(given, Invariant) else given
    if found is None:
        return ()
    if isinstance(found, str) or not isinstance(found, Sequence) or not all(isinstance(e, Invariant) for e in found):
        raise RangeError("invariants are sl.Invariant('level', reason='...'), one or a list")
    return tuple(found)


def kept_level(invariants: Sequence[Invariant], tree: LabelTree) -> tuple[int, str]:
    """Return the finest level of some invariants, and the words by which claims name what is kept."""
    levels = {tree.level(each.level): each for each in invariants}
    finest = max(levels)
    reasons = "; ".join(f"{tree.names[level]}: {levels[level].reason}" for level in sorted(levels))
    return finest, f"{reasons}; tree {tree.digest[:16]}"


def kept_groups(query: Any, schema: Schema, groups: Groups, tree: LabelTree, level: int) -> Groups:
    """Return the groups with the bounds of kept neighbours, where exact totals are those of what is measured.

    Refused is whatever could leave a row out: the exact total would be that of other rows than the noisy counts, and a
    row that is left out could stand for one that is not.
    """
    if groups.unit != Row():
        raise SchemaError(
            "invariants are for tables in which the row is protected: rows of a person are bounded, and totals of "
            "bounded rows are not the totals that a law asks for"
        )
    for name in ("public_totals", "impossible", "condition"):
        if getattr(query, name) is not None:
            shown = "where" if name == "condition" else name
            raise SchemaError(f"invariants are totals of all rows; leave {shown} out")
    for key in query.keys:
        column = next((each for each in schema.columns if each.name == key), None)
        if not isinstance(column, Category) or column.unknown_code is None or column.missing_code is None:
            raise SchemaError(
                f"invariants are totals of all rows, and {key!r} can leave rows out; declare it as a Category with a "
                "label for what is not listed, other='other'"
            )
    if level == tree.depth and len(query.keys) == 1:
        raise RangeError(
            f"exact totals of {tree.names[level]!r} leave nothing to measure; name a level above the leaves"
        )
    return replace(groups, norms=replace(groups.norms, neighbours=Neighbours.KEPT))

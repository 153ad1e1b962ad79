"""`Invariant`: totals of a level that are published exactly because a law says so, and what claims call them.

No claim for adding or removing a unit holds for a release with exact totals: they tell the two apart. What holds is a
claim for replacing one unit by another with which all of these totals stay (hierarchies proof page, Theorem 8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sidelight.errors import RangeError
from sidelight.records.hierarchy import Hierarchy, LabelTree
from sidelight.records.schema import Schema

_LONGEST_REASON = 200


@dataclass(frozen=True)
class Invariant:
    """Declare that a law publishes the totals of a level of a hierarchy exactly.

    This changes what is protected: whether a row was counted, and in which node of the level, is public. It is the only
    parameter of a table that changes a guarantee, so it needs its reason, which every claim of the release repeats.

    Args:
        level: The name of the level: "state". Levels above it are sums of it and exact as well.
        reason: The law or rule that demands it.
        of: The hierarchy of the level, for `sl.Session(..., invariants=...)`; a query takes that of its `by`.

    >>> import sidelight as sl
    >>> people = sl.Table({"block": ["11", "12", "21"] * 200}, schema=[sl.Category("block", ["11", "12", "21"])])
    >>> law = sl.Invariant("town", reason="Towns Act, s. 4")
    >>> blocks = sl.Hierarchy("block", {"town": 1}, invariants=law)
    >>> table = sl.Count(by=blocks, rho="0.1").release(people).value
    >>> table.level("town")["count"].tolist()
    [400, 200, 0]

    Several releases, with exact totals or without, share a budget that was opened for them:

    >>> kept = sl.Invariant("town", reason="Towns Act, s. 4", of=blocks)
    >>> session = sl.Session(people, budget=sl.ZCDP(1), invariants=kept)
    >>> session.release(sl.Count(by=blocks, rho="0.1")).guarantee.neighbours
    <Neighbours.KEPT: 'kept'>
    """

    level: str
    _: KW_ONLY
    reason: str
    of: Hierarchy | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.level, str) or not self.level:
            raise RangeError("an invariant needs the name of a level of the hierarchy")
        if not isinstance(self.reason, str) or not self.reason.strip() or len(self.reason) > _LONGEST_REASON:
            raise RangeError(
                f"an invariant needs its reason, a text of at most {_LONGEST_REASON} characters: the law that demands "
                "exact totals"
            )
        if self.of is not None and not isinstance(self.of, Hierarchy):
            raise RangeError(f"of is the sl.Hierarchy that has the level, got {type(self.of).__name__}")


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
    for each in invariants:
        if each.of is not None and each.of.names != tree.names:
            raise RangeError(f"the invariant {each.level!r} is of {each.of!r}, and the table is of another hierarchy")
    levels = {tree.level(each.level): each for each in invariants}
    finest = max(levels)
    reasons = "; ".join(f"{tree.names[level]}: {levels[level].reason}" for level in sorted(levels))
    return finest, f"{reasons}; tree {tree.digest[:16]}"


def kept_totals(invariants: Sequence[Invariant], schema: Schema) -> str:
    """Return the words by which claims name what is kept, of invariants that say their hierarchy."""
    if any(each.of is None for each in invariants):
        raise RangeError("invariants of a session name their hierarchy: sl.Invariant('state', reason='...', of=places)")
    trees = [each.of.of(schema) for each in invariants if each.of is not None]
    if len({tree.digest for tree in trees}) != 1:
        raise RangeError("all invariants of a session are levels of one hierarchy; a table of another needs its own")
    return kept_level(invariants, trees[0])[1]

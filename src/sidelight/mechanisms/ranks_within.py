"""The records of one tree node: those whose index lies in a half-open range."""

from __future__ import annotations

from sidelight.aggregates.ranks import Ranks


class RanksWithin:
    """Ranks among the records with first_index <= index < end_index only.

    Half-open, so that after the release of o a record at o belongs to the right side and to no other: then one record
    meets one path of the tree (quantiles proof page, section 3). The counts are private like the ranks they come from.
    """

    __slots__ = ("_ranks", "_skipped", "size")

    def __init__(self, ranks: Ranks, first_index: int, end_index: int) -> None:
        self._ranks = ranks
        self._skipped = ranks.below(first_index)
        self.size = max(ranks.below(end_index) - self._skipped, 0)

    def below(self, index: int) -> int:
        """Count this node's records with an index below `index`."""
        return min(max(self._ranks.below(index) - self._skipped, 0), self.size)

    def order(self, k: int) -> int:
        """Return the k-th smallest index among this node's records, 1 <= k <= size."""
        return self._ranks.order(self._skipped + k)

    def __repr__(self) -> str:
        return "RanksWithin(private)"

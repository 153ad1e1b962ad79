"""What a request takes, as a function of public things: its size, and constants measured on generated rows.

A request beyond a quarter of its slot, or half of a worker's memory, is refused before anything is charged: on real
rows it might not end in time, and a release that does not end in time is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from sidelight.session.query import Prepared
from sidelight.wire import ProblemError

#: The part of a slot, and of a worker's memory, that a request may be expected to take.
SLOT_PART, MEMORY_PART = 0.25, 0.5
#: Parameters that repeat the work of a query.
_REPEATS: Final = ("passes", "steps", "rounds")


@dataclass(frozen=True, kw_only=True)
class KindCost:
    """Constants of one kind of query on generated rows of a table's capacity, as `server calibrate` prints them.

    Args:
        seconds: What the smallest request takes at most.
        seconds_per_cell: What each further cell adds at most; `request_size` counts cells.
        memory: Bytes of the smallest request.
        memory_per_cell: Bytes that each further cell adds.
    """

    seconds: float
    seconds_per_cell: float = 0.0
    memory: int = 0
    memory_per_cell: float = 0.0

    def of(self, size: int) -> tuple[float, int]:
        """Return the seconds and bytes of a request of a size.

        >>> KindCost(seconds=0.1, seconds_per_cell=0.001, memory=1000, memory_per_cell=8).of(101)
        (0.2, 1800)
        """
        more = size - 1
        return self.seconds + self.seconds_per_cell * more, int(self.memory + self.memory_per_cell * more)


def request_size(prepared: Prepared) -> int:
    """Return the public size of a request in cells: numbers of its answer, times what repeats the work.

    >>> from sidelight.records import Category, Schema
    >>> from sidelight.summaries.count import Count
    >>> schema = Schema([Category("job", ["cook", "nurse"])])
    >>> request_size(Count(epsilon=1).prepare(schema)), request_size(Count(by="job", epsilon=1).prepare(schema))
    (1, 3)
    """
    request = prepared.request
    cells = max(1, len(prepared.labels)) * max(1, _length(request, "queries"))  # aggregates of a statement
    if request.get("kind") == "group_quantiles":
        cells *= _length(request, "levels")
    cells += max(0, _length(request, "columns", "features") - 1) ** 2 + max(0, _number(request.get("k")) - 1)
    for name in _REPEATS:
        cells *= max(1, _number(request.get(name)))
    return cells


def check_cost(
    cost: KindCost | None, prepared: Prepared, *, duration: float, memory: int
) -> dict[str, float | int] | None:
    """Return what a request is expected to take and may take; None where its kind was not calibrated.

    Raises:
        ProblemError: `too-dear`, with the same numbers.
    """
    if cost is None:
        return None
    seconds, used = cost.of(request_size(prepared))
    most_seconds, most_memory = duration * SLOT_PART, int(memory * MEMORY_PART)
    if seconds > most_seconds or used > most_memory:
        raise ProblemError(
            "too-dear",
            f"the request has {request_size(prepared)} cells, for which {seconds:.3g} s and {used} bytes are expected; "
            f"{most_seconds:.3g} s and {most_memory} bytes are the most. Ask for fewer groups, levels or columns",
        )
    return {"seconds": seconds, "bytes": used, "most_seconds": most_seconds, "most_bytes": most_memory}


def cost_json(costs: Mapping[str, KindCost]) -> dict[str, Any]:
    """Return the constants as analysts see them."""
    return {kind: asdict(each) for kind, each in costs.items()}


def _length(request: Mapping[str, Any], *names: str) -> int:
    return max(len(found) if isinstance(found := request.get(name), (list, tuple)) else 0 for name in names)


def _number(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 10 else 0

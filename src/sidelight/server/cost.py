"""The expected time and memory of a request, from its public size and constants measured on generated rows.

A request beyond a quarter of its slot, or half of a worker's memory, is refused before anything is charged: on real
rows it might not end in time, which is observable. So is one whose answer might be too large: after the charge its
size could depend on the rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from sidelight.session.query import Prepared
from sidelight.wire import LIMITS, ProblemError

#: The largest expected share of a slot, and of a worker's memory.
SLOT_PART, MEMORY_PART = 0.25, 0.5
#: Parameters that repeat the work of a query.
_REPEATS: Final = ("passes", "steps", "rounds")
#: Bytes of any answer, of each number of it with its interval, and of each feature of an additive model for each class.
_ANSWER, _PER_CELL, _PER_SHAPE = 16 * 2**10, 256, 96 * 2**10


@dataclass(frozen=True, kw_only=True)
class KindCost:
    """Constants of one kind of query on generated rows of a table's capacity, as `server calibrate` prints them.

    Args:
        seconds: The largest time of the smallest request.
        seconds_per_cell: The largest additional time per cell; `request_size` counts cells.
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
    """Return the public size of a request in cells: numbers of its answer, times passes or rounds.

    >>> from sidelight.records import Category, Schema
    >>> from sidelight.summaries.count import Count
    >>> schema = Schema([Category("job", ["cook", "nurse"])])
    >>> request_size(Count(epsilon=1).prepare(schema)), request_size(Count(by="job", epsilon=1).prepare(schema))
    (1, 3)
    """
    cells = _cells(prepared.request, len(prepared.labels))
    for name in _REPEATS:
        cells *= max(1, _number(prepared.request.get(name)))
    return cells


def answer_bytes(prepared: Prepared) -> int:
    """Return the largest size of the answer of a request as JSON: a function of its public shape.

    Labels that are found privately are not known before; they are part of the release and are not counted.

    >>> from sidelight.records import Category, Schema
    >>> from sidelight.summaries.count import Count
    >>> answer_bytes(Count(by="job", epsilon=1).prepare(Schema([Category("job", ["cook", "nurse"])])))
    17534
    """
    request = prepared.request
    texts = len(json.dumps([dict(request), prepared.prediction], default=str)) + 3 * len(json.dumps(prepared.labels))
    texts += 2 * len(json.dumps(request.get("numbers", "")))  # names that columns and notes repeat
    size = _ANSWER + 2 * texts + _PER_CELL * _cells(request, len(prepared.labels))
    if request.get("kind") == "additive_model":
        size += _PER_SHAPE * _length(request, "columns") * max(1, str(request.get("classes", "")).count(",") + 1)
    if request.get("kind") == "synthetic_table":
        size += _PER_CELL * _marginal_cells(request)
    return size


def check_answer(prepared: Sequence[Prepared]) -> int:
    """Return the largest size of the answer of one query, or of a batch.

    Raises:
        ProblemError: `too-dear`, with the size and the limit.
    """
    size, most = sum(map(answer_bytes, prepared)), LIMITS["answer_bytes"]
    if size > most:
        raise ProblemError(
            "too-dear",
            f"the answer can have {size} bytes, and the limit is {most}. Ask for fewer groups, levels or columns",
        )
    return size


def check_cost(
    cost: KindCost | None, prepared: Prepared, *, duration: float, memory: int
) -> dict[str, float | int] | None:
    """Return the expected time and memory of a request and their limits; None for an uncalibrated kind.

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
            f"{most_seconds:.3g} s and {most_memory} bytes are the limits. Ask for fewer groups, levels or columns",
        )
    return {"seconds": seconds, "bytes": used, "most_seconds": most_seconds, "most_bytes": most_memory}


def cost_json(costs: Mapping[str, KindCost]) -> dict[str, Any]:
    """Return the constants as analysts see them."""
    return {kind: asdict(each) for kind, each in costs.items()}


def _cells(request: Mapping[str, Any], labels: int) -> int:
    """Return the numbers of an answer."""
    cells = max(1, labels) * max(
        1, _length(request, "queries", "numbers")
    )  # of a statement: one query may serve several
    if request.get("kind") == "group_quantiles":
        cells *= _length(request, "levels")
    return cells + max(0, _length(request, "columns", "features") - 1) ** 2 + max(0, _number(request.get("k")) - 1)


def _marginal_cells(request: Mapping[str, Any]) -> int:
    """Return the cells of all marginals that a synthetic table may be made from."""
    sizes = {each["name"]: len(each.get("labels") or each["edges"]) for each in request["columns"]}
    found = 0
    for query in request["queries"]:
        chosen = query.get("marginals")
        if isinstance(chosen, list):
            found += sum(math.prod(sizes[name] for name in names) for names in chosen)
            continue
        names = query.get("columns") or [query.get("ranges") or query["prefixes"]]
        products = [1] + [0] * len(names)  # at each place: the sum over all sets of that many columns
        for name in names:
            products = [1] + [one + sizes[name] * less for less, one in pairwise(products)]
        found += products[min(_number(chosen) or len(names), len(names))]
    return found


def _length(request: Mapping[str, Any], *names: str) -> int:
    return max(len(found) if isinstance(found := request.get(name), (list, tuple)) else 0 for name in names)


def _number(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 10 else 0

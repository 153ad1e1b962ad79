"""How a candidate is judged: by its own released answer on public data, or by a second release that is paid for.

There is no third way. A score on private validation rows without noise is the classical leak, so no score here is ever
handed the table, and rows that it visibly holds are compared by content with the private ones: a copy is as private as
what it was copied from. A refusal is for the author of the score, who holds the rows; it comes before anything is
charged or run. It finds copies, views, parts, other orders and other number types of the rows or of one of their
columns, whatever holds them (`reachable_from`, `tables_in`), and parts that were cut from the same array. It cannot
find copies of held-out rows that no fit holds, rows that were changed (scaled, rounded), columns of few distinct
values, and what lies outside of the score's reach: there the writer's word counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight.errors import RangeError
from sidelight.records import Number, Table
from sidelight.records.row_prints import same_rows
from sidelight.records.rows import Wanted
from sidelight.session import Answer, Query, Session
from sidelight.tuning.reachable_tables import FEWEST, ReachableTable, is_lazy, reachable_from, tables_in


@dataclass(frozen=True)
class PublicScore:
    """Score a candidate's answer by a function of it, and of public data at most: it costs nothing.

    The author states, as with `sl.PublicData`, that the function reads the answer, public parameters and public
    data only, and remembers nothing of earlier answers. A function that visibly holds a `Table` or a `Session`
    (closure, defaults, object, class, globals that it names) is refused; what it reads from elsewhere is the writer's
    word.

    Args:
        function: From a candidate's answer (`answer.value`, `answer.labels`) to a number; higher is better.
        description: What it reads, in words, for the report.

    >>> PublicScore(lambda answer: -abs(answer.value - 40), "distance to last year's published median")
    PublicScore(distance to last year's published median)
    """

    function: Callable[[Answer], float]
    description: str

    def __post_init__(self) -> None:
        check_score(self.function, self.description)

    def __repr__(self) -> str:
        return f"PublicScore({self.description})"


@dataclass(frozen=True, kw_only=True)
class PrivateScore:
    """Score a candidate's answer by a private release of its own, asked of the same table.

    Each run then costs the candidate's claims and those of `like` together.

    Args:
        ask: From an answer to the query that measures it.
        read: From what that query released to a number; higher is better.
        like: A query with the price of every query that `ask` will build: the charge is fixed before any data is
            opened, and a query with other claims gives its candidate no score.
        description: What is measured, in words, for the report.

    >>> import sidelight as sl
    >>> like = sl.Quantiles([0.5], epsilon="0.1", granularity=1)
    >>> read = lambda answer: -answer.value[0]
    >>> PrivateScore(ask=lambda answer: like, read=read, like=like, description="a small median")
    PrivateScore(a small median)
    """

    ask: Callable[[Answer], Query]
    read: Callable[[Answer], float]
    like: Query
    description: str

    def __post_init__(self) -> None:
        check_score(self.ask, self.description)
        check_score(self.read, self.description)

    def __repr__(self) -> str:
        return f"PrivateScore({self.description})"


Score: TypeAlias = PublicScore | PrivateScore


def check_score(function: object, description: str) -> None:
    """Refuse what is no function, has no description, or visibly holds private rows."""
    if not callable(function):
        raise RangeError(f"a score is a function of a candidate's answer, got {type(function).__name__}")
    if not isinstance(description, str) or not description:
        raise RangeError('say what the score reads, for the report: PublicScore(function, "accuracy on public rows")')
    carried = list(reachable_from(function))
    if any(issubclass(type(part), Table | Session) for part in carried):
        raise RangeError(
            "a score may not hold a Table or a Session: private rows in a score are not paid for. Compute it from the "
            "candidate's answer and public data, or ask a PrivateScore"
        )
    if any(map(is_lazy, carried)):
        raise RangeError(
            "a score may not hold a lazy frame: what it would read cannot be compared with the private rows. Collect "
            "the public rows first, and let the score hold them"
        )


def tables_reachable_from(function: object) -> list[ReachableTable]:
    """Return the tables and columns that a function visibly carries."""
    return [held for part in reachable_from(function) for held in tables_in(part)]


def private_rows_of(fit: object) -> list[ReachableTable]:
    """Return the tables that a fit visibly carries, but short lists, which are settings."""
    return [held for held in tables_reachable_from(fit) if not held.listed or len(held.cells) >= FEWEST]


def rows_of(table: Table) -> list[ReachableTable]:
    """Return the number columns of a table that lies in memory, as private rows; nothing of another one."""
    names = tuple(column.name for column in table.schema.columns if isinstance(column, Number))
    if table.rows.length is None or not names:
        return []
    parts = [batch.numbers for batch in table.rows.batches(Wanted(numbers=names))]
    columns = [np.concatenate([np.empty(0), *(part[name] for part in parts)]) for name in names]
    return [ReachableTable(np.column_stack(columns))]


def refuse_private_rows(functions: Iterable[object], private: Iterable[ReachableTable]) -> None:
    """Refuse functions that hold rows which are, by memory or by content, among the private ones.

    Raises:
        RangeError: a score holds private rows. The message shows no count and no cell.
    """
    known = list(private)
    for function in functions:
        for held in tables_reachable_from(function):
            if any(_is_part(held, rows) for rows in known):
                raise RangeError(
                    "the score holds private rows: an array, a frame or a list that was cut from the rows that are "
                    "fitted, or has their contents (a copy is as private as they are), or a column of them. A "
                    "score on private rows is not paid for; score on public rows, in an array of their own, or ask a "
                    "PrivateScore"
                )


def _is_part(held: ReachableTable, rows: ReachableTable) -> bool:
    """Return whether held rows, or a column of them, are among the private ones: by memory or by content."""
    first, second = held.cells, rows.cells
    arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    if arrays and (np.may_share_memory(first, second) or _base(first) is _base(second)):
        return True
    known = 1 < held.width == rows.width and held.prints is not None and rows.prints is not None
    if known and same_rows(held.prints, rows.prints):  # type: ignore[arg-type]  # neither is None
        return True
    # Rows with columns besides the private ones, or with some of them only.
    if any(one.is_part_of(other) for one in held.columns for other in rows.columns):
        return True
    pooled = rows.pooled if held.width == 1 and held.columns else None  # rows one after the other, as in bytes
    return pooled is not None and held.columns[0].is_part_of(pooled)


def _base(array: NDArray[Any]) -> Any:
    """Return what owns the memory: two disjoint parts of one array were cut from the same rows."""
    found: Any = array
    while isinstance(found, np.ndarray) and found.base is not None:
        found = found.base
    return found

"""How a candidate is judged: by its own released answer on public data, or by a second release that is paid for.

There is no third way. A score on private validation rows without noise is the classical leak, so no score here is ever
handed the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sidelight.errors import RangeError
from sidelight.records import Table
from sidelight.session import Answer, Query, Session
from sidelight.tuning.carried import carried_by
from sidelight.tuning.held_tables import is_lazy


@dataclass(frozen=True)
class PublicScore:
    """Score a candidate's answer by a function of it, and of public data at most: it costs nothing.

    Whoever writes one states, as with `PublicSample`, that the function reads the answer, public parameters and public
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
    carried = list(carried_by(function))
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

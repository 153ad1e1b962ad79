"""A prepared query that runs whatever a test wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sidelight.noise import Source
from sidelight.records import Table
from sidelight.session.query import Answer, Prepared, Refusal


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedProbe(Prepared):
    """A claim, a request, and a function in the place of `run`."""

    function: Callable[[Table, Source], Any]

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        return self.function(table, source)


class Unreadable(Table):
    """A table whose rows cannot be read."""

    @property
    def rows(self) -> Any:
        raise AttributeError("the data was opened")

"""Where, with what and by which version a release was made: all of it public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: What every line of `spending` says; some name a theorem, too.
SPENDING_KEYS = ("law", "statistic", "cost", "times", "over")


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The public circumstances of a release: where, with what, by which version."""

    dataset: str
    engine: str
    version: str
    entropy: str
    numerics: str
    entry_id: str | None = None
    ledger_head: str | None = None
    spending: tuple[Mapping[str, str], ...] = ()

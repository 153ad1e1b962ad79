"""Answers of a server: a table's public declarations, a price, and a running request."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sidelight.errors import ReleaseFailedError, ServiceError, SidelightError, UnansweredError
from sidelight.plans.columns import read_schema
from sidelight.plans.section import NameResolver, Section
from sidelight.readable import shown_html, shown_text
from sidelight.records import Schema, Table
from sidelight.release import Outcome, outcome_from_json
from sidelight.wire import RELEASE_ID, error_of, read_json, write_json

#: Names of tables, which are parts of addresses.
_TABLE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


@contextmanager
def understood(what: str) -> Iterator[None]:
    """Make every error of reading an answer one `ServiceError`: a server may send anything in place of it."""
    try:
        yield
    except ServiceError:
        raise
    except Exception:
        raise UnansweredError(f"{what} is not understood; is the server newer?", code="unknown") from None


@dataclass(frozen=True, kw_only=True)
class RemoteTable:
    """The public declarations of a table on a server, and the analyst's remaining budget.

    Args:
        name: Its name.
        schema: The declared columns.
        promise: The guarantee of everything that is ever released from it, to all analysts.
        kinds: The allowed kinds of queries.
        remaining: The exact remaining budget of this account.
        sharing: "reserved", or "first come".
        durations: Seconds of a slot, by kind.
        limits: The largest lists and numbers of a request.
    """

    name: str
    schema: Schema
    promise: str
    kinds: tuple[str, ...]
    remaining: Mapping[str, str]
    sharing: str
    durations: Mapping[str, float]
    limits: Mapping[str, int]

    def dummy(self, rows: int = 1000) -> Table:
        """Return generated rows of the declared shape, made locally: for trying queries, never for conclusions."""
        from sidelight.accuracy.dummy import dummy

        return dummy(self.schema, rows)

    def _repr_html_(self) -> str:
        cells = "".join(f"<tr><td>{shown_html(repr(each))}</td></tr>" for each in self.schema.columns)
        return f"<table><caption>{shown_html(f'{self.name}: {self.promise}')}</caption>{cells}</table>"


def table_from_json(found: Mapping[str, Any]) -> RemoteTable:
    """Read the description of a table."""
    with understood("the description of a table"):
        whole = Section(
            read_json(write_json({"column": found["column"]})), "schema", resolver=NameResolver(frozenset())
        )
        sections = [whole.inside(each, "column", place) for place, each in enumerate(whole.values["column"])]
        table = RemoteTable(
            name=_text(found["name"]),
            schema=read_schema(whole, sections),
            promise=_text(found["promise"]),
            kinds=tuple(map(_text, found["kinds"])),
            remaining=amounts_from_json(found["remaining"]),
            sharing=_text(found["sharing"]),
            durations={kind: _number(seconds) for kind, seconds in found["durations"].items()},
            limits={name: int(_number(most)) for name, most in found["limits"].items()},
        )
        if not _TABLE.fullmatch(table.name):
            raise ValueError(table.name)
        table._repr_html_()  # what cannot be shown is not understood
    return table


def amounts_from_json(found: Any) -> dict[str, str]:
    """Read amounts by the names of a currency."""
    return {name: _text(amount) for name, amount in found.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)


@dataclass(frozen=True, kw_only=True)
class RemotePrice:
    """The price of a query; nothing was charged.

    Args:
        guarantee: What the release would satisfy.
        charge: The charge to the account.
        remaining: The balance of the account.
        after: The balance after the charge; None if it does not fit.
        expected: The expected error and its basis; None if it was not requested.
        seconds: How long the answer takes from its start.
        notes: Warnings of the query.
    """

    guarantee: str
    charge: Mapping[str, str]
    remaining: Mapping[str, str]
    after: Mapping[str, str] | None
    expected: Mapping[str, Any] | None
    seconds: float
    notes: tuple[str, ...]
    request: Mapping[str, Any] = field(repr=False)

    @property
    def fits(self) -> bool:
        """Whether the account can pay it now."""
        return self.after is not None

    def __str__(self) -> str:
        left = "which does not fit" if self.after is None else f"leaves {_words(self.after)}"
        said = [f"{self.guarantee}: costs {_words(self.charge)} of {_words(self.remaining)}, {left}"]
        said += [] if self.expected is None else [f"expected error: {self.expected.get('text', '')}"]
        return "\n".join(map(shown_text, said))

    def _repr_html_(self) -> str:
        return "".join(f"<p>{shown_html(line)}</p>" for line in str(self).split("\n"))


def _words(amounts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items())


def price_from_json(found: Mapping[str, Any]) -> RemotePrice:
    """Read a price."""
    with understood("the price"):
        price = RemotePrice(
            guarantee=_text(found["guarantee"]),
            charge=amounts_from_json(found["charge"]),
            remaining=amounts_from_json(found["remaining"]),
            after=None if found["after"] is None else amounts_from_json(found["after"]),
            expected=None if found["expected"] is None else dict(found["expected"]),
            seconds=_number(found["seconds"]),
            notes=tuple(map(_text, found["notes"])),
            request=dict(found["request"]),
        )
        price._repr_html_()
    return price


@dataclass(frozen=True, kw_only=True)
class Pending:
    """A running paid request; the charge stands even if this object is dropped.

    Args:
        id: Its id on the server, for `remote.fetch(id)`.
        key: The key of the request.
        ready_at: When its answer is ready.
    """

    id: str
    key: str
    ready_at: datetime
    _fetch: Callable[[], Any] = field(repr=False, compare=False)

    def result(self) -> Any:
        """Wait for the answer and return it: of a batch the answers, in the order of its queries.

        Of an `AsyncRemote` it is awaited: `await pending.result()`.
        """
        return self._fetch()


@dataclass(frozen=True, kw_only=True)
class RequestState:
    """The state of a paid request as the server describes it.

    Args:
        id: Its id on the server.
        ready_at: When its answer is ready; another time after the request was repeated.
        ended: Whether there is a result.
        outcomes: What was released: one outcome, or those of a batch.
        error: Why there is none: `ReleaseFailedError` if it was charged and failed, the reason if it was never charged.
        together: Whether it is a batch.
    """

    id: str
    ready_at: datetime
    ended: bool
    outcomes: list[Outcome]
    error: SidelightError | None
    together: bool


def state_from_json(found: Any, *, key: str = "") -> RequestState:
    """Read the state of a request."""
    with understood("the state of a request"):
        state, outcomes = found["state"], found.get("outcomes")
        ready_at = datetime.fromisoformat(found["ready_at"])
        if not RELEASE_ID.fullmatch(found["id"]) or ready_at.tzinfo is None or ready_at.timestamp() < 0:
            raise ValueError(state)
        common = dict[str, Any](id=found["id"], ready_at=ready_at, outcomes=[])
        if state in ("queued", "running"):
            return RequestState(**common, ended=False, error=None, together=False)
        if state == "failed":
            return RequestState(**common, ended=True, error=_failed(key), together=False)
        if state == "dropped":
            return RequestState(**common, ended=True, error=error_of(found.get("problem")), together=False)
        if state not in ("released", "refused"):
            raise ValueError(state)
        texts = [json.dumps(each) for each in (outcomes or [found["outcome"]])]
        common["outcomes"] = list(map(outcome_from_json, texts))
        return RequestState(**common, ended=True, error=None, together=bool(outcomes))


def _failed(key: str) -> ReleaseFailedError:
    named = f" with the key {key!r}" if key else ""
    return ReleaseFailedError(
        f"the release{named} failed after it was charged; the charge stands, and the same key returns this failure. A "
        "new key is a new request, and is charged again"
    )

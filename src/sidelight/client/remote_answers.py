"""Answers of a server: a table's public declarations, a price, and a running request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sidelight.errors import ReleaseFailedError, ServiceError
from sidelight.plans.columns import read_schema
from sidelight.plans.section import NameResolver, Section
from sidelight.readable import shown_html, shown_text
from sidelight.records import Schema, Table
from sidelight.release import Outcome, outcome_from_json
from sidelight.wire import error_of, read_json, write_json


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
    try:
        whole = Section(
            read_json(write_json({"column": found["column"]})), "schema", resolver=NameResolver(frozenset())
        )
        sections = [whole.inside(each, "column", place) for place, each in enumerate(whole.values["column"])]
        return RemoteTable(
            name=str(found["name"]),
            schema=read_schema(whole, sections),
            promise=str(found["promise"]),
            kinds=tuple(map(str, found["kinds"])),
            remaining={str(name): str(amount) for name, amount in found["remaining"].items()},
            sharing=str(found["sharing"]),
            durations={str(kind): float(seconds) for kind, seconds in found["durations"].items()},
            limits={str(name): int(most) for name, most in found["limits"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ServiceError(
            "the description of a table is not understood; is the server newer?", code="unknown"
        ) from None


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
    try:
        return RemotePrice(
            guarantee=str(found["guarantee"]),
            charge=dict(found["charge"]),
            remaining=dict(found["remaining"]),
            after=None if found["after"] is None else dict(found["after"]),
            expected=found["expected"],
            seconds=float(found["seconds"]),
            notes=tuple(map(str, found["notes"])),
            request=dict(found["request"]),
        )
    except (KeyError, TypeError, ValueError):
        raise ServiceError("the price is not understood; is the server newer?", code="unknown") from None


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


def outcomes_of(state: Mapping[str, Any], *, key: str) -> list[Outcome] | None:
    """Return the outcomes of a request's state, one unless it is a batch; None while it runs.

    Raises:
        ReleaseFailedError: it was charged and failed; the same key returns the same failure.
        SidelightError: it was never charged; the error is the reason.
    """
    found = state.get("state")
    if found in ("queued", "running"):
        return None
    if found == "failed":
        raise ReleaseFailedError(
            f"the release with the key {key!r} failed after it was charged; the charge stands, and the same key "
            "returns this failure. A new key is a new request, and is charged again"
        )
    if found == "dropped":
        raise error_of(state.get("problem"))
    outcomes = state.get("outcomes") or [state.get("outcome")]
    if found not in ("released", "refused") or not isinstance(outcomes, list) or not all(map(_is_object, outcomes)):
        raise ServiceError("the state of a request is not understood; is the server newer?", code="unknown")
    return [outcome_from_json(json.dumps(each)) for each in outcomes]


def _is_object(value: object) -> bool:
    return isinstance(value, dict)

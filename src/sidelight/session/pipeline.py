"""The release pipeline: charge, then open the data, then release.

A `Release` or `Refused` is built here and nowhere else. The order is the guarantee: the charge is committed before the
data is opened, a value leaves only after its outcome is recorded, and nothing is ever given back.

`release_once` is `query.release(data)`: one query on a table or a bare array, with exactly the budget that it costs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial
from os import PathLike
from types import MappingProxyType
from typing import Any, Unpack, overload

from sidelight.accounting import batch
from sidelight.aggregates.view_rows import ViewTable
from sidelight.errors import (
    LedgerError,
    NoiseError,
    RangeError,
    ReleaseFailedError,
    SchemaError,
    SourceError,
    StrictError,
)
from sidelight.guarantees import Amount, Claims, Neighbours
from sidelight.ledger import Reservation, Stored
from sidelight.ledger.decide import DECLARED
from sidelight.ledger.scope import ChargeOptions, KeyOptions
from sidelight.mechanisms.meter import Meter
from sidelight.noise import Entropy, OSEntropy, Source
from sidelight.predictions import Origin
from sidelight.predictions.public_data import PublicData
from sidelight.records import Table
from sidelight.release import Circumstances, Outcome, Refused, Release, outcome_from_json
from sidelight.release.values import check_numbers
from sidelight.release.when_asked import unasked
from sidelight.session.accounts import ChargeAccount, DatabaseAccount, OneOffAccount, UnrecordedReservation
from sidelight.session.exact_totals import check_totals, claims_beside, first_totals, remember_totals, totals_in_turn
from sidelight.session.persons_and_periods import PeriodCharge, PreparedOnView, at_share, on_view, period_charge
from sidelight.session.query import (
    Answer,
    ArrayQuery,
    Prepared,
    Query,
    Refusal,
    SureArrayQuery,
    brands_of,
    check_source,
    declared_delta,
    prepare_query,
)
from sidelight.session.suppressed_output import suppress_output
from sidelight.version import VERSION

#: How deep public rows are looked for: a plan in a model in a query in a selection.
_DEPTH = 6


def refuse_own_file(query: Any, table: Table) -> None:
    """Refuse public rows, anywhere in a query, that come from a file of the table. Reads neither of them."""
    for origin in _origins(query, _DEPTH):
        if any(table.is_file(file) for file in origin.files):
            raise RangeError(
                f"the public rows ({origin.description}) are read from the file of the private table: what is learned "
                "from them would be published without protection. Give a file that anyone may see. Nothing was charged"
            )


def _origins(part: Any, depth: int) -> Iterator[Origin]:
    kind: Any = type(part)  # what an object says of its own class may be a cell's
    if issubclass(kind, Origin):
        yield part
    elif issubclass(kind, PublicData):
        yield part.origin
    elif _ours(kind) and isinstance(given := getattr(part, "prediction", None), (str, PathLike)):
        yield PublicData(given, "public rows").origin
    elif depth and not issubclass(kind, (str, bytes, Table)):
        for each in _inside(part, kind):
            yield from _origins(each, depth - 1)


def _inside(part: Any, kind: Any) -> Iterator[Any]:
    """Yield what an object of this library, or of a class made from one of it, a mapping or a short list is made of."""
    if issubclass(kind, (dict, MappingProxyType)):
        yield from part.values()
    elif issubclass(kind, (list, tuple)):
        yield from part[:1000]
    elif _ours(kind):
        named = (each.name for each in fields(kind)) if is_dataclass(kind) else iter(getattr(part, "__dict__", {}))
        yield from (getattr(part, name) for name in named if hasattr(part, name))


@lru_cache(maxsize=1024)
def _ours(kind: Any) -> bool:
    return any(base.__module__.startswith("sidelight.") for base in kind.__mro__)


#: What may leave after the data was opened: a source that vanished or an engine that failed, an objective without a
#: certificate, noise that cannot be drawn here, numerics that were not declared. Their texts hold nothing of a record.
_FIXED_TEXTS = (ReleaseFailedError, SourceError, NoiseError, StrictError)
_WITHHELD = (
    "the release failed after the data was opened; its charge stands, and the cause is not shown because it may depend "
    "on the data. Run the same query with sidelight.testing.seeded_release on public or generated data of the same "
    "schema to see it"
)


def release_through(
    query: Query,
    table: Table,
    account: ChargeAccount,
    *,
    entropy: Entropy,
    strict: bool = False,
    owner: bool = True,
    **options: Unpack[KeyOptions],
) -> Outcome:
    """Price the query, charge it, run it and record what came out.

    `owner=False` is for requests of analysts, who may not see a row. Before the charge nothing then looks at rows: a
    refusal would be an answer without a charge (`check_source`); after it all failures look alike.
    """
    with table.in_turn():  # before the charge: an interrupt while it waits costs nothing
        prepared = _prepare(query, table, strict=strict, entropy=entropy, owner=owner)
        delta = declared_delta(query)
        request = _asked(prepared.request, table, options)
        with _charged([prepared], prepared.claims, account, request, delta=delta, **options) as (reservation, totals):
            if isinstance(reservation, Stored):
                return outcome_from_json(_stored_text(reservation)).at(
                    entry_id=reservation.entry_id, ledger_head=reservation.head
                )
            ((outcome, text),) = _run([prepared], table, reservation, entropy=entropy, owner=owner, totals=totals)
            record = reservation.release if isinstance(outcome, Release) else reservation.refuse
            found = outcome.at(entry_id=reservation.entry_id, ledger_head=record(text))
            if prepared.publishes_totals:
                remember_totals(account, [found])
            return found


def release_batch_through(
    queries: Sequence[Query],
    table: Table,
    account: ChargeAccount,
    *,
    delta: Amount,
    entropy: Entropy,
    strict: bool = False,
    owner: bool = True,
    **options: Unpack[KeyOptions],
) -> list[Outcome]:
    """Charge a fixed batch once, priced together at `delta`, then run its queries in order.

    `owner` as for `release_through`.

    Guarantee: `accounting.batch`, which is valid because number, order and claims of all queries are committed by the
    reservation, before the first runs. Each outcome also carries its own query's claims.
    """
    if not queries:
        raise RangeError("a batch wants at least one query, got none; an empty release has no price")
    with table.in_turn():  # before the charge: an interrupt while it waits costs nothing
        prepared = [_prepare(query, table, strict=strict, entropy=entropy, owner=owner) for query in queries]
        price = batch(claims_beside([each.claims for each in prepared], account), delta=delta)
        request = {"kind": "together", "delta": str(delta), "queries": [dict(each.request) for each in prepared]}
        asked = _asked(request, table, options)
        with _charged(prepared, price, account, asked, together_at=delta, **options) as (reservation, totals):
            if isinstance(reservation, Stored):
                stored = [outcome_from_json(text) for text in json.loads(_stored_text(reservation))]
                return [each.at(entry_id=reservation.entry_id, ledger_head=reservation.head) for each in stored]
            outcomes = _run(prepared, table, reservation, entropy=entropy, owner=owner, totals=totals)
            answered = any(isinstance(outcome, Release) for outcome, _ in outcomes)
            record = reservation.release if answered else reservation.refuse  # a batch of refusals is one
            head = record(json.dumps([text for _, text in outcomes]))
            found = [outcome.at(entry_id=reservation.entry_id, ledger_head=head) for outcome, _ in outcomes]
            remember_totals(account, [one for each, one in zip(prepared, found, strict=True) if each.publishes_totals])
            return found


@contextmanager
def _charged(
    prepared: Sequence[Prepared],
    price: Claims,
    account: ChargeAccount,
    request: Mapping[str, Any],
    *,
    together_at: Amount | None = None,
    **how: Unpack[ChargeOptions],
) -> Iterator[tuple[Reservation | UnrecordedReservation | Stored, Release | None]]:
    """Charge, and find the exact totals that must be repeated: before anything is paid, and again when it is."""
    viewed = any(isinstance(each, PreparedOnView) for each in prepared)
    period = period_charge(prepared, price, delta=together_at) if viewed else None
    if not any(each.publishes_totals or each.claims.neighbours is Neighbours.KEPT for each in prepared):
        yield _reserve(period, price, account, request, **how), None
        return
    check_totals(prepared)
    with totals_in_turn(account):
        first_totals(account, asked=how)
        reservation = _reserve(period, price, account, request, **how)
        if isinstance(reservation, Stored):
            yield reservation, None
            return
        find = partial(first_totals, account, reservation)
        yield reservation, reservation.look(find) if isinstance(reservation, Reservation) else find()


def _reserve(
    period: PeriodCharge | None,
    price: Claims,
    account: ChargeAccount,
    request: Mapping[str, Any],
    **how: Unpack[ChargeOptions],
) -> Reservation | UnrecordedReservation | Stored:
    """Charge the account, and with it the periods whose rows are read; an account without periods grants none."""
    if period is None:
        return account.reserve(price, request=request, **how)
    if not isinstance(account, DatabaseAccount):
        raise LedgerError(
            "the rows have periods with budgets of their own, and nothing here keeps them; release through "
            "sl.Session(database, budget=..., window_budget=..., ledger=...). Nothing was charged"
        )
    return account.reserve_with(period, price, request=request, **how)


def _asked(request: Mapping[str, Any], table: Table, options: KeyOptions) -> dict[str, Any]:
    """Return what a ledger holds of a request: one with a key is the same only if columns are declared the same."""
    return dict(request) if options.get("key") is None else {**request, DECLARED: table.schema.digest()}


def _stored_text(stored: Stored) -> str:
    """Return what the same key bought before."""
    if stored.state == "failed":
        raise ReleaseFailedError(
            "the one attempt that once=True gives this key failed, or was given up; its charge stands and nothing more "
            "was charged. A new key is a new request, and pays again"
        )
    return stored.text


def _prepare(query: Query, table: Table, *, strict: bool, entropy: Entropy, owner: bool) -> Prepared:
    """Find every mistake of the user before anything is charged."""
    if isinstance(query, type) or not hasattr(query, "prepare"):
        got = f"the class {query.__name__}" if isinstance(query, type) else type(query).__name__
        raise RangeError(f"a query was wanted, such as sl.Quantiles([0.5], column='age', epsilon=0.1), got {got}")
    if table.database is not None and not isinstance(table, ViewTable):
        raise SchemaError(
            f"the table {table.name!r} is part of the database {table.database!r}, whose budget is for its people as a "
            "whole; open the session on the database and name the table by of=. Nothing was charged"
        )
    refuse_own_file(query, table)
    asked: Query = at_share(query, table.view) if isinstance(table, ViewTable) else query
    prepared = prepare_query(asked, table.schema)
    if isinstance(table, ViewTable):
        prepared = on_view(prepared, table)
    check_source(prepared, table, owner=owner)
    if not brands_of(prepared.prediction) <= {entropy.branding}:
        raise RangeError(
            "the prediction is a release with seeded noise, which gives no privacy: predicting with it would publish "
            "what it holds. Use one that was released for real, or public data. Nothing was charged"
        )
    if strict and prepared.numerics != "exact":
        raise StrictError(
            f"strict=True wants exact numerics, and a {prepared.request['kind']} release of this form is "
            f"{prepared.numerics}; leave strict out, or see the limitations page for an exact alternative"
        )
    return prepared


def _run(
    prepared: Sequence[Prepared],
    table: Table,
    reservation: Reservation | UnrecordedReservation,
    *,
    entropy: Entropy,
    owner: bool,
    totals: Release | None,
) -> list[tuple[Outcome, str]]:
    """Open the data under a reservation; one noise source a query. Return outcomes with the text that is recorded.

    Once the data has been opened nothing is said: no warning, no log line. Only errors of a few kinds, whose texts are
    fixed, and interrupts pass through, without their causes; anything else might quote a record, or say by its kind
    which check a record failed, and is replaced. For analysts all errors are one, because which of
    them it was may depend on rows. The error is raised, and the failure recorded, outside the handler:
    inside it the cause would be attached to whatever is raised, and printed with it.
    """
    failure: BaseException
    try:
        with suppress_output() if entropy.branding == "os" else nullcontext():
            outcomes: list[tuple[Outcome, str]] = []
            for each in prepared:
                if each.publishes_totals and totals is not None:
                    each = each.with_totals_of(totals)
                found = _run_one(
                    each, table, entropy=entropy, recorded=not isinstance(reservation, UnrecordedReservation)
                )
                outcomes.append(found)
                if each.publishes_totals and totals is None and isinstance(found[0], Release):
                    totals = found[0]
            return outcomes
    except _FIXED_TEXTS as error:
        failure = error if owner else ReleaseFailedError(_WITHHELD)
        failure.__cause__ = failure.__context__ = failure.__traceback__ = None
        error.charge_stands = True
    except KeyboardInterrupt:
        failure = KeyboardInterrupt()
    except SystemExit:
        failure = SystemExit(1)  # its text or status may quote a record
    except BaseException as error:
        failure = ReleaseFailedError(_WITHHELD)
        if entropy.branding != "os":  # a test on data that is not private: show the cause
            failure = error
    with suppress(LedgerError):  # then the attempt stays unfinished, which the next one says
        reservation.fail()
    raise failure


def _run_one(prepared: Prepared, table: Table, *, entropy: Entropy, recorded: bool = True) -> tuple[Outcome, str]:
    """Return the outcome and the text that a ledger records of it, "" without a ledger."""
    meter = Meter(prepared.drawn_claims)
    with Source(
        entropy, declared=prepared.numerics, meter=meter
    ) as source:  # an idealized draw in an exact query raises
        # a file that was replaced would be read in part; rows that a caller brings are compared by their own query
        with nullcontext() if prepared.reads_external_rows else table.unchanged():
            answer = prepared.run(table, source)
        meter.settle()
        outcome = _outcome(answer, prepared, table, source, spending=lambda: meter.spending)
        # a value that cannot be written (NaN) must fail here, not after the release
        if recorded or isinstance(outcome, Refused):
            return outcome, outcome.to_json()
        check_numbers(outcome.value)
        return outcome, ""


def _outcome(
    answer: Answer | Refusal,
    prepared: Prepared,
    table: Table,
    source: Source,
    *,
    spending: Callable[[], tuple[Mapping[str, str], ...]],
) -> Outcome:
    circumstances = Circumstances(
        dataset=table.name,
        engine=table.engine,
        version=VERSION,
        entropy=source.branding,
        numerics=prepared.numerics,
        spending=spending,
    )
    if isinstance(answer, Refusal):
        return Refused(
            query=prepared.request, reason=answer.reason, guarantee=prepared.claims, circumstances=circumstances
        )
    return Release(
        query=prepared.request,
        value=answer.value,
        labels=answer.labels or prepared.labels,
        guarantee=prepared.claims,
        error=unasked(answer, "error") or prepared.error,
        prediction=prepared.prediction,
        circumstances=circumstances,
        details=answer.details,
    )


@overload
def release_once(query: SureArrayQuery, data: Any, *, entropy: Entropy | None = None) -> Release: ...


@overload
def release_once(query: ArrayQuery, data: Any, *, entropy: Entropy | None = None) -> Outcome: ...


def release_once(query: ArrayQuery, data: Any, *, entropy: Entropy | None = None) -> Outcome:
    """Run one query on a table or a bare array, with exactly the budget that it costs."""
    table = data if isinstance(data, Table) else _bare_table(query, data)
    return release_through(query, table, OneOffAccount(), entropy=entropy or OSEntropy())


def _bare_table(query: ArrayQuery, data: Any) -> Table:
    if isinstance(data, list | tuple) and hasattr(query, "table"):
        table: Table = query.table(data)  # a query of rows: a list would be one column, whatever stands in its cells
        return table
    declared = query.declare()
    try:
        return Table(data, schema=[declared])
    except SchemaError:
        if hasattr(type(data), "columns") or isinstance(data, Mapping | str | PathLike):
            raise SchemaError(
                f"one column was wanted, an array or a Series, got {type(data).__name__}, which has named columns; "
                f"write sl.Table(data, schema=[sl.Number(...)]) and {type(query).__name__}(..., column=...)"
            ) from None
        raise

"""Claims of a query on a view of a database, restated for the person with all their rows.

A query prices a view as one table: for `Person(owner, k)`, or, where the view was grouped by the owner, for `Row()`.
Both hold for one person of the database (proof page persons-across-tables, Theorems 1, 2 and 5). Nothing else does:
claims for one row of a view with several rows a person would pass at a fraction of their price, and claims for
replacing a unit rest on a public number of rows, which a view does not have.

Where the database has a window, a release is also charged to the periods whose rows it reads. What one period of a
person costs there is one step if nothing of the person is left in the statistic without it, and two steps otherwise:
the person goes, and comes again without those rows (Theorem 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from sidelight.aggregates.view_rows import ViewTable, open_view, public_tables_read, tables_read
from sidelight.errors import ClaimError, RangeError, SidelightError
from sidelight.guarantees import Claims, Neighbours, Person, PersonOf, PersonPeriod, Row, claims_to_replace
from sidelight.noise import Source
from sidelight.records import PairedView, Table, View
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.session.periods import PeriodCharge
from sidelight.session.query import Answer, Prepared, PublicSource, Refusal

#: How deep the names of columns are looked for in a query.
_DEPTH = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedOnView(Prepared):
    """A query prepared for a view, with its claims for a person of the database."""

    prepared: Prepared
    view: View | PairedView

    @property
    def drawn_claims(self) -> Claims:
        """The claims for the unit of the view: what its draws are compared with."""
        return self.prepared.drawn_claims

    @property
    def is_additive(self) -> bool:
        return self.prepared.is_additive

    @property
    def instead(self) -> str:
        return self.prepared.instead

    def check_source(self, source: PublicSource) -> None:
        self.prepared.check_source(source)

    def check_rows(self, table: Table) -> None:
        self.prepared.check_rows(table)

    def error_of(self, rows: float, *, confidence: float) -> tuple[float, str] | None:
        return self.prepared.error_of(rows, confidence=confidence)

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        return self.prepared.run(table, source)


def on_view(prepared: Prepared, table: ViewTable) -> PreparedOnView:
    """Restate a query that was prepared for a view, and put the view into its request."""
    if prepared.brings_private_data:
        raise RangeError(
            "rows or votes that a caller brings are not the rows of a view, and no cap of the view bounds how many of "
            "them are one person's; name columns of the database instead. Nothing was charged"
        )
    view, window = table.view, table.view.tables.window_text()
    if view.periods is not None and not any(view.tables.date_of(name) for name in tables_read(view)):
        raise RangeError(
            f"{view!r} is within some periods, and reads no table whose rows have a date; leave within out. Nothing "
            "was charged"
        )
    digests = {name: view.tables.public_digest(name) for name in public_tables_read(view)}
    declared = {name: view.tables.schema(name).digest() for name in (*tables_read(view), *digests)}
    described = view.to_json() | {"paths": view.tables.paths(), "declared": declared}
    described |= {"public": digests} if digests else {}
    described |= {} if window is None else {"window": window}
    described |= {} if view.grouped else {"max_rows": str(view.max_rows)}
    return PreparedOnView(
        claims=restated(prepared.claims, view),
        request={**prepared.request, "view": described},
        labels=prepared.labels,
        prediction=prepared.prediction,
        error=prepared.error,
        prepared=prepared,
        view=view,
    )


def period_charge(prepared: Sequence[Prepared], price: Claims) -> PeriodCharge | None:
    """Return what a release is charged to the periods of a window; None if it reads no dated row of one.

    Args:
        prepared: The queries, all on one view.
        price: What they cost together for a person's whole life.
    """
    view = next((each.view for each in prepared if isinstance(each, PreparedOnView)), None)
    window = None if view is None else view.tables.window
    if view is None or window is None or not any(view.tables.date_of(name) for name in tables_read(view)):
        return None
    first, last = (0, len(window.names) - 1) if view.periods is None else view.periods
    # One step: the base has rows of one period only, so without them the person adds nothing. Otherwise rows of other
    # periods, or timeless ones, stay with other values, take free places under a cap, or change their group.
    # Pairs need a row of both sides: one dated side is enough.
    bases = (view.left, view.right) if isinstance(view, PairedView) else (view.base,)
    one_step = first == last and any(view.tables.date_of(base) for base in bases)
    claims = price if one_step else claims_to_replace(price).under(neighbours=Neighbours.ADD_REMOVE)
    whole = (first, last) == (0, len(window.names) - 1)
    return PeriodCharge(
        periods=None if whole else window.names[first : last + 1],
        claims=claims.with_unit(PersonPeriod(view.tables.name, window.length)),
    )


def prepared_for(prepared: Prepared, view: View | PairedView) -> PreparedOnView:
    """Restate a query that was prepared for a view, and refuse one that no view can answer; opens no data."""
    table = open_view(view)
    prepared.check_source(PublicSource.of(table))
    return on_view(prepared, table)


def restated(claims: Claims, view: View | PairedView) -> Claims:
    """Return the claims of a query on a view for one person of its database.

    Raises:
        ClaimError: nothing proves that they hold for a person.
    """
    if claims.neighbours is not Neighbours.ADD_REMOVE:
        raise ClaimError(
            f"claims by '{claims.neighbours}' rest on a public number of rows, and how many rows a view has is not "
            "public; ask for a query that protects adding and removing. Nothing was charged"
        )
    person = view.schema.person
    wanted = Row() if view.grouped else Person(person.name, person.max_rows) if person is not None else None
    if claims.unit != wanted:
        raise ClaimError(
            f"the query protects one {claims.unit}, and on {view!r} claims for one {wanted} hold for a person; "
            "nothing was charged"
        )
    return claims.with_unit(PersonOf(view.tables.name))


def names_in(query: Any) -> tuple[str, ...]:
    """Return every text in a query's public parameters that may name a column; those that do not are ignored."""
    return tuple(dict.fromkeys(_names(query, _DEPTH)))


def _names(part: Any, depth: int) -> Iterator[str]:
    if isinstance(part, Expression):
        yield from part.columns
    elif isinstance(part, str):
        yield part
        yield from _written(part)
    elif not depth or isinstance(part, (bytes, Table)):
        return
    elif isinstance(part, Mapping):
        for key, value in part.items():
            yield from _names(key, depth - 1)
            yield from _names(value, depth - 1)
    elif isinstance(part, (list, tuple)):
        for each in part[:1000]:
            yield from _names(each, depth - 1)
    elif is_dataclass(part) and not isinstance(part, type):
        for each in fields(part):
            if each.name == "prediction":  # its keys are labels or numbers, and name no column
                continue
            yield from _names(getattr(part, each.name, None), depth - 1)


def _written(text: str) -> tuple[str, ...]:
    """Return the columns of a condition that was written as a text."""
    try:
        return parse_expression(text).columns
    except (SidelightError, RecursionError):
        return ()

"""The one small interface that every query fits: describe, prepare against a public schema, run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

from sidelight.errors import ClaimError, RangeError, SchemaError, SidelightError, SourceError
from sidelight.guarantees import Amount, Claims, Numerics
from sidelight.guarantees.amounts import exact
from sidelight.mechanisms.meter import Meter
from sidelight.noise import Source
from sidelight.records import Date, Number, PersonId, Schema, Table
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Named
from sidelight.records.table import NAMELESS
from sidelight.release import Release, TailBound, Value
from sidelight.release.when_asked import WhenAsked
from sidelight.session.suppressed_output import suppress_output


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The value that a prepared query returns, and what was released on the way, as JSON of strings.

    Labels and error are those of the prepared query unless `run` found others; an error may be given as a function of
    what was released, which is called when somebody asks.
    """

    value: Any
    labels: tuple[str, ...] = ()
    error: WhenAsked[TailBound | None] = WhenAsked()  # noqa: RUF009
    details: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a prepared query returns when its private test said no. `reason` is a public text."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class PublicSource:
    """The public description of a table: its declarations, name, and where its rows are. Never how many they are.

    >>> from sidelight.records import Number
    >>> table = Table({"age": [31, 47]}, schema=[Number("age")])
    >>> PublicSource.of(table).engine, PublicSource.of(table).in_memory
    ('numpy', True)
    """

    schema: Schema
    engine: str
    in_memory: bool
    name: str = NAMELESS

    @classmethod
    def of(cls, table: Table) -> Self:
        """Describe a table. Reads no row."""
        return cls(schema=table.schema, engine=table.engine, in_memory=table.in_memory, name=table.name)


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared(ABC):
    """A query fitted to a schema: priced, described and ready to run. Everything but `run` is public.

    A query's `prepare` computes what stands here and adds what is its own; whatever can fail, fails there.

    Args:
        claims: The cost, known before any data is opened: every guarantee that holds for the release.
        request: The public description that the ledger stores, as JSON of strings; has a "kind".
        labels: The names of the value's entries.
        prediction: The side information used, with a "description" and its origin, or None.
        error: A public bound on the error that holds whatever comes out, or None.
    """

    claims: Claims
    request: Mapping[str, Any]
    labels: tuple[str, ...] = ()
    prediction: Mapping[str, Any] | None = None
    error: TailBound | None = None
    #: Whether it reads rows of its own instead of the session's.
    reads_external_rows: ClassVar[bool] = False

    @property
    def brings_private_data(self) -> bool:
        """Whether it holds private data of its own, such as votes or examples: no cap of a view bounds whose it is."""
        return self.reads_external_rows

    @property
    def drawn_claims(self) -> Claims:
        """What the draws of `run` are compared with: `claims`, for the unit of the rows that are read."""
        return self.claims

    @property
    def publishes_totals(self) -> bool:
        """Whether it publishes totals of the rows exactly, because a law says so."""
        return False

    def kept_nodes(self) -> tuple[str, Mapping[str, str]] | None:
        """Return the column by which totals are published exactly, and in which of them each label is counted."""
        return None

    def with_totals_of(self, earlier: Release) -> Self:
        """Return the query with the exact totals that an earlier release of the same kind published."""
        raise ClaimError(f"{earlier.kind} publishes no totals that another release could repeat")

    @property
    def numerics(self) -> Numerics:
        """Whether the released bits themselves have the stated law."""
        return self.claims.numerics

    @property
    def advice(self) -> tuple[str, ...]:
        """What is worth knowing before the charge, in sentences made of public numbers; `sidelight plan` prints it."""
        return ()

    def check_source(self, source: PublicSource) -> None:  # noqa: B027 - most can read every source
        """Raise a `SourceError` if this query cannot read such a source; a function of public facts alone.

        `prepare` sees the schema, which says nothing about files. The pipeline asks before the charge: otherwise the
        query would fail afterwards, and be paid for.
        """

    def check_rows(self, table: Table) -> None:  # noqa: B027 - most bring none
        """Raise if what the query brings along is, by content, rows of the table.

        That is no public fact, but one for the owner, who gets an error and nothing else: no charge, no release. It
        never runs for an analyst's request (`owner=False`): given nine rows that the analyst knows and one guess,
        whether it raises would be an exact answer without a charge.
        """

    def error_of(self, rows: float, *, confidence: float) -> tuple[float, str] | None:
        """Return how far off the value is for a number of rows, and what that rests on; None if no theorem says it.

        Args:
            rows: Of the whole table, a public guess.
            confidence: With which probability it is no further off.
        """
        del rows, confidence
        return None

    @property
    def is_additive(self) -> bool:
        """Whether its statistics are additive over rows: then it runs on remote rows (Spark)."""
        return False

    @property
    def instead(self) -> str:
        """What to ask for instead on remote rows, in words; "" if there is nothing."""
        return ""

    @abstractmethod
    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Touch the data, once, and return the noisy answer. Never raises for a reason that lies in the values."""


def check_source(prepared: Prepared, table: Table, *, owner: bool = True) -> None:
    """Let a prepared query refuse a table that it could not read, before it is charged.

    For the owner of the rows, a CSV file that no standard writer wrote and public rows that are rows of the table are
    refused here, too: no public facts, but the owner gets an error and nothing else, no charge, no entry in the
    ledger, no release. For anybody else (`owner=False`) such a refusal is a free answer. Then nothing looks at a row,
    and a source in which one record can change how others parse is refused whatever it holds.
    """
    if not owner:
        _check_for_strangers(prepared, table)
    prepared.check_source(PublicSource.of(table))
    if not table.hands_rows_over and not (prepared.reads_external_rows or prepared.is_additive):
        instead = prepared.instead and f"; {prepared.instead}"
        raise SourceError(
            f"{prepared.request.get('kind', 'this query')} looks at rows one by one, and the engine {table.engine!r} "
            "only adds rows up where they are; it runs on files, DuckDB and frames in memory: write the columns that "
            f"it needs to Parquet and give the folder{instead}. Nothing was charged"
        )
    with table.in_turn():
        if not prepared.reads_external_rows:
            table.check_records()
        if owner:
            with suppress_output():  # it reads cells, and a warning would tell of one
                prepared.check_rows(table)


def _check_for_strangers(prepared: Prepared, table: Table) -> None:
    if prepared.reads_external_rows:
        raise RangeError("a query with rows of its own is for the owner of the rows alone; nothing was charged")
    if not table.has_typed_records:
        raise SourceError(
            f"the engine {table.engine!r} reads text in which one record can change how others parse, and an "
            "analyst who may not see a row would learn without a charge whether it does; write the table to Parquet. "
            "Nothing was charged"
        )


def metered(prepared: Prepared, table: Table, source: Source) -> Answer | Refusal:
    """Run a query within a meter of its own: what it draws is compared with its claims before anything leaves."""
    meter = Meter(prepared.drawn_claims)
    with source.metered_by(meter):
        answer = prepared.run(table, source)
    meter.settle()
    return answer


class Query(Protocol):
    """A frozen description of what is asked, made of public parameters only."""

    def prepare(self, schema: Schema) -> Prepared:
        """Check the query against the schema and price it; every mistake of the user is found here."""
        ...


def declared_delta(query: Query) -> Amount | None:
    """Return the delta that a query's price was declared at, None where it declares none.

    A Gaussian release that is asked for by epsilon and delta proves a mu, which stands for a whole curve of pairs: the
    budget adds up the declared one. It is a hint: what is charged is what the claims prove at that delta.
    """
    found = getattr(query, "delta", None)
    return found if getattr(query, "epsilon", None) is not None else None


def price_of(query: Any) -> tuple[str, Amount]:
    """Return the name and the amount of a query's price: epsilon, mu or rho."""
    asked = getattr(query, "model", query)
    for name in ("epsilon", "mu", "rho"):
        amount = getattr(asked, name, None)
        if amount is not None:
            return name, amount
    raise RangeError(f"{type(asked).__name__} has no price that can be changed: no epsilon, mu or rho")


def at_price(query: Any, factor: Amount) -> Any:
    """Return the same query at a multiple of its epsilon or mu; a rho, which grows as their square, at its square.

    >>> import sidelight as sl
    >>> at_price(sl.Quantiles([0.5], epsilon="0.5"), 4).epsilon
    Fraction(2, 1)
    """
    name, amount = price_of(query)
    times = exact(factor, name="factor")
    changed = {name: exact(amount, name=name) * (times**2 if name == "rho" else times)}
    if hasattr(query, "model"):
        from sklearn.base import clone

        return replace(query, model=clone(query.model).set_params(**changed))
    return replace(query, **changed)


PreparedKind = TypeVar("PreparedKind", covariant=True)


class _Prepares(Protocol[PreparedKind]):
    def prepare(self, schema: Schema) -> PreparedKind: ...


def prepare_query(query: _Prepares[PreparedKind], schema: Schema) -> PreparedKind:
    """Prepare a query; an error of arithmetic, which no row can cause here, becomes one about its public numbers."""
    if all(isinstance(column, PersonId) for column in schema.columns) and not schema.links:
        raise SchemaError(
            "a schema needs at least one Number or Category column, unless it is of a table of a database"
        )
    with public_numbers(getattr(query, "kind_name", type(query).__name__)):
        prepared: PreparedKind = _dated(query.prepare(schema), schema)
        return prepared


def _dated(prepared: Any, schema: Schema) -> Any:
    """Return a query of a column of dates with how they are counted in its request: part of what its numbers mean."""
    if not isinstance(prepared, Prepared):
        return prepared
    asked = prepared.request.get("column", prepared.request.get("columns"))
    names = asked if isinstance(asked, list) else [asked]
    found = {each: dates for each in names if isinstance(each, str) and (dates := _counting_of(each, schema))}
    if not found:
        return prepared
    counted = {"columns": found} if isinstance(asked, list) else found[asked]
    return replace(prepared, request={**prepared.request, "dates": counted})


def _counting_of(text: str, schema: Schema) -> dict[str, str] | None:
    """Return how a column or an expression counts, as its request writes it, if it is a date."""
    if not any(isinstance(each, Date) for each in schema.columns):
        return None
    named = text in {each.name for each in schema.columns}
    try:
        calendar = (Named(text) if named else parse_expression(text)).calendar_in(schema)
    except SidelightError:  # no expression, or not of these columns
        return None
    return None if calendar is None else {"unit": calendar.unit, "start": calendar.text(0)}


@contextmanager
def public_numbers(name: str) -> Iterator[None]:
    """Turn errors of arithmetic into a refusal in words. Only for work before a charge, which sees no row."""
    try:
        yield
    except RecursionError:
        raise RangeError(
            f"{name} cannot be prepared: a condition or expression of it has too many parts one inside the other, "
            "hundreds of AND or OR for one; write x in [...], IN (...) or a range instead. Nothing was charged"
        ) from None
    except ArithmeticError as error:
        raise RangeError(
            f"{name} cannot be prepared: one of its public numbers, or of the schema's, is too large, too "
            f"small or too far from the others for floating point ({type(error).__name__}). Nothing was charged; "
            "change the unit of a column, or give a number of a more usual size"
        ) from None


class SurePrepared(Prepared):
    """A prepared query that always answers: only propose-test-release can refuse."""

    @abstractmethod
    def run(self, table: Table, source: Source) -> Answer:
        """Touch the data, once, and return the noisy answer."""


class SureQuery(Query, Protocol):
    """A query that is never refused by a private test; its result is a `Release` for type checkers, too."""

    def prepare(self, schema: Schema) -> SurePrepared:
        """Check the query against the schema and price it."""
        ...


class TypedQuery(SureQuery, Protocol[Value]):
    """A query that is never refused and says of what type its value is, by what its own `release` returns."""

    def release(self, data: Any) -> Release[Value]:
        """Release from data with exactly this query's budget and no ledger."""
        ...


class ArrayQuery(Query, Protocol):
    """A query that can also be asked of one bare array, because it can say what the array holds."""

    def declare(self) -> Number:
        """Return the declaration of the single column that an array becomes."""
        ...


class SureArrayQuery(SureQuery, ArrayQuery, Protocol):
    """A query of one bare array that is never refused."""


def brands_of(described: Any) -> set[str]:
    """Return the brands in the description of a prediction, of the whole and of its parts."""
    if isinstance(described, Mapping):
        own = {str(described["entropy"])} if "entropy" in described else set()
        return own.union(*map(brands_of, described.values()))
    return set().union(*map(brands_of, described)) if isinstance(described, (list, tuple)) else set()

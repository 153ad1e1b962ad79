"""The one small interface that every query fits: describe, prepare against a public schema, run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from sidelight.errors import RangeError
from sidelight.guarantees import Claims
from sidelight.noise import Source
from sidelight.records import Number, Schema, Table
from sidelight.release import TailBound


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a prepared query hands to the door: a value, names of its entries and a public bound on its error."""

    value: Any
    labels: tuple[str, ...] = ()
    error: TailBound | None = None


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a prepared query hands to the door when its private test said no. `reason` is a public text."""

    reason: str


class Prepared(Protocol):
    """A query fitted to a schema. Everything but `run` is a function of public parameters alone.

    One that cannot read every kind of source has `check_source` as well (`session.source_check.ChecksSource`).
    """

    @property
    def claims(self) -> Claims:
        """The price: every claim that holds for the release, known before any data is opened."""
        ...

    @property
    def numerics(self) -> Literal["exact", "idealized"]:
        """Whether the released bits themselves have the stated law."""
        ...

    @property
    def request(self) -> Mapping[str, Any]:
        """The public description that the ledger stores, as JSON of strings; has a "kind"."""
        ...

    @property
    def prediction(self) -> Mapping[str, Any] | None:
        """The side information used, with a "description" and its origin, or None."""
        ...

    def run(self, table: Table, source: Source) -> Answer | Refusal:
        """Touch the data, once, and return the noisy answer. Never raises for a reason that lies in the values."""
        ...


class Query(Protocol):
    """A frozen description of what is asked, made of public parameters only."""

    def prepare(self, schema: Schema) -> Prepared:
        """Check the query against the schema and price it; every mistake of the user is found here."""
        ...


PreparedKind = TypeVar("PreparedKind", covariant=True)


class _Prepares(Protocol[PreparedKind]):
    def prepare(self, schema: Schema) -> PreparedKind: ...


def prepare_query(query: _Prepares[PreparedKind], schema: Schema) -> PreparedKind:
    """Prepare a query; an error of arithmetic, which no row can cause here, becomes one about its public numbers."""
    with public_numbers(getattr(query, "kind_name", type(query).__name__)):
        return query.prepare(schema)


@contextmanager
def public_numbers(name: str) -> Iterator[None]:
    """Turn errors of arithmetic into a refusal in words. Only for work before a charge, which sees no row."""
    try:
        yield
    except (ArithmeticError, RecursionError) as error:
        raise RangeError(
            f"{name} cannot be prepared: one of its public numbers, or of the schema's, is too large, too "
            f"small or too far from the others for floating point ({type(error).__name__}). Nothing was charged; "
            "change the unit of a column, or give a number of a more usual size"
        ) from None


class SurePrepared(Prepared, Protocol):
    """A prepared query that always answers: only propose-test-release can refuse."""

    def run(self, table: Table, source: Source) -> Answer:
        """Touch the data, once, and return the noisy answer."""
        ...


class SureQuery(Query, Protocol):
    """A query that is never refused by a private test; its result is a `Release` for type checkers, too."""

    def prepare(self, schema: Schema) -> SurePrepared:
        """Check the query against the schema and price it."""
        ...


class ArrayQuery(Query, Protocol):
    """A query that can also be asked of one bare array, because it can say what the array holds."""

    def declare(self) -> Number:
        """Return the declaration of the single column that an array becomes."""
        ...


class SureArrayQuery(SureQuery, ArrayQuery, Protocol):
    """A query of one bare array that is never refused."""

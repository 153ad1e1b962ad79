"""`Database`: several tables about the same people, one kind of protected person, one budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sidelight.errors import SchemaError
from sidelight.guarantees.units import PersonOf
from sidelight.records.expressions import Expression
from sidelight.records.fold import Fold
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.paired_views import PERSON, PairedView
from sidelight.records.rows import Rows
from sidelight.records.source_protocols import SharesMoment
from sidelight.records.table import Table
from sidelight.records.views import View
from sidelight.records.windows import Window


class Database:
    """Hold several tables about the same people, and public code lists.

    Guarantee: neighbours differ by one person with all rows that they own in all tables (docs: proofs, persons across
    tables). Making a database checks metadata and reads public tables; no private row is read.

    Args:
        tables: The tables by name. A private one declares `PersonId` or `PersonVia`; the others are `public=True`.
        name: A public name for ledgers and reports.
        window: The periods of dated rows, where what a person did in one has a budget of its own.

    >>> import sidelight as sl
    >>> shop = Database(
    ...     {
    ...         "orders": sl.Table(
    ...             {"id": [1, 2], "who": ["a", "b"]},
    ...             schema=[sl.PersonId("who", max_rows=9), sl.Key("id")],
    ...         ),
    ...         "lines": sl.Table(
    ...             {"id": [1, 1, 2], "price": [3, 4, 5]},
    ...             schema=[sl.PersonVia("id", to="orders", max_rows=50), sl.Number("price", lower=0, upper=9)],
    ...         ),
    ...     },
    ...     name="shop",
    ... )
    >>> shop.view("lines").schema.unit
    Person(column='orders.who', max_rows=50)
    """

    __slots__ = ("_linked",)

    def __init__(self, tables: Mapping[str, Table], *, name: str, window: Window | None = None) -> None:
        if not isinstance(tables, Mapping) or not tables:
            raise SchemaError(
                "a database wants its tables by name: sl.Database({'visit': sl.Table(...)}, name='clinic')"
            )
        if window is not None and not isinstance(window, Window):
            raise SchemaError(
                f"window is sl.Window('month', start=..., end=..., dates=...), got {type(window).__name__}"
            )
        unit = PersonOf(name)
        self._linked = LinkedTables(tables, name=unit.database, window=window)
        private: list[Rows] = []
        for table in self._linked.tables.values():
            table.join_database(unit.database)
            if isinstance(table.rows, SharesMoment) and not table.is_public:
                table.rows.read_at_moment_of(private)
                private.append(table.rows)

    @property
    def name(self) -> str:
        """The public name."""
        return self._linked.name

    @property
    def unit(self) -> PersonOf:
        """The protected unit: one person with all rows that they own."""
        return PersonOf(self.name)

    @property
    def linked(self) -> LinkedTables:
        """The tables and how they are tied together."""
        return self._linked

    def __getitem__(self, name: str) -> Table:
        return self._linked.table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._linked.tables)

    def view(self, base: str, *, columns: Iterable[str] = (), **features: Fold) -> View:
        """Describe the owned rows of a table.

        Args:
            base: The name of the table.
            columns: Looked-up columns by their path, "customer.segment"; those that a query names are added anyway.
            features: Folds of rows that name the key of a row of the base, by the name of their column.

        Returns:
            The view, for `of=` of `session.release`. No row is read.
        """
        return View(tables=self._linked, base=base, features=features, columns=tuple(columns))

    def pairs(
        self,
        left: str,
        right: str,
        *,
        on: str | tuple[str, str] = PERSON,
        where: Expression | None = None,
        max_rows: int,
        columns: Iterable[str] = (),
    ) -> PairedView:
        """Describe the pairs of a row of one table and a row of another that the same person owns.

        Guarantee: a person adds at most `max_rows` pairs, whatever their rows (docs: proofs, persons across tables,
        Theorem 4). Each side is cut to the `max_rows` of its table first.

        Args:
            left: The name of one table.
            right: The name of the other, or the same: a row then meets itself, and each pair comes in both orders.
            on: "person", or the table that both rows must refer to by the same key; a reference may be written by its
                columns, and two of them where the sides differ.
            where: Which pairs there are, by "left table.column" and "right table.column" ("left." and "right." of a
                table with itself).
            max_rows: The most pairs of one person that count, 1 to 2^20.
            columns: Looked-up columns by their path; those that a query names are added anyway.

        Returns:
            The view, for `of=` of `session.release`. No row is read.
        """
        return PairedView(
            tables=self._linked, left=left, right=right, on=on, where=where, max_rows=max_rows, columns=tuple(columns)
        )

    def __repr__(self) -> str:
        return f"Database({self.name!r}, tables={list(self._linked.tables)})"


def per_person(
    database: Database,
    *,
    of: str,
    where: Expression | None = None,
    columns: Iterable[str] = (),
    **features: Fold,
) -> View:
    """Describe one row for each person who owns a row of a table, with folds of the person's rows as columns.

    Guarantee: a row is a person, enforced by grouping by the owner, so a query costs what it costs for one row.

    Args:
        database: The tables.
        of: The table whose owners have a row; its columns are there too if it has one row a person.
        where: Which of its rows count.
        columns: Looked-up columns by their path.
        features: Folds over the person's rows, by the name of their column.

    Returns:
        The view, for `of=` of `session.release`. No row is read.

    >>> import sidelight as sl
    >>> columns = [sl.PersonId("patient", max_rows=9), sl.Number("days", lower=0, upper=30)]
    >>> visits = sl.Table({"patient": [1, 1, 2], "days": [3, 1, 8]}, schema=columns)
    >>> clinic = sl.Database({"visit": visits}, name="clinic")
    >>> people = sl.per_person(clinic, of="visit", visits=sl.fold.count("visit", upper=9))
    >>> session = sl.Session(clinic, budget=sl.PureDP(1))
    >>> session.release(sl.Count(epsilon=1), of=people).guarantee.unit
    PersonOf(database='clinic')
    """
    return View(tables=database.linked, base=of, grouped=True, where=where, features=features, columns=tuple(columns))

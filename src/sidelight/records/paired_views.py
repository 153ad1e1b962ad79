"""Pairs of rows of one person, from two tables or from one table twice. Descriptions only, no row is read.

The only join that multiplies rows, so each side is cut before it: at most k_left·k_right pairs of a person are ever
made (docs: proofs, persons across tables, Theorem 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from sidelight.errors import SchemaError, nearest
from sidelight.records.columns import Category, PersonId, checked_limit
from sidelight.records.expression_shapes import TruthShape
from sidelight.records.expressions import Expression, Joined
from sidelight.records.linked_tables import LinkedTables
from sidelight.records.schema import Schema
from sidelight.records.views import ROW, Cap, View, called, check_by_period, places_within, steps_of_life

#: The most pairs of one person that may be made: they are held at once.
MOST_PAIRS = 1 << 24
#: What `on` says if rows meet all rows of the same person.
PERSON = "person"


@dataclass(frozen=True, kw_only=True, eq=False)
class PairedView:
    """Describe the pairs of a row of one table and a row of another that the same person owns.

    `db.pairs(...)` makes one. Columns are called by the table and their name, "visit.days"; of a table with itself,
    "left.days" and "right.days". The name alone suffices where one side has it, or has it by a shorter path.

    Args:
        tables: The tables of the database.
        left: The table of the first rows.
        right: The table of the second rows.
        on: "person", or what both rows must name: a table by its name, or the columns of a reference joined by "+"; two
            of these where the sides differ. Rows that name nothing are in no pair.
        where: Which pairs there are. Parts joined by `&` that name one side choose its rows before they are cut.
        max_rows: The most pairs of one person that count.
        columns: Further columns, as they are written: "visit.ward.floor".
        periods: Places of the first and the last period of the database's window whose dated rows count; None for all.
        cap: Whether all caps are on a person's whole life, or on each of the periods; see `View.within`.
    """

    tables: LinkedTables
    left: str
    right: str
    on: str | tuple[str, str] = PERSON
    where: Expression | None = None
    max_rows: int
    columns: tuple[str, ...] = ()
    periods: tuple[int, int] | None = None
    cap: Cap = "person"
    grouped: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_rows", checked_limit(self.max_rows, name="max_rows of pairs"))
        caps = [self.tables.max_rows(side.base) for side in self._bare]
        if caps[0] * caps[1] > MOST_PAIRS:
            raise SchemaError(
                f"a person may have {caps[0]} rows of {self.left!r} and {caps[1]} of {self.right!r} (max_rows), which "
                f"make {caps[0] * caps[1]} pairs, and at most {MOST_PAIRS} are made; declare fewer, or fold one of them"
            )
        object.__setattr__(self, "max_rows", min(self.max_rows, caps[0] * caps[1]))
        _ = self.links
        if self.where is not None:
            named = [name for name in dict.fromkeys(self.where.columns) if name not in self.columns]
            # those that do not stand in the view under their name anyway
            short = [name for name in named if name not in self._own and self.find(name) is not None]
            object.__setattr__(self, "columns", (*self.columns, *short))
            if not isinstance(self.where.check(self.schema), TruthShape):
                raise SchemaError(f"where must be a condition, and {self.where} is none")
        _ = self.schema  # every mistake is found here
        if self.cap == "block":
            check_by_period(self, [self.left, self.right])

    @property
    def base(self) -> str:
        """What the rows are called."""
        return f"{self.left}+{self.right}"

    @property
    def prefixes(self) -> tuple[str, str]:
        """What stands in front of the columns of each side."""
        return ("left", "right") if self.left == self.right else (self.left, self.right)

    @cached_property
    def _bare(self) -> tuple[View, View]:
        return View(tables=self.tables, base=self.left), View(tables=self.tables, base=self.right)

    @cached_property
    def links(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The columns in which the two rows must name the same row of another table; None: all of the person's meet."""
        if self.on == PERSON:
            return None
        given = (self.on, self.on) if isinstance(self.on, str) else tuple(self.on)
        if len(given) != 2:
            raise SchemaError(f"on= is 'person', a table, or one reference for each side, got {self.on!r}")
        (one, first), (two, second) = (self._link(side.base, on) for side, on in zip(self._bare, given, strict=True))
        if first != second:
            raise SchemaError(
                f"the rows of {self.left!r} name rows of {first!r}, and those of {self.right!r} {second!r}"
            )
        return one, two

    @property
    def linked_table(self) -> str:
        """The table whose key both rows name."""
        assert self.links is not None
        return self._link(self.left, self.on if isinstance(self.on, str) else self.on[0])[1]

    def _link(self, side: str, on: str) -> tuple[tuple[str, ...], str]:
        """Return the columns by which rows of a side name rows of a table, and that table."""
        key = self.tables.schema(side).key
        if side == on and key is not None:
            return key.columns, side
        ways = self.tables.links_of(side)
        fitting = [(columns, to) for columns, to in ways if on in (to, "+".join(columns))]
        if len(fitting) != 1:
            known = [PERSON, *dict.fromkeys(name for columns, to in ways for name in (to, "+".join(columns)))]
            lead = "no reference leads" if not fitting else "two references lead"
            raise SchemaError(f"{lead} from {side!r} to {on!r}; {nearest(str(on), known)}")
        return fitting[0]

    def find(self, name: str) -> tuple[int, str] | None:
        """Return the side, 0 or 1, on which a name is a column, and its name there; None if both have it as near."""
        for place, (prefix, side) in enumerate(zip(self.prefixes, self._bare, strict=True)):
            inner = name.removeprefix(f"{prefix}.")
            if inner != name and side.find(inner) is not None:
                return place, inner
        ways = {place: len(found.steps) for place, side in enumerate(self._bare) if (found := side.find(name))}
        nearer = [place for place, steps in ways.items() if steps == min(ways.values())]
        return (nearer[0], name) if len(nearer) == 1 else None

    @cached_property
    def _own(self) -> dict[str, tuple[int, str]]:
        """The columns of the two tables, by their names here: the side, and the name there."""
        return {
            f"{prefix}.{each.name}": (place, each.name)
            for place, (prefix, side) in enumerate(zip(self.prefixes, self._bare, strict=True))
            for each in self.tables.schema(side.base).columns
            if not isinstance(each, PersonId)
        }

    @cached_property
    def named(self) -> dict[str, tuple[int, str]]:
        """All columns by their names here: the side, and the name there."""
        found = dict(self._own)
        for name in self.columns:
            place = self.find(name)
            if place is None:
                raise SchemaError(f"{name!r} is no column of {self!r}; {nearest(name, list(self._own))}")
            found[name] = place
        return found

    @cached_property
    def sides(self) -> tuple[View, View]:
        """The views of the two tables, with the columns that are named here."""
        left, right = (
            side.reading(name for place, name in self.named.values() if place == at)
            for at, side in enumerate(self._bare)
        )
        return left, right

    @cached_property
    def schema(self) -> Schema:
        """The declarations of the view: the owner, with the cap of the pairs, and the columns of both sides."""
        columns: list[Any] = [PersonId(self.tables.owner_name(self.left), max_rows=self.max_rows)]
        declared = [{each.name: each for each in side.schema.columns} for side in self.sides]
        columns += [called(name, declared[place][inner]) for name, (place, inner) in self.named.items()]
        return Schema(columns if len(columns) > 1 else [*columns, Category(ROW, ["row"])])

    def read_of(self, side: int, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of a side that some names mean, each once, in an order that no name decides.

        Own columns come first, in the order of their schema; then those of other tables, by the places of the steps
        that lead there.
        """
        found: dict[tuple[Any, ...], str] = {}
        for name in sorted(names):
            place, inner = self.named.get(name, (None, ""))
            column = self._bare[side].find(inner) if place == side else None
            if column is None:
                continue
            at = self._bare[side].base
            steps: list[int] = []
            for step in column.steps:
                steps.append(list(self.tables.steps(at)).index(step))
                at = step.to
            known = self.tables.schema(at).names
            last = known.index(column.column.name) if column.column.name in known else len(known)
            found.setdefault((len(steps), *steps, last), name)
        return tuple(found[key] for key in sorted(found))

    def conditions(self) -> tuple[list[Expression], list[Expression], list[Expression]]:
        """Return the parts of `where` that name the left side alone, the right side alone, and the others."""
        found: tuple[list[Expression], list[Expression], list[Expression]] = ([], [], [])
        for part in () if self.where is None else _parts(self.where):
            sides = {self.named[name][0] for name in part.columns}
            found[sides.pop() if len(sides) == 1 else 2].append(part)
        return found

    def reading(self, names: Iterable[str]) -> PairedView:
        """Return the view with those of the names that are columns of one side; others are left out."""
        more = [name for name in dict.fromkeys(names) if name not in self.named and self.find(name) is not None]
        return replace(self, columns=(*self.columns, *more)) if more else self

    def within(self, first: str, last: str | None = None, *, cap: Cap = "person") -> PairedView:
        """Return the pairs of the dated rows of some periods; timeless rows all stay. See `View.within`."""
        return replace(self, periods=places_within(self, first, last, cap), cap=cap)

    @property
    def steps_of_life(self) -> int:
        """How many owners of the view one person may be: the periods, where each is capped alone, and otherwise 1."""
        return steps_of_life(self)

    def followed(self) -> Iterator[tuple[str, str]]:
        """Return each two tables between which a side follows a reference, or finds rows of the same person."""
        for side in self.sides:
            yield from side.followed()

    def to_json(self) -> dict[str, Any]:
        """Return the public description for the request that a ledger stores, as JSON of strings."""
        found: dict[str, Any] = {"database": self.tables.name, "of": self.left, "pairs_with": self.right}
        if self.periods is not None and self.tables.window is not None:
            found["within"] = [self.tables.window.names[place] for place in self.periods]
        found |= {"cap": self.cap} if self.cap != "person" else {}
        found["on"] = self.on if isinstance(self.on, str) else " ".join(self.on)
        found |= {"where": str(self.where)} if self.where is not None else {}
        lookups = {name: self._whole_name(name) for name in self.columns}
        return found | ({"lookups": lookups} if lookups else {})

    def _whole_name(self, name: str) -> str:
        place, inner = self.named[name]
        column = self._bare[place].find(inner)
        assert column is not None
        return f"{self.prefixes[place]}.{column.name}"

    def __repr__(self) -> str:
        return f"pairs({self.tables.name!r}, {self.left!r}, {self.right!r}, on={self.on!r}, max_rows={self.max_rows})"


def _parts(condition: Expression) -> Iterator[Expression]:
    """Return the conditions that must all hold."""
    if isinstance(condition, Joined) and condition.word == "and":
        yield from _parts(condition.left)
        yield from _parts(condition.right)
    else:
        yield condition

"""Translate a statement into the fewest queries of the library that answer all of its numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from sidelight.errors import RangeError
from sidelight.guarantees import Claims, exact, for_group, short_text
from sidelight.quantiles.prepared import level_name
from sidelight.records import PairedView, Schema, View
from sidelight.records.expression_text import conjoin
from sidelight.records.expressions import Expression, IsMissing, Named, Not
from sidelight.registry import load_query
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.noise_choice import choose_noise
from sidelight.summaries.sql_aggregates import SelectItem
from sidelight.summaries.sql_statement import Select

#: The query that answers a function, and the column of its table that holds the number.
_ANSWERS: Mapping[str, tuple[str, str]] = {
    "count": ("count", "count"),
    "persons": ("count", "count"),
    "distinct": ("count_distinct", "distinct"),
    "sum": ("sum", "sum"),
    "mean": ("mean", "mean"),
    "proportion": ("proportion", "proportion"),
    "variance": ("variance", "variance"),
    "standard_deviation": ("standard_deviation", "sd"),
    "quantile": ("quantiles", ""),
}
#: The column that a query is about.
ANSWERS_OF: Mapping[str, str] = {kind: column for kind, column in _ANSWERS.values() if column}
#: Further numbers in the table of a query, at the same price.
_ALSO: Mapping[str, Mapping[str, str]] = {
    "mean": {"count": "count"},
    "variance": {"mean": "mean", "count": "count"},
    "standard_deviation": {"mean": "mean", "count": "count"},
    "proportion": {"count": "count"},
}


@dataclass(frozen=True, kw_only=True)
class AskedQuery:
    """One query of a statement, as a user of the library would write it, and the numbers that it serves."""

    kind: str
    subject: tuple[Any, ...]
    options: Mapping[str, Any]
    serves: tuple[tuple[str, str], ...]  # the name of each number in the answer, and its column in the query's table
    clauses: Mapping[str, str] = field(default_factory=dict)  # of numbers that SELECT does not show: where they stand

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its numbers in the answer."""
        return tuple(name for name, _ in self.serves)

    def build(self) -> Any:
        """Return the query."""
        return load_query(self.kind)(*self.subject, **self.options)

    def __str__(self) -> str:
        given = [_text(each) for each in self.subject]
        given += [f"{name}={_text(value)}" for name, value in self.options.items() if name != "prediction"]
        given += ["prediction=..."] if "prediction" in self.options else []
        said = [f"{name} (of {self.clauses[name]} alone)" if name in self.clauses else name for name in self.names]
        return f"{load_query(self.kind).__name__}({', '.join(given)}) for {', '.join(said)}"


@dataclass(frozen=True, kw_only=True)
class Translation:
    """The queries that would run for a statement, and what they cost together. Nothing has run."""

    queries: tuple[AskedQuery, ...]
    claims: Claims
    notes: tuple[str, ...] = ()

    def over(self, view: View | PairedView) -> Translation:
        """Return it with what was clamped in the columns of a database's view."""
        features = {} if isinstance(view, PairedView) else view.features
        notes = [*self.notes]
        notes += [
            f"{name}: at most {each.upper} rows count, the max_rows of {each.table!r}; comparisons count all of them"
            for name, each in features.items()
            if each.kind in ("count", "distinct") and each.upper == view.tables.max_rows(each.table) != 1
        ]
        notes += [
            f"{name}: rounded down to whole steps of {short_text(exact(each.granularity, name='granularity'))}"
            for name, each in features.items()
            if each.kind == "mean" and each.granularity is not None
        ]
        if (steps := view.steps_of_life) > 1:
            notes.append(f"the price of each of {steps} periods is that of the queries; all of them together:")
        life = self.claims.map(lambda claim: for_group(claim, steps))
        return replace(self, notes=tuple(notes), claims=life)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.queries), *self.notes, f"price: {self.claims.strongest}"])

    __repr__ = __str__


def asked_of(select: Select) -> list[AskedQuery]:
    """Return the fewest queries that answer all numbers of a statement."""
    items = [item for item in select.items if item.function is not None]
    whole: dict[str, Any] = {"by": list(select.by)} if select.by else {}
    if select.where is not None:
        whole["where"] = select.where
    if select.rollup:
        whole["rollup"] = True
    queries: dict[_Home, list[SelectItem]] = {}
    for item in sorted(items, key=_power, reverse=True):  # what serves others comes first
        queries.setdefault(_home(item, queries), []).append(item)
    return [_one(kind, served, whole) for (kind, *_), served in queries.items()]


def _power(item: SelectItem) -> int:
    assert item.function is not None
    return len(_ALSO.get(_ANSWERS[item.function][0], {}))


#: A query: its kind, what it is about, its condition and its ddof. A column may be called "rows", or "None".
_Home: TypeAlias = tuple[str, tuple[str, ...], str | None, int | None]


def _home(item: SelectItem, queries: Mapping[_Home, Sequence[SelectItem]]) -> _Home:
    """Return which query answers a number: one that is asked anyway of the same rows, or its own."""
    assert item.function is not None
    kind, _ = _ANSWERS[item.function]
    own = ("persons",) if item.function == "persons" else ("rows",) if item.of is None else ("of", str(item.of))
    condition = None if item.where is None else str(item.where)
    for other, of, where, ddof in queries:
        about = item.function == "count" and item.of is None and other != "proportion"
        if item.function in _ALSO.get(other, {}) and (about or of == own) and where == condition:
            return other, of, where, ddof
    return kind, own, condition, item.ddof


def _one(kind: str, served: Sequence[SelectItem], whole: Mapping[str, Any]) -> AskedQuery:
    """Write the query of these numbers."""
    main = next(item for item in served if item.function is not None and _ANSWERS[item.function][0] == kind)
    options = dict(whole)
    subject: tuple[Any, ...] = () if main.of is None else (_subject(main.of),)
    conditions = [options["where"]] if "where" in options else []
    if main.where is not None:
        conditions.append(main.where)
    if kind == "count":
        subject = ()
        options["of"] = "persons" if main.function == "persons" else "rows"
        if main.function == "count" and main.of is not None:  # COUNT(column): rows that have a value
            conditions.append(Not(IsMissing(main.of)))
    if conditions:
        options["where"] = conjoin("and", conditions)
    if main.ddof is not None:
        options["ddof"] = main.ddof
    if kind == "quantiles":
        levels = sorted({item.level for item in served if item.level is not None})
        subject, options = ([*levels],), {"column": _subject(main.of), **options}
    return AskedQuery(
        kind=kind,
        subject=subject,
        options=options,
        serves=tuple((item.name, _column(item, kind)) for item in served),
        clauses={item.name: item.clause for item in served if item.clause != "SELECT"},
    )


def check_same_rows(shown: Mapping[str, Any] | None, numbers: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse arithmetic of a SUM over all rows of a person and a number over `max_rows` of them.

    Args:
        shown: The program of a statement.
        numbers: The request of the query of each number.
    """
    sums = {name for name, request in numbers.items() if request.get("per") == "person"}
    kinds = ("sum", "count_distinct")
    every = {name for name, request in numbers.items() if request["kind"] in kinds or request.get("of") == "persons"}

    def meet(tree: Any) -> set[str]:
        """Return the numbers that the value of a tree is computed from; those of conditions only choose it."""
        word, *parts = tree
        if word in ("number", "key", "constant"):
            return {parts[0]} if word == "number" else set()
        if word == "case":
            *branches, default = parts
            parts = [result for _, result in branches] + [default]
            for condition, _ in branches:
                meet(condition)
        found: set[str] = set().union(*map(meet, parts))
        if word in ("and", "or", "not", "is null"):
            return set()
        if found & sums and found - every:
            raise RangeError(
                f"{min(found & sums)} adds up all rows of a person, and {min(found - every)} is about at most max_rows "
                "of them, so what is computed from both means nothing; write AVG, divide by COUNT(DISTINCT person), or "
                "give max_rows_per_group=, which limits the rows of both"
            )
        return found

    program = {"columns": [], "order": [], "having": ["constant", "null", ""], **(shown or {})}
    for tree in (*(each[2] for each in program["columns"]), *(each[0] for each in program["order"]), program["having"]):
        meet(tree)


def noise_of(query: AskedQuery, schema: Schema) -> float:
    """Return the noise of a count of the query's groups at its price, by which two prices are compared."""
    built = query.build()
    if not isinstance(built, Grouped):
        return 0.0 if "epsilon" in query.options else 1.0
    return choose_noise(built.groups(schema).norms, **built.price).sd


def _column(item: SelectItem, kind: str) -> str:
    """Return which column of the query's table holds a number."""
    assert item.function is not None
    if item.function == "quantile":
        assert item.level is not None
        return level_name(item.level)
    own, column = _ANSWERS[item.function]
    return column if own == kind else _ALSO[kind][item.function]


def _subject(of: Expression | None) -> Any:
    return of.name if isinstance(of, Named) else of


def _text(value: Any) -> str:
    if isinstance(value, (Fraction, Decimal, float, int)) and not isinstance(value, bool):
        return short_text(exact(value, name="a number"))
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return repr(str(value)) if isinstance(value, (Expression, str)) else repr(value)

"""The parameters of every statistic by group, and whether an earlier release is a compatible prediction of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar, Literal, cast

import numpy as np

from sidelight.aggregates.bounded import persons_in
from sidelight.aggregates.groups import Groups, declared_max_groups, groups_of
from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.group_table import GroupTable, check_keys
from sidelight.guarantees import Amount, decimal_text, exact
from sidelight.mechanisms.budget import Budget
from sidelight.records import Number, Schema
from sidelight.records.columns import checked_limit
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression, Named
from sidelight.records.hierarchy import Hierarchy
from sidelight.release import Release
from sidelight.session import release_once
from sidelight.session.query import SureArrayQuery
from sidelight.summaries.noise_choice import choose_noise
from sidelight.summaries.predicted import Group, Predicted

NoiseKind = Literal["auto", "laplace", "gaussian"]
#: Whether a person counts once in a group, or with each of the rows that count.
Counted = Literal["persons", "rows"]
#: Parameters that must be True or False: "no", or a number of people, would count as True.
_FLAGS = ("rollup", "persons")
#: Parameters with closed choices.
_CHOICES: dict[str, tuple[Any, ...]] = {
    "noise": ("auto", "laplace", "gaussian"),
    "of": (None, "persons", "rows"),
    "outside": ("keep", "drop"),
    "route": ("auto", "histogram", "peeling"),
    "ddof": (0, 1),
}
_NOISE = ("noise_sd", "low", "high")
_COUNTED = ("count", "count_unbiased", "supported", "known")
_COUNT_ENDS = ("count_low", "count_high")
_MEAN = ("mean", "mean_low", "mean_high")
#: The number columns of each kind of table, some of them only with some parameters.
TABLE_COLUMNS: dict[str, tuple[str, ...]] = {
    "count": ("count", "unbiased", *_NOISE, "known"),
    "histogram": ("count", "unbiased", *_NOISE),
    "count_distinct": ("distinct", "unbiased", *_NOISE),
    "top_k": ("rank", "count", "noisy_count", *_NOISE, "known"),
    "sum": ("sum", "unbiased", *_NOISE, *_COUNTED),
    "mean": ("mean", "mean_plain", *_NOISE, *_COUNTED, *_COUNT_ENDS, "pooled", "sd"),
    "proportion": ("proportion", "proportion_plain", *_NOISE, *_COUNTED, *_COUNT_ENDS, "pooled"),
    "variance": ("variance", *_NOISE, *_MEAN, *_COUNTED, *_COUNT_ENDS),
    "standard_deviation": ("sd", *_NOISE, *_MEAN, *_COUNTED, *_COUNT_ENDS),
    "summary": ("mean", "sd", "q25", "q50", "q75", *_NOISE, *_COUNTED),
}

#: Other kinds that predict a kind.
_ALSO: dict[str, tuple[str, ...]] = {"top_k": ("count",), "count": ("top_k",)}
#: The column of a table that holds the number of a kind, where a statement asks it and a table predicts it.
_NUMBERS = {"count": "count", "sum": "sum", "mean": "mean", "proportion": "proportion"}
#: What must be the same where both say it, and how a message words it.
_SAME = {"of": "of {}", "per": "per {}", "distinct": "of different {}"}


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """The parameters that statistics by group share; each query documents them with its own."""

    by: str | Expression | Hierarchy | Sequence[str | Expression | Hierarchy] = ()
    where: Expression | str | None = field(default=None, compare=False)
    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    mu: Amount | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    confidence: float = 0.95
    prediction: Any = field(default=None, compare=False, repr=False)
    takes_hierarchy: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.by, (str, Expression, Hierarchy, Iterable)):
            raise SchemaError(f"by takes names of columns, expressions or a hierarchy, got {type(self.by).__name__}")
        by = (self.by,) if isinstance(self.by, (str, Expression, Hierarchy)) else tuple(self.by)
        object.__setattr__(self, "by", by)
        self._check_hierarchy(by)
        if isinstance(self.where, str):
            object.__setattr__(self, "where", parse_expression(self.where))
        elif self.where is not None and not isinstance(self.where, Expression):
            raise RangeError(
                f"where must be a condition on declared columns, got {type(self.where).__name__}; write "
                'where=sl.col("age") >= 18, or its text. A function or a column of rows cannot be checked'
            )
        Budget.of(**self.price)  # a price that is not one is found now
        kind = str(getattr(self, "kind_name", getattr(self, "kind", "")))
        subject = {"column": getattr(self, "column", None), "where": self.where}
        found = of_statement(self.prediction, kind=kind, by=self.keys, **subject)
        object.__setattr__(self, "prediction", found or self.prediction)
        for name, choices in _CHOICES.items():
            if getattr(self, name, choices[0]) not in choices:
                *first, last = (repr(choice) for choice in choices if choice is not None)
                raise RangeError(f"{name} must be {', '.join(first)} or {last}, got {getattr(self, name)!r}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name, False), (bool, np.bool_)):
                raise RangeError(f"{name} is True or False, got {getattr(self, name)!r}")
        for name in ("max_groups", "max_rows_per_group"):
            limit = getattr(self, name)
            if limit is not None:
                object.__setattr__(self, name, checked_limit(limit, name=name))
        # parts of what is missing to 1 are numbers of their own
        if not isinstance(self.confidence, Real | Decimal) or not 0 < self.confidence <= 1 - 1e-12:
            raise RangeError(
                "confidence must lie strictly between 0 and 1, at most 1 - 1e-12, got "
                f"{self.confidence!r}; 0.95 is usual"
            )

    @property
    def price(self) -> dict[str, Amount | None]:
        """The price as it was given."""
        return {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}

    @property
    def law(self) -> NoiseKind:
        """The law of noise that is insisted on; "auto" takes the smaller."""
        found: NoiseKind = getattr(self, "noise", "auto")
        return found

    def _check_hierarchy(self, by: tuple[Any, ...]) -> None:
        """Refuse hierarchies where there is no table of one, and more than one."""
        found = [each for each in by if isinstance(each, Hierarchy)]
        if len(found) > 1:
            raise SchemaError(
                f"by has two hierarchies, {found[0]!r} and {found[1]!r}, which make no tree together; use one of them "
                "as a plain column"
            )
        if found and not self.takes_hierarchy:
            raise SchemaError(
                f"a hierarchy is for sl.Count, sl.Sum and sl.Mean; name the column, {found[0].column!r}, here"
            )

    @property
    def hierarchy(self) -> Hierarchy | None:
        """The hierarchy of `by`, if there is one."""
        return next((each for each in cast("tuple[Any, ...]", self.by) if isinstance(each, Hierarchy)), None)

    @property
    def axes(self) -> tuple[str | Expression, ...]:
        """The columns and derived labels of `by`, a hierarchy by the column of its leaves."""
        found = cast("tuple[Any, ...]", self.by)
        return tuple(each.column if isinstance(each, Hierarchy) else each for each in found)

    @property
    def condition(self) -> Expression | None:
        """The condition `where`."""
        return cast("Expression | None", self.where)

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns of the table that comes out."""
        return tuple(str(each) for each in self.axes)

    def table_columns(self, kind: str) -> tuple[str, ...]:
        """Return the number columns that the table may have."""
        return TABLE_COLUMNS[kind]

    def groups(
        self, schema: Schema, *, totals: bool | Literal["vector"] = False, per_group: int | None = None
    ) -> Groups:
        """Check groups and condition against a schema. Reads no row.

        Args:
            schema: The public declarations.
            totals: One record for each person and group; of a "vector", in as many groups as there are.
            per_group: The default of `max_rows_per_group`: 1 counts persons.
        """
        self._check_names(schema)
        limit = self.max_rows_per_group if self.max_rows_per_group is not None else per_group
        if (schema.rows_per_unit > 1 or totals) and totals != "vector":
            self._check_max_groups(schema)
        self._check_persons(schema)
        return groups_of(
            schema,
            by=self.axes,
            where=self.condition,
            max_groups=self.max_groups,
            max_rows_per_group=limit,
            totals=totals,
        )

    def _check_names(self, schema: Schema) -> None:
        """Refuse a misspelt column before anything else is asked about it."""
        known = [column.name for column in schema.columns]
        subject = getattr(self, "column", None)
        subjects = subject if isinstance(subject, (list, tuple)) else [subject]
        for each in (*self.axes, *subjects, self.where):
            if isinstance(each, str) and each not in known:
                each = Named(each) if each.isidentifier() or each in self.axes else parse_expression(each)
            for name in each.columns if isinstance(each, Expression) else ():
                if name not in known:
                    raise SchemaError(f"column {name!r} is not declared; {nearest(name, known)}")

    def _check_persons(self, schema: Schema) -> None:
        """Refuse limits of persons where every row is its own unit: they would have no effect."""
        for name in ("max_groups", "max_rows_per_group"):
            if getattr(self, name) is not None and schema.person is None:
                raise SchemaError(
                    f"{name} limits what one person adds, and the schema declares no person: every row is protected by "
                    f"itself; leave {name} out, or declare sl.PersonId(..., max_rows=...), the column of persons"
                )

    def _check_max_groups(self, schema: Schema) -> None:
        """Refuse a missing `max_groups`, with the noise for 1, 2 and all groups."""
        if not self.by or schema.person is None or self.max_groups is not None:
            return
        if declared_max_groups(schema, self.axes) is not None:
            return
        rows = schema.rows_per_unit
        noises = "; ".join(
            f"{groups}: {choose_noise(persons_in(groups), self.law, **self.price).sd:.3g}"
            for groups in dict.fromkeys((1, min(2, rows), rows))
        )
        raise SchemaError(
            f"in how many groups does one person count? A person may have {rows} rows, and noise grows with max_groups "
            f"(standard deviation of a count of persons at max_groups = {noises}). Write max_groups=..., a small "
            "number that holds most people's groups; where it is a fact, declare sl.Category(..., per_person=1)"
        )

    def request(self, kind: str, **more: Any) -> dict[str, Any]:
        """Return the request for the ledger: texts only, unique to the query; None values are left out."""
        check_keys(self.keys, self.table_columns(kind))
        price = {
            name: decimal_text(exact(amount, name=name)) for name, amount in self.price.items() if amount is not None
        }
        limits = {"max_groups": self.max_groups, "max_rows_per_group": self.max_rows_per_group}
        rest = {"where": self.where, **limits, **more}
        asked = {
            "kind": kind,
            "by": list(self.keys),
            **price,
            **{
                name: value if isinstance(value, list) else str(value)
                for name, value in rest.items()
                if value is not None
            },
            "noise": self.law,  # also of queries that do not choose it: a key keeps its request
            "confidence": str(self.confidence),
        }
        check_compatible(self.prediction, asked)
        return asked

    def declare(self) -> Number:
        """Refuse a bare array: statistics by group want named columns."""
        raise SchemaError("statistics of a table want sl.Table(data, schema=[...]), with the columns declared")

    def release(self, data: Any) -> Release[GroupTable]:
        """Release from a table with exactly this query's budget and no ledger."""
        outcome: Release[GroupTable] = release_once(cast("SureArrayQuery", self), data)  # subclasses have `prepare`
        return outcome


def group_labels(groups: Sequence[Group], name: str) -> tuple[str, ...]:
    """Return the names of a release's entries: its groups, or the statistic where all rows are one group."""
    return tuple(" / ".join(group) if group else name for group in groups)


def check_compatible(prediction: Any, asked: Mapping[str, Any]) -> None:
    """Refuse an earlier release of another statistic as a prediction: counts are no means, persons are no rows.

    A release says by its own request what it is; a bare table does not, and passes.
    """
    if isinstance(prediction, Predicted):
        check_compatible(prediction.table, asked)
    elif isinstance(prediction, Release):
        _check(prediction.query, asked)
    elif isinstance(prediction, (list, tuple)):
        for each in prediction:
            check_compatible(each, asked)
    elif isinstance(prediction, Mapping) and isinstance(asked.get("column"), list):
        for column, each in prediction.items():
            check_compatible(each, {**asked, "column": str(column)})


def of_statement(prediction: Any, *, kind: str, by: Sequence[str], column: Any, where: Any) -> Any:
    """Return the number of an earlier SQL release that a query asks, as its own release; None if it has none.

    One under the same condition comes first: a statement may count all rows and some of them.
    """
    if isinstance(prediction, Predicted):
        found = of_statement(prediction.table, kind=kind, by=by, column=column, where=where)
        return None if found is None else replace(prediction, table=found)
    if not isinstance(prediction, Release) or prediction.kind != "sql" or not isinstance(prediction.value, GroupTable):
        return None
    wanted, table = _NUMBERS.get(kind), prediction.value
    queries = prediction.query["queries"]
    numbers = prediction.query.get("numbers", ())
    for name, part, number in sorted(numbers, key=lambda each: str(queries[int(each[1])].get("where")) != str(where)):
        asked = queries[int(part)]
        same = number == wanted and {*_listed(asked.get("by"))} == {*by}
        if same and (column is None or str(column) == str(asked.get("column"))):
            value = GroupTable(keys=table.keys_of_groups, groups=table.groups, columns={number: table[name]})
            of = {"of": asked.get("of", "rows")} if kind == "count" else {}
            query = {key: asked[key] for key in ("by", "column", "dates") if key in asked}
            return replace(prediction, value=value, query={"kind": kind, **query, **of})
    return None


def _check(earlier: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    same_kind = earlier.get("kind") == asked["kind"]
    fits = same_kind or earlier.get("kind") in _ALSO.get(asked["kind"], ())
    fits &= {*_listed(earlier.get("by"))} == {*_listed(asked.get("by"))}
    if same_kind:
        fits &= {*_listed(asked.get("column"))} <= {*_listed(earlier.get("column"))}
    fits &= all(earlier[key] == asked[key] for key in _SAME if key in earlier and key in asked)
    if not fits:
        raise RangeError(
            f"the prediction is an earlier release of another statistic, {_words(earlier)}, and this query asks "
            f"{_words(asked)}; predict it by a release of the same, or pass release.value to use its table anyway"
        )


def _listed(given: Any) -> Sequence[str]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _words(request: Mapping[str, Any]) -> str:
    kind = str(request.get("kind")).replace("_", " ")
    column = ", ".join(_listed(request.get("column")))
    words = [f"{kind} of {column}" if column else kind]
    words += [form.format(request[key]) for key, form in _SAME.items() if key in request]
    by = ", ".join(_listed(request.get("by")))
    return " ".join([*words, f"by {by}" if by else "of all rows"])

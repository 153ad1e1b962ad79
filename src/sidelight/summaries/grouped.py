"""What every statistic by group is asked with: groups, a condition, a price, and limits of what one person adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from sidelight.aggregates.bounded import persons_in
from sidelight.aggregates.groups import Groups, declared_max_groups, groups_of
from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.group_table import GroupTable, check_keys
from sidelight.guarantees import Amount, decimal_text, exact
from sidelight.mechanisms.budget import Budget
from sidelight.records import Number, Schema
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression, Named
from sidelight.release import Release
from sidelight.session import release_once
from sidelight.session.query import SureArrayQuery
from sidelight.summaries.noise_choice import choose_noise
from sidelight.summaries.same_thing import check_same_thing, of_statement

NoiseKind = Literal["auto", "laplace", "gaussian"]
#: Parameters of the queries that are True or False: "no", or a number of people, would count as True.
_FLAGS = ("pull", "population", "rollup", "persons")
_NOISE = ("noise_sd", "low", "high")
_COUNTED = ("count", "count_unbiased", "supported", "known")
_COUNT_ENDS = ("count_low", "count_high")
_MEAN = ("mean", "mean_low", "mean_high")
#: The columns that tables of each kind have beside their keys, some of them only with some parameters.
TABLE_COLUMNS: dict[str, tuple[str, ...]] = {
    "count": ("count", "unbiased", *_NOISE, "known"),
    "histogram": ("count", "unbiased", *_NOISE),
    "count_distinct": ("distinct", "unbiased", *_NOISE),
    "top_k": ("rank", "count", "unbiased", *_NOISE, "known"),
    "sum": ("sum", "unbiased", *_NOISE, *_COUNTED),
    "mean": ("mean", "mean_plain", *_NOISE, *_COUNTED, *_COUNT_ENDS, "pooled", "sd"),
    "proportion": ("proportion", "proportion_plain", *_NOISE, *_COUNTED, *_COUNT_ENDS, "pooled"),
    "variance": ("variance", *_NOISE, *_MEAN, *_COUNTED, *_COUNT_ENDS),
    "standard_deviation": ("sd", *_NOISE, *_MEAN, *_COUNTED, *_COUNT_ENDS),
    "summary": ("mean", "sd", "q25", "q50", "q75", *_NOISE, *_COUNTED),
}


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """The parameters that statistics by group share; each query adds its own.

    Args:
        by: Columns or derived labels whose cells are the groups: "job", ["job", "sex"], `sl.col("age").cut([18, 65])`.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: What is known beforehand: a table of groups, an earlier release, or what the query says.
    """

    by: str | Expression | Sequence[str | Expression] = ()
    where: Expression | str | None = field(default=None, compare=False)
    epsilon: Amount | None = None
    delta: Amount | None = None
    rho: Amount | None = None
    mu: Amount | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    noise: NoiseKind = "auto"
    confidence: float = 0.95
    prediction: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        by = (self.by,) if isinstance(self.by, (str, Expression)) else tuple(self.by)
        object.__setattr__(self, "by", by)
        if isinstance(self.where, str):
            object.__setattr__(self, "where", parse_expression(self.where))
        elif self.where is not None and not isinstance(self.where, Expression):
            raise RangeError(
                f"where must be a condition on declared columns, got {type(self.where).__name__}; write "
                'where=sl.col("age") >= 18, or its text. A function or a column of rows cannot be checked'
            )
        Budget.of(**self.price)  # a price that is not one is found now
        kind = str(getattr(self, "kind_name", getattr(self, "kind", "")))
        found = of_statement(self.prediction, kind=kind, by=self.keys, column=getattr(self, "column", None))
        object.__setattr__(self, "prediction", found or self.prediction)
        if self.noise not in ("auto", "laplace", "gaussian"):
            raise RangeError(f"noise must be 'auto', 'laplace' or 'gaussian', got {self.noise!r}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name, False), (bool, np.bool_)):
                raise RangeError(f"{name} is True or False, got {getattr(self, name)!r}")
        if not 0 < self.confidence < 1:
            raise RangeError(f"confidence must lie strictly between 0 and 1, got {self.confidence}; 0.95 is usual")

    @property
    def price(self) -> dict[str, Amount | None]:
        """The price as it was given."""
        return {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho, "mu": self.mu}

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of the key columns of the table that comes out."""
        assert isinstance(self.by, tuple)
        return tuple(str(each) for each in self.by)

    def table_columns(self, kind: str) -> tuple[str, ...]:
        """Return the columns that the table that comes out has beside its keys, or may have by this kind of query."""
        return TABLE_COLUMNS[kind]

    def groups(self, schema: Schema, *, totals: bool = False, per_group: int | None = None) -> Groups:
        """Check groups and condition against a schema. Reads no row.

        Args:
            schema: The public declarations.
            totals: One record for each person and group.
            per_group: What `max_rows_per_group` is if the user did not say: 1 counts persons.
        """
        self._check_names(schema)
        limit = self.max_rows_per_group if self.max_rows_per_group is not None else per_group
        if schema.rows_per_unit > 1 or totals:
            self._check_max_groups(schema)
        self._check_persons(schema)
        where = self.where
        assert where is None or isinstance(where, Expression)
        return groups_of(
            schema, by=self.by, where=where, max_groups=self.max_groups, max_rows_per_group=limit, totals=totals
        )

    def _check_names(self, schema: Schema) -> None:
        """Refuse a misspelt column before anything else is asked about it."""
        known = [column.name for column in schema.columns]
        assert isinstance(self.by, tuple)
        subject = getattr(self, "column", None)
        subjects = subject if isinstance(subject, (list, tuple)) else [subject]
        for each in (*self.by, *subjects, self.where):
            if isinstance(each, str) and each not in known:
                each = Named(each) if each.isidentifier() or each in self.by else parse_expression(each)
            for name in each.columns if isinstance(each, Expression) else ():
                if name not in known:
                    raise SchemaError(f"column {name!r} is not declared; {nearest(name, known)}")

    def _check_persons(self, schema: Schema) -> None:
        """Refuse limits of persons where every row is a unit of its own: they would do nothing, without a word."""
        for name in ("max_groups", "max_rows_per_group"):
            if getattr(self, name) is not None and schema.person is None:
                raise SchemaError(
                    f"{name} limits what one person adds, and the schema declares no person: every row is protected by "
                    f"itself; leave {name} out, or declare sl.PersonId(..., max_rows=...), the column of persons"
                )

    def _check_max_groups(self, schema: Schema) -> None:
        """Refuse a missing `max_groups` and say what it means, with the noise for 1, 2 and all groups."""
        if not self.by or schema.person is None or self.max_groups is not None:
            return
        if declared_max_groups(schema, self.by) is not None:
            return
        rows = schema.rows_per_unit
        told = "; ".join(f"{groups}: {self._noise_for(groups)}" for groups in dict.fromkeys((1, min(2, rows), rows)))
        raise SchemaError(
            f"in how many groups does one person count? A person may have {rows} rows, and noise grows with max_groups "
            f"(standard deviation of a count of persons at max_groups = {told}). Write max_groups=..., a small number "
            "that holds most people's groups; where it is a fact, declare sl.Category(..., per_person=1)"
        )

    def _noise_for(self, groups: int) -> str:
        return f"{choose_noise(persons_in(groups), **self.price, noise=self.noise).sd:.3g}"

    def request(self, kind: str, **more: Any) -> dict[str, Any]:
        """Return what the ledger says was asked: texts only, no two different queries the same.

        Args:
            kind: The kind of the query.
            more: What the query adds; None is left out.
        """
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
            "noise": self.noise,
            "confidence": str(self.confidence),
        }
        check_same_thing(self.prediction, asked)
        return asked

    def declare(self) -> Number:
        """Refuse a bare array: statistics by group want named columns."""
        raise SchemaError("statistics of a table want sl.Table(data, schema=[...]), with the columns declared")

    def release(self, data: Any) -> Release[GroupTable]:
        """Release from a table with exactly this query's budget and no ledger."""
        outcome: Release[GroupTable] = release_once(cast("SureArrayQuery", self), data)  # subclasses have `prepare`
        return outcome

"""`SyntheticTable`: the query a user writes, and what it becomes against a schema.

The description of the query, in strings, is equal for equal queries and different for others: a ledger keeps it, and
answers a repeated key only if it is the same. So all that changes what is released must be in it: the queries
themselves, not only the columns they are about, and what becomes of unusual cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from sidelight.aggregates.collect import coded_rows, collect
from sidelight.aggregates.counts import CellCounts
from sidelight.errors import RangeError, SchemaError, nearest
from sidelight.guarantees import Amount, Neighbours, decimal_text, exact
from sidelight.guarantees.amounts import whole
from sidelight.mechanisms.budget import Budget
from sidelight.noise import Source
from sidelight.records import Category, Fill, Number, Schema, Table
from sidelight.records.numbers import exact_number, number_text
from sidelight.records.schema import listed_names
from sidelight.registry import load_published
from sidelight.release import Outcome
from sidelight.session import Answer, release_once
from sidelight.session.query import SurePrepared
from sidelight.synthesis.answers import MeasuredMarginal, contradicted_rows
from sidelight.synthesis.axes import Axis, Labels, axis_of, coding_of, counting_of, domain_of
from sidelight.synthesis.certify import certified
from sidelight.synthesis.domain import Domain, Mass
from sidelight.synthesis.engine_choice import Chosen, Engine, choose_engine
from sidelight.synthesis.engine_plan import MarginalPlan, nominal_claims, sized
from sidelight.synthesis.loglinear import LogLinearPlan, known_rows, release_loglinear
from sidelight.synthesis.marginal_engine import release_distribution
from sidelight.synthesis.measurement import PrivateMarginals, Protection
from sidelight.synthesis.pooling import CountsPredictor, EarlierCounts, calibrated, refit_again
from sidelight.synthesis.prediction import TablePrediction, predict
from sidelight.synthesis.prior import DistributionPrior, EarlierReleases, PublicRowsPrior
from sidelight.synthesis.refit import Fitted
from sidelight.synthesis.released import KIND
from sidelight.synthesis.single_queries import SingleQueryPlan, release_by_single_queries
from sidelight.synthesis.spaces import MOST_DENSE_CELLS, Space, public_support
from sidelight.synthesis.synthetic_rows import PublicEntropy
from sidelight.synthesis.workload import LinearQueries, Marginals, Part, Workload, marginals


@dataclass(frozen=True)
class SyntheticTable:
    """Release a synthetic table, and private answers to a declared workload, better where a prediction is good.

    Guarantee: PureDP(epsilon), ZCDP(rho), or the GDP claim that implies (epsilon, delta), for the schema's unit under
    adding or removing one; with a public number of `rows` under replacing one. Exact on the machine; everything after
    the noisy counts is post-processing. Never depends on the prediction (synthesis proof page).

    Accuracy: `sl.Synthetic(release).answer(["sex", "age"])` has `errors`, standard errors, where the
    columns were measured together, and a `bound` that no count is off by more than, with 95 % confidence for all
    answers at once, also where they were not; `sl.Synthetic(release).report()` lists both. A good prediction lowers the
    error of what is not measured; a bad one costs little where the measurements outweigh it: ε times rows above 1000.

    Args:
        workload: What should be answered well: `sl.marginals(2)`, prefixes, ranges, linear queries, or a sum of them.
        columns: Names of number and category columns; all of the schema if left out.
        bins: For number columns: increasing public edges, or a number of bins. Without it the bounds of the column are
            divided, one bin a value where its granularity leaves few.
        missing: Names of columns whose missing cells are kept as a value of their own, and come back missing. For all
            others the schema's declaration holds: drop, fill, or "other".
        prediction: A public table (frame, path or `sl.PublicData`), earlier releases, or weights of all cells.
        trust: In [0, 1]; below 1 where the public population differs.
        rho, epsilon, delta: The price: rho, or epsilon (pure), or epsilon with delta.
        rows: The public number of rows. Neighbours then replace a row; else a noisy number is released. A wrong one, or
            rows in no declared cell, distort all counts: the printed release says so where measured counts show it.
        rounds: How many marginals (for "queries" and "mwem", single queries) are measured; "auto" for a public rule.
        engine: "marginals" (the default), "queries" for linear ones that are better asked one by one, "loglinear" for
            large domains; "auto" chooses among these by public numbers. "support" puts weights on public rows alone,
            "mwem" is the algorithm of the literature (`sidelight.published`).

    >>> import numpy as np
    >>> from sidelight.records import Table
    >>> people = {"sex": ["F", "M"] * 500, "age": list(np.arange(1000) % 80)}
    >>> schema = [Category("sex", ["F", "M"], other=None), Number("age", lower=0, upper=79, granularity=1)]
    >>> query = SyntheticTable(bins={"age": [0, 18, 65, 80]}, epsilon=1)
    >>> release = query.release(Table(people, schema=schema))
    >>> from sidelight.synthesis import Synthetic
    >>> list(Synthetic(release).table(rows=3).columns)
    ['sex', 'age']
    """

    workload: Workload = field(default_factory=marginals)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    bins: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    missing: Sequence[str] = field(default=(), kw_only=True)
    prediction: Any = field(default=None, kw_only=True, repr=False)
    trust: float = field(default=1.0, kw_only=True)
    rho: Amount | None = field(default=None, kw_only=True)
    epsilon: Amount | None = field(default=None, kw_only=True)
    delta: Amount | None = field(default=None, kw_only=True)
    rows: int | None = field(default=None, kw_only=True)
    rounds: int | Literal["auto"] = field(default="auto", kw_only=True)
    engine: Engine = field(default="auto", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.workload, Workload):
            raise RangeError(
                f"workload must be made with sl.marginals(2) and the like, got {type(self.workload).__name__}"
            )
        for name in ("columns", "missing"):
            object.__setattr__(self, name, listed_names(getattr(self, name), name=name))
        if self.engine not in get_args(Engine):
            raise RangeError(
                f"engine must be one of its choices, got {self.engine!r}; {nearest(self.engine, get_args(Engine))}"
            )
        for name in ("rows", "rounds"):
            given = getattr(self, name)
            if given is not None and not (name == "rounds" and given == "auto"):
                object.__setattr__(self, name, whole(given, name=name))
        if not isinstance(self.bins, Mapping):
            raise RangeError("bins maps names of number columns to their edges: bins={'age': [0, 18, 65, 120]}")
        _ = self.price

    @property
    def price(self) -> Budget:
        """The total budget."""
        return Budget.of(rho=self.rho, epsilon=self.epsilon, delta=self.delta)

    def axes(self, schema: Schema) -> tuple[Axis, ...]:
        """Return the axes of the domain: the columns in the order they were asked for with their labels and bins."""
        known = {column.name: column for column in schema.columns if isinstance(column, Category | Number)}
        wanted = tuple(known) if self.columns is None else self.columns
        for name in (*wanted, *self.bins, *self.missing):
            if name not in known:
                raise SchemaError(f"column {name!r} is not declared in the schema; {nearest(name, known)}")
        if len(set(wanted)) != len(wanted):
            raise SchemaError("columns names each column once")
        for place in ("bins", "missing"):
            unused = [name for name in getattr(self, place) if name not in wanted]
            if unused:
                raise SchemaError(f"{place} names column {unused[0]!r}, which is not among the columns of the table")
        declared: list[Category | Number] = [known[name] for name in wanted]
        return tuple(
            axis_of(column, edges=self.bins.get(column.name), keeps_missing=column.name in self.missing)
            for column in declared
        )

    def prepare(self, schema: Schema) -> PreparedTable:
        """Check the query against the schema, code the prediction, and price the release. Opens no private data."""
        axes = self.axes(schema)
        domain = domain_of(axes)
        self.workload.partitions(domain)  # unknown columns are found before the public rows are read
        self.workload.blocks(domain)  # and so is a matrix of another shape
        predicted = predict(self.prediction, axes, trust=self.trust)
        protection = Protection(
            neighbours=Neighbours.ADD_REMOVE if self.rows is None else Neighbours.REPLACE,
            unit=schema.unit,
            rows_per_unit=schema.rows_per_unit,
        )
        engine = choose_engine(
            self.engine, domain, predicted, self.workload, price=self.price, protection=protection, rows=self.rows
        )
        price = self.price
        prepared = PreparedTable(
            claims=nominal_claims(price, protection),  # whatever the rounds, no more is spent
            request={  # no two different queries have the same
                "kind": KIND,
                "columns": [axis.to_json() for axis in axes],
                "policies": [describe_policy(each) for each in axes],
                "queries": [describe_part(each, domain) for each in self.workload.parts],
                "workload": [str(each) for each in self.workload.partitions(domain, closure=False)],
                "engine": engine,
                "rows": "private" if self.rows is None else str(self.rows),
                "rounds": str(self.rounds),
                "prediction": "none" if predicted is None else predicted.digest,
                "trust": decimal_text(exact(self.trust, name="trust")),
                {"mu": "mu_squared"}.get(price.kind, price.kind): decimal_text(price.amount),
            },
            labels=domain.columns,
            prediction=None if predicted is None else predicted.to_json(),
            axes=axes,
            domain=domain,
            workload=self.workload,
            price=self.price,
            protection=protection,
            rows=self.rows,
            rounds=None if self.rounds == "auto" else self.rounds,
            engine=engine,
            predicted=predicted,
        )
        _ = prepared.plan, prepared.space  # public work, done now: none of it can fail after the charge
        return prepared

    def declare(self) -> Number:
        """Raise: a bare array does not say its columns."""
        raise SchemaError("a synthetic table needs declared columns; pass sl.Table(data, schema=[...])")

    def release(self, data: Any) -> Outcome:
        """Release from a table, with exactly this query's budget and no ledger."""
        return release_once(self, data)


def describe_part(part: Part, domain: Domain) -> dict[str, Any]:
    """Describe one part of a workload.

    >>> describe_part(marginals(2).parts[0], Domain(("a", "b", "c"), (2, 3, 4)))
    {'marginals': '2', 'columns': ['a', 'b', 'c']}
    """
    if isinstance(part, Marginals):
        if part.sets is not None:
            return {"marginals": [list(each) for each in part.attribute_sets(domain)]}
        names = domain.columns if part.columns is None else domain.in_order(part.columns)
        return {"marginals": str(part.ways), "columns": list(names)}
    if isinstance(part, LinearQueries):
        (block,) = part.blocks(domain)
        return {
            "linear_queries": str(block.count),
            "columns": list(block.columns),
            "lower": number_text(exact_number(part.lower, name="lower")),
            "upper": number_text(exact_number(part.upper, name="upper")),
            "sha256": block.digest,
        }
    return {"ranges" if part.ranges else "prefixes": part.column}


def describe_policy(axis: Axis) -> dict[str, str]:
    """Return what becomes of labels that are not listed and of missing cells."""
    if isinstance(axis, Labels):
        category = axis.category
        other = "drop" if category.other is None else f"to {category.other}"
        written = {"column": axis.name, "other": other}
        missing = category.missing
        fill = str(missing.value) if isinstance(missing, Fill) else None
        usual = other if missing is None else "drop"
    else:
        written = {"column": axis.name}
        missing = axis.number.missing
        fill = number_text(exact_number(missing.value, name="fill")) if isinstance(missing, Fill) else None
        usual = "drop"
    return written | {"missing": "keep" if axis.keeps_missing else usual if fill is None else f"to {fill}"}


class SyntheticValue(dict[str, Any]):
    """The value of a release: a plain mapping that prints in one line, its `summary`.

    The line is in the mapping because a release that was read back has no class but that one.
    """

    def __repr__(self) -> str:
        return str(self["summary"])


def _summary(names: Sequence[str], fitted: Fitted, contradicted: float | None) -> str:
    """Return in one line what was released, and whether what was measured contradicts the public number of rows."""
    measured = f"{len(fitted.measurements)} measured" if fitted.measurements else f"{len(fitted.answered)} answered"
    if contradicted is not None:
        measured += f", which sum to about {contradicted:.0f} rows: check the public rows="
    columns = ", ".join(names)
    return f"a synthetic table of {fitted.rows:.0f} rows ({columns}; {measured}): sl.Synthetic(release)"


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedTable(SurePrepared):
    """Everything but `run` is a function of public parameters."""

    axes: tuple[Axis, ...]
    domain: Domain
    workload: Workload
    price: Budget
    protection: Protection
    rows: int | None
    rounds: int | None
    engine: Chosen
    predicted: TablePrediction | None

    @property
    def is_additive(self) -> bool:
        """Whether rows are only added up."""
        return self.domain.cells <= MOST_DENSE_CELLS

    @cached_property
    def plan(self) -> MarginalPlan | LogLinearPlan | SingleQueryPlan:
        """Shares, rounds and noise."""
        shared: dict[str, Any] = {
            "domain": self.domain,
            "workload": self.workload,
            "price": self.price,
            "protection": self.protection,
            "rows": self.rows,
        }
        if self.engine == "loglinear":
            if self.rounds is not None:
                raise RangeError("engine='loglinear' measures all marginals once, and chooses none; leave rounds out")
            codes = None if self.predicted is None else self.predicted.codes
            return LogLinearPlan(**shared, rows_like=None if codes is None else len(codes))
        shared["rounds"] = self.rounds
        if self.engine == "queries":
            return SingleQueryPlan(**shared)
        published = load_published(KIND, self.engine)
        if published is not None:
            plan: SingleQueryPlan = published.MWEMPlan(**shared)
            return plan
        return MarginalPlan(**shared)

    @cached_property
    def space(self) -> Space | None:
        """The points of the distribution; None for all cells."""
        if self.engine == "loglinear":
            known_rows(self._prior)
        if self.engine != "support":
            return None
        assert self.predicted is not None
        assert self.predicted.codes is not None
        with Source(PublicEntropy(self.predicted.digest)) as source:  # public rows: their draws need no secret
            return public_support(self.domain, self.predicted.codes, source=source)

    @property
    def _prior(self) -> DistributionPrior | None:
        return None if self.predicted is None else self.predicted.prior

    def counts(self, table: Table) -> PrivateMarginals:
        """Read the rows once: into one dense table of counts, or as codes where the domain is too large for that."""
        coding = coding_of(self.axes)
        if self.domain.cells <= MOST_DENSE_CELLS:
            statistic = CellCounts(
                coding=coding, rows_per_unit=self.protection.rows_per_unit, unit=self.protection.unit
            )
            return PrivateMarginals.from_cells(self.domain, collect(table, statistic).value, protection=self.protection)
        kind = np.int16 if max(self.domain.sizes) < 1 << 15 else np.int64
        parts = [np.stack([code.astype(kind) for code in codes], axis=1) for codes in coded_rows(table, coding)]
        rows = np.concatenate(parts) if parts else np.empty((0, len(self.axes)), kind)
        return PrivateMarginals.from_codes(self.domain, rows, protection=self.protection)

    def run(self, table: Table, source: Source) -> Answer:
        """Count, select and measure, fit, and pack what came out."""
        fitted = self.fit(self.counts(table), source)
        return Answer(value=self.value(fitted))

    def fit(self, counts: PrivateMarginals, source: Source) -> Fitted:
        """Run the engine."""
        prior = self._prior
        if isinstance(self.plan, LogLinearPlan):
            return release_loglinear(counts, self.plan, prior=known_rows(prior), source=source)
        if isinstance(self.plan, SingleQueryPlan):
            return release_by_single_queries(counts, self.plan, prior=prior, source=source)
        plan = sized(self.plan, counts, source=source)
        fitted = release_distribution(counts, plan, prior=prior, space=self.space, source=source)
        known: CountsPredictor
        if isinstance(prior, PublicRowsPrior):
            known = calibrated(fitted, prior.codes, trust=prior.trust)
        elif isinstance(prior, EarlierReleases):
            known = EarlierCounts(prior.releases, prior.noises, rows=fitted.rows)
        else:
            return refit_again(fitted)
        wanted = plan.workload.partitions(plan.domain, closure=False)
        return refit_again(fitted, known, wanted=wanted, trust=prior.trust)

    def value(self, fitted: Fitted) -> SyntheticValue:
        """Return everything released as plain values: post-processing."""
        mass = Mass.of(self.domain, fitted.weights, size=fitted.rows, support=fitted.support)
        measured = [
            MeasuredMarginal(each.marginal.columns, each.marginal.widths, each.values, each.deviation)
            for each in fitted.measurements
        ]
        contradicted = None if self.rows is None else contradicted_rows(measured, self.rows)
        return SyntheticValue(
            summary=_summary(self.labels, fitted, contradicted),
            columns=[axis.to_json() | counting_of(axis) for axis in self.axes],
            rows=fitted.rows,
            engine=self.engine,
            measurements=[each.to_value() for each in measured],
            answered=[
                {"columns": list(each.block.columns), "query": each.inside, "count": each.value, "scale": each.scale}
                for each in fitted.answered
            ],
            missed=[
                {"columns": list(marginal.columns), "widths": list(marginal.widths), "cell": list(cell)}
                for marginal, cell in fitted.missed_regions()
            ],
            bounds=certified(fitted, mass, self.plan).to_value(),
            distribution=mass.to_value(),
        )

"""`Count`: how many persons or rows there are in each group."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np

from sidelight.aggregates.bounded import Bounded
from sidelight.aggregates.group_sums import group_counts
from sidelight.aggregates.groups import Groups
from sidelight.errors import RangeError, SchemaError
from sidelight.mechanisms.additive import in_int64
from sidelight.noise import Source
from sidelight.records import Schema, Table
from sidelight.session.query import Answer, SurePrepared
from sidelight.summaries.count_centred import PreparedCentred, centred_noise, everybody_of, plain_noise
from sidelight.summaries.count_rollup import prepare_rollup
from sidelight.summaries.count_tables import Reading, check_noise, count_error, group_labels, table_of
from sidelight.summaries.grouped import Grouped
from sidelight.summaries.label_tables import Prefer, prepare_labels
from sidelight.summaries.noise_choice import Noise, choose_noise
from sidelight.summaries.predicted import Group, read_prediction

#: What a prediction's table may call its counts, the best first.
COUNT_NAMES = ("unbiased", "count")
Counted = Literal["persons", "rows"]
_LARGEST_WEIGHT = 1000


@dataclass(frozen=True, kw_only=True)
class Count(Grouped):
    """Release how many persons, or rows, there are in each group.

    The table has a row for each group. Read `count`: whole, not negative, drawn towards the prediction if there is one.
    Add up `unbiased`: cutting off at 0 makes many small counts too large. `low` and `high` hold the count of the
    bounded table with the confidence, each group for itself. Groups by a `sl.Label` that are not `known` have no twin:
    a count that had to pass a threshold is too high on average.

    Guarantee: the price, for adding or removing a row, or a person where the schema declares a `PersonId`. It does not
    depend on the prediction. Noise is discrete Laplace or rounded Gaussian, the smaller of those that the price allows.

    Accuracy: `noise_sd`, in every group; a person's `max_groups` makes it larger, the number of groups does not.

    Args:
        by: Columns or derived labels whose cells are the groups: "job", ["job", "sex"], `sl.col("age").cut([18, 65])`.
        where: A condition on declared columns that rows must pass: `sl.col("age") >= 18`, or its text.
        epsilon, delta, rho, mu: The price: exactly one of epsilon, epsilon with delta, rho, and mu.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most; only for rows.
        noise: "laplace" or "gaussian" to insist on one; "auto" takes the smaller.
        confidence: Of the intervals.
        prediction: What the counts are expected to be: a release, a frame or a mapping by group, or `sl.Predicted`; or
            a list of several, of which the one that fits best after the noise is used.
        of: "persons" counts everybody once in each group, "rows" counts rows; persons where the schema has them.
        rollup: Whether to add all totals over the columns of `by`, labelled "all", measured by themselves and made to
            agree with the cells.
        known: Of a column of labels that nobody declared (`sl.Label`): those that are public, or an earlier release
            that published them. They always appear; others need `delta`, and appear above a threshold.
        leaf_weight: Of a rollup: how much more the cells count than each of the totals when the price is shared; 2
            gives cells less noise and totals more.
        population: Whether intervals are for the expected count of the population that rows are a sample of: wider by
            a Poisson error.
        prefer: What a price with delta goes for where a person has three labels or more that nobody declared: "labels"
            takes the noise with the lower threshold, "count" the one with the smaller noise in each count.
        per_cell_cap: So many standard deviations the prediction moves a cell at most, to defend each cell by itself.

    >>> import sidelight as sl
    >>> people = sl.Table(
    ...     {"job": ["cook", "nurse", "nurse"] * 200}, schema=[sl.Category("job", ["cook", "nurse"], other=None)]
    ... )
    >>> release = sl.Count(by="job", epsilon=1).release(people)
    >>> release.value["job"], release.value.columns
    (['cook', 'nurse'], ('count', 'unbiased', 'noise_sd', 'low', 'high'))
    >>> print(release.guarantee)
    PureDP(ε = 1)
    """

    of: Counted | None = None
    rollup: bool = False
    known: Any = field(default=None, compare=False, repr=False)
    prefer: Prefer = "labels"
    leaf_weight: float | None = None
    population: bool = False
    per_cell_cap: float | None = None
    kind_name: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of not in (None, "persons", "rows"):
            raise RangeError(f"of must be 'persons' or 'rows', got {self.of!r}")
        if self.leaf_weight is not None and not (self.rollup and 0 < self.leaf_weight <= _LARGEST_WEIGHT):
            raise RangeError(
                f"leaf_weight is for rollup=True, above 0 and at most {_LARGEST_WEIGHT}, got {self.leaf_weight}"
            )
        if self.prefer not in ("labels", "count"):
            raise RangeError(f"prefer must be 'labels' or 'count', got {self.prefer!r}")
        if self.of == "persons" and self.max_rows_per_group is not None:
            raise RangeError("max_rows_per_group is for counts of rows: a person counts once in a group; leave it out")

    def prepare(self, schema: Schema) -> SurePrepared:
        """Check groups, limits, price and prediction against a schema; no row is read."""
        counted = self.counted(schema)
        groups = self.groups(schema, per_group=1 if counted == "persons" else None)
        reading = self.reading()
        rest = read_as(reading)
        if self.rollup:
            weight = self.leaf_weight
            return prepare_rollup(
                self, groups, reading, kind=self.kind_name, counted=counted, leaf_weight=weight, **rest
            )
        if groups.label is not None:
            return prepare_labels(
                self,
                schema,
                groups,
                reading,
                kind=self.kind_name,
                counted=counted,
                known=self.known,
                prefer=self.prefer,
                **rest,
            )
        if self.prefer != "labels":
            raise SchemaError("prefer= is for labels that nobody declared; by names declared ones; leave it out")
        if self.known is not None:
            raise SchemaError("known= is for labels that nobody declared; by names declared ones, which all are known")
        return prepare_counts(self, groups, reading, kind=self.kind_name, counted=counted)

    def counted(self, schema: Schema) -> Counted:
        """Return what is counted under this schema: persons if it declares them, unless rows were asked for."""
        if self.of == "persons" and schema.person is None:
            raise SchemaError("of='persons' needs a PersonId in the schema; declare one, or count rows")
        if self.of is not None:
            return self.of
        return "persons" if schema.person is not None and self.max_rows_per_group is None else "rows"

    def reading(self) -> Reading:
        """Return how the noisy counts will be read, with the prediction checked as far as it can be."""
        predicted = read_prediction(self.prediction, keys=self.keys, names=COUNT_NAMES)
        return Reading(
            prediction=predicted,
            per_cell_cap=self.per_cell_cap,
            confidence=self.confidence,
            population=self.population,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedCounts(SurePrepared):
    """Counts of declared groups, ready to run."""

    groups: Groups
    cells: tuple[Group, ...]
    keys: tuple[str, ...]
    noise: Noise
    reading: Reading
    counted: str

    @property
    def adds_up(self) -> bool:
        """Whether rows are only added up."""
        return self.groups.label is None

    def run(self, table: Table, source: Source) -> Answer:
        """Count, add noise, and make the numbers readable."""
        exact = group_counts(table, self.groups, norm=self.noise.norm)
        noisy = in_int64(self.noise.on(exact).release(source)).reshape(-1)
        columns = self.reading.columns(noisy, self.cells, self.noise, source)
        return Answer(value=table_of(self.keys, self.cells, columns, of=self.counted, **self.groups.notes))


def prepare_counts(
    query: Grouped, groups: Groups, reading: Reading, *, kind: str, counted: str, **more: Any
) -> PreparedCounts | PreparedCentred:
    """Fix noise, claims and error of counts of declared groups: centred where that has less noise.

    Args:
        query: The price, and what the ledger says.
        groups: The checked groups.
        reading: How the noisy counts are read.
        kind: The kind of the query.
        counted: "persons" or "rows".
        more: What the query's request adds.
    """
    noise = check_noise(choose_noise(groups.norms, **query.price, noise=query.noise))
    cells = tuple(product(*groups.keys))
    if reading.prediction is not None:
        reading.prediction.check(cells)
    centred = centred_noise(query, groups, noise)
    if centred is not None:
        return PreparedCentred(
            claims=centred.claims(neighbours=groups.norms.neighbours, unit=groups.unit),
            request=query.request(kind, of=counted, centre=f"{centred.steps}/64", **more, **read_as(reading)),
            labels=group_labels(cells, "count"),
            prediction=None if reading.prediction is None else reading.prediction.description,
            error=count_error(plain_noise(centred), len(cells), unit=counted, assumption=bounded_words(groups)),
            groups=groups,
            everybody=everybody_of(groups),
            plan=centred,
            cells=cells,
            keys=query.keys,
            reading=reading,
            counted=counted,
        )
    return PreparedCounts(
        claims=noise.on(no_rows(groups, noise)).claims,
        request=query.request(kind, of=counted, **more, **read_as(reading)),
        labels=group_labels(cells, "count"),
        prediction=None if reading.prediction is None else reading.prediction.description,
        error=count_error(noise, len(cells), unit=counted, assumption=bounded_words(groups)),
        groups=groups,
        cells=cells,
        keys=query.keys,
        noise=noise,
        reading=reading,
        counted=counted,
    )


def no_rows(groups: Groups, noise: Noise) -> Bounded:
    """Return the counts of no rows: all that is public about the counts of any."""
    norms = groups.norms
    zeros = np.zeros(groups.shape, np.int64) if groups.shape else 0
    return Bounded(zeros, norms.sensitivity(noise.norm), noise.norm, norms.neighbours, groups.unit)


def read_as(reading: Reading) -> dict[str, str]:
    """Return what the ledger says about how counts are read: the digest of a prediction, and the cap."""
    told = {} if reading.prediction is None else {"prediction": str(reading.prediction.description["sha256"])}
    told = told if not reading.population else {**told, "population": "yes"}
    return told if reading.per_cell_cap is None else {**told, "per_cell_cap": str(reading.per_cell_cap)}


def bounded_words(groups: Groups) -> str:
    """Return the public condition under which an error is that of the whole table: nobody's rows were left out."""
    if groups.schema.person is None:
        return "rows are read as declared"
    norms = groups.norms
    within = f"in at most {norms.groups} group(s), {norms.per_group} row(s) in each, {norms.rows} in all"
    return "each person counts once" if norms.total == 1 else f"each person counts {within}"

"""`Quantiles`: the query a user writes, and what it becomes against a schema."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from sidelight.aggregates.groups import Groups
from sidelight.errors import HedgeWarning, RangeError, SchemaError, explains_removed
from sidelight.group_table import GroupTable
from sidelight.guarantees import Row, Unit
from sidelight.guarantees.amounts import decimal_text, exact, own_int, positive
from sidelight.guarantees.units import rows_of_unit
from sidelight.mechanisms.budget import Budget
from sidelight.predictions import Prior, PublicData, describe, is_prior, own_prior, warn_if_unhedged
from sidelight.quantiles.bounds import expected_gap
from sidelight.quantiles.by_group import (
    PreparedCellPriors,
    by_group,
    counted_unit,
    groups_asked,
    is_by_group,
    with_own_priors,
)
from sidelight.quantiles.forms.rule import Form, FormRule, codes_of
from sidelight.quantiles.outcomes import check_reach, default_prior, grid_to_json, number_of, outcome_grid, rehearse
from sidelight.quantiles.prepared import (
    SIZES_SHARE,
    PreparedQuantiles,
)
from sidelight.quantiles.public import check_size
from sidelight.quantiles.tree import LevelLike, QuantileTree, exact_levels, quantile_tree
from sidelight.records import Number, Schema
from sidelight.records.expression_text import parse_expression
from sidelight.records.expressions import Expression
from sidelight.release import Release
from sidelight.session import release_once

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: What comes out: numbers, one for each level; or a table with a row for each group.
    QuantileValues = TypeVar("QuantileValues", default=NDArray[np.float64])
else:
    from typing import TypeVar

    QuantileValues = TypeVar("QuantileValues")


#: A form of the rule, or "predicted": cells of the prediction.
AskedForm = Literal["auto", "tree", "select", "cells", "codes", "predicted"]


class QuantileOptions(TypedDict, total=False):
    """The options of `Quantiles` that do not say what comes out, for type checkers; a test holds that all are here."""

    epsilon: LevelLike | None
    delta: LevelLike | None
    rho: LevelLike | None
    column: str | None
    prediction: Any
    granularity: LevelLike | None
    bounds: tuple[float | None, float | None]
    form: AskedForm
    size: int | None
    max_groups: int | None
    max_rows_per_group: int | None


@explains_removed
@dataclass(frozen=True)
class Quantiles(Generic[QuantileValues]):
    """Release many quantiles of one column with one budget, of all rows or by group.

    By group a row is in one group, so that each group's quantiles get the whole budget but for a tenth, which counts
    the rows: what a group without rows has for quantiles is a draw from the prior, and `supported` says so.

    Guarantee: PureDP(epsilon), ZCDP(rho) or ApproxDP(epsilon, delta), as asked, for the schema's unit (one row, or one
    person with the declared number of rows) under adding or removing one, with all claims that follow from the form;
    exact on the machine (quantiles proof page).

    Accuracy: the error is in ranks and does not grow with the number of records; `release.error_bound(0.95)` holds
    wherever records lie and tie, and the likely error (`assuming="spread"`) is about a tenth of it. A
    `prediction` that is right makes it smaller; one that is wrong costs ranks and never privacy.

    Args:
        levels: One level or several, in (0, 1), increasing, at least 2**-31 from each other, from 0 and from 1.
        epsilon: The price of all of them together.
        delta: With epsilon: the price is (epsilon, delta). Few levels and counts have a pure price all the same.
        rho: The price in zCDP, instead of epsilon.
        column: The column of a table; not for a bare array.
        prediction: One prior for all levels, or one for each. By group also a mapping from labels (tuples of labels for
            several columns) to such, or an earlier release of these quantiles by these groups; "total" spends 18 % on
            the quantiles of all rows, around which groups of which nothing else is known are then expected: good where
            groups have fewer than about 30/epsilon rows, and for nothing beyond. ("total", a mapping) has both.
        granularity: Of a bare array: the public step on which its values lie, such as 1 for ages.
            Without it they are floats of 48 bits, each written as the shortest decimal.
        bounds: Of a bare array: public bounds, (0, 120) or (0, None). They may be left out, and wide ones do no harm.
        form: How the levels are released: "tree" (selections, one for each level), "select" (about ten levels),
            "cells" (many: counts and interpolation), "codes" (a bounded grid with few values), or "auto", which
            decides by public numbers and, from eight levels on, by a released count that costs a fiftieth. "predicted"
            is "cells" with first cells of the `prediction`, on which nothing is spent: a fifth to a third more accurate
            while epsilon times the number of rows is below 2000 and the prediction is right; beyond that a wrong one
            costs many times what it could gain.
        size: A public number of rows, if there is one: then no count is released. Never the number that the data has.
        by: Columns or derived labels whose cells are the groups; a table with a row for each then comes out.
        where: A condition on declared columns that rows must pass, or its text; a table comes out, too.
        max_groups: In how many groups a person counts at most.
        max_rows_per_group: How many rows of a person count in one group at most.

    >>> release = Quantiles([0.25, 0.5, 0.75], epsilon=1, granularity=1).release(list(range(18, 90)) * 20)
    >>> bool(40 < release.value[1] < 70)
    True
    """

    levels: LevelLike | Sequence[LevelLike]
    epsilon: LevelLike | None = field(default=None, kw_only=True)
    delta: LevelLike | None = field(default=None, kw_only=True)
    rho: LevelLike | None = field(default=None, kw_only=True)
    column: str | None = field(default=None, kw_only=True)
    prediction: Any = field(default=None, kw_only=True)
    granularity: LevelLike | None = field(default=None, kw_only=True)
    bounds: tuple[float | None, float | None] = field(default=(None, None), kw_only=True)
    form: AskedForm = field(default="auto", kw_only=True)
    size: int | None = field(default=None, kw_only=True)
    by: str | Expression | Sequence[str | Expression] = field(default=(), kw_only=True, compare=False)
    where: Expression | str | None = field(default=None, kw_only=True, compare=False)
    max_groups: int | None = field(default=None, kw_only=True)
    max_rows_per_group: int | None = field(default=None, kw_only=True)

    if TYPE_CHECKING:  # a vector without groups and conditions, a table with them

        @overload
        def __init__(
            self: Quantiles[NDArray[np.float64]],
            levels: LevelLike | Sequence[LevelLike],
            **options: Unpack[QuantileOptions],
        ) -> None: ...

        @overload
        def __init__(
            self: Quantiles[GroupTable],
            levels: LevelLike | Sequence[LevelLike],
            *,
            by: str | Expression | Sequence[str | Expression] = (),
            where: Expression | str | None = None,
            **options: Unpack[QuantileOptions],
        ) -> None: ...

        def __init__(self, levels: Any, **options: Any) -> None: ...

    def __post_init__(self) -> None:
        levels = exact_levels(self.levels)
        by = (self.by,) if isinstance(self.by, (str, Expression)) else tuple(self.by)
        object.__setattr__(self, "by", by)
        if isinstance(self.where, str):
            object.__setattr__(self, "where", parse_expression(self.where))
        for name in ("max_groups", "max_rows_per_group"):
            object.__setattr__(self, name, own_int(getattr(self, name)))
        if self.size is not None:
            object.__setattr__(self, "size", check_size(self.size))
        check_parameters(self, levels=len(levels))
        own = tuple(own_prior(prior) for prior in self._given)  # no object of the user's meets a record
        if own:
            stated: Any = own if isinstance(self.stated_prediction, Sequence) else own[0]
            object.__setattr__(self, "prediction", ("total", stated) if self.borrows else stated)
        self._rule(levels, codes=1, unit=Row())  # a budget that cannot work is found now
        self._tree(levels, unit=Row())

    @property
    def borrows(self) -> bool:
        """Whether groups are expected around the quantiles of all rows, which are released first."""
        given = self.prediction
        return isinstance(given, str) or (isinstance(given, tuple) and bool(given) and isinstance(given[0], str))

    @property
    def stated_prediction(self) -> Any:
        """The prediction without what is borrowed."""
        if not self.borrows:
            return self.prediction
        return self.prediction[1] if isinstance(self.prediction, tuple) and len(self.prediction) == 2 else None

    @property
    def _given(self) -> tuple[Prior, ...]:
        if self.stated_prediction is None or is_by_group(self.stated_prediction):
            return ()
        return (
            tuple(self.stated_prediction) if isinstance(self.stated_prediction, Sequence) else (self.stated_prediction,)
        )

    @property
    def _for_each_group(self) -> bool:
        """Whether groups have priors of their own."""
        return self.borrows or is_by_group(self.stated_prediction)

    @property
    def _form(self) -> Form:
        """The form of the rule: predicted cells are cells."""
        return "cells" if self.form == "predicted" else self.form

    @property
    def _grouped(self) -> bool:
        return bool(self.by) or self.where is not None

    @property
    def _budget(self) -> Budget:
        """The price in epsilon or in rho; that of an (epsilon, delta) is its epsilon."""
        if self.delta is not None and self.epsilon is not None:
            positive(self.delta, name="delta")
            return Budget.of(epsilon=self.epsilon, rho=self.rho)
        return Budget.of(epsilon=self.epsilon, delta=self.delta, rho=self.rho)

    def _rule(self, levels: tuple[Fraction, ...], *, codes: int, unit: Unit, groups: Groups | None = None) -> FormRule:
        """Return the rule of forms for what the quantiles may cost; by group the counts have had their share.

        In rho by group the price is that of one row already: a unit's rows cost their squares, summed over groups.
        """
        delta = None if self.delta is None else exact(self.delta, name="delta")
        if delta is not None and not delta < 1:
            raise RangeError(f"delta must lie between 0 and 1, got {self.delta}; far below one over the number of rows")
        budget = self._budget.part(1 - SIZES_SHARE) if self._grouped else self._budget
        if groups is not None and not budget.is_pure:
            budget = budget.part(Fraction(1, groups.norms.l2_squared))
        return FormRule(
            form=self._form,
            levels=levels,
            codes=codes,
            budget=budget,
            delta=delta,
            unit=unit,
            size=self.size,
            counted=self._grouped,
            predicted=self.form == "predicted",
        )

    def _tree(self, levels: tuple[Fraction, ...], *, unit: Unit, rule: FormRule | None = None) -> QuantileTree:
        """Return the tree that the query is without another form: with all of the budget."""
        rule = rule or self._rule(levels, codes=1, unit=unit)
        in_rho = rule.settled is not None and not rule.settled.budget.is_pure
        rows = rows_of_unit(unit)
        price: dict[str, Any] = (
            {"rho": rule.settled.budget.amount * rows**2}
            if in_rho and rule.settled is not None
            else {"epsilon" if rule.budget.is_pure else "rho": rule.budget.amount}
        )
        return _known_tree(levels, unit=unit, **price)

    def declare(self) -> Number:
        """Return the declaration of a bare array: its granularity and bounds as written in the query."""
        if self._grouped:
            raise SchemaError("quantiles by group want sl.Table(data, schema=[...]), with the columns declared")
        if self.column is not None:
            raise SchemaError(
                f"column {self.column!r} names a column of a table, and what came is not an sl.Table; pass "
                f"sl.Table(data, schema=[sl.Number({self.column!r})]), or that column alone and no column="
            )
        lower, upper = self.bounds
        return Number("value", lower=lower, upper=upper, granularity=self.granularity)

    def prepare(self, schema: Schema) -> PreparedQuantiles | PreparedCellPriors:
        """Check the query against the schema, choose the grid and the priors, and price it. Opens no data."""
        if self._for_each_group:
            return with_own_priors(self, schema)
        number = number_of(self, schema)
        levels = exact_levels(self.levels)
        grid = outcome_grid(number)
        priors = self._given or (default_prior(number),)
        for prior in dict.fromkeys(self._given):
            check_reach(prior, grid)
            warn_if_unhedged(prior)
        rehearse(number, grid)
        if self.form == "predicted":
            warnings.warn(
                "cells are taken from the prediction: where that is wrong and epsilon times the number of rows is above"
                ' 2000, errors are many times larger; leave form="predicted" out unless there are few rows',
                HedgeWarning,
                stacklevel=3,
            )
        groups, unit = None, schema.unit
        if self._grouped:
            groups = groups_asked(self, schema)
            unit = counted_unit(groups, self._budget)
        rule = self._rule(levels, codes=codes_of(grid), unit=unit, groups=groups)
        tree = self._tree(levels, unit=unit, rule=rule)
        distinct = tuple(dict.fromkeys(priors))
        compiled = {prior: prior.compile(grid) for prior in distinct}
        priors = priors * len(levels) if len(priors) == 1 else priors
        as_tree = rule.settled is not None and rule.settled.form == "tree"
        prepared = PreparedQuantiles(
            claims=rule.with_delta(tree.claims) if as_tree else rule.claims,
            request={
                "kind": "quantiles",
                "column": number.name,
                "levels": [decimal_text(level) for level in tree.levels],
                **self._price,
                **({} if as_tree else {"form": self._form}),
                **({"cells": "predicted"} if self.form == "predicted" else {}),
                **({} if self.size is None else {"size": str(self.size)}),
                "branching": str(tree.branching),
                "budget_power": decimal_text(tree.budget_power),
                "adaptation": "conditional",
                "score": "exact",
                "grid": grid_to_json(grid),
                "priors": [prior.to_json() for prior in distinct],
            },
            labels=tuple(f"{float(100 * level):.10g} %" for level in tree.levels),
            prediction=_described(distinct) if self._given else None,
            error=expected_gap(tree, priors, grid, size=self.size) if as_tree else None,
            column=number.name,
            tree=tree,
            grid=grid,
            priors=priors,
            compiled=tuple(compiled[prior] for prior in priors),
            rule=rule,
        )
        return prepared if groups is None else by_group(self, prepared, groups)

    @property
    def _price(self) -> dict[str, str]:
        """What the ledger records of the price."""
        given = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return {name: decimal_text(exact(each, name=name)) for name, each in given.items() if each is not None}

    def release(self, data: Any) -> Release[QuantileValues]:
        """Release from a bare array, Series or column, or a table, with exactly this query's budget and no ledger."""
        return release_once(self, data)


#: What is computed after a release, for every pair of levels, must fit into memory.
MOST_LEVELS = 5000


def check_parameters(query: Any, *, levels: int) -> None:
    """Refuse parameters that cannot work with this number of levels; what it may cost is checked elsewhere."""
    if levels > MOST_LEVELS:
        raise RangeError(
            f"at most {MOST_LEVELS} levels can be asked for at once, got {levels}; sl.Distribution(column, "
            "epsilon=...) knows every quantile, and costs as much"
        )
    if not query.by and (query.max_groups is not None or query.max_rows_per_group is not None) and query.where is None:
        raise RangeError("max_groups and max_rows_per_group are for quantiles by group; give by=, or leave them out")
    if not isinstance(query.bounds, (tuple, list)) or len(query.bounds) != 2:
        raise RangeError(f"bounds are two numbers, (lower, upper), of which one may be None, got {query.bounds!r}")
    if query.form == "predicted" and query.stated_prediction is None:
        raise RangeError('form="predicted" wants a prediction; give one, or another form')
    if query.size is not None and (query.by or query.where is not None):
        raise RangeError("size is the number of all rows, and by group every group's is released; leave it out")
    if (
        query.borrows
        and query.prediction != "total"
        and (query.prediction[0] != "total" or query.stated_prediction is None)
    ):
        raise RangeError(f"a prediction that is a text is 'total', or ('total', predictions), got {query.prediction!r}")
    if not query.by and query._for_each_group:
        raise RangeError("'total' and predictions by group are for quantiles by group; give by=")
    if query.form == "predicted" and query._for_each_group:
        raise RangeError('form="predicted" wants one prediction for all groups; take another form')
    for prior in query._given:
        if not is_prior(prior):
            fit = "; sl.quantiles.fit_public(...) makes priors of it" if isinstance(prior, PublicData) else ""
            raise RangeError(
                f"prediction must be a prior such as sl.priors.Cauchy(location, scale), got {type(prior).__name__}{fit}"
            )
    if isinstance(query.stated_prediction, Sequence) and len(query.stated_prediction) != levels:
        raise RangeError(
            f"prediction must be one prior, or one for each of the {levels} levels, got {len(query.stated_prediction)}"
        )


#: A tree is the same for every release of a query: of exact numbers alone.
_known_tree = lru_cache(maxsize=16)(quantile_tree)


def _described(priors: tuple[Prior, ...]) -> Mapping[str, Any]:
    """Return what was predicted and where it came from."""
    first, *others = priors
    return {
        "description": describe(first) + (f", and {len(others)} more: one for each level" if others else ""),
        "priors": [prior.to_json() for prior in priors],
        "origin": first.origin.to_json(),
    }

"""Which engine a domain needs: a decision by public sizes, with an error that says what to use instead.

Linear queries are answered from the whole marginal of their columns, or one by one. The whole marginal answers all of
them with one measurement, and adds up the noise of every cell that a query counts: it is the better choice for many
queries of a few cells each. One query on 1e5 cells is better asked by itself. The two noises are compared before
anything is released: the price, the declared bounds and the matrix decide.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.engine_plan import MarginalPlan
from sidelight.synthesis.loglinear import LogLinearPlan
from sidelight.synthesis.measurement import Protection
from sidelight.synthesis.prediction import TablePrediction
from sidelight.synthesis.single_queries import SingleQueryPlan
from sidelight.synthesis.spaces import MOST_DENSE_CELLS, check_dense
from sidelight.synthesis.workload import LinearQueries, Workload

Engine = Literal["auto", "marginals", "queries", "mwem", "support", "loglinear"]
Chosen = Literal["marginals", "queries", "mwem", "support", "loglinear"]


def choose_engine(
    engine: Engine,
    domain: Domain,
    predicted: TablePrediction | None,
    workload: Workload,
    *,
    price: Budget,
    protection: Protection,
    rows: int | None = None,
) -> Chosen:
    """Return the engine, or say how large the domain is and which engine takes it.

    >>> from sidelight.synthesis.workload import marginals
    >>> paid = {"price": Budget.of(rho=1), "protection": Protection()}
    >>> choose_engine("auto", Domain(("a", "b"), (10, 10)), None, marginals(2), **paid)
    'marginals'
    """
    has_rows = predicted is not None and predicted.codes is not None
    if engine == "auto":
        if domain.cells <= MOST_DENSE_CELLS:
            linear = [part for part in workload.parts if isinstance(part, LinearQueries)]
            paid: dict[str, Any] = {"price": price, "protection": protection, "rows": rows}
            return "marginals" if all(marginal_is_better(part, domain, **paid) for part in linear) else "queries"
        # what is too large to be measured whole can still be weighted on public rows
        paid = {"domain": domain, "workload": workload, "price": price, "protection": protection, "rows": rows}
        return "loglinear" if predicted is None or not has_rows or _measurable(paid, predicted) else "support"
    if engine in ("marginals", "queries", "mwem"):
        check_dense(domain)
    if engine == "support" and not has_rows:
        raise RangeError(
            "engine='support' puts weights on public rows, and there are none; pass prediction=a public table, or use "
            f"engine={'marginals' if domain.cells <= MOST_DENSE_CELLS else 'loglinear'!r}"
        )
    return engine


def _measurable(paid: dict[str, Any], predicted: TablePrediction) -> bool:
    """Return whether all marginals can be measured at once."""
    assert predicted.codes is not None
    try:
        LogLinearPlan(**paid, rows_like=len(predicted.codes))
    except RangeError:
        return False
    return True


#: This many answers usually determine a fit well enough, whatever the number of queries.
USUAL_ANSWERS = 32

#: What a counted cell adds to the error of a query, in deviations of the noise: fitted counts are at least 0, so that
#: the noise of cells without rows does not cancel. Chosen with `benchmarks/linear_queries.py`.
KEPT_NOISE = 0.2

#: Cells with more rows than this many deviations keep next to nothing of it.
FEW_ROWS = 3.0


def marginal_is_better(
    part: LinearQueries, domain: Domain, *, price: Budget, protection: Protection, rows: int | None
) -> bool:
    """Compare the error of an answer from the whole marginal with the noise of one that is asked by itself.

    `rows` is the public number of rows; without one, cells are taken to have few.
    """
    (block,) = part.blocks(domain)
    shared: dict[str, Any] = {
        "domain": domain,
        "workload": Workload((part,)),
        "price": price,
        "protection": protection,
        "rows": rows,
    }
    spread, counted = query_sizes(part)
    cells = domain.cells_of(block.columns)
    deviation = MarginalPlan(**shared, rounds=1).deviation
    few = 1.0 if rows is None else min(1.0, FEW_ROWS * deviation * cells / rows)
    together = deviation * max(spread, KEPT_NOISE * counted * few)
    answers = min(block.count, cells, USUAL_ANSWERS)
    return together <= SingleQueryPlan(**shared, rounds=answers).deviation


def query_sizes(part: LinearQueries) -> tuple[float, float]:
    """Return √(mean Σq²) of the queries, and the mean number of cells that they count.

    A query and its complement, up to a constant, count alike: the number of all rows is known.

    >>> from sidelight.synthesis.workload import linear_queries
    >>> query_sizes(linear_queries([[1, 0, 0, 0], [0, 1, 1, 1]]).parts[0])  # both set one cell apart
    (1.4142135623730951, 1.0)
    """
    matrix, cells = part.matrix, part.matrix.shape[1]
    squares = matrix.multiply(matrix) if hasattr(matrix, "tocsr") else matrix**2
    sums, sizes, norms = (np.asarray(each.sum(axis=1)).ravel() for each in (matrix, abs(matrix), squares))
    counted = np.minimum(sizes, np.minimum(part.upper * cells - sums, sums - part.lower * cells))
    return float(np.sqrt(norms.mean())), float(counted.mean())

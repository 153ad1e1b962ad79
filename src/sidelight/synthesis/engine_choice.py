"""Which engine a domain needs: a decision by public sizes, with an error that says what to use instead."""

from __future__ import annotations

from typing import Any, Literal

from sidelight.errors import RangeError
from sidelight.mechanisms.budget import Budget
from sidelight.synthesis.cells.domain import Domain
from sidelight.synthesis.cells.spaces import MOST_DENSE_CELLS, check_dense
from sidelight.synthesis.cells.workload import LinearQueries, Workload
from sidelight.synthesis.engines.linear_choice import marginal_is_better
from sidelight.synthesis.measuring.private_marginals import Protection
from sidelight.synthesis.predicted.prediction import Predicted

Engine = Literal["auto", "marginals", "queries", "mwem", "support", "graphical"]
Chosen = Literal["marginals", "queries", "mwem", "support", "graphical"]


def choose_engine(
    engine: Engine,
    domain: Domain,
    predicted: Predicted | None,
    workload: Workload,
    *,
    price: Budget,
    protection: Protection,
    rows: int | None = None,
) -> Chosen:
    """Return the engine, or say how large the domain is and which engine takes it.

    >>> from sidelight.synthesis.cells.workload import marginals
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
        return "support" if has_rows else "graphical"
    if engine in ("marginals", "queries", "mwem"):
        check_dense(domain)
    if engine == "support" and not has_rows:
        raise RangeError(
            "engine='support' puts weights on public rows, and there are none; pass prediction=a public table, or use "
            f"engine={'marginals' if domain.cells <= MOST_DENSE_CELLS else 'graphical'!r}"
        )
    return engine

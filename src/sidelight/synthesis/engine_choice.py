"""Which engine a domain needs: a decision by public sizes, with an error that says what to use instead."""

from __future__ import annotations

from typing import Literal

from sidelight.errors import RangeError
from sidelight.synthesis.domain import Domain
from sidelight.synthesis.prediction import Predicted
from sidelight.synthesis.spaces import MOST_DENSE_CELLS, check_dense
from sidelight.synthesis.workload import LinearQueries, Workload

Engine = Literal["auto", "marginals", "mwem", "support", "graphical"]
Chosen = Literal["marginals", "mwem", "support", "graphical"]


def choose_engine(engine: Engine, domain: Domain, predicted: Predicted | None, workload: Workload) -> Chosen:
    """Return the engine, or say how large the domain is and which engine takes it.

    >>> from sidelight.synthesis.workload import marginals
    >>> choose_engine("auto", Domain(("a", "b"), (10, 10)), None, marginals(2))
    'marginals'
    """
    has_rows = predicted is not None and predicted.codes is not None
    if engine == "auto":
        if domain.cells <= MOST_DENSE_CELLS:
            linear = any(isinstance(part, LinearQueries) for part in workload.parts)
            return "mwem" if linear else "marginals"
        return "support" if has_rows else "graphical"
    if engine in ("marginals", "mwem"):
        check_dense(domain)
    if engine == "support" and not has_rows:
        raise RangeError(
            "engine='support' puts weights on public rows, and there are none; pass prediction=a public table, or use "
            f"engine={'marginals' if domain.cells <= MOST_DENSE_CELLS else 'graphical'!r}"
        )
    return engine

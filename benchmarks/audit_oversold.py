"""Does the auditor have teeth? Every query again, sold far below its price: the same quick attack must notice.

    python -m benchmarks.audit_oversold [names]

The query that runs has `TIMES` times the epsilon (or mu, or the square of it as rho) of the one whose claim is judged:
noise too small by that factor, whatever the mechanism draws and however its budget is divided. A query whose audit
refutes nothing here is one for which "nothing was refuted" means little: trust rests on its proof and its own tests.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

from sklearn.base import clone

from benchmarks.audit_queries import cases
from benchmarks.measuring import sized
from sidelight.audit import QueryAudit
from sidelight.audit.attacks import run_of
from sidelight.audit.query_audit import audit_runs
from sidelight.records import Schema
from sidelight.session.query import declared_delta, prepare_query

#: By how much the price is too low.
TIMES = 32
#: Enough to refute epsilon = 3 with a confidence of 1 - 1e-7, were the unit given away every time.
RUNS, TRIES = sized((960, 40), (20, 2))


def oversold(query: Any, *, times: int = TIMES) -> Any:
    """Return the same query at a multiple of its price."""
    if hasattr(query, "candidates"):
        return replace(query, candidates=[oversold(each, times=times) for each in query.candidates])
    if hasattr(query, "model"):
        return replace(query, model=clone(query.model).set_params(**_dearer(query.model, times)))
    return replace(query, **_dearer(query, times))


def _dearer(priced: Any, times: int) -> dict[str, str]:
    amounts = {"epsilon": times, "mu": times, "rho": times**2}
    paid = {name: getattr(priced, name, None) for name in amounts}
    return {name: str(Fraction(str(each)) * amounts[name]) for name, each in paid.items() if each is not None}


def attacked_oversold(names: Iterable[str] | None = None, *, times: int = TIMES) -> Iterator[tuple[str, QueryAudit]]:
    """Attack the claim of every case where the query that runs has been paid far more."""
    wanted = None if names is None else set(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, (query, columns) in list(cases().items())[: sized(None, 2)]:
            if wanted is not None and name not in wanted:
                continue
            schema = Schema(columns)
            honest, dear = prepare_query(query, schema), prepare_query(oversold(query, times=times), schema)
            delta = declared_delta(getattr(query, "model", query))
            yield (
                name,
                audit_runs(
                    run_of(dear),
                    schema,
                    claims=honest.claims,
                    kind=name,
                    delta=None if delta is None else float(delta),
                    runs=RUNS,
                    tries=TRIES,
                    kept=honest.kept_nodes(),
                ),
            )


def main() -> None:
    """Attack the cases that are named, or all, and print what was noticed."""
    for name, found in attacked_oversold(sys.argv[1:] or None):
        print(f"{name}: {'noticed' if found.refuted else 'MISSED'}: {found}", flush=True)


if __name__ == "__main__":
    main()

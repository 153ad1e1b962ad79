"""How many rounds: tried out on public rows, for nothing. The private rows and their error are never asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sidelight.errors import RangeError
from sidelight.noise import Source, integers_below
from sidelight.synthesis.cells.domain import Codes
from sidelight.synthesis.cells.spaces import Space
from sidelight.synthesis.engines.marginals import release_distribution
from sidelight.synthesis.engines.plan import MarginalPlan
from sidelight.synthesis.fitting.prior import Prior
from sidelight.synthesis.measuring.private_marginals import PrivateMarginals


def usual_tries(plan: MarginalPlan) -> tuple[int, ...]:
    """Return half, once and twice the plan's own number of rounds."""
    usual, most = replace(plan, rounds=None).total_rounds, len(plan.candidates)
    return tuple(sorted({max(1, usual // 2), usual, min(2 * usual, most)}))


def rounds_on_public_rows(
    plan: MarginalPlan,
    codes: Codes,
    *,
    rows: int | None = None,
    tries: Sequence[int] | None = None,
    repeats: int = 2,
    prior: Prior | None = None,
    space: Space | None = None,
    source: Source,
) -> int:
    """Return the number of rounds with the smallest mean error when public rows, drawn anew, stand in for the table.

    Guarantee: costs nothing; only public rows are read. `rows` is the expected size of the private table: the public
    one where it is known. A prior made of the same public rows would look better than it is, so the stand-in starts
    without one unless another is given.
    """
    public = plan.domain.check_codes(codes)
    size = plan.rows or rows
    if not len(public) or size is None or size < 1:
        raise RangeError("trying rounds on public rows needs public rows and the expected number of private ones")
    wanted = plan.workload.partitions(plan.domain, closure=False)
    errors: dict[int, float] = {}
    for rounds in tries or usual_tries(plan):
        found = []
        for _ in range(repeats):
            stand_in = public[integers_below(len(public), size, source).astype(np.int64)]
            counts = PrivateMarginals.from_codes(plan.domain, stand_in, protection=plan.protection)
            fitted = release_distribution(counts, replace(plan, rounds=rounds), prior=prior, space=space, source=source)
            gaps = [
                np.abs(each.grouped(counts.exact(each.columns)) / size - mass).sum() / 2
                for each, mass in zip(wanted, fitted.marginals(wanted), strict=True)
            ]
            found.append(float(np.mean(gaps)))
        errors[rounds] = float(np.mean(found))
    return min(errors, key=lambda rounds: (errors[rounds], rounds))

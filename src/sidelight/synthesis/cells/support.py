"""The support of public rows: where a domain cannot be written down, weights live on rows known to be likely."""

from __future__ import annotations

import numpy as np

from sidelight.errors import RangeError
from sidelight.noise import Source, integers_below
from sidelight.synthesis.cells.domain import Codes, Domain
from sidelight.synthesis.cells.spaces import SupportSpace

#: Rows drawn from the product of the public one-way marginals, added to keep coverage.
EXTRA_POINTS = 20_000
MOST_POINTS = 2_000_000


def public_support(
    domain: Domain, codes: Codes, *, extra_points: int = EXTRA_POINTS, source: Source | None = None
) -> SupportSpace:
    """Return the distinct public rows, and rows drawn around them: each column from a public row of its own.

    Nothing here sees private rows. What no point covers cannot be fitted; `Fitted.missed_regions` finds such regions
    from released numbers.
    """
    rows = domain.check_codes(codes)
    rows = rows[domain.possible_rows(rows)]
    if not len(rows):
        raise RangeError("the support needs public rows that the domain allows, got none")
    if not 0 <= extra_points <= MOST_POINTS:
        raise RangeError(f"extra_points must lie in 0..{MOST_POINTS}, got {extra_points}")
    if extra_points and source is not None:
        drawn = np.empty((extra_points, len(domain.columns)), np.int64)
        for place in range(len(domain.columns)):
            drawn[:, place] = rows[integers_below(len(rows), extra_points, source).astype(np.int64), place]
        rows = np.concatenate([rows, drawn[domain.possible_rows(drawn)]])
    return SupportSpace(domain, np.unique(rows, axis=0))
